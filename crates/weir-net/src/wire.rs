//! Packets as bytes. Any bytes may come: a view is made by a check, and only then read.

pub mod checksum;
pub mod ggp;
pub mod icmp;
pub mod ipv4;
pub mod options;
pub mod ports;
pub mod udp;
