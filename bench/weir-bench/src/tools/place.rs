//! Names for ports: each is in a directory of this process, which is removed afterwards.
//!
//! A directory is locked while a process uses it, so that another can tell what was left by killed ones. Process
//! numbers do not tell: two containers may share the directory of temporary files, and each has its own numbers.

use super::own::ChannelSide;
use crate::engine::case::CaseError;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = ".weir-bench-";

/// A directory that the process that made it removes.
#[derive(Debug)]
pub struct PortDirectory {
    directory: PathBuf,
    maker: u32,
    /// Locked. Forked children have it too.
    _lock: OwnedFd,
}

impl PortDirectory {
    /// Makes a directory beside other temporary files. The first call also removes what killed
    /// processes have left.
    pub fn new() -> Result<PortDirectory, CaseError> {
        static SWEPT: Once = Once::new();
        let parent = std::env::temp_dir();
        SWEPT.call_once(|| sweep(&parent));
        PortDirectory::make(&parent)
    }

    /// Makes a directory below another one, and removes what killed processes have left there.
    pub fn below(parent: &Path) -> Result<PortDirectory, CaseError> {
        sweep(parent);
        PortDirectory::make(parent)
    }

    fn make(parent: &Path) -> Result<PortDirectory, CaseError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let maker = std::process::id();
        loop {
            // Relaxed: the numbers only have to differ.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let directory = parent.join(format!("{PREFIX}{maker}-{number}"));
            let cannot = |error| {
                let error = std::io::Error::from(error);
                CaseError::left_out(format!("cannot make {}: {error}", directory.display()))
            };
            match rustix::fs::mkdir(&directory, Mode::RWXU) {
                // That of a process in another namespace, with the same number.
                Err(rustix::io::Errno::EXIST) => continue,
                made => made.map_err(cannot)?,
            }
            // Another process may sweep it away before it is locked.
            if let Some(lock) = locked(&directory, FlockOperation::LockExclusive) {
                return Ok(PortDirectory { directory, maker, _lock: lock });
            }
        }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn name(&self) -> PathBuf {
        self.directory.join("port")
    }

    /// Removes it early: all who need it have opened it.
    pub fn remove(&self) {
        if std::process::id() == self.maker {
            // A failure leaves only an unused directory.
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

impl Drop for PortDirectory {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A name under which the ends of a channel meet, and the sides that this process has.
#[derive(Debug)]
pub struct Meeting {
    place: PortDirectory,
    side: Cell<ChannelSide>,
    settled: Cell<bool>,
}

impl Meeting {
    /// Chooses a name.
    pub fn new() -> Result<Meeting, CaseError> {
        let (side, settled) = (Cell::new(ChannelSide::Both), Cell::new(false));
        Ok(Meeting { place: PortDirectory::new()?, side, settled })
    }

    pub fn place(&self) -> &PortDirectory {
        &self.place
    }

    /// Says that this process has only one side.
    pub fn only(&self, side: ChannelSide) {
        self.side.set(side);
    }

    /// Whether this process sends to itself.
    pub fn has_both(&self) -> bool {
        self.side.get() == ChannelSide::Both
    }

    /// Removes the name, which is not needed any more: every sender has sent something by now.
    #[inline]
    pub fn settled(&self) {
        if !self.settled.replace(true) {
            self.place.remove();
        }
    }
}

/// Locks a directory, if it is there and stays there.
fn locked(directory: &Path, how: FlockOperation) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = rustix::fs::open(directory, flags, Mode::empty()).ok()?;
    flock(&lock, how).ok()?;
    let (held, there) = (rustix::fs::fstat(&lock).ok()?, rustix::fs::stat(directory).ok()?);
    (held.st_ino == there.st_ino).then_some(lock)
}

/// Removes the directories that nobody holds.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && locked(&entry.path(), FlockOperation::NonBlockingLockExclusive).is_some() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_its_maker_and_before_its_time() {
        let (one, other) =
            (PortDirectory::new().expect("made"), PortDirectory::new().expect("made"));
        assert_ne!(one.name(), other.name());
        let directory = one.name().parent().expect("a parent").to_owned();
        assert!(directory.is_dir());
        drop(one);
        assert!(!directory.exists());
        std::fs::write(other.name(), b"").expect("written");
        other.remove();
        assert!(!other.name().exists());
    }

    /// A process in another container, where this one's number was free, removed what this one used.
    #[test]
    fn only_what_nobody_holds_is_swept_away() {
        let parent = PortDirectory::new().expect("made");
        let [held, left] =
            ["1-0", "1-1"].map(|name| parent.directory().join(format!("{PREFIX}{name}")));
        for directory in [&held, &left] {
            std::fs::create_dir(directory).expect("made");
        }
        let lock = locked(&held, FlockOperation::LockExclusive).expect("locked");
        sweep(parent.directory());
        assert!(held.exists() && !left.exists());
        drop(lock);
        sweep(parent.directory());
        assert!(!held.exists());
    }
}
