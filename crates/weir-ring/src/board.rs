//! A board: which of many rings have something, for the one reader of them all.
//!
//! A tree of ready bits, 64 below each: whoever puts something into a ring whose reader does not
//! look at it sets the ring's leaf and then the bits above it; the reader clears from the top, each
//! word before it reads those below. So a bit that is set while the reader gathers is found, now or
//! next time. Beside the tree stands the reader's sleep, as of a pipe's end ([`super::sleep`]).
//!
//! Bits are hints. All who share the board can spoil it: the reader looks at all rings before it
//! goes to sleep for long, and never sleeps for long.

use super::account::ParticipantLine;
use super::layout::SleepLine;
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// "weirbord" as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weirbord");
/// Of this layout.
pub const VERSION: u32 = 2;

/// Words of the lowest row.
#[cfg(not(loom))]
const LEAVES: usize = 256;
#[cfg(loom)]
const LEAVES: usize = 2;
/// Words of the row above.
const MIDDLE: usize = LEAVES.div_ceil(64);
/// Rings a board has bits for.
pub const MOST_RINGS: u32 = LEAVES as u32 * 64;

/// What the reader says about itself; read by anyone who has the board.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct BoardAccount {
    /// The process the reader is in.
    pub pid: AtomicU32,
    /// Writers that are open.
    pub open: AtomicU32,
    /// Records received.
    pub records: AtomicU64,
    /// Bytes received.
    pub bytes: AtomicU64,
    /// Writers that have come.
    pub opened: AtomicU64,
    /// Writers that have closed.
    pub closed: AtomicU64,
    /// Writers that have died, or were shut out.
    pub died: AtomicU64,
    /// Times there was nothing to do.
    pub waits: AtomicU64,
    /// Times asleep.
    pub slept: AtomicU64,
    /// Time asleep.
    pub slept_ns: AtomicU64,
    /// The inode of the port's socket, by which its board is told from others.
    pub socket_inode: AtomicU64,
    /// And its device.
    pub socket_device: AtomicU64,
}

/// The words of a board.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Board {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The account of a reader that is a port.
    pub account: BoardAccount,
    /// The account of a reader that owns an mpx.
    pub mpx: ParticipantLine,
    /// The reader's sleep.
    pub sleep: SleepLine,
    root: Root,
    middle: [AtomicU64; MIDDLE],
    leaves: [AtomicU64; LEAVES],
}

#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Root(AtomicU64);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Board>() <= 4096);

impl Default for Board {
    #[inline]
    fn default() -> Board {
        Board {
            magic: AtomicU64::default(),
            version: AtomicU32::default(),
            account: BoardAccount::default(),
            mpx: ParticipantLine::default(),
            sleep: SleepLine::default(),
            root: Root::default(),
            middle: std::array::from_fn(|_| AtomicU64::default()),
            leaves: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

impl Board {
    /// Says that a ring has something. The caller asks afterwards whether the reader sleeps.
    /// Of a number that no ring can have nothing is said.
    #[inline]
    pub fn set(&self, ring: u32) {
        let (leaf, middle) = (ring as usize / 64, ring as usize / 4096);
        if leaf >= LEAVES {
            return;
        }
        // From below, each by AcqRel, pairing with the swaps in `gather`: whoever takes a bit there
        // finds what is below it. Set even where it seems set: it may be about to be cleared.
        self.leaves[leaf].fetch_or(1 << (ring % 64), Ordering::AcqRel);
        self.middle[middle].fetch_or(1 << (leaf % 64), Ordering::AcqRel);
        self.root.0.fetch_or(1 << middle, Ordering::AcqRel);
    }

    /// Whether any ring may have something.
    #[inline]
    pub fn any(&self) -> bool {
        // Acquire pairs with `set`, for what follows without gathering.
        self.root.0.load(Ordering::Acquire) != 0
    }

    /// Takes all bits, and names the rings.
    #[inline]
    pub fn gather(&self, mut name: impl FnMut(u32)) {
        if !self.any() {
            return;
        }
        // AcqRel: see `set`. Each word is cleared before those below it are read.
        for_each_bit(self.root.0.swap(0, Ordering::AcqRel), MIDDLE, |middle| {
            let leaves = self.middle[middle].swap(0, Ordering::AcqRel);
            for_each_bit(leaves, LEAVES - middle * 64, |leaf| {
                let leaf = middle * 64 + leaf;
                let rings = self.leaves[leaf].swap(0, Ordering::AcqRel);
                for_each_bit(rings, 64, |ring| name((leaf * 64 + ring) as u32));
            });
        });
    }
}

/// Names the bits of a word that are below a bound.
#[inline]
fn for_each_bit(mut word: u64, bound: usize, mut name: impl FnMut(usize)) {
    while word != 0 {
        let bit = word.trailing_zeros() as usize;
        word &= word - 1;
        if bit < bound {
            name(bit);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_set_is_gathered_once_and_in_order(
            rings in prop::collection::btree_set(0..MOST_RINGS, 0..200),
        ) {
            let board = Board::default();
            rings.iter().for_each(|ring| board.set(*ring));
            prop_assert_eq!(board.any(), !rings.is_empty());
            let mut found = Vec::new();
            board.gather(|ring| found.push(ring));
            prop_assert_eq!(found, rings.into_iter().collect::<Vec<_>>());
            board.gather(|ring| panic!("{ring} was gathered twice"));
        }

        #[test]
        fn nonsense_on_the_board_names_no_ring_that_cannot_be(
            root in any::<u64>(), middle in any::<[u64; MIDDLE]>(), leaf in 0..LEAVES,
        ) {
            let board = Board::default();
            board.root.0.store(root, Ordering::Relaxed);
            for (word, value) in board.middle.iter().zip(middle) {
                word.store(value, Ordering::Relaxed);
            }
            board.leaves[leaf].store(u64::MAX, Ordering::Relaxed);
            board.set(MOST_RINGS);
            board.gather(|ring| assert!(ring < MOST_RINGS));
        }
    }

    #[test]
    fn what_is_set_while_it_is_gathered_is_found_next() {
        let board = Board::default();
        (0..3).for_each(|ring| board.set(ring * 64));
        let mut found = Vec::new();
        board.gather(|ring| {
            found.push(ring);
            board.set(ring);
        });
        assert_eq!(found, [0, 64, 128]);
        found.clear();
        board.gather(|ring| found.push(ring));
        assert_eq!(found, [0, 64, 128]);
    }
}
