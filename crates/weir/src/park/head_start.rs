//! The head start that a reader gives to streaming writers, as [`weir_policy::pipe::Backoff`]
//! decides.

use super::Waiting;
use std::time::Instant;
use weir_policy::pipe::{BACKOFF_NS, Backoff};

/// What a reader has moved since it last ran dry, and whether it waits then.
#[derive(Debug)]
pub struct HeadStart {
    backoff: Backoff,
    /// Records or calls since the reader last ran dry.
    since_dry: u64,
    /// Turns of lanes that brought some of them; 0 for a reader that has one lane.
    turns: u32,
    /// How often it has waited.
    pub given: u32,
}

impl HeadStart {
    /// A head start where that pays; none for an end that sleeps at once.
    pub fn new(waiting: Waiting) -> HeadStart {
        HeadStart::of(if waiting == Waiting::Sleep { 0 } else { BACKOFF_NS })
    }

    fn of(ns: u64) -> HeadStart {
        HeadStart { backoff: Backoff::new(ns), since_dry: 0, turns: 0, given: 0 }
    }

    /// Counts what the reader has moved.
    #[inline(always)]
    pub fn moved(&mut self, records: u32) {
        self.since_dry += u64::from(records);
    }

    /// Counts what one of many lanes has brought in its turn.
    #[inline]
    pub fn moved_in_turn(&mut self, records: u32) {
        self.since_dry = self.since_dry.saturating_add(u64::from(records));
        self.turns = self.turns.saturating_add(u32::from(records > 0));
    }

    /// Lets the writers run ahead, now that all lanes have run dry, where that pays, or until `is_over`.
    /// Nothing happens if none has brought anything since the last time. `lanes` is how many there are.
    /// Returns whether it has waited.
    #[inline]
    pub fn give_after_turns(&mut self, lanes: usize, is_over: impl Fn() -> bool) -> bool {
        if self.turns == 0 {
            return false;
        }
        let records = u32::try_from(std::mem::take(&mut self.since_dry)).unwrap_or(u32::MAX);
        // Each lane had a turn or more.
        let lanes = std::mem::take(&mut self.turns).min(lanes as u32);
        let ns = self.backoff.on_all_dry(records, lanes);
        self.wait(ns, is_over);
        ns > 0
    }

    /// Lets the writer run ahead, now that the reader has run dry, where that pays. `is_apart` means
    /// that the writer does not run on this CPU; otherwise this is [`HeadStart::forgo`].
    pub fn give(&mut self, is_apart: bool) {
        if !is_apart {
            return self.forgo();
        }
        let records = u32::try_from(std::mem::take(&mut self.since_dry)).unwrap_or(u32::MAX);
        let ns = self.backoff.on_dry(records);
        self.wait(ns, || false);
    }

    /// Handles that the reader has run dry and does not wait, whatever it has moved: its writer runs on
    /// the same CPU, or the call is one that never waits.
    pub fn forgo(&mut self) {
        (self.since_dry, self.turns) = (0, 0);
    }

    /// Handles a sleep: the writer is not streaming now.
    pub fn sleeps(&mut self) {
        self.backoff.on_pause();
    }

    /// Spins for this long, or until `is_over`.
    fn wait(&mut self, ns: u64, is_over: impl Fn() -> bool) {
        if ns == 0 {
            return;
        }
        self.given = self.given.wrapping_add(1);
        let begun = Instant::now();
        while (begun.elapsed().as_nanos() as u64) < ns && !is_over() {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has eight lanes bring so many records each, and all run dry, so many times. Returns how often
    /// it was asked whether a wait is over, which it always is. No wait would end by itself.
    fn asked(head: &mut HeadStart, records: u32, times: u32) -> u32 {
        let asked = std::cell::Cell::new(0);
        for _ in 0..times {
            (0..8).for_each(|_| head.moved_in_turn(records));
            head.give_after_turns(8, || {
                asked.set(asked.get() + 1);
                true
            });
        }
        asked.get()
    }

    #[test]
    fn a_head_start_ends_as_soon_as_somebody_comes() {
        let mut head = HeadStart::of(1 << 40);
        // After the first 63 it waits each time.
        assert_eq!(asked(&mut head, 100, 1_063), 1_000);
        assert_eq!(asked(&mut HeadStart::new(Waiting::Sleep), 100, 1_000), 0);
    }

    #[test]
    fn what_was_moved_before_a_wait_was_forgone_does_not_count() {
        let mut head = HeadStart::of(1 << 40);
        for _ in 0..1_000 {
            (0..8).for_each(|_| head.moved_in_turn(1_000));
            head.forgo();
        }
        assert_eq!(asked(&mut head, 100, 63), 0, "it has yet to see whether waiting pays");
        assert!(!head.give_after_turns(8, || unreachable!("nothing has come since")));
    }
}
