//! The head start that a reader gives to a streaming writer, as [`weir_policy::pipe::Backoff`]
//! decides.

use std::time::Instant;
use weir_policy::pipe::Backoff;

/// What a reader has moved since it last ran dry, and whether it waits then.
#[derive(Debug)]
pub struct HeadStart {
    backoff: Backoff,
    /// Records or calls since the reader last ran dry.
    since_dry: u64,
}

impl HeadStart {
    /// A head start of `ns` each time, where that pays; 0 for none.
    pub fn new(ns: u64) -> HeadStart {
        HeadStart { backoff: Backoff::new(ns), since_dry: 0 }
    }

    /// Counts what the reader has moved.
    #[inline(always)]
    pub fn moved(&mut self, records: u32) {
        self.since_dry += u64::from(records);
    }

    /// Lets the writer run ahead, now that the reader has run dry, where that pays.
    pub fn give(&mut self) {
        let records = std::mem::take(&mut self.since_dry);
        let ns = self.backoff.on_dry(u32::try_from(records).unwrap_or(u32::MAX));
        if ns == 0 {
            return;
        }
        let begun = Instant::now();
        while (begun.elapsed().as_nanos() as u64) < ns {
            std::hint::spin_loop();
        }
    }

    /// Handles a sleep: the writer is not streaming now.
    pub fn sleeps(&mut self) {
        self.backoff.on_pause();
    }
}
