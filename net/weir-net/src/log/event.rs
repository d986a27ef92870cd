//! Events, and how each is stored in the units of a record.
//!
//! The first word after the tag is the time, in ns since 1970. The other two words and 16 bits of
//! the tag (the detail) hold the event. A dump continues in further units.

use super::flow::FlowEvent;
use super::format;
use super::kinds::Kinds;
use super::layout::{LogUnit, PAYLOAD_BYTES};
use super::packet::Packet;
use super::reason::EventReason;
use super::request::{Asker, RequestEvent};
use crate::icmp::{Notice, NoticeKind};
use serde::Serialize;
use std::net::Ipv4Addr;

/// Bytes of a packet that the first unit of a dump holds.
pub const FIRST_DUMP_BYTES: usize = 8;

/// The direction of a packet, as the host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// A packet that was received or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Transaction {
    /// Its direction.
    pub direction: Direction,
    /// The packet.
    #[serde(flatten)]
    pub packet: Packet,
}

/// A packet that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Why it was dropped.
    #[serde(flatten)]
    pub reason: EventReason,
    /// The packet.
    #[serde(flatten)]
    pub packet: Packet,
}

/// A failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FailureEvent {
    /// Its reason.
    #[serde(flatten)]
    pub reason: EventReason,
    /// Protocol in which it occurred; 0 if in none.
    #[serde(flatten, serialize_with = "format::put_protocol")]
    pub protocol: u8,
    /// The address it is about; 0.0.0.0 if none.
    pub source: Ipv4Addr,
    /// The address it concerns; 0.0.0.0 if none.
    pub target: Ipv4Addr,
    /// A value that belongs to the reason: an errno, a code; 0 if none.
    pub value: u32,
}

/// A change in a station's attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StationChange {
    /// It attached to the switch.
    Attached,
    /// It detached.
    Detached,
    /// It died.
    Died,
    /// The switch did not take it.
    Refused,
}

/// A station that attached or detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StationEvent {
    /// Whether it attached, detached, died or was refused.
    pub change: StationChange,
    /// Its process.
    pub pid: u32,
    /// Its protocol.
    #[serde(flatten, serialize_with = "format::put_protocol")]
    pub protocol: u8,
    /// Its port; 0 where the protocol has none.
    pub port: u16,
}

/// The bytes of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// Its direction.
    pub direction: Direction,
    /// The length of the packet.
    pub length_bytes: u32,
    /// Its first bytes.
    #[serde(rename = "hex", serialize_with = "format::put_hex")]
    pub bytes: Vec<u8>,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EventBody {
    /// A packet was received or sent.
    Transaction(Transaction),
    /// A failure occurred.
    Failure(FailureEvent),
    /// The bytes of a packet.
    Dump(Dump),
    /// A packet was dropped.
    Dropped(Dropped),
    /// A station attached or detached.
    Station(StationEvent),
    /// A transfer or a connection began, ended, sent again or stalled.
    Flow(FlowEvent),
    /// A daemon serves a request.
    Request(RequestEvent),
}

/// An event as a reader returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// When it happened, in ns since 1970. When two writers race, the later record may have a
    /// slightly earlier time.
    pub time_ns: u64,
    /// Its content.
    pub what: EventBody,
}

impl LogEvent {
    /// Returns its kind.
    pub fn kind(&self) -> Kinds {
        match &self.what {
            EventBody::Transaction(_) => Kinds::TRANSACTIONS,
            EventBody::Failure(_) => Kinds::ERRORS,
            EventBody::Dump(Dump { direction: Direction::In, .. }) => Kinds::DUMPS_IN,
            EventBody::Dump(_) => Kinds::DUMPS_OUT,
            EventBody::Dropped(_) => Kinds::DROPS,
            EventBody::Station(_) => Kinds::STATIONS,
            EventBody::Flow(_) => Kinds::FLOWS,
            EventBody::Request(request) => request.kind(),
        }
    }
}

