//! The fields of a datagram that its sender chooses.

use rustix::time::{ClockId, clock_gettime};
use std::net::Ipv4Addr;

/// Default time to live (RFC 1700, "IP time to live").
pub const DEFAULT_TTL: u8 = 64;

/// Returns milliseconds since midnight, universal time, as ICMP and IP count them (RFC 792, page
/// 17).
pub fn ms_since_midnight() -> u32 {
    let now = clock_gettime(ClockId::Realtime);
    let of_day = now.tv_sec.rem_euclid(86_400) as u32;
    of_day * 1000 + (now.tv_nsec / 1_000_000) as u32
}

/// What a sender of TCP leaves to the device, where that does it ([`crate::message::Attached`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Nothing.
    #[default]
    None,
    /// The checksum: its field has the sum of the pseudo-header alone.
    Checksum,
    /// The checksum, and to cut a long segment into some that carry this many bytes at most.
    Segments(u16),
}

/// A datagram to send, as its sender describes it. The switch adds the source, the identification,
/// the fragmentation and the header's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// The destination.
    pub destination: Ipv4Addr,
    /// The protocol of the payload, see [`crate::wire::ipv4::protocol`].
    pub protocol: u8,
    /// Type of service.
    pub tos: u8,
    /// Time to live: gateways that it may pass.
    pub ttl: u8,
    /// Nobody may fragment it, the switch included.
    pub dont_fragment: bool,
    /// What is left to the device.
    pub offload: Offload,
    /// Options of its header, at most 40 bytes, before addresses or times are filled in.
    pub options: &'a [u8],
}

impl Outgoing<'_> {
    /// Makes an ordinary datagram: type of service 0, [`DEFAULT_TTL`], no options.
    pub const fn new(destination: Ipv4Addr, protocol: u8) -> Outgoing<'static> {
        Outgoing {
            destination,
            protocol,
            tos: 0,
            ttl: DEFAULT_TTL,
            dont_fragment: false,
            offload: Offload::None,
            options: &[],
        }
    }
}

impl Default for Outgoing<'_> {
    /// Makes an ordinary datagram without destination, of protocol 0.
    fn default() -> Self {
        Outgoing::new(Ipv4Addr::UNSPECIFIED, 0)
    }
}
