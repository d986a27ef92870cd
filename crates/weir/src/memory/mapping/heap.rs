//! Mappings on the heap, for miri, which cannot map files. Nothing is mapped twice here.

use super::{LEAST_PAGE_BYTES, MapAccess, Mapping, forks};
use rustix::io::Errno;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

pub fn page_bytes() -> u64 {
    LEAST_PAGE_BYTES as u64
}

impl Mapping {
    pub fn of_zeros(bytes: usize) -> rustix::io::Result<Mapping> {
        let layout = Layout::from_size_align(bytes, LEAST_PAGE_BYTES);
        let layout = layout.map_err(|_| Errno::NOMEM)?;
        assert!(bytes > 0);
        // SAFETY: it has at least one byte (asserted).
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
        Ok(Mapping { start, bytes, access: MapAccess::Own, epoch: forks::epoch() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Ok(layout) = Layout::from_size_align(self.bytes, LEAST_PAGE_BYTES) {
            // SAFETY: as `of_zeros` allocated it; references into it borrowed `self`.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}
