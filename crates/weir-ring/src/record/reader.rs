//! The reader's side of a record ring.

use super::sizes::{LastFootprint, RecordPosition, RingSizes};
use super::{COMMITTED, IN_ARENA, INLINE_BYTES, LENGTH, WORD_BYTES};
use crate::primitive::{AtomicU32, Ordering};
use crate::{Area, Corrupt, RingMemory};

/// The place at which the next record will appear.
#[derive(Debug)]
pub struct NextRecord<'a>(&'a AtomicU32);

impl NextRecord<'_> {
    /// Returns the word of the record, if it is there. It may be invalid: see
    /// [`RecordRingReader::length`].
    #[inline(always)]
    pub fn find(&self) -> Option<u32> {
        Some(self.peek()).filter(|word| *word != 0)
    }

    #[inline(always)]
    fn peek(&self) -> u32 {
        // Acquire pairs with the releases in `RecordRingWriter`: the record is there.
        self.0.load(Ordering::Acquire)
    }
}

/// The reader's side of a record ring.
#[derive(Debug)]
pub struct RecordRingReader {
    read: RecordPosition,
    given_back: RecordPosition,
    sizes: RingSizes,
    last: LastFootprint,
}

impl RecordRingReader {
    /// Goes on where the memory says that the reader was.
    pub fn resume(memory: &impl RingMemory) -> Result<RecordRingReader, Corrupt> {
        let read = RecordPosition::alleged(&memory.header().reader)?;
        let sizes = RingSizes::of(memory);
        let last = LastFootprint::new(sizes.head);
        Ok(RecordRingReader { read, given_back: read, sizes, last })
    }

    /// Returns the length of the next record, if there is one.
    #[inline]
    pub fn peek(&self, memory: &impl RingMemory) -> Result<Option<usize>, Corrupt> {
        match self.word(memory) {
            0 => Ok(None),
            word => self.length(word).map(Some).ok_or(Corrupt("the length of a record")),
        }
    }

    /// Returns the word of the next record, if there is one. It may be invalid: see
    /// [`RecordRingReader::length`].
    #[inline(always)]
    pub fn find(&self, memory: &impl RingMemory) -> Option<u32> {
        Some(self.word(memory)).filter(|word| *word != 0)
    }

    /// Returns the word at the next place. Zero: there is no record yet.
    #[inline(always)]
    fn word(&self, memory: &impl RingMemory) -> u32 {
        self.next(memory).peek()
    }

    /// Returns the place of the next record, for a reader that looks at it again and again.
    #[inline(always)]
    pub fn next<'a>(&self, memory: &'a impl RingMemory) -> NextRecord<'a> {
        NextRecord(memory.word(self.read.ring))
    }

    /// Returns the word of a record of `bytes`, if the last record was as long and lay in the ring;
    /// otherwise 0, which is not a record's word. This is asked before the record is there.
    #[inline(always)]
    pub fn fast_word(&self, bytes: usize) -> u32 {
        if bytes == self.last.inline_bytes { COMMITTED | bytes as u32 } else { 0 }
    }

    /// Copies a record out that has the [fast word](RecordRingReader::fast_word) and fills `to`, and goes
    /// past it, in as few instructions as can be. Returns whether enough of the ring has gathered to be given back.
    #[inline(always)]
    pub fn take_fast(&mut self, memory: &impl RingMemory, to: &mut [u8]) -> bool {
        debug_assert_eq!(to.len(), self.last.inline_bytes);
        memory.copy_out(Area::Ring, self.read.ring.wrapping_add(self.sizes.head), to);
        self.read.ring = self.read.ring.wrapping_add(self.last.footprint.0);
        self.owes_much_of_ring()
    }

    /// Returns the length in a word that is not zero, if the word is valid.
    #[inline(always)]
    pub fn length(&self, word: u32) -> Option<usize> {
        let inline = (word ^ COMMITTED) as usize;
        if inline <= INLINE_BYTES { Some(inline) } else { self.length_in_arena(word) }
    }

    #[inline(never)]
    fn length_in_arena(&self, word: u32) -> Option<usize> {
        // The longest of all has one bit more: see `LENGTH`.
        let bytes = (word.wrapping_sub(1) & LENGTH) as usize + 1;
        let right = word & !LENGTH == COMMITTED | IN_ARENA
            && bytes > INLINE_BYTES
            && bytes as u64 <= self.sizes.arena;
        right.then_some(bytes)
    }

    /// Returns the second word of the next record, if records have one and this one is there.
    #[inline]
    pub fn header(&self, memory: &impl RingMemory) -> u32 {
        // Relaxed: published by the commit that `look` has seen.
        memory.word(self.read.ring.wrapping_add(WORD_BYTES)).load(Ordering::Relaxed)
    }

    /// Copies a part of the next record out, which has `whole` bytes.
    #[inline]
    pub fn copy_out(&self, memory: &impl RingMemory, whole: usize, offset: usize, to: &mut [u8]) {
        let (area, at) = self.sizes.payload(self.read, whole);
        memory.copy_out(area, at.wrapping_add(offset as u64), to);
    }

    /// Returns where the next record, of `whole` bytes, can be read in place.
    #[inline]
    pub fn place(&self, whole: usize) -> (Area, u64) {
        self.sizes.payload(self.read, whole)
    }

    /// Goes past the next record, which has `bytes` bytes.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        self.read = self.read.after(self.last.of(bytes));
        debug_assert!(
            self.read.ring.wrapping_sub(self.given_back.ring) <= self.sizes.ring,
            "a lap of the ring without giving back"
        );
    }

    /// Whether enough has gathered to be given back.
    #[inline]
    pub fn owes_much(&self) -> bool {
        self.owes_much_of_ring()
            || self.read.arena.wrapping_sub(self.given_back.arena) >= self.sizes.arena / 8
    }

    #[inline(always)]
    fn owes_much_of_ring(&self) -> bool {
        self.read.ring.wrapping_sub(self.given_back.ring) >= self.sizes.ring / 8
    }

    /// Whether anything has gathered.
    #[inline]
    pub fn owes(&self) -> bool {
        self.read != self.given_back
    }

    /// Gives what was read back to the writer.
    pub fn give_back(&mut self, memory: &impl RingMemory) {
        let bytes = self.read.ring.wrapping_sub(self.given_back.ring);
        memory.zero(self.given_back.ring, bytes as usize);
        self.given_back = self.read;
        let line = &memory.header().reader;
        // Release, both: pairs with the acquire in `RecordRingWriter::refresh`: what was given back
        // is copied out, and is zeros.
        line.arena.store(self.read.arena, Ordering::Release);
        line.position.store(self.read.ring, Ordering::Release);
    }

    /// Returns the room of both areas for a writer that claims these positions; 0 for nonsense.
    #[inline]
    pub fn room(&self, ring: u64, arena: u64) -> (u64, u64) {
        let room =
            |size: u64, alleged: u64, own: u64| size.saturating_sub(alleged.wrapping_sub(own));
        (
            room(self.sizes.ring, ring, self.given_back.ring),
            room(self.sizes.arena, arena, self.given_back.arena),
        )
    }
}
