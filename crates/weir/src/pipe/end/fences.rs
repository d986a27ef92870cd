//! Who passes the fences between publishing and asking whether the other end sleeps: by turns, as
//! [`weir_policy::pipe::Fencing`] decides.

use super::End;
use crate::park::barrier;
use weir_policy::pipe::Fencing;
use weir_ring::primitive::Ordering;
use weir_ring::{RingMemory, sleep};

impl End {
    /// Says that this end sleeps or polls: see [`sleep::announce`].
    pub fn announce(&mut self, how: u32) -> u32 {
        let had_the_fences = self.drop_fences();
        let said = sleep::announce(self.sleep_word(), how);
        if had_the_fences {
            barrier::pass();
        }
        said
    }

    /// Leaves the fences to the other end. Where it had them, the caller passes a barrier after it
    /// has announced its sleep.
    pub(super) fn drop_fences(&mut self) -> bool {
        let sleep = self.role.sleep(self.map.header());
        // Relaxed, here and in `announce`: the barrier makes both seen. Not set where there is no
        // such barrier.
        self.fencing.sleeps() && sleep.sleeper_fences.swap(0, Ordering::Relaxed) != 0
    }

    /// A reader has moved so many records: after many without a sleep the fences become its own.
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
            // Release pairs with the acquire in `sleep::is_wanted_lightly`: an older announcement
            // of this end is seen by who sees this.
            sleep.sleeper_fences.store(1, Ordering::Release);
        }
    }

    /// An end that begins or goes on elsewhere leaves the fences to the other.
    pub(super) fn give_back_fences(&mut self) {
        self.fencing = Fencing::default();
        let sleep = self.role.sleep(self.map.header());
        if sleep.sleeper_fences.swap(0, Ordering::Relaxed) != 0 {
            barrier::pass();
        }
    }

    /// Now and then: lets the other end's barrier reach this process, if it uses one.
    pub fn be_reached(&mut self) {
        let sleep = self.role.other().sleep(self.map.header());
        if !self.reached && sleep.sleeper_fences.load(Ordering::Relaxed) == 1 {
            self.reached = barrier::be_reached();
        }
    }
}
