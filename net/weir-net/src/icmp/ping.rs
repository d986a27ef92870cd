//! The arithmetic of `weir net ping`: makes distinguishable requests, and computes from the replies
//! the round trips and the offset of the other clock. No clock and no I/O.

use super::{Notice, NoticeKind};
use crate::wire::ggp;
use crate::wire::icmp::{self, Echo, Message, Timestamp};
use crate::wire::ipv4::{LEAST_HEADER_BYTES, MOST_BYTES, protocol};
use hdrhistogram::Histogram;
use std::fmt;

/// Most bytes of data in an echo request.
pub const MOST_DATA_BYTES: usize = MOST_BYTES - LEAST_HEADER_BYTES - icmp::HEADER_BYTES;
/// Magic bytes at the start of the data; the time of sending and a pattern follow.
const MAGIC: [u8; 4] = *b"weir";
/// Bytes of the magic and the time.
const STAMP_BYTES: usize = 12;
/// Requests that can be distinguished: all sequence numbers.
const WINDOW: usize = 1 << 16;
/// The longest round trip that is recorded as such: an hour.
const MOST_RTT_NS: u64 = 3_600_000_000_000;
const DAY_MS: i64 = 86_400_000;
/// A time with this bit is not milliseconds since midnight UT (RFC 792 p. 16).
const NONSTANDARD: u32 = 1 << 31;

/// The kind of request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// An echo of this many bytes of data, at most [`MOST_DATA_BYTES`].
    Echo {
        /// With fewer than 12 bytes the time of sending is incomplete, and only partly checked.
        data_bytes: usize,
    },
    /// A timestamp.
    Timestamp,
    /// A GGP echo, whose data are identifier and sequence as in an echo of ICMP, and this many bytes
    /// more.
    GgpEcho {
        /// As in an echo.
        data_bytes: usize,
    },
}

impl Probe {
    /// Returns the protocol of the requests.
    pub fn protocol(self) -> u8 {
        match self {
            Probe::Echo { .. } | Probe::Timestamp => protocol::ICMP,
            Probe::GgpEcho { .. } => protocol::GGP,
        }
    }

    /// The probe with as many data as a datagram holds.
    fn fitting(mut self) -> Probe {
        if let Probe::Echo { data_bytes } | Probe::GgpEcho { data_bytes } = &mut self {
            *data_bytes = MOST_DATA_BYTES.min(*data_bytes);
        }
        self
    }

    fn data_bytes(self) -> usize {
        match self {
            Probe::Echo { data_bytes } | Probe::GgpEcho { data_bytes } => data_bytes,
            Probe::Timestamp => 0,
        }
    }
}

/// The result for a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingResult {
    /// The first reply to a request.
    Reply {
        /// The sequence number of the request.
        sequence: u16,
        /// The round trip.
        rtt_ns: u64,
        /// Whether it arrived after the time limit.
        late: bool,
    },
    /// A further reply to a request.
    Duplicate {
        /// The sequence number of the request.
        sequence: u16,
    },
    /// A reply with our identifier whose data or time differ from those sent.
    Changed {
        /// Its sequence number.
        sequence: u16,
    },
    /// No reply, or a reply to another process.
    NotOurs,
}

/// One request; all zeroes means that it was never sent.
#[derive(Clone, Copy, Debug, Default)]
struct SentRequest {
    /// When it was sent, plus one; 0 if never.
    sent: u64,
    /// The timestamp it carried.
    originate_ms: u32,
    answered: bool,
}

/// The other host's clock, from the timestamp reply with the shortest round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockOffset {
    /// How far the other clock is ahead of ours, in milliseconds, if both ways take equally long.
    pub ahead_ms: f64,
    /// The possible error of that: half the round trip, and the resolution of the times.
    pub uncertain_ms: f64,
    /// From our sending to its receiving, by the two clocks. A hint: it contains their offset.
    pub there_ms: i64,
    /// From its sending to our receiving, likewise.
    pub back_ms: i64,
}

/// Makes requests and evaluates replies.
#[derive(Debug)]
pub struct Pinger {
    id: u16,
    probe: Probe,
    late_ns: u64,
    /// The sequence number of the next request.
    sequence: u16,
    requests: Vec<SentRequest>,
    /// Buffers for the request's data and message.
    data: Vec<u8>,
    message: Vec<u8>,
    rtts: Histogram<u64>,
    rtt_sum_ns: u128,
    rtt_least_ns: u64,
    rtt_most_ns: u64,
    /// The round trip of the reply that `clock` comes from.
    clock: Option<(u64, ClockOffset)>,
    counts: PingCounts,
}

