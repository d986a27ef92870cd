//! The mapping under the frames of a pool; under miri, which knows no mappings of files, a heap.

#[cfg(miri)]
pub(super) use heap::{Memory, page_bytes};
#[cfg(not(miri))]
pub(super) use mapping::{Memory, page_bytes};

#[cfg(not(miri))]
mod mapping {
    use crate::memory::file;
    use rustix::fs::MemfdFlags;
    use rustix::io::Errno;
    use rustix::mm::{Advice, MapFlags, ProtFlags};
    use std::ptr::NonNull;
    use weir_sys::forks;

    /// The name of the memory in /proc.
    const NAME: &str = "weir-pool";

    /// Bytes of a page.
    pub(in super::super) fn page_bytes() -> usize {
        rustix::param::page_size()
    }

    /// A memory file, mapped; the mapping alone keeps it.
    #[derive(Debug)]
    pub(in super::super) struct Memory {
        start: NonNull<u8>,
        bytes: usize,
        epoch: u32,
    }

    // SAFETY: the mapping belongs to the process, not to a thread; it only tells where it is.
    unsafe impl Send for Memory {}
    // SAFETY: as for Send.
    unsafe impl Sync for Memory {}

    impl Memory {
        /// A mapping of zeros of which nothing is allocated yet.
        pub(in super::super) fn new(bytes: usize) -> rustix::io::Result<Memory> {
            let made = file::bare(NAME, MemfdFlags::empty())?;
            let file = made.here()?;
            file::set_length(file, bytes as u64)?;
            let both = ProtFlags::READ | ProtFlags::WRITE;
            let (anywhere, shared) = (std::ptr::null_mut(), MapFlags::SHARED);
            // One step for a fork: a child would share the frames, and write what its parent reads.
            forks::hold_off(|| {
                // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
                let start = unsafe { rustix::mm::mmap(anywhere, bytes, both, shared, file, 0) }?;
                let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
                let memory = Memory { start, bytes, epoch: forks::epoch() };
                let (whole, no_child) = (start.as_ptr().cast(), Advice::LinuxDontFork);
                // SAFETY: the range is exactly this mapping; the advice changes nothing in this
                // process.
                unsafe { rustix::mm::madvise(whole, bytes, no_child) }?;
                Ok(memory)
            })
        }

        /// Whether it is in this process, and not only in the one it was forked from.
        pub(in super::super) fn is_here(&self) -> bool {
            self.epoch == forks::epoch()
        }

        /// The address of a byte of it.
        pub(in super::super) fn at(&self, at: usize) -> *mut u8 {
            assert!(at < self.bytes && self.is_here(), "no frame of this process");
            self.start.as_ptr().wrapping_add(at)
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            if self.is_here() {
                // SAFETY: exactly what `new` mapped; every guard holds the frames it is of.
                let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
            }
        }
    }
}

#[cfg(miri)]
mod heap {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    const PAGE_BYTES: usize = 4096;

    /// Bytes of a page.
    pub(in super::super) fn page_bytes() -> usize {
        PAGE_BYTES
    }

    /// An allocation of pages.
    #[derive(Debug)]
    pub(in super::super) struct Memory {
        start: NonNull<u8>,
        layout: Layout,
    }

    // SAFETY: an allocation belongs to no thread; it only tells where it is.
    unsafe impl Send for Memory {}
    // SAFETY: as for Send.
    unsafe impl Sync for Memory {}

    impl Memory {
        pub(in super::super) fn new(bytes: usize) -> rustix::io::Result<Memory> {
            let layout = Layout::from_size_align(bytes, PAGE_BYTES);
            let layout = layout.map_err(|_| rustix::io::Errno::NOMEM)?;
            // SAFETY: the caller has checked that there is at least a byte.
            let start = unsafe { alloc_zeroed(layout) };
            NonNull::new(start)
                .map(|start| Memory { start, layout })
                .ok_or(rustix::io::Errno::NOMEM)
        }

        pub(in super::super) fn is_here(&self) -> bool {
            true
        }

        pub(in super::super) fn at(&self, at: usize) -> *mut u8 {
            assert!(at < self.layout.size(), "no frame");
            self.start.as_ptr().wrapping_add(at)
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: exactly what `new` allocated; every guard holds the frames it is of.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}
