//! When to enlarge a kernel pipe that is in use.
//!
//! A larger pipe helps when its two sides wait in turn: it is sometimes full (the writer was ahead)
//! and sometimes empty (the reader was). A pipe that is always full or always empty only shows
//! which side is slower; memory would not change that.

/// Decides for one pipe, from samples of its fill.
#[derive(Clone, Debug)]
pub struct Sizing {
    limit_bytes: u64,
    seen: u32,
    full: u32,
    empty: u32,
    refused: bool,
}

/// Number of samples between two decisions.
const WINDOW: u32 = 20;
/// Samples of the window that must have been full; the same number must have been empty.
const ENOUGH: u32 = 2;

impl Sizing {
    /// Creates the decision for a pipe that may grow to `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Sizing {
        Sizing { limit_bytes, seen: 0, full: 0, empty: 0, refused: false }
    }

    /// Takes a sample; returns the new capacity if the pipe should grow now.
    pub fn sample(&mut self, capacity_bytes: u64, full: bool, empty: bool) -> Option<u64> {
        if self.refused {
            return None;
        }
        self.seen += 1;
        self.full += u32::from(full);
        self.empty += u32::from(empty);
        if self.seen < WINDOW {
            return None;
        }
        let in_turn = self.full >= ENOUGH && self.empty >= ENOUGH;
        (self.seen, self.full, self.empty) = (0, 0, 0);
        let larger = capacity_bytes.saturating_mul(2).min(self.limit_bytes);
        (in_turn && larger > capacity_bytes).then_some(larger)
    }

    /// Records that the kernel refused to grow the pipe: it is never asked again.
    pub fn refuse(&mut self) {
        self.refused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grows(pattern: &[(bool, bool)], limit_bytes: u64) -> Option<u64> {
        let mut sizing = Sizing::new(limit_bytes);
        pattern.iter().cycle().take(60).find_map(|(f, e)| sizing.sample(262_144, *f, *e))
    }

    #[test]
    fn grows_when_both_sides_wait_in_turn() {
        assert_eq!(grows(&[(true, false), (false, true)], 1 << 20), Some(524_288));
    }

    #[test]
    fn stays_when_one_side_is_always_slower() {
        assert_eq!(grows(&[(true, false)], 1 << 20), None);
        assert_eq!(grows(&[(false, true), (false, false)], 1 << 20), None);
    }

    #[test]
    fn never_beyond_the_limit_nor_after_a_refusal() {
        assert_eq!(grows(&[(true, false), (false, true)], 262_144), None);
        assert_eq!(grows(&[(true, false), (false, true)], 300_000), Some(300_000));
        let mut sizing = Sizing::new(1 << 20);
        sizing.refuse();
        assert!((0..100).all(|n| sizing.sample(65_536, n % 2 == 0, n % 2 == 1).is_none()));
    }
}
