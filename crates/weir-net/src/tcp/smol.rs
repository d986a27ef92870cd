//! TCP by the crate smoltcp.
//!
//! smoltcp has a socket for each connection, listening ones included. This module keeps some sockets
//! listening on each port while there is room, and gives up connections that are never completed, so
//! that a flood of SYNs does not keep out those who mean it.

use super::device::QueueDevice;
use super::{Accepted, ConnectionId, Phase, Stack, TcpCounts};
use crate::wire::checksum::RunningSum;
use crate::wire::ipv4::{Datagram, protocol};
use smoltcp::iface::{
    Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet,
};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes of a connection's buffer, for each direction.
pub const BUFFER_BYTES: usize = 128 << 10;
/// Sockets that listen on a port while there is room.
const LISTENING: usize = 8;
/// Most sockets: connections, those half open and those that wait out their end included.
const MOST_SOCKETS: usize = 2048;
/// How long a connection may be half open.
const HALF_OPEN_NS: u64 = 10_000_000_000;
/// How long data may stay unacknowledged.
const SILENT: Duration = Duration::from_secs(60);
/// Flags of a segment.
const SYN: u8 = 2;
const ACK: u8 = 16;
/// Least bytes of a header of TCP.
const LEAST_HEADER_BYTES: usize = 20;

/// A socket of smoltcp, and what it is for.
#[derive(Debug)]
struct Known {
    handle: SocketHandle,
    /// The port of its listener, until it is accepted.
    listens: Option<u16>,
    /// When it left the state of listening.
    begun_ns: u64,
    /// Nobody asks for it any more.
    forgotten: bool,
}

/// TCP by smoltcp.
pub struct SmolStack {
    address: Ipv4Addr,
    interface: Interface,
    device: QueueDevice,
    sockets: SocketSet<'static>,
    known: BTreeMap<u64, Known>,
    next_id: u64,
    ports: Vec<u16>,
    accepted: VecDeque<Accepted>,
    /// The end of what was sent so far, by our port and the other side.
    sent: HashMap<(u16, SocketAddrV4), u32>,
    counts: TcpCounts,
}

impl std::fmt::Debug for SmolStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sockets = self.known.len();
        f.debug_struct("SmolStack").field("sockets", &sockets).finish_non_exhaustive()
    }
}

