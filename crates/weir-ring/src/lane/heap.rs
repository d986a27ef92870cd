//! Lanes on the heap: for tests, miri and loom.

use super::{INLINE_BYTES, LaneId, LaneMemory, LaneWords, Place, Side};
use crate::primitive::{AtomicU32, Ordering};

/// Lanes and arenas out of words. Copies are made byte by byte, so that the model sees each.
#[derive(Debug)]
pub struct LaneHeap {
    lanes: [Vec<LaneWords>; 2],
    arenas: [Vec<AtomicU32>; 2],
}

impl LaneHeap {
    /// Zeros for so many channels, with arenas of so many bytes.
    pub fn new(channels: u32, arena_bytes: u32) -> LaneHeap {
        let lanes = || (0..channels).map(|_| LaneWords::default()).collect();
        let arena = || (0..arena_bytes / 4).map(|_| AtomicU32::new(0)).collect();
        LaneHeap { lanes: [lanes(), lanes()], arenas: [arena(), arena()] }
    }

    fn byte(&self, lane: LaneId, place: Place, at: usize) -> (&AtomicU32, usize) {
        assert!(at < place.bytes(), "beyond the ring");
        match place.as_block() {
            None => (&self.lane(lane).inline[at % INLINE_BYTES / 4], at % 4),
            Some((offset, _)) => {
                let arena = &self.arenas[usize::from(lane.writer == Side::Owner)];
                (&arena[(offset as usize + at) / 4], at % 4)
            }
        }
    }
}

impl LaneMemory for LaneHeap {
    fn lane(&self, lane: LaneId) -> &LaneWords {
        &self.lanes[usize::from(lane.writer == Side::Owner)][lane.channel as usize]
    }

    fn arena_bytes(&self) -> u32 {
        self.arenas[0].len() as u32 * 4
    }

    fn word(&self, lane: LaneId, place: Place, at: usize) -> &AtomicU32 {
        let (word, byte) = self.byte(lane, place, at);
        assert_eq!(byte, 0, "a word lies at a multiple of 4");
        word
    }

    fn copy_in(&self, lane: LaneId, place: Place, at: usize, from: &[u8]) {
        for (index, byte) in from.iter().enumerate() {
            let (word, within) = self.byte(lane, place, at + index);
            // Relaxed: published by what follows, as bytes are.
            let mut value = word.load(Ordering::Relaxed).to_ne_bytes();
            value[within] = *byte;
            word.store(u32::from_ne_bytes(value), Ordering::Relaxed);
        }
    }

    fn copy_out(&self, lane: LaneId, place: Place, at: usize, to: &mut [u8]) {
        for (index, byte) in to.iter_mut().enumerate() {
            let (word, within) = self.byte(lane, place, at + index);
            *byte = word.load(Ordering::Relaxed).to_ne_bytes()[within];
        }
    }
}
