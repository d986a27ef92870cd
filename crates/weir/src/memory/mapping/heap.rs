//! Under miri, which knows no mappings of files: the heap. What lies there twice elsewhere does so
//! once.

use super::{Access, LEAST_PAGE_BYTES, Mapping, forks};
use rustix::io::Errno;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

pub fn page_bytes() -> u64 {
    LEAST_PAGE_BYTES as u64
}

impl Mapping {
    /// Zeros.
    pub(in crate::memory) fn of_zeros(bytes: usize) -> rustix::io::Result<Mapping> {
        let layout = Layout::from_size_align(bytes, LEAST_PAGE_BYTES);
        let layout = layout.map_err(|_| Errno::NOMEM)?;
        assert!(bytes > 0);
        // SAFETY: it has a byte at least (asserted).
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
        Ok(Mapping { start, bytes, access: Access::Own, epoch: forks::epoch() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Ok(layout) = Layout::from_size_align(self.bytes, LEAST_PAGE_BYTES) {
            // SAFETY: as `of_zeros` allocated it; what borrowed from it borrowed `self`.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}
