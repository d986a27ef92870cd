//! A mapping: a range of this process under which files lie.

use rustix::fd::BorrowedFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ptr::NonNull;
use weir_ring::board::Board;
use weir_ring::cluster::Cluster;
use weir_ring::lane::link::LinkHeader;
use weir_ring::layout::Header;
use weir_sys::forks;

/// Bytes of a page.
#[cfg(not(miri))]
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Bytes of the smallest page there is.
const LEAST_PAGE_BYTES: usize = 4096;

/// What may be done to a mapping, and who has it after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It is read and written, and forked children do not have it.
    Own,
    /// It is read and written, and forked children have it too.
    Inherited,
    /// It is only read. Its words may only be loaded with `Ordering::Relaxed`: std allows no other
    /// atomic operation on memory that is mapped for reading alone.
    ReadOnly,
}

/// A part of a file, and where in the mapping it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub at: usize,
    pub bytes: usize,
    pub from: u64,
}

/// A range of this process, of at least a page.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    access: Access,
    epoch: u32,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this only tells where it is.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; the references it hands out are to atomics.
unsafe impl Sync for Mapping {}

/// What may lie in shared memory.
///
/// # Safety
/// It is atomics only, for which any bytes are a value, and a page is aligned enough for it.
pub unsafe trait Words {}
// SAFETY: atomics only, as the layout says.
unsafe impl Words for Header {}
// SAFETY: atomics only, as the layout says.
unsafe impl Words for LinkHeader {}
// SAFETY: atomics only, as the layout says.
unsafe impl Words for Board {}
// SAFETY: atomics only, as the layout says.
unsafe impl Words for Cluster {}

impl Mapping {
    /// Maps the first `bytes` of a file.
    pub(super) fn of_file(
        file: BorrowedFd,
        bytes: usize,
        access: Access,
    ) -> rustix::io::Result<Mapping> {
        Mapping::of_parts(file, bytes, &[Part { at: 0, bytes, from: 0 }], access)
    }

    /// Reserves `bytes`, and maps parts of a file there.
    pub(super) fn of_parts(
        file: BorrowedFd,
        bytes: usize,
        parts: &[Part],
        access: Access,
    ) -> rustix::io::Result<Mapping> {
        assert!(bytes >= LEAST_PAGE_BYTES, "less than a page is mapped");
        // One step for a fork: a child has all of it or none.
        forks::hold_off(|| {
            let start = kernel::reserve(bytes)?;
            let mapping = Mapping { start, bytes, access, epoch: forks::epoch() };
            parts.iter().try_for_each(|part| mapping.place(file, *part))?;
            if access == Access::Own {
                let whole = start.as_ptr().cast();
                // SAFETY: the range is this mapping; the advice changes nothing in this process.
                unsafe { rustix::mm::madvise(whole, bytes, Advice::LinuxDontFork) }?;
            }
            Ok(mapping)
        })
    }

    /// Maps part of a file over part of the reserved range.
    fn place(&self, file: BorrowedFd, part: Part) -> rustix::io::Result<()> {
        if part.bytes == 0 {
            return Ok(());
        }
        let write =
            if self.access == Access::ReadOnly { ProtFlags::empty() } else { ProtFlags::WRITE };
        let (how, kind) = (ProtFlags::READ | write, MapFlags::SHARED | MapFlags::FIXED);
        let to = self.at(part.at, part.bytes).cast();
        // SAFETY: the range lies in what was reserved (`at` asserts), where nothing else is.
        unsafe { rustix::mm::mmap(to, part.bytes, how, kind, file, part.from) }.map(drop)
    }

    /// Maps a part page by page now, and makes the pages that are missing.
    pub(super) fn populate(&self, at: usize, bytes: usize) {
        let from = self.at(at, bytes).cast();
        // SAFETY: the range is part of this mapping (`at` asserts); the advice changes none of its
        // bytes. Kernels before 5.14 do not know it: there each page faults at its first touch.
        let _ = unsafe { rustix::mm::madvise(from, bytes, Advice::LinuxPopulateWrite) };
    }

    /// Whether the mapping is in this process, and not only in the one it was forked from.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.epoch == forks::epoch()
    }

    /// Where it begins.
    #[inline]
    pub(super) fn base(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Where a part begins.
    #[inline]
    pub(super) fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "a part of no mapping");
        self.base().wrapping_add(at)
    }

    /// The words it begins with.
    #[inline]
    pub(super) fn first<T: Words>(&self) -> &T {
        const { assert!(size_of::<T>() <= LEAST_PAGE_BYTES) };
        // SAFETY: a page at least is mapped as long as `self`, aligned, and longer than a `T`
        // (asserted); any bytes are one (`Words`).
        unsafe { self.start.cast::<T>().as_ref() }
    }

    /// The words that a later page begins with.
    #[inline]
    pub(super) fn words<T: Words>(&self, page: usize) -> &T {
        let words = self.at(page * page_bytes() as usize, size_of::<T>()).cast::<T>();
        // SAFETY: mapped as long as `self` (`at` asserts), and aligned: as in `first`.
        unsafe { &*words }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.access != Access::Own || self.is_here() {
            // SAFETY: exactly what was reserved; what borrowed from it borrowed `self`.
            unsafe { kernel::release(self.start, self.bytes) };
        }
    }
}

#[cfg(miri)]
pub use kernel::page_bytes;

#[cfg(not(miri))]
mod kernel {
    use rustix::io::Errno;
    use rustix::mm::{MapFlags, ProtFlags};
    use std::ptr::NonNull;

    /// Reserves a range that holds nothing.
    pub(super) fn reserve(bytes: usize) -> rustix::io::Result<NonNull<u8>> {
        let how = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), how)
        }?;
        NonNull::new(start.cast()).ok_or(Errno::NOMEM)
    }

    /// Unmaps a range.
    ///
    /// # Safety
    /// It was reserved, and nobody uses it any more.
    pub(super) unsafe fn release(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
    }
}

/// Under miri, which knows no mappings of files: the heap. What is mapped twice elsewhere is there
/// twice here.
#[cfg(miri)]
mod kernel {
    use super::{Access, LEAST_PAGE_BYTES, Mapping};
    use rustix::io::Errno;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    /// Bytes of a page.
    pub fn page_bytes() -> u64 {
        LEAST_PAGE_BYTES as u64
    }

    impl Mapping {
        /// Zeros.
        pub(in crate::memory) fn of_zeros(bytes: usize) -> rustix::io::Result<Mapping> {
            Ok(Mapping { start: reserve(bytes)?, bytes, access: Access::Own, epoch: 0 })
        }
    }

    pub(super) fn reserve(bytes: usize) -> rustix::io::Result<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, LEAST_PAGE_BYTES).map_err(|_| Errno::NOMEM)?;
        assert!(bytes > 0);
        // SAFETY: it has a byte at least (asserted).
        NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)
    }

    /// Frees a range.
    ///
    /// # Safety
    /// It was reserved, and nobody uses it any more.
    pub(super) unsafe fn release(start: NonNull<u8>, bytes: usize) {
        if let Ok(layout) = Layout::from_size_align(bytes, LEAST_PAGE_BYTES) {
            // SAFETY: the caller's promise; this is the layout it was reserved with.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}
