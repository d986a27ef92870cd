//! TCP by the crate smoltcp.
//!
//! smoltcp has a socket for each connection, listening ones included. This module keeps some sockets
//! listening on each port while there is room, and gives up connections that are never completed, so
//! that a flood of SYNs does not keep out those who mean it.

use super::device::{self, DeviceKind, Outlet, PacketDevice};
use super::flows::{Ends, Flow, Flows, Verdict};
use super::segment::{ACK, RST, SYN, Segment, is_before};
use super::silence::SilenceClock;
use super::stalls::{Held, StallClock, waits_for};
use super::{Accepted, ConnectionFigures, ConnectionId, Phase, Stack, TcpCounts};
use crate::log::FlowChange;
use crate::message::Attached;
use crate::wire::ipv4::{Datagram, protocol, pseudo_sum};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes of a connection's buffer, for each direction.
pub const BUFFER_BYTES: usize = 256 << 10;
/// Sockets that listen on a port while there is room.
const LISTENING: usize = 8;
/// Most sockets: connections, those half open and those that wait out their end included.
const MOST_SOCKETS: usize = 2048;
/// How long a connection may be half open.
const HALF_OPEN_NS: u64 = 10_000_000_000;

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
    /// Its ends, once it is a connection or is to be one.
    ends: Option<Ends>,
    stalls: StallClock,
    silence: SilenceClock,
}

