//! TCP at user level: connections of a process that attached to the switch.
//!
//! - [`Stack`]: what an implementation of TCP does here. [`smol`] has one, by the crate smoltcp.
//! - `device`: the packets between the stack and the station.
//! - `half_open`: connections that are not completed yet.
//! - `segment`: the header of a segment; `flows`: what the segments of a connection say, and which
//!   resets and requests are believed.
//! - [`stalls`]: which side a connection waits for; `silence`: when it is given up.
//! - [`endpoint`]: a stack over a station.
//! - [`service`]: echo, discard, chargen, HTTP and Telnet; `http` reads requests and writes answers.
//! - [`telnet`]: options of Telnet, and what is data; `terminal` gives a command a terminal.

mod device;
pub mod endpoint;
mod flows;
mod half_open;
mod http;
mod segment;
pub mod service;
mod silence;
pub mod smol;
pub mod stalls;
pub mod telnet;
mod terminal;

use crate::log::FlowChange;
use crate::stalls::WaitedSide;
pub use device::Outlet;
use serde::Serialize;
use stalls::ConnectionWaits;
use std::net::SocketAddrV4;

/// A connection of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// A connection that a listener has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The connection.
    pub id: ConnectionId,
    /// The port of ours.
    pub local_port: u16,
    /// The other side.
    pub remote: SocketAddrV4,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being opened.
    Opening,
    /// It is open.
    Open {
        /// Whether more may come, or is there to be read.
        receives: bool,
        /// Whether more may be sent.
        sends: bool,
    },
    /// Both sides have sent their last and know of it, and all that came was read.
    Finished,
    /// It is over: refused, reset, given up, or closed by the other side first.
    Closed,
}

/// Counts of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TcpCounts {
    /// Segments taken, and those dropped because their checksum is wrong or they are cut.
    pub segments_in: u64,
    /// Segments dropped because their checksum is wrong, they are shorter than their header, their
    /// flags exclude each other, or their options are not whole.
    pub bad_segments: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments with data that was sent before, except those that ask whether a window is still closed.
    pub segments_again: u64,
    /// Bytes of data in segments taken, copies included.
    pub bytes_in: u64,
    /// Bytes of data in segments sent, copies included.
    pub bytes_out: u64,
    /// Connections that listeners accepted.
    pub accepted: u64,
    /// Connections that were never completed, and were given up for newer ones or after a while.
    pub half_open_dropped: u64,
    /// Resets and requests that were not believed, since their numbers are not the next (RFC 5961).
    pub disbelieved: u64,
    /// For how long connections waited, and for whom.
    pub waits: ConnectionWaits,
}

/// A connection's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionFigures {
    /// The port of ours.
    pub local_port: u16,
    /// The other side.
    pub remote: SocketAddrV4,
    /// Segments with data that was sent before.
    pub segments_again: u64,
    /// Bytes that were sent and are not acknowledged.
    pub flight_bytes: u32,
    /// The window that we offered last.
    pub own_window_bytes: u32,
    /// The window that the other side offered last.
    pub other_window_bytes: u32,
    /// Whom it waits for; `None` if it has nothing to do.
    pub waits_for: Option<WaitedSide>,
}

/// An implementation of TCP. It has no clock and does no I/O: time is an argument, and packets are
/// bytes that `endpoint` brings and takes.
pub trait Stack {
    /// Accepts connections to this port from now on.
    fn listen(&mut self, port: u16);

    /// Opens a connection from one of our ports; `None` where that cannot be.
    fn connect(&mut self, local_port: u16, to: SocketAddrV4, now_ns: u64) -> Option<ConnectionId>;

    /// Handles an IP datagram with a segment. `is_checked`: its checksum need not be checked. What is
    /// to be answered at once goes to `outlet`.
    fn take(&mut self, datagram: &[u8], is_checked: bool, now_ns: u64, outlet: &mut dyn Outlet);

    /// Lets time pass, and sends what is due to `outlet`.
    fn poll(&mut self, now_ns: u64, outlet: &mut dyn Outlet);

    /// Returns after how long [`Stack::poll`] must be called again, if nothing comes.
    fn delay_ns(&mut self, now_ns: u64) -> Option<u64>;

    /// Returns the next connection that was accepted.
    fn accept(&mut self) -> Option<Accepted>;

    /// Returns where a connection stands.
    fn phase(&self, id: ConnectionId) -> Phase;

    /// Whether neither side sends any more on a connection; bytes that came before may be unread.
    fn is_over(&self, id: ConnectionId) -> bool;

    /// Shows received bytes where they lie; `see` says how many of them it took. Returns that.
    fn receive(&mut self, id: ConnectionId, see: &mut dyn FnMut(&[u8]) -> usize) -> usize;

    /// Lends room for bytes to send; `fill` says how many it wrote. Returns that.
    fn send(&mut self, id: ConnectionId, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> usize;

    /// Returns for how many bytes to send there is room.
    fn room_bytes(&self, id: ConnectionId) -> usize;

    /// Returns how many bytes that were given to be sent are not acknowledged.
    fn left_bytes(&self, id: ConnectionId) -> usize;

    /// Sends no more on a connection.
    fn close(&mut self, id: ConnectionId);

    /// Ends a connection at once, with a reset unless it is over. What came and is unread is lost.
    fn abort(&mut self, id: ConnectionId);

    /// Forgets a connection. One that is not over ends by itself.
    fn forget(&mut self, id: ConnectionId);

    /// Returns for how many more connections there is room.
    fn free(&self) -> usize;

    /// Returns what was counted.
    fn counts(&self) -> TcpCounts;

    /// Returns the next of what happened to connections: that they began, sent again, or stalled.
    fn next_change(&mut self) -> Option<(u16, SocketAddrV4, FlowChange)>;

    /// Shows the figures of each connection that is open.
    fn each_connection(&self, see: &mut dyn FnMut(&ConnectionFigures));
}
