//! The memory of a pipe, mapped so that its areas wrap around.
//!
//! It is `header page | ring | arena`. Ring and arena are each mapped twice in a row, so that a
//! part that reaches beyond the end is one piece. All of it is allocated when it is made, so that a
//! lack of memory is an error and not a SIGBUS.

use super::copy::copy;
use super::mapping::{MapAccess, Mapping, MirroredArea, page_bytes};
use super::sealed::{FirstWords, SealedMemory, Use, refused};
use crate::error::{Error, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::SealFlags;
use rustix::io::Errno;
use std::mem::offset_of;
use weir_ring::layout::{self, Fixed, PipeHeader};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::{Area, RingMemory};
use weir_sys::forks::ParentOnly;

/// No ring is smaller than a page, and no page is smaller than this.
const LEAST_RING_BYTES: usize = 4096;
/// The largest area that is populated at once: that takes some 0.1 ms a megabyte.
const POPULATED_BYTES: usize = 64 << 20;
/// The name of memory files in /proc.
pub const NAME: &str = "weir-pipe";

/// Sizes of a memory, chosen by its maker or checked by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// [`layout::STREAM`], [`layout::RECORD`] or [`layout::MESSAGE`].
    pub kind: u32,
    pub ring_bytes: u64,
    /// 0 for a stream.
    pub arena_bytes: u64,
    /// How often the pipe has been given a new memory before.
    pub generation: u64,
}

impl Extent {
    pub(super) fn file_bytes(&self) -> u64 {
        page_bytes() + self.ring_bytes + self.arena_bytes
    }

    #[inline]
    fn bytes(&self, area: Area) -> u64 {
        if area == Area::Ring { self.ring_bytes } else { self.arena_bytes }
    }

    /// The sizes that the beginning of a file claims, if they are possible.
    fn read(words: &FirstWords) -> Option<Extent> {
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
        // The next memory has the next number.
        let may_follow = extent.generation < u64::MAX;
        (size(extent.ring_bytes) && arena_right && may_follow).then_some(extent)
    }
}

#[derive(Debug)]
pub struct Map {
    mapping: Mapping,
    ring: MirroredArea,
    arena: MirroredArea,
    extent: Extent,
}

/// Makes a memory file of these sizes and maps it.
pub fn create(extent: Extent) -> Result<(ParentOnly, Map)> {
    let failed = |cause: Errno| Error::os("make", memory_of(extent), cause);
    let made = SealedMemory::make(NAME, extent.file_bytes(), SealFlags::empty()).map_err(failed)?;
    let map = Map::new(made.here().map_err(failed)?, extent)?;
    map.populate();
    map.write_sizes();
    Ok((made, map))
}

fn memory_of(extent: Extent) -> String {
    format!("shared memory of {} bytes", extent.file_bytes())
}

/// Checks a memory file that another process made, and maps it. Does not touch it: whoever handed
/// it over has paid for its pages.
pub fn open(file: BorrowedFd, how: Use) -> Result<Map> {
    let (memory, extent) = check(file)?;
    let map = Map::new(file, extent)?;
    memory.check_whole(how)?;
    Ok(map)
}

/// The sizes of a memory file, if it is a sealed one of a pipe.
pub fn inspect(file: BorrowedFd) -> Result<Extent> {
    check(file).map(|(_, extent)| extent)
}

fn check(file: BorrowedFd) -> Result<(SealedMemory, Extent)> {
    let memory = SealedMemory::received(file)?;
    let words = memory.beginning()?;
    if words.u64(offset_of!(Fixed, magic)) != layout::MAGIC {
        return Err(refused("it is not the memory of a pipe"));
    }
    let version = words.u32(offset_of!(Fixed, version));
    if version != layout::VERSION {
        let known = layout::VERSION;
        return Err(refused(format!(
            "its layout is version {version}, and this is version {known}"
        )));
    }
    let extent =
        Extent::read(&words).ok_or_else(|| refused("the sizes in its header are invalid"))?;
    if extent.file_bytes() != memory.bytes() {
        return Err(refused("its file is not as long as its header says"));
    }
    Ok((memory, extent))
}

