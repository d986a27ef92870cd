//! The clock of a run: monotonic, less the times in which the whole job was stopped.

use std::time::Instant;

/// A clock that can be paused after the fact.
#[derive(Debug)]
pub struct Clock {
    origin: Instant,
    paused_ns: u64,
}

impl Clock {
    /// Creates a clock that starts now.
    pub fn start() -> Clock {
        Clock { origin: Instant::now(), paused_ns: 0 }
    }

    /// Returns the time since the start, less pauses. Never 0, so that 0 can mean "never".
    pub fn now_ns(&self) -> u64 {
        let elapsed = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        elapsed.saturating_sub(self.paused_ns).max(1)
    }

    /// Subtracts a pause of `pause_ns` that has just ended.
    pub fn leave_out(&mut self, pause_ns: u64) {
        self.paused_ns += pause_ns;
    }

    /// Returns the time subtracted so far.
    pub fn paused_ns(&self) -> u64 {
        self.paused_ns
    }
}
