//! What a user of IP says of a datagram that it wants sent.

use std::net::Ipv4Addr;

/// Time to live of datagrams of which nobody says otherwise (RFC 1700, "IP time to live").
pub const DEFAULT_TTL: u8 = 64;

/// What a user of IP says of a datagram to send. Its source, its identification, how it is
/// fragmented and its header's checksum are the switch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Whom it is for.
    pub destination: Ipv4Addr,
    /// What the payload is, see [`crate::wire::ipv4::protocol`].
    pub protocol: u8,
    /// Type of service.
    pub tos: u8,
    /// Time to live: gateways that it may pass.
    pub ttl: u8,
    /// Nobody may fragment it, the switch included.
    pub dont_fragment: bool,
    /// Options of its header, at most 40 bytes; what must be put into them on sending is not there
    /// yet.
    pub options: &'a [u8],
}

impl Outgoing<'_> {
    /// An ordinary datagram: type of service 0, [`DEFAULT_TTL`], no options.
    pub const fn new(destination: Ipv4Addr, protocol: u8) -> Outgoing<'static> {
        Outgoing {
            destination,
            protocol,
            tos: 0,
            ttl: DEFAULT_TTL,
            dont_fragment: false,
            options: &[],
        }
    }
}

impl Default for Outgoing<'_> {
    /// An ordinary datagram, for nobody yet, of protocol 0.
    fn default() -> Self {
        Outgoing::new(Ipv4Addr::UNSPECIFIED, 0)
    }
}
