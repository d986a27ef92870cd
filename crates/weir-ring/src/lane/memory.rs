//! The memory of lanes: their words, where their rings lie, and what reaches both.

use super::INLINE_BYTES;
use crate::Corrupt;
use crate::primitive::{AtomicU32, AtomicU64};
use weir_policy::arena::{LARGEST_BYTES, SMALLEST_BYTES};

/// What the writer of a lane stores, and whether it looks at the channel's other lane.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct WriterLine {
    /// Bytes written and published.
    pub written: AtomicU64,
    /// Where the ring lies: see [`LanePlace`].
    pub place: AtomicU64,
    /// Whether this side looks at the other lane of the channel: see [`super::attention_to`].
    pub attention: AtomicU32,
}

/// What the reader stores, and what it is asked.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct ReaderLine {
    /// Bytes read and given back.
    pub read: AtomicU64,
    /// Not 0 while the writer wants to be notified of room.
    pub wanted: AtomicU32,
}

/// The shared words of a lane.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct LaneWords {
    /// The writer's line.
    pub writer: WriterLine,
    /// The reader's line.
    pub reader: ReaderLine,
    /// The ring beside the positions; only copies reach it.
    pub inline: [AtomicU32; INLINE_BYTES / 4],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<LaneWords>() == 256 && size_of::<WriterLine>() == 64);

/// A side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSide {
    /// The side that accepts connections.
    Owner,
    /// The side that connected.
    Peer,
}

impl LinkSide {
    /// Returns the other side.
    #[inline]
    pub fn other(self) -> LinkSide {
        if self == LinkSide::Owner { LinkSide::Peer } else { LinkSide::Owner }
    }
}

/// One of the two lanes of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneId {
    /// The side that writes it.
    pub writer: LinkSide,
    /// The channel.
    pub channel: u32,
}

impl LaneId {
    /// Returns the lane in the other direction.
    #[inline]
    pub fn back(self) -> LaneId {
        LaneId { writer: self.writer.other(), channel: self.channel }
    }

    /// Returns its words among those of its channel.
    #[inline]
    pub(super) fn words(self, lanes: &[LaneWords; 2]) -> &LaneWords {
        &lanes[usize::from(self.writer == LinkSide::Owner)]
    }
}

/// Where the ring of a lane lies: in an arena, or beside its positions, if it has 0 bytes. A block has a
/// size that blocks have, and is at a multiple of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LanePlace {
    offset: u32,
    block_bytes: u32,
}

impl LanePlace {
    /// Beside the positions.
    pub const INLINE: LanePlace = LanePlace { offset: 0, block_bytes: 0 };

    /// Returns the place of a block of the writer's arena.
    ///
    /// # Panics
    /// A block has no such size, or is not at a multiple of its size.
    #[inline]
    pub fn block(offset: u32, block_bytes: u32) -> LanePlace {
        let place = LanePlace { offset, block_bytes };
        assert!(place.is_block(), "no place of a block");
        place
    }

    #[inline]
    fn is_block(self) -> bool {
        self.block_bytes.is_power_of_two()
            && (SMALLEST_BYTES..=LARGEST_BYTES).contains(&self.block_bytes)
            && self.offset.is_multiple_of(self.block_bytes)
    }

    /// Returns offset and bytes of the block, if it is one.
    #[inline]
    pub fn as_block(self) -> Option<(u32, u32)> {
        (self.block_bytes != 0).then_some((self.offset, self.block_bytes))
    }

    /// Returns the bytes of the ring, a power of two.
    #[inline]
    pub fn bytes(self) -> usize {
        if self.block_bytes == 0 { INLINE_BYTES } else { self.block_bytes as usize }
    }

    #[inline]
    pub(super) fn to_word(self) -> u64 {
        u64::from(self.offset) | u64::from(self.block_bytes) << 32
    }

    /// Checks a place that the writer alleges.
    #[inline]
    pub(super) fn from_word(word: u64, arena_bytes: u32) -> Result<LanePlace, Corrupt> {
        let (offset, block_bytes) = (word as u32, (word >> 32) as u32);
        if word == 0 {
            return Ok(LanePlace::INLINE);
        }
        let place = LanePlace { offset, block_bytes };
        let ends_inside = offset.checked_add(block_bytes).is_some_and(|end| end <= arena_bytes);
        if place.is_block() && ends_inside {
            Ok(place)
        } else {
            Err(Corrupt("the place of a lane"))
        }
    }
}

/// Where a ring is in the memory of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRange {
    at: u32,
    mask: u32,
}

impl RingRange {
    /// Returns the range of so many bytes, a power of two, from a place of the memory on.
    ///
    /// # Panics
    /// It is not a ring of words, or is beyond 4 GiB.
    pub fn new(at: usize, bytes: usize) -> RingRange {
        assert!(at.is_multiple_of(4) && bytes.is_power_of_two() && bytes >= 4, "no ring of words");
        let at = u32::try_from(at).expect("a link has less than 4 GiB");
        RingRange { at, mask: (bytes - 1) as u32 }
    }

    /// Returns where it begins, a multiple of 4.
    #[inline]
    pub fn at(self) -> usize {
        self.at as usize
    }

    /// Returns its bytes less one. They are a power of two and at least 4.
    #[inline]
    pub fn mask(self) -> usize {
        self.mask as usize
    }
}

/// The memory that lanes are written against.
pub trait LaneMemory {
    /// The ring of a lane.
    type Ring<'a>: LaneRing
    where
        Self: 'a;
    /// The words of both lanes of a channel: of the one that the peer writes, and of the owner's.
    fn lanes(&self, channel: u32) -> &[LaneWords; 2];
    /// The words of a lane.
    #[inline]
    fn lane(&self, lane: LaneId) -> &LaneWords {
        lane.words(self.lanes(lane.channel))
    }
    /// Bytes of each of the two arenas.
    fn arena_bytes(&self) -> u32;
    /// The range of a lane's ring that is at a place.
    fn range(&self, lane: LaneId, place: LanePlace) -> RingRange;
    /// The ring that has a range, which [`LaneMemory::range`] of the same memory has returned.
    fn ring_of(&self, range: RingRange) -> Self::Ring<'_>;
    /// The ring of a lane that is at a place.
    #[inline]
    fn ring(&self, lane: LaneId, place: LanePlace) -> Self::Ring<'_> {
        self.ring_of(self.range(lane, place))
    }
}

/// The ring of a lane. A position is one of the lane, which the ring takes modulo its bytes; what
/// reaches beyond the end of the ring continues at its beginning.
///
/// Copies are plain accesses, as in [`crate::RingMemory`], and each side copies its own bytes only: the
/// writer those that were given back, the reader those that were published. Heads are atomic words: a
/// hostile peer may store to them at any time.
pub trait LaneRing {
    /// The word at a position that is a multiple of 4.
    fn word(&self, position: u64) -> &AtomicU32;
    /// Stores a head at a position that is a multiple of 4, and bytes behind it. Together they are no
    /// more than the ring holds.
    fn put(&self, position: u64, head: u32, bytes: &[u8]);
    /// As [`LaneRing::put`], if that takes only a few steps: whether it did.
    #[inline]
    fn put_short(&self, position: u64, head: u32, bytes: &[u8]) -> bool {
        self.put(position, head, bytes);
        true
    }
    /// Copies out no more than the ring holds.
    fn copy_out(&self, position: u64, to: &mut [u8]);
    /// Asks for the line of a position, which is read soon. This is a hint.
    #[inline]
    fn prefetch(&self, _position: u64) {}
}
