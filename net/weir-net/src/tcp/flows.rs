//! What each connection's segments say, seen from outside of the stack: how far each side has come,
//! windows, and what was sent again. From that follows which resets and requests are believed (RFC
//! 5961), whatever the stack believes.

use super::segment::{ACK, FIN, RST, SYN, Segment, is_before};
use crate::log::FlowChange;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddrV4;

/// Our port and the other side.
pub type Ends = (u16, SocketAddrV4);

/// Most changes that wait to be logged.
const MOST_CHANGES: usize = 1024;
/// Most requests whose options are kept until they are answered.
const MOST_ASKED: usize = 1024;
/// The shortest time between two acknowledgements of a connection that challenge the other side.
const CHALLENGE_NS: u64 = 1_000_000_000;

/// What is to be done with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The stack gets it.
    Take,
    /// It is dropped.
    Drop,
    /// It is dropped, since it came before.
    Again,
    /// It is dropped, since it makes no sense to the stack.
    Nonsense,
    /// It is dropped, and the other side is told how far this side has come: if it means it, its
    /// answer to that is a segment that is believed.
    Challenge(Challenge),
}

/// What an acknowledgement says that challenges the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The number of our next byte.
    pub sequence: u32,
    /// The number of the byte expected next.
    pub acknowledgement: u32,
    /// The window field.
    pub window: u16,
}

/// A connection, or one that is being opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    /// The first number that was not sent yet.
    sent_end: u32,
    /// The oldest that is not acknowledged, and how many bytes are before it; at first the SYN is.
    acknowledged: u32,
    bytes_before: u64,
    /// What the other side is to send next, as we acknowledged it last.
    expected: Option<u32>,
    /// The window field that we sent last, what it means, and our shift if we offered one.
    own_window: u16,
    own_window_bytes: u32,
    own_shift: Option<u8>,
    /// The window of the other side, and its shift if it offered one.
    other_window_bytes: u32,
    other_shift: Option<u8>,
    /// The number after the other side's FIN, once it came.
    other_end: Option<u32>,
    /// The number after the last byte of the other side that came, in order or not.
    other_most: Option<u32>,
    /// Whether our SYN was acknowledged.
    is_synchronized: bool,
    /// The end of what was sent when something was last sent again, until that is acknowledged.
    repairs_until: Option<u32>,
    /// Segments with data that was sent before.
    again: u64,
    challenged_ns: Option<u64>,
    /// When a segment last came that the stack got.
    received_ns: u64,
}

/// How a connection stands, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowState {
    /// Bytes that were sent and are not acknowledged.
    pub flight_bytes: u32,
    /// The window that we offered last.
    pub own_window_bytes: u32,
    /// The window that the other side offered last.
    pub other_window_bytes: u32,
    /// Whether something was sent again and is not acknowledged yet.
    pub repairs: bool,
    /// Segments with data that was sent before.
    pub again: u64,
    /// A number that changes when the other side acknowledges something.
    pub acknowledged: u32,
}

impl Flow {
    /// Returns the number that the other side is to send next.
    pub fn expected(&self) -> Option<u32> {
        self.expected
    }

    /// Whether our request, or our answer to one, was acknowledged.
    pub fn is_synchronized(&self) -> bool {
        self.is_synchronized
    }

    /// Whether a segment acknowledges all that was sent.
    pub fn acknowledges_all(&self, segment: &Segment) -> bool {
        segment.acknowledgement == self.sent_end
    }

    /// Returns when the other side was last heard.
    pub fn received_ns(&self) -> u64 {
        self.received_ns
    }

    /// Returns how it stands.
    pub fn state(&self) -> FlowState {
        FlowState {
            flight_bytes: self.sent_end.wrapping_sub(self.acknowledged),
            own_window_bytes: self.own_window_bytes,
            other_window_bytes: self.other_window_bytes,
            repairs: self.repairs_until.is_some(),
            again: self.again,
            acknowledged: self.acknowledged,
        }
    }
}

/// The connections, and counts of all that was sent.
#[derive(Debug, Default)]
pub struct Flows {
    /// Segments sent.
    pub segments: u64,
    /// Those with data that was sent before.
    pub again: u64,
    /// Bytes of data, copies included.
    pub bytes: u64,
    flows: HashMap<Ends, Flow>,
    /// Requests that were not answered yet, with their shifts.
    asked: HashMap<Ends, Flow>,
    changes: VecDeque<(Ends, FlowChange)>,
}

