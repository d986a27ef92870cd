//! Where datagrams come from and go to: the ports of a station, or the kernel's sockets.

use super::burst::Burst;
use crate::error::{Error, ErrorKind, Result};
use crate::readiness::wait_for;
use crate::report::ServiceReport;
use crate::sys::refusals;
use crate::sys::segments::{self, MOST_SEGMENTS};
use crate::udp::{UdpArrival, UdpEndpoint};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg_addr, sockopt};
use std::fmt;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Bytes of memory that the kernel grants a socket's datagrams by default.
const DEFAULT_RECEIVE_BYTES: usize = 212_992;
/// Bytes that our sockets ask for.
const RECEIVE_BYTES: usize = 4 << 20;
/// Most datagrams taken of one socket before the others get a turn.
const MOST_AT_ONCE: usize = 64;

/// The longest piece that can come: one datagram, or several that were joined.
const MOST_PIECE_BYTES: usize = 65_536;

/// Something that came.
#[derive(Debug)]
pub enum Inbound<'a> {
    /// A datagram.
    Datagram {
        /// The port of ours that it is for.
        local_port: u16,
        /// Its sender.
        from: SocketAddr,
        /// Its payload.
        payload: &'a [u8],
    },
    /// Nobody is there to get what we sent from this port.
    Undelivered {
        /// The port of ours.
        local_port: u16,
        /// Where it was sent.
        to: SocketAddr,
    },
}

/// Ports that send and receive datagrams.
pub trait Datagrams: fmt::Debug {
    /// Opens a port for a transfer; it may be one that other transfers have as well.
    fn open(&mut self) -> Result<u16>;

    /// Gives a port of a transfer back.
    fn close(&mut self, port: u16);

    /// Sends a datagram. One that cannot be sent now is lost.
    ///
    /// # Errors
    /// No datagram can be sent from here any more, or none as long as this.
    fn send(&mut self, from: u16, to: SocketAddr, payload: &[u8]) -> Result<()>;

    /// Appends to a burst what was written to its [`Burst::space`]. The burst is sent before where it is
    /// full. A datagram that no other has room beside is sent at once.
    fn send_in(&mut self, from: u16, to: SocketAddr, burst: &mut Burst) -> Result<()> {
        if burst.keep() {
            return Ok(());
        }
        self.send_burst(from, to, burst)?;
        if burst.keep() { Ok(()) } else { self.send(from, to, burst.space()) }
    }

    /// Sends a burst, and empties it.
    fn send_burst(&mut self, from: u16, to: SocketAddr, burst: &mut Burst) -> Result<()> {
        let sent = burst.each().try_for_each(|datagram| self.send(from, to, datagram));
        burst.clear();
        sent
    }