/// Codes of first units.
mod code {
    pub const RECEIVED: u8 = 1;
    pub const SENT: u8 = 2;
    pub const FAILURE: u8 = 3;
    pub const DUMP_IN: u8 = 4;
    pub const DUMP_OUT: u8 = 5;
    pub const DROPPED: u8 = 6;
    pub const STATION: u8 = 7;
    pub const FLOW: u8 = 8;
    pub const LOCAL_REQUEST: u8 = 9;
    pub const FOREIGN_REQUEST: u8 = 10;
}

/// An event ready to be stored in a unit: code, detail, two words.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    code: u8,
    detail: u16,
    words: [u64; 2],
}

impl Packed {
    #[inline(always)]
    fn new(code: u8, protocol: u8, reason: EventReason, words: [u64; 2]) -> Packed {
        let detail = u16::from(protocol) << 8 | u16::from(reason.number());
        Packed { code, detail, words }
    }

    #[inline(always)]
    pub fn at(self, time_ns: u64) -> LogUnit {
        let Packed { code, detail, words } = self;
        LogUnit { code, detail, payload: [time_ns, words[0], words[1]] }
    }
}

#[inline(always)]
fn pack_packet(packet: &Packet, code: u8, reason: EventReason) -> Packed {
    let (bits, words) = packet.words();
    let mut packed = Packed::new(code, packet.protocol, reason, words);
    packed.detail |= bits;
    packed
}

fn unpack_packet(unit: &LogUnit) -> Packet {
    let [_, addresses, rest] = unit.payload;
    Packet::of_words(unit.detail, [addresses, rest])
}

impl Transaction {
    #[inline]
    pub(crate) fn pack(&self) -> Packed {
        let code = match self.direction {
            Direction::In => code::RECEIVED,
            Direction::Out => code::SENT,
        };
        pack_packet(&self.packet, code, EventReason::new(0))
    }
}

impl Dropped {
    #[inline]
    pub(crate) fn pack(&self) -> Packed {
        pack_packet(&self.packet, code::DROPPED, self.reason)
    }
}

impl FailureEvent {
    /// What an ICMP error says about a datagram of this host.
    pub(crate) fn of_notice(notice: &Notice) -> FailureEvent {
        FailureEvent {
            reason: match notice.trouble {
                NoticeKind::Unreachable => EventReason::UNREACHABLE,
                NoticeKind::TimeExceeded => EventReason::TIME_EXCEEDED,
                NoticeKind::ParameterProblem => EventReason::PARAMETER,
            },
            protocol: notice.protocol,
            source: notice.from,
            target: notice.remote,
            value: u32::from(notice.code),
        }
    }

    #[inline]
    pub(crate) fn pack(&self) -> Packed {
        let addresses = u64::from(self.source.to_bits()) << 32 | u64::from(self.target.to_bits());
        let words = [addresses, u64::from(self.value)];
        Packed::new(code::FAILURE, self.protocol, self.reason, words)
    }
}

impl StationEvent {
    #[inline]
    pub(crate) fn pack(&self) -> Packed {
        let word = u64::from(self.pid) << 32 | u64::from(self.port);
        Packed::new(code::STATION, self.protocol, EventReason::new(self.change as u8), [word, 0])
    }
}

impl FlowEvent {
    #[inline]
    pub(crate) fn pack(&self) -> Packed {
        let (what, words) = self.words();
        Packed::new(code::FLOW, self.protocol, EventReason::new(what), words)
    }
}

impl RequestEvent {
    /// Returns its kind.
    pub fn kind(&self) -> Kinds {
        match self.asker {
            Asker::Local { .. } => Kinds::LOCAL_REQUESTS,
            Asker::Foreign { .. } => Kinds::FOREIGN_REQUESTS,
        }
    }

    #[inline]
    pub(crate) fn pack(&self) -> Packed {
        let code = match self.asker {
            Asker::Local { .. } => code::LOCAL_REQUEST,
            Asker::Foreign { .. } => code::FOREIGN_REQUEST,
        };
        pack_packet(&self.as_packet(), code, EventReason::new(0))
    }
}

