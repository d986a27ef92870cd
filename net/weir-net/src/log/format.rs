//! Output formats for events: text, JSON lines, and capture files.

mod json;
mod pcap;
mod text;

pub use json::{SCHEMA, json};
pub(super) use json::{put_hex, put_message, put_protocol};
pub use pcap::{pcap, pcap_header};
pub use text::{Zone, text};

/// Returns the name of a protocol number, if it has one here.
pub fn protocol_name(protocol: u8) -> Option<&'static str> {
    match protocol {
        1 => Some("icmp"),
        3 => Some("ggp"),
        6 => Some("tcp"),
        17 => Some("udp"),
        _ => None,
    }
}

/// Returns the name of an ICMP message type (RFC 792, 1256), if it has one here.
pub fn icmp_name(kind: u8) -> Option<&'static str> {
    match kind {
        0 => Some("echo reply"),
        3 => Some("unreachable"),
        4 => Some("source quench"),
        5 => Some("redirect"),
        8 => Some("echo request"),
        9 => Some("router advertisement"),
        10 => Some("router solicitation"),
        11 => Some("time exceeded"),
        12 => Some("parameter problem"),
        13 => Some("timestamp request"),
        14 => Some("timestamp reply"),
        15 => Some("information request"),
        16 => Some("information reply"),
        17 => Some("address mask request"),
        18 => Some("address mask reply"),
        _ => None,
    }
}

/// Returns the name of a GGP message type (RFC 823), if it has one.
pub fn ggp_name(kind: u8) -> Option<&'static str> {
    match kind {
        0 => Some("echo reply"),
        2 => Some("acknowledgement"),
        8 => Some("echo"),
        9 => Some("interface status"),
        10 => Some("negative acknowledgement"),
        12 => Some("routing update"),
        _ => None,
    }
}

/// Whether a GGP message type has a sequence number.
pub fn ggp_has_sequence(kind: u8) -> bool {
    matches!(kind, 2 | 10 | 12)
}

/// Whether an ICMP message type has an identifier and a sequence number.
pub fn has_identifier(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13..=18)
}