    /// Shows what has come. If there is nothing, waits up to this long for something. Where `see` says
    /// that nothing more is expected now from the same side, a further look for it can be left out.
    ///
    /// # Errors
    /// Nothing can come any more.
    fn receive(&mut self, time: Duration, see: &mut dyn FnMut(Inbound<'_>) -> bool) -> Result<()>;

    /// Tells figures of the work to whoever shows them, if there is anybody.
    ///
    /// # Errors
    /// No datagram can be sent from here any more.
    fn report(&mut self, _report: &ServiceReport) -> Result<()> {
        Ok(())
    }

    /// Returns how many bytes of blocks and their bookkeeping may wait here to be received.
    fn receive_bytes(&self) -> usize;
}

/// The datagrams of one length in a piece, at least one; the last may be shorter.
fn datagrams_in(piece: &[u8], datagram_bytes: usize) -> impl Iterator<Item = &[u8]> {
    let is_empty = piece.is_empty().then_some(piece);
    is_empty.into_iter().chain(piece.chunks(datagram_bytes.max(1)))
}

/// Returns the most blocks of this size that surely find room in so many bytes of a receiver's
/// buffer, in which each datagram costs memory of its own.
pub fn blocks_in(room_bytes: usize, block_bytes: u16) -> u16 {
    // The kernel rounds a datagram of less than 32 KiB, with its bookkeeping, up to a power of two.
    let bytes = usize::from(block_bytes) + 576;
    let cost = if bytes < 32 << 10 { bytes.next_power_of_two() } else { bytes + (8 << 10) };
    u16::try_from((room_bytes / (cost + 256)).max(1)).unwrap_or(u16::MAX)
}

/// Returns the most blocks of this size that a receiver with the kernel's default buffer takes at a
/// time.
pub fn blocks_in_default(block_bytes: u16) -> u16 {
    blocks_in(DEFAULT_RECEIVE_BYTES, block_bytes)
}

/// The ports of a station.
#[derive(Debug)]
pub struct SwitchPorts {
    endpoint: UdpEndpoint,
    /// How many of the ports are not for transfers, and which of the others is next.
    named: usize,
    next: usize,
}

impl SwitchPorts {
    /// Uses an endpoint whose first `named` ports are not for transfers.
    pub fn new(endpoint: UdpEndpoint, named: usize) -> SwitchPorts {
        SwitchPorts { endpoint, named, next: 0 }
    }
}

impl Datagrams for SwitchPorts {
    fn open(&mut self) -> Result<u16> {
        let ports = self.endpoint.ports().get(self.named..).unwrap_or_default();
        if ports.is_empty() {
            let why = "it was attached for none";
            return Err(Error::new(ErrorKind::Invalid, "open", "a port", why));
        }
        self.next = (self.next + 1) % ports.len();
        Ok(ports[self.next])
    }

    fn close(&mut self, _port: u16) {}

    fn send(&mut self, from: u16, to: SocketAddr, payload: &[u8]) -> Result<()> {
        match to {
            SocketAddr::V4(to) => self.endpoint.send(from, to, payload),
            SocketAddr::V6(_) => {
                let why = "the switch has IP version 4 only";
                Err(Error::new(ErrorKind::Invalid, "send to", to.to_string(), why))
            }
        }
    }

    fn receive(&mut self, time: Duration, see: &mut dyn FnMut(Inbound<'_>) -> bool) -> Result<()> {
        self.endpoint.receive_for(time, |arrival| match arrival {
            UdpArrival::Datagram { local_port, from, payload } => {
                see(Inbound::Datagram { local_port, from: from.into(), payload });
            }
            UdpArrival::Undelivered { local_port, to, notice } => {
                // A block of which a fragment was lost is only sent again.
                if notice.means_nobody_listens() {
                    see(Inbound::Undelivered { local_port, to: to.into() });
                }
            }
        })?;
        Ok(())
    }

    fn report(&mut self, report: &ServiceReport) -> Result<()> {
        self.endpoint.report(report)
    }

    fn receive_bytes(&self) -> usize {
        // Half of the ring; its datagrams cost little more than their bytes.
        512 << 10
    }
}

/// The kernel's sockets: one where requests come, for a server, and one for each transfer.
#[derive(Debug)]
pub struct Sockets {
    address: IpAddr,
    /// Those of transfers behind the one for requests.
    sockets: Vec<OpenSocket>,
    is_server: bool,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct OpenSocket {
    port: u16,
    socket: UdpSocket,
    /// The length of the datagrams that the kernel cuts of a burst; `None` where it does not.
    segment_bytes: Option<u16>,
}

impl OpenSocket {
    /// Sends a burst with one call. Returns `false` if the kernel does not cut it.
    fn send_cut(&mut self, to: SocketAddr, burst: &Burst) -> bool {
        let bytes = burst.each().next().and_then(|first| u16::try_from(first.len()).ok());
        let (Some(known), Some(bytes)) = (self.segment_bytes, bytes) else { return false };
        let set = match known == bytes {
            true => Ok(()),
            false => segments::set_segment_bytes(&self.socket, bytes),
        };
        let mut parts = [IoSlice::new(&[]); MOST_SEGMENTS];
        for (part, datagram) in parts.iter_mut().zip(burst.each()) {
            *part = IoSlice::new(datagram);
        }
        let mut control = SendAncillaryBuffer::default();
        let parts = &parts[..burst.count()];
        let sent = set.map_err(|cause| Errno::from_io_error(&cause).unwrap_or(Errno::INVAL));
        let mut send = || sendmsg_addr(&self.socket, &to, parts, &mut control, SendFlags::NOSIGNAL);
        let sent = sent.and_then(|()| match send() {
            // Of an earlier datagram; it is told once.
            Err(Errno::CONNREFUSED) => send(),
            sent => sent,
        });
        match sent {
            // An old kernel, or datagrams longer than the device takes.
            Err(Errno::INVAL | Errno::MSGSIZE | Errno::NOPROTOOPT | Errno::IO) => {
                // What could not be set is not set.
                let _ = segments::set_segment_bytes(&self.socket, 0);
                self.segment_bytes = None;
                false
            }
            // What cannot be sent now is lost.
            _ => {
                self.segment_bytes = Some(bytes);
                true
            }
        }
    }
}

impl Sockets {
    /// Opens the socket of a server at this address.
    ///
    /// # Errors
    /// The port is taken, or this user may not have it; the kernel's.
    pub fn listen(address: SocketAddr) -> Result<Sockets> {
        let mut sockets = Sockets::client(address.ip());
        sockets.is_server = true;
        sockets.bind(address)?;
        Ok(sockets)
    }

    /// Has no socket yet. Those of transfers will have this address.
    pub fn client(address: IpAddr) -> Sockets {
        let buffer = vec![0; MOST_PIECE_BYTES];
        Sockets { address, sockets: Vec::new(), is_server: false, buffer }
    }

    /// As [`Sockets::client`], at any address that can reach this one.
    pub fn client_of(server: SocketAddr) -> Sockets {
        Sockets::client(match server {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        })
    }

    /// Returns the port where requests come.
    pub fn port(&self) -> Option<u16> {
        self.sockets.first().filter(|_| self.is_server).map(|open| open.port)
    }

    fn bind(&mut self, address: SocketAddr) -> Result<u16> {
        let object = || format!("UDP {address}");
        let opened = UdpSocket::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            // The kernel grants less to users without privilege.
            let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES);
            let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES);
            // Where the kernel is too old, each datagram comes on its own.
            let _ = segments::receive_in_one_piece(&socket);
            // Where the kernel does not tell, what nobody takes is given up after a while.
            let _ = refusals::keep_errors(&socket);
            Ok((socket.local_addr()?.port(), socket))
        });
        let (port, socket) = opened.map_err(|cause| match cause.kind() {
            std::io::ErrorKind::AddrInUse => {
                Error::new(ErrorKind::Taken, "open", object(), "another process has it")
            }
            _ => Error::os("open", object(), cause),
        })?;
        self.sockets.push(OpenSocket { port, socket, segment_bytes: Some(0) });
        Ok(port)
    }
}

