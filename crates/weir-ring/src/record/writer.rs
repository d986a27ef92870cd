//! The writer's side of a record ring.

use super::sizes::{LastFootprint, RecordPosition, RingSizes, footprint_after};
use super::{COMMITTED, HEADER_BYTES, IN_ARENA, INLINE_BYTES, LENGTH, WORD_BYTES};
use crate::primitive::Ordering;
use crate::{Area, Corrupt, RingMemory, check_behind};

/// The writer's side of a record ring.
#[derive(Debug)]
pub struct RecordRingWriter {
    written: RecordPosition,
    /// Up to where both areas are known to be free.
    free: RecordPosition,
    /// Up to where records as long as the last one may go fast. Free up to there.
    fast_until: u64,
    sizes: RingSizes,
    last: LastFootprint,
    /// The record that is being written in place.
    begun: Option<BegunRecord>,
}

/// A record that is being written in place, and what is known beside it. Meanwhile the writer knows of
/// no room, so nothing is sent before the record has ended, even if its owner forgets it.
#[derive(Clone, Copy, Debug)]
struct BegunRecord {
    bytes: usize,
    free: RecordPosition,
    fast_until: u64,
}

impl RecordRingWriter {
    /// Goes on where the memory says that the writer was.
    pub fn resume(memory: &impl RingMemory) -> Result<RecordRingWriter, Corrupt> {
        let written = RecordPosition::alleged(&memory.header().writer)?;
        let sizes = RingSizes::of(memory);
        let last = LastFootprint::new(sizes.head);
        let fast_until = written.ring;
        let (free, begun) = (written, None);
        let mut writer = RecordRingWriter { written, free, fast_until, sizes, last, begun };
        writer.refresh(memory)?;
        Ok(writer)
    }

    fn refresh(&mut self, memory: &impl RingMemory) -> Result<(), Corrupt> {
        self.abandon(memory);
        let line = &memory.header().reader;
        let what = "the reader's position";
        // Acquire pairs with the release in `RecordRingReader::give_back`: the room is zeros.
        let ring = line.position.load(Ordering::Acquire);
        let arena = line.arena.load(Ordering::Acquire);
        let read = RecordPosition {
            ring: check_behind(self.written.ring, ring, self.sizes.ring, what)?,
            arena: check_behind(self.written.arena, arena, self.sizes.arena, what)?,
        };
        self.free = read.after((self.sizes.ring, self.sizes.arena));
        Ok(())
    }

    /// Whether both areas are known to have this room.
    #[inline]
    pub fn is_known_to_fit(&self, (ring, arena): (u64, u64)) -> bool {
        let known = self.room();
        known.0 >= ring && known.1 >= arena
    }

    /// Whether both areas are known to have room for a record of `bytes`.
    #[inline(always)]
    pub fn is_known_to_hold(&mut self, bytes: usize) -> bool {
        let footprint = self.last.of(bytes);
        self.is_known_to_fit(footprint)
    }

    /// Lets up to `records` records of the last one's length [go fast](RecordRingWriter::send_fast) from here
    /// on, as far as there is known to be room. So the caller counts them without a counter: it looks
    /// around once no more of them may.
    pub fn allow_fast(&mut self, records: u64) {
        let bytes = self.last.footprint.0.saturating_mul(records);
        self.fast_until = self.written.ring.wrapping_add(bytes.min(self.room().0));
    }

    /// Whether a record of `bytes` is as long as the last one, and is in the ring.
    #[inline(always)]
    pub fn is_as_long_as_last(&self, bytes: usize) -> bool {
        bytes == self.last.inline_bytes
    }

    /// Whether a record of `bytes` may [go fast](RecordRingWriter::send_fast): it is as long as the last one,
    /// there is room for it, and fewer have gone than were allowed.
    #[inline(always)]
    pub fn may_go_fast(&self, bytes: usize) -> bool {
        // Signed: others may have gone beyond.
        let left = self.fast_until.wrapping_sub(self.written.ring) as i64;
        self.is_as_long_as_last(bytes) && left >= self.last.footprint.0 as i64
    }

    /// Sends a record that [may go fast](RecordRingWriter::may_go_fast), in as few instructions as can be.
    #[inline(always)]
    pub fn send_fast(&mut self, memory: &impl RingMemory, header: Option<u32>, bytes: &[u8]) {
        let head = if header.is_some() { HEADER_BYTES } else { WORD_BYTES };
        debug_assert_eq!((head, bytes.len()), (self.sizes.head, self.last.inline_bytes));
        let at = self.written.ring;
        if let Some(header) = header {
            self.put_header(memory, header);
        }
        memory.copy_in(Area::Ring, at.wrapping_add(head), bytes);
        // Release pairs with the acquire in `NextRecord::look`: the bytes are there.
        memory.word(at).store(COMMITTED | bytes.len() as u32, Ordering::Release);
        self.written.ring = self.written.ring.wrapping_add(self.last.footprint.0);
    }

