//! An event as a line of JSON.

use super::super::event::{Change, Direction, Dump, Event, Failure, Packet, Station, Transport};
use super::super::event::{Transaction, What};
use super::super::kinds::Kinds;
use super::super::reason::Reason;
use super::text::timestamp;
use super::{has_identifier, icmp_name, protocol_name};
use serde::Serialize;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// What the lines call themselves.
pub const SCHEMA: &str = "weir.net.log/1";

/// A line; what an event does not have is left out.
#[derive(Debug, Serialize)]
struct Line<'a> {
    schema: &'static str,
    weir_version: &'static str,
    kind: &'a str,
    /// RFC 3339, in UTC: a number of so many ns is more than some readers of JSON can hold.
    time: String,
    time_ns: u64,
    #[serde(flatten)]
    what: Body,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Body {
    Transaction {
        direction: &'static str,
        #[serde(flatten)]
        packet: PacketBody,
    },
    Dropped {
        #[serde(flatten)]
        reason: ReasonBody,
        #[serde(flatten)]
        packet: PacketBody,
    },
    Failure {
        #[serde(flatten)]
        reason: ReasonBody,
        #[serde(flatten)]
        protocol: ProtocolBody,
        source: Ipv4Addr,
        target: Ipv4Addr,
        value: u32,
    },
    Dump {
        direction: &'static str,
        length_bytes: u32,
        hex: String,
    },
    Station {
        change: &'static str,
        pid: u32,
        #[serde(flatten)]
        protocol: ProtocolBody,
        port: u16,
    },
}

#[derive(Debug, Serialize)]
struct ProtocolBody {
    protocol: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_name: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct ReasonBody {
    reason: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason_name: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct PacketBody {
    source: Ipv4Addr,
    target: Ipv4Addr,
    #[serde(flatten)]
    protocol: ProtocolBody,
    #[serde(flatten)]
    transport: TransportBody,
    length_bytes: u16,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum TransportBody {
    Icmp {
        icmp_type: u8,
        icmp_code: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        icmp_name: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        icmp_id: Option<u16>,
        #[serde(skip_serializing_if = "Option::is_none")]
        icmp_sequence: Option<u16>,
    },
    Ports {
        source_port: u16,
        target_port: u16,
        id: u16,
    },
    None {
        id: u16,
    },
}

/// Puts a line, with its newline.
pub fn json(out: &mut String, event: &Event) {
    let kind = event.kind();
    let named = Kinds::EACH.iter().find(|(each, _)| *each == kind);
    let line = Line {
        schema: SCHEMA,
        weir_version: env!("CARGO_PKG_VERSION"),
        kind: named.map_or("", |(_, name)| name),
        time: format!("{:.9}", timestamp(event.time_ns)),
        time_ns: event.time_ns,
        what: body(&event.what),
    };
    // Numbers and texts can always be written.
    out.push_str(&serde_json::to_string(&line).unwrap_or_default());
    out.push('\n');
}

fn body(what: &What) -> Body {
    match what {
        What::Transaction(Transaction { direction, packet: of }) => {
            Body::Transaction { direction: way(*direction), packet: packet(of) }
        }
        What::Dropped(dropped) => {
            Body::Dropped { reason: reason(dropped.reason), packet: packet(&dropped.packet) }
        }
        What::Failure(Failure { reason: why, protocol: number, source, target, value }) => {
            Body::Failure {
                reason: reason(*why),
                protocol: protocol(*number),
                source: *source,
                target: *target,
                value: *value,
            }
        }
        What::Dump(Dump { direction, length_bytes, bytes }) => Body::Dump {
            direction: way(*direction),
            length_bytes: *length_bytes,
            hex: bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            }),
        },
        What::Station(Station { change, pid, protocol: number, port }) => Body::Station {
            change: match change {
                Change::Attached => "attached",
                Change::Detached => "detached",
                Change::Died => "died",
                Change::Refused => "refused",
            },
            pid: *pid,
            protocol: protocol(*number),
            port: *port,
        },
    }
}

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "in",
        Direction::Out => "out",
    }
}

fn protocol(protocol: u8) -> ProtocolBody {
    ProtocolBody { protocol, protocol_name: protocol_name(protocol) }
}

fn reason(reason: Reason) -> ReasonBody {
    ReasonBody { reason: reason.number(), reason_name: reason.name() }
}

fn packet(packet: &Packet) -> PacketBody {
    PacketBody {
        source: packet.source,
        target: packet.target,
        protocol: protocol(packet.protocol),
        transport: match packet.transport {
            Transport::Icmp { kind, code, id, sequence } => TransportBody::Icmp {
                icmp_type: kind,
                icmp_code: code,
                icmp_name: icmp_name(kind),
                icmp_id: has_identifier(kind).then_some(id),
                icmp_sequence: has_identifier(kind).then_some(sequence),
            },
            Transport::Ports { source, target, id } => {
                TransportBody::Ports { source_port: source, target_port: target, id }
            }
            Transport::None { id } => TransportBody::None { id },
        },
        length_bytes: packet.length_bytes,
    }
}