impl Datagrams for Sockets {
    fn open(&mut self) -> Result<u16> {
        self.bind(SocketAddr::new(self.address, 0))
    }

    fn close(&mut self, port: u16) {
        let first = usize::from(self.is_server);
        let found = self.sockets.iter().skip(first).position(|open| open.port == port);
        if let Some(at) = found {
            self.sockets.swap_remove(first + at);
        }
    }

    fn send(&mut self, from: u16, to: SocketAddr, payload: &[u8]) -> Result<()> {
        let Some(open) = self.sockets.iter_mut().find(|open| open.port == from) else {
            return Ok(());
        };
        // What is longer than the datagrams of the last burst would be cut as well.
        if open.segment_bytes.is_some_and(|bytes| (1..payload.len()).contains(&usize::from(bytes)))
        {
            let _ = segments::set_segment_bytes(&open.socket, 0);
            open.segment_bytes = Some(0);
        }
        if let Err(cause) = open.socket.send_to(payload, to) {
            // What the path does not take as it is is not cut either.
            if Errno::from_io_error(&cause) == Some(Errno::MSGSIZE) {
                let _ = segments::set_segment_bytes(&open.socket, 0);
                open.segment_bytes = None;
            }
            // It may be an error of an earlier datagram, which is told once. Else it is lost.
            let _ = open.socket.send_to(payload, to);
        }
        Ok(())
    }

