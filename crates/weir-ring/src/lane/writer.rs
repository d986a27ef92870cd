//! The writer's side of a lane.

use super::{
    FrameKind, LaneId, LaneMemory, LanePlace, LaneRing, MORE, RESERVED_BYTES, RingRange, footprint,
    roomy_fill,
};
use crate::primitive::{AtomicU32, Ordering};
use crate::{Corrupt, check_behind};

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
    pub fn surely_fits(&self, bytes: usize) -> bool {
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
    #[inline]
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
        if !self.surely_fits(bytes.len()) {
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
        // Release pairs with the acquire in `LaneReader::next_frame`: the bytes, and their place,
        // which `move_to` stored.
        line.written.store(self.written, Ordering::Release);
        &lane.back().words(lanes).writer.attention
    }
}
