//! A host's part of GGP: echoes, routing updates, and what is refused.

use crate::{FAR, PEER, PREFIX_BITS, US, World, datagram, header};
use std::net::Ipv4Addr;
use weir_net::icmp::{IcmpCounts, IcmpSettings, TokenRate};
use weir_net::routes::{AnnouncedRoute, GATEWAY_TIME_NS, MOST_ANNOUNCERS};
use weir_net::wire::ggp::{Message, Network, emit_update};
use weir_net::wire::ipv4::{Header, protocol};

fn settings() -> IcmpSettings {
    IcmpSettings { ggp: true, ..IcmpSettings::new(US, PREFIX_BITS) }
}

fn world() -> World {
    World::new(settings())
}

fn net(text: &str) -> Network {
    Network::of(text.parse().expect("an address")).expect("a net")
}

/// A routing update as a payload.
fn update(sequence: u16, need: bool, groups: &[(u8, &[Network])]) -> Vec<u8> {
    let mut bytes = [0; 1000];
    let written = emit_update(sequence, need, groups, &mut bytes).expect("an update");
    bytes[..written].to_vec()
}

impl World {
    fn take_ggp(&mut self, source: Ipv4Addr, payload: &[u8]) {
        let header = Header { protocol: protocol::GGP, source, ..header() };
        self.take(&datagram(header, &[], payload));
    }

    fn routes(&self) -> Vec<AnnouncedRoute> {
        self.heard.announced.routes(1)
    }

    /// The payloads that were sent since, all to this host, of GGP, of type of service 0.
    fn said(&mut self, to: Ipv4Addr) -> Vec<Vec<u8>> {
        let sent = std::mem::take(&mut self.heard.sent);
        for answer in &sent {
            assert_eq!((answer.destination, answer.protocol, answer.tos), (to, protocol::GGP, 0));
        }
        sent.into_iter().map(|answer| answer.payload).collect()
    }
}

#[test]
fn echoes_come_back_with_all_that_was_in_them() {
    let mut world = world();
    for echo in [&[8, 0, 0, 0][..], &[8, 1, 2, 3], &[8, 0, 0, 0, 9, 9, 9]] {
        world.take_ggp(PEER, echo);
        let reply = [&[0], &echo[1..]].concat();
        assert_eq!(world.said(PEER), [reply]);
    }
    assert_eq!(world.counts().ggp_echoes_answered, 3);
}

#[test]
fn without_ggp_nothing_is_said() {
    let mut world = World::default();
    world.take_ggp(PEER, &[8, 0, 0, 0]);
    world.take_ggp(PEER, &update(1, true, &[(0, &[net("11.0.0.0")])]));
    world.expect_silence(IcmpCounts { dropped_protocol: 2, ..IcmpCounts::default() });
    assert_eq!(world.routes(), []);
}

#[test]
fn an_update_is_acknowledged_and_kept() {
    let mut world = world();
    world.take_ggp(PEER, &update(258, false, &[(0, &[net("11.0.0.0")]), (3, &[net("192.5.7.0")])]));
    assert_eq!(world.said(PEER), [[2, 0, 1, 2]]);
    let until_ns = GATEWAY_TIME_NS;
    let route = |network, distance| AnnouncedRoute {
        network: net(network),
        distance,
        gateway: PEER,
        until_ns,
    };
    assert_eq!(world.routes(), [route("11.0.0.0", 0), route("192.5.7.0", 3)]);
    // The next update replaces it: a net that it does not name cannot be reached any longer.
    world.take_ggp(PEER, &update(259, false, &[(7, &[net("192.5.7.0")])]));
    assert_eq!(world.said(PEER), [[2, 0, 1, 3]]);
    assert_eq!(world.routes(), [route("192.5.7.0", 7)]);
}

#[test]
fn what_this_host_says_to_itself_is_no_gateways() {
    let mut world = World::new(IcmpSettings { loopback: true, ..settings() });
    world.take_ggp(US, &update(1, false, &[(0, &[net("11.0.0.0")])]));
    assert_eq!(world.said(US), [[2, 0, 0, 1]]);
    assert_eq!(world.routes(), []);
}

#[test]
fn an_old_sequence_is_refused_with_the_one_that_was_accepted() {
    // S - R in 16 bits: accepted where it is not below zero, the same one again included.
    let cases = [
        (5, 5, true),
        (5, 6, true),
        (5, 4, false),
        (5, 32_772, true),
        (5, 32_773, false),
        (65_535, 0, true),
        (0, 65_535, false),
        (65_000, 10, true),
        (10, 65_000, false),
    ];
    for (first, second, accepted) in cases {
        let mut world = world();
        world.take_ggp(PEER, &update(first, false, &[(1, &[net("11.0.0.0")])]));
        world.said(PEER);
        world.take_ggp(PEER, &update(second, true, &[(2, &[net("12.0.0.0")])]));
        let mut said = world.said(PEER);
        let network = world.routes().first().map(|route| route.network);
        let (kind, sequence) = if accepted { (2, second) } else { (10, first) };
        let answer = [&[kind, 0][..], &u16::to_be_bytes(sequence)].concat();
        assert_eq!(said.remove(0), answer, "{first} {second}");
        assert_eq!(network, Some(net(if accepted { "12.0.0.0" } else { "11.0.0.0" })));
        assert_eq!(world.counts().ggp_updates_refused, u64::from(!accepted));
        // A gateway that is refused does not get our update either.
        assert_eq!(said.len(), usize::from(accepted));
    }
}

