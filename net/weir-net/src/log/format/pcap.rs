//! Writes dumps as a capture file: the classic format with times in ns (draft-ietf-opsawg-pcap,
//! 2024), link type RAW, in which packets begin with their IP header.

use super::super::MOST_SNAP_BYTES;
use super::super::event::{EventBody, LogEvent};

/// Magic number for times in ns; its byte order is this machine's.
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const RAW: u32 = 101;

/// Returns the 24 bytes at the start of a capture file.
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

/// Appends a dump to a capture file: 16 bytes and the packet. Returns false for events without
/// bytes.
pub fn pcap(out: &mut Vec<u8>, event: &LogEvent) -> bool {
    let EventBody::Dump(dump) = &event.what else { return false };
    // The format has 32 bits for seconds, which last until 2106.
    let seconds = (event.time_ns / 1_000_000_000) as u32;
    let rest_ns = (event.time_ns % 1_000_000_000) as u32;
    // At most 64 KiB are kept; the stated length of the whole packet may be anything.
    let kept = dump.bytes.len() as u32;
    for word in [seconds, rest_ns, kept, dump.length_bytes.max(kept)] {
        out.extend_from_slice(&word.to_ne_bytes());
    }
    out.extend_from_slice(&dump.bytes);
    true
}
