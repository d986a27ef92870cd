//! A board: which of many rings with one reader have something.
//!
//! A board is a tree of ready bits with 64 bits below each. A writer sets the leaf of its ring and
//! then the bits above it, if the reader does not look at the ring. The reader clears from the top,
//! each word before it reads the words below. So it finds a bit that is set meanwhile, now or next
//! time. Beside the tree stands the word on which the reader sleeps ([`super::sleep`]).
//!
//! Bits are hints, and all who share the board can spoil it. So the reader looks at all rings
//! before a long sleep, and never sleeps for long.

use super::account::ParticipantLine;
use super::layout::{SleepLine, WaitCounts};
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// "weirbord" as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weirbord");
/// The version of this layout.
pub const VERSION: u32 = 1;

/// Words of the lowest row.
const LEAVES: usize = if cfg!(loom) { 2 } else { 256 };
/// Words of the row above.
const MIDDLE: usize = LEAVES.div_ceil(64);
/// Rings that a board has bits for.
pub const MOST_RINGS: u32 = LEAVES as u32 * 64;

/// What the reader counts; anyone who has the board may read it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct BoardAccount {
    /// The process the reader is in.
    pub pid: AtomicU32,
    /// Writers that are connected.
    pub open: AtomicU32,
    /// Records received.
    pub records: AtomicU64,
    /// Bytes received.
    pub bytes: AtomicU64,
    /// Writers that have connected.
    pub opened: AtomicU64,
    /// Writers that have closed.
    pub closed: AtomicU64,
    /// Writers that died or were shut out.
    pub died: AtomicU64,
    /// How it waited. Wake-ups are counted in the accounts of the rings.
    pub waiting: WaitCounts,
    /// The inode of the port's socket, which identifies the port.
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
    /// Sets the bits of a ring that has something; a number that no ring can have sets none. The
    /// caller asks afterwards whether the reader sleeps.
    #[inline]
    pub fn set(&self, ring: u32) {
        let (leaf, middle) = (ring as usize / 64, ring as usize / 4096);
        if leaf >= LEAVES {
            return;
        }
        // From below. AcqRel pairs with the swaps in `gather`: whoever takes a bit there finds what
        // is below it. A bit that is set is set again: it may be about to be cleared.
        self.leaves[leaf].fetch_or(1 << (ring % 64), Ordering::AcqRel);
        self.middle[middle].fetch_or(1 << (leaf % 64), Ordering::AcqRel);
        self.root.0.fetch_or(1 << middle, Ordering::AcqRel);
    }

    /// Whether any ring may have something.
    #[inline]
    pub fn any(&self) -> bool {
        // Acquire pairs with `set`, for callers that do not gather.
        self.root.0.load(Ordering::Acquire) != 0
    }

    /// Takes all bits, and passes the numbers of their rings to `name`.
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

/// Passes the bits of a word below a bound to `name`.
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
