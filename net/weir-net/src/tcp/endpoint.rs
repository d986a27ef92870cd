//! A stack over a station: brings it the segments that come, and sends what it makes.

use super::smol::SmolStack;
use super::{ConnectionId, Outlet, Stack, TcpCounts};
use crate::elapsed::elapsed_ns;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Checksum, Want};
use crate::outgoing::{Offload, Outgoing};
use crate::report::{ReportedService, ServiceReport};
use crate::spans;
use crate::station::{Sender, Station, StationMessage};
use crate::wire::ipv4::{Datagram, MOST_BYTES, protocol};
use rustix::fd::BorrowedFd;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::{Duration, Instant};

/// Most messages taken before the stack gets its turn.
const MOST_AT_ONCE: usize = 256;

/// TCP in a process that attached to the switch.
#[derive(Debug)]
pub struct TcpEndpoint {
    station: Station,
    stack: SmolStack,
    dynamic_port: u16,
    /// Where a connection was tried to that ICMP says cannot be reached.
    unreachable: Option<SocketAddrV4>,
    begun: Instant,
    /// Where a datagram is made before it goes to the station's ring.
    scratch: Box<[u8]>,
}

impl TcpEndpoint {
    /// Attaches to the switch for these ports, and listens on each of them.
    ///
    /// # Errors
    /// Those of [`Station::attach`]; [`ErrorKind::Invalid`]: port 0, or more than 64 ports.
    pub fn listen(switch: &Path, directory: &Path, ports: &[u16]) -> Result<TcpEndpoint> {
        if ports.contains(&0) || ports.is_empty() || ports.len() > crate::message::MOST_WANTS - 1 {
            let why = "an endpoint has 1 to 63 ports, and none is 0";
            return Err(Error::new(ErrorKind::Invalid, "take", "these ports", why));
        }
        let want = |port| Want { protocol: protocol::TCP, port };
        let mut wants: Vec<Want> = ports.iter().map(|port| want(Some(*port))).collect();
        // Whoever has the rest of TCP resets what is for ports where nobody listens.
        wants.push(want(None));
        let station = match Station::attach(switch, directory, &wants) {
            Err(error) if error.kind() == ErrorKind::Refused => {
                wants.pop();
                Station::attach(switch, directory, &wants)?
            }
            station => station?,
        };
        let mut endpoint = TcpEndpoint::over(station, 0);
        ports.iter().for_each(|port| endpoint.stack.listen(*port));
        endpoint.poll()?;
        Ok(endpoint)
    }

    /// Attaches to the switch for a dynamic port, to connect from.
    pub fn dynamic(switch: &Path, directory: &Path) -> Result<TcpEndpoint> {
        let (station, ports) = Station::attach_ports(switch, directory, protocol::TCP, &[], 1)?;
        Ok(TcpEndpoint::over(station, ports[0]))
    }

    fn over(station: Station, dynamic_port: u16) -> TcpEndpoint {
        let at = station.attached();
        // std seeds its hashes with random bytes of the kernel.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        let stack = SmolStack::new(&at, seed);
        let (unreachable, begun) = (None, Instant::now());
        let scratch = vec![0; MOST_BYTES].into();
        TcpEndpoint { station, stack, dynamic_port, unreachable, begun, scratch }
    }

    /// Returns the address of this host.
    pub fn address(&self) -> Ipv4Addr {
        self.station.attached().address
    }

    /// Returns the address of the kernel on the other side of the device.
    pub fn peer(&self) -> Ipv4Addr {
        self.station.attached().peer
    }

    /// Returns the time that the stack is told.
    pub fn now_ns(&self) -> u64 {
        elapsed_ns(self.begun)
    }

    /// Returns the stack.
    pub fn stack(&mut self) -> &mut impl Stack {
        &mut self.stack
    }

    /// Returns what was counted.
    pub fn counts(&self) -> TcpCounts {
        self.stack.counts()
    }

