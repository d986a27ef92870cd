//! Mappings: address ranges of this process that are backed by files.

#[cfg(miri)]
mod heap;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ptr::NonNull;
use weir_ring::board::Board;
use weir_ring::cluster::Cluster;
use weir_ring::layout::PipeHeader;
use weir_sys::forks;

#[cfg(miri)]
pub use heap::page_bytes;
#[cfg(not(miri))]
/// The size of a page.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The size of the smallest pages.
const LEAST_PAGE_BYTES: usize = 4096;

/// What may be done with a mapping, and who has it after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAccess {
    /// It can be read and written, and forked children do not have it.
    Own,
    /// It can be read and written, and forked children have it too.
    Inherited,
    /// It can only be read. Its words may only be loaded with `Ordering::Relaxed`: std allows no
    /// other atomic operation on memory that is mapped read-only.
    ReadOnly,
}

/// A part of a file in a mapping: its place in the mapping, its length, its place in the file.
pub(super) type FilePart = (usize, usize, u64);

/// A mapped range of at least a page.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    access: MapAccess,
    epoch: u32,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this only holds its address.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; the references it hands out are to atomics.
unsafe impl Sync for Mapping {}

/// An area of a mapping that is mapped twice in a row, so that a part which reaches beyond its end is
/// one piece. The place of a part is a position, of which the remainder counts.
#[derive(Debug)]
pub(super) struct MirroredArea {
    start: NonNull<u8>,
    /// A power of two, or 0.
    bytes: usize,
    mask: usize,
}

// SAFETY: as for `Mapping`, of which this is a part.
unsafe impl Send for MirroredArea {}
// SAFETY: as for `Mapping`; this hands out addresses only.
unsafe impl Sync for MirroredArea {}

impl MirroredArea {
    #[inline(always)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a position. So many bytes as the area has follow it.
    #[inline(always)]
    pub(super) fn at(&self, position: u64) -> *mut u8 {
        self.start.as_ptr().wrapping_add(position as usize & self.mask)
    }

    /// Whether a part is before the end, and needs no mirror.
    pub(super) fn is_one_piece(&self, position: u64, bytes: usize) -> bool {
        (position as usize & self.mask) + bytes <= self.bytes
    }
}

/// A type that may be in shared memory.
///
/// # Safety
/// It consists of atomics, for which any bytes are a value, and a page is aligned enough for it.
pub unsafe trait AtomicWords {}
// SAFETY: atomics only, by its definition.
unsafe impl AtomicWords for PipeHeader {}
// SAFETY: as for `PipeHeader`.
unsafe impl AtomicWords for Board {}
// SAFETY: as for `PipeHeader`.
unsafe impl AtomicWords for Cluster {}

impl Mapping {
    /// Maps the first `bytes` of a file.
    pub fn of_file(
        file: BorrowedFd,
        bytes: usize,
        access: MapAccess,
    ) -> rustix::io::Result<Mapping> {
        Mapping::of_parts(file, bytes, &[(0, bytes, 0)], access)
    }

