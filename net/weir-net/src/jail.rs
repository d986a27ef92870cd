//! Files below one directory, for names that strangers choose.
//!
//! The kernel resolves each name below the directory (openat2, `RESOLVE_BENEATH`): neither `..` nor a
//! symbolic link leads out, whatever is renamed meanwhile. Only plain files are opened.

use crate::error::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How names begin of files that are not complete. Such names are refused.
const PART: &[u8] = b".weir-part-";
/// Bytes of a file that short pieces are gathered to before they are written.
const WRITE_BYTES: usize = 32 << 10;
/// Bytes from which on to copy them there takes longer than a call of the system.
const LONG_BYTES: usize = 4 << 10;
/// How often a name is resolved again, when directories are renamed meanwhile.
const MOST_TRIES: usize = 8;

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such file.
    NotFound,
    /// It may not be read or written, is not a plain file, or lies outside.
    Access,
    /// It is there already.
    Exists,
    /// There is no room on the disk.
    Full,
    /// The kernel has no descriptors left, or a disk fails.
    Trouble,
}

impl Refusal {
    /// Returns what is said to the other side.
    pub fn as_str(self) -> &'static str {
        match self {
            Refusal::NotFound => "no such file",
            Refusal::Access => "no access to this file",
            Refusal::Exists => "the file is there already",
            Refusal::Full => "no room for the file",
            Refusal::Trouble => "the file cannot be used now",
        }
    }

    /// Says why an error of the kernel refuses a name.
    pub fn of(cause: &io::Error) -> Refusal {
        match Errno::from_io_error(cause) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Refusal::NotFound,
            Some(Errno::EXIST) => Refusal::Exists,
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Refusal::Full,
            Some(
                Errno::ACCESS
                | Errno::PERM
                | Errno::XDEV
                | Errno::LOOP
                | Errno::ISDIR
                | Errno::ROFS
                | Errno::NXIO
                | Errno::TXTBSY,
            ) => Refusal::Access,
            _ => Refusal::Trouble,
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::of(&io::Error::from(errno))
    }
}

/// A directory that no name leads out of.
#[derive(Debug)]
pub struct Jail {
    directory: OwnedFd,
}

impl Jail {
    /// Opens the directory.
    ///
    /// # Errors
    /// It is not a directory, or may not be searched; the kernel has no openat2 (before 5.6).
    pub fn open(path: &Path) -> Result<Jail> {
        Jail::open_to("serve", path)
    }

    fn open_to(operation: &'static str, path: &Path) -> Result<Jail> {
        let object = || format!("the directory '{}'", path.display());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let directory = opened.map_err(|cause| Error::os(operation, object(), cause))?;
        let jail = Jail { directory };
        match jail.resolve(b".", OFlags::PATH) {
            Ok(_) => Ok(jail),
            Err(Errno::NOSYS) => {
                let why = "the kernel has no openat2, which keeps names within it";
                Err(Error::new(ErrorKind::Os, operation, object(), why))
            }
            Err(cause) => Err(Error::os(operation, object(), cause)),
        }
    }

    fn resolve(&self, name: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        // A name from the root is meant below the directory, as clients of other servers expect.
        let start = name.iter().position(|byte| *byte != b'/').unwrap_or(name.len());
        let name = if start == name.len() { b"." } else { &name[start..] };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        let mut tries = MOST_TRIES;
        loop {
            let opened = rustix::fs::openat2(&self.directory, name, flags, Mode::empty(), how);
            tries -= 1;
            match opened {
                Err(Errno::AGAIN | Errno::INTR) if tries > 0 => {}
                opened => return opened,
            }
        }
    }

