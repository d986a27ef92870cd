//! Memory on the heap, made of atomic words: for tests, miri and loom.

use super::layout::PipeHeader;
use super::{Area, RingMemory};
use crate::primitive::{AtomicU32, Ordering};
use std::ops::Range;

/// A ring and an arena.
#[derive(Debug)]
pub struct Heap {
    header: PipeHeader,
    ring: Vec<AtomicU32>,
    arena: Vec<AtomicU32>,
}

/// Makes zeros.
pub(crate) fn zeros(bytes: usize) -> Vec<AtomicU32> {
    (0..bytes / 4).map(|_| AtomicU32::new(0)).collect()
}

/// Copies bytes into words, from a byte of theirs on. What reaches beyond the last word continues
/// at the first.
pub(crate) fn copy_in(words: &[AtomicU32], at: usize, from: &[u8]) {
    for_each_word(words, at, from.len(), |word, part, bytes| {
        // Relaxed: what follows publishes it, as it publishes plain bytes.
        let mut value = word.load(Ordering::Relaxed).to_ne_bytes();
        value[part].copy_from_slice(&from[bytes]);
        word.store(u32::from_ne_bytes(value), Ordering::Relaxed);
    });
}

/// Copies bytes out of words.
pub(crate) fn copy_out(words: &[AtomicU32], at: usize, to: &mut [u8]) {
    for_each_word(words, at, to.len(), |word, part, bytes| {
        to[bytes].copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[part]);
    });
}

/// Visits each word that `bytes` from `at` touch, so that a model sees each access. Passes which
/// part of the word is touched, and which of the bytes are there.
fn for_each_word(
    words: &[AtomicU32],
    at: usize,
    bytes: usize,
    mut visit: impl FnMut(&AtomicU32, Range<usize>, Range<usize>),
) {
    let mut done = 0;
    while done < bytes {
        let at = (at + done) % (words.len() * 4);
        let count = (4 - at % 4).min(bytes - done);
        visit(&words[at / 4], at % 4..at % 4 + count, done..done + count);
        done += count;
    }
}

impl Heap {
    /// Zeros of these sizes, powers of two of at least 8.
    pub fn new(ring_bytes: usize, arena_bytes: usize) -> Heap {
        Heap { header: PipeHeader::default(), ring: zeros(ring_bytes), arena: zeros(arena_bytes) }
    }

    fn area(&self, area: Area) -> &[AtomicU32] {
        if area == Area::Ring { &self.ring } else { &self.arena }
    }

    /// Where in an area a position is.
    fn place(&self, area: Area, at: u64) -> usize {
        (at % self.bytes(area)) as usize
    }
}

impl RingMemory for Heap {
    fn header(&self) -> &PipeHeader {
        &self.header
    }

    fn bytes(&self, area: Area) -> u64 {
        self.area(area).len() as u64 * 4
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        assert!(at.is_multiple_of(4));
        &self.ring[self.place(Area::Ring, at) / 4]
    }

    fn copy_in(&self, area: Area, at: u64, from: &[u8]) {
        copy_in(self.area(area), self.place(area, at), from);
    }

    fn copy_out(&self, area: Area, at: u64, to: &mut [u8]) {
        copy_out(self.area(area), self.place(area, at), to);
    }

    fn zero(&self, at: u64, bytes: usize) {
        for offset in (0..bytes as u64).step_by(4) {
            self.word(at.wrapping_add(offset)).store(0, Ordering::Relaxed);
        }
    }
}
