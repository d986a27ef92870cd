//! Connections that are not completed yet: of each, the request is kept and no socket, so that a
//! flood of requests takes little memory and no room of those who mean it.
//!
//! A socket of smoltcp has its buffers from the start, and takes its first number from the
//! interface. So one socket answers all requests, each at an interface whose numbers follow from a
//! seed, and the seed from the request. Once the answer is acknowledged, a new socket takes the
//! same request at the same seed, and stands where the other side believes it to stand.
//!
//! Where too many requests wait, those that come are answered and not kept, as if they had no
//! options. Such a request is made anew from what acknowledges its answer, which has both first
//! numbers.

use super::device::{Nowhere, Outlet, PacketDevice, instant, interface};
use super::flows::{Ends, Flows};
use super::segment::{ACK, RST, SYN, Segment};
use crate::message::Attached;
use crate::wire::ipv4::{Datagram, LEAST_HEADER_BYTES};
use crate::wire::ports::LEAST_TCP_BYTES;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Bytes of a connection's buffer, for each direction.
pub const BUFFER_BYTES: usize = 256 << 10;
/// Most requests that are kept.
const MOST_REQUESTS: usize = 4096;
/// How long a connection may be half open.
const HALF_OPEN_NS: u64 = 10_000_000_000;
/// For how long after too many requests what acknowledges one that was not kept is believed.
const OVERFLOW_NS: u64 = 60_000_000_000;
/// After how long an answer is sent again at first; then it is each time as long again.
const AGAIN_NS: u64 = 1_000_000_000;
/// How often it is looked which answers are due.
const LOOK_NS: u64 = 100_000_000;
/// Most bytes of the headers of a request, that of IP and that of TCP.
const MOST_HEADERS_BYTES: usize = 120;

/// A request that was answered. Data that come with it are left out: they come again.
#[derive(Debug)]
struct Request {
    headers: [u8; MOST_HEADERS_BYTES],
    headers_bytes: usize,
    seed: u64,
    begun_ns: u64,
    again_ns: u64,
}

/// The connections that are not completed.
pub struct HalfOpen {
    at: Attached,
    secret: u64,
    requests: HashMap<Ends, Request>,
    answering: Cradle,
    checked_ns: u64,
    /// When a request last came that was not kept.
    overflowed_ns: Option<u64>,
}

impl HalfOpen {
    /// None yet, for a host; `secret` makes the numbers.
    pub fn new(at: &Attached, secret: u64) -> HalfOpen {
        HalfOpen {
            at: *at,
            secret,
            requests: HashMap::new(),
            answering: Cradle::new(),
            checked_ns: 0,
            overflowed_ns: None,
        }
    }

    /// Whether a connection is half open, as far as its request is kept.
    pub fn has(&self, ends: Ends) -> bool {
        self.requests.contains_key(&ends)
    }

