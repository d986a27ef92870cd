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
//! `connect::wait` does the same steps for many [`Source`]s at once.

pub mod barrier;
pub mod doorbell;
pub mod futex;
mod parked;
mod source;
mod spin;
mod timeout;

pub use parked::Parked;
pub use source::{Rung, Source};
pub use spin::{Spinner, Waiting, look_quickly, peer_of};
pub use timeout::{Timeout, Until};
