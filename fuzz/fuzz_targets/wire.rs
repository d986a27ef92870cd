//! Packets: what holds for any bytes, see there; with the checksum as sent, and put right.

#![no_main]

#[path = "../../net/weir-net/tests/any_packet/mod.rs"]
mod any_packet;

use libfuzzer_sys::fuzz_target;
use weir_net::wire::checksum;

fuzz_target!(|bytes: &[u8]| {
    any_packet::read_all(bytes);
    let mut bytes = bytes.to_vec();
    let header_bytes = bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    if (20..=bytes.len()).contains(&header_bytes) {
        bytes[10..12].fill(0);
        let checksum = checksum::of(&bytes[..header_bytes]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        any_packet::read_all(&bytes);
    }
});
