//! The header fields of a packet, as events have them.

use super::format;
use crate::wire::ipv4::Header;
use serde::Serialize;
use std::net::Ipv4Addr;

/// Detail bit: the fields above the IP header are unknown.
const BARE: u16 = 0x80;

/// The fields above a packet's IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Protocol 1.
    Icmp {
        /// Type of the message.
        kind: u8,
        /// Code of the type.
        code: u8,
        /// Bytes 4 and 5: the identifier, for types that have one.
        id: u16,
        /// Bytes 6 and 7: the sequence number, for types that have one.
        sequence: u16,
    },
    /// Protocol 3.
    Ggp {
        /// Type of the message.
        kind: u8,
        /// Bytes 2 and 3: the sequence number, for types that have one.
        sequence: u16,
        /// The identification of the IP header.
        id: u16,
    },
    /// TCP or UDP (protocols 6, 17).
    Ports {
        /// Source port.
        source: u16,
        /// Destination port.
        target: u16,
        /// The identification of the IP header.
        id: u16,
    },
    /// Any other protocol, a later fragment, or a packet too short to tell.
    None {
        /// The identification of the IP header.
        id: u16,
    },
}

/// The header fields of a packet that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Packet {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub target: Ipv4Addr,
    /// Protocol number.
    #[serde(flatten, serialize_with = "format::put_protocol")]
    pub protocol: u8,
    /// Fields above IP. The variant must be that of the protocol, or `None`.
    #[serde(flatten)]
    pub transport: Transport,
    /// Length of the whole packet, with its IP header.
    pub length_bytes: u16,
}

impl Packet {
    /// Parses packet bytes, which may be anything, for the log; fields that cannot be read are
    /// zero.
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Packet {
        let length_bytes = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        let Some(header) = bytes.first_chunk::<20>().filter(|header| header[0] >> 4 == 4) else {
            let nobody = Ipv4Addr::UNSPECIFIED;
            let transport = Transport::None { id: 0 };
            return Packet { source: nobody, target: nobody, protocol: 0, transport, length_bytes };
        };
        let header_bytes = usize::from(header[0] & 15) * 4;
        let header = Header::of_checked(header);
        let above = bytes.get(header_bytes.max(20)..).filter(|_| header.offset_bytes == 0);
        Packet { length_bytes, ..Packet::of_parts(&header, above.unwrap_or_default()) }
    }

    /// Takes the fields from a parsed header and the first bytes of the payload, which may be short.
    #[inline(always)]
    pub fn of_parts(header: &Header, above: &[u8]) -> Packet {
        let transport = Transport::of_payload(header.protocol, header.id, above);
        Packet {
            source: header.source,
            target: header.destination,
            protocol: header.protocol,
            transport,
            length_bytes: header.total_bytes,
        }
    }

    /// Returns bits of the detail, and two words with the rest except the protocol.
    #[inline(always)]
    pub(crate) fn words(&self) -> (u16, [u64; 2]) {
        let addresses = u64::from(self.source.to_bits()) << 32 | u64::from(self.target.to_bits());
        let (a, b, c, bare) = match self.transport {
            Transport::Icmp { kind, code, id, sequence } => {
                (u16::from(kind) << 8 | u16::from(code), id, sequence, 0)
            }
            Transport::Ggp { kind, sequence, id } => (u16::from(kind), sequence, id, 0),
            Transport::Ports { source, target, id } => (source, target, id, 0),
            Transport::None { id } => (0, 0, id, BARE),
        };
        let rest = u64::from(self.length_bytes) << 48
            | u64::from(a) << 32
            | u64::from(b) << 16
            | u64::from(c);
        (bare, [addresses, rest])
    }

    /// Reads what [`Packet::words`] returned, and the protocol in the high byte of the detail.
    pub(crate) fn of_words(detail: u16, [addresses, rest]: [u64; 2]) -> Packet {
        let (a, b, c) = ((rest >> 32) as u16, (rest >> 16) as u16, rest as u16);
        let protocol = (detail >> 8) as u8;
        let transport = match (protocol, detail & BARE) {
            (1, 0) => Transport::Icmp { kind: (a >> 8) as u8, code: a as u8, id: b, sequence: c },
            (3, 0) => Transport::Ggp { kind: a as u8, sequence: b, id: c },
            (6 | 17, 0) => Transport::Ports { source: a, target: b, id: c },
            _ => Transport::None { id: c },
        };
        Packet {
            source: Ipv4Addr::from_bits((addresses >> 32) as u32),
            target: Ipv4Addr::from_bits(addresses as u32),
            protocol,
            transport,
            length_bytes: (rest >> 48) as u16,
        }
    }
}

impl Transport {
    /// Reads the first bytes of a payload, which may be short or anything. `id` is that of its IP
    /// header.
    #[inline(always)]
    pub(crate) fn of_payload(protocol: u8, id: u16, above: &[u8]) -> Transport {
        match (protocol, above, above.first_chunk::<8>()) {
            (3, [kind, _, high, low, ..], _) => {
                let sequence = u16::from_be_bytes([*high, *low]);
                Transport::Ggp { kind: *kind, sequence, id }
            }
            (_, _, Some(above)) => Transport::of(protocol, id, above),
            _ => Transport::None { id },
        }
    }

    #[inline(always)]
    fn of(protocol: u8, id: u16, above: &[u8; 8]) -> Transport {
        let pair = |at: usize| u16::from_be_bytes([above[at], above[at + 1]]);
        match protocol {
            1 => Transport::Icmp { kind: above[0], code: above[1], id: pair(4), sequence: pair(6) },
            6 | 17 => Transport::Ports { source: pair(0), target: pair(2), id },
            _ => Transport::None { id },
        }
    }
}
