//! A relay that impairs packets on purpose: it loses, duplicates, corrupts, reorders and delays
//! them, repeatably from a seed.
//!
//! - [`Share`]: the share of packets affected, exact to a millionth.
//! - [`Impairment`]: one direction. No clock and no I/O: packets and the time go in, packets come
//!   out. The same seed and the same input give the same output.
//! - [`Relay`]: two TUN devices, most often of two network namespaces, with an impairment each way.
//!
//! Linux's netem (tc-netem(8)) does this inside the kernel. But some kernels are built without it,
//! it needs a device of its own each way, and old versions take no seed.

mod device;
mod impairment;
mod rate;

#[cfg(test)]
mod tests;

pub use device::{DirectionCounts, Relay, RelayEnd};
pub use impairment::{Impairment, ImpairmentCounts, Impairments};
pub use rate::Share;
