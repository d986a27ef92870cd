//! Formats an event as a line of JSON. The event types declare which fields it has.

use super::super::event::{EventBody, LogEvent};
use super::super::kinds::Kinds;
use super::super::packet::Transport;
use super::super::reason::EventReason;
use super::text::rfc3339;
use super::{ggp_has_sequence, ggp_name, has_identifier, icmp_name, protocol_name};
use serde::ser::{SerializeMap, Serializer};
use serde::{Serialize, ser};
use std::fmt::Write;

/// Name of the lines' schema.
pub const SCHEMA: &str = "weir.net.log/1";

/// One line; fields that the event does not have are left out.
#[derive(Debug, Serialize)]
struct JsonLine<'a> {
    schema: &'static str,
    weir_version: &'static str,
    kind: &'a str,
    /// RFC 3339, in UTC: some JSON readers cannot hold a number of nanoseconds.
    time: String,
    time_ns: u64,
    #[serde(flatten)]
    what: &'a EventBody,
}

/// Appends a line with its newline.
pub fn json(out: &mut String, event: &LogEvent) {
    let kind = event.kind();
    let named = Kinds::EACH.iter().find(|(each, _)| *each == kind);
    let line = JsonLine {
        schema: SCHEMA,
        weir_version: env!("CARGO_PKG_VERSION"),
        kind: named.map_or("", |(_, name)| name),
        time: rfc3339(event.time_ns),
        time_ns: event.time_ns,
        what: &event.what,
    };
    // Serialising numbers and strings cannot fail.
    out.push_str(&serde_json::to_string(&line).unwrap_or_default());
    out.push('\n');
}

/// Writes a number under `key`, and its name, where it has one, under `name_key`.
fn put_named<S: Serializer>(
    serializer: S,
    (key, number): (&'static str, u8),
    (name_key, name): (&'static str, Option<&str>),
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry(key, &number)?;
    if let Some(name) = name {
        map.serialize_entry(name_key, name)?;
    }
    map.end()
}

/// Writes a protocol: its number, and its name where it has one.
pub fn put_protocol<S: Serializer>(protocol: &u8, serializer: S) -> Result<S::Ok, S::Error> {
    let name = protocol_name(*protocol);
    put_named(serializer, ("protocol", *protocol), ("protocol_name", name))
}

/// Serialises bytes in hexadecimal.
pub fn put_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(hex, "{byte:02x}").map_err(ser::Error::custom)?;
    }
    serializer.serialize_str(&hex)
}

impl Serialize for EventReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        put_named(serializer, ("reason", self.number()), ("reason_name", self.name()))
    }
}

/// Writes what a message of ICMP or GGP is, and nothing of other packets.
pub fn put_message<S: Serializer>(transport: &Transport, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    put_fields(transport, &mut map)?;
    map.end()
}

fn put_fields<M: SerializeMap>(transport: &Transport, map: &mut M) -> Result<(), M::Error> {
    match transport {
        Transport::Icmp { kind, code, id, sequence } => {
            map.serialize_entry("icmp_type", kind)?;
            map.serialize_entry("icmp_code", code)?;
            if let Some(name) = icmp_name(*kind) {
                map.serialize_entry("icmp_name", name)?;
            }
            if has_identifier(*kind) {
                map.serialize_entry("icmp_id", id)?;
                map.serialize_entry("icmp_sequence", sequence)?;
            }
        }
        Transport::Ggp { kind, sequence, .. } => {
            map.serialize_entry("ggp_type", kind)?;
            if let Some(name) = ggp_name(*kind) {
                map.serialize_entry("ggp_name", name)?;
            }
            if ggp_has_sequence(*kind) {
                map.serialize_entry("ggp_sequence", sequence)?;
            }
        }
        Transport::Ports { .. } | Transport::None { .. } => {}
    }
    Ok(())
}

impl Serialize for Transport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        put_fields(self, &mut map)?;
        if let Transport::Ports { source, target, .. } = self {
            map.serialize_entry("source_port", source)?;
            map.serialize_entry("target_port", target)?;
        }
        if let Transport::Ggp { id, .. } | Transport::Ports { id, .. } | Transport::None { id } =
            self
        {
            map.serialize_entry("id", id)?;
        }
        map.end()
    }
}
