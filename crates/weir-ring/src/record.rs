//! A ring of records. A record is there once the word at its place is not zero. That word is its
//! length and its commit at once, so a small record moves one line between the CPUs.
//!
//! The memory begins as zeros. The reader sets what it has read to zeros again before it gives the
//! room back, so the word at the next place is zero until it is committed. The reader gives room
//! back when an eighth of the ring has gathered, the writer waits for it, or the reader rests. This
//! also dirties the lines on the reader's CPU, which some CPUs need to be fast.
//!
//! Messages of ports have a second word that says what they are; it is written before the first.
//!
//! Records above [`INLINE_BYTES`] lie in the arena, in the order of the ring; their word says so.

use super::layout::EndLine;
use super::{Area, Corrupt, RingMemory, check_behind};
use crate::primitive::Ordering;

/// Longest record that lies in the ring itself.
pub const INLINE_BYTES: usize = 1024;
/// Bytes before a record: the word.
const WORD_BYTES: u64 = 4;
/// Bytes before a message of a port: the word, and a second that says what the message is.
const HEADER_BYTES: u64 = 8;
const LINE_BYTES: u64 = 64;
const COMMITTED: u32 = 1 << 31;
const IN_ARENA: u32 = 1 << 30;
const LENGTH: u32 = IN_ARENA - 1;

/// Returns the bytes that a record takes of the ring and of the arena.
#[cfg(any(test, loom))]
#[inline]
pub fn footprint(bytes: usize) -> (u64, u64) {
    footprint_after(WORD_BYTES, bytes)
}

/// Returns these bytes for a record with a head of this size. Small records of one size never
/// straddle lines.
#[inline]
fn footprint_after(head: u64, bytes: usize) -> (u64, u64) {
    if bytes > INLINE_BYTES {
        return (8, (bytes as u64).next_multiple_of(LINE_BYTES));
    }
    let needed = (head + bytes as u64).max(8);
    let ring = if needed <= LINE_BYTES {
        needed.next_power_of_two()
    } else {
        needed.next_multiple_of(LINE_BYTES)
    };
    (ring, 0)
}

/// A position in both areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RecordPosition {
    ring: u64,
    arena: u64,
}

impl RecordPosition {
    /// Reads a line's position, and checks that a record can begin there.
    #[inline]
    fn alleged(line: &EndLine) -> Result<RecordPosition, Corrupt> {
        // Acquire: an end that was handed on finds what its former owner did.
        let ring = line.position.load(Ordering::Acquire);
        let arena = line.arena.load(Ordering::Acquire);
        let right = ring.is_multiple_of(8) && arena.is_multiple_of(LINE_BYTES);
        if right {
            Ok(RecordPosition { ring, arena })
        } else {
            Err(Corrupt("the position of an end"))
        }
    }

    #[inline]
    fn after(self, (ring, arena): (u64, u64)) -> RecordPosition {
        RecordPosition { ring: self.ring.wrapping_add(ring), arena: self.arena.wrapping_add(arena) }
    }
}

/// The sizes of both areas, and of a record's head.
#[derive(Clone, Copy, Debug)]
struct RingSizes {
    ring: u64,
    arena: u64,
    head: u64,
}

impl RingSizes {
    fn of(memory: &impl RingMemory) -> RingSizes {
        let head = if memory.has_headers() { HEADER_BYTES } else { WORD_BYTES };
        RingSizes { ring: memory.bytes(Area::Ring), arena: memory.bytes(Area::Arena), head }
    }

    #[inline]
    fn footprint(self, bytes: usize) -> (u64, u64) {
        footprint_after(self.head, bytes)
    }

    #[inline]
    fn ring_at(self, position: u64) -> usize {
        (position & (self.ring - 1)) as usize
    }

    /// Returns where the bytes of a record at a position lie.
    #[inline]
    fn payload(self, place: RecordPosition, bytes: usize) -> (Area, usize) {
        if bytes > INLINE_BYTES {
            (Area::Arena, (place.arena & (self.arena - 1)) as usize)
        } else {
            (Area::Ring, self.ring_at(place.ring.wrapping_add(self.head)))
        }
    }

    #[inline]
    fn part(self, area: Area, at: usize, offset: usize) -> usize {
        let bytes = if area == Area::Ring { self.ring } else { self.arena };
        (at + offset) & (bytes as usize - 1)
    }
}

