//! A host's address and its net, and how other addresses relate to it.

use std::net::Ipv4Addr;

/// An address and the length of its net's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    pub address: Ipv4Addr,
    /// The netmask: ones where the net's number is.
    mask: u32,
    /// A net of one or two addresses has no broadcast address (RFC 3021).
    has_broadcast: bool,
}

impl Net {
    /// Creates it; a prefix beyond 32 bits counts as 32.
    pub const fn new(address: Ipv4Addr, prefix_bits: u8) -> Net {
        let mask = match prefix_bits {
            0 => 0,
            1..32 => u32::MAX << (32 - prefix_bits),
            _ => u32::MAX,
        };
        Net { address, mask, has_broadcast: prefix_bits <= 30 }
    }

    /// Whether an address is on our net.
    #[inline]
    pub fn has(self, address: Ipv4Addr) -> bool {
        (u32::from(address) ^ u32::from(self.address)) & self.mask == 0
    }

    /// Whether it is the limited broadcast, the broadcast of our net, or the address of our net
    /// itself.
    #[inline]
    pub fn is_broadcast(self, address: Ipv4Addr) -> bool {
        let host = u32::from(address) & !self.mask;
        let all = host == !self.mask || host == 0;
        address.is_broadcast() || (self.has_broadcast && all && self.has(address))
    }

    /// Whether datagrams to it go to several hosts: broadcast, the old broadcast of zeroes (RFC
    /// 1812 4.2.3.1), multicast.
    pub fn is_many(self, address: Ipv4Addr) -> bool {
        address.is_unspecified() || address.is_multicast() || self.is_broadcast(address)
    }

    /// Whether it can be a single host's (RFC 1122 3.2.2): not in net zero, loopback, multicast or
    /// class E, and no broadcast.
    #[inline]
    pub fn is_host(self, address: Ipv4Addr) -> bool {
        let first = address.octets()[0];
        first != 0 && first != 127 && first < 224 && !self.is_broadcast(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_no_host_are_known() {
        let net = Net::new(Ipv4Addr::new(10, 9, 0, 1), 24);
        for no_host in ["0.0.0.1", "127.0.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1"] {
            assert!(!net.is_host(no_host.parse().expect("an address")), "{no_host}");
        }
        for all in [Ipv4Addr::new(10, 9, 0, 255), Ipv4Addr::new(10, 9, 0, 0)] {
            assert!(net.is_broadcast(all) && !net.is_host(all));
        }
        assert!(
            net.is_host(Ipv4Addr::new(10, 9, 0, 7)) && net.is_host(Ipv4Addr::new(192, 0, 2, 1))
        );
    }

    #[test]
    fn small_nets_have_no_broadcast_and_any_prefix_is_one() {
        let address = Ipv4Addr::new(10, 9, 0, 2);
        for bits in [31, 32, 33, 255] {
            assert!(!Net::new(address, bits).is_broadcast(address), "/{bits}");
        }
        assert!(Net::new(address, 30).is_broadcast(Ipv4Addr::new(10, 9, 0, 3)));
        assert!(Net::new(address, 0).has(Ipv4Addr::new(192, 0, 2, 1)));
        assert!(!Net::new(address, 255).has(Ipv4Addr::new(10, 9, 0, 3)));
    }
}