/// Counts of requests and replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PingCounts {
    /// Requests made.
    pub sent: u64,
    /// Requests answered, late ones included.
    pub received: u64,
    /// Requests answered after the time limit; these are also in `answered`.
    pub late: u64,
    /// Further replies to requests already answered.
    pub duplicates: u64,
    /// Replies whose data or time differ from those sent.
    pub changed: u64,
    /// Replies whose time does not count from midnight UT.
    pub nonstandard_times: u64,
    /// Errors about our requests: unreachable.
    pub unreachable: u64,
    /// Errors about our requests: time exceeded.
    pub time_exceeded: u64,
    /// Errors about our requests: parameter problem.
    pub parameter_problem: u64,
}

impl Pinger {
    /// Creates it: its requests have this `id`, and replies are late after `late_ns`.
    ///
    /// Data that exceed the room in a datagram are shortened to it.
    pub fn new(id: u16, probe: Probe, late_ns: u64) -> Pinger {
        let probe = probe.fitting();
        let data_bytes = probe.data_bytes();
        let histogram = Histogram::new_with_bounds(1, MOST_RTT_NS, 3);
        Pinger {
            id,
            probe,
            late_ns,
            sequence: 1,
            requests: vec![SentRequest::default(); WINDOW],
            data: (0..data_bytes).map(|at| at as u8).collect(),
            message: vec![0; icmp::TIMESTAMP_BYTES.max(icmp::HEADER_BYTES + data_bytes)],
            rtts: histogram.expect("the bounds are sound"),
            rtt_sum_ns: 0,
            rtt_least_ns: u64::MAX,
            rtt_most_ns: 0,
            clock: None,
            counts: PingCounts::default(),
        }
    }

    /// Returns the next request, sent now by the monotonic and by the wall clock, as the payload of
    /// a datagram. The first sequence number is 1.
    pub fn request(&mut self, now_ns: u64, ms_since_midnight_ut: u32) -> &[u8] {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.counts.sent += 1;
        let sent = now_ns.saturating_add(1);
        let request = SentRequest { sent, originate_ms: ms_since_midnight_ut, answered: false };
        self.requests[usize::from(sequence)] = request;
        self.stamp(sent);
        let message = match self.probe {
            Probe::Echo { .. } => Message::Echo(Echo { id: self.id, sequence, data: &self.data }),
            Probe::Timestamp => Message::Timestamp(Timestamp {
                id: self.id,
                sequence,
                originate_ms: ms_since_midnight_ut,
                receive_ms: 0,
                transmit_ms: 0,
            }),
            Probe::GgpEcho { .. } => return self.ggp_request(sequence),
        };
        let bytes = message.emit(&mut self.message).expect("there is room for the message");
        &self.message[..bytes]
    }

    fn ggp_request(&mut self, sequence: u16) -> &[u8] {
        let message = &mut self.message[..ggp::ECHO_HEADER_BYTES + self.data.len()];
        let (head, data) = message.split_at_mut(ggp::ECHO_HEADER_BYTES);
        head.copy_from_slice(&[ggp::kind::ECHO, 0, 0, 0, 0, 0, 0, 0]);
        head[4..6].copy_from_slice(&self.id.to_be_bytes());
        head[6..].copy_from_slice(&sequence.to_be_bytes());
        data.copy_from_slice(&self.data);
        message
    }

    /// Writes magic and time before the pattern, as far as they fit.
    fn stamp(&mut self, sent: u64) {
        let stamp = stamp(sent);
        let bytes = self.data.len().min(STAMP_BYTES);
        self.data[..bytes].copy_from_slice(&stamp[..bytes]);
    }

