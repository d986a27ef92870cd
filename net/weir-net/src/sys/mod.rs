//! What only the network needs of Linux and rustix does not offer.
//!
//! - [`tun`]: a TUN device. [`packet`]: a socket on an Ethernet device.
//! - [`segments`]: datagrams of one length that cross the kernel as one.
//! - [`refusals`]: what the kernel hears about datagrams that nobody took.
//! - [`terminal`]: a process with a terminal of its own.

mod message;
pub mod packet;
pub mod refusals;
pub mod segments;
pub mod terminal;
pub mod tun;
