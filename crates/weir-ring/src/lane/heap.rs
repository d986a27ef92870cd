//! Lanes on the heap: for tests, miri and loom.

use super::{LaneId, LaneMemory, LanePlace, LaneWords, LinkSide};
use crate::heap::{copy_in, copy_out, zeros};
use crate::primitive::AtomicU32;

/// Lanes, and the arenas of both sides.
#[derive(Debug)]
pub struct LaneHeap {
    lanes: [Vec<LaneWords>; 2],
    arenas: [Vec<AtomicU32>; 2],
}

impl LaneHeap {
    /// Zeros for this many channels, with arenas of this many bytes.
    pub fn new(channels: u32, arena_bytes: u32) -> LaneHeap {
        let lanes = || (0..channels).map(|_| LaneWords::default()).collect();
        let arena = || zeros(arena_bytes as usize);
        LaneHeap { lanes: [lanes(), lanes()], arenas: [arena(), arena()] }
    }

    /// The words of a lane's ring.
    fn ring(&self, lane: LaneId, place: LanePlace) -> &[AtomicU32] {
        match place.as_block() {
            None => &self.lane(lane).inline,
            Some((offset, bytes)) => {
                let arena = &self.arenas[usize::from(lane.writer == LinkSide::Owner)];
                &arena[offset as usize / 4..][..bytes as usize / 4]
            }
        }
    }
}

impl LaneMemory for LaneHeap {
    fn lane(&self, lane: LaneId) -> &LaneWords {
        &self.lanes[usize::from(lane.writer == LinkSide::Owner)][lane.channel as usize]
    }

    fn arena_bytes(&self) -> u32 {
        self.arenas[0].len() as u32 * 4
    }

    fn word(&self, lane: LaneId, place: LanePlace, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4), "a word lies at a multiple of 4");
        &self.ring(lane, place)[at / 4]
    }

    fn copy_in(&self, lane: LaneId, place: LanePlace, at: usize, from: &[u8]) {
        assert!(at + from.len() <= place.bytes(), "beyond the ring");
        copy_in(self.ring(lane, place), at, from);
    }

    fn copy_out(&self, lane: LaneId, place: LanePlace, at: usize, to: &mut [u8]) {
        assert!(at + to.len() <= place.bytes(), "beyond the ring");
        copy_out(self.ring(lane, place), at, to);
    }
}
