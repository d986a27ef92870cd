//! A user-level network host, divided as L. Allen's at MIT was: a packet switch that only
//! multiplexes, and protocols in processes of their own.
//!
//! - [`wire`]: packets as bytes, a checked view and a writer for each protocol, one file each.
//! - [`reassembly`], [`fragment`]: fragments into datagrams under a budget, and the reverse.
//! - [`icmp`]: the engine of the ICMP and GGP daemon. No clock, no I/O: time is an argument.
//! - [`mod@log`]: a ring of events in a shared file, which outlives its writers.
//! - [`switch`]: the packet switch; [`counts`], [`drop_reason`] and [`routes`] are its counters and
//!   its routing.
//! - [`arp`]: which Ethernet address each neighbour has.
//! - [`station`]: how a process attaches to the switch, by the messages of [`message`].
//! - [`report`]: what a station tells the switch about its own work.
//! - [`icmpd`]: the daemon for ICMP and GGP.
//! - [`stalls`]: the side that a transfer or a connection waits for, and how often it stalled.
//! - [`udp`]: user datagrams to and from the ports of a station.
//! - [`tftp`]: files by TFTP, over [`udp`] or the kernel's sockets.
//! - [`tcp`]: connections, by smoltcp behind a trait.
//! - [`jail`]: files below one directory.
//! - [`names`]: where the files of a switch lie.
//! - [`readiness`]: waiting until descriptors are ready. [`sys`]: system calls.
//!
//! The switch verifies IP headers and nothing above; each station checks its own protocol
//! (docs/contracts/net.md).

#![deny(unsafe_code)]

pub mod arp;
pub mod counts;
pub mod division;
pub mod drop_reason;
mod elapsed;
mod error;
pub mod fragment;
pub mod icmp;
pub mod icmpd;
pub mod jail;
mod local;
pub mod log;
pub mod message;
pub mod names;
mod net;
pub mod outgoing;
pub mod readiness;
pub mod reassembly;
pub mod relay;
pub mod report;
pub mod routes;
mod slab;
mod spans;
pub mod stalls;
pub mod station;
pub mod switch;
#[allow(unsafe_code, reason = "system calls that rustix lacks")]
pub mod sys;
pub mod tcp;
pub mod tftp;
pub mod udp;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