    /// Reserves `bytes` and maps parts of a file there.
    pub(super) fn of_parts(
        file: BorrowedFd,
        bytes: usize,
        parts: &[FilePart],
        access: MapAccess,
    ) -> rustix::io::Result<Mapping> {
        assert!(bytes >= LEAST_PAGE_BYTES, "less than a page is mapped");
        // A fork cannot come in between: a child has all of it or nothing.
        forks::hold_off(|| {
            let kind = MapFlags::PRIVATE | MapFlags::NORESERVE;
            // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
            let start = unsafe {
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), kind)
            }?;
            let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
            let mapping = Mapping { start, bytes, access, epoch: forks::epoch() };
            parts.iter().try_for_each(|part| mapping.place(file, *part))?;
            if access == MapAccess::Own {
                let whole = start.as_ptr().cast();
                // SAFETY: the range is this mapping; the advice changes nothing in this process.
                unsafe { rustix::mm::madvise(whole, bytes, Advice::LinuxDontFork) }?;
            }
            Ok(mapping)
        })
    }

    /// Maps a part of a file into the reserved range.
    fn place(&self, file: BorrowedFd, (at, bytes, from): FilePart) -> rustix::io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let how = match self.access {
            MapAccess::ReadOnly => ProtFlags::READ,
            MapAccess::Own | MapAccess::Inherited => ProtFlags::READ | ProtFlags::WRITE,
        };
        let (to, kind) = (self.at(at, bytes).cast(), MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: the range is in what was reserved (`at` asserts), where nothing else is.
        unsafe { rustix::mm::mmap(to, bytes, how, kind, file, from) }.map(drop)
    }

    /// Maps the pages of a part now, and makes those that are missing.
    pub(super) fn populate(&self, at: usize, bytes: usize) {
        let from = self.at(at, bytes).cast();
        // SAFETY: the range is part of this mapping (`at` asserts); the advice changes none of its
        // bytes. Kernels before 5.14 refuse it: there each page faults at its first touch.
        let _ = unsafe { rustix::mm::madvise(from, bytes, Advice::LinuxPopulateWrite) };
    }

    /// Maps the pages of an area now, as [`Mapping::populate`] does, and those of its mirror.
    pub(super) fn populate_area(&self, area: &MirroredArea) {
        if area.bytes > 0 {
            self.populate(area.start.addr().get() - self.start.addr().get(), 2 * area.bytes);
        }
    }

    /// Puts zeros of this process's own in the place of what is mapped.
    pub fn replace(&self) -> rustix::io::Result<()> {
        let (start, bytes) = (self.base().cast(), self.bytes);
        let (how, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
        forks::hold_off(|| {
            // SAFETY: exactly what this mapping has; the caller lends no references into it.
            unsafe { rustix::mm::mmap_anonymous(start, bytes, how, kind | MapFlags::NORESERVE) }?;
            // SAFETY: the range is this mapping; the advice changes nothing in this process.
            unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxDontFork) }
        })
    }

    /// Makes a hole of a part: its memory goes back to the machine, and it reads as zeros.
    pub(super) fn release(&self, at: usize, bytes: usize) -> rustix::io::Result<()> {
        let from = self.at(at, bytes).cast();
        // SAFETY: the range is part of this mapping of a memory file (`at` asserts), and the caller
        // has the right to write it.
        unsafe { rustix::mm::madvise(from, bytes, Advice::LinuxRemove) }
    }

    /// Whether this process made the mapping, rather than one that it was forked from.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.epoch == forks::epoch()
    }

    /// The address where it begins.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its length.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a part, which lies inside, or this panics.
    #[inline]
    pub fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "a part of no mapping");
        self.base().wrapping_add(at)
    }

    /// The area of `bytes` that begins at a place.
    pub(super) fn mirrored(&self, at: usize, bytes: usize) -> MirroredArea {
        assert!(bytes == 0 || bytes.is_power_of_two(), "an area of {bytes} bytes");
        // The heap, which is in for mappings under miri, has no mirrors.
        let copies = if cfg!(miri) { 1 } else { 2 };
        let start = NonNull::new(self.at(at, copies * bytes)).expect("a mapping is not at 0");
        MirroredArea { start, bytes, mask: bytes.saturating_sub(1) }
    }

    /// The words at its beginning.
    #[inline]
    pub fn first<T: AtomicWords>(&self) -> &T {
        const { assert!(size_of::<T>() <= LEAST_PAGE_BYTES) };
        // SAFETY: a page at least is mapped as long as `self`, aligned, and longer than a `T`
        // (asserted); any bytes are one (`AtomicWords`).
        unsafe { self.start.cast::<T>().as_ref() }
    }

    /// The words at the beginning of a later page.
    #[inline]
    pub fn words<T: AtomicWords>(&self, page: usize) -> &T {
        let words = self.at(page * page_bytes() as usize, size_of::<T>()).cast::<T>();
        // SAFETY: mapped as long as `self` (`at` asserts), and aligned: as in `first`.
        unsafe { &*words }
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        if self.access != MapAccess::Own || self.is_here() {
            // SAFETY: exactly what `of_parts` reserved; references into it borrowed `self`.
            let _ = unsafe { rustix::mm::munmap(self.base().cast(), self.bytes) };
        }
    }
}
