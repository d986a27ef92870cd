//! A cluster of 64 flags: the words, and the protocol by which waiters sleep.
//!
//! A waiter counts itself in, looks, and sleeps on the generation that it saw before. A setter sets
//! flags, looks whether anyone is counted in, and then raises the generation. The fences between
//! these steps are a pair (Dekker): one of the two sees the other.

use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence};

/// "weirflag" as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weirflag");
/// The version of this layout.
pub const VERSION: u32 = 1;

/// The words of a cluster.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Cluster {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The futex: counts changes that somebody waited for.
    pub generation: AtomicU32,
    /// The flags.
    pub bits: AtomicU64,
    /// Waiters that sleep or are about to. One that was killed stays counted; setting flags then
    /// calls the kernel in vain.
    pub sleepers: AtomicU32,
    /// The account of all users together.
    pub account: ClusterLine,
}

/// What all users of a cluster count together when they sleep or wake. Counting each change as well
/// would double its cost (5 ns).
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct ClusterLine {
    /// Waits that slept.
    pub waits: AtomicU64,
    /// Times asleep.
    pub slept: AtomicU64,
    /// Time asleep, summed over all.
    pub slept_ns: AtomicU64,
    /// Changes that woke the sleepers.
    pub wakes_given: AtomicU64,
    /// Sleeps that ended by a wake-up.
    pub wakes_taken: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Cluster>() == 256);

impl Cluster {
    /// Returns the flags.
    #[inline]
    pub fn read(&self) -> u64 {
        // Acquire pairs with the release in `set`: what was done before that is seen.
        self.bits.load(Ordering::Acquire)
    }

    /// Sets flags. Returns the flags before, and whether the caller has to wake waiters.
    #[inline]
    pub fn set(&self, mask: u64) -> (u64, bool) {
        // Release pairs with the acquire in `read` and `take`, acquire with the release in `clear`.
        let before = self.bits.fetch_or(mask, Ordering::AcqRel);
        if mask & !before == 0 {
            return (before, false);
        }
        // Pairs with the fence in `count_in`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) == 0 {
            return (before, false);
        }
        // Release pairs with the acquire in `count_in`.
        self.generation.fetch_add(1, Ordering::Release);
        self.account.wakes_given.fetch_add(1, Ordering::Relaxed);
        (before, true)
    }

    /// Clears flags. Returns the flags before.
    #[inline]
    pub fn clear(&self, mask: u64) -> u64 {
        // AcqRel: as `set`.
        self.bits.fetch_and(!mask, Ordering::AcqRel)
    }

    /// Clears and returns the flags that a wait is for, if the wait is over.
    #[inline]
    pub fn take(&self, mask: u64, all: bool) -> Option<u64> {
        let mut now = self.read();
        loop {
            let found = matching(now, mask, all)?;
            let cleared = now & !found;
            // AcqRel: as `set` and `clear`.
            let swapped =
                self.bits.compare_exchange(now, cleared, Ordering::AcqRel, Ordering::Acquire);
            match swapped {
                Ok(_) => return Some(found),
                Err(other) => now = other,
            }
        }
    }

    /// Counts a waiter in that is about to sleep. Returns the generation to sleep on. The waiter
    /// looks once more before it sleeps, and counts itself out afterwards.
    #[inline]
    pub fn count_in(&self) -> u32 {
        // Acquire pairs with the release in `set`: the flags of that generation are seen.
        let generation = self.generation.load(Ordering::Acquire);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `set`.
        fence(Ordering::SeqCst);
        generation
    }

    /// Counts a wait that slept.
    #[inline]
    pub fn count_wait(&self) {
        // Relaxed: each count is alone.
        self.account.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one sleep.
    #[inline]
    pub fn slept(&self, ns: u64, woken: bool) {
        // Relaxed: as above.
        let add = |word: &AtomicU64, amount| word.fetch_add(amount, Ordering::Relaxed);
        let line = &self.account;
        add(&line.slept, 1);
        add(&line.slept_ns, ns);
        add(&line.wakes_taken, woken.into());
    }

    /// Counts a waiter out.
    #[inline]
    pub fn count_out(&self) {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the flags that end a wait for any or all of `mask`, if the wait is over.
#[inline]
pub fn matching(bits: u64, mask: u64, all: bool) -> Option<u64> {
    let found = bits & mask;
    let over = if all { found == mask } else { found != 0 };
    over.then_some(found)
}