    /// Opens a file to read, and returns its length. Only files that all users may read are opened.
    pub fn read(&self, name: &[u8]) -> std::result::Result<(File, u64), Refusal> {
        if last_part(name).starts_with(PART) {
            return Err(Refusal::NotFound);
        }
        // NONBLOCK: a named pipe would wait for its writer.
        let file = self.resolve(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let found = rustix::fs::fstat(&file)?;
        let is_plain = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !is_plain || found.st_mode & 0o004 == 0 {
            return Err(Refusal::Access);
        }
        Ok((File::from(file), u64::try_from(found.st_size).unwrap_or(0)))
    }

    /// Begins a file of at most this many bytes. It gets its name when it is complete; with
    /// `replaces` in place of a file that is there.
    pub fn create(
        &self,
        name: &[u8],
        replaces: bool,
        most_bytes: u64,
    ) -> std::result::Result<PartFile, Refusal> {
        let last = last_part(name);
        if matches!(last, b"" | b"." | b"..") || last.starts_with(PART) {
            return Err(Refusal::Access);
        }
        let directory = &name[..name.len() - last.len()];
        let directory = self.resolve(directory, OFlags::PATH | OFlags::DIRECTORY)?;
        match rustix::fs::statat(&directory, last, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Err(cause) => return Err(cause.into()),
            Ok(_) if !replaces => return Err(Refusal::Exists),
            Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
                return Err(Refusal::Access);
            }
            Ok(_) => {}
        }
        let mut part = PART.to_vec();
        part.extend(std::iter::repeat_with(fastrand::alphanumeric).take(16).map(|c| c as u8));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = rustix::fs::openat(&directory, part.as_slice(), flags, mode)?;
        Ok(PartFile {
            directory,
            part: Some(part),
            name: last.to_vec(),
            replaces,
            file: File::from(file),
            unwritten: Vec::new(),
            room_bytes: most_bytes,
        })
    }
}

/// Begins a file at any path, in place of a file that is there. It gets its name when it is complete.
///
/// # Errors
/// There is no such directory, or it may not be written.
pub fn new_file(path: &Path) -> Result<PartFile> {
    let object = || format!("'{}'", path.display());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default().as_bytes();
    let refused = |why| Err(Error::new(ErrorKind::Denied, "write", object(), why));
    // The path would lose the slash, and a directory be made a file.
    if path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir() {
        return refused("it is a directory");
    }
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return refused("it is not a plain file");
    }
    let jail = Jail::open_to("write to", parent.unwrap_or(Path::new(".")))?;
    jail.create(name, true, u64::MAX).map_err(|refusal| {
        let kind = if refusal == Refusal::Access { ErrorKind::Denied } else { ErrorKind::Os };
        Error::new(kind, "write", object(), refusal.as_str())
    })
}

/// Opens a plain file at any path to read, and returns its length.
///
/// # Errors
/// It cannot be read, or is not a plain file.
pub fn plain_file(path: &Path) -> Result<(File, u64)> {
    let object = || format!("'{}'", path.display());
    let unreadable = |cause: Errno| Error::os("read", object(), cause);
    // NONBLOCK: a named pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(unreadable)?;
    let found = rustix::fs::fstat(&file).map_err(unreadable)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Error::new(ErrorKind::Invalid, "read", object(), "it is not a plain file"));
    }
    Ok((File::from(file), u64::try_from(found.st_size).unwrap_or(0)))
}

fn last_part(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// A file that is being written, under a name of its own. Dropped before it is complete, it is
/// removed.
#[derive(Debug)]
pub struct PartFile {
    directory: OwnedFd,
    part: Option<Vec<u8>>,
    name: Vec<u8>,
    replaces: bool,
    file: File,
    /// Bytes that are written together with further ones.
    unwritten: Vec<u8>,
    room_bytes: u64,
}

impl PartFile {
    /// Appends these bytes.
    ///
    /// # Errors
    /// The file would be longer than it may be (EFBIG), or the kernel's.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.room_bytes.checked_sub(bytes.len() as u64);
        self.room_bytes = left.ok_or_else(|| io::Error::from(Errno::FBIG))?;
        if bytes.len() >= LONG_BYTES {
            self.flush()?;
            return self.file.write_all(bytes);
        }
        self.unwritten.extend_from_slice(bytes);
        if self.unwritten.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.unwritten)?;
        self.unwritten.clear();
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// The name has been taken meanwhile (EEXIST), or the kernel's.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        let Some(part) = &self.part else { return Ok(()) };
        let flags = if self.replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let directory = self.directory.as_fd();
        let (part_name, name) = (part.as_slice(), self.name.as_slice());
        rustix::fs::renameat_with(directory, part_name, directory, name, flags)?;
        self.part = None;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = rustix::fs::unlinkat(&self.directory, part.as_slice(), AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file was made in place of a directory that was missing, and of a device it was said that
    /// there is no access to it.
    #[test]
    fn a_directory_and_a_device_are_no_new_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("file", &link).expect("linked");
        let (there, missing) = (directory.path().to_owned(), directory.path().join("missing/"));
        let (not_plain, a_directory) = ("it is not a plain file", "it is a directory");
        for (path, why) in [
            (missing, a_directory),
            (there, a_directory),
            (Path::new("/dev/null").to_owned(), not_plain),
            (link, not_plain),
        ] {
            let refused = new_file(&path).expect_err("refused").to_string();
            assert!(refused.ends_with(why), "{refused}");
        }
    }
}
