//! Where a host is: its address and its net, and what other addresses are to it.

use std::net::Ipv4Addr;

/// An address and the length of its net's prefix.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    address: Ipv4Addr,
    /// At most 32.
    prefix_bits: u8,
}

impl Place {
    /// A prefix beyond 32 bits has 32.
    pub fn new(address: Ipv4Addr, prefix_bits: u8) -> Place {
        Place { address, prefix_bits: prefix_bits.min(32) }
    }

    /// Ones where the host part is.
    fn host_part(&self) -> u32 {
        u32::MAX.checked_shr(u32::from(self.prefix_bits)).unwrap_or(0)
    }

    /// Whether it is on our net.
    pub fn is_near(&self, address: Ipv4Addr) -> bool {
        (u32::from(address) ^ u32::from(self.address)) & !self.host_part() == 0
    }

    /// Whether it is that of our net itself or of all hosts on it. A net of two addresses or one
    /// has neither (RFC 3021).
    fn is_of_net(&self, address: Ipv4Addr) -> bool {
        let part = self.host_part();
        let host = u32::from(address) & part;
        self.prefix_bits <= 30 && self.is_near(address) && (host == 0 || host == part)
    }

    /// Whether datagrams to it are for many: broadcast, the old broadcast of zeroes (RFC 1812
    /// 4.2.3.1), multicast.
    pub fn is_many(&self, address: Ipv4Addr) -> bool {
        address.is_broadcast()
            || address.is_unspecified()
            || address.is_multicast()
            || self.is_of_net(address)
    }

    /// Whether it defines a single host (RFC 1122 3.2.2): none of net zero, loopback, multicast,
    /// class E and broadcasts.
    pub fn is_one_host(&self, address: Ipv4Addr) -> bool {
        let first = address.octets()[0];
        first != 0 && first != 127 && first < 224 && !self.is_of_net(address)
    }
}
