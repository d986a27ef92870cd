//! Lanes on the heap: for tests, miri and loom.

use super::{
    HEAD_BYTES, INLINE_BYTES, LaneId, LaneMemory, LanePlace, LaneRing, LaneWords, LinkSide,
    RingRange,
};
use crate::heap::{copy_in, copy_out, zeros};
use crate::primitive::{AtomicU32, Ordering};

/// Lanes, and the arenas of both sides.
#[derive(Debug)]
pub struct LaneHeap {
    lanes: Vec<[LaneWords; 2]>,
    arenas: [Vec<AtomicU32>; 2],
}

impl LaneHeap {
    /// Zeros for this many channels, with arenas of this many bytes.
    pub fn new(channels: u32, arena_bytes: u32) -> LaneHeap {
        let lanes = (0..channels).map(|_| Default::default()).collect();
        let arena = || zeros(arena_bytes as usize);
        LaneHeap { lanes, arenas: [arena(), arena()] }
    }
}

impl LaneMemory for LaneHeap {
    type Ring<'a> = HeapRing<'a>;

    fn lanes(&self, channel: u32) -> &[LaneWords; 2] {
        &self.lanes[channel as usize]
    }

    fn arena_bytes(&self) -> u32 {
        self.arenas[0].len() as u32 * 4
    }

    // The rings beside the positions come first, then the arenas.
    fn range(&self, lane: LaneId, place: LanePlace) -> RingRange {
        let (owner, lanes) = (usize::from(lane.writer == LinkSide::Owner), self.lanes.len());
        match place.as_block() {
            None => {
                let before = 2 * lane.channel as usize + owner;
                RingRange::new(before * INLINE_BYTES, INLINE_BYTES)
            }
            Some((offset, bytes)) => {
                let arena = 2 * lanes * INLINE_BYTES + owner * self.arena_bytes() as usize;
                RingRange::new(arena + offset as usize, bytes as usize)
            }
        }
    }

    fn ring_of(&self, range: RingRange) -> HeapRing<'_> {
        let (at, bytes) = (range.at(), range.mask() + 1);
        let (before, lane) = (at / INLINE_BYTES / 2, at / INLINE_BYTES % 2);
        if let Some(lanes) = self.lanes.get(before) {
            return HeapRing(&lanes[lane].inline);
        }
        let (at, arena) = (at - 2 * self.lanes.len() * INLINE_BYTES, self.arena_bytes() as usize);
        HeapRing(&self.arenas[at / arena][at % arena / 4..][..bytes / 4])
    }
}

/// A ring on the heap.
#[derive(Debug)]
pub struct HeapRing<'a>(&'a [AtomicU32]);

impl HeapRing<'_> {
    fn at(&self, position: u64) -> usize {
        position as usize % (self.0.len() * 4)
    }
}

impl LaneRing for HeapRing<'_> {
    fn word(&self, position: u64) -> &AtomicU32 {
        assert!(position.is_multiple_of(4), "a word lies at a multiple of 4");
        &self.0[self.at(position) / 4]
    }

    fn put(&self, position: u64, head: u32, bytes: &[u8]) {
        assert!(HEAD_BYTES + bytes.len() <= self.0.len() * 4, "more than the ring");
        self.word(position).store(head, Ordering::Relaxed);
        copy_in(self.0, self.at(position + HEAD_BYTES as u64), bytes);
    }

    fn copy_out(&self, position: u64, to: &mut [u8]) {
        assert!(to.len() <= self.0.len() * 4, "more than the ring");
        copy_out(self.0, self.at(position), to);
    }
}
