//! Dumps as a capture file: the classic format with times in ns (draft-ietf-opsawg-pcap, 2024),
//! link type RAW, whose packets begin with their IP header.

use super::super::MOST_SNAP_BYTES;
use super::super::event::{Event, What};

/// Says that times are in ns, and the order of bytes, which is this machine's.
const MAGIC_NS: u32 = 0xa1b2_3c4d;
/// LINKTYPE_RAW.
const RAW: u32 = 101;

/// The 24 bytes that a capture file begins with.
pub fn pcap_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&MAGIC_NS.to_ne_bytes());
    // Version 2.4; then two words that are always 0.
    header[4..6].copy_from_slice(&2_u16.to_ne_bytes());
    header[6..8].copy_from_slice(&4_u16.to_ne_bytes());
    header[16..20].copy_from_slice(&(MOST_SNAP_BYTES as u32).to_ne_bytes());
    header[20..].copy_from_slice(&RAW.to_ne_bytes());
    header
}

/// Puts a dump into a capture file: 16 bytes and the packet. Events without bytes are not for one.
/// Whether it was put.
pub fn pcap(out: &mut Vec<u8>, event: &Event) -> bool {
    let What::Dump(dump) = &event.what else { return false };
    // As the format has it: 32 bits of seconds, until 2106.
    let seconds = (event.time_ns / 1_000_000_000) as u32;
    let rest_ns = (event.time_ns % 1_000_000_000) as u32;
    // What is kept is never more than 64 KiB; what is told of the whole may be anything.
    let kept = dump.bytes.len() as u32;
    for word in [seconds, rest_ns, kept, dump.length_bytes.max(kept)] {
        out.extend_from_slice(&word.to_ne_bytes());
    }
    out.extend_from_slice(&dump.bytes);
    true
}