/// TCP by smoltcp.
pub struct SmolStack {
    address: Ipv4Addr,
    interface: Interface,
    kind: DeviceKind,
    sockets: SocketSet<'static>,
    known: BTreeMap<u64, Known>,
    next_id: u64,
    ports: Vec<u16>,
    accepted: VecDeque<Accepted>,
    flows: Flows,
    /// Requests for connections since sockets were last set to listen.
    requests: usize,
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
    pub fn new(at: &Attached, seed: u64) -> Self {
        let Attached { address, prefix_bits, peer: gateway, mtu, offloads, .. } = *at;
        let kind = DeviceKind { mtu, offloads };
        let mut flows = Flows::default();
        let mut device =
            PacketDevice { kind, incoming: None, outlet: &mut Nowhere, flows: &mut flows };
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
            kind,
            sockets: SocketSet::new(Vec::new()),
            known: BTreeMap::new(),
            next_id: 1,
            ports: Vec::new(),
            accepted: VecDeque::new(),
            flows,
            requests: 0,
            counts: TcpCounts::default(),
        }
    }

    /// Returns how many sockets, those that listen included, and connections are kept.
    pub fn kept(&self) -> (usize, usize) {
        (self.known.len(), self.flows.known())
    }

    fn socket(&self, id: ConnectionId) -> Option<&Socket<'static>> {
        let known = self.known.get(&id.0)?;
        Some(self.sockets.get::<Socket<'_>>(known.handle))
    }

    fn socket_mut(&mut self, id: ConnectionId) -> Option<&mut Socket<'static>> {
        let known = self.known.get(&id.0)?;
        Some(self.sockets.get_mut::<Socket<'_>>(known.handle))
    }

    fn add(
        &mut self,
        socket: Socket<'static>,
        listens: Option<u16>,
        ends: Option<Ends>,
        begun_ns: u64,
    ) -> u64 {
        let handle = self.sockets.add(socket);
        let id = self.next_id;
        self.next_id += 1;
        let (stalls, silence) = (StallClock::default(), SilenceClock::new(begun_ns));
        let forgotten = false;
        self.known
            .insert(id, Known { handle, listens, begun_ns, forgotten, ends, stalls, silence });
        id
    }

    fn remove(&mut self, id: u64) {
        if let Some(known) = self.known.remove(&id) {
            let socket = self.sockets.get::<Socket<'_>>(known.handle);
            // A connection that is over no longer knows its ends; one that is half open is not
            // known by them yet.
            let ends = known.ends.or_else(|| ends_of(socket));
            self.sockets.remove(known.handle);
            if let Some(ends) = ends {
                self.forget_flow(ends);
            }
        }
    }

    /// Forgets what the segments between these ends said, unless a socket has them.
    fn forget_flow(&mut self, ends: Ends) {
        let mut sockets = self.known.values().map(|known| self.sockets.get(known.handle));
        if !sockets.any(|socket| ends_of(socket) == Some(ends)) {
            self.flows.forget(ends);
        }
    }

    /// Keeps sockets listening, hands over those that are connected, and removes those that are over.
    fn tend(&mut self, now_ns: u64) {
        let mut listening: HashMap<u16, usize> = HashMap::new();
        let (mut over, mut half_open) = (Vec::new(), Vec::new());
        for (id, known) in &mut self.known {
            let socket = self.sockets.get_mut::<Socket<'_>>(known.handle);
            let Some(port) = known.listens else {
                // A socket that was aborted knows the other side until its reset is sent.
                let is_over = match socket.state() {
                    State::TimeWait => true,
                    State::Closed => socket.remote_endpoint().is_none(),
                    _ => false,
                };
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
                    known.ends = Some((port, remote));
                    let block_bytes = self.kind.segment_bytes();
                    let began = FlowChange::Began { block_bytes, window: 0 };
                    self.flows.changed((port, remote), began);
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
                    self.add(socket, Some(port), None, now_ns);
                }
            }
        }
    }

    /// Removes a connection that waits out its end where a request comes that begins a new one in its
    /// place: its number is beyond the old one's (RFC 9293, 3.6.1).
    fn make_way(&mut self, ends: Ends, request: &Segment) {
        let expected = self.flows.get(ends).and_then(Flow::expected);
        if !expected.is_some_and(|expected| is_before(expected, request.sequence)) {
            return;
        }
        let old = self.known.iter().find(|(_, known)| known.ends == Some(ends) && known.forgotten);
        if let Some((id, known)) = old
            && self.sockets.get::<Socket<'_>>(known.handle).state() == State::TimeWait
        {
            let id = *id;
            self.remove(id);
        }
    }

    /// Sends what is due.
    fn send_due(&mut self, now_ns: u64, outlet: &mut dyn Outlet) {
        let now = instant(now_ns);
        self.with_device(None, outlet, |interface, device, sockets| {
            while interface.poll_egress(now, device, sockets) != PollResult::None {}
        });
    }

    /// Notes whom each connection waits for, and gives up those that wait for nothing any more.
    fn look(&mut self, now_ns: u64) {
        let segment_bytes = self.kind.segment_bytes().into();
        for known in self.known.values_mut() {
            let Some(ends) = known.ends else { continue };
            let socket = self.sockets.get_mut::<Socket<'_>>(known.handle);
            let heard_ns = || self.flows.get(ends).map_or(0, Flow::heard_ns);
            if known.silence.look(socket, known.forgotten, heard_ns, now_ns) {
                socket.abort();
            }
            let (to_send_bytes, unread_bytes) = (socket.send_queue(), socket.recv_queue());
            if to_send_bytes + unread_bytes == 0 && known.stalls.side().is_none() {
                continue;
            }
            // Others may have the ends of one that is over.
            let flow = self.flows.get(ends).filter(|_| ends_of(socket) == Some(ends));
            let state = flow.map(Flow::state).unwrap_or_default();
            let held = Held { to_send_bytes, unread_bytes, segment_bytes };
            let side = flow.and_then(|_| waits_for(&state, held));
            let mark = u64::from(state.acknowledged) << 32 | unread_bytes as u64;
            let stalled = known.stalls.look(side, mark, now_ns, &mut self.counts.waits);
            if let Some(waits_for) = stalled {
                self.flows.changed(ends, FlowChange::Stalled { waits_for });
            }
        }
    }

    /// Calls smoltcp's interface with a packet that came, or none.
    fn with_device<R>(
        &mut self,
        incoming: Option<&[u8]>,
        outlet: &mut dyn Outlet,
        call: impl FnOnce(&mut Interface, &mut PacketDevice<'_>, &mut SocketSet<'static>) -> R,
    ) -> R {
        let SmolStack { interface, sockets, flows, kind, .. } = self;
        let mut device = PacketDevice { kind: *kind, incoming, outlet, flows };
        call(interface, &mut device, sockets)
    }
}

/// An outlet for a device that sends nothing.
struct Nowhere;

impl Outlet for Nowhere {
    fn send(&mut self, _: usize, _: Option<u16>, _: &mut dyn FnMut(&mut [u8])) {}
}

fn new_socket() -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; BUFFER_BYTES]);
    let mut socket = Socket::new(buffer(), buffer());
    // Answers go out whole: each is put into the buffer at once.
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket.set_congestion_control(CongestionControl::Cubic);
    socket
}

fn ends_of(socket: &Socket<'_>) -> Option<Ends> {
    let local = socket.local_endpoint()?;
    Some((local.port, address_of(socket.remote_endpoint()?)?))
}