#[test]
fn who_needs_an_update_gets_ours_our_net_at_distance_zero() {
    let mut world = world();
    world.take_ggp(PEER, &update(9, true, &[]));
    assert_eq!(world.said(PEER), [vec![2, 0, 0, 9], vec![12, 0, 0, 1, 0, 1, 0, 1, 10]]);
    assert_eq!(world.counts().ggp_updates_sent, 1);
}

#[test]
fn our_updates_go_out_at_the_rate_of_errors() {
    let mut world =
        World::new(IcmpSettings { errors_to_one: TokenRate { per_s: 0, burst: 2 }, ..settings() });
    for sequence in 0..10 {
        world.take_ggp(PEER, &update(sequence, true, &[]));
    }
    assert_eq!(world.said(PEER).len(), 10 + 2);
    assert_eq!((world.counts().ggp_updates_sent, world.counts().ggp_updates_rate), (2, 8));
}

#[test]
fn a_negative_acknowledgement_ahead_of_us_makes_our_sequence_continue() {
    let mut world = world();
    world.take_ggp(PEER, &update(9, true, &[]));
    world.said(PEER);
    // The gateway remembers 400 of us, from before we began again.
    world.take_ggp(PEER, &[10, 0, 1, 144]);
    assert_eq!(world.said(PEER), [vec![12, 0, 1, 145, 0, 1, 0, 1, 10]]);
    // One behind us, one of ours, and one of a stranger change nothing.
    world.take_ggp(PEER, &[10, 0, 0, 3]);
    world.take_ggp(PEER, &[2, 0, 1, 145]);
    world.take_ggp(Ipv4Addr::new(10, 9, 0, 77), &[10, 0, 9, 9]);
    assert!(world.said(PEER).is_empty());
    let counts = world.counts();
    assert_eq!((counts.ggp_resynchronised, counts.ggp_acknowledgements), (1, 3));
}

#[test]
fn only_neighbours_are_gateways() {
    let mut world = world();
    for source in [FAR, Ipv4Addr::new(10, 9, 1, 1), Ipv4Addr::new(10, 9, 0, 255), US] {
        world.take_ggp(source, &update(1, true, &[(0, &[net("11.0.0.0")])]));
        world.take_ggp(source, &[8, 0, 0, 0]);
    }
    world.expect_silence(IcmpCounts { dropped_source: 8, ..IcmpCounts::default() });
    assert_eq!(world.routes(), []);
}

#[test]
fn what_makes_no_sense_is_dropped_silently() {
    let mut world = world();
    let good = update(1, true, &[(0, &[net("11.0.0.0")])]);
    world.take_ggp(PEER, &good[..good.len() - 1]);
    world.take_ggp(PEER, &[12, 0, 0, 1, 2, 0]);
    world.take_ggp(PEER, &[]);
    world.take_ggp(PEER, &[77, 0, 0, 0]);
    world.take_ggp(PEER, &[0, 0, 0, 0]);
    world.take_ggp(PEER, &[9, 0, 0, 0]);
    world.expect_silence(IcmpCounts {
        dropped_malformed: 3,
        dropped_unknown: 1,
        stray_replies: 1,
        ggp_ignored: 1,
        ..IcmpCounts::default()
    });
}

#[test]
fn gateways_are_bounded_and_the_one_not_heard_for_longest_gives_way() {
    let mut world = world();
    let gateway = |number: usize| Ipv4Addr::new(10, 9, 0, 100 + number as u8);
    let nets = |number: usize| [net(&format!("{}.0.0.0", 11 + number))];
    for number in 0..MOST_ANNOUNCERS {
        world.take_ggp(gateway(number), &update(500, false, &[(1, &nets(number))]));
    }
    // The first is heard again; so it is the second that gives way to one more.
    world.take_ggp(gateway(0), &update(501, false, &[(1, &nets(0))]));
    world.take_ggp(gateway(MOST_ANNOUNCERS), &update(3, false, &[(1, &nets(MOST_ANNOUNCERS))]));
    let known: Vec<Ipv4Addr> = world.routes().iter().map(|route| route.gateway).collect();
    assert_eq!(known.len(), MOST_ANNOUNCERS);
    assert!(!known.contains(&gateway(1)) && known.contains(&gateway(MOST_ANNOUNCERS)));
    // Its sequence is forgotten with it: it is not refused when it is heard again.
    world.heard.sent.clear();
    world.take_ggp(gateway(1), &update(2, false, &[]));
    assert_eq!(world.said(gateway(1)), [[2, 0, 0, 2]]);
}

#[test]
fn messages_are_written_by_the_same_hand_that_reads_them() {
    let mut world = world();
    world.take_ggp(PEER, &update(9, true, &[]));
    for payload in world.said(PEER) {
        assert!(Message::check(&payload).is_ok());
    }
}