impl SmolStack {
    /// A stack for a host; `seed` makes its sequence numbers, and must not be foreseeable.
    pub fn new(address: Ipv4Addr, prefix_bits: u8, gateway: Ipv4Addr, mtu: u16, seed: u64) -> Self {
        let mut device = QueueDevice::new(mtu);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // There is room for one.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(address), prefix_bits.min(32)));
        });
        let _ = interface.routes_mut().add_default_ipv4_route(gateway);
        SmolStack {
            address,
            interface,
            device,
            sockets: SocketSet::new(Vec::new()),
            known: BTreeMap::new(),
            next_id: 1,
            ports: Vec::new(),
            accepted: VecDeque::new(),
            sent: HashMap::new(),
            counts: TcpCounts::default(),
        }
    }

    fn socket(&self, id: ConnectionId) -> Option<&Socket<'static>> {
        let known = self.known.get(&id.0)?;
        Some(self.sockets.get::<Socket<'_>>(known.handle))
    }

    fn socket_mut(&mut self, id: ConnectionId) -> Option<&mut Socket<'static>> {
        let known = self.known.get(&id.0)?;
        Some(self.sockets.get_mut::<Socket<'_>>(known.handle))
    }

    fn add(&mut self, socket: Socket<'static>, listens: Option<u16>, begun_ns: u64) -> u64 {
        let handle = self.sockets.add(socket);
        let id = self.next_id;
        self.next_id += 1;
        self.known.insert(id, Known { handle, listens, begun_ns, forgotten: false });
        id
    }

    fn remove(&mut self, id: u64) {
        if let Some(known) = self.known.remove(&id) {
            let socket = self.sockets.get::<Socket<'_>>(known.handle);
            let ends = socket.local_endpoint().zip(socket.remote_endpoint());
            if let Some(((local, remote), IpAddress::Ipv4(address))) =
                ends.map(|(local, remote)| ((local.port, remote.port), remote.addr))
            {
                self.sent.remove(&(local, SocketAddrV4::new(address, remote)));
            }
            self.sockets.remove(known.handle);
        }
    }

    /// Keeps sockets listening, hands over those that are connected, and removes those that are over.
    fn tend(&mut self, now_ns: u64) {
        let mut listening: HashMap<u16, usize> = HashMap::new();
        let (mut over, mut half_open) = (Vec::new(), Vec::new());
        for (id, known) in &mut self.known {
            let socket = self.sockets.get_mut::<Socket<'_>>(known.handle);
            let Some(port) = known.listens else {
                let is_over = matches!(socket.state(), State::Closed | State::TimeWait);
                if known.forgotten && is_over {
                    over.push(*id);
                }
                continue;
            };
            match socket.state() {
                State::Listen => {
                    known.begun_ns = now_ns;
                    *listening.entry(port).or_default() += 1;
                }
                State::SynReceived if now_ns.saturating_sub(known.begun_ns) < HALF_OPEN_NS => {
                    half_open.push(*id);
                }
                State::SynReceived => {
                    socket.abort();
                    self.counts.half_open_dropped += 1;
                    over.push(*id);
                }
                State::Closed => over.push(*id),
                _ => {
                    let remote = socket.remote_endpoint().and_then(address_of);
                    let Some(remote) = remote else { continue };
                    known.listens = None;
                    self.counts.accepted += 1;
                    let id = ConnectionId(*id);
                    self.accepted.push_back(Accepted { id, local_port: port, remote });
                }
            }
        }
        over.into_iter().for_each(|id| self.remove(id));
        for port in self.ports.clone() {
            let missing = LISTENING.saturating_sub(listening.get(&port).copied().unwrap_or(0));
            for _ in 0..missing {
                if self.known.len() >= MOST_SOCKETS {
                    // The ids grow: the first is the oldest.
                    let Some(oldest) = half_open.first().copied() else { break };
                    half_open.remove(0);
                    self.counts.half_open_dropped += 1;
                    self.remove(oldest);
                }
                let mut socket = new_socket();
                if socket.listen(port).is_ok() {
                    self.add(socket, Some(port), now_ns);
                }
            }
        }
    }

    /// Handles packets that came, but no more requests for connections than sockets listen: a
    /// request that finds none is reset.
    fn ingest(&mut self, now_ns: u64) {
        let mut requests = 0;
        while let Some(packet) = self.device.next_incoming() {
            let flags = Datagram::check(packet).ok().and_then(|it| it.payload().get(13).copied());
            requests += usize::from(flags.is_some_and(|flags| flags & (SYN | ACK) == SYN));
            let (now, sockets) = (instant(now_ns), &mut self.sockets);
            if requests > LISTENING
                || self.interface.poll_ingress_single(now, &mut self.device, sockets)
                    == PollIngressSingleResult::None
            {
                break;
            }
        }
    }

    /// Counts a segment that is sent.
    fn count_out(&mut self, packet: &[u8]) {
        let Ok(datagram) = Datagram::check(packet) else { return };
        let Some(segment) = Segment::of(datagram.payload()) else { return };
        self.counts.segments_out += 1;
        self.counts.bytes_out += u64::from(segment.data_bytes);
        if segment.data_bytes == 0 {
            return;
        }
        let to = SocketAddrV4::new(datagram.header().destination, segment.destination);
        let end = segment.sequence.wrapping_add(segment.data_bytes);
        let known = self.sent.entry((segment.source, to)).or_insert(segment.sequence);
        if segment.sequence.wrapping_sub(*known).cast_signed() < 0 {
            self.counts.segments_again += 1;
        }
        if end.wrapping_sub(*known).cast_signed() > 0 {
            *known = end;
        }
    }
}

fn new_socket() -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; BUFFER_BYTES]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_timeout(Some(SILENT));
    // Answers go out whole: each is put into the buffer at once.
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket.set_congestion_control(CongestionControl::Cubic);
    socket
}

fn address_of(endpoint: IpEndpoint) -> Option<SocketAddrV4> {
    #[allow(irrefutable_let_patterns, reason = "smoltcp may be built with version 6 by others")]
    let IpAddress::Ipv4(address) = endpoint.addr else { return None };
    Some(SocketAddrV4::new(address, endpoint.port))
}

fn instant(now_ns: u64) -> Instant {
    Instant::from_micros(i64::try_from(now_ns / 1000).unwrap_or(i64::MAX))
}

/// What is counted of a segment.
struct Segment {
    source: u16,
    destination: u16,
    sequence: u32,
    data_bytes: u32,
}

impl Segment {
    fn of(payload: &[u8]) -> Option<Segment> {
        let header = payload.first_chunk::<LEAST_HEADER_BYTES>()?;
        let header_bytes = usize::from(header[12] >> 4) * 4;
        let data_bytes = payload.len().checked_sub(header_bytes.max(LEAST_HEADER_BYTES))?;
        Some(Segment {
            source: u16::from_be_bytes([header[0], header[1]]),
            destination: u16::from_be_bytes([header[2], header[3]]),
            sequence: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            data_bytes: data_bytes as u32,
        })
    }
}