impl Map {
    fn new(file: BorrowedFd, extent: Extent) -> Result<Map> {
        let (page, ring, arena) =
            (page_bytes() as usize, extent.ring_bytes as usize, extent.arena_bytes as usize);
        let arena_at = page + 2 * ring;
        let parts = [
            (0, page, 0),
            (page, ring, page as u64),
            (page + ring, ring, page as u64),
            (arena_at, arena, (page + ring) as u64),
            (arena_at + arena, arena, (page + ring) as u64),
        ];
        let mapping = Mapping::of_parts(file, arena_at + 2 * arena, &parts, MapAccess::Own)
            .map_err(|cause| Error::os("map", memory_of(extent), cause))?;
        Ok(Map::over(mapping, page, arena_at, extent))
    }

    /// A map of areas that begin there.
    fn over(mapping: Mapping, ring: usize, arena: usize, extent: Extent) -> Map {
        let ring = mapping.mirrored(ring, extent.ring_bytes as usize);
        let arena = mapping.mirrored(arena, extent.arena_bytes as usize);
        assert!(ring.bytes() >= LEAST_RING_BYTES, "a ring of {} bytes", ring.bytes());
        Map { mapping, ring, arena, extent }
    }

    /// A memory on the heap, without mirrors: a part that reaches beyond the end of an area panics.
    #[cfg(miri)]
    pub(super) fn on_heap(extent: Extent) -> Map {
        let (ring, arena) =
            (page_bytes() as usize, page_bytes() as usize + extent.ring_bytes as usize);
        let bytes = arena + extent.arena_bytes as usize;
        let mapping = Mapping::of_zeros(bytes).expect("memory");
        let map = Map::over(mapping, ring, arena, extent);
        map.write_sizes();
        map
    }

    /// Writes what this is into the header.
    fn write_sizes(&self) {
        let fixed = &self.header().fixed;
        fixed.kind.store(self.extent.kind, Ordering::Relaxed);
        fixed.version.store(layout::VERSION, Ordering::Relaxed);
        fixed.ring_bytes.store(self.extent.ring_bytes, Ordering::Relaxed);
        fixed.arena_bytes.store(self.extent.arena_bytes, Ordering::Relaxed);
        fixed.generation.store(self.extent.generation, Ordering::Relaxed);
        // Release: whoever loads this finds the rest.
        fixed.magic.store(layout::MAGIC, Ordering::Release);
    }

    /// Maps the pages of small areas now. Otherwise each first touch of a page would fault: 1 us
    /// where a record takes 0.1 us.
    ///
    /// Pages that are missing are made, at this process's cost. So this is for memory that it made
    /// itself, or whose maker it trusts.
    pub fn populate(&self) {
        self.mapping.populate(0, page_bytes() as usize);
        for area in [&self.ring, &self.arena] {
            if area.bytes() <= POPULATED_BYTES {
                self.mapping.populate_area(area);
            }
        }
    }

    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether the memory is mapped in this process: it is not in a forked child.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.mapping.is_here()
    }

    /// The memory, if it is mapped in this process.
    #[inline(always)]
    pub fn here(&self) -> Option<MapHere<'_>> {
        self.is_here().then_some(MapHere(self))
    }

    #[inline]
    fn surely_here(&self) -> MapHere<'_> {
        self.here().expect("mapped in the parent only")
    }

    /// The address of `bytes` of an area from `at` on. The mirror makes them one piece.
    #[inline]
    pub(super) fn part(&self, area: Area, at: u64, bytes: usize) -> *mut u8 {
        self.surely_here().part(area, at, bytes)
    }
}

/// A memory of which a call has found that it is mapped in this process.
///
/// So it is checked once a call, and not at each access. Only a fork makes it untrue, in the child.
/// The library does not fork, and keeps no such value while code of its users runs.
#[derive(Clone, Copy, Debug)]
pub struct MapHere<'a>(&'a Map);

