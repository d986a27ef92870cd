//! Formats an event as a line of text.

use super::super::event::{Direction, Dump, FailureEvent, LogEvent, StationChange, StationEvent};
use super::super::event::{EventBody, Transaction};
use super::super::flow::{FlowChange, FlowEvent};
use super::super::packet::{Packet, Transport};
use super::super::reason::EventReason;
use super::super::request::{Asker, RequestEvent};
use super::{ggp_has_sequence, ggp_name, has_identifier, icmp_name, protocol_name};
use crate::drop_reason::DropReason;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt::{self, Display, Write};

/// Bytes of a dump that a line shows at most.
const SHOWN_BYTES: usize = 32;
const NS_PER_S: u64 = 1_000_000_000;

/// The time zone for times in text.
#[derive(Clone, Debug)]
pub struct Zone {
    zone: TimeZone,
    /// The last second asked for, and its date and time of day.
    last: (u64, String),
}

impl Zone {
    /// Returns the time zone of this machine and user (`TZ`, else /etc/localtime); UTC where neither
    /// can be read.
    pub fn local() -> Zone {
        Zone::of(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// Returns UTC.
    pub fn utc() -> Zone {
        Zone::of(TimeZone::UTC)
    }

    fn of(zone: TimeZone) -> Zone {
        Zone { last: (0, civil(&zone, 0)), zone }
    }

    /// Formats the date and the time of day, to the second.
    pub fn second(&mut self, time_ns: u64) -> String {
        self.at(time_ns / NS_PER_S).to_owned()
    }

    /// Formats the date and the time of day, to the microsecond.
    fn put(&mut self, out: &mut String, time_ns: u64) {
        let micros = time_ns % NS_PER_S / 1000;
        let _ = write!(out, "{}.{micros:06}", self.at(time_ns / NS_PER_S));
    }

    fn at(&mut self, unix_s: u64) -> &str {
        if unix_s != self.last.0 {
            self.last = (unix_s, civil(&self.zone, unix_s));
        }
        &self.last.1
    }
}

fn civil(zone: &TimeZone, unix_s: u64) -> String {
    zone.to_datetime(timestamp(unix_s * NS_PER_S)).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Converts nanoseconds since 1970. In 64 bits they end in the year 2554, and years in 9999.
fn timestamp(time_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(time_ns.into()).unwrap_or_default()
}

/// Formats a time since 1970 by RFC 3339, in UTC: "2026-11-21T08:15:00.123456789Z".
pub fn rfc3339(time_ns: u64) -> String {
    format!("{:.9}", timestamp(time_ns))
}

/// Appends a line with its newline. Packet bytes are shown in hexadecimal only.
pub fn text(out: &mut String, event: &LogEvent, zone: &mut Zone) {
    zone.put(out, event.time_ns);
    // Writing to a string does not fail.
    let _ = match &event.what {
        EventBody::Transaction(Transaction { direction, packet }) => {
            let way = way(*direction, "in", "out");
            writeln!(out, " {way:<8} {packet}, {} bytes", packet.length_bytes)
        }
        EventBody::Dropped(dropped) => {
            let packet = &dropped.packet;
            let bytes = packet.length_bytes;
            match dropped.reason == DropReason::Ipv6.into() {
                true => writeln!(out, " drop     IPv6, {bytes} bytes: not supported"),
                false => writeln!(out, " drop     {packet}, {bytes} bytes: {}", dropped.reason),
            }
        }
        EventBody::Failure(failure) => writeln!(out, " error    {failure}"),
        EventBody::Dump(dump) => put_dump(out, dump),
        EventBody::Station(station) => writeln!(out, " station  {station}"),
        EventBody::Flow(flow) => writeln!(out, " flow     {flow}"),
        EventBody::Request(request) => writeln!(out, " request  {request}"),
    };
}

fn way(direction: Direction, received: &'static str, sent: &'static str) -> &'static str {
    match direction {
        Direction::In => received,
        Direction::Out => sent,
    }
}

fn put_dump(out: &mut String, dump: &Dump) -> fmt::Result {
    let packet = Packet::of(&dump.bytes);
    let (way, length) = (way(dump.direction, "dump-in", "dump-out"), dump.length_bytes);
    write!(out, " {way:<8} {packet}, {length} bytes")?;
    if dump.bytes.len() < length as usize {
        write!(out, ", {} bytes kept", dump.bytes.len())?;
    }
    out.push(':');
    for pair in dump.bytes.iter().take(SHOWN_BYTES).collect::<Vec<_>>().chunks(2) {
        out.push(' ');
        for byte in pair {
            write!(out, "{byte:02x}")?;
        }
    }
    let more = if dump.bytes.len() > SHOWN_BYTES { " ...\n" } else { "\n" };
    out.push_str(more);
    Ok(())
}

/// A protocol, shown by name or as a number.
struct Protocol(u8);

impl Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match protocol_name(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "protocol {}", self.0),
        }
    }
}

