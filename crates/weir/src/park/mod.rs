//! Sleeping and waking: what every room above does when there is nothing to do.
//!
//! A caller that found nothing looks again for a while, then sleeps:
//!
//! ```text
//! if spinner.spin(until, peer, is_gone, look)? {        // looks for as long as that has paid of late
//!     return ...;
//! }
//! let parked = Parked::announce(&line.word, &news);     // 1. says that it sleeps
//! if look()? || until.is_over() {                       // 2. looks once more
//!     return ...;                                       //    (dropping `parked` takes 1 back)
//! }
//! let slept = parked.sleep(until.at_most(SLICE));       // 3. sleeps, and takes 1 back
//! spinner.slept(slept.ns);
//! account::slept(&line, slept.ns, slept.woken);
//! ```
//!
//! The other side publishes and then asks [`weir_ring::sleep::is_wanted`]; what no other process can
//! tell (a death, somebody at the door) is told through `news`, which is private to this process.
//! [`Wait`] does the same steps for many [`Source`]s at once.

pub mod barrier;
pub mod doorbell;
pub mod futex;
mod parked;
mod spin;
mod wait;

pub use parked::Parked;
pub use spin::{Spinner, Waiting, look_quickly, peer_of};
pub use wait::{Interest, Rung, Source, Wait};

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
