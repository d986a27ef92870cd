//! What wishes from outside may cost the writer of a pipe.
//!
//! Whoever can write the memory of a pipe can ask its writer for another capacity: `weir tune`, and
//! also a hostile reader. The writer makes that memory, and pays for it as long as anybody keeps it,
//! which a reader can do after the pipe has moved on. So each wish has a bound, and so have all
//! wishes in a writer's life together.

use super::MOST_BYTES;

/// How many times its first capacity a pipe may get by default.
const MOST_TIMES: u64 = 16;
/// How many times the largest capacity all wishes together may take.
const MOST_IN_ALL: u64 = 4;

/// The capacity that may still be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityWishes {
    most_bytes: u64,
    left_bytes: u64,
}

impl CapacityWishes {
    /// Starts with a pipe of this capacity. The largest that is granted is `most_bytes`, or by
    /// default 16 times this capacity or the usual one of pipes, whichever is more.
    pub fn new(capacity_bytes: u64, usual_bytes: u64, most_bytes: Option<u64>) -> CapacityWishes {
        let most = capacity_bytes.saturating_mul(MOST_TIMES).max(usual_bytes);
        let most_bytes = most_bytes.unwrap_or(most).min(MOST_BYTES);
        CapacityWishes { most_bytes, left_bytes: MOST_IN_ALL * most_bytes }
    }

    /// Returns the largest capacity that is granted now.
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes.min(self.left_bytes)
    }

    /// Subtracts a capacity that was granted.
    pub fn grant(&mut self, capacity_bytes: u64) {
        self.left_bytes = self.left_bytes.saturating_sub(capacity_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_bounded_and_so_are_all_of_them() {
        let mut wishes = CapacityWishes::new(65_536, 4096, None);
        assert_eq!(wishes.most_bytes(), 1 << 20);
        for left in [3 << 20, 2 << 20, 1 << 20, 0] {
            wishes.grant(1 << 20);
            assert_eq!(wishes.most_bytes(), left.min(1 << 20));
        }
        wishes.grant(1);
        assert_eq!(wishes.most_bytes(), 0);
    }

    #[test]
    fn what_is_usual_is_granted_and_what_is_said_holds() {
        assert_eq!(CapacityWishes::new(4096, 1 << 20, None).most_bytes(), 1 << 20);
        assert_eq!(CapacityWishes::new(4096, 1 << 20, Some(8192)).most_bytes(), 8192);
        assert_eq!(CapacityWishes::new(4096, 1 << 20, Some(0)).most_bytes(), 0);
        assert_eq!(CapacityWishes::new(MOST_BYTES, 1, Some(u64::MAX)).most_bytes(), MOST_BYTES);
    }
}