    /// Evaluates the payload of a datagram of the probe's protocol received now.
    pub fn take(&mut self, payload: &[u8], now_ns: u64, ms_since_midnight_ut: u32) -> PingResult {
        let Some((sequence, is_right)) = self.reply(payload) else { return PingResult::NotOurs };
        let request = &mut self.requests[usize::from(sequence)];
        if request.sent == 0 || !is_right {
            self.counts.changed += 1;
            return PingResult::Changed { sequence };
        }
        if request.answered {
            self.counts.duplicates += 1;
            return PingResult::Duplicate { sequence };
        }
        request.answered = true;
        let rtt_ns = now_ns.saturating_sub(request.sent - 1);
        let late = rtt_ns > self.late_ns;
        self.counts.received += 1;
        self.counts.late += u64::from(late);
        self.rtts.saturating_record(rtt_ns.max(1));
        self.rtt_sum_ns += u128::from(rtt_ns);
        self.rtt_least_ns = self.rtt_least_ns.min(rtt_ns);
        self.rtt_most_ns = self.rtt_most_ns.max(rtt_ns);
        if let (Probe::Timestamp, Ok(Message::TimestampReply(times))) =
            (self.probe, Message::check(payload))
        {
            self.take_times(&times, rtt_ns, ms_since_midnight_ut);
        }
        PingResult::Reply { sequence, rtt_ns, late }
    }

    /// Returns the sequence of a reply to this probe and identifier, and whether it has what was
    /// sent.
    fn reply(&self, payload: &[u8]) -> Option<(u16, bool)> {
        if let Probe::GgpEcho { .. } = self.probe {
            let [ggp::kind::ECHO_REPLY, _, _, _, a, b, c, d, data @ ..] = payload else {
                return None;
            };
            let (id, sequence) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
            let echo = Echo { id, sequence, data };
            return (id == self.id).then(|| (sequence, self.is_what_was_sent(&echo)));
        }
        match (Message::check(payload), self.probe) {
            (Ok(Message::EchoReply(echo)), Probe::Echo { .. }) if echo.id == self.id => {
                Some((echo.sequence, self.is_what_was_sent(&echo)))
            }
            (Ok(Message::TimestampReply(times)), Probe::Timestamp) if times.id == self.id => {
                let request = self.requests[usize::from(times.sequence)];
                Some((times.sequence, request.originate_ms == times.originate_ms))
            }
            _ => None,
        }
    }

    /// Whether an echo's data match those of the last request with its sequence number.
    fn is_what_was_sent(&self, echo: &Echo<'_>) -> bool {
        let stamp = stamp(self.requests[usize::from(echo.sequence)].sent);
        let bytes = self.data.len().min(STAMP_BYTES);
        echo.data.len() == self.data.len()
            && echo.data[..bytes] == stamp[..bytes]
            && echo.data[bytes..] == self.data[bytes..]
    }

    /// Updates the clock estimate if this reply has the shortest round trip so far.
    fn take_times(&mut self, times: &Timestamp, rtt_ns: u64, ms_since_midnight_ut: u32) {
        let all = [times.originate_ms, times.receive_ms, times.transmit_ms, ms_since_midnight_ut];
        if all.iter().any(|time| time & NONSTANDARD != 0) {
            self.counts.nonstandard_times += 1;
            return;
        }
        if self.clock.is_some_and(|(shortest_ns, _)| shortest_ns <= rtt_ns) {
            return;
        }
        let there_ms = since(times.receive_ms, times.originate_ms);
        let back_ms = since(ms_since_midnight_ut, times.transmit_ms);
        // Each of the four times is truncated to a millisecond.
        let uncertain_ms = rtt_ns as f64 / 2e6 + 1.0;
        let ahead_ms = (there_ms - back_ms) as f64 / 2.0;
        self.clock = Some((rtt_ns, ClockOffset { ahead_ms, uncertain_ms, there_ms, back_ms }));
    }

    /// Evaluates an error about a datagram of this host. Returns whether it concerned a request
    /// here.
    pub fn notice(&mut self, notice: &Notice) -> bool {
        if notice.protocol != self.probe.protocol()
            || notice.local_port != self.id
            || self.requests[usize::from(notice.remote_port)].sent == 0
        {
            return false;
        }
        match notice.trouble {
            NoticeKind::Unreachable => self.counts.unreachable += 1,
            NoticeKind::TimeExceeded => self.counts.time_exceeded += 1,
            NoticeKind::ParameterProblem => self.counts.parameter_problem += 1,
        }
        true
    }