impl Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packet { source, target, protocol, transport, .. } = self;
        if source.is_unspecified() && target.is_unspecified() && *protocol == 0 {
            return f.write_str("not an IP packet");
        }
        match transport {
            Transport::Ports { source: from, target: to, .. } => {
                write!(f, "{source}:{from} > {target}:{to} ")?;
            }
            _ => write!(f, "{source} > {target} ")?,
        }
        put_transport(f, *protocol, transport)
    }
}

/// Writes the protocol, and what a message of ICMP or GGP is.
fn put_transport(f: &mut fmt::Formatter<'_>, protocol: u8, transport: &Transport) -> fmt::Result {
    Protocol(protocol).fmt(f)?;
    let (kind, name) = match transport {
        Transport::Icmp { kind, .. } => (kind, icmp_name(*kind)),
        Transport::Ggp { kind, .. } => (kind, ggp_name(*kind)),
        Transport::Ports { .. } | Transport::None { .. } => return Ok(()),
    };
    match name {
        Some(name) => write!(f, " {name}")?,
        None => write!(f, " type {kind}")?,
    }
    match transport {
        Transport::Icmp { code, id, sequence, .. } => {
            if *code != 0 {
                write!(f, " code {code}")?;
            }
            if has_identifier(*kind) {
                write!(f, " id {id} seq {sequence}")?;
            }
        }
        Transport::Ggp { sequence, .. } if ggp_has_sequence(*kind) => write!(f, " seq {sequence}")?,
        _ => {}
    }
    Ok(())
}

impl Display for RequestEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestEvent { asker, target, protocol, transport, length_bytes } = self;
        match asker {
            Asker::Local { pid } => write!(f, "local: process {pid} > {target} ")?,
            Asker::Foreign { source } => write!(f, "foreign: {source} > {target} ")?,
        }
        put_transport(f, *protocol, transport)?;
        write!(f, ", {length_bytes} bytes")
    }
}

impl Display for FailureEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !(self.source.is_unspecified() && self.target.is_unspecified()) {
            write!(f, "{} > {} ", self.source, self.target)?;
        }
        if self.protocol != 0 {
            write!(f, "{}: ", Protocol(self.protocol))?;
        }
        self.reason.fmt(f)?;
        match (self.value, self.reason) {
            (0, _) => Ok(()),
            (errno, EventReason::SYSTEM) => write!(f, ", errno {errno}"),
            (value, _) => write!(f, ", value {value}"),
        }
    }
}

impl Display for StationEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.change {
            StationChange::Attached => "attached",
            StationChange::Detached => "detached",
            StationChange::Died => "died",
            StationChange::Refused => "refused",
        };
        write!(f, "{word}: {}", Protocol(self.protocol))?;
        if self.port != 0 {
            write!(f, " port {}", self.port)?;
        }
        write!(f, ", process {}", self.pid)
    }
}

impl Display for FlowEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlowEvent { change, protocol, port, remote, remote_port } = self;
        write!(f, "{} port {port} with {remote}:{remote_port}: ", Protocol(*protocol))?;
        match change {
            FlowChange::Began { block_bytes, window: 0 } => {
                write!(f, "began, segments of up to {block_bytes} bytes")
            }
            FlowChange::Began { block_bytes, window } => {
                write!(f, "began, blocks of {block_bytes} bytes in windows of {window}")
            }
            FlowChange::Ended { bytes } => write!(f, "ended, {bytes} bytes"),
            FlowChange::Failed { bytes } => write!(f, "failed after {bytes} bytes"),
            FlowChange::Again { from } => write!(f, "sends again from {from}"),
            FlowChange::Stalled { waits_for } => {
                write!(f, "stalled, waits for {}", waits_for.as_str())
            }
        }
    }
}
