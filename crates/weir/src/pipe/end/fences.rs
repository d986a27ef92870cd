//! Decides which end passes the fences between publishing and asking whether the other end sleeps:
//! the two take turns, as [`weir_policy::pipe::Fencing`] decides.

use super::End;
use crate::park::barrier;
use weir_policy::pipe::Fencing;
use weir_ring::primitive::Ordering;
use weir_ring::{RingMemory, sleep};

impl End {
    /// Announces that this end sleeps or polls: see [`sleep::announce`].
    pub fn announce(&mut self, how: u32) -> u32 {
        let had_the_fences = self.drop_fences();
        let said = sleep::announce(self.sleep_word(), how);
        if had_the_fences {
            barrier::pass();
        }
        said
    }

    /// Leaves the fences to the other end. Returns whether this end had them: then the caller
    /// passes a barrier after it has announced its sleep.
    pub(super) fn drop_fences(&mut self) -> bool {
        let sleep = self.role.sleep(self.map.header());
        // Relaxed, here and in `announce`: the barrier makes both visible. The word is set only
        // where the kernel has such a barrier.
        self.fencing.sleeps() && sleep.sleeper_fences.swap(0, Ordering::Relaxed) != 0
    }

    /// Counts records that a reader has moved. After many without a sleep it takes the fences.
    #[inline]
    pub fn moved(&mut self, records: u32) {
        self.since_dry = self.since_dry.saturating_add(records);
        if self.fencing.moved(records) {
            self.take_fences();
        }
    }

    #[cold]
    pub(super) fn take_fences(&self) {
        if barrier::is_available() {
            let sleep = self.role.sleep(self.map.header());
            // Release: pairs with the Acquire in `sleep::is_wanted_lightly`: an end that sees this
            // also sees an older announcement.
            sleep.sleeper_fences.store(1, Ordering::Release);
        }
    }

    /// Leaves the fences to the other end, when this one begins, moves or is handed on.
    pub(super) fn give_back_fences(&mut self) {
        self.fencing = Fencing::default();
        let sleep = self.role.sleep(self.map.header());
        if sleep.sleeper_fences.swap(0, Ordering::Relaxed) != 0 {
            barrier::pass();
        }
    }

    /// Registers this process for the other end's barrier, if that uses one. Called now and then.
    pub fn be_reached(&mut self) {
        let sleep = self.role.other().sleep(self.map.header());
        if !self.reached && sleep.sleeper_fences.load(Ordering::Relaxed) == 1 {
            self.reached = barrier::be_reached();
        }
    }
}
