//! Packets as bytes. Input may be any bytes: a check makes a view, and only a view is read.

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod ggp;
pub mod icmp;
pub mod ipv4;
pub mod options;
pub mod ports;
pub mod udp;

use std::net::Ipv4Addr;

#[inline]
fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}
