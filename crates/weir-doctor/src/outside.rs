//! What limited a stage that waited for a socket: a process of this host, the network, the other
//! end, or its own buffer.
//!
//! A process of this host is looked at as a stage is. Of another host only the connection tells. A
//! writer's kernel divides the time: the other end's window was full, its own buffer was full, or
//! the network had not delivered what was sent. A reader's kernel does not know why nothing comes.
//! But what it sent itself is acknowledged or not; data that came out of order show a loss; and a
//! long silence with nothing missing is the other end's.

use crate::facts::{OutsideProcess, Peer, PeerKind, Run, TcpSample, TcpWaits};
use crate::parts::{BusyPart, parts};
use alloc::string::String;
use alloc::vec::Vec;

/// What a stage waited for on a socket.
#[derive(Clone, Debug, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Limit {
    /// A process of this host.
    Process {
        /// Its program.
        program: String,
        /// Its id.
        pid: i32,
        /// What it said of itself in place of its arguments.
        title: Option<String>,
        /// The parts of its time that are worth mentioning, the largest first, as shares of the run.
        parts: Vec<(BusyPart, f64)>,
        /// How often it was asked and answered, and the time for which it was waited for each time, where
        /// that was short: it is the way there and back that takes the time, and not what it does.
        trips: Option<(u64, u64)>,
    },
    /// The network lost segments: this share of those that were sent, if this end sent them.
    Loss(Option<f64>),
    /// The network delivers no faster.
    Network(Delay),
    /// The other end does not read fast enough: its window is full, for this share of the writes' time.
    FarWindow(f64),
    /// The other end sends nothing.
    FarEnd,
    /// The stage's own buffers are too small for this round trip time.
    OwnBuffer,
    /// Data came in steadily: the network or the other end.
    #[strum(serialize = "network-or-far-end")]
    Either,
}

/// What was seen of a network that delivers no faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// What was written was still under way.
    UnderWay,
    /// What was sent had not been answered yet.
    Unanswered,
    /// Data stood in a queue on the way.
    Queued,
}

/// The fewest samples of a process that are evidence.
const ENOUGH_SAMPLES: u64 = 8;
/// A part of its time below this share of the run is not mentioned, unless it is the largest.
const WORTH: f64 = 0.05;
/// A part of the wait that is at least this share of it is the reason.
const MOST: f64 = 0.5;
/// A connection that sent this share of its segments again lost them.
const LOSSY: f64 = 0.01;
/// Silence for longer than this, and than two round trips, is the other end's.
const SILENCE_NS: u64 = 20_000_000;
/// The kernel knows the time since data came no better than this.
const RESOLUTION_NS: u64 = 8_000_000;
/// A queue on the way multiplies the round trip time by this at least.
const QUEUED: u64 = 4;

/// Returns what a stage waited for that waited for sockets for `network_ns`, if it can be said.
pub(crate) fn limit(run: &Run, peer: &Peer, network_ns: u64) -> Option<Limit> {
    // No process is shown with more time than the stage waited. Short waits are sampled too often.
    let part = (network_ns as f64 / peer.waited_ns.max(1) as f64).min(1.0);
    let of = |ns: u64| (ns.min(peer.waited_ns) as f64 * part) as u64;
    limit_within(&|ns| run.share(of(ns)), peer, of(peer.waited_ns))
}

fn limit_within(share: &dyn Fn(u64) -> f64, peer: &Peer, waited_ns: u64) -> Option<Limit> {
    match &peer.process {
        // A socket that clients connect to: nothing comes from it.
        _ if peer.kind == PeerKind::Listening => None,
        Some(process) if process.samples >= ENOUGH_SAMPLES => {
            Some(of_process(share, process, waited_ns))
        }
        // A connection that is only asked for has no round trip, and loses nothing.
        _ if peer.kind == PeerKind::Unknown => None,
        _ => of_connection(peer.tcp.as_ref()?),
    }
}

/// Follows a process that waits for another one.
fn of_process(share: &dyn Fn(u64) -> f64, process: &OutsideProcess, waited_ns: u64) -> Limit {
    // Who waits for it has connected to it: that others do is not what it needs.
    let peer = process.peer.as_deref().filter(|peer| peer.kind != PeerKind::Listening);
    let mut parts = parts(&process.times, peer, |_, _| process.file.clone());
    parts.sort_by_key(|(_, ns)| core::cmp::Reverse(*ns));
    let next = peer.filter(|_| matches!(parts[0].0, BusyPart::Socket(_)));
    next.and_then(|next| limit_within(share, next, next.waited_ns)).unwrap_or_else(|| {
        let parts = parts.into_iter().take(2).map(|(part, ns)| (part, share(ns))).enumerate();
        let worth = parts.filter(|(at, (_, share))| *at == 0 || *share >= WORTH);
        let parts = worth.map(|(_, part)| part).collect();
        let title = process.title.clone();
        let trips = trips(process, waited_ns);
        Limit::Process { program: process.program.clone(), pid: process.pid, title, parts, trips }
    })
}

/// Returns how often a process behind a socket was asked and answered, and the time that each took of the
/// `waited_ns` for which it was waited for, where it is the way there and back that takes the time.
pub fn round_trips(peer: &Peer, waited_ns: u64) -> Option<(u64, u64)> {
    let process = peer.process.as_deref().filter(|it| it.samples >= ENOUGH_SAMPLES)?;
    trips(process, waited_ns)
}