/// The writer's side of a record ring.
#[derive(Debug)]
pub struct RecordWriter {
    written: RecordPosition,
    seen: RecordPosition,
    sizes: RingSizes,
}

impl RecordWriter {
    /// Goes on where the memory says that the writer was.
    pub fn resume(memory: &impl RingMemory) -> Result<RecordWriter, Corrupt> {
        let written = RecordPosition::alleged(&memory.header().writer)?;
        let mut writer = RecordWriter { written, seen: written, sizes: RingSizes::of(memory) };
        writer.refresh(memory)?;
        Ok(writer)
    }

    fn refresh(&mut self, memory: &impl RingMemory) -> Result<(), Corrupt> {
        let line = &memory.header().reader;
        let what = "the reader's position";
        // Acquire pairs with the release in `RecordReader::give_back`: the room is zeros.
        let ring = line.position.load(Ordering::Acquire);
        let arena = line.arena.load(Ordering::Acquire);
        self.seen.ring = check_behind(self.written.ring, ring, self.sizes.ring, what)?;
        self.seen.arena = check_behind(self.written.arena, arena, self.sizes.arena, what)?;
        Ok(())
    }

    /// Whether both areas are known to have this room.
    #[inline]
    pub fn is_known_to_fit(&self, (ring, arena): (u64, u64)) -> bool {
        let known = self.room();
        known.0 >= ring && known.1 >= arena
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
            self.sizes.ring - self.written.ring.wrapping_sub(self.seen.ring),
            self.sizes.arena - self.written.arena.wrapping_sub(self.seen.arena),
        )
    }

    /// Returns the bytes that a record takes of the ring and of the arena.
    #[inline]
    pub fn footprint(&self, bytes: usize) -> (u64, u64) {
        self.sizes.footprint(bytes)
    }

    /// Stores the second word of the next record, where records have one.
    #[inline]
    pub fn put_header(&self, memory: &impl RingMemory, header: u32) {
        debug_assert_eq!(self.sizes.head, HEADER_BYTES);
        let at = self.sizes.ring_at(self.written.ring.wrapping_add(WORD_BYTES));
        // Relaxed: published by the commit that follows.
        memory.word(at).store(header, Ordering::Relaxed);
    }

    /// Copies a part of the next record in, which has `whole` bytes and for which there is room.
    #[inline]
    pub fn fill(&self, memory: &impl RingMemory, whole: usize, offset: usize, bytes: &[u8]) {
        let (area, at) = self.sizes.payload(self.written, whole);
        memory.copy_in(area, self.sizes.part(area, at, offset), bytes);
    }

    /// Returns where the next record, of `whole` bytes, is to be written in place.
    #[inline]
    pub fn place(&self, whole: usize) -> (Area, usize) {
        self.sizes.payload(self.written, whole)
    }

    /// Makes the record of `bytes` appear, and moves on.
    #[inline]
    pub fn commit(&mut self, memory: &impl RingMemory, bytes: usize) {
        let kind = if bytes > INLINE_BYTES { IN_ARENA } else { 0 };
        let word = COMMITTED | kind | (bytes as u32 & LENGTH);
        // Release pairs with the acquire in `RecordReader::look`: the bytes are there.
        memory.word(self.sizes.ring_at(self.written.ring)).store(word, Ordering::Release);
        self.written = self.written.after(self.sizes.footprint(bytes));
    }

    /// Leaves zeros where a record was begun and not committed. The plain stores begin behind the
    /// word, which is zero already and which the reader may load at any time.
    pub fn abandon(&self, memory: &impl RingMemory, bytes: usize) {
        if bytes <= INLINE_BYTES {
            let (ring, _) = self.sizes.footprint(bytes);
            let at = self.sizes.ring_at(self.written.ring.wrapping_add(WORD_BYTES));
            memory.zero(at, (ring - WORD_BYTES) as usize);
        }
    }

    /// Stores the writer's position in the header: before it sleeps, or hands the end on.
    pub fn say_position(&self, memory: &impl RingMemory) {
        let line = &memory.header().writer;
        line.arena.store(self.written.arena, Ordering::Release);
        line.position.store(self.written.ring, Ordering::Release);
    }
}