    /// Whether both areas have this room.
    pub fn has_room(
        &mut self,
        memory: &impl RingMemory,
        room: (u64, u64),
    ) -> Result<bool, Corrupt> {
        if self.is_known_to_fit(room) {
            return Ok(true);
        }
        self.refresh(memory)?;
        Ok(self.is_known_to_fit(room))
    }

    /// Returns the room of both areas that is known.
    #[inline]
    pub fn room(&self) -> (u64, u64) {
        (
            self.free.ring.wrapping_sub(self.written.ring),
            self.free.arena.wrapping_sub(self.written.arena),
        )
    }

    /// Returns the bytes that a record takes of the ring and of the arena.
    pub fn footprint(&self, bytes: usize) -> (u64, u64) {
        footprint_after(self.sizes.head, bytes)
    }

    /// Stores the second word of the next record, where records have one.
    #[inline]
    pub fn put_header(&self, memory: &impl RingMemory, header: u32) {
        debug_assert_eq!(self.sizes.head, HEADER_BYTES);
        // Relaxed: published by the commit that follows.
        memory.word(self.written.ring.wrapping_add(WORD_BYTES)).store(header, Ordering::Relaxed);
    }

    /// Copies a part of the next record in, which has `whole` bytes and for which there is room.
    #[inline]
    pub fn fill(&self, memory: &impl RingMemory, whole: usize, offset: usize, bytes: &[u8]) {
        let (area, at) = self.sizes.payload(self.written, whole);
        memory.copy_in(area, at.wrapping_add(offset as u64), bytes);
    }

    /// Returns where the next record, of `whole` bytes, is to be written in place.
    #[inline]
    pub fn place(&self, whole: usize) -> (Area, u64) {
        self.sizes.payload(self.written, whole)
    }

    /// Makes the record of `bytes` appear, and moves on.
    #[inline]
    pub fn commit(&mut self, memory: &impl RingMemory, bytes: usize) {
        let kind = if bytes > INLINE_BYTES { IN_ARENA } else { 0 };
        let word = COMMITTED | kind | (bytes as u32 & LENGTH);
        // Release pairs with the acquire in `NextRecord::look`: the bytes are there.
        memory.word(self.written.ring).store(word, Ordering::Release);
        self.written = self.written.after(self.last.of(bytes));
    }

    /// Begins a record of `bytes` that is to be written in place, and for which there is room.
    #[inline]
    pub fn begin(&mut self, bytes: usize) {
        let RecordRingWriter { written, free, fast_until, .. } = *self;
        self.begun = Some(BegunRecord { bytes, free, fast_until });
        (self.free, self.fast_until) = (written, written.ring);
    }

    /// Ends the record that was begun, and returns its length.
    #[inline]
    pub fn end_begun(&mut self) -> Option<usize> {
        let BegunRecord { bytes, free, fast_until } = self.begun.take()?;
        (self.free, self.fast_until) = (free, fast_until);
        Some(bytes)
    }

    /// Leaves zeros where a record was begun and not committed. The plain stores begin behind the
    /// word, which is zero already and which the reader may load at any time.
    pub fn abandon(&mut self, memory: &impl RingMemory) {
        if let Some(bytes) = self.end_begun()
            && bytes <= INLINE_BYTES
        {
            let (ring, _) = self.footprint(bytes);
            let at = self.written.ring.wrapping_add(WORD_BYTES);
            memory.zero(at, (ring - WORD_BYTES) as usize);
        }
    }

    /// Leaves the memory as the next owner of this end expects it, without a record that was begun.
    pub fn hand_on(&mut self, memory: &impl RingMemory) {
        self.abandon(memory);
        self.publish_position(memory);
    }

    /// Stores the writer's position in the header: before it sleeps, or [hands the end
    /// on](RecordRingWriter::hand_on).
    pub fn publish_position(&self, memory: &impl RingMemory) {
        let line = &memory.header().writer;
        // Release pairs with the acquire in `RecordPosition::alleged`, in the next owner's process.
        line.arena.store(self.written.arena, Ordering::Release);
        line.position.store(self.written.ring, Ordering::Release);
    }
}
