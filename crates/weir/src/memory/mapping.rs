//! A mapping: a range of this process under which files lie.

#[cfg(miri)]
mod heap;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ptr::NonNull;
use weir_ring::board::Board;
use weir_ring::cluster::Cluster;
use weir_ring::lane::link::LinkHeader;
use weir_ring::layout::PipeHeader;
use weir_sys::forks;

#[cfg(miri)]
pub use heap::page_bytes;
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

/// Where in a mapping a part of a file lies, how long it is, and where in the file it begins.
pub(super) type Part = (usize, usize, u64);

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
unsafe impl Words for PipeHeader {}
// SAFETY: as of `PipeHeader`.
unsafe impl Words for LinkHeader {}
// SAFETY: as of `PipeHeader`.
unsafe impl Words for Board {}
// SAFETY: as of `PipeHeader`.
unsafe impl Words for Cluster {}

impl Mapping {
    /// Maps the first `bytes` of a file.
    pub(super) fn of_file(
        file: BorrowedFd,
        bytes: usize,
        access: Access,
    ) -> rustix::io::Result<Mapping> {
        Mapping::of_parts(file, bytes, &[(0, bytes, 0)], access)
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
            let kind = MapFlags::PRIVATE | MapFlags::NORESERVE;
            // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
            let start = unsafe {
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), kind)
            }?;
            let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
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
    fn place(&self, file: BorrowedFd, (at, bytes, from): Part) -> rustix::io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let how = match self.access {
            Access::ReadOnly => ProtFlags::READ,
            Access::Own | Access::Inherited => ProtFlags::READ | ProtFlags::WRITE,
        };
        let (to, kind) = (self.at(at, bytes).cast(), MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: the range lies in what was reserved (`at` asserts), where nothing else is.
        unsafe { rustix::mm::mmap(to, bytes, how, kind, file, from) }.map(drop)
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

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        if self.access != Access::Own || self.is_here() {
            // SAFETY: exactly what `of_parts` reserved; what borrowed from it borrowed `self`.
            let _ = unsafe { rustix::mm::munmap(self.base().cast(), self.bytes) };
        }
    }
}
