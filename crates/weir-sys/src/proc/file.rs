//! Small files of `/proc`, kept open and read from their start each time.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// A file of `/proc` that is read repeatedly.
#[derive(Debug)]
pub struct ProcFile {
    fd: OwnedFd,
}

impl ProcFile {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// `ENOENT` when the process is gone, `EACCES` when `/proc` hides it.
    pub fn open(path: &str) -> Result<ProcFile, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(ProcFile { fd: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Reads the file from its start into `buffer`; a longer file is cut.
    ///
    /// # Errors
    /// `ESRCH` when the process is gone, `EPERM` or `EACCES` without permission.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let n = rustix::io::pread(&self.fd, &mut *buffer, 0)?;
        Ok(&buffer[..n])
    }
}

/// Opens, reads and closes a file of at most `buffer.len()` bytes; a longer one is cut.
///
/// # Errors
/// Those of [`ProcFile::open`] and [`ProcFile::read`].
pub fn read_small<'b>(path: &str, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    ProcFile::open(path)?.read(buffer)
}