/// The reader's side of a record ring.
#[derive(Debug)]
pub struct RecordReader {
    read: RecordPosition,
    given_back: RecordPosition,
    sizes: RingSizes,
    /// Whether the last record had two lines. While this holds, a look that finds nothing asks for
    /// the second line too. Then the two lines of the next record travel at once, and not one after
    /// the other (docs/design/pipe.md).
    had_two_lines: bool,
}

impl RecordReader {
    /// Goes on where the memory says that the reader was.
    pub fn resume(memory: &impl RingMemory) -> Result<RecordReader, Corrupt> {
        let read = RecordPosition::alleged(&memory.header().reader)?;
        let sizes = RingSizes::of(memory);
        Ok(RecordReader { read, given_back: read, sizes, had_two_lines: false })
    }

    /// Returns the length of the next record, if there is one.
    #[inline]
    pub fn look(&self, memory: &impl RingMemory) -> Result<Option<usize>, Corrupt> {
        // Acquire pairs with the release in `RecordWriter::commit`.
        let word = memory.word(self.sizes.ring_at(self.read.ring)).load(Ordering::Acquire);
        if word == 0 {
            if self.had_two_lines {
                memory.prefetch(self.sizes.ring_at(self.read.ring.wrapping_add(LINE_BYTES)));
            }
            return Ok(None);
        }
        let bytes = (word & LENGTH) as usize;
        let in_arena = word & IN_ARENA != 0;
        let right = word & COMMITTED != 0
            && in_arena == (bytes > INLINE_BYTES)
            && (!in_arena || bytes as u64 <= self.sizes.arena);
        if right { Ok(Some(bytes)) } else { Err(Corrupt("the length of a record")) }
    }

    /// Returns the second word of the next record, if records have one and this one is there.
    #[inline]
    pub fn header(&self, memory: &impl RingMemory) -> u32 {
        let at = self.sizes.ring_at(self.read.ring.wrapping_add(WORD_BYTES));
        // Relaxed: published by the commit that `look` has seen.
        memory.word(at).load(Ordering::Relaxed)
    }

    /// Copies a part of the next record out, which has `whole` bytes.
    #[inline]
    pub fn copy_out(&self, memory: &impl RingMemory, whole: usize, offset: usize, to: &mut [u8]) {
        let (area, at) = self.sizes.payload(self.read, whole);
        memory.copy_out(area, self.sizes.part(area, at, offset), to);
    }

    /// Returns where the next record, of `whole` bytes, can be read in place.
    #[inline]
    pub fn place(&self, whole: usize) -> (Area, usize) {
        self.sizes.payload(self.read, whole)
    }

    /// Goes past the next record, which has `bytes` bytes.
    #[inline]
    pub fn consume(&mut self, memory: &impl RingMemory, bytes: usize, dirties: bool) {
        if dirties && bytes > INLINE_BYTES {
            let (area, at) = self.sizes.payload(self.read, bytes);
            memory.dirty(area, at, bytes);
        }
        let footprint = self.sizes.footprint(bytes);
        self.had_two_lines = footprint.0 == 2 * LINE_BYTES;
        self.read = self.read.after(footprint);
        debug_assert!(
            self.read.ring.wrapping_sub(self.given_back.ring) <= self.sizes.ring,
            "a lap of the ring without giving back"
        );
    }

    /// Whether enough has gathered to be given back.
    #[inline]
    pub fn owes_much(&self) -> bool {
        self.read.ring.wrapping_sub(self.given_back.ring) >= self.sizes.ring / 8
            || self.read.arena.wrapping_sub(self.given_back.arena) >= self.sizes.arena / 8
    }

    /// Whether anything has gathered.
    #[inline]
    pub fn owes(&self) -> bool {
        self.read != self.given_back
    }

    /// Gives what was read back to the writer.
    pub fn give_back(&mut self, memory: &impl RingMemory) {
        let bytes = self.read.ring.wrapping_sub(self.given_back.ring);
        memory.zero(self.sizes.ring_at(self.given_back.ring), bytes as usize);
        self.given_back = self.read;
        let line = &memory.header().reader;
        line.arena.store(self.read.arena, Ordering::Release);
        // Release pairs with the acquire in `RecordWriter::refresh`: zeros first.
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
