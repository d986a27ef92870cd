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
use crate::primitive::{AtomicU32, Ordering};

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

/// The footprint of the last record, and how to find that of another.
///
/// Records of one size often follow each other. Then the next place is known before the length of
/// this record is: the CPU predicts that the length is the same. Were it computed each time, each
/// record would wait for the load of the length before it.
#[derive(Debug)]
struct LastFootprint {
    head: u64,
    bytes: usize,
    footprint: (u64, u64),
    /// `bytes`, if such a record lies in the ring; otherwise [`NO_LENGTH`].
    inline_bytes: usize,
}

/// No record is that long.
const NO_LENGTH: usize = usize::MAX;

impl LastFootprint {
    fn new(head: u64) -> LastFootprint {
        LastFootprint { head, bytes: 0, footprint: footprint_after(head, 0), inline_bytes: 0 }
    }

    #[inline(always)]
    fn of(&mut self, bytes: usize) -> (u64, u64) {
        if bytes != self.bytes {
            self.measure(bytes);
        }
        self.footprint
    }

    /// A call, so that the compiler keeps the branch.
    #[inline(never)]
    fn measure(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.footprint = footprint_after(self.head, bytes);
        self.inline_bytes = if bytes > INLINE_BYTES { NO_LENGTH } else { bytes };
    }
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

    /// Returns where the bytes of a record at a position lie.
    #[inline]
    fn payload(self, place: RecordPosition, bytes: usize) -> (Area, u64) {
        if bytes > INLINE_BYTES {
            (Area::Arena, place.arena)
        } else {
            (Area::Ring, place.ring.wrapping_add(self.head))
        }
    }
}

/// The writer's side of a record ring.
#[derive(Debug)]
pub struct RecordWriter {
    written: RecordPosition,
    /// Up to where both areas are known to be free.
    free: RecordPosition,
    /// Up to where records like the last one go the usual way. Free up to there.
    alike_until: u64,
    sizes: RingSizes,
    last: LastFootprint,
}

impl RecordWriter {
    /// Goes on where the memory says that the writer was.
    pub fn resume(memory: &impl RingMemory) -> Result<RecordWriter, Corrupt> {
        let written = RecordPosition::alleged(&memory.header().writer)?;
        let sizes = RingSizes::of(memory);
        let last = LastFootprint::new(sizes.head);
        let alike_until = written.ring;
        let mut writer = RecordWriter { written, free: written, alike_until, sizes, last };
        writer.refresh(memory)?;
        Ok(writer)
    }