    /// Tells the switch figures of this process's work, as [`Station::report`].
    pub fn report(&mut self, running: usize) -> Result<()> {
        let counts = self.stack.counts();
        let figures = [
            counts.accepted,
            running as u64,
            counts.segments_in,
            counts.segments_out,
            counts.segments_again,
            counts.bad_segments,
            counts.half_open_dropped,
            counts.bytes_in,
            counts.bytes_out,
            counts.disbelieved,
            counts.waits.this_side_ns,
            counts.waits.network_ns,
            counts.waits.other_side_ns,
            counts.waits.stalls.this_side_stalls,
            counts.waits.stalls.network_stalls,
            counts.waits.stalls.other_side_stalls,
        ];
        // Those that wait come first.
        let (mut connections, mut others) = (Vec::new(), Vec::new());
        self.stack.each_connection(&mut |connection| match connection.waits_for {
            Some(_) => connections.push(*connection),
            None => others.push(*connection),
        });
        connections.append(&mut others);
        let report = ServiceReport::new(ReportedService::Tcp, &figures);
        self.station.report(&report.with_connections(&connections))
    }

    /// Opens a connection from the dynamic port.
    pub fn connect(&mut self, to: SocketAddrV4) -> Option<ConnectionId> {
        let now_ns = self.now_ns();
        self.stack.connect(self.dynamic_port, to, now_ns)
    }

    /// Returns where ICMP has said that nobody can be reached, once.
    pub fn take_unreachable(&mut self) -> Option<SocketAddrV4> {
        self.unreachable.take()
    }

    /// Returns a descriptor for poll, as [`Station::poll_descriptor`].
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.station.poll_descriptor()
    }

    /// Returns how long nothing is due, at most `most`.
    pub fn idle_time(&mut self, most: Duration) -> Duration {
        let now_ns = self.now_ns();
        self.stack.delay_ns(now_ns).map_or(most, |ns| Duration::from_nanos(ns).min(most))
    }

    /// Takes what has come, waiting up to this long for something, and sends what is due.
    pub fn run_for(&mut self, time: Duration) -> Result<()> {
        let TcpEndpoint { station, stack, unreachable, begun, scratch, .. } = self;
        let (offloads, begun) = (station.attached().offloads, *begun);
        let (mut time, mut taken) = (time, 0);
        loop {
            let came = station.receive_for(time, |sender, arrival| match arrival {
                StationMessage::Packet { bytes, checksum } => {
                    let _span = spans::TCP.enter();
                    let mut outlet = StationOutlet { sender, scratch, offloads };
                    let is_checked = checksum == Checksum::LeftOut;
                    stack.take(bytes, is_checked, elapsed_ns(begun), &mut outlet);
                }
                StationMessage::Notice(notice) if notice.protocol == protocol::TCP => {
                    *unreachable = Some(SocketAddrV4::new(notice.remote, notice.remote_port));
                }
                StationMessage::Notice(_) | StationMessage::Undeliverable { .. } => {}
            })?;
            taken += came;
            time = Duration::ZERO;
            if came == 0 || taken >= MOST_AT_ONCE {
                break;
            }
        }
        self.poll()
    }

    /// Sends what is due.
    pub fn poll(&mut self) -> Result<()> {
        let now_ns = self.now_ns();
        let TcpEndpoint { station, stack, scratch, .. } = self;
        let offloads = station.attached().offloads;
        let _span = spans::TCP.enter();
        station.send_with(|sender| {
            stack.poll(now_ns, &mut StationOutlet { sender, scratch, offloads });
        })
    }
}

/// The way out of a stack: each datagram is written to `scratch`, and from there to the station's
/// ring.
struct StationOutlet<'a, 'b> {
    sender: &'a mut Sender<'b>,
    scratch: &'a mut [u8],
    offloads: bool,
}

impl Outlet for StationOutlet<'_, '_> {
    fn send(&mut self, bytes: usize, segment_bytes: Option<u16>, fill: &mut dyn FnMut(&mut [u8])) {
        let Some(packet) = self.scratch.get_mut(..bytes) else { return };
        fill(packet);
        let Ok(datagram) = Datagram::check(packet) else { return };
        let header = datagram.header();
        let offload = match (self.offloads, segment_bytes) {
            (false, _) => Offload::None,
            (true, None) => Offload::Checksum,
            (true, Some(segment_bytes)) => Offload::Segments(segment_bytes),
        };
        let to = Outgoing {
            tos: header.tos,
            ttl: header.ttl,
            offload,
            ..Outgoing::new(header.destination, protocol::TCP)
        };
        self.sender.send(&to, datagram.payload());
    }
}
