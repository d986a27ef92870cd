//! Mappings of memory.

use crate::check;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Who sees what is written to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Whoever else has it, as a forked child.
    Shared,
    /// This process alone. A forked child has a copy.
    Private,
}

/// What may be done with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It can only be read. Its words may only be loaded with `Ordering::Relaxed`: std allows no
    /// other atomic operation on memory that is mapped read-only.
    Read,
    /// It can be read and written.
    ReadWrite,
}

impl Access {
    fn protection(self) -> libc::c_int {
        match self {
            Access::Read => libc::PROT_READ,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// A mapping of anonymous memory, of a file, or of memory of the kernel, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` of anonymous memory.
    pub fn new(bytes: usize, sharing: Sharing) -> io::Result<Mapping> {
        let kind = match sharing {
            Sharing::Shared => libc::MAP_SHARED,
            Sharing::Private => libc::MAP_PRIVATE,
        };
        Mapping::map(bytes, Access::ReadWrite, kind | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// Maps the first `bytes` of `file`, open for reading and writing, and shares them with it. If
    /// somebody shortens the file, touching the missing bytes kills the process (SIGBUS).
    ///
    /// # Errors
    /// Those of mmap(2); `InvalidInput`: the file is shorter, or `bytes` is 0.
    pub fn of_file(file: &File, bytes: usize) -> io::Result<Mapping> {
        if bytes == 0 || file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Mapping::map(bytes, Access::ReadWrite, libc::MAP_SHARED, file.as_raw_fd(), 0)
    }

    /// Maps `bytes` of the kernel's memory behind `fd`, from `at` on.
    pub fn of_fd(fd: impl AsFd, at: usize, bytes: usize, access: Access) -> io::Result<Mapping> {
        Mapping::map(bytes, access, libc::MAP_SHARED, fd.as_fd().as_raw_fd(), at)
    }

    /// Maps memory; `kind` holds no `MAP_FIXED`.
    fn map(bytes: usize, access: Access, kind: i32, fd: i32, at: usize) -> io::Result<Mapping> {
        let (null, how) = (std::ptr::null_mut(), access.protection());
        // SAFETY: a new mapping at a place that the kernel chooses overlaps nothing. None of the
        // callers above, whose kinds are constants, asks for another place.
        let start = unsafe { libc::mmap(null, bytes.max(1), how, kind, fd, at as i64) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: start.cast(), bytes })
    }

    /// Tells the kernel how the memory will be used.
    ///
    /// # Safety
    /// The advice neither unmaps a page nor changes one that somebody else relies on.
    pub unsafe fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is exactly the mapping; the advice is as the caller promises.
        check(unsafe { libc::madvise(self.start.cast(), self.bytes.max(1), advice) }).map(drop)
    }

    /// The address of the mapping, at the beginning of a page.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The length of the mapping.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.cast(), self.bytes.max(1)) };
    }
}
