//! The nets that gateways announce by GGP (RFC 823), and which gateway is used for each.
//!
//! A gateway's update replaces what it said before. Of several gateways that announce a net, the one
//! with the shortest distance is used. Updates come when something changes, and gateways are not
//! polled here: what one said counts for a limited time.

use super::GATEWAY_TIME_NS;
use crate::wire::ggp::{Network, Update};
use std::net::Ipv4Addr;

/// Most gateways remembered; a further one replaces the one not heard for longest.
pub const MOST_ANNOUNCERS: usize = 16;
/// A net at this distance cannot be reached.
const UNREACHABLE: u8 = 255;

/// A net, and a gateway that announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncedRoute {
    /// The net.
    pub network: Network,
    /// Hops from the gateway to the net, as announced. From here it is one more.
    pub distance: u8,
    /// The gateway, on our net.
    pub gateway: Ipv4Addr,
    /// When it expires.
    pub until_ns: u64,
}

/// What one gateway announced last.
#[derive(Debug)]
struct Announcement {
    gateway: Ipv4Addr,
    until_ns: u64,
    /// Sorted by net.
    networks: Vec<(Network, u8)>,
}

/// The announcements of all gateways, the one heard last at the end.
#[derive(Debug, Default)]
pub struct AnnouncedRoutes {
    announcements: Vec<Announcement>,
}

impl AnnouncedRoutes {
    /// Keeps a gateway's update in place of what it said before.
    pub fn announce(&mut self, gateway: Ipv4Addr, update: &Update<'_>, now_ns: u64) {
        let all = &mut self.announcements;
        let known = all.iter().position(|it| it.gateway == gateway);
        let replaced = known.or((all.len() >= MOST_ANNOUNCERS).then_some(0));
        let mut networks = replaced.map_or_else(Vec::new, |place| all.remove(place).networks);
        networks.clear();
        networks.extend(update.networks());
        networks.sort();
        let until_ns = now_ns.saturating_add(GATEWAY_TIME_NS);
        all.push(Announcement { gateway, until_ns, networks });
    }

    /// Returns the gateway to the net of `destination`; `None` where none announces that.
    pub fn gateway_to(
        &self,
        destination: Ipv4Addr,
        now_ns: impl FnOnce() -> u64,
    ) -> Option<Ipv4Addr> {
        if self.announcements.is_empty() {
            return None;
        }
        let (network, now_ns) = (Network::of(destination)?, now_ns());
        let living = self.announcements.iter().filter(|it| it.until_ns > now_ns);
        let routes = living.filter_map(|it| {
            let place = it.networks.binary_search_by_key(&network, |(network, _)| *network).ok()?;
            Some((it.networks[place].1, it.gateway))
        });
        let (_, gateway) = routes.filter(|(distance, _)| *distance < UNREACHABLE).min()?;
        Some(gateway)
    }

    /// Returns the route in use to each net, in the order of the nets.
    pub fn routes(&self, now_ns: u64) -> Vec<AnnouncedRoute> {
        let living = self.announcements.iter().filter(|it| it.until_ns > now_ns);
        let mut routes: Vec<AnnouncedRoute> = living
            .flat_map(|it| {
                let (gateway, until_ns) = (it.gateway, it.until_ns);
                let route = move |(network, distance)| AnnouncedRoute {
                    network,
                    distance,
                    gateway,
                    until_ns,
                };
                it.networks.iter().copied().map(route)
            })
            .filter(|route| route.distance < UNREACHABLE)
            .collect();
        routes.sort_by_key(|route| (route.network, route.distance, route.gateway));
        routes.dedup_by_key(|route| route.network);
        routes
    }
}