/// Returns how often a process was asked and answered, and the time that each took, if it had been waited
/// for again and again, and mostly had nothing to wait for itself but the next question.
fn trips(process: &OutsideProcess, waited_ns: u64) -> Option<(u64, u64)> {
    /// Fewer are no habit.
    const MANY: u64 = 200;
    /// What takes longer each time is work.
    const LONG_NS: u64 = 2_000_000;
    let times = &process.times;
    let answers_ns = times.cpu_ns + times.queue_ns + times.network_ns;
    let each_ns = waited_ns / process.round_trips.max(1);
    let mostly = answers_ns * 2 >= times.cpu_ns + times.queue_ns + times.other_ns();
    (process.round_trips >= MANY && each_ns <= LONG_NS && mostly)
        .then_some((process.round_trips, each_ns))
}

fn of_connection(tcp: &TcpWaits) -> Option<Limit> {
    if tcp.write_ns > tcp.read_ns { of_writer(tcp) } else { of_reader(tcp) }
}

fn of_writer(tcp: &TcpWaits) -> Option<Limit> {
    let since = |of: fn(&TcpSample) -> u64| of(&tcp.last).saturating_sub(of(&tcp.first));
    let busy = since(|look| look.busy_ns) as f64;
    if busy < MOST * tcp.write_ns as f64 / 2.0 {
        return None;
    }
    let far = since(|look| look.far_window_ns) as f64 / busy;
    let own = since(|look| look.own_buffer_ns) as f64 / busy;
    if far >= MOST && far >= own {
        return Some(Limit::FarWindow(far));
    }
    if own >= MOST {
        return Some(Limit::OwnBuffer);
    }
    Some(slow_network(tcp, Delay::UnderWay))
}

fn slow_network(tcp: &TcpWaits, delay: Delay) -> Limit {
    resent(tcp).map_or(Limit::Network(delay), |share| Limit::Loss(Some(share)))
}

/// Returns the share of segments that were sent again, if it is notable.
fn resent(tcp: &TcpWaits) -> Option<f64> {
    let sent = tcp.last.sent_segments.saturating_sub(tcp.first.sent_segments);
    let again = tcp.last.resent_segments.saturating_sub(tcp.first.resent_segments);
    let share = again as f64 / sent.max(1) as f64;
    (share >= LOSSY).then_some(share.min(1.0))
}

fn of_reader(tcp: &TcpWaits) -> Option<Limit> {
    let is_answer = tcp.unanswered_ns >= tcp.queued_ns;
    let delay = if is_answer { Delay::Unanswered } else { Delay::Queued };
    let parts = [
        (Limit::Network(delay), tcp.unanswered_ns + tcp.gap_ns + tcp.queued_ns),
        (Limit::OwnBuffer, tcp.own_window_ns),
        (Limit::FarEnd, tcp.silent_ns),
        (Limit::Either, tcp.flowing_ns),
    ];
    let most = parts.into_iter().max_by_key(|(_, ns)| *ns)?;
    match most {
        (_, ns) if ns == 0 || (ns as f64) < MOST * tcp.read_ns as f64 => None,
        (Limit::Network(_), ns) if tcp.gap_ns * 2 >= ns => Some(Limit::Loss(None)),
        (Limit::Network(delay), _) => Some(slow_network(tcp, delay)),
        (limit, _) => Some(limit),
    }
}

impl TcpWaits {
    /// Starts with the first look at a connection.
    pub fn new(first: TcpSample) -> TcpWaits {
        TcpWaits { first, last: first, ..TcpWaits::default() }
    }

    /// Adds a wait of `weight_ns` that ended with the look `now`: to write, or else to read.
    pub fn add(&mut self, now: TcpSample, writes: bool, weight_ns: u64) {
        let before = core::mem::replace(&mut self.last, now);
        if writes {
            self.write_ns += weight_ns;
            return;
        }
        self.read_ns += weight_ns;
        let came = now.received_bytes.saturating_sub(before.received_bytes);
        let came_late = now.out_of_order > before.out_of_order;
        self.missing = came_late || self.missing && came == 0;
        let unqueued_ns = now.min_rtt_ns.max(now.silent_ns).max(RESOLUTION_NS);
        let part = if now.unacked > 0 || now.unsent_bytes > 0 {
            &mut self.unanswered_ns
        } else if self.missing {
            &mut self.gap_ns
        } else if came == 0 && now.silent_ns > SILENCE_NS.max(2 * now.rtt_ns) {
            &mut self.silent_ns
        } else if fills_window(came, weight_ns, &now) {
            &mut self.own_window_ns
        } else if now.receiver_rtt_ns > QUEUED * unqueued_ns && came > 0 {
            &mut self.queued_ns
        } else {
            &mut self.flowing_ns
        };
        *part += weight_ns;
    }
}

/// Whether what came in this time is most of what the own window lets come: a window each round
/// trip. On a path of less than a millisecond no window is too small.
fn fills_window(came: u64, time_ns: u64, now: &TcpSample) -> bool {
    const SHORT_NS: u64 = 2_000_000;
    if now.min_rtt_ns < SHORT_NS || now.own_window_bytes == 0 {
        return false;
    }
    let each_trip = came as f64 * now.min_rtt_ns as f64 / time_ns.max(1) as f64;
    each_trip >= 0.8 * now.own_window_bytes as f64
}

#[cfg(test)]
mod tests;
