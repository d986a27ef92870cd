//! A lane: one direction of a channel, a ring of frames that its writer can move to other memory.
//!
//! A frame is `length u16 | kind u8 | flags u8`, its bytes, and padding to a multiple of 4.
//! Positions only grow, as in a stream. The ring is 128 bytes beside the positions, or a block of
//! the writer's arena. The writer moves it only while it is empty, so all unread bytes lie in one
//! place, and the writer stores that place before it publishes them.
//!
//! In the order of flow: [`LaneWriter::put`], [`LaneWriter::publish`], [`must_notify`] and a bit on
//! the reader's board; [`LaneReader::look`], [`LaneReader::take`], [`LaneReader::give_back`],
//! [`look_away`], after which the reader looks once more.

use super::{Corrupt, check_behind};
use crate::primitive::{AtomicU32, Ordering};

mod attention;
#[cfg(any(test, loom, fuzzing))]
pub mod heap;
pub mod link;
mod memory;
#[cfg(all(test, not(loom)))]
mod tests;

pub use attention::{
    AWAY, LOOKING, LOOKING_WITH_BARRIER, attention_to, fence_before_last_look,
    is_looking_with_barrier, look_at, look_away, must_notify,
};
pub use memory::{
    LaneId, LaneMemory, LanePlace, LaneRing, LaneWords, LinkSide, ReaderLine, RingRange, WriterLine,
};

/// Bytes of the ring beside the positions.
pub const INLINE_BYTES: usize = if cfg!(loom) { 16 } else { 128 };
/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 4;
/// How far ahead of a short frame its reader asks for what is written. The place of the next frame is
/// known only once the length before it is there, so the CPU waits for one line after the other. The
/// lines of a long frame it fetches ahead by itself.
const AHEAD_BYTES: u64 = 512;
/// Longest frame that is short.
const SHORT_BYTES: u16 = 128;
/// Room that is kept for the one frame that ends a channel, so that it always fits.
const RESERVED_BYTES: usize = HEAD_BYTES;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A channel begins; the bytes are its label.
    Open = 1,
    /// The channel is accepted.
    Accept = 2,
    /// The channel is refused, which ends it; the bytes are the reason.
    Refuse = 3,
    /// Bytes of the user.
    Data = 4,
    /// A mark of the user.
    End = 5,
    /// A number of the user.
    Signal = 6,
    /// The channel ends.
    Close = 7,
}

impl FrameKind {
    /// Whether such a frame is a record of the user.
    #[inline]
    pub fn is_record(self) -> bool {
        matches!(self, FrameKind::Data | FrameKind::End | FrameKind::Signal)
    }

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

/// The flag of a frame that the next one continues.
const MORE: u8 = 1;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFrame {
    /// Its kind.
    pub kind: FrameKind,
    /// Whether the next frame continues it.
    pub more: bool,
    /// Bytes of it that have not been taken.
    pub left: usize,
}

/// What was taken of a frame of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataTaken {
    /// Whether it ends the frame.
    pub is_rest: bool,
    /// Whether what comes next continues it.
    pub more: bool,
}

/// Returns the bytes of a ring that a frame of `bytes` takes.
#[inline]
pub fn footprint(bytes: usize) -> usize {
    (HEAD_BYTES + 3 + bytes) & !3
}

/// Returns the bytes of a ring that would hold a frame of `bytes`, if the ring were empty.
#[inline]
pub fn needed(bytes: usize) -> usize {
    footprint(bytes) + RESERVED_BYTES
}

/// The word of a frame's head.
#[inline]
fn head(kind: FrameKind, more: bool, bytes: usize) -> u32 {
    let length = (bytes as u16).to_le_bytes();
    u32::from_ne_bytes([length[0], length[1], kind as u8, if more { MORE } else { 0 }])
}

/// The writer's side of a lane.
#[derive(Clone, Copy, Debug)]
pub struct LaneWriter {
    written: u64,
    read: u64,
    /// Up to here frames go out directly: they fit, and the ring is as large as is wished. Before
    /// `written` if nothing does.
    direct_end: u64,
    place: LanePlace,
    /// Where that is in the memory.
    range: RingRange,
    /// Bytes that the ring should have.
    wish_bytes: u32,
}

