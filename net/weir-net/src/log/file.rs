//! Creating and opening a log's file.

use super::Kinds;
use super::clock::real_ns;
use super::layout::{HEADER_BYTES, LEAST_UNITS, LogShape, MAGIC, MOST_UNITS, UNIT_BYTES, VERSION};
use super::layout::{word, words_of};
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes written at once where the file system cannot reserve space.
const BLOCK_BYTES: usize = 64 << 10;
/// Attempts to find a name that no file has.
const TRIES: u32 = 16;

/// Creates a log at `path` with a ring of `ring_bytes`, rounded up to a power of two. A log that is
/// there already is kept beside it as `NAME.old` and replaces an older one.
pub fn create(path: &Path, ring_bytes: u64) -> Result<()> {
    let units = ring_bytes.div_ceil(UNIT_BYTES as u64).checked_next_power_of_two();
    let units = units.filter(|units| *units <= MOST_UNITS).ok_or_else(|| {
        let most = MOST_UNITS * UNIT_BYTES as u64;
        let why = format!("{ring_bytes} bytes are too many: at most {most}");
        Error::new(ErrorKind::Invalid, "make", object(path), why)
    })?;
    let shape = LogShape { units: units.max(LEAST_UNITS), created_ns: real_ns() };
    let has_old = is_log(path)?;
    if has_old {
        // The log that is there takes its place, and the new one may need its space.
        let _ = rustix::fs::unlink(old_name(path));
    }
    let (file, new) = open_new(path)?;
    let keep_old = || if has_old { rustix::fs::rename(path, old_name(path)) } else { Ok(()) };
    // Whoever opens the name finds the old log, no log, or the complete new one. The old one stays
    // there until the new one is complete.
    let made = fill(&file, &shape).and_then(|()| keep_old());
    made.and_then(|()| rustix::fs::rename(&new, path)).map_err(|cause| {
        let _ = rustix::fs::unlink(&new);
        Error::os("make", object(path), cause)
    })
}

/// Whether a log of this user is there, even a damaged one or one of another version, which does not
/// keep a switch from starting. Any other file there is an error.
fn is_log(path: &Path) -> Result<bool> {
    let failed = |cause| Error::os("make", object(path), cause);
    let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file: Option<File> = match rustix::fs::open(path, how | OFlags::NOCTTY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(false),
        Err(Errno::LOOP | Errno::ACCESS | Errno::NXIO) => None,
        file => Some(file.map_err(failed)?.into()),
    };
    let is_ours = file.is_some_and(|file| {
        let mut magic = [0; 8];
        let own = rustix::fs::fstat(&file).is_ok_and(|found| is_own(&found));
        own && file.read_exact_at(&mut magic, 0).is_ok() && u64::from_ne_bytes(magic) == MAGIC
    });
    if !is_ours {
        let why = "a file that is not a log of this user is in its place; it is left alone";
        return Err(Error::new(ErrorKind::Taken, "make", object(path), why));
    }
    Ok(true)
}

fn is_own(found: &Stat) -> bool {
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    is_file && found.st_uid == rustix::process::geteuid().as_raw()
}

/// Returns the path under which the previous log is kept.
pub fn old_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".old");
    name.into()
}

fn open_new(path: &Path) -> Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let how = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut tries = 0;
    loop {
        let mut name = OsString::from(path);
        // Relaxed: only the uniqueness of the number matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".new.{}.{number}", std::process::id()));
        tries += 1;
        match rustix::fs::open(&name, how, Mode::RUSR | Mode::WUSR) {
            // A process with this number died while it created a log.
            Err(Errno::EXIST) if tries < TRIES => {}
            Err(cause) => return Err(Error::os("make", object(path), cause)),
            Ok(file) => return Ok((file.into(), name.into())),
        }
    }
}

/// Reserves the disk space, since a disk that fills up later would mean SIGBUS, and writes the
/// header.
fn fill(file: &File, shape: &LogShape) -> rustix::io::Result<()> {
    let bytes = shape.file_bytes();
    let reserve = || rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes);
    match retry_on_intr(reserve) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, bytes)?,
        done => done?,
    }
    let mut header = vec![0; HEADER_BYTES];
    let mut put = |index: usize, value: u64| {
        header[index * 8..][..8].copy_from_slice(&value.to_ne_bytes());
    };
    put(word::MAGIC, MAGIC);
    put(word::VERSION, VERSION);
    put(word::UNITS, shape.units);
    put(word::CREATED_NS, shape.created_ns);
    put(word::MASKS, u64::from(Kinds::USUAL.bits()));
    file.write_all_at(&header, 0).map_err(errno)?;
    // After a power failure there is a complete log or none.
    file.sync_all().map_err(errno)
}

/// Fills the file where the file system cannot reserve space.
fn write_zeros(file: &File, bytes: u64) -> rustix::io::Result<()> {
    let block = vec![0; BLOCK_BYTES];
    for at in (0..bytes).step_by(BLOCK_BYTES) {
        let now = (bytes - at).min(BLOCK_BYTES as u64);
        file.write_all_at(&block[..now as usize], at).map_err(errno)?;
    }
    Ok(())
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Opens a log for writing. It must be this user's and writable by nobody else: whoever shortens
/// the file kills the processes that have mapped it.
pub fn open_own(path: &Path) -> Result<(File, LogShape)> {
    let (file, shape) = open(path, OFlags::RDWR)?;
    let failed = |cause| Error::os("open", object(path), cause);
    let found = rustix::fs::fstat(&file).map_err(failed)?;
    if !is_own(&found) || found.st_mode & 0o022 != 0 {
        let why = "it belongs to another user, or others may write it";
        return Err(Error::new(ErrorKind::Denied, "open", object(path), why));
    }
    Ok((file, shape))
}

/// Opens a log for reading.
pub fn open_any(path: &Path) -> Result<(File, LogShape)> {
    open(path, OFlags::RDONLY)
}

fn open(path: &Path, access: OFlags) -> Result<(File, LogShape)> {
    let failed = |cause: Errno| Error::os("open", object(path), cause);
    let corrupt = |why: &str| Error::new(ErrorKind::Corrupt, "open", object(path), why);
    let how = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: File = match rustix::fs::open(path, how, Mode::empty()) {
        Err(Errno::LOOP) => return Err(corrupt("it is a symbolic link")),
        Err(Errno::ISDIR | Errno::NXIO) => return Err(corrupt("it is not a file")),
        file => file.map_err(failed)?.into(),
    };
    let found = rustix::fs::fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(corrupt("it is not a file"));
    }
    let bytes = u64::try_from(found.st_size).unwrap_or(0);
    if bytes < HEADER_BYTES as u64 {
        return Err(corrupt("it is not a log of weir net: too short"));
    }
    let mut header = [0; 32];
    file.read_exact_at(&mut header, 0).map_err(|cause| Error::os("open", object(path), cause))?;
    let shape = LogShape::read(&words_of(&header), bytes).map_err(|why| corrupt(&why))?;
    Ok((file, shape))
}

/// Returns the name of the log for errors.
pub fn object(path: &Path) -> String {
    format!("log '{}'", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn zeros_take_the_space_that_could_not_be_set_aside() {
        let file = tempfile::tempfile().expect("a file");
        for bytes in [1, 65_536, 200_000] {
            write_zeros(&file, bytes).expect("written");
            let found = file.metadata().expect("there");
            assert_eq!(found.len(), bytes);
            assert!(found.blocks() * 512 >= bytes);
        }
    }
}