    fn refresh(&mut self, memory: &impl RingMemory) -> Result<(), Corrupt> {
        let line = &memory.header().reader;
        let what = "the reader's position";
        // Acquire pairs with the release in `RecordReader::give_back`: the room is zeros.
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

    /// Lets up to `records` records like the last one [go the usual
    /// way](RecordWriter::goes_like_the_last) from here on, as far as there is known to be room. So the
    /// caller counts them without a counter: it looks around once no more of them may go.
    pub fn let_alike_go(&mut self, records: u64) {
        let bytes = self.last.footprint.0.saturating_mul(records);
        self.alike_until = self.written.ring.wrapping_add(bytes.min(self.room().0));
    }

    /// Whether a record of `bytes` is as long as the last one, and lies in the ring.
    #[inline(always)]
    pub fn is_like_the_last(&self, bytes: usize) -> bool {
        bytes == self.last.inline_bytes
    }

    /// Whether one more record that [`RecordWriter::is_like_the_last`] may go the usual way: there is
    /// room for it, and fewer have gone than were let.
    #[inline(always)]
    pub fn goes_like_the_last(&self) -> bool {
        // Signed: others may have gone beyond.
        let left = self.alike_until.wrapping_sub(self.written.ring) as i64;
        left >= self.last.footprint.0 as i64
    }

    /// Sends a record that [`RecordWriter::is_like_the_last`] and
    /// [goes like it](RecordWriter::goes_like_the_last). This is the usual way of a record, in as few
    /// instructions as can be.
    #[inline(always)]
    pub fn send_like_the_last(
        &mut self,
        memory: &impl RingMemory,
        header: Option<u32>,
        bytes: &[u8],
    ) {
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

    /// Leaves zeros where a record was begun and not committed. The plain stores begin behind the
    /// word, which is zero already and which the reader may load at any time.
    pub fn abandon(&self, memory: &impl RingMemory, bytes: usize) {
        if bytes <= INLINE_BYTES {
            let (ring, _) = self.footprint(bytes);
            let at = self.written.ring.wrapping_add(WORD_BYTES);
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

/// The place at which the next record will appear.
#[derive(Debug)]
pub struct NextRecord<'a, M> {
    memory: &'a M,
    word: &'a AtomicU32,
    /// The position of its second line, if it has one and is as long as the last record.
    second_line: Option<u64>,
}

impl<M: RingMemory> NextRecord<'_, M> {
    /// Returns the word of the record, if it is there. It may be invalid: see
    /// [`RecordReader::length`].
    #[inline(always)]
    pub fn find(&self) -> Option<u32> {
        Some(self.look()).filter(|word| *word != 0)
    }

    #[inline(always)]
    fn look(&self) -> u32 {
        // Acquire pairs with the releases in `RecordWriter`: the record is there.
        let word = self.word.load(Ordering::Acquire);
        // This asks for the second line too. Then the two lines travel at once, and not one after
        // the other (docs/design/pipe.md).
        if let Some(second_line) = self.second_line.filter(|_| word == 0) {
            self.memory.prefetch(second_line);
        }
        word
    }
}

/// The reader's side of a record ring.
#[derive(Debug)]
pub struct RecordReader {
    read: RecordPosition,
    given_back: RecordPosition,
    sizes: RingSizes,
    last: LastFootprint,
}

impl RecordReader {
    /// Goes on where the memory says that the reader was.
    pub fn resume(memory: &impl RingMemory) -> Result<RecordReader, Corrupt> {
        let read = RecordPosition::alleged(&memory.header().reader)?;
        let sizes = RingSizes::of(memory);
        let last = LastFootprint::new(sizes.head);
        Ok(RecordReader { read, given_back: read, sizes, last })
    }

    /// Returns the length of the next record, if there is one.
    #[inline]
    pub fn look(&self, memory: &impl RingMemory) -> Result<Option<usize>, Corrupt> {
        match self.word(memory) {
            0 => Ok(None),
            word => self.length(word).map(Some).ok_or(Corrupt("the length of a record")),
        }
    }

    /// Returns the word of the next record, if there is one. It may be invalid: see
    /// [`RecordReader::length`].
    #[inline(always)]
    pub fn find(&self, memory: &impl RingMemory) -> Option<u32> {
        Some(self.word(memory)).filter(|word| *word != 0)
    }

    /// Returns the word at the next place. Zero: there is no record yet.
    #[inline(always)]
    fn word(&self, memory: &impl RingMemory) -> u32 {
        self.next(memory).look()
    }

    /// Returns the place of the next record, for a reader that looks at it again and again.
    #[inline(always)]
    pub fn next<'a, M: RingMemory>(&self, memory: &'a M) -> NextRecord<'a, M> {
        let has_two_lines = self.last.footprint.0 == 2 * LINE_BYTES;
        let second_line = has_two_lines.then(|| self.read.ring.wrapping_add(LINE_BYTES));
        NextRecord { memory, word: memory.word(self.read.ring), second_line }
    }

    /// Returns the word of a record of `bytes`, if the last record was as long and lay in the ring;
    /// otherwise 0, which is no record's word. This is asked before the record is there.
    #[inline(always)]
    pub fn word_like_the_last(&self, bytes: usize) -> u32 {
        if bytes == self.last.inline_bytes { COMMITTED | bytes as u32 } else { 0 }
    }

    /// Copies a record out that has the [word of the last](RecordReader::word_like_the_last) and
    /// fills `to`, and goes past it. Returns whether enough of the ring has gathered to be given back.
    #[inline(always)]
    pub fn take_like_the_last(&mut self, memory: &impl RingMemory, to: &mut [u8]) -> bool {
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
        let bytes = (word & LENGTH) as usize;
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
    pub fn consume(&mut self, memory: &impl RingMemory, bytes: usize, dirties: bool) {
        if dirties && bytes > INLINE_BYTES {
            let (area, at) = self.sizes.payload(self.read, bytes);
            memory.dirty(area, at, bytes);
        }
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