impl Flows {
    /// Returns a connection.
    pub fn get(&self, ends: Ends) -> Option<&Flow> {
        self.flows.get(&ends)
    }

    /// Returns how many connections and requests are known.
    pub fn known(&self) -> usize {
        self.flows.len() + self.asked.len()
    }

    /// Notes a change of a connection, unless too many wait to be logged.
    pub fn changed(&mut self, ends: Ends, change: FlowChange) {
        if self.changes.len() < MOST_CHANGES {
            self.changes.push_back((ends, change));
        }
    }

    pub fn next_change(&mut self) -> Option<(Ends, FlowChange)> {
        self.changes.pop_front()
    }

    /// Takes over a connection that others noted.
    pub fn adopt(&mut self, ends: Ends, flow: Flow) {
        self.flows.insert(ends, flow);
    }

    /// Forgets a connection.
    pub fn forget(&mut self, ends: Ends) {
        self.flows.remove(&ends);
    }

    /// Forgets what was asked and not answered.
    pub fn forget_asked(&mut self) {
        self.asked.clear();
    }

    /// Whether a reset of a connection that is known does not have the number expected next, as far
    /// as we have acknowledged.
    pub fn doubts(&self, ends: Ends, segment: &Segment) -> bool {
        let flow = self.flows.get(&ends);
        segment.has(RST)
            && flow.is_some_and(|flow| {
                flow.expected.is_some_and(|expected| expected != segment.sequence)
            })
    }

    /// Judges a segment that came, `segment`, out of `payload`, and notes what it says if the stack
    /// gets it. Nothing that makes no sense to the stack is noted.
    pub fn take(
        &mut self,
        ends: Ends,
        segment: &Segment,
        payload: &[u8],
        makes_sense: bool,
        now_ns: u64,
    ) -> Verdict {
        let taken = if makes_sense { Verdict::Take } else { Verdict::Nonsense };
        let Some(flow) = self.flows.get_mut(&ends) else {
            if makes_sense && segment.has(SYN) && !segment.has(ACK) && self.asked.len() < MOST_ASKED
            {
                let other_shift = segment.window_shift(payload);
                self.asked.insert(ends, Flow { other_shift, ..Flow::default() });
            }
            return taken;
        };
        if let Some(expected) = flow.expected {
            if segment.has(RST) {
                // RFC 5961, 3.2: only a reset with the very number is believed.
                if segment.sequence == expected {
                    return taken;
                }
                let ahead = segment.sequence.wrapping_sub(expected);
                return match ahead < flow.own_window_bytes {
                    true => flow.challenge(now_ns),
                    false => Verdict::Drop,
                };
            }
            if segment.has(SYN) && flow.is_synchronized {
                // RFC 5961, 4.2: whatever its number.
                return flow.challenge(now_ns);
            }
            if segment.has(SYN) && !segment.has(ACK) {
                // The request came before: it must not begin another connection.
                return match segment.sequence.wrapping_add(1) == expected {
                    true => Verdict::Again,
                    false => flow.challenge(now_ns),
                };
            }
            let acknowledges_unsent =
                segment.has(ACK) && is_before(flow.sent_end, segment.acknowledgement);
            if acknowledges_unsent && flow.is_synchronized {
                // RFC 5961, 5.
                return flow.challenge(now_ns);
            }
            if flow.contradicts_end(segment, expected) {
                return Verdict::Drop;
            }
        }
        if makes_sense {
            flow.received_ns = now_ns;
            flow.note(segment, payload);
        }
        taken
    }

