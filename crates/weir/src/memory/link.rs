//! The memory of a link, in one mapping: a page with the header, two boards, lanes, two arenas.
//!
//! The peer makes it, sealed and allocated like a pipe's. The owner opens it, trusts nothing in it
//! that it has not checked, and seals it for good.

use super::copy::{copy, prefetch, prefetch_to_write};
use super::mapping::{MapAccess, Mapping, page_bytes};
use super::sealed::{SealedMemory, Use, refused};
use crate::error::{Error, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::SealFlags;
use rustix::io::Errno;
use std::marker::PhantomData;
use std::mem::offset_of;
use weir_policy::arena::LARGEST_BYTES;
use weir_ring::board::{Board, MOST_RINGS};
use weir_ring::lane::link::{self, LinkFixed, LinkHeader};
use weir_ring::lane::{INLINE_BYTES, LaneId, LaneMemory, LanePlace, LaneRing, LaneWords, LinkSide};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_sys::forks::ParentOnly;

/// The most channels of a link: as many as a board has bits.
pub const MOST_CHANNELS: u32 = MOST_RINGS;
/// The most bytes of each of its arenas.
pub const MOST_ARENA_BYTES: u32 = 256 << 20;
/// From this length on, it pays to ask for the lines of a frame before they are written
/// (docs/design/port.md).
const LONG_BYTES: usize = 128;
/// The name of its files in /proc.
pub const NAME: &str = "weir-link";

/// Sizes of a link's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkExtent {
    pub channels: u32,
    /// Bytes of each arena: a multiple of 64 KiB.
    pub arena_bytes: u32,
}

impl LinkExtent {
    /// Whether a memory can have these sizes.
    pub fn is_sound(&self) -> bool {
        (1..=MOST_CHANNELS).contains(&self.channels)
            && self.arena_bytes <= MOST_ARENA_BYTES
            && self.arena_bytes.is_multiple_of(LARGEST_BYTES)
    }

    fn lanes_at(&self) -> usize {
        3 * page_bytes() as usize
    }

    fn arenas_at(&self) -> usize {
        let lanes = 2 * self.channels as usize * size_of::<LaneWords>();
        self.lanes_at() + lanes.next_multiple_of(page_bytes() as usize)
    }

    pub fn bytes(&self) -> usize {
        self.arenas_at() + 2 * self.arena_bytes as usize
    }
}

#[derive(Debug)]
pub struct LinkMap {
    mapping: Mapping,
    extent: LinkExtent,
    /// Where the lanes and the arenas begin. Computing it from `extent` would take a division.
    lanes_at: usize,
    arenas_at: usize,
}

impl LinkMap {
    /// Makes a memory of these sizes and maps it. At first the owner counts as notified.
    pub fn create(extent: LinkExtent) -> Result<(ParentOnly, LinkMap)> {
        let bytes = extent.bytes() as u64;
        let failed =
            |cause: Errno| Error::os("make", format!("shared memory of {bytes} bytes"), cause);
        let made = SealedMemory::make(NAME, bytes, SealFlags::empty()).map_err(failed)?;
        let map = LinkMap::new(made.here().map_err(failed)?, extent)?;
        map.write_sizes();
        Ok((made, map))
    }

    /// Checks a memory that another process made, maps it, and seals it for good: its maker has
    /// mapped it already.
    pub fn open(file: BorrowedFd) -> Result<LinkMap> {
        let memory = SealedMemory::received(file)?;
        let words = memory.beginning()?;
        if words.u64(offset_of!(LinkFixed, magic)) != link::MAGIC
            || words.u32(offset_of!(LinkFixed, version)) != link::VERSION
        {
            return Err(refused("it is not the memory of a link, or is of another version"));
        }
        let extent = LinkExtent {
            channels: words.u32(offset_of!(LinkFixed, channels)),
            arena_bytes: words.u32(offset_of!(LinkFixed, arena_bytes)),
        };
        if !extent.is_sound() || extent.bytes() as u64 != memory.bytes() {
            return Err(refused("the sizes in its header are invalid"));
        }
        let map = LinkMap::new(file, extent)?;
        memory.check_whole(Use::ForGood)?;
        Ok(map)
    }

    fn new(file: BorrowedFd, extent: LinkExtent) -> Result<LinkMap> {
        let mapping = Mapping::of_file(file, extent.bytes(), MapAccess::Own)
            .map_err(|cause| Error::os("map", "shared memory", cause))?;
        Ok(LinkMap::over(mapping, extent))
    }

    fn over(mapping: Mapping, extent: LinkExtent) -> LinkMap {
        LinkMap { mapping, extent, lanes_at: extent.lanes_at(), arenas_at: extent.arenas_at() }
    }

    /// A link on the heap.
    #[cfg(miri)]
    pub(super) fn on_heap(extent: LinkExtent) -> LinkMap {
        let mapping = Mapping::of_zeros(extent.bytes()).expect("memory");
        let map = LinkMap::over(mapping, extent);
        map.write_sizes();
        map
    }

