//! Sealed shared memory, mapped so that its areas go on where they end.
//!
//! A memory file is `header page | ring | arena`. Ring and arena are each mapped twice in a row, so
//! that a part that reaches beyond the end is one piece. The file is sealed against shrinking and
//! growing: no peer can cut it off under a mapping. All of it is allocated when it is made, so that
//! a lack of memory is an error and not a SIGBUS. [`file`] says what else holds for it.

mod file;
mod frames;
mod link;
mod page;
mod transfers;
mod views;

pub use file::{Use, errno_of};
pub(crate) use frames::{FrameReader, FrameWriter, Frames, Loan};
pub use link::{LinkExtent, LinkMap, MOST_ARENA_BYTES, MOST_CHANNELS};
pub use page::{BOARD, Page};
pub(crate) use transfers::{Failure, Transfers, usual_directory};
pub use views::{View, ViewMut};

use file::{Beginning, refused};

use crate::error::{Error, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::NonNull;
use weir_ring::layout::{self, Fixed, Header};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::{Area, Memory};
use weir_sys::forks::{self, ParentOnly};

/// Bytes a CPU moves as one.
const LINE_BYTES: usize = 64;
/// Areas of up to so much are mapped page by page when they are made: some 0.1 ms a megabyte.
const POPULATED_BYTES: u64 = 64 << 20;
/// The name of memory files in /proc.
pub const NAME: &str = "weir-pipe";

/// Sizes of a memory, as its maker chose or its receiver checked them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// [`layout::STREAM`], [`layout::RECORD`] or [`layout::MESSAGE`].
    pub kind: u32,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// Bytes of the arena, 0 for a stream.
    pub arena_bytes: u64,
    /// How often the pipe got a new memory before.
    pub generation: u64,
}

impl Extent {
    fn file_bytes(&self) -> u64 {
        page_bytes() + self.ring_bytes + self.arena_bytes
    }

    /// As alleged by the beginning of a file, if it can be.
    fn read(words: &Beginning) -> Option<Extent> {
        let extent = Extent {
            kind: words.u32(offset_of!(Fixed, kind)),
            ring_bytes: words.u64(offset_of!(Fixed, ring_bytes)),
            arena_bytes: words.u64(offset_of!(Fixed, arena_bytes)),
            generation: words.u64(offset_of!(Fixed, generation)),
        };
        let size = |bytes: u64| {
            (page_bytes()..=weir_policy::pipe::MOST_BYTES).contains(&bytes)
                && bytes.is_power_of_two()
        };
        let arena_right = match extent.kind {
            layout::STREAM => extent.arena_bytes == 0,
            layout::RECORD | layout::MESSAGE => size(extent.arena_bytes),
            _ => false,
        };
        (size(extent.ring_bytes) && arena_right).then_some(extent)
    }
}

/// Bytes of a page.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// A mapping of a memory file.
#[derive(Debug)]
pub struct Map {
    start: NonNull<u8>,
    mapped_bytes: usize,
    ring: usize,
    arena: usize,
    extent: Extent,
    epoch: u32,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access to it is by atomics, or
// by copies that the two ends hand over by atomics.
unsafe impl Send for Map {}
// SAFETY: as for Send; no method hands out a reference to plain bytes.
unsafe impl Sync for Map {}

/// Makes a memory file of these sizes and maps it.
pub fn create(extent: Extent) -> Result<(ParentOnly, Map)> {
    let failed = |cause: Errno| Error::os("make", memory_of(extent), cause);
    let made = file::make(NAME, extent.file_bytes(), SealFlags::empty()).map_err(failed)?;
    let map = Map::new(made.here().map_err(failed)?, extent)?;
    map.populate();
    let fixed = &map.header().fixed;
    fixed.kind.store(extent.kind, Ordering::Relaxed);
    fixed.version.store(layout::VERSION, Ordering::Relaxed);
    fixed.ring_bytes.store(extent.ring_bytes, Ordering::Relaxed);
    fixed.arena_bytes.store(extent.arena_bytes, Ordering::Relaxed);
    fixed.generation.store(extent.generation, Ordering::Relaxed);
    // Release: whoever finds the name finds the rest.
    fixed.magic.store(layout::MAGIC, Ordering::Release);
    Ok((made, map))
}

fn memory_of(extent: Extent) -> String {
    format!("shared memory of {} bytes", extent.file_bytes())
}

/// Maps a memory file that came from elsewhere, after checking all there is to check. It is not
/// touched here: whoever handed it over has paid for its pages.
pub fn open(file: BorrowedFd, how: Use) -> Result<Map> {
    let extent = inspect(file)?;
    let map = Map::new(file, extent)?;
    file::check_whole(file, extent.file_bytes(), how)?;
    Ok(map)
}

/// The sizes of a memory file, if it is one of ours and sealed.
pub fn inspect(file: BorrowedFd) -> Result<Extent> {
    let bytes = file::length(file)?;
    let words = Beginning::of(file)?;
    if words.u64(offset_of!(Fixed, magic)) != layout::MAGIC {
        return Err(refused("it is not a pipe's"));
    }
    let version = words.u32(offset_of!(Fixed, version));
    if version != layout::VERSION {
        let known = layout::VERSION;
        return Err(refused(&format!("its layout is version {version}, known is {known}")));
    }
    let extent = Extent::read(&words).ok_or_else(|| refused("its sizes cannot be"))?;
    if extent.file_bytes() != bytes {
        return Err(refused("its file is not as long as it says"));
    }
    Ok(extent)
}

/// The first page of a memory file, mapped: what `weir stat` looks at, and `weir tune` writes.
#[derive(Debug)]
pub struct HeaderPage {
    start: NonNull<u8>,
}

impl HeaderPage {
    /// Maps it to be read: its words are only to be loaded.
    pub fn to_read(file: BorrowedFd) -> Result<HeaderPage> {
        HeaderPage::new(file, ProtFlags::READ)
    }