    /// Counts a segment that is sent to `to`; a device cuts it into pieces of `segment_bytes`.
    pub fn sent(
        &mut self,
        to: SocketAddrV4,
        segment: &Segment,
        payload: &[u8],
        segment_bytes: Option<u16>,
    ) {
        let size = u32::from(segment_bytes.unwrap_or(u16::MAX));
        let segments = u64::from(segment.data_bytes.div_ceil(size).max(1));
        self.segments += segments;
        self.bytes += u64::from(segment.data_bytes);
        let ends = (segment.source, to);
        if segment.has(RST) {
            return;
        }
        if segment.has(SYN) {
            let known = self.flows.get(&ends).filter(|flow| !flow.is_synchronized).copied();
            let other_shift = self.asked.remove(&ends).or(known).and_then(|flow| flow.other_shift);
            self.flows.insert(
                ends,
                Flow {
                    sent_end: segment.end(),
                    acknowledged: segment.sequence,
                    bytes_before: u64::MAX,
                    expected: segment.has(ACK).then_some(segment.acknowledgement),
                    own_window: segment.window,
                    own_window_bytes: segment.window.into(),
                    own_shift: segment.window_shift(payload),
                    other_shift,
                    ..Flow::default()
                },
            );
            return;
        }
        let Some(flow) = self.flows.get_mut(&ends) else { return };
        flow.expected = Some(segment.acknowledgement);
        flow.own_window = segment.window;
        let shift = flow.other_shift.and(flow.own_shift).unwrap_or(0);
        flow.own_window_bytes = u32::from(segment.window) << shift;
        // What is beyond the other side's window asks whether it is still closed.
        let ahead = segment.sequence.wrapping_sub(flow.acknowledged);
        let is_probe = ahead >= flow.other_window_bytes;
        if segment.data_bytes > 0 && !is_probe && is_before(segment.sequence, flow.sent_end) {
            self.again += segments;
            flow.again += segments;
            let from = flow.bytes_before.wrapping_add(ahead.into());
            let begins = flow.repairs_until.replace(flow.sent_end).is_none();
            if is_before(flow.sent_end, segment.end()) {
                flow.sent_end = segment.end();
            }
            if begins {
                self.changed(ends, FlowChange::Again { from });
            }
        } else if is_before(flow.sent_end, segment.end()) {
            flow.sent_end = segment.end();
        }
    }
}

impl Flow {
    fn challenge(&mut self, now_ns: u64) -> Verdict {
        let Some(acknowledgement) = self.expected else { return Verdict::Drop };
        if self.challenged_ns.is_some_and(|last| now_ns.saturating_sub(last) < CHALLENGE_NS) {
            return Verdict::Drop;
        }
        self.challenged_ns = Some(now_ns);
        let (sequence, window) = (self.sent_end, self.own_window);
        Verdict::Challenge(Challenge { sequence, acknowledgement, window })
    }

    /// Whether a segment says of the other side's end what cannot be: a FIN beyond our window, whose
    /// data were cut, a FIN before what came already, a second FIN, or something beyond the FIN.
    fn contradicts_end(&self, segment: &Segment, expected: u32) -> bool {
        let end = segment.end();
        if let Some(other_end) = self.other_end {
            return is_before(other_end, end) || (segment.has(FIN) && other_end != end);
        }
        let window_end = expected.wrapping_add(self.own_window_bytes).wrapping_add(1);
        let most = self.other_most.map_or(expected, |most| most.wrapping_add(1));
        segment.has(FIN) && (is_before(window_end, end) || is_before(end, most))
    }

    /// Whether some of a segment is in our window, as far as the other side knows it.
    fn is_in_window(&self, segment: &Segment) -> bool {
        let Some(expected) = self.expected else { return true };
        let window_end = expected.wrapping_add(self.own_window_bytes);
        let data_end = segment.sequence.wrapping_add(segment.data_bytes);
        !is_before(data_end, expected) && !is_before(window_end, segment.sequence)
    }

    /// Notes what a segment of the other side says.
    fn note(&mut self, segment: &Segment, payload: &[u8]) {
        let acknowledgement = segment.acknowledgement;
        let is_known = !is_before(acknowledgement, self.acknowledged)
            && !is_before(self.sent_end, acknowledgement);
        if segment.has(SYN) && (is_known || !segment.has(ACK)) {
            self.other_shift = segment.window_shift(payload);
        }
        if !segment.has(ACK) || !is_known || !self.is_in_window(segment) {
            return;
        }
        let data_end = segment.sequence.wrapping_add(segment.data_bytes);
        if segment.data_bytes > 0 && self.other_most.is_none_or(|most| is_before(most, data_end)) {
            self.other_most = Some(data_end);
        }
        if segment.has(FIN) {
            self.other_end.get_or_insert(segment.end());
        }
        self.is_synchronized |= acknowledgement != self.acknowledged;
        let newly = acknowledgement.wrapping_sub(self.acknowledged);
        self.bytes_before = self.bytes_before.wrapping_add(newly.into());
        self.acknowledged = acknowledgement;
        self.repairs_until = self.repairs_until.filter(|until| is_before(acknowledgement, *until));
        let shift = match segment.has(SYN) {
            true => 0,
            false => self.own_shift.and(self.other_shift).unwrap_or(0),
        };
        self.other_window_bytes = u32::from(segment.window) << shift;
    }
}