impl<'a> MapHere<'a> {
    /// The words that both ends use.
    #[inline(always)]
    pub fn words(self) -> &'a PipeHeader {
        self.0.mapping.first()
    }

    #[inline(always)]
    fn word_at(self, at: u64) -> &'a AtomicU32 {
        debug_assert!(at.is_multiple_of(4), "a word lies at a multiple of 4");
        let word = self.0.ring.at(at & !3).cast::<AtomicU32>();
        // SAFETY: inside the ring (see `part`), aligned (masked; the ring begins at a page),
        // mapped as long as the map. No copy touches a word that another thread may load meanwhile:
        // the contract of `RingMemory`.
        unsafe { &*word }
    }

    /// The address of `bytes` from a position of an area on.
    #[inline(always)]
    fn part(self, area: Area, at: u64, bytes: usize) -> *mut u8 {
        let (whole, is_short) = match area {
            // A part that is shorter than any ring is not checked (`Map::over` asserts the least):
            // between a record and its answer each instruction counts.
            Area::Ring => (&self.0.ring, bytes <= LEAST_RING_BYTES),
            Area::Arena => (&self.0.arena, false),
        };
        assert!(is_short || bytes <= whole.bytes(), "a part of no area");
        debug_assert!(!cfg!(miri) || whole.is_one_piece(at, bytes), "the heap has no mirror");
        whole.at(at)
    }
}

/// Each method checks that the memory is here.
#[expect(clippy::disallowed_methods)]
impl RingMemory for Map {
    #[inline]
    fn header(&self) -> &PipeHeader {
        self.surely_here().words()
    }

    #[inline]
    fn bytes(&self, area: Area) -> u64 {
        self.extent.bytes(area)
    }

    fn has_headers(&self) -> bool {
        self.extent.kind == layout::MESSAGE
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU32 {
        self.surely_here().word_at(at)
    }

    #[inline]
    fn copy_in(&self, area: Area, at: u64, from: &[u8]) {
        self.surely_here().copy_in(area, at, from);
    }

    #[inline]
    fn copy_out(&self, area: Area, at: u64, to: &mut [u8]) {
        self.surely_here().copy_out(area, at, to);
    }

    fn zero(&self, at: u64, bytes: usize) {
        self.surely_here().zero(at, bytes);
    }
}

impl RingMemory for MapHere<'_> {
    #[inline(always)]
    fn header(&self) -> &PipeHeader {
        self.words()
    }

    #[inline(always)]
    fn bytes(&self, area: Area) -> u64 {
        self.0.extent.bytes(area)
    }

    fn has_headers(&self) -> bool {
        self.0.has_headers()
    }

    #[inline(always)]
    fn word(&self, at: u64) -> &AtomicU32 {
        self.word_at(at)
    }

    #[inline]
    fn copy_in(&self, area: Area, at: u64, from: &[u8]) {
        let to = self.part(area, at, from.len());
        // SAFETY: the range is inside the area and its mirror (`part` asserts). It does not overlap
        // `from`, which is private. No other thread touches it meanwhile: see `RingMemory`.
        // Another process that does so spoils its own data.
        unsafe { copy(from.as_ptr(), to, from.len()) };
    }

    #[inline]
    fn copy_out(&self, area: Area, at: u64, to: &mut [u8]) {
        let from = self.part(area, at, to.len());
        // SAFETY: as in `copy_in`. No other thread writes it meanwhile; another process that does
        // changes which bytes are copied, and any bytes are a value.
        unsafe { copy(from, to.as_mut_ptr(), to.len()) };
    }

    fn zero(&self, at: u64, bytes: usize) {
        let to = self.part(Area::Ring, at, bytes);
        // SAFETY: as in `copy_in`.
        unsafe { std::ptr::write_bytes(to, 0, bytes) };
    }
}