impl LaneWriter {
    /// The writer of a lane that nothing was written to, with the ring beside its positions.
    pub fn new(memory: &impl LaneMemory, lane: LaneId) -> LaneWriter {
        let place = LanePlace::INLINE;
        let range = memory.range(lane, place);
        let (written, read, direct_end, wish_bytes) = (0, 0, 0, 0);
        let fresh = LaneWriter { written, read, direct_end, place, range, wish_bytes };
        fresh.with_direct_end()
    }

    /// Looks how far the reader is.
    #[inline]
    pub fn refresh(&mut self, memory: &impl LaneMemory, lane: LaneId) -> Result<(), Corrupt> {
        // Acquire pairs with the release in `LaneReader::give_back`: what is given back is read.
        let read = memory.lane(lane).reader.read.load(Ordering::Acquire);
        let filled = self.written.wrapping_sub(self.read);
        // Nor behind what the reader stored before: this end may have written over that.
        self.read = check_behind(self.written, read, filled, "the reader's position")?;
        *self = self.with_direct_end();
        Ok(())
    }

    /// Finds anew how far frames go out directly, after what that depends on has changed.
    #[inline]
    fn with_direct_end(self) -> LaneWriter {
        let most = if self.wishes_more() { 0 } else { self.place.bytes() - RESERVED_BYTES };
        LaneWriter { direct_end: self.read.wrapping_add(most as u64), ..self }
    }

    /// Whether a frame of this many bytes fits for sure, into a ring that is as large as is wished.
    #[inline]
    pub fn goes_directly(&self, bytes: usize) -> bool {
        let left = self.direct_end.wrapping_sub(self.written) as i64;
        footprint(bytes) as i64 <= left
    }

    /// Whether the ring is smaller than is wished.
    #[inline]
    pub fn wishes_more(&self) -> bool {
        self.wish_bytes as usize > self.place.bytes()
    }

    /// Returns the bytes that the ring should have.
    #[inline]
    pub fn wish_bytes(&self) -> u32 {
        self.wish_bytes
    }

    /// Wishes for a ring of this many bytes. No frame goes out directly while it is smaller.
    #[inline]
    pub fn set_wish(&mut self, bytes: u32) {
        self.wish_bytes = bytes;
        *self = self.with_direct_end();
    }

    /// Returns the known room, without the part that is kept for the last frame.
    #[inline]
    pub fn room(&self) -> usize {
        let filled = self.written.wrapping_sub(self.read) as usize;
        self.place.bytes().saturating_sub(filled + RESERVED_BYTES)
    }

    /// Whether the frame that ends a channel is known to fit. After each frame that does not fit,
    /// it fits once.
    #[inline]
    pub fn takes_last(&self) -> bool {
        self.written.wrapping_sub(self.read) as usize + RESERVED_BYTES <= self.place.bytes()
    }

    /// Whether all is known to be read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.written == self.read
    }

    /// Whether there is enough room to notify a writer that wants some.
    #[inline]
    pub fn is_roomy(&self) -> bool {
        self.written.wrapping_sub(self.read) <= roomy_fill(self.place)
    }

    /// Returns where the ring lies.
    #[inline]
    pub fn place(&self) -> LanePlace {
        self.place
    }

    /// Moves the ring to another place; only while the lane is empty.
    #[inline]
    pub fn move_to(&mut self, memory: &impl LaneMemory, lane: LaneId, place: LanePlace) {
        assert!(self.is_empty(), "a lane is moved only while it is empty");
        (self.place, self.range) = (place, memory.range(lane, place));
        *self = self.with_direct_end();
        // Relaxed: the next `publish` releases it. The reader loads it once it has seen that.
        memory.lane(lane).writer.place.store(place.to_word(), Ordering::Relaxed);
    }

    /// Writes a frame behind what was published, if it is known to fit: whether it is.
    #[must_use]
    pub fn put(
        &mut self,
        memory: &impl LaneMemory,
        kind: FrameKind,
        more: bool,
        bytes: &[u8],
    ) -> bool {
        let is_last = || kind == FrameKind::Close && bytes.is_empty() && self.takes_last();
        let fits = footprint(bytes.len()) <= self.room() || is_last();
        if fits {
            let head = head(kind, more, bytes.len());
            memory.ring_of(self.range).put(self.written, head, bytes);
            self.written += footprint(bytes.len()) as u64;
        }
        fits
    }

    /// Writes a short frame of data, if it goes out directly: whether it did.
    #[inline(always)]
    #[must_use]
    pub fn put_short(&mut self, memory: &impl LaneMemory, bytes: &[u8]) -> bool {
        if !self.goes_directly(bytes.len()) {
            return false;
        }
        let head = head(FrameKind::Data, false, bytes.len());
        let is_put = memory.ring_of(self.range).put_short(self.written, head, bytes);
        if is_put {
            self.written += footprint(bytes.len()) as u64;
        }
        is_put
    }

    /// Publishes what was put. Returns the word that says whether the reader looks.
    #[inline(always)]
    pub fn publish<'m>(&self, memory: &'m impl LaneMemory, lane: LaneId) -> &'m AtomicU32 {
        let lanes = memory.lanes(lane.channel);
        let line = &lane.words(lanes).writer;
        // Release pairs with the acquire in `LaneReader::look`: the bytes, and their place, which
        // `move_to` stored.
        line.written.store(self.written, Ordering::Release);
        &lane.back().words(lanes).writer.attention
    }
}