    /// Writes what this is into the header.
    fn write_sizes(&self) {
        let fixed = &self.header().fixed;
        fixed.version.store(link::VERSION, Ordering::Relaxed);
        fixed.channels.store(self.extent.channels, Ordering::Relaxed);
        fixed.arena_bytes.store(self.extent.arena_bytes, Ordering::Relaxed);
        self.header().side(LinkSide::Owner).attention.store(1, Ordering::Relaxed);
        // Release: whoever loads this finds the rest.
        fixed.magic.store(link::MAGIC, Ordering::Release);
    }

    pub fn extent(&self) -> LinkExtent {
        self.extent
    }

    #[inline]
    pub fn is_here(&self) -> bool {
        self.mapping.is_here()
    }

    #[inline]
    pub fn header(&self) -> &LinkHeader {
        assert!(self.is_here(), "mapped in the parent only");
        self.mapping.first()
    }

    /// The board that shows a side what has come for it.
    #[inline]
    pub fn board(&self, reader: LinkSide) -> &Board {
        assert!(self.is_here(), "mapped in the parent only");
        self.mapping.words(if reader == LinkSide::Owner { 1 } else { 2 })
    }

    /// Where the lanes of a channel lie.
    #[inline]
    fn lanes_of(&self, channel: u32) -> *mut u8 {
        assert!(channel < self.extent.channels && self.is_here(), "the lanes of no channel");
        let at = self.lanes_at + channel as usize * size_of::<[LaneWords; 2]>();
        self.mapping.base().wrapping_add(at)
    }
}

impl LaneMemory for LinkMap {
    type Ring<'a> = LinkRing<'a>;

    #[inline]
    fn lanes(&self, channel: u32) -> &[LaneWords; 2] {
        let lanes = self.lanes_of(channel).cast::<[LaneWords; 2]>();
        // SAFETY: the lanes of a channel (`lanes_of` asserts), mapped as long as `self` and aligned
        // (they begin at a page and are 256 bytes each); they are atomics, for which any bytes are
        // a value, and the rings in them are reached by copies only.
        unsafe { &*lanes }
    }

    fn arena_bytes(&self) -> u32 {
        self.extent.arena_bytes
    }

    #[inline]
    fn ring(&self, lane: LaneId, place: LanePlace) -> LinkRing<'_> {
        let (start, bytes) = match place.as_block() {
            None => {
                let own = usize::from(lane.writer == LinkSide::Owner) * size_of::<LaneWords>();
                let at = own + offset_of!(LaneWords, inline);
                (self.lanes_of(lane.channel).wrapping_add(at), INLINE_BYTES)
            }
            Some((offset, bytes)) => {
                let (arena, offset) = (self.extent.arena_bytes as usize, offset as usize);
                let bytes = bytes as usize;
                // A place is a multiple of its bytes, and these are a power of two.
                assert!(offset + bytes <= arena && self.is_here(), "a block of no arena");
                let first = if lane.writer == LinkSide::Owner { arena } else { 0 };
                (self.mapping.base().wrapping_add(self.arenas_at + first + offset), bytes)
            }
        };
        LinkRing { start, mask: bytes - 1, map: PhantomData }
    }
}

/// The ring of a lane in a link's memory.
#[derive(Debug)]
pub struct LinkRing<'a> {
    /// Where it begins, a multiple of 4. All its bytes are inside the mapping.
    start: *mut u8,
    /// Its bytes less one, which are a power of two and at least 4.
    mask: usize,
    map: PhantomData<&'a LinkMap>,
}

impl LinkRing<'_> {
    /// Where `bytes` from a position on lie, and how many of them before the end of the ring.
    #[inline]
    fn part(&self, position: u64, bytes: usize) -> (*mut u8, usize) {
        assert!(bytes <= self.mask + 1, "more than the ring");
        let at = position as usize & self.mask;
        (self.start.wrapping_add(at), bytes.min(self.mask + 1 - at))
    }
}