    fn receive(&mut self, time: Duration, see: &mut dyn FnMut(Inbound<'_>) -> bool) -> Result<()> {
        let mut asked: Vec<PollFd<'_>> =
            self.sockets.iter().map(|open| PollFd::new(&open.socket, PollFlags::IN)).collect();
        if !wait_for(&mut asked, Some(time), "datagrams")? {
            return Ok(());
        }
        let ready: Vec<bool> = asked.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (open, _) in self.sockets.iter().zip(ready).filter(|(_, ready)| *ready) {
            let OpenSocket { port, socket, .. } = open;
            let (mut taken, mut refused) = (0, Vec::new());
            while taken < MOST_AT_ONCE {
                let expects_more = match segments::receive_joined(socket, &mut self.buffer) {
                    Ok(joined) => {
                        let bytes = &self.buffer[..joined.bytes];
                        let mut expects_more = true;
                        for payload in datagrams_in(bytes, joined.datagram_bytes) {
                            let (local_port, from) = (*port, joined.from);
                            expects_more = see(Inbound::Datagram { local_port, from, payload });
                            taken += 1;
                        }
                        expects_more || !refused.is_empty()
                    }
                    // An error of an earlier datagram, or nothing.
                    Err(_) => match refusals::next_error(socket) {
                        Ok(to) => {
                            taken += 1;
                            refused.extend(to);
                            true
                        }
                        Err(_) => false,
                    },
                };
                if !expects_more {
                    break;
                }
            }
            // The kernel tells errors first. What a side says before it goes, came before.
            for to in refused {
                see(Inbound::Undelivered { local_port: *port, to });
            }
        }
        Ok(())
    }

    fn send_burst(&mut self, from: u16, to: SocketAddr, burst: &mut Burst) -> Result<()> {
        let found = self.sockets.iter_mut().find(|open| open.port == from && burst.count() > 1);
        let sent = match found.is_some_and(|open| open.send_cut(to, burst)) {
            true => Ok(()),
            false => burst.each().try_for_each(|datagram| self.send(from, to, datagram)),
        };
        burst.clear();
        sent
    }

    fn receive_bytes(&self) -> usize {
        let granted = |socket| sockopt::socket_recv_buffer_size(socket).ok();
        let granted = self.sockets.last().and_then(|open| granted(&open.socket));
        granted.unwrap_or(DEFAULT_RECEIVE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends datagrams of these lengths in bursts.
    fn send(lengths: &[usize], at: SocketAddr) {
        let mut sockets = Sockets::client_of(at);
        let port = sockets.open().expect("opened");
        let mut burst = Burst::default();
        let bytes = vec![7; 65_468];
        for length in lengths {
            burst.space().clear();
            burst.space().extend_from_slice(&bytes[..*length]);
            sockets.send_in(port, at, &mut burst).expect("sent");
        }
        sockets.send_burst(port, at, &mut burst).expect("sent");
    }

    /// Returns the lengths that arrive at a socket that is not ours.
    fn arrived(lengths: &[usize]) -> Vec<usize> {
        let to = UdpSocket::bind("127.0.0.1:0").expect("bound");
        to.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        send(lengths, to.local_addr().expect("bound"));
        let mut got = vec![0; 65_535];
        lengths.iter().map(|_| to.recv(&mut got).expect("received")).collect()
    }

    /// Why a server had given a transfer up was lost in the news that its port is closed.
    #[test]
    fn what_a_side_says_before_it_goes_is_heard_first() {
        let mut sockets = Sockets::client(Ipv4Addr::LOCALHOST.into());
        let port = sockets.open().expect("opened");
        let other = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let at = other.local_addr().expect("bound");
        other.send_to(b"no room", ("127.0.0.1", port)).expect("sent");
        drop(other);
        sockets.send(port, at, b"more").expect("sent");
        let mut heard = Vec::new();
        let mut see = |inbound: Inbound<'_>| {
            heard.push(match inbound {
                Inbound::Datagram { payload, .. } => payload.to_vec(),
                Inbound::Undelivered { to, .. } => to.to_string().into_bytes(),
            });
            false
        };
        sockets.receive(Duration::from_secs(20), &mut see).expect("received");
        assert_eq!(heard, [b"no room".to_vec(), at.to_string().into_bytes()]);
    }

    /// Returns the lengths that arrive at a socket of ours.
    fn arrived_here(lengths: &[usize]) -> Vec<usize> {
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        let mut sockets = Sockets::client(loopback);
        let port = sockets.open().expect("opened");
        send(lengths, SocketAddr::new(loopback, port));
        let mut got = Vec::new();
        while got.len() < lengths.len() {
            let known = got.len();
            let mut see = |inbound: Inbound<'_>| {
                if let Inbound::Datagram { payload, .. } = inbound {
                    assert!(payload.iter().all(|byte| *byte == 7));
                    got.push(payload.len());
                }
                true
            };
            sockets.receive(Duration::from_secs(20), &mut see).expect("received");
            assert!(got.len() > known, "{got:?} and nothing more of {lengths:?}");
        }
        got
    }

    #[test]
    fn datagrams_of_any_lengths_arrive_as_they_are_and_in_order() {
        let whole = [516; 70];
        assert_eq!(arrived(&whole), whole, "more than the kernel cuts of one send");
        assert_eq!(arrived_here(&whole), whole);
        for lengths in [
            &[516, 516, 4, 516, 20, 21, 5, 5][..],
            &[4],
            &[12, 12, 100],
            &[8196, 8196, 8196, 8196, 8196, 8196, 8196, 8196, 100],
            &[65_468, 4, 65_468],
            &[40_000, 32_000, 32_500],
        ] {
            assert_eq!(arrived(lengths), lengths);
            assert_eq!(arrived_here(lengths), lengths);
        }
    }
}
