//! Publishing the table of this process in a file.

use super::clock;
use super::cpu::started_ticks;
use super::layout::{
    CLOCK_AT, HZ_AT, MAGIC, MAGIC_AT, NAME_BYTES, PID_AT, PROCESS_AT, STARTED_AT, VERSION,
    VERSION_AT,
};
use super::names;
use super::table::{self, TABLE};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, lstat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use weir_sys::Pid;

/// The process that has published; a forked child has not.
static PUBLISHER: AtomicU32 = AtomicU32::new(0);

/// A profile that others may observe. Dropping it removes its file; the table stays in the file for
/// those who have it open.
#[derive(Debug)]
#[must_use = "the file is removed when this is dropped"]
pub struct Published {
    path: PathBuf,
    file: File,
    publisher: u32,
}

/// Publishes the table of this process in a new file at `path`, which only this user may open.
/// Counts that other threads make during the call may be lost.
///
/// The first call calibrates the clock, which takes 200 ms at most.
///
/// # Errors
/// `InvalidInput`: the name is empty, longer than 32 bytes or not printable. `AlreadyExists`: this
/// process has published already; or a file is there that is not the profile of an ended process of
/// this user. Else the file's errors, of which `Unsupported` means that pages are not of 4 KiB.
pub fn publish(path: &Path, name: &str) -> io::Result<Published> {
    if name.is_empty()
        || name.len() > NAME_BYTES
        || name.chars().any(weir_policy::text::is_unsafe_to_print)
    {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    table::ready()?;
    let me = std::process::id();
    // Relaxed: it only tells who published, and guards nothing.
    let claim = PUBLISHER
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |who| (who != me).then_some(me));
    if claim.is_err() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this process has published"));
    }
    lay(path, name, me).inspect_err(|_| PUBLISHER.store(0, Ordering::Relaxed))
}

fn lay(path: &Path, name: &str, publisher: u32) -> io::Result<Published> {
    remove_stale(path)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    // From here on the file is removed on failure.
    let published = Published { path: path.to_owned(), file, publisher };
    // A process that opens the file too early must see that it is not a profile yet.
    TABLE.word(MAGIC_AT).store(0, Ordering::Relaxed);
    TABLE.share(&published.file)?;
    write_header(name)?;
    names::write_names();
    Ok(published)
}

/// Whether this process itself, and not its parent before a fork, has published.
pub fn is_published() -> bool {
    PUBLISHER.load(Ordering::Relaxed) == std::process::id()
}

pub fn write_header(name: &str) -> io::Result<()> {
    let (clock, me) = (clock::clock(), std::process::id());
    let started = started_ticks(me as Pid);
    let started = started.ok_or_else(|| io::Error::other("/proc does not show this process"))?;
    for (at, value) in [
        (VERSION_AT, VERSION),
        (PID_AT, u64::from(me)),
        (STARTED_AT, started),
        (HZ_AT, clock.hz),
        (CLOCK_AT, clock.kind),
    ] {
        TABLE.word(at).store(value, Ordering::Relaxed);
    }
    names::write_text(PROCESS_AT, name);
    // Release: a process that sees the magic sees the rest.
    TABLE.word(MAGIC_AT).store(MAGIC, Ordering::Release);
    Ok(())
}

/// Removes the file of an ended process, or of this one before it executed another program.
fn remove_stale(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(rustix::io::Errno::LOOP) => return Err(taken("it is a link")),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(taken("it is not a file of this user's"));
    }
    let mut header = [0; 32];
    let read = file.read_exact_at(&mut header, 0);
    let word = |at: usize| {
        let eight = header.as_chunks::<8>().0[at];
        u64::from_ne_bytes(eight)
    };
    if read.is_err() || word(MAGIC_AT) != MAGIC {
        return Err(taken("it is not a profile"));
    }
    let pid = Pid::try_from(word(PID_AT)).unwrap_or(0);
    let lives = started_ticks(pid) == Some(word(STARTED_AT));
    if lives && pid != std::process::id() as Pid {
        return Err(taken(format!("process {pid} has it")));
    }
    // Another process may have found the same file, and may have one of its own there by now. Who
    // has locked what is stale is the only one that removes it. Nobody waits for the lock: whoever
    // has it may keep it for ever.
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(taken("another process is replacing it")),
        Err(cause) => Err(cause.into()),
        Ok(()) if is_at(&file, path) => std::fs::remove_file(path),
        Ok(()) => Ok(()),
    }
}

/// Whether this very file is at the path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(mine), Ok(there)) = (fstat(file), lstat(path)) else { return false };
    (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
}

fn taken(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, why.into())
}

impl Published {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // A forked child must not remove its parent's file.
        if self.publisher != std::process::id() {
            return;
        }
        if is_at(&self.file, &self.path) {
            // Another process has just removed it: that is not an error.
            let _ = std::fs::remove_file(&self.path);
        }
        PUBLISHER.store(0, Ordering::Relaxed);
    }
}
