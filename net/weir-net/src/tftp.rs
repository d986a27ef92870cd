//! Files by the Trivial File Transfer Protocol (RFC 1350), with options (RFC 2347), block size
//! (RFC 2348), timeout and transfer size (RFC 2349), and windows (RFC 7440).
//!
//! - [`packet`]: packets as bytes.
//! - [`netascii`]: lines as they travel in netascii.
//! - [`sender`], [`receiver`]: the two directions of a transfer. No clock and no I/O: time is an
//!   argument, datagrams are bytes, and the file is a trait. `side` is one of them with its file.
//! - [`flow`]: what both directions keep: when to send again, whose turn it is, what was counted.
//! - [`waits`]: which side a transfer waits for.
//! - [`files`]: files that are sent and received.
//! - [`board`]: what a daemon shows of its transfers.
//! - [`local`]: requests of local programs to a daemon.
//! - [`server`], [`client`]: transfers over any [`Datagrams`], which are the ports of a station or
//!   the kernel's sockets (`datagrams`). A [`burst`] of them leaves together.

pub mod board;
pub mod burst;
pub mod client;
pub mod datagrams;
pub mod files;
pub mod flow;
pub mod local;
pub mod netascii;
mod pace;
pub mod packet;
pub mod receiver;
pub mod sender;
pub mod server;
mod side;
pub mod waits;

use crate::log::{FlowChange, FlowEvent, Log};
use crate::wire::ipv4::protocol;
pub use datagrams::Datagrams;
use std::net::SocketAddr;

/// The port where servers wait for requests.
pub const PORT: u16 = 69;
/// Bytes of a block where no other size was agreed on.
pub const DEFAULT_BLOCK_BYTES: u16 = 512;
/// Longest packet: a block of 65,464 bytes and its header.
pub const MOST_PACKET_BYTES: usize = 65_464 + packet::DATA_HEADER_BYTES;

/// How long a transfer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The longest time after which the last packets are sent again.
    pub resend_ns: u64,
    /// How long the other side may make no progress.
    pub give_up_ns: u64,
}

impl Patience {
    /// Sends again after this many seconds at most, and gives up after five times that, but not
    /// before ten seconds.
    pub const fn of_seconds(seconds: u8) -> Patience {
        let resend_ns = seconds as u64 * 1_000_000_000;
        let give_up_ns = if seconds > 2 { 5 * resend_ns } else { 10_000_000_000 };
        Patience { resend_ns, give_up_ns }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Patience::of_seconds(1)
    }
}

/// Logs a change of a transfer, where there is a log. Addresses of the log are of IP version 4.
fn log_flow(log: Option<&Log>, change: FlowChange, port: u16, peer: SocketAddr) {
    if let (Some(log), SocketAddr::V4(peer)) = (log, peer) {
        let (remote, remote_port) = (*peer.ip(), peer.port());
        log.flow(&FlowEvent { change, protocol: protocol::UDP, port, remote, remote_port });
    }
}

/// Returns the number nearest to `near` whose low 16 bits are `block`, as block numbers continue
/// from 0 after 65,535.
fn unwrap_block(block: u16, near: u64) -> Option<u64> {
    let ahead = block.wrapping_sub(near as u16).cast_signed();
    near.checked_add_signed(i64::from(ahead))
}
