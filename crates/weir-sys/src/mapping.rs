//! Anonymous memory, mapped and unmapped in one place.

use std::io;

/// An anonymous mapping, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes`; `sharing` is `MAP_SHARED` or `MAP_PRIVATE`.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn new(bytes: usize, sharing: libc::c_int) -> io::Result<Mapping> {
        let (protection, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, sharing | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping at a place of the kernel's choice overlaps nothing.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes.max(1), protection, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: start.cast(), bytes })
    }

    /// Where it begins, at a page.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping, and what borrowed from it borrowed `self`.
        unsafe { libc::munmap(self.start.cast(), self.bytes.max(1)) };
    }
}
