//! Which places of the spill file are taken. A run of blocks gets places in a row if possible, and
//! below the highest that was ever used, so that the file stays small.

use super::blocks::reserved;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

const BITS: u32 = u64::BITS;

#[derive(Debug)]
pub struct FileSlots {
    taken: Vec<u64>,
    most: u32,
    used: u32,
    most_used: u32,
    /// All places from here on were never used.
    high: u32,
    /// Where the last run ended; the next is searched from there.
    next: u32,
}

impl FileSlots {
    /// Makes this many free places, if there is memory for the table.
    pub fn new(most: u32) -> Result<FileSlots, TryReserveError> {
        let words = most.div_ceil(BITS);
        let mut taken = reserved(words)?;
        taken.resize(words as usize, 0);
        Ok(FileSlots { taken, most, used: 0, most_used: 0, high: 0, next: 0 })
    }

    pub fn used(&self) -> u32 {
        self.used
    }

    pub fn most_used(&self) -> u32 {
        self.most_used
    }

    pub fn left(&self) -> u32 {
        self.most - self.used
    }

    fn is_taken(&self, slot: u32) -> bool {
        self.taken[(slot / BITS) as usize] >> (slot % BITS) & 1 != 0
    }

    /// Takes up to `wanted` places in a row. Returns the first and their number; none if all are taken.
    pub fn take(&mut self, wanted: u32) -> Option<(u32, u32)> {
        let wanted = wanted.min(self.left());
        if wanted == 0 {
            return None;
        }
        let (first, count) = self.find(wanted)?;
        for slot in first..first + count {
            self.taken[(slot / BITS) as usize] |= 1 << (slot % BITS);
        }
        self.used += count;
        self.most_used = self.most_used.max(self.used);
        self.high = self.high.max(first + count);
        self.next = first + count;
        Some((first, count))
    }

    /// Finds a run that is long enough from the end of the last one on, else a new one at the end of
    /// the file, else the longest.
    fn find(&self, wanted: u32) -> Option<(u32, u32)> {
        let mut best = None;
        if self.used < self.high {
            let below = self.scan(0, self.next.min(self.high), wanted);
            best = longer(self.scan(self.next, self.high, wanted), below);
        }
        if best.is_some_and(|(_, count)| count >= wanted) {
            return best;
        }
        let fresh = self.most - self.high;
        if fresh >= wanted {
            return Some((self.high, wanted));
        }
        let fresh = Some((self.high, fresh)).filter(|(_, count)| *count > 0);
        longer(best, fresh)
    }

    /// The first run of `wanted` free places in a range, else the longest there.
    fn scan(&self, from: u32, to: u32, wanted: u32) -> Option<(u32, u32)> {
        let (mut best, mut slot) = (None, from);
        while slot < to {
            // A full word is skipped at once.
            if slot.is_multiple_of(BITS) && self.taken[(slot / BITS) as usize] == u64::MAX {
                slot += BITS;
                continue;
            }
            let first = slot;
            while slot < to && slot - first < wanted && !self.is_taken(slot) {
                slot += 1;
            }
            best = longer(best, Some((first, slot - first)).filter(|(_, n)| *n > 0));
            if slot - first == wanted {
                break;
            }
            slot += 1;
        }
        best
    }

    pub fn give_back(&mut self, slot: u32) {
        debug_assert!(self.is_taken(slot));
        self.taken[(slot / BITS) as usize] &= !(1 << (slot % BITS));
        self.used -= 1;
        if self.used == 0 {
            self.next = 0;
        }
    }
}

/// Returns the longer of two runs, or the first if they are equal.
fn longer(one: Option<(u32, u32)>, other: Option<(u32, u32)>) -> Option<(u32, u32)> {
    // The last of equal ones counts as the largest.
    [other, one].into_iter().flatten().max_by_key(|(_, count)| *count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_in_a_row_and_never_taken_twice() {
        let mut slots = FileSlots::new(100).expect("memory");
        let runs: Vec<_> = (0..25).map(|_| slots.take(4).expect("free")).collect();
        assert!(runs.iter().enumerate().all(|(i, run)| *run == (i as u32 * 4, 4)));
        assert_eq!((slots.take(1), slots.left()), (None, 0));
        slots.give_back(7);
        (20..24).for_each(|slot| slots.give_back(slot));
        assert_eq!(slots.take(4), Some((20, 4)));
        assert_eq!(slots.take(4), Some((7, 1)));
        assert_eq!(slots.take(4), None);
    }

    #[test]
    fn an_empty_file_is_filled_from_its_beginning() {
        let mut slots = FileSlots::new(1 << 20).expect("memory");
        for _ in 0..1000 {
            let (first, count) = slots.take(4).expect("free");
            (first..first + count).for_each(|slot| slots.give_back(slot));
        }
        assert_eq!(slots.high, 4);
    }
}
