//! The head start that a reader gives to streaming writers, as [`weir_policy::pipe::Backoff`]
//! decides.

use super::Waiting;
use std::time::Instant;
use weir_policy::pipe::Backoff;

/// What a reader has moved since it last ran dry, and whether it waits then.
#[derive(Debug)]
pub struct HeadStart {
    backoff: Backoff,
    /// Records or calls since the reader last ran dry.
    since_dry: u64,
    /// Turns of lanes that brought some of them; 0 for a reader that has one lane.
    turns: u32,
}

impl HeadStart {
    /// A head start of `ns` each time, where that pays; 0, or an end that sleeps at once, for none.
    pub fn new(waiting: Waiting, ns: u64) -> HeadStart {
        let ns = if waiting == Waiting::Sleep { 0 } else { ns };
        HeadStart { backoff: Backoff::new(ns), since_dry: 0, turns: 0 }
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
    #[inline]
    pub fn give_after_turns(&mut self, lanes: usize, is_over: impl Fn() -> bool) {
        if self.turns > 0 {
            let records = u32::try_from(std::mem::take(&mut self.since_dry)).unwrap_or(u32::MAX);
            // Each lane had a turn or more.
            let lanes = std::mem::take(&mut self.turns).min(lanes as u32);
            wait(self.backoff.on_all_dry(records, lanes), is_over);
        }
    }

    /// Lets the writer run ahead, now that the reader has run dry, where that pays.
    pub fn give(&mut self) {
        let records = u32::try_from(std::mem::take(&mut self.since_dry)).unwrap_or(u32::MAX);
        wait(self.backoff.on_dry(records), || false);
    }

    /// Handles a sleep: the writer is not streaming now.
    pub fn sleeps(&mut self) {
        self.backoff.on_pause();
    }
}

/// Spins for this long, or until `is_over`.
fn wait(ns: u64, is_over: impl Fn() -> bool) {
    if ns == 0 {
        return;
    }
    let begun = Instant::now();
    while (begun.elapsed().as_nanos() as u64) < ns && !is_over() {
        std::hint::spin_loop();
    }
}
