//! TCP by the crate smoltcp.
//!
//! smoltcp has a socket for each connection. None of them listens: a connection gets its socket
//! when its request was answered and that is acknowledged (`half_open`).

use super::device::{self, DeviceKind, Nowhere, Outlet, PacketDevice, instant, interface};
use super::flows::{Ends, Flow, Flows, Verdict};
pub use super::half_open::BUFFER_BYTES;
use super::half_open::{self, HalfOpen, new_socket};
use super::segment::{ACK, RST, SYN, Segment, is_before};
use super::silence::SilenceClock;
use super::stalls::{Held, StallClock, waits_for};
use super::{Accepted, ConnectionFigures, ConnectionId, Phase, Stack, TcpCounts};
use crate::log::FlowChange;
use crate::message::Attached;
use crate::net::Net;
use crate::wire::ipv4::{Datagram, protocol, pseudo_sum};
use smoltcp::iface::{Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, State};
use smoltcp::wire::{IpAddress, IpEndpoint};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

/// Most sockets: connections, and those that wait out their end.
const MOST_SOCKETS: usize = 2048;

/// A socket of smoltcp, and what it is for.
#[derive(Debug)]
struct Known {
    handle: SocketHandle,
    /// Nobody asks for it any more.
    forgotten: bool,
    ends: Ends,
    stalls: StallClock,
    silence: SilenceClock,
}

