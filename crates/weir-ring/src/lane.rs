//! A lane: one way of a channel, a ring of frames that its writer can move to other memory.
//!
//! A frame is `length u16 | kind u8 | flags u8`, the bytes, and what is missing to a multiple of 4.
//! Positions run freely, as a stream's do. The ring is 128 bytes beside the positions, or a block
//! of an arena of which the writer disposes; it is moved only while it is empty, so that all that
//! is unread lies in one place, which is said before it is published.
//!
//! In the order of flow: [`LaneWriter::put`], [`LaneWriter::publish`], [`must_notify`] and a bit on
//! the reader's board; [`LaneReader::look`], [`LaneReader::take`], [`LaneReader::give_back`],
//! [`look_away`], after which the reader looks once more.

use super::{Corrupt, check_behind};
use crate::primitive::{AtomicU32, AtomicU64, Ordering};
use weir_policy::arena::{LARGEST_BYTES, SMALLEST_BYTES};

mod attention;
#[cfg(any(test, loom, fuzzing))]
pub mod heap;
pub mod link;
#[cfg(all(test, not(loom)))]
mod tests;

pub use attention::{
    AWAY, LOOKING, LOOKING_WITH_BARRIER, fence_before_last_look, look_at, look_away, must_notify,
};

/// Bytes of the ring that is always there.
#[cfg(not(loom))]
pub const INLINE_BYTES: usize = 128;
#[cfg(loom)]
pub const INLINE_BYTES: usize = 16;
/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 4;
/// Room that is kept for the one frame that ends a channel, which so always fits.
const RESERVED_BYTES: usize = HEAD_BYTES;

/// What the writer of a lane says, and whether its reader looks at it.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct WriterLine {
    /// Bytes written and published.
    pub written: AtomicU64,
    /// Where the ring lies: see [`Place`].
    pub place: AtomicU64,
    /// [`AWAY`], [`LOOKING`] or [`LOOKING_WITH_BARRIER`]. The writer asks for it after each frame,
    /// while the reader seldom changes it: so it lies beside what the writer writes.
    pub attention: AtomicU32,
}

/// What the reader says, and what it is asked.
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
    /// The ring that is always there; reached by copies only.
    pub inline: [AtomicU32; INLINE_BYTES / 4],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<LaneWords>() == 256 && size_of::<WriterLine>() == 64);

/// Which side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That which was connected to.
    Owner,
    /// That which connected.
    Peer,
}

impl Side {
    /// The other one.
    #[inline]
    pub fn other(self) -> Side {
        if self == Side::Owner { Side::Peer } else { Side::Owner }
    }
}

/// One of the two lanes of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneId {
    /// Who writes it.
    pub writer: Side,
    /// The channel.
    pub channel: u32,
}

/// Where the ring of a lane lies: in an arena, or, where it has 0 bytes, beside its positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    offset: u32,
    block_bytes: u32,
}

impl Place {
    /// Beside the positions.
    pub const INLINE: Place = Place { offset: 0, block_bytes: 0 };

    /// A block of the writer's arena.
    #[inline]
    pub fn block(offset: u32, block_bytes: u32) -> Place {
        Place { offset, block_bytes }
    }

    /// The block, where it is one: offset and bytes.
    #[inline]
    pub fn as_block(self) -> Option<(u32, u32)> {
        (self.block_bytes != 0).then_some((self.offset, self.block_bytes))
    }

    /// Bytes of the ring, a power of two.
    #[inline]
    pub fn bytes(self) -> usize {
        if self.block_bytes == 0 { INLINE_BYTES } else { self.block_bytes as usize }
    }

    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self.offset) | u64::from(self.block_bytes) << 32
    }

    /// As alleged, if it can be.
    #[inline]
    fn from_word(word: u64, arena_bytes: u32) -> Result<Place, Corrupt> {
        let (offset, block_bytes) = (word as u32, (word >> 32) as u32);
        if word == 0 {
            return Ok(Place::INLINE);
        }
        let right = block_bytes.is_power_of_two()
            && (SMALLEST_BYTES..=LARGEST_BYTES).contains(&block_bytes)
            && offset.is_multiple_of(block_bytes)
            && offset.checked_add(block_bytes).is_some_and(|end| end <= arena_bytes);
        if right { Ok(Place { offset, block_bytes }) } else { Err(Corrupt("the place of a lane")) }
    }
}

/// What a lane is written against. As of [`super::Memory`], copies are plain, and each side makes
/// them of its own bytes only: the writer of those that are given back, the reader of those that are
/// published. Heads are words: a hostile peer may store to them at any time.
pub trait LaneMemory {
    /// The words of a lane.
    fn lane(&self, lane: LaneId) -> &LaneWords;
    /// Bytes of each of the two arenas.
    fn arena_bytes(&self) -> u32;
    /// A word of the ring of a lane, at a multiple of 4 within its bytes.
    fn word(&self, lane: LaneId, place: Place, at: usize) -> &AtomicU32;
    /// Copies into the ring of a lane; `at` and the bytes lie within its bytes.
    fn copy_in(&self, lane: LaneId, place: Place, at: usize, from: &[u8]);
    /// Copies out of the ring of a lane, likewise.
    fn copy_out(&self, lane: LaneId, place: Place, at: usize, to: &mut [u8]);
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A channel begins; the bytes are its label.
    Open = 1,
    /// It is accepted.
    Accept = 2,
    /// It is not, and so ends; the bytes are the reason.
    Refuse = 3,
    /// Bytes of the user's.
    Data = 4,
    /// A mark of the user's.
    End = 5,
    /// A number of the user's.
    Signal = 6,
    /// The channel ends.
    Close = 7,
}

