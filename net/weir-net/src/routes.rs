//! The next hop of a datagram: its host, or a gateway, which a redirect or GGP may have named.

mod announced;

pub use announced::{AnnouncedRoute, AnnouncedRoutes, MOST_ANNOUNCERS};

use crate::net::Net;
use crate::wire::ggp::Update;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

/// Most destinations whose gateway is remembered; the oldest is replaced.
pub const MOST_GATEWAYS: usize = 256;
/// How long a redirect or an announcement is valid: RFC 1122 (3.3.1.4) wants routes in use to be checked again.
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

/// Our net, the default gateway, and the gateways that redirects and announcements named.
#[derive(Debug)]
pub struct Routes {
    net: Net,
    usual: Option<Ipv4Addr>,
    remembered: HashMap<Ipv4Addr, (Ipv4Addr, u64)>,
    order: VecDeque<Ipv4Addr>,
    announced: AnnouncedRoutes,
}

impl Routes {
    /// Creates it for a host on a net, with a gateway to other nets or none.
    pub fn new(net: Net, usual: Option<Ipv4Addr>) -> Routes {
        let announced = AnnouncedRoutes::default();
        Routes { net, usual, remembered: HashMap::new(), order: VecDeque::new(), announced }
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
        self.announced.gateway_to(destination, now_ns).or(self.usual).map(NextHop::Gateway)
    }

    /// Whether an address is another host's on our net.
    fn may_be_gateway(&self, address: Ipv4Addr) -> bool {
        self.net.has(address) && self.net.is_host(address) && address != self.net.address
    }

    /// Remembers what a gateway announced. Returns false if it can be none.
    pub fn announce(&mut self, gateway: Ipv4Addr, update: &Update<'_>, now_ns: u64) -> bool {
        let accepted = self.may_be_gateway(gateway);
        if accepted {
            self.announced.announce(gateway, update, now_ns);
        }
        accepted
    }

    /// Returns the announced route in use to each net, in the order of the nets.
    pub fn announced(&self, now_ns: u64) -> Vec<AnnouncedRoute> {
        self.announced.routes(now_ns)
    }

    /// Remembers a redirect, if it is acceptable.
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
        if !self.may_be_gateway(gateway) {
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
    use crate::wire::ggp::Message;

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

    /// An update of these nets of class B, 128.0.0.0 and so on, each with its distance.
    fn update(nets: &[(u8, u8)]) -> Vec<u8> {
        let groups = nets.iter().flat_map(|(net, distance)| [*distance, 1, 128, *net]);
        [12, 0, 0, 1, 0, nets.len() as u8].into_iter().chain(groups).collect()
    }

    fn announce(routes: &mut Routes, gateway: Ipv4Addr, nets: &[(u8, u8)], now_ns: u64) -> bool {
        let bytes = update(nets);
        let Ok(Message::RoutingUpdate(update)) = Message::check(&bytes) else {
            panic!("{bytes:?}")
        };
        routes.announce(gateway, &update, now_ns)
    }

    const NET_5: Ipv4Addr = Ipv4Addr::new(128, 5, 7, 1);

    #[test]
    fn the_gateway_that_announces_the_shortest_distance_is_used() {
        let mut routes = routes();
        assert!(announce(&mut routes, OTHER, &[(4, 0), (5, 3)], 0));
        let near = Ipv4Addr::new(10, 9, 0, 8);
        assert!(announce(&mut routes, near, &[(5, 2), (6, 255)], 0));
        assert_eq!(routes.hop(NET_5, || 1), Some(NextHop::Gateway(near)));
        let via = |net| Ipv4Addr::new(128, net, 0, 9);
        assert_eq!(routes.hop(via(4), || 1), Some(NextHop::Gateway(OTHER)));
        assert_eq!(routes.hop(via(6), || 1), Some(NextHop::Gateway(GATEWAY)), "unreachable there");
        assert_eq!(routes.hop(FAR, || 1), Some(NextHop::Gateway(GATEWAY)), "nobody announces it");
        let known: Vec<_> =
            routes.announced(1).iter().map(|it| (it.gateway, it.distance)).collect();
        assert_eq!(known, [(OTHER, 0), (near, 2)]);
        // What a gateway does not name again is gone, and the next best is used.
        assert!(announce(&mut routes, near, &[], 2));
        assert_eq!(routes.hop(NET_5, || 3), Some(NextHop::Gateway(OTHER)));
        assert_eq!(routes.hop(NET_5, || GATEWAY_TIME_NS), Some(NextHop::Gateway(GATEWAY)));
        assert_eq!(routes.announced(GATEWAY_TIME_NS), []);
    }

    #[test]
    fn only_another_host_of_our_net_announces_and_our_net_stays_direct() {
        let mut routes = routes();
        for nobody in [OWN, FAR, Ipv4Addr::new(10, 9, 0, 255), Ipv4Addr::UNSPECIFIED] {
            assert!(!announce(&mut routes, nobody, &[(5, 0)], 0), "{nobody}");
        }
        assert_eq!(routes.announced(1), []);
        let ours = [12, 0, 0, 1, 0, 1, 0, 1, 10];
        let Ok(Message::RoutingUpdate(ours)) = Message::check(&ours) else { panic!("an update") };
        assert!(routes.announce(OTHER, &ours, 0));
        assert_eq!(routes.hop(GATEWAY, || 1), Some(NextHop::Direct));
        assert_eq!(routes.hop([10, 7, 7, 7].into(), || 1), Some(NextHop::Gateway(OTHER)));
    }

    #[test]
    fn a_redirect_of_the_announced_gateway_counts_for_its_host() {
        let mut routes = routes();
        assert!(announce(&mut routes, OTHER, &[(5, 0)], 0));
        let better = Ipv4Addr::new(10, 9, 0, 9);
        let refused = Err(RedirectRefusal::NotFromGateway);
        assert_eq!(routes.redirect(NET_5, better, GATEWAY, 1), refused);
        assert_eq!(routes.redirect(NET_5, better, OTHER, 1), Ok(()));
        assert_eq!(routes.hop(NET_5, || 2), Some(NextHop::Gateway(better)));
        assert_eq!(routes.hop([128, 5, 7, 2].into(), || 2), Some(NextHop::Gateway(OTHER)));
    }

    #[test]
    fn announcements_are_bounded_and_the_gateway_not_heard_for_longest_gives_way() {
        let mut routes = routes();
        let gateway = |number: usize| Ipv4Addr::from(u32::from(OTHER) + number as u32);
        for number in 0..MOST_ANNOUNCERS {
            assert!(announce(&mut routes, gateway(number), &[(number as u8, 0)], 0));
        }
        assert!(announce(&mut routes, gateway(0), &[(0, 1)], 1), "it is heard again");
        assert!(announce(&mut routes, gateway(99), &[(99, 0)], 2));
        let nets: Vec<u8> =
            routes.announced(3).iter().map(|it| it.network.address().octets()[1]).collect();
        let kept = (0..MOST_ANNOUNCERS as u8).filter(|number| *number != 1).chain([99]);
        assert!(nets.iter().copied().eq(kept), "{nets:?}");
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