/// Returns the most bytes that a ring may hold when its writer is notified of room: half of a
/// block. The small ring must be empty, so that it can be moved to a larger place.
#[inline]
fn roomy_fill(place: LanePlace) -> u64 {
    if place.as_block().is_some() { place.bytes() as u64 / 2 } else { 0 }
}

/// The reader's side of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneReader {
    read: u64,
    /// The writer's position when this side last looked.
    written: u64,
    /// The reader's position when it last asked whether the writer wants room.
    asked: u64,
    place: LanePlace,
    /// Bytes left of the frame that was looked at, whose head is before `read`.
    left: u16,
    begun: Option<(FrameKind, bool)>,
}

impl LaneReader {
    /// Returns the next frame, if there is one, or what is left of one that was partly taken.
    pub fn look(
        &mut self,
        memory: &impl LaneMemory,
        lane: LaneId,
    ) -> Result<Option<LaneFrame>, Corrupt> {
        if !self.has_frame(memory, lane)? {
            return Ok(None);
        }
        if self.begun.is_none() {
            let (kind, more, left) = self.head(&memory.ring(lane, self.place))?;
            self.begin(kind, more, left);
        }
        Ok(self.begun.map(|(kind, more)| LaneFrame { kind, more, left: self.left.into() }))
    }

