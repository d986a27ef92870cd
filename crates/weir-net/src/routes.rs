//! The next hop of a datagram: its host, or a gateway, which a redirect may have named.

use crate::net::Net;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

/// Most destinations whose gateway is remembered; the oldest is replaced.
pub const MOST_GATEWAYS: usize = 256;
/// How long a redirect is valid: RFC 1122 (3.3.1.4) wants routes in use to be checked again.
pub const GATEWAY_TIME_NS: u64 = 600 * 1_000_000_000;

/// The next hop of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Its host, which is on our net.
    Direct,
    /// A gateway.
    Gateway(Ipv4Addr),
}

/// Why a redirect is refused (RFC 1122, 3.2.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectRefusal {
    /// The destination is on our net, or ourselves.
    OnOurNet,
    /// The new gateway is not on our net, is not a host, or is ourselves.
    NoGateway,
    /// The sender is not the gateway in use for that destination.
    NotFromGateway,
}

/// A route learnt from a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectedRoute {
    /// The destination.
    pub destination: Ipv4Addr,
    /// The gateway.
    pub gateway: Ipv4Addr,
    /// When it expires.
    pub until_ns: u64,
}

/// Our net, the default gateway, and the gateways that redirects named.
#[derive(Debug)]
pub struct Routes {
    net: Net,
    usual: Option<Ipv4Addr>,
    remembered: HashMap<Ipv4Addr, (Ipv4Addr, u64)>,
    order: VecDeque<Ipv4Addr>,
}

impl Routes {
    /// Creates it for a host on a net, with a gateway to other nets or none.
    pub fn new(net: Net, usual: Option<Ipv4Addr>) -> Routes {
        Routes { net, usual, remembered: HashMap::new(), order: VecDeque::new() }
    }

    /// Returns the next hop on the way to `destination`; none where there is no gateway.
    pub fn hop(&self, destination: Ipv4Addr, now_ns: impl Fn() -> u64) -> Option<NextHop> {
        if self.net.has(destination) {
            return Some(NextHop::Direct);
        }
        if !self.remembered.is_empty()
            && let Some((gateway, until_ns)) = self.remembered.get(&destination)
            && now_ns() < *until_ns
        {
            return Some(NextHop::Gateway(*gateway));
        }
        self.usual.map(NextHop::Gateway)
    }

    /// Remembers a redirect, if it is acceptable.
    ///
    /// # Errors
    /// Why it is not.
    pub fn redirect(
        &mut self,
        destination: Ipv4Addr,
        gateway: Ipv4Addr,
        from: Ipv4Addr,
        now_ns: u64,
    ) -> Result<(), RedirectRefusal> {
        if self.net.has(destination) || !self.net.is_host(destination) {
            return Err(RedirectRefusal::OnOurNet);
        }
        if !self.net.has(gateway) || !self.net.is_host(gateway) || gateway == self.net.address {
            return Err(RedirectRefusal::NoGateway);
        }
        if self.hop(destination, || now_ns) != Some(NextHop::Gateway(from)) {
            return Err(RedirectRefusal::NotFromGateway);
        }
        let until_ns = now_ns.saturating_add(GATEWAY_TIME_NS);
        if self.remembered.insert(destination, (gateway, until_ns)).is_none() {
            self.order.push_back(destination);
            if self.order.len() > MOST_GATEWAYS
                && let Some(oldest) = self.order.pop_front()
            {
                self.remembered.remove(&oldest);
            }
        }
        Ok(())
    }

    /// Returns the redirects that are still valid, oldest first.
    pub fn remembered(&self, now_ns: u64) -> impl Iterator<Item = RedirectedRoute> {
        let all = self.order.iter().filter_map(|destination| {
            let (gateway, until_ns) = *self.remembered.get(destination)?;
            Some(RedirectedRoute { destination: *destination, gateway, until_ns })
        });
        all.filter(move |known| known.until_ns > now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
    const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 7);
    const NET: Net = Net::new(OWN, 24);
    const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 5);

    fn routes() -> Routes {
        Routes::new(NET, Some(GATEWAY))
    }

    #[test]
    fn our_net_is_reached_directly_and_others_by_the_gateway() {
        let routes = routes();
        assert_eq!(routes.hop(OTHER, || 0), Some(NextHop::Direct));
        assert_eq!(routes.hop(FAR, || 0), Some(NextHop::Gateway(GATEWAY)));
        assert_eq!(Routes::new(NET, None).hop(FAR, || 0), None);
    }

    #[test]
    fn a_redirect_counts_for_ten_minutes() {
        let mut routes = routes();
        assert_eq!(routes.redirect(FAR, OTHER, GATEWAY, 5), Ok(()));
        assert_eq!(routes.hop(FAR, || 6), Some(NextHop::Gateway(OTHER)));
        assert_eq!(routes.remembered(6).count(), 1);
        assert_eq!(routes.hop(FAR, || 5 + GATEWAY_TIME_NS), Some(NextHop::Gateway(GATEWAY)));
        assert_eq!(routes.remembered(5 + GATEWAY_TIME_NS).count(), 0);
    }

    #[test]
    fn a_redirect_counts_only_from_the_gateway_in_use() {
        let mut routes = routes();
        assert_eq!(routes.redirect(FAR, OTHER, OTHER, 0), Err(RedirectRefusal::NotFromGateway));
        assert_eq!(routes.redirect(FAR, FAR, GATEWAY, 0), Err(RedirectRefusal::NoGateway));
        assert_eq!(routes.redirect(FAR, OWN, GATEWAY, 0), Err(RedirectRefusal::NoGateway));
        assert_eq!(routes.redirect(OTHER, OTHER, GATEWAY, 0), Err(RedirectRefusal::OnOurNet));
        assert_eq!(routes.redirect(FAR, OTHER, GATEWAY, 0), Ok(()));
        assert_eq!(routes.redirect(FAR, GATEWAY, GATEWAY, 0), Err(RedirectRefusal::NotFromGateway));
        assert_eq!(routes.redirect(FAR, GATEWAY, OTHER, 0), Ok(()), "who is used now may");
    }

    #[test]
    fn the_oldest_gateway_gives_way() {
        let mut routes = routes();
        for last in 0..=MOST_GATEWAYS as u32 {
            let far = Ipv4Addr::from(u32::from(FAR) + (last << 8));
            assert_eq!(routes.redirect(far, OTHER, GATEWAY, 0), Ok(()));
        }
        assert_eq!(routes.remembered(1).count(), MOST_GATEWAYS);
        assert_eq!(routes.hop(FAR, || 1), Some(NextHop::Gateway(GATEWAY)));
    }
}