fn address_of(endpoint: IpEndpoint) -> Option<SocketAddrV4> {
    #[allow(irrefutable_let_patterns, reason = "smoltcp may be built with version 6 by others")]
    let IpAddress::Ipv4(address) = endpoint.addr else { return None };
    Some(SocketAddrV4::new(address, endpoint.port))
}

fn instant(now_ns: u64) -> Instant {
    Instant::from_micros(i64::try_from(now_ns / 1000).unwrap_or(i64::MAX))
}

/// Whether the checksum of a segment is right.
fn is_sound(datagram: &Datagram<'_>) -> bool {
    let (header, payload) = (datagram.header(), datagram.payload());
    let mut sum = pseudo_sum(protocol::TCP, header.source, header.destination, payload.len());
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
        Some(ConnectionId(self.add(socket, None, Some((local_port, to)), now_ns)))
    }

    fn take(&mut self, datagram: &[u8], is_checked: bool, now_ns: u64, outlet: &mut dyn Outlet) {
        let Ok(checked) = Datagram::check(datagram) else { return };
        let segment = Segment::of(checked.payload());
        let Some(segment) = segment.filter(|_| is_checked || is_sound(&checked)) else {
            self.counts.bad_segments += 1;
            return;
        };
        self.counts.segments_in += 1;
        self.counts.bytes_in += u64::from(segment.data_bytes);
        let header = checked.header();
        let ends = (segment.destination, SocketAddrV4::new(header.source, segment.source));
        let is_request = segment.flags & (SYN | ACK) == SYN;
        if is_request {
            self.make_way(ends, &segment);
        } else if self.flows.doubts(ends, &segment) {
            // What came before it may not be acknowledged yet.
            self.send_due(now_ns, outlet);
        }
        match self.flows.take(ends, &segment, checked.payload(), now_ns) {
            Verdict::Take => {}
            verdict => {
                self.counts.disbelieved += 1;
                if let Verdict::Challenge(challenge) = verdict {
                    self.flows.segments += 1;
                    device::acknowledge(self.address, ends, challenge, self.kind, outlet);
                }
                return;
            }
        }
        if is_request {
            // A request that finds no socket listening is reset.
            self.requests += 1;
            if self.requests > LISTENING {
                self.tend(now_ns);
                self.requests = 1;
            }
        }
        let now = instant(now_ns);
        self.with_device(Some(checked.bytes()), outlet, |interface, device, sockets| {
            interface.poll_ingress_single(now, device, sockets);
        });
        if segment.has(RST) && self.flows.get(ends).is_some() {
            // The socket of a connection that was half open listens again.
            self.forget_flow(ends);
        }
    }

    fn poll(&mut self, now_ns: u64, outlet: &mut dyn Outlet) {
        self.tend(now_ns);
        self.send_due(now_ns, outlet);
        self.tend(now_ns);
        self.look(now_ns);
        self.flows.forget_asked();
        self.requests = 0;
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

    fn is_over(&self, id: ConnectionId) -> bool {
        self.socket(id).is_none_or(|socket| socket.state() == State::Closed)
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
            // The buffer is a ring, which shows its bytes in two pieces at most.
            while socket.recv(|bytes| (bytes.len(), bytes.len())).is_ok_and(|bytes| bytes > 0) {}
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        if let Some(known) = self.known.get_mut(&id.0) {
            known.forgotten = true;
        }
    }

    fn counts(&self) -> TcpCounts {
        TcpCounts {
            segments_out: self.flows.segments,
            segments_again: self.flows.again,
            bytes_out: self.flows.bytes,
            ..self.counts
        }
    }

    fn next_change(&mut self) -> Option<(u16, SocketAddrV4, FlowChange)> {
        self.flows.next_change().map(|((port, remote), change)| (port, remote, change))
    }

    fn each_connection(&self, see: &mut dyn FnMut(&ConnectionFigures)) {
        for known in self.known.values() {
            let socket = self.sockets.get::<Socket<'_>>(known.handle);
            // Others may have the ends of one that is over.
            let Some(ends) = known.ends.filter(|_| ends_of(socket) == known.ends) else { continue };
            let Some(flow) = self.flows.get(ends) else { continue };
            let (local_port, remote) = ends;
            let state = flow.state();
            see(&ConnectionFigures {
                local_port,
                remote,
                segments_again: state.again,
                flight_bytes: state.flight_bytes,
                own_window_bytes: state.own_window_bytes,
                other_window_bytes: state.other_window_bytes,
                waits_for: known.stalls.side(),
            });
        }
    }
}