    /// Takes frames of data, one after the other, for as long as `see` says. Each is copied to `to`, as
    /// much of it as fits, and shown with what was taken. Stops before a frame of another kind, which
    /// [`LaneReader::look`] returns.
    #[inline]
    pub fn take_data(
        &mut self,
        memory: &impl LaneMemory,
        lane: LaneId,
        to: &mut [u8],
        mut see: impl FnMut(DataTaken, &[u8]) -> bool,
    ) -> Result<(), Corrupt> {
        while self.has_frame(memory, lane)? {
            // It stays where it is until all that was published is read.
            let ring = memory.ring(lane, self.place);
            while self.begun.is_some() || self.read != self.written {
                let (bytes, taken) = match self.begun {
                    None => match self.whole_data(&ring, to)? {
                        Some((bytes, more)) => (bytes, DataTaken { is_rest: true, more }),
                        None => continue,
                    },
                    Some((FrameKind::Data, more)) => {
                        let bytes = self.take_from(&ring, to);
                        let is_rest = self.begun.is_none();
                        (bytes, DataTaken { is_rest, more: more || !is_rest })
                    }
                    Some(_) => return Ok(()),
                };
                if !see(taken, &to[..bytes]) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Takes the next frame, if it is data and fits into the buffer: its bytes, and whether the next one
    /// continues it. Otherwise it is begun.
    #[inline(always)]
    fn whole_data(
        &mut self,
        ring: &impl LaneRing,
        to: &mut [u8],
    ) -> Result<Option<(usize, bool)>, Corrupt> {
        let (kind, more, left) = self.head(ring)?;
        let bytes = usize::from(left);
        if kind != FrameKind::Data || bytes > to.len() {
            self.begin(kind, more, left);
            return Ok(None);
        }
        ring.copy_out(self.read + HEAD_BYTES as u64, &mut to[..bytes]);
        self.read += footprint(bytes) as u64;
        Ok(Some((bytes, more)))
    }

    #[inline]
    fn has_frame(&mut self, memory: &impl LaneMemory, lane: LaneId) -> Result<bool, Corrupt> {
        Ok(self.begun.is_some() || self.read != self.written || self.refresh(memory, lane)?)
    }

    /// Loads and checks the head of the next frame, which is there: kind, flag and bytes.
    #[inline(always)]
    fn head(&self, ring: &impl LaneRing) -> Result<(FrameKind, bool, u16), Corrupt> {
        // Loaded once: a hostile writer can change it after the checks. Relaxed: `refresh` acquired
        // it.
        let word = ring.word(self.read);
        let loaded = word.load(Ordering::Relaxed);
        let head = loaded.to_ne_bytes();
        let left = u16::from_le_bytes([head[0], head[1]]);
        let there = self.written.wrapping_sub(self.read);
        if footprint(left.into()) as u64 > there || head[3] & !MORE != 0 {
            return Err(Corrupt("the head of a frame"));
        }
        let kind = FrameKind::from_byte(head[2])?;
        if left <= SHORT_BYTES && there > AHEAD_BYTES {
            ring.prefetch(self.read + AHEAD_BYTES);
        }
        // A store that changes nothing: the writer stores to this line again, and some CPUs need
        // long for that if the line was only read here. Relaxed: `give_back` releases it.
        word.store(loaded, Ordering::Relaxed);
        Ok((kind, head[3] & MORE != 0, left))
    }

    /// Begins the frame whose head was loaded.
    #[inline]
    fn begin(&mut self, kind: FrameKind, more: bool, left: u16) {
        (self.begun, self.left) = (Some((kind, more)), left);
        self.read += HEAD_BYTES as u64;
    }

    /// Looks whether anything was written to the empty lane.
    #[inline]
    fn refresh(&mut self, memory: &impl LaneMemory, lane: LaneId) -> Result<bool, Corrupt> {
        let line = &memory.lane(lane).writer;
        // Acquire pairs with the release in `LaneWriter::publish`: the place is that of the bytes.
        let written = line.written.load(Ordering::Acquire);
        if written == self.read {
            return Ok(false);
        }
        let place = LanePlace::from_word(line.place.load(Ordering::Relaxed), memory.arena_bytes())?;
        let there = written.wrapping_sub(self.read);
        if there > place.bytes() as u64 || !there.is_multiple_of(4) {
            return Err(Corrupt("the writer's position"));
        }
        (self.written, self.place) = (written, place);
        Ok(true)
    }

    /// Whether the lane has anything. Changes nothing.
    #[inline]
    pub fn has(&self, memory: &impl LaneMemory, lane: LaneId) -> bool {
        // Acquire pairs with the release in `LaneWriter::publish`, for what follows.
        self.begun.is_some()
            || memory.lane(lane).writer.written.load(Ordering::Acquire) != self.read
    }

    /// Takes as much as fits of the frame that was looked at. The last bytes end the frame.
    pub fn take(&mut self, memory: &impl LaneMemory, lane: LaneId, to: &mut [u8]) -> usize {
        self.take_from(&memory.ring(lane, self.place), to)
    }

    fn take_from(&mut self, ring: &impl LaneRing, to: &mut [u8]) -> usize {
        let count = to.len().min(self.left.into());
        ring.copy_out(self.read, &mut to[..count]);
        self.pass(count);
        count
    }

    /// Copies as much as fits of the frame that was looked at, and takes none of it.
    pub fn peek(&self, memory: &impl LaneMemory, lane: LaneId, to: &mut [u8]) -> usize {
        let count = to.len().min(self.left.into());
        memory.ring(lane, self.place).copy_out(self.read, &mut to[..count]);
        count
    }

    /// Skips what is left of the frame that was looked at.
    #[inline]
    pub fn skip(&mut self) {
        self.pass(self.left.into());
    }

    /// Skips bytes of the frame that was looked at, at most what is left of it.
    #[inline]
    pub fn pass(&mut self, count: usize) {
        let count = count.min(self.left.into());
        self.read += count as u64;
        self.left -= count as u16;
        if self.left == 0 {
            self.begun = None;
            self.read = self.read.next_multiple_of(4);
        }
    }

    /// Gives back what was read. Returns whether the caller has to notify the writer, which wanted
    /// this much room.
    ///
    /// It asks the writer each time a quarter of the ring was read, because asking takes a fence.
    /// That is often enough: a writer that found more than half of the ring full is asked at least
    /// once before all is read.
    pub fn give_back(&mut self, memory: &impl LaneMemory, lane: LaneId) -> bool {
        let line = &memory.lane(lane).reader;
        // Release pairs with the acquire in `LaneWriter::refresh`: it is read.
        line.read.store(self.read, Ordering::Release);
        if self.place != LanePlace::INLINE
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
