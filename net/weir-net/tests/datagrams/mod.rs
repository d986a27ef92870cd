//! Datagrams as tests write them, and one that Linux sent.

#![allow(dead_code, reason = "each test program uses a part")]

use std::net::Ipv4Addr;
use weir_net::wire::ipv4::Header;

/// A user datagram of 60 bytes of letters in two fragments, as Linux sends it through an MTU of 68.
pub const FIRST: &str = "45000044b80c200040111e99c0000201c0000202823500450044e9ba414243444546\
     4748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768";
pub const LAST: &str = "45000028b80c000640113eafc0000201c0000202696a6b6c6d6e6f70717273747576\
     7778797a7b7c";

/// The bytes that these digits say.
pub fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// The header of a whole datagram, without a length.
pub fn header(
    id: u16,
    protocol: u8,
    source: impl Into<Ipv4Addr>,
    destination: impl Into<Ipv4Addr>,
) -> Header {
    Header {
        tos: 0,
        total_bytes: 0,
        id,
        dont_fragment: false,
        more_fragments: false,
        offset_bytes: 0,
        ttl: 64,
        protocol,
        source: source.into(),
        destination: destination.into(),
    }
}

/// The datagram with this payload, its length filled in.
pub fn datagram(header: Header, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20 + options.len().next_multiple_of(4)];
    let total_bytes = u16::try_from(bytes.len() + payload.len()).expect("a short one");
    let written = Header { total_bytes, ..header }.emit(options, &mut bytes);
    assert_eq!(written, Some(bytes.len()));
    bytes.extend_from_slice(payload);
    bytes
}
