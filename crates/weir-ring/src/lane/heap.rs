//! Lanes on the heap: for tests, miri and loom.

use super::{LaneId, LaneMemory, LanePlace, LaneRing, LaneWords, LinkSide};
use crate::heap::{copy_in, copy_out, zeros};
use crate::primitive::AtomicU32;

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

    fn ring(&self, lane: LaneId, place: LanePlace) -> HeapRing<'_> {
        let words = match place.as_block() {
            None => &self.lane(lane).inline[..],
            Some((offset, bytes)) => {
                let arena = &self.arenas[usize::from(lane.writer == LinkSide::Owner)];
                &arena[offset as usize / 4..][..bytes as usize / 4]
            }
        };
        HeapRing(words)
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

    fn copy_in(&self, position: u64, from: &[u8]) {
        assert!(from.len() <= self.0.len() * 4, "more than the ring");
        copy_in(self.0, self.at(position), from);
    }

    fn copy_out(&self, position: u64, to: &mut [u8]) {
        assert!(to.len() <= self.0.len() * 4, "more than the ring");
        copy_out(self.0, self.at(position), to);
    }
}