/// Whether the checksum of a segment is right.
fn is_sound(datagram: &Datagram<'_>) -> bool {
    let (header, payload) = (datagram.header(), datagram.payload());
    let mut sum = RunningSum::new();
    sum.add(&header.source.octets());
    sum.add(&header.destination.octets());
    sum.add_word(u16::from(protocol::TCP));
    // Fits: a datagram has at most 65,535 bytes.
    sum.add_word(payload.len() as u16);
    sum.add(payload);
    sum.finish() == 0
}

impl Stack for SmolStack {
    fn listen(&mut self, port: u16) {
        if port != 0 && !self.ports.contains(&port) {
            self.ports.push(port);
        }
    }

    fn connect(&mut self, local_port: u16, to: SocketAddrV4, now_ns: u64) -> Option<ConnectionId> {
        if *to.ip() == self.address || self.known.len() >= MOST_SOCKETS {
            return None;
        }
        let mut socket = new_socket();
        let remote = IpEndpoint::new(IpAddress::Ipv4(*to.ip()), to.port());
        socket.connect(self.interface.context(), remote, local_port).ok()?;
        Some(ConnectionId(self.add(socket, None, now_ns)))
    }

    fn take(&mut self, datagram: &[u8], is_checked: bool) {
        let Ok(checked) = Datagram::check(datagram) else { return };
        let segment = Segment::of(checked.payload());
        match segment.filter(|_| is_checked || is_sound(&checked)) {
            Some(segment) => {
                self.counts.segments_in += 1;
                self.counts.bytes_in += u64::from(segment.data_bytes);
                self.device.put(checked.bytes());
            }
            None => self.counts.bad_segments += 1,
        }
    }

    fn poll(&mut self, now_ns: u64, send: &mut dyn FnMut(&[u8])) {
        loop {
            self.tend(now_ns);
            self.ingest(now_ns);
            let (now, sockets) = (instant(now_ns), &mut self.sockets);
            while self.interface.poll_egress(now, &mut self.device, sockets) != PollResult::None {}
            let mut packets = std::mem::replace(&mut self.device, QueueDevice::new(0));
            let sent = packets.take_each(|packet| {
                self.count_out(packet);
                send(packet);
            });
            self.device = packets;
            if sent == 0 && !self.device.has_incoming() {
                break;
            }
        }
        self.tend(now_ns);
    }

    fn delay_ns(&mut self, now_ns: u64) -> Option<u64> {
        let delay = self.interface.poll_delay(instant(now_ns), &self.sockets);
        delay.map(|delay| delay.total_micros().saturating_mul(1000))
    }

    fn accept(&mut self) -> Option<Accepted> {
        self.accepted.pop_front()
    }

    fn phase(&self, id: ConnectionId) -> Phase {
        let Some(socket) = self.socket(id) else { return Phase::Closed };
        match socket.state() {
            State::Listen | State::SynSent | State::SynReceived => Phase::Opening,
            State::TimeWait if !socket.can_recv() => Phase::Finished,
            State::Closed if !socket.can_recv() => Phase::Closed,
            _ => {
                let receives = socket.may_recv() || socket.can_recv();
                Phase::Open { receives, sends: socket.may_send() }
            }
        }
    }

    fn receive(&mut self, id: ConnectionId, see: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        let Some(socket) = self.socket_mut(id) else { return 0 };
        let seen = socket.recv(|bytes| {
            let taken = if bytes.is_empty() { 0 } else { see(bytes).min(bytes.len()) };
            (taken, taken)
        });
        seen.unwrap_or(0)
    }

    fn send(&mut self, id: ConnectionId, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> usize {
        let Some(socket) = self.socket_mut(id) else { return 0 };
        let filled = socket.send(|room| {
            let most = room.len();
            let written = if most == 0 { 0 } else { fill(room).min(most) };
            (written, written)
        });
        filled.unwrap_or(0)
    }

    fn room_bytes(&self, id: ConnectionId) -> usize {
        let room = |socket: &Socket<'_>| socket.send_capacity() - socket.send_queue();
        self.socket(id).filter(|socket| socket.may_send()).map_or(0, room)
    }

    fn close(&mut self, id: ConnectionId) {
        if let Some(socket) = self.socket_mut(id) {
            socket.close();
        }
    }

    fn abort(&mut self, id: ConnectionId) {
        if let Some(socket) = self.socket_mut(id) {
            socket.abort();
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        if let Some(known) = self.known.get_mut(&id.0) {
            known.forgotten = true;
        }
    }

    fn counts(&self) -> TcpCounts {
        self.counts
    }
}