    /// Maps it to be written as well.
    pub fn to_write(file: BorrowedFd) -> Result<HeaderPage> {
        HeaderPage::new(file, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn new(file: BorrowedFd, how: ProtFlags) -> Result<HeaderPage> {
        let bytes = page_bytes() as usize;
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, how, MapFlags::SHARED, file, 0)
        };
        let start = start.map_err(|cause| Error::os("map", "shared memory", cause))?;
        NonNull::new(start.cast())
            .map(|start| HeaderPage { start })
            .ok_or_else(|| Error::os("map", "shared memory", Errno::NOMEM))
    }

    /// The words in it.
    pub fn header(&self) -> &Header {
        // SAFETY: the page is mapped as long as `self`, longer than a header and aligned; a header
        // is atomics, for which any bytes are a value.
        unsafe { self.start.cast::<Header>().as_ref() }
    }
}

impl Drop for HeaderPage {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; what borrowed from it borrowed `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), page_bytes() as usize) };
    }
}

impl Map {
    fn new(file: BorrowedFd, extent: Extent) -> Result<Map> {
        let failed = |cause: Errno| Error::os("map", memory_of(extent), cause);
        let (page, ring, arena) =
            (page_bytes() as usize, extent.ring_bytes as usize, extent.arena_bytes as usize);
        let mapped_bytes = page + 2 * ring + 2 * arena;
        let (ring_at, arena_at) = (page, page + 2 * ring);
        let parts = [
            (0, page, 0),
            (ring_at, ring, page),
            (ring_at + ring, ring, page),
            (arena_at, arena, page + ring),
            (arena_at + arena, arena, page + ring),
        ];
        // One step for a fork: a child has all of it or none, and of what is advised, none.
        let mapped = forks::hold_off(|| {
            // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
            let start = unsafe {
                rustix::mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    mapped_bytes,
                    ProtFlags::empty(),
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )
            }?;
            let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
            let (ring, arena, epoch) = (ring_at, arena_at, forks::epoch());
            let map = Map { start, mapped_bytes, ring, arena, extent, epoch };
            for (at, bytes, from) in parts {
                map.place(file, at, bytes, from as u64)?;
            }
            let (whole, no_child) = (map.base().cast(), Advice::LinuxDontFork);
            // SAFETY: the range is exactly this mapping; the advice changes nothing in this
            // process.
            unsafe { rustix::mm::madvise(whole, mapped_bytes, no_child) }?;
            Ok(map)
        });
        mapped.map_err(failed)
    }

    /// Maps part of the file over part of the reserved range.
    fn place(
        &self,
        file: BorrowedFd,
        at: usize,
        bytes: usize,
        from: u64,
    ) -> rustix::io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        assert!(at + bytes <= self.mapped_bytes);
        let how = ProtFlags::READ | ProtFlags::WRITE;
        let kind = MapFlags::SHARED | MapFlags::FIXED;
        let to: *mut c_void = self.base().wrapping_add(at).cast();
        // SAFETY: the range lies in what `new` reserved (asserted), where nothing else is.
        unsafe { rustix::mm::mmap(to, bytes, how, kind, file, from) }.map(drop)
    }

    /// Maps small areas page by page. A fault at the first touch of each page would cost a stream
    /// its first lap: 1 us where a record takes 0.1 us.
    ///
    /// What is not there is made, at this process's cost: for memory that it made itself, or whose
    /// maker it trusts.
    pub fn populate(&self) {
        let areas = [(0, page_bytes()), (self.ring, 2 * self.extent.ring_bytes)];
        let arena = (self.arena, 2 * self.extent.arena_bytes);
        for (at, bytes) in areas.into_iter().chain([arena]) {
            if bytes > 0 && bytes <= 2 * POPULATED_BYTES {
                let (from, now) = (self.base().wrapping_add(at), Advice::LinuxPopulateWrite);
                // SAFETY: the range is part of this mapping; the advice changes none of its bytes.
                // Kernels before 5.14 do not know it: there the first lap is slower.
                let _ = unsafe { rustix::mm::madvise(from.cast(), bytes as usize, now) };
            }
        }
    }

    fn base(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The sizes.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether the mapping is in this process, and not only in the one it was forked from.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.epoch == forks::epoch()
    }

    /// Where `bytes` of an area from `at` lie. The mirror makes them one piece.
    #[inline]
    fn part(&self, area: Area, at: usize, bytes: usize) -> *mut u8 {
        let (start, size) = match area {
            Area::Ring => (self.ring, self.extent.ring_bytes as usize),
            Area::Arena => (self.arena, self.extent.arena_bytes as usize),
        };
        assert!(at < size.max(1) && bytes <= size && self.is_here(), "a part of no area");
        self.base().wrapping_add(start + at)
    }
}

impl Memory for Map {
    #[inline]
    fn header(&self) -> &Header {
        assert!(self.is_here(), "mapped in the parent only");
        // SAFETY: the first page is mapped as long as `self`, longer than a header and aligned; a
        // header is atomics, for which any bytes are a value.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    fn bytes(&self, area: Area) -> u64 {
        if area == Area::Ring { self.extent.ring_bytes } else { self.extent.arena_bytes }
    }

    fn has_headers(&self) -> bool {
        self.extent.kind == layout::MESSAGE
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4), "a word lies at a multiple of 4");
        let word = self.part(Area::Ring, at, 4).cast::<AtomicU32>();
        // SAFETY: inside of the ring (`part` asserts), aligned (asserted: the ring begins at a
        // page), mapped as long as `self`; only ever reached as an atomic or by copies.
        unsafe { &*word }
    }

    #[inline]
    fn copy_in(&self, area: Area, at: usize, from: &[u8]) {
        let to = self.part(area, at, from.len());
        // SAFETY: the range is inside of the area and its mirror (`part` asserts); no reference to
        // it exists. A peer that writes there meanwhile breaks its own bytes.
        unsafe { copy(from.as_ptr(), to, from.len()) };
    }

    #[inline]
    fn copy_out(&self, area: Area, at: usize, to: &mut [u8]) {
        let from = self.part(area, at, to.len());
        // SAFETY: as in `copy_in`; what a peer writes meanwhile are other bytes, and any bytes are
        // a value.
        unsafe { copy(from, to.as_mut_ptr(), to.len()) };
    }

    fn zero(&self, at: usize, bytes: usize) {
        let to = self.part(Area::Ring, at, bytes);
        // SAFETY: as in `copy_in`.
        unsafe { std::ptr::write_bytes(to, 0, bytes) };
    }

    fn dirty(&self, area: Area, at: usize, bytes: usize) {
        let start = self.part(area, at, bytes);
        // The first line may hold bytes that are still to be read before it: their lines are
        // dirtied when the rest of them has been.
        let first = (LINE_BYTES - at % LINE_BYTES) % LINE_BYTES;
        for line in (first..bytes.saturating_sub(LINE_BYTES - 1)).step_by(LINE_BYTES) {
            // SAFETY: inside of the range, which `part` asserts; these bytes have been read.
            unsafe { start.wrapping_add(line).write_volatile(0) };
        }
    }
}

/// Copies bytes: small ones in place of a call, by words that overlap in the middle.
///
/// # Safety
/// As `ptr::copy_nonoverlapping`.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    match bytes {
        4..=8 => {
            // SAFETY: both are valid for `bytes`, of which this is the beginning.
            unsafe { std::ptr::copy_nonoverlapping(from, to, 4) };
            let last = bytes - 4;
            // SAFETY: the end of the same.
            unsafe {
                std::ptr::copy_nonoverlapping(from.wrapping_add(last), to.wrapping_add(last), 4)
            };
        }
        16..=64 => {
            let word = |at: usize| {
                // SAFETY: both are valid for `bytes`, and `at` is at most 16 before their end.
                unsafe {
                    std::ptr::copy_nonoverlapping(from.wrapping_add(at), to.wrapping_add(at), 16);
                }
            };
            word(0);
            if bytes > 32 {
                word(16);
                word(bytes - 32);
            }
            word(bytes - 16);
        }
        // SAFETY: the caller's promise.
        _ => unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) },
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: exactly what `new` mapped; what borrowed from it borrowed `self`.
            let _ = unsafe { rustix::mm::munmap(self.base().cast(), self.mapped_bytes) };
        }
    }
}

#[cfg(test)]
mod tests;