impl FrameKind {
    #[inline]
    fn from_byte(byte: u8) -> Result<FrameKind, Corrupt> {
        Ok(match byte {
            1 => FrameKind::Open,
            2 => FrameKind::Accept,
            3 => FrameKind::Refuse,
            4 => FrameKind::Data,
            5 => FrameKind::End,
            6 => FrameKind::Signal,
            7 => FrameKind::Close,
            _ => return Err(Corrupt("the kind of a frame")),
        })
    }
}

/// The flag of a frame of which more follows in the next.
const MORE: u8 = 1;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// Whether the next one goes on with it.
    pub more: bool,
    /// Bytes of it that have not been taken.
    pub left: usize,
}

/// Bytes of the ring that a frame of so many takes.
#[inline]
pub fn footprint(bytes: usize) -> usize {
    HEAD_BYTES + bytes.next_multiple_of(4)
}

/// Bytes of a ring in which a frame of so many would find room, were it empty.
#[inline]
pub fn needed(bytes: usize) -> usize {
    footprint(bytes) + RESERVED_BYTES
}

/// The writer's side of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneWriter {
    written: u64,
    read: u64,
    place: Place,
}

impl LaneWriter {
    /// Looks how far the reader has come.
    #[inline]
    pub fn refresh(&mut self, memory: &impl LaneMemory, lane: LaneId) -> Result<(), Corrupt> {
        // Acquire pairs with the release in `LaneReader::give_back`: what is given back is read.
        let read = memory.lane(lane).reader.read.load(Ordering::Acquire);
        let filled = self.written.wrapping_sub(self.read);
        // Not behind what it said before either: a ring that was empty stays so.
        self.read = check_behind(self.written, read, filled, "the reader's position")?;
        Ok(())
    }

    /// Bytes there is room for, as far as is known, beside what is kept for the end.
    #[inline]
    pub fn room(&self) -> usize {
        let filled = self.written.wrapping_sub(self.read) as usize;
        self.place.bytes().saturating_sub(filled + RESERVED_BYTES)
    }

    /// Whether the frame that ends a channel fits, as far as is known. It does once after each that
    /// does not.
    #[inline]
    pub fn takes_last(&self) -> bool {
        self.written.wrapping_sub(self.read) as usize + RESERVED_BYTES <= self.place.bytes()
    }

    /// Whether all was read, as far as is known.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.written == self.read
    }

    /// Whether so much is free that a writer that wants to be notified is.
    #[inline]
    pub fn is_roomy(&self) -> bool {
        self.written.wrapping_sub(self.read) <= roomy_fill(self.place)
    }

    /// Where the ring lies.
    #[inline]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Goes on in another place. To be called only while the lane is empty.
    #[inline]
    pub fn move_to(&mut self, place: Place) {
        assert!(self.is_empty(), "a lane is moved only while it is empty");
        self.place = place;
    }

    /// Writes a frame for which there is room, behind what was published.
    pub fn put(
        &mut self,
        memory: &impl LaneMemory,
        lane: LaneId,
        kind: FrameKind,
        more: bool,
        bytes: &[u8],
    ) {
        let last = kind == FrameKind::Close && bytes.is_empty() && self.takes_last();
        assert!(last || footprint(bytes.len()) <= self.room(), "no room for a frame");
        let flags = if more { MORE } else { 0 };
        let length = (bytes.len() as u16).to_le_bytes();
        let head = u32::from_le_bytes([length[0], length[1], kind as u8, flags]);
        let at = self.written as usize & (self.place.bytes() - 1);
        // Relaxed: `publish` releases it.
        memory.word(lane, self.place, at).store(head.to_le(), Ordering::Relaxed);
        let (at, first) = split(self.place, self.written + HEAD_BYTES as u64, bytes.len());
        memory.copy_in(lane, self.place, at, &bytes[..first]);
        if first < bytes.len() {
            memory.copy_in(lane, self.place, 0, &bytes[first..]);
        }
        self.written += footprint(bytes.len()) as u64;
    }

    /// Publishes what was put. Returns the word at which the reader says whether it looks.
    #[inline]
    pub fn publish<'m>(&self, memory: &'m impl LaneMemory, lane: LaneId) -> &'m AtomicU32 {
        let line = &memory.lane(lane).writer;
        line.place.store(self.place.to_word(), Ordering::Relaxed);
        // Release pairs with the acquire in `LaneReader::look`: the bytes, and their place.
        line.written.store(self.written, Ordering::Release);
        &line.attention
    }
}