impl LaneRing for LinkRing<'_> {
    #[inline]
    fn word(&self, position: u64) -> &AtomicU32 {
        assert!(position.is_multiple_of(4), "a word lies at a multiple of 4");
        let word = self.part(position, 4).0.cast::<AtomicU32>();
        // SAFETY: inside the ring, since its bytes are a multiple of 4 too; aligned (asserted, and
        // the ring begins at a multiple of 4); mapped as long as the map. No copy touches a word
        // that another thread may load meanwhile: the contract of `LaneRing`.
        unsafe { &*word }
    }

    #[inline]
    fn copy_in(&self, position: u64, from: &[u8]) {
        let (to, first) = self.part(position, from.len());
        if first > LONG_BYTES {
            prefetch_to_write(to, first);
        }
        // SAFETY: the range is inside the ring, and that is inside the mapping. It does not overlap
        // `from`, which is private. No other thread touches it meanwhile: the contract of
        // `LaneRing`. Another process that does so spoils its own data.
        unsafe { copy(from.as_ptr(), to, first) };
        if first < from.len() {
            let rest = &from[first..];
            // SAFETY: as above; the rest is no longer than the ring.
            unsafe { copy(rest.as_ptr(), self.start, rest.len()) };
        }
    }

    #[inline]
    fn copy_out(&self, position: u64, to: &mut [u8]) {
        let (from, first) = self.part(position, to.len());
        // SAFETY: as in `copy_in`. No other thread writes it meanwhile; another process that does
        // changes which bytes are copied, and any bytes are a value.
        unsafe { copy(from, to.as_mut_ptr(), first) };
        if first < to.len() {
            let rest = &mut to[first..];
            // SAFETY: as above; the rest is no longer than the ring.
            unsafe { copy(self.start, rest.as_mut_ptr(), rest.len()) };
        }
    }

    #[inline]
    fn prefetch(&self, position: u64) {
        prefetch(self.part(position, 1).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sealed::SEALS;
    use rustix::fd::{AsFd, OwnedFd};
    use rustix::fs::{FallocateFlags, MemfdFlags};
    use weir_ring::lane::{FrameKind, LaneReader, LaneWriter};

    const EXTENT: LinkExtent = LinkExtent { channels: 40, arena_bytes: 64 << 10 };

    #[test]
    fn each_side_finds_what_the_other_wrote() {
        let (file, peer) = LinkMap::create(EXTENT).expect("made");
        let owner = LinkMap::open(file.get().expect("mine")).expect("opened");
        assert_eq!(owner.extent(), EXTENT);
        for (channel, writer) in [(0, LinkSide::Peer), (39, LinkSide::Peer), (0, LinkSide::Owner)] {
            let lane = LaneId { writer, channel };
            let (mut end, mut reader) = (LaneWriter::default(), LaneReader::default());
            for place in [LanePlace::INLINE, LanePlace::block(61_440, 4096)] {
                end.refresh(&peer, lane).expect("sound");
                end.move_to(&peer, lane, place);
                assert!(end.put(&peer, lane, FrameKind::Data, false, b"some bytes"));
                end.publish(&peer, lane);
                let mut out = [0; 10];
                reader.look(&owner, lane).expect("sound").expect("there");
                assert_eq!(reader.take(&owner, lane, &mut out), 10);
                assert_eq!(&out, b"some bytes");
                reader.give_back(&owner, lane);
            }
        }
        peer.board(LinkSide::Owner).set(7);
        assert!(owner.board(LinkSide::Owner).any() && !owner.board(LinkSide::Peer).any());
    }

    #[test]
    fn a_link_with_holes_is_refused_and_one_in_use_keeps_its_pages() {
        let (made, _map) = LinkMap::create(EXTENT).expect("made");
        let (made, bytes) = (made.here().expect("mine"), EXTENT.bytes() as u64);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let page = page_bytes();
        rustix::fs::fallocate(made, punch, bytes - page, page).expect("before it is in use");
        let error = LinkMap::open(made).expect_err("a hole").to_string();
        assert!(error.contains("the rest are holes"), "{error}");
        let (made, peer) = LinkMap::create(EXTENT).expect("made");
        let made = made.here().expect("mine");
        let owner = LinkMap::open(made).expect("whole");
        assert_eq!(rustix::fs::fallocate(made, punch, bytes - page, page), Err(Errno::PERM));
        assert!(LinkMap::open(made).is_err(), "it is in use");
        assert_eq!(owner.extent(), peer.extent());
    }

    #[test]
    fn foreign_memory_is_refused() {
        let refusal = |file: BorrowedFd| LinkMap::open(file).expect_err("no").to_string();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file_of = |bytes: u64, seals: SealFlags| {
            let file = rustix::fs::memfd_create("other", flags).expect("a file");
            rustix::fs::ftruncate(&file, bytes).expect("sized");
            rustix::fs::fcntl_add_seals(&file, seals).expect("sealed");
            file
        };
        let other: OwnedFd = tempfile::tempfile().expect("a file").into();
        assert!(refusal(other.as_fd()).contains("sealed"));
        assert!(refusal(file_of(1 << 20, SealFlags::SHRINK).as_fd()).contains("not sealed"));
        assert!(refusal(file_of(100, SEALS).as_fd()).contains("too short"));
        assert!(refusal(file_of(1 << 20, SEALS).as_fd()).contains("not the memory of a link"));
        for (channels, arena_bytes) in
            [(0, 65_536), (41, 65_536), (u32::MAX, 65_536), (40, 0), (40, 65_535), (40, u32::MAX)]
        {
            let (file, map) = LinkMap::create(EXTENT).expect("made");
            map.header().fixed.channels.store(channels, Ordering::Relaxed);
            map.header().fixed.arena_bytes.store(arena_bytes, Ordering::Relaxed);
            let text = refusal(file.get().expect("mine"));
            assert!(
                text.contains("sizes in its header are invalid"),
                "{channels} {arena_bytes}: {text}"
            );
        }
    }
}
