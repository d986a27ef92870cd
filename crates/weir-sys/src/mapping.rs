//! Mappings of memory.

use crate::check;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Access for reading and writing.
pub const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping of anonymous memory, of a file, or of memory of the kernel, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` of anonymous memory; `sharing` is `MAP_SHARED` or `MAP_PRIVATE`.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn new(bytes: usize, sharing: libc::c_int) -> io::Result<Mapping> {
        Mapping::map(bytes, READ_WRITE, sharing | libc::MAP_ANONYMOUS, -1, 0)
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
        Mapping::map(bytes, READ_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0)
    }

    /// Maps `bytes` of the kernel's memory behind `fd`, from `at` on; `access` is `PROT_READ` or
    /// [`READ_WRITE`].
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn of_fd(fd: impl AsFd, at: usize, bytes: usize, access: i32) -> io::Result<Mapping> {
        Mapping::map(bytes, access, libc::MAP_SHARED, fd.as_fd().as_raw_fd(), at)
    }

    fn map(bytes: usize, access: i32, kind: i32, fd: i32, at: usize) -> io::Result<Mapping> {
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at a place that the kernel chooses overlaps nothing.
        let start = unsafe { libc::mmap(null, bytes.max(1), access, kind, fd, at as i64) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: start.cast(), bytes })
    }

    /// Tells the kernel how the memory will be used.
    ///
    /// # Safety
    /// The advice neither unmaps a page nor changes one that somebody else relies on.
    ///
    /// # Errors
    /// Those of madvise(2).
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
