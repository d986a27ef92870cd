//! The ports at the start of a TCP segment or user datagram, and fragments that would hide them.

use super::ipv4::protocol;

/// Bytes of the TCP header without its options. A first fragment must have them.
///
/// RFC 1858 3.1 wants the fields that decide about a segment in one fragment, and names 16 bytes as
/// an example; here the checksum and the urgent pointer count too. No link makes such fragments:
/// the smallest MTU, 68 bytes, leaves 48 bytes after a header without options.
pub const LEAST_TCP_BYTES: usize = 20;
/// Where the checksum is in the TCP header.
pub const TCP_CHECKSUM_AT: usize = 16;

/// Source and destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The source port.
    pub source: u16,
    /// The destination port.
    pub destination: u16,
}

/// Reads the ports from the first bytes of a payload; `None` if they are missing, or the protocol
/// is neither TCP nor UDP. The station that has the port checks the rest.
#[inline]
pub fn of(protocol: u8, payload: &[u8]) -> Option<Ports> {
    let (protocol::TCP | protocol::UDP) = protocol else { return None };
    let &[source_high, source_low, high, low] = payload.first_chunk::<4>()?;
    Some(Ports {
        source: u16::from_be_bytes([source_high, source_low]),
        destination: u16::from_be_bytes([high, low]),
    })
}

/// Whether a first fragment (offset 0, more to come) of this many payload bytes hides its header:
/// TCP with less than [`LEAST_TCP_BYTES`] (RFC 1858 3, tiny fragments).
#[inline]
pub fn first_fragment_is_too_small(protocol: u8, payload_bytes: usize) -> bool {
    protocol == protocol::TCP && payload_bytes < LEAST_TCP_BYTES
}

/// Whether a fragment begins 8 bytes into TCP, where it could only overwrite the flags (RFC 1858
/// 3.2.2, RFC 3128).
#[inline]
pub fn offset_is_refused(protocol: u8, offset_bytes: u16) -> bool {
    protocol == protocol::TCP && offset_bytes == 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_tcp_and_udp() {
        let payload = [0x04, 0xd2, 0x00, 0x45, 9];
        let ports = Some(Ports { source: 1234, destination: 69 });
        assert_eq!(of(protocol::UDP, &payload), ports);
        assert_eq!(of(protocol::TCP, &payload[..4]), ports);
        assert_eq!(of(protocol::TCP, &payload[..3]), None);
        assert_eq!(of(protocol::UDP, &[]), None);
        assert_eq!(of(protocol::ICMP, &payload), None);
    }

    #[test]
    fn fragments_that_hide_the_header_of_tcp_are_told() {
        assert!(first_fragment_is_too_small(protocol::TCP, 16));
        assert!(!first_fragment_is_too_small(protocol::TCP, 24));
        assert!(!first_fragment_is_too_small(protocol::UDP, 8));
        assert!(offset_is_refused(protocol::TCP, 8));
        assert!(!offset_is_refused(protocol::TCP, 24));
        assert!(!offset_is_refused(protocol::ICMP, 8));
    }
}
