//! The memory of a link, in one mapping: a page with the header, two boards, lanes, two arenas.
//!
//! The peer makes it, sealed and allocated like a pipe's. The owner opens it, trusts nothing in it
//! that it has not checked, and seals it for good.

use rustix::fd::BorrowedFd;
use rustix::fs::SealFlags;
use rustix::io::Errno;
use std::marker::PhantomData;
use std::mem::offset_of;
use weir::parts::{
    AtomicWords, MapAccess, Mapping, SHORT_BYTES, SealedMemory, Use, copy, copy_far, copy_short,
    page_bytes, prefetch, prefetch_to_write, refused,
};
use weir::{Error, Result};
use weir_policy::arena::LARGEST_BYTES;
use weir_ring::board::{Board, MOST_RINGS};
use weir_ring::lane::link::{self, LinkFixed, LinkHeader};
use weir_ring::lane::{
    HEAD_BYTES, INLINE_BYTES, LaneId, LaneMemory, LanePlace, LaneRing, LaneWords, LinkSide,
    RingRange,
};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_sys::forks::ParentOnly;

/// The most channels of a link: as many as a board has bits.
pub const MOST_CHANNELS: u32 = MOST_RINGS;
/// The most bytes of each of its arenas.
pub const MOST_ARENA_BYTES: u32 = 256 << 20;
/// From this length on, it pays to ask for the lines of a frame before they are written
/// (docs/design/port.md).
const LONG_BYTES: usize = 128;

/// The header, as the first words of a mapping.
#[derive(Debug)]
#[repr(transparent)]
struct LinkWords(LinkHeader);

// SAFETY: atomics only, by the definition of `LinkHeader`, which asks for less than a page.
unsafe impl AtomicWords for LinkWords {}

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
        let made = SealedMemory::make(link::FILE, bytes, SealFlags::empty()).map_err(failed)?;
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

    #[cfg(miri)]
    pub(crate) fn on_heap(extent: LinkExtent) -> LinkMap {
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
        self.surely_here().header()
    }

    /// The board that shows a side what has come for it.
    #[inline]
    pub fn board(&self, reader: LinkSide) -> &Board {
        assert!(self.is_here(), "mapped in the parent only");
        self.mapping.words(if reader == LinkSide::Owner { 1 } else { 2 })
    }

    /// The memory, if it is mapped in this process.
    #[inline(always)]
    pub fn here(&self) -> Option<LinkHere<'_>> {
        self.is_here().then_some(LinkHere(self))
    }

    #[inline]
    fn surely_here(&self) -> LinkHere<'_> {
        self.here().expect("mapped in the parent only")
    }
}

/// A link of which a call has found that it is mapped in this process, as
/// `MapHere` is for a pipe.
#[derive(Clone, Copy, Debug)]
pub struct LinkHere<'a>(&'a LinkMap);

impl<'a> LinkHere<'a> {
    #[inline]
    pub fn header(self) -> &'a LinkHeader {
        &self.0.mapping.first::<LinkWords>().0
    }

    #[inline]
    fn lanes_of(self, channel: u32) -> &'a [LaneWords; 2] {
        let LinkMap { mapping, extent, lanes_at, .. } = self.0;
        assert!(channel < extent.channels, "the lanes of no channel");
        let at = lanes_at + channel as usize * size_of::<[LaneWords; 2]>();
        let lanes = mapping.base().wrapping_add(at).cast::<[LaneWords; 2]>();
        // SAFETY: the lanes of a channel (asserted), mapped as long as the map and aligned (they
        // begin at a page and are 256 bytes each); they are atomics, for which any bytes are a
        // value, and the rings in them are reached by copies only.
        unsafe { &*lanes }
    }

    #[inline]
    fn ring_in(self, range: RingRange) -> LinkRing<'a> {
        let (mapping, at, mask) = (&self.0.mapping, range.at(), range.mask());
        assert!(at + mask < mapping.bytes(), "a ring of no link");
        LinkRing { start: mapping.base().wrapping_add(at), mask, map: PhantomData }
    }
}

impl LaneMemory for LinkHere<'_> {
    type Ring<'b>
        = LinkRing<'b>
    where
        Self: 'b;

    #[inline]
    fn lanes(&self, channel: u32) -> &[LaneWords; 2] {
        self.lanes_of(channel)
    }

    #[inline]
    fn arena_bytes(&self) -> u32 {
        self.0.arena_bytes()
    }

    #[inline]
    fn range(&self, lane: LaneId, place: LanePlace) -> RingRange {
        self.0.range(lane, place)
    }

    #[inline]
    fn ring_of(&self, range: RingRange) -> LinkRing<'_> {
        self.ring_in(range)
    }
}

/// Each access checks that the memory is here.
impl LaneMemory for LinkMap {
    type Ring<'a> = LinkRing<'a>;

    #[inline]
    fn lanes(&self, channel: u32) -> &[LaneWords; 2] {
        self.surely_here().lanes_of(channel)
    }

    #[inline]
    fn arena_bytes(&self) -> u32 {
        self.extent.arena_bytes
    }

    #[inline]
    fn range(&self, lane: LaneId, place: LanePlace) -> RingRange {
        let is_owners = lane.writer == LinkSide::Owner;
        match place.as_block() {
            None => {
                let before = 2 * lane.channel as usize + usize::from(is_owners);
                let at = self.lanes_at + before * size_of::<LaneWords>();
                RingRange::new(at + offset_of!(LaneWords, inline), INLINE_BYTES)
            }
            Some((offset, bytes)) => {
                let (arena, offset) = (self.extent.arena_bytes as usize, offset as usize);
                // A place is a multiple of its bytes, and these are a power of two.
                assert!(offset + bytes as usize <= arena, "a block of no arena");
                let first = self.arenas_at + if is_owners { arena } else { 0 };
                RingRange::new(first + offset, bytes as usize)
            }
        }
    }