    /// Answers a request, and keeps it while there is room.
    pub fn ask(
        &mut self,
        ends: Ends,
        (datagram, segment): (&Datagram<'_>, &Segment),
        now_ns: u64,
        outlet: &mut dyn Outlet,
        flows: &mut Flows,
    ) {
        let is_kept = self.requests.len() < MOST_REQUESTS;
        let seed = self.seed(ends, segment.sequence);
        let request = match is_kept {
            true => Request::of(datagram, seed, now_ns),
            false => Request::without_options(datagram, segment.sequence, seed, now_ns),
        };
        let Some(request) = request else { return };
        self.answering.take(ends, &request, &self.at, now_ns, outlet, flows);
        if is_kept {
            self.requests.insert(ends, request);
        } else {
            self.overflowed_ns = Some(now_ns);
            flows.forget(ends);
        }
    }

    /// Whether requests came of late that were answered and not kept.
    pub fn overflows(&self, now_ns: u64) -> bool {
        self.overflowed_ns.is_some_and(|last| now_ns.saturating_sub(last) < OVERFLOW_NS)
    }

    /// Makes the request anew that was not kept, if a segment acknowledges the answer to it.
    pub fn remember(
        &mut self,
        ends: Ends,
        (datagram, segment): (&Datagram<'_>, &Segment),
        now_ns: u64,
        flows: &mut Flows,
    ) {
        let sequence = segment.sequence.wrapping_sub(1);
        let seed = self.seed(ends, sequence);
        // That its answer was under way for so long makes no timer too short.
        let begun_ns = now_ns.saturating_sub(AGAIN_NS);
        let request = Request::without_options(datagram, sequence, seed, begun_ns);
        let Some(request) = request else { return };
        let mut answered = Flows::default();
        self.answering.take(ends, &request, &self.at, now_ns, &mut Unsent, &mut answered);
        if let Some(flow) = answered.get(ends).filter(|flow| flow.acknowledges_all(segment)) {
            flows.adopt(ends, *flow);
            self.requests.insert(ends, request);
        }
    }

    /// Returns a socket that has taken the request and answered it, as the other side knows.
    pub fn socket(&self, ends: Ends, flows: &mut Flows) -> Option<Socket<'static>> {
        let request = self.requests.get(&ends)?;
        let mut cradle = Cradle::new();
        // Since then it takes the time of a round trip.
        cradle.take(ends, request, &self.at, request.begun_ns, &mut Nowhere, flows);
        #[allow(irrefutable_let_patterns, reason = "smoltcp may be built with other sockets")]
        let smoltcp::socket::Socket::Tcp(socket) = cradle.sockets.remove(cradle.handle) else {
            return None;
        };
        Some(socket)
    }

    /// Forgets a request.
    pub fn remove(&mut self, ends: Ends) {
        self.requests.remove(&ends);
    }

    /// Gives up those that were not completed in time, and answers again where that is due. Returns
    /// how many were given up.
    pub fn expire(&mut self, now_ns: u64, outlet: &mut dyn Outlet, flows: &mut Flows) -> u64 {
        if now_ns.saturating_sub(self.checked_ns) < LOOK_NS {
            return 0;
        }
        self.checked_ns = now_ns;
        let HalfOpen { at, requests, answering, .. } = self;
        let before = requests.len();
        requests.retain(|ends, request| {
            let age_ns = now_ns.saturating_sub(request.begun_ns);
            if age_ns >= HALF_OPEN_NS {
                flows.forget(*ends);
                return false;
            }
            if request.again_ns <= now_ns {
                request.again_ns = now_ns.saturating_add(age_ns);
                answering.take(*ends, request, at, now_ns, outlet, flows);
            }
            true
        });
        (before - requests.len()) as u64
    }

    /// Returns after how long [`HalfOpen::expire`] must be called.
    pub fn delay_ns(&self, now_ns: u64) -> Option<u64> {
        let due_ns = self.checked_ns.saturating_add(LOOK_NS);
        (!self.requests.is_empty()).then(|| due_ns.saturating_sub(now_ns))
    }

    fn seed(&self, ends: Ends, sequence: u32) -> u64 {
        let hash = BuildHasherDefault::<DefaultHasher>::default();
        hash.hash_one((self.secret, ends, sequence))
    }
}

/// Whether a segment may acknowledge the answer to a request.
pub fn may_complete(segment: &Segment) -> bool {
    segment.flags & (SYN | RST | ACK) == ACK
}

impl Request {
    /// The headers of a request, without what follows them.
    fn of(datagram: &Datagram<'_>, seed: u64, begun_ns: u64) -> Option<Request> {
        let tcp_bytes = usize::from(datagram.payload().get(12)? >> 4) * 4;
        let headers_bytes = datagram.header_bytes() + tcp_bytes;
        let mut headers = [0; MOST_HEADERS_BYTES];
        let to = headers.get_mut(..headers_bytes)?;
        to.copy_from_slice(datagram.bytes().get(..headers_bytes)?);
        // smoltcp does not check what comes: both sums were.
        to[2..4].copy_from_slice(&(headers_bytes as u16).to_be_bytes());
        let again_ns = begun_ns.saturating_add(AGAIN_NS);
        Some(Request { headers, headers_bytes, seed, begun_ns, again_ns })
    }

    /// A request of this number and without options, between the ends of a datagram.
    fn without_options(
        datagram: &Datagram<'_>,
        sequence: u32,
        seed: u64,
        begun_ns: u64,
    ) -> Option<Request> {
        let mut request = Request::of(datagram, seed, begun_ns)?;
        let (tcp, headers) = (LEAST_HEADER_BYTES, &mut request.headers);
        headers
            .copy_within(datagram.header_bytes()..datagram.header_bytes() + LEAST_TCP_BYTES, tcp);
        request.headers_bytes = tcp + LEAST_TCP_BYTES;
        (headers[0], headers[2], headers[3]) = (0x45, 0, request.headers_bytes as u8);
        headers[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
        (headers[tcp + 12], headers[tcp + 13]) = (((LEAST_TCP_BYTES / 4) << 4) as u8, SYN);
        Some(request)
    }
}

/// An outlet for answers that are only looked at.
struct Unsent;

impl Outlet for Unsent {
    fn send(&mut self, bytes: usize, _: Option<u16>, fill: &mut dyn FnMut(&mut [u8])) {
        fill(&mut vec![0; bytes]);
    }
}

/// A socket that takes a request and answers it.
struct Cradle {
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

impl Cradle {
    fn new() -> Cradle {
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(new_socket());
        Cradle { sockets, handle }
    }

    fn take(
        &mut self,
        (port, _): Ends,
        request: &Request,
        at: &Attached,
        now_ns: u64,
        outlet: &mut dyn Outlet,
        flows: &mut Flows,
    ) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
        socket.abort();
        // The port is not 0, and the socket is closed: it listens.
        let _ = socket.listen(port);
        let incoming = Some(&request.headers[..request.headers_bytes]);
        let mut device = PacketDevice { kind: at.into(), incoming, outlet, flows };
        let mut interface = interface(at, request.seed, &mut device);
        interface.poll_ingress_single(instant(now_ns), &mut device, &mut self.sockets);
        interface.poll_egress(instant(now_ns), &mut device, &mut self.sockets);
    }
}

/// Returns a socket with its buffers.
pub fn new_socket() -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; BUFFER_BYTES]);
    let mut socket = Socket::new(buffer(), buffer());
    // Answers go out whole: each is put into the buffer at once.
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket.set_congestion_control(CongestionControl::Cubic);
    socket
}
