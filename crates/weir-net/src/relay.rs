//! A relay that impairs packets on purpose: it loses, doubles, corrupts, reorders and delays them,
//! repeatably from a seed.
//!
//! - [`Rate`]: how often, exact to a millionth.
//! - [`Impairment`]: one direction. No clock and no I/O: packets and the time go in, packets come
//!   out. The same seed and the same input give the same output.
//! - [`Relay`]: two TUN devices, most often of two network namespaces, with an impairment each way.
//!
//! What Linux calls netem (tc-netem(8)) does the same inside the kernel. Kernels are built without
//! it, it needs a device of its own each way, and old ones take no seed.

mod device;
mod impairment;
mod rate;

#[cfg(test)]
mod tests;

pub use device::{Counts, Place, Relay};
pub use impairment::{Impairment, ImpairmentCounts, Settings};
pub use rate::Rate;