    #[inline]
    fn ring_of(&self, range: RingRange) -> LinkRing<'_> {
        self.surely_here().ring_in(range)
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
    fn put(&self, position: u64, head: u32, bytes: &[u8]) {
        // Relaxed: `LaneWriter::publish` releases it.
        self.word(position).store(head, Ordering::Relaxed);
        let (to, first) = self.part(position + HEAD_BYTES as u64, bytes.len());
        if first > LONG_BYTES {
            prefetch_to_write(to, first);
        }
        // SAFETY: the range is inside the ring, and that is inside the mapping. It does not overlap
        // `bytes`, which are private. No other thread touches it meanwhile: the contract of
        // `LaneRing`. Another process that does so spoils its own data.
        unsafe { copy(bytes.as_ptr(), to, first) };
        let rest = &bytes[first..];
        if !rest.is_empty() {
            // SAFETY: as above; the rest is no longer than the ring.
            unsafe { copy_far(rest.as_ptr(), self.start, rest.len()) };
        }
    }

    #[inline(always)]
    fn put_short(&self, position: u64, head: u32, bytes: &[u8]) -> bool {
        let at = position as usize & self.mask & !(HEAD_BYTES - 1);
        let is_short = SHORT_BYTES.contains(&bytes.len());
        if !is_short || at + HEAD_BYTES + bytes.len() > self.mask + 1 {
            return false;
        }
        let place = self.start.wrapping_add(at);
        // SAFETY: inside the ring, and aligned: `at` is a multiple of 4, and so is the beginning.
        // As in `word`, no copy touches it meanwhile.
        let word = unsafe { &*place.cast::<AtomicU32>() };
        // Relaxed: `LaneWriter::publish` releases it.
        word.store(head, Ordering::Relaxed);
        // SAFETY: as in `put`, of which this is the case that nothing continues at the beginning.
        unsafe { copy_short(bytes.as_ptr(), place.wrapping_add(HEAD_BYTES), bytes.len()) };
        true
    }

    #[inline]
    fn copy_out(&self, position: u64, to: &mut [u8]) {
        let (from, first) = self.part(position, to.len());
        let (start, rest) = to.split_at_mut(first);
        // SAFETY: as in `put`. No other thread writes it meanwhile; another process that does
        // changes which bytes are copied, and any bytes are a value.
        unsafe { copy(from, start.as_mut_ptr(), start.len()) };
        if !rest.is_empty() {
            // SAFETY: as above; the rest is no longer than the ring.
            unsafe { copy_far(self.start, rest.as_mut_ptr(), rest.len()) };
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
    use rustix::fd::{AsFd, OwnedFd};
    use rustix::fs::{FallocateFlags, MemfdFlags};
    use weir::parts::SEALS;
    use weir_ring::lane::{FrameKind, LaneReader, LaneWriter};

    const EXTENT: LinkExtent = LinkExtent { channels: 40, arena_bytes: 64 << 10 };

    #[test]
    fn each_side_finds_what_the_other_wrote() {
        let (file, peer) = LinkMap::create(EXTENT).expect("made");
        let owner = LinkMap::open(file.get().expect("mine")).expect("opened");
        assert_eq!(owner.extent(), EXTENT);
        for (channel, writer) in [(0, LinkSide::Peer), (39, LinkSide::Peer), (0, LinkSide::Owner)] {
            let lane = LaneId { writer, channel };
            let (mut end, mut reader) =
                (LaneWriter::new(&peer, lane), LaneReader::new(&owner, lane));
            for place in [LanePlace::INLINE, LanePlace::block(61_440, 4096)] {
                end.refresh(&peer, lane).expect("sound");
                end.move_to(&peer, lane, place);
                assert!(end.put(&peer, FrameKind::Data, false, b"some bytes"));
                end.publish(&peer, lane);
                let mut out = [0; 10];
                reader.next_frame(&owner, lane).expect("sound").expect("there");
                assert_eq!(reader.take(&owner, &mut out), 10);
                assert_eq!(&out, b"some bytes");
                reader.give_back(&owner, lane);
            }
        }
        peer.board(LinkSide::Owner).set(7);
        assert!(owner.board(LinkSide::Owner).any() && !owner.board(LinkSide::Peer).any());
    }

    #[test]
    #[expect(clippy::disallowed_methods)]
    fn a_short_frame_is_put_as_any_other() {
        let (_file, map) = LinkMap::create(EXTENT).expect("made");
        let here = map.here().expect("mapped");
        let lane = LaneId { writer: LinkSide::Peer, channel: 3 };
        let rings = [0, 8192].map(|offset| here.ring(lane, LanePlace::block(offset, 4096)));
        let text: Vec<u8> = (0..=255).collect();
        for (length, position) in (0..256_usize).zip((0..).step_by(52)) {
            let (head, bytes) = (length as u32 | 0x40000, &text[text.len() - length..]);
            let goes_on = position as usize % 4096 + HEAD_BYTES + length > 4096;
            let is_put = rings[0].put_short(position, head, bytes);
            assert_eq!(is_put, (4..=64).contains(&length) && !goes_on, "{length} at {position}");
            if !is_put {
                rings[0].put(position, head, bytes);
            }
            rings[1].put(position, head, bytes);
            let read = rings.each_ref().map(|ring| {
                let mut out = [0; 256];
                ring.copy_out(position + HEAD_BYTES as u64, &mut out[..length]);
                (ring.word(position).load(Ordering::Relaxed), out)
            });
            assert_eq!(read[0], read[1], "{length} at {position}");
            assert_eq!((read[1].0, &read[1].1[..length]), (head, bytes), "{length} at {position}");
        }
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
