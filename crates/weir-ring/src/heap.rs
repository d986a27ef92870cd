//! Memory on the heap, out of atomic words: for tests, miri and loom.

use super::layout::Header;
use super::{Area, Memory};
use crate::primitive::{AtomicU32, Ordering};

/// A ring and an arena out of words. Copies are made word by word, so that the model sees each.
#[derive(Debug)]
pub struct Heap {
    header: Header,
    ring: Vec<AtomicU32>,
    arena: Vec<AtomicU32>,
}

impl Heap {
    /// Zeros of these sizes, powers of two of at least 8.
    pub fn new(ring_bytes: usize, arena_bytes: usize) -> Heap {
        let words = |bytes: usize| (0..bytes / 4).map(|_| AtomicU32::new(0)).collect();
        Heap { header: Header::default(), ring: words(ring_bytes), arena: words(arena_bytes) }
    }

    fn area(&self, area: Area) -> &[AtomicU32] {
        if area == Area::Ring { &self.ring } else { &self.arena }
    }

    /// Each word that `bytes` from `at` touch: the word, and where in it and in the bytes a byte
    /// lies.
    fn walk(
        &self,
        area: Area,
        at: usize,
        bytes: usize,
        mut visit: impl FnMut(&AtomicU32, usize, usize),
    ) {
        let words = self.area(area);
        for index in 0..bytes {
            let place = (at + index) % (words.len() * 4);
            visit(&words[place / 4], place % 4, index);
        }
    }
}

impl Memory for Heap {
    fn header(&self) -> &Header {
        &self.header
    }

    fn bytes(&self, area: Area) -> u64 {
        self.area(area).len() as u64 * 4
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4));
        &self.ring[at / 4]
    }

    fn copy_in(&self, area: Area, at: usize, from: &[u8]) {
        self.walk(area, at, from.len(), |word, byte, index| {
            // Relaxed: published by what follows, as bytes are.
            let mut value = word.load(Ordering::Relaxed).to_ne_bytes();
            value[byte] = from[index];
            word.store(u32::from_ne_bytes(value), Ordering::Relaxed);
        });
    }

    fn copy_out(&self, area: Area, at: usize, to: &mut [u8]) {
        let bytes = to.len();
        self.walk(area, at, bytes, |word, byte, index| {
            to[index] = word.load(Ordering::Relaxed).to_ne_bytes()[byte];
        });
    }

    fn zero(&self, at: usize, bytes: usize) {
        for place in (at..at + bytes).step_by(4) {
            self.ring[place / 4 % self.ring.len()].store(0, Ordering::Relaxed);
        }
    }

    fn dirty(&self, _: Area, _: usize, _: usize) {}
}
