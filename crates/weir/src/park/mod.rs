//! Sleeping and waking: the futex, the barrier, the doorbell for poll, and one wait over all.

pub mod barrier;
pub mod doorbell;
pub mod futex;
pub mod wait;
mod spin;
pub use spin::{Spinner, Waiting, peer_of};

use std::time::{Duration, Instant};

/// Until when a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Not at all.
    Now,
    /// As long as it takes.
    Ever,
    /// Until then.
    Then(Instant),
}

impl Until {
    /// So long from now.
    pub fn after(time: Duration) -> Until {
        Instant::now().checked_add(time).map_or(Until::Ever, Until::Then)
    }

    /// The time that is left; `None` for ever.
    pub fn left(self) -> Option<Duration> {
        match self {
            Until::Now => Some(Duration::ZERO),
            Until::Ever => None,
            Until::Then(then) => Some(then.saturating_duration_since(Instant::now())),
        }
    }

    /// The time that is left, or `most` where that is less.
    pub fn at_most(self, most: impl Into<Option<Duration>>) -> Option<Duration> {
        self.left().into_iter().chain(most.into()).min()
    }

    /// Whether no time is left.
    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}
