//! The time of a run: monotonic, with the times left out in which the whole job was stopped.

use std::time::Instant;

/// A clock that can be paused after the fact.
#[derive(Debug)]
pub struct Clock {
    origin: Instant,
    paused_ns: u64,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { origin: Instant::now(), paused_ns: 0 }
    }

    /// Time since the start, pauses left out. Never 0, so that 0 can stand for "never".
    pub fn now_ns(&self) -> u64 {
        let elapsed = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        elapsed.saturating_sub(self.paused_ns).max(1)
    }

    /// Leaves out `pause_ns` that have just passed.
    pub fn leave_out(&mut self, pause_ns: u64) {
        self.paused_ns += pause_ns;
    }

    /// Time left out so far.
    pub fn paused_ns(&self) -> u64 {
        self.paused_ns
    }
}