/// Makes the first unit of a dump of `length_bytes`, of which `kept` are kept.
#[inline]
pub(crate) fn pack_dump(direction: Direction, length_bytes: u32, kept: &[u8]) -> Packed {
    let code = match direction {
        Direction::In => code::DUMP_IN,
        Direction::Out => code::DUMP_OUT,
    };
    let lengths = u64::from(length_bytes) << 32 | kept.len() as u64;
    let first = &kept[..kept.len().min(FIRST_DUMP_BYTES)];
    Packed { code, detail: 0, words: [lengths, word_of(first)] }
}

/// Packs up to 8 bytes into a word.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(whole)
}

/// Returns the number of units of a dump that keeps this many bytes.
#[inline]
pub(crate) const fn dump_units(kept_bytes: usize) -> usize {
    1 + kept_bytes.saturating_sub(FIRST_DUMP_BYTES).div_ceil(PAYLOAD_BYTES)
}

/// Returns the number of units in the record that this unit begins; `None` if it begins none.
pub(crate) fn units_of(unit: &LogUnit) -> Option<usize> {
    match unit.code {
        code::RECEIVED..=code::FAILURE | code::DROPPED..=code::FOREIGN_REQUEST => Some(1),
        code::DUMP_IN | code::DUMP_OUT => Some(dump_units(unit.payload[1] as u32 as usize)),
        _ => None,
    }
}

/// Decodes a record from its first unit and the payload of the others. Returns `None` if it is not
/// valid, which only a malicious writer can cause.
pub(crate) fn unpack(unit: &LogUnit, further: &[[u64; 3]]) -> Option<LogEvent> {
    let reason = EventReason::new(unit.detail as u8);
    let what = match unit.code {
        code::RECEIVED | code::SENT => {
            let out = unit.code == code::SENT;
            let direction = if out { Direction::Out } else { Direction::In };
            EventBody::Transaction(Transaction { direction, packet: unpack_packet(unit) })
        }
        code::FAILURE => EventBody::Failure(FailureEvent {
            reason,
            protocol: (unit.detail >> 8) as u8,
            source: Ipv4Addr::from_bits((unit.payload[1] >> 32) as u32),
            target: Ipv4Addr::from_bits(unit.payload[1] as u32),
            value: unit.payload[2] as u32,
        }),
        code::DROPPED => EventBody::Dropped(Dropped { reason, packet: unpack_packet(unit) }),
        code::DUMP_IN | code::DUMP_OUT => EventBody::Dump(unpack_dump(unit, further)?),
        code::STATION => {
            let change = [
                StationChange::Attached,
                StationChange::Detached,
                StationChange::Died,
                StationChange::Refused,
            ];
            EventBody::Station(StationEvent {
                change: *change.get(usize::from(reason.number()))?,
                pid: (unit.payload[1] >> 32) as u32,
                protocol: (unit.detail >> 8) as u8,
                port: unit.payload[1] as u16,
            })
        }
        code::FLOW => {
            let [_, word, value] = unit.payload;
            let protocol = (unit.detail >> 8) as u8;
            EventBody::Flow(FlowEvent::of_words(reason.number(), protocol, [word, value])?)
        }
        code::LOCAL_REQUEST | code::FOREIGN_REQUEST => {
            let is_local = unit.code == code::LOCAL_REQUEST;
            EventBody::Request(RequestEvent::of_packet(unpack_packet(unit), is_local))
        }
        _ => return None,
    };
    Some(LogEvent { time_ns: unit.payload[0], what })
}

fn unpack_dump(unit: &LogUnit, further: &[[u64; 3]]) -> Option<Dump> {
    let out = unit.code == code::DUMP_OUT;
    let (length_bytes, kept) = ((unit.payload[1] >> 32) as u32, unit.payload[1] as u32 as usize);
    if dump_units(kept) != 1 + further.len() {
        return None;
    }
    let mut bytes = Vec::with_capacity(FIRST_DUMP_BYTES + further.len() * PAYLOAD_BYTES);
    bytes.extend_from_slice(&unit.payload[2].to_ne_bytes());
    for word in further.as_flattened() {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.truncate(kept);
    let direction = if out { Direction::Out } else { Direction::In };
    Some(Dump { direction, length_bytes, bytes })
}
