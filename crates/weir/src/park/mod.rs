//! Sleeping and waking: what all other modules do when there is nothing to do.
//!
//! A caller that found nothing looks again for a while, then sleeps:
//!
//! ```text
//! if spinner.spin(looks, until, peer, ..., look)? {     // looks while that has paid lately
//!     return ...;
//! }
//! let parked = Parked::announce(&line.word, &news);     // 1. announces the sleep
//! if look()? || until.is_over() {                       // 2. looks once more
//!     return ...;                                       //    (dropping `parked` takes 1 back)
//! }
//! let slept = parked.sleep(until.at_most(SLICE));       // 3. sleeps, and takes 1 back
//! spinner.slept(slept.ns);
//! line.waiting.count_sleep(slept.ns, slept.woken);
//! ```
//!
//! The other side publishes and then asks [`weir_ring::sleep::is_wanted`]. Events that no other
//! process can report (a death, a connection) come through `news`, which is private to this
//! process. `connect::wait` takes the same steps for many [`WaitSource`]s at once. Threads of one
//! process that wait for each other have a [`LocalSleep`].

pub mod barrier;
pub mod doorbell;
pub mod futex;
mod head_start;
mod local;
mod parked;
pub mod ready;
mod source;
mod spin;
mod timeout;

pub use head_start::HeadStart;
pub use local::LocalSleep;
pub use parked::{Parked, Slept};
pub use source::{Rung, WaitSource, sleep_on};
pub use spin::{QUICK_LOOKS, Spinner, Waiting, peer_of, poll_quickly, publish_cpu};
pub use timeout::{Timeout, Until};