/// Bytes a ring may still hold when its writer is notified of room: half. Of the small one none, so
/// that it can then be moved to a larger place.
#[inline]
fn roomy_fill(place: Place) -> u64 {
    if place.as_block().is_some() { place.bytes() as u64 / 2 } else { 0 }
}

/// Where a part of the ring from a position lies, and how much of it before the ring's end.
#[inline]
fn split(place: Place, position: u64, bytes: usize) -> (usize, usize) {
    let at = position as usize & (place.bytes() - 1);
    (at, bytes.min(place.bytes() - at))
}

/// The reader's side of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneReader {
    read: u64,
    /// What was written when this was last looked up.
    written: u64,
    /// What was read when the writer was last asked whether it wants room.
    asked: u64,
    place: Place,
    /// Bytes that are left of the frame that was looked at, where its head is behind `read`.
    left: u16,
    begun: Option<(FrameKind, bool)>,
}

impl LaneReader {
    /// The next frame, if there is one: of one that was partly taken, what is left.
    pub fn look(
        &mut self,
        memory: &impl LaneMemory,
        lane: LaneId,
    ) -> Result<Option<Frame>, Corrupt> {
        if let Some((kind, more)) = self.begun {
            return Ok(Some(Frame { kind, more, left: self.left.into() }));
        }
        if self.read == self.written && !self.refresh(memory, lane)? {
            return Ok(None);
        }
        let at = self.read as usize & (self.place.bytes() - 1);
        // Loaded once: a hostile writer can change it after the checks. Relaxed: `refresh` acquired
        // it.
        let head = memory.word(lane, self.place, at).load(Ordering::Relaxed).to_ne_bytes();
        let left = u16::from_le_bytes([head[0], head[1]]);
        let there = self.written.wrapping_sub(self.read);
        if footprint(left.into()) as u64 > there || head[3] & !MORE != 0 {
            return Err(Corrupt("the head of a frame"));
        }
        let (kind, more) = (FrameKind::from_byte(head[2])?, head[3] & MORE != 0);
        self.begun = Some((kind, more));
        self.left = left;
        self.read += HEAD_BYTES as u64;
        Ok(Some(Frame { kind, more, left: left.into() }))
    }

    /// Looks whether anything was written to an empty lane.
    #[inline]
    fn refresh(&mut self, memory: &impl LaneMemory, lane: LaneId) -> Result<bool, Corrupt> {
        let line = &memory.lane(lane).writer;
        // Acquire pairs with the release in `LaneWriter::publish`: the place is that of the bytes.
        let written = line.written.load(Ordering::Acquire);
        if written == self.read {
            return Ok(false);
        }
        let place = Place::from_word(line.place.load(Ordering::Relaxed), memory.arena_bytes())?;
        let there = written.wrapping_sub(self.read);
        if there > place.bytes() as u64 || !there.is_multiple_of(4) {
            return Err(Corrupt("the writer's position"));
        }
        (self.written, self.place) = (written, place);
        Ok(true)
    }

    /// Whether anything is there, without touching it.
    #[inline]
    pub fn has(&self, memory: &impl LaneMemory, lane: LaneId) -> bool {
        // Acquire pairs with the release in `LaneWriter::publish`, for what follows.
        self.begun.is_some()
            || memory.lane(lane).writer.written.load(Ordering::Acquire) != self.read
    }

    /// Takes as much as fits of the frame that was looked at. With its last bytes the frame is
    /// gone.
    pub fn take(&mut self, memory: &impl LaneMemory, lane: LaneId, to: &mut [u8]) -> usize {
        let count = to.len().min(self.left.into());
        let (at, first) = split(self.place, self.read, count);
        memory.copy_out(lane, self.place, at, &mut to[..first]);
        if first < count {
            memory.copy_out(lane, self.place, 0, &mut to[first..count]);
        }
        self.pass(count);
        count
    }

    /// Goes past what is left of the frame that was looked at.
    #[inline]
    pub fn skip(&mut self) {
        self.pass(self.left.into());
    }

    #[inline]
    fn pass(&mut self, count: usize) {
        self.read += count as u64;
        self.left -= count as u16;
        if self.left == 0 {
            self.begun = None;
            self.read = self.read.next_multiple_of(4);
        }
    }

    /// Gives what was read back. Whether the writer wanted to be notified of so much room, and is to
    /// be, by this caller.
    ///
    /// The writer is asked each time a quarter of the ring was read, since that takes a fence. That
    /// is often enough: one that has found more than half of the ring full has at least one such
    /// question before it until all is read.
    pub fn give_back(&mut self, memory: &impl LaneMemory, lane: LaneId) -> bool {
        let line = &memory.lane(lane).reader;
        // Release pairs with the acquire in `LaneWriter::refresh`: it is read.
        line.read.store(self.read, Ordering::Release);
        if self.place != Place::INLINE
            && self.read.wrapping_sub(self.asked) < self.place.bytes() as u64 / 4
        {
            return false;
        }
        self.asked = self.read;
        let filled = self.written.wrapping_sub(self.read);
        filled <= roomy_fill(self.place)
            && super::sleep::is_wanted(&line.wanted)
            && super::sleep::take(&line.wanted) != 0
    }
}