/// TCP by smoltcp.
pub struct SmolStack {
    at: Attached,
    interface: Interface,
    kind: DeviceKind,
    sockets: SocketSet<'static>,
    known: BTreeMap<u64, Known>,
    next_id: u64,
    ports: Vec<u16>,
    accepted: VecDeque<Accepted>,
    flows: Flows,
    half_open: HalfOpen,
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
        let kind = DeviceKind::from(at);
        let mut flows = Flows::default();
        let mut device =
            PacketDevice { kind, incoming: None, outlet: &mut Nowhere, flows: &mut flows };
        let interface = interface(at, seed, &mut device);
        SmolStack {
            at: *at,
            interface,
            kind,
            sockets: SocketSet::new(Vec::new()),
            known: BTreeMap::new(),
            next_id: 1,
            ports: Vec::new(),
            accepted: VecDeque::new(),
            flows,
            half_open: HalfOpen::new(at, seed),
            counts: TcpCounts::default(),
        }
    }

    /// Returns how many sockets are kept, and how many connections, those half open included.
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

    fn add(&mut self, socket: Socket<'static>, ends: Ends, now_ns: u64) -> u64 {
        let handle = self.sockets.add(socket);
        let id = self.next_id;
        self.next_id += 1;
        let (stalls, silence) = (StallClock::default(), SilenceClock::new(now_ns));
        self.known.insert(id, Known { handle, forgotten: false, ends, stalls, silence });
        id
    }

    fn remove(&mut self, id: u64) {
        if let Some(known) = self.known.remove(&id) {
            self.sockets.remove(known.handle);
            self.forget_flow(known.ends);
        }
    }

    /// Forgets what the segments between these ends said, unless a later connection has them.
    fn forget_flow(&mut self, ends: Ends) {
        let mut sockets = self.known.values().map(|known| self.sockets.get(known.handle));
        if !self.half_open.has(ends) && !sockets.any(|socket| ends_of(socket) == Some(ends)) {
            self.flows.forget(ends);
        }
    }

    /// Removes sockets that are over, and that nobody asks for any more.
    fn remove_closed(&mut self) {
        let mut over = Vec::new();
        for (id, known) in self.known.iter().filter(|(_, known)| known.forgotten) {
            let socket = self.sockets.get::<Socket<'_>>(known.handle);
            // A socket that was aborted knows the other side until its reset is sent.
            let is_over = match socket.state() {
                State::TimeWait => true,
                State::Closed => socket.remote_endpoint().is_none(),
                _ => false,
            };
            if is_over {
                over.push(*id);
            }
        }
        over.into_iter().for_each(|id| self.remove(id));
    }

    /// Judges a segment of a connection that is half open. The stack gets it, perhaps after a
    /// socket was made, or it is dropped.
    fn judge(&mut self, ends: Ends, segment: &Segment, now_ns: u64) -> Option<Judged> {
        let flow = self.flows.get(ends)?;
        let is_full = self.known.len() >= MOST_SOCKETS;
        if segment.has(RST) || (flow.is_synchronized() && is_full) {
            self.counts.half_open_dropped += u64::from(!segment.has(RST));
            self.half_open.remove(ends);
            self.flows.forget(ends);
            // No socket takes it: unless it is a reset, it is answered with one.
            return Some(Judged::Take);
        }
        if !segment.has(ACK) || segment.has(SYN) {
            return Some(Judged::Drop);
        }
        if !flow.is_synchronized() {
            // One that acknowledges something else is answered with a reset.
            let is_late = flow.acknowledges_all(segment);
            return Some(if is_late { Judged::Drop } else { Judged::Take });
        }
        let socket = self.half_open.socket(ends, &mut self.flows)?;
        Some(Judged::Complete(self.add(socket, ends, now_ns)))
    }

    /// Hands over a connection whose socket has taken what completes it.
    fn complete(&mut self, id: u64, ends: Ends) {
        let Some(socket) = self.socket(ConnectionId(id)) else { return };
        if socket.state() == State::SynReceived {
            // It was not taken, and the request is still there.
            self.remove(id);
            return;
        }
        self.half_open.remove(ends);
        let (local_port, remote) = ends;
        let block_bytes = self.kind.segment_bytes();
        self.flows.changed(ends, FlowChange::Began { block_bytes, window: 0 });
        self.counts.accepted += 1;
        self.accepted.push_back(Accepted { id: ConnectionId(id), local_port, remote });
    }

    /// Removes a connection that waits out its end where a request comes that begins a new one in its
    /// place: its number is beyond the old one's (RFC 9293, 3.6.1).
    fn make_way(&mut self, ends: Ends, request: &Segment) {
        let expected = self.flows.get(ends).and_then(Flow::expected);
        if !expected.is_some_and(|expected| is_before(expected, request.sequence)) {
            return;
        }
        let old = self.known.iter().find(|(_, known)| known.ends == ends && known.forgotten);
        if let Some((id, known)) = old
            && self.sockets.get::<Socket<'_>>(known.handle).state() == State::TimeWait
        {
            let id = *id;
            self.remove(id);
        }
    }

    fn send_due(&mut self, now_ns: u64, outlet: &mut dyn Outlet) {
        let now = instant(now_ns);
        self.with_device(None, outlet, |interface, device, sockets| {
            while interface.poll_egress(now, device, sockets) != PollResult::None {}
        });
    }

    /// Notes whom each connection waits for, and gives up those that wait for nothing any more.
    fn note_waits(&mut self, now_ns: u64) {
        let segment_bytes = self.kind.segment_bytes().into();
        for known in self.known.values_mut() {
            let ends = known.ends;
            let socket = self.sockets.get_mut::<Socket<'_>>(known.handle);
            let received_ns = || self.flows.get(ends).map_or(0, Flow::received_ns);
            if known.silence.is_over(socket, known.forgotten, received_ns, now_ns) {
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
            let stalled = known.stalls.note_wait(side, mark, now_ns, &mut self.counts.waits);
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

/// What becomes of a segment of a connection that is half open.
enum Judged {
    Drop,
    Take,
    /// It is taken, and completes the connection.
    Complete(u64),
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
        let Attached { address, prefix_bits, .. } = self.at;
        let is_host = Net::new(address, prefix_bits).is_host(*to.ip()) && *to.ip() != address;
        if !is_host || self.known.len() >= MOST_SOCKETS {
            return None;
        }
        let mut socket = new_socket();
        let remote = IpEndpoint::new(IpAddress::Ipv4(*to.ip()), to.port());
        socket.connect(self.interface.context(), remote, local_port).ok()?;
        Some(ConnectionId(self.add(socket, (local_port, to), now_ns)))
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
        let makes_sense = device::makes_sense(&checked);
        if is_request && makes_sense {
            self.make_way(ends, &segment);
        } else if self.flows.doubts(ends, &segment) {
            // What came before it may not be acknowledged yet.
            self.send_due(now_ns, outlet);
        }
        let is_listened = self.ports.contains(&ends.0);
        if is_listened && self.flows.get(ends).is_none() {
            if segment.flags & (SYN | ACK | RST) == 0 {
                // It belongs to nothing (RFC 9293, 3.10.7.2).
                return;
            }
            if half_open::may_complete(&segment) && self.half_open.overflows(now_ns) {
                let SmolStack { half_open, flows, .. } = self;
                half_open.remember(ends, (&checked, &segment), now_ns, flows);
                if flows.get(ends).is_none() {
                    // What completes a connection may have been lost, and comes again.
                    return;
                }
            }
        }
        match self.flows.take(ends, &segment, checked.payload(), makes_sense, now_ns) {
            Verdict::Take => {}
            Verdict::Again => return,
            Verdict::Nonsense => {
                self.counts.bad_segments += 1;
                return;
            }
            verdict => {
                self.counts.disbelieved += 1;
                if let Verdict::Challenge(challenge) = verdict {
                    self.flows.segments += 1;
                    device::acknowledge(self.at.address, ends, challenge, self.kind, outlet);
                }
                return;
            }
        }
        if is_request && is_listened && self.known.len() < MOST_SOCKETS {
            let SmolStack { half_open, flows, .. } = self;
            return half_open.ask(ends, (&checked, &segment), now_ns, outlet, flows);
        }
        let is_half_open = self.half_open.has(ends);
        let judged = is_half_open.then(|| self.judge(ends, &segment, now_ns)).flatten();
        if matches!(judged, Some(Judged::Drop)) {
            return;
        }
        let now = instant(now_ns);
        self.with_device(Some(checked.bytes()), outlet, |interface, device, sockets| {
            interface.poll_ingress_single(now, device, sockets);
        });
        if let Some(Judged::Complete(id)) = judged {
            self.complete(id, ends);
        }
        if segment.has(RST) && self.flows.get(ends).is_some() {
            // Its socket no longer knows it.
            self.forget_flow(ends);
        }
    }

    fn poll(&mut self, now_ns: u64, outlet: &mut dyn Outlet) {
        let given_up = self.half_open.expire(now_ns, outlet, &mut self.flows);
        self.counts.half_open_dropped += given_up;
        self.send_due(now_ns, outlet);
        self.remove_closed();
        self.note_waits(now_ns);
        self.flows.forget_asked();
    }

    fn delay_ns(&mut self, now_ns: u64) -> Option<u64> {
        let delay = self.interface.poll_delay(instant(now_ns), &self.sockets);
        let delay_ns = delay.map(|delay| delay.total_micros().saturating_mul(1000));
        delay_ns.into_iter().chain(self.half_open.delay_ns(now_ns)).min()
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

    fn left_bytes(&self, id: ConnectionId) -> usize {
        self.socket(id).map_or(0, Socket::send_queue)
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

    fn free(&self) -> usize {
        MOST_SOCKETS.saturating_sub(self.known.len())
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
            let is_its = ends_of(socket) == Some(known.ends);
            let Some(flow) = self.flows.get(known.ends).filter(|_| is_its) else { continue };
            let (local_port, remote) = known.ends;
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