    /// Returns the summary so far. A request that may yet be answered counts as lost.
    pub fn summary(&self) -> PingSummary {
        let quantile = |share| self.rtts.value_at_quantile(share).min(self.rtt_most_ns) as f64;
        let counts = self.counts;
        let rtt = (counts.received > 0).then(|| Rtt {
            min_ns: self.rtt_least_ns as f64,
            mean_ns: self.rtt_sum_ns as f64 / counts.received as f64,
            p50_ns: quantile(0.5),
            p90_ns: (counts.received >= 10).then(|| quantile(0.9)),
            p99_ns: (counts.received >= 100).then(|| quantile(0.99)),
            max_ns: self.rtt_most_ns as f64,
        });
        let lost = counts.sent - counts.received;
        PingSummary {
            probe: self.probe,
            counts,
            lost,
            loss_share: if counts.sent > 0 { lost as f64 / counts.sent as f64 } else { 0.0 },
            rtt,
            clock: self.clock.map(|(_, view)| view),
        }
    }
}

/// Magic and time of sending.
fn stamp(sent: u64) -> [u8; STAMP_BYTES] {
    let mut stamp = [0; STAMP_BYTES];
    stamp[..MAGIC.len()].copy_from_slice(&MAGIC);
    stamp[MAGIC.len()..].copy_from_slice(&sent.to_be_bytes());
    stamp
}

/// Returns the milliseconds from `then` to `now`, both since midnight: the shorter way round.
fn since(now: u32, then: u32) -> i64 {
    let forward = (i64::from(now) - i64::from(then)).rem_euclid(DAY_MS);
    if forward > DAY_MS / 2 { forward - DAY_MS } else { forward }
}

/// Statistics of the round trips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rtt {
    /// The shortest.
    pub min_ns: f64,
    /// Their mean.
    pub mean_ns: f64,
    /// The median; within a thousandth, like the percentiles below.
    pub p50_ns: f64,
    /// The 90th percentile; `None` below 10 values, where it would be about the maximum.
    pub p90_ns: Option<f64>,
    /// The 99th percentile; `None` below 100 values.
    pub p99_ns: Option<f64>,
    /// The longest.
    pub max_ns: f64,
}

/// The final summary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PingSummary {
    /// The kind of request.
    pub probe: Probe,
    /// The counts.
    pub counts: PingCounts,
    /// Requests without an answer.
    pub lost: u64,
    /// Their share of all requests, 0 to 1.
    pub loss_share: f64,
    /// The round trips, if there were any.
    pub rtt: Option<Rtt>,
    /// The other clock, if it was asked and gave the time since midnight UT.
    pub clock: Option<ClockOffset>,
}

impl fmt::Display for PingSummary {
    /// Formats one to three lines, as at the end of ping.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        write!(f, "{} sent, {} received", counts.sent, counts.received)?;
        let errors = counts.unreachable + counts.time_exceeded + counts.parameter_problem;
        for (count, name) in [
            (counts.late, "late"),
            (counts.duplicates, "duplicates"),
            (counts.changed, "changed"),
            (errors, "errors"),
        ] {
            if count > 0 {
                write!(f, ", {count} {name}")?;
            }
        }
        match self.loss_share * 100.0 {
            0.0 => f.write_str(", 0% loss")?,
            percent if percent < 0.1 => write!(f, ", {percent:.4}% loss")?,
            percent => write!(f, ", {percent:.1}% loss")?,
        }
        if let Some(rtt) = self.rtt {
            let all = [
                ("min", Some(rtt.min_ns)),
                ("mean", Some(rtt.mean_ns)),
                ("p50", Some(rtt.p50_ns)),
                ("p90", rtt.p90_ns),
                ("p99", rtt.p99_ns),
                ("max", Some(rtt.max_ns)),
            ];
            let known = all.iter().filter_map(|(name, ns)| Some((*name, (*ns)?)));
            let (names, times): (Vec<&str>, Vec<String>) =
                known.map(|(name, ns)| (name, format!("{:.3}", ns / 1e6))).unzip();
            write!(f, "\nrtt {} = {} ms", names.join("/"), times.join("/"))?;
        }
        if let Some(clock) = self.clock {
            write!(
                f,
                "\nits clock differs from ours by {:+.1} ms, give or take {:.1} ms \
                 (there {} ms, back {} ms by the two clocks)",
                clock.ahead_ms, clock.uncertain_ms, clock.there_ms, clock.back_ms,
            )?;
        }
        Ok(())
    }
}
