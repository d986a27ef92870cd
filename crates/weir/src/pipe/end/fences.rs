//! Which end passes the fences between publishing and asking whether the other end sleeps: the two
//! take turns, as [`weir_policy::pipe::Fencing`] decides (`docs/adr/0007`).

use crate::park::barrier;
use weir_policy::pipe::Fencing;
use weir_ring::layout::SleepLine;
use weir_ring::primitive::Ordering;
use weir_ring::sleep;

/// Whether this end passes the other one's fences too, and the other one this end's. `own` and
/// `other` are where the two sleep.
#[derive(Debug, Default)]
pub struct Fences {
    fencing: Fencing,
    /// Whether the other end's barrier reaches this process.
    reached: bool,
}

impl Fences {
    /// Announces that this end sleeps or polls: see [`sleep::announce`].
    pub fn announce(&mut self, own: &SleepLine, how: u32) -> u32 {
        let had_both = self.leave(own);
        let said = sleep::announce(&own.word, how);
        if had_both {
            barrier::pass();
        }
        said
    }

    /// Leaves the fences to the other end. Returns whether this end had them: then the caller
    /// passes a barrier after it has announced its sleep.
    pub fn leave(&mut self, own: &SleepLine) -> bool {
        // Relaxed, here and in `announce`: the barrier makes both visible. The word is set only
        // where the kernel has such a barrier.
        self.fencing.sleeps() && own.sleeper_fences.swap(0, Ordering::Relaxed) != 0
    }

    /// Counts records that a reader has moved. Returns whether it [takes](Fences::take) the fences
    /// now, which it does after many without a sleep.
    #[inline(always)]
    pub fn moved(&mut self, records: u32) -> bool {
        self.fencing.moved(records)
    }

    /// Counts the record for which a reader is about to spin.
    pub fn spun(&mut self, own: &SleepLine) {
        if self.fencing.spun() {
            Fences::take(own);
        }
    }

    /// Takes the fences upon this end.
    #[cold]
    pub fn take(own: &SleepLine) {
        if barrier::is_available() {
            // Release: pairs with the Acquire in `sleep::is_wanted_lightly`: an end that sees this
            // also sees an older announcement.
            own.sleeper_fences.store(1, Ordering::Release);
        }
    }

    /// Begins anew, and leaves the fences to the other end: this one begins, moves or is handed on.
    pub fn give_back(&mut self, own: &SleepLine) {
        self.fencing = Fencing::default();
        if own.sleeper_fences.swap(0, Ordering::Relaxed) != 0 {
            barrier::pass();
        }
    }

    /// Asks for the other end's barrier to reach this process, if it uses one. Called now and then.
    pub fn be_reached(&mut self, other: &SleepLine) {
        if !self.reached && other.sleeper_fences.load(Ordering::Relaxed) == 1 {
            self.reached = barrier::reaches_here();
        }
    }

    /// Whether the other end waits. The caller has published before.
    #[inline(always)]
    pub fn is_wanted(&self, other: &SleepLine) -> bool {
        sleep::is_wanted_lightly(other, self.reached)
    }
}
