//! The reader's side of a lane.

use super::{
    DataTaken, FrameKind, HEAD_BYTES, LaneFrame, LaneId, LaneMemory, LanePlace, LaneRing, MORE,
    RingRange, footprint, roomy_fill,
};
use crate::primitive::Ordering;
use crate::{Corrupt, LINE_BYTES, sleep};

/// How far ahead of a short frame its reader asks for what is written. The place of the next frame is
/// known only once the length before it is there, so the CPU waits for one line after the other. The
/// lines of a long frame it fetches ahead by itself.
const AHEAD_BYTES: u64 = 512;
/// Longest frame that is short.
const SHORT_BYTES: u16 = 128;

/// The reader's side of a lane.
#[derive(Clone, Copy, Debug)]
pub struct LaneReader {
    read: u64,
    /// The writer's position when this side last looked.
    written: u64,
    /// The reader's position when it last asked whether the writer wants room.
    asked: u64,
    place: LanePlace,
    /// Where that is in the memory.
    range: RingRange,
    /// Bytes left of the frame that was looked at, whose head is before `read`.
    left: u16,
    begun: Option<(FrameKind, bool)>,
}

impl LaneReader {
    /// The reader of a lane that nothing was read from.
    pub fn new(memory: &impl LaneMemory, lane: LaneId) -> LaneReader {
        let place = LanePlace::INLINE;
        let range = memory.range(lane, place);
        LaneReader { read: 0, written: 0, asked: 0, place, range, left: 0, begun: None }
    }

    /// Returns the next frame, if there is one, or what is left of one that was partly taken.
    pub fn next_frame(
        &mut self,
        memory: &impl LaneMemory,
        lane: LaneId,
    ) -> Result<Option<LaneFrame>, Corrupt> {
        if !self.has_frame(memory, lane)? {
            return Ok(None);
        }
        if self.begun.is_none() {
            let (kind, more, left) = self.head(&memory.ring_of(self.range))?;
            self.begin(kind, more, left);
        }
        Ok(self.begun.map(|(kind, more)| LaneFrame { kind, more, left: self.left.into() }))
    }

    /// Takes frames of data, one after the other, for as long as `see` says. Each is copied to `to`, as
    /// much of it as fits, and shown with what was taken. Stops before a frame of another kind, which
    /// [`LaneReader::next_frame`] returns.
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
            let ring = memory.ring_of(self.range);
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
        // `head` has stored to the first line.
        let second_line = (self.read | (LINE_BYTES - 1)) + 1;
        self.read += footprint(bytes) as u64;
        dirty(ring, second_line, self.read);
        Ok(Some((bytes, more)))
    }

    #[inline(always)]
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
    #[inline(always)]
    fn refresh(&mut self, memory: &impl LaneMemory, lane: LaneId) -> Result<bool, Corrupt> {
        let line = &memory.lane(lane).writer;
        // Acquire pairs with the release in `LaneWriter::publish`: the place is that of the bytes.
        let written = line.written.load(Ordering::Acquire);
        if written == self.read {
            return Ok(false);
        }
        let place = line.place.load(Ordering::Relaxed);
        if place != self.place.to_word() {
            self.place = LanePlace::from_word(place, memory.arena_bytes())?;
            self.range = memory.range(lane, self.place);
        }
        let there = written.wrapping_sub(self.read);
        if there > self.place.bytes() as u64 || !there.is_multiple_of(4) {
            return Err(Corrupt("the writer's position"));
        }
        self.written = written;
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
    pub fn take(&mut self, memory: &impl LaneMemory, to: &mut [u8]) -> usize {
        self.take_from(&memory.ring_of(self.range), to)
    }

    fn take_from(&mut self, ring: &impl LaneRing, to: &mut [u8]) -> usize {
        let count = to.len().min(self.left.into());
        ring.copy_out(self.read, &mut to[..count]);
        dirty(ring, self.read, self.read + count as u64);
        self.pass(count);
        count
    }

    /// Copies as much as fits of the frame that was looked at, and takes none of it.
    pub fn peek(&self, memory: &impl LaneMemory, to: &mut [u8]) -> usize {
        let count = to.len().min(self.left.into());
        memory.ring_of(self.range).copy_out(self.read, &mut to[..count]);
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
            && sleep::is_wanted(&line.wanted)
            && sleep::take(&line.wanted) != 0
    }
}

/// Stores what is there to the last word of each line whose end was read, as `head` does to heads.
///
/// What is before `from` may be given back, so a word that begins there is left alone.
#[inline(always)]
fn dirty(ring: &impl LaneRing, from: u64, to: u64) {
    let mut end = ((from + 3) | (LINE_BYTES - 1)) + 1;
    while end <= to {
        let word = ring.word(end - 4);
        // Relaxed: as in `head`.
        word.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        end += LINE_BYTES;
    }
}
