//! Arbitrary bytes: nothing panics, and no more is sent than was asked for.

use crate::packets::{self, PING, PING_ROUTE, PING_TIMES, TIMESTAMP, UDP, UNREACHABLE};
use crate::{PEER, PREFIX_BITS, US, World, datagram, header};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use weir_net::icmp::{IcmpCounts, IcmpSettings, Undeliverable};
use weir_net::wire::checksum;
use weir_net::wire::ipv4::{Datagram, Header, protocol};

fn any_reason() -> impl Strategy<Value = Undeliverable> {
    prop_oneof![
        Just(Undeliverable::Protocol),
        Just(Undeliverable::Port),
        Just(Undeliverable::ReassemblyTimeout),
        Just(Undeliverable::SourceRoute),
        any::<u8>().prop_map(|pointer| Undeliverable::Parameter { pointer }),
    ]
}

/// Addresses for which there are rules, and arbitrary ones.
fn any_address() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        4 => Just(US),
        4 => Just(PEER),
        1 => Just(Ipv4Addr::BROADCAST),
        1 => Just(Ipv4Addr::new(10, 9, 0, 255)),
        1 => Just(Ipv4Addr::UNSPECIFIED),
        2 => any::<u32>().prop_map(Ipv4Addr::from),
    ]
}

/// Captured datagrams and others, with bytes changed here and there, and with correct checksums or
/// not.
fn any_datagram() -> impl Strategy<Value = Vec<u8>> {
    let some = [PING, PING_ROUTE, PING_TIMES, TIMESTAMP, UDP, UNREACHABLE].map(packets::bytes);
    let captured = prop::sample::select(some.to_vec());
    let made = (
        (any_address(), any_address(), prop_oneof![Just(protocol::ICMP), Just(protocol::GGP)]),
        prop_oneof![0u8..20, any::<u8>()],
        prop_oneof![Just(0u8), 0u8..5],
        prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x45), any::<u8>()], 2..100),
        prop::collection::vec(any::<u8>(), 0..40),
    );
    let made = made.prop_map(|((source, destination, protocol), kind, code, rest, options)| {
        let header = Header { source, destination, protocol, ..header() };
        datagram(header, &options, &[&[kind, code][..], &rest].concat())
    });
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (prop_oneof![captured, made], changes, any::<bool>()).prop_map(|(mut bytes, changes, sum)| {
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if sum {
            repair(&mut bytes);
        }
        bytes
    })
}

/// Sets the checksums of the header and of an ICMP message.
fn repair(bytes: &mut [u8]) {
    let header_bytes = (usize::from(bytes[0] & 0xf) * 4).clamp(20, bytes.len());
    let (header, payload) = bytes.split_at_mut(header_bytes);
    if payload.len() >= 4 && header[9] == protocol::ICMP {
        payload[2..4].fill(0);
        let sum = checksum::of(payload);
        payload[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    header[10..12].fill(0);
    let sum = checksum::of(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn world(ggp: bool, loopback: bool) -> World {
    World::new(IcmpSettings { ggp, loopback, ..IcmpSettings::new(US, PREFIX_BITS) })
}

/// What the first counts say was taken, and the last that was to be an error.
fn sums(counts: &IcmpCounts) -> (u64, u64) {
    let sent = |name: &str| name.starts_with("errors sent") || name.starts_with("errors not sent");
    // These counts come on top of the count of the datagram itself.
    let beside = |name: &str| {
        name == "datagrams received"
            || name.starts_with("GGP updates sent")
            || name.starts_with("GGP updates not sent")
    };
    let all = || counts.each().map(|(_, name, count)| (name, count));
    let errors = all().filter(|(name, _)| sent(name)).map(|(_, count)| count).sum();
    let taken =
        all().filter(|(name, _)| !sent(name) && !beside(name)).map(|(_, count)| count).sum();
    (taken, errors)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_one_datagram_no_longer_than_the_request(
        bytes in any_datagram(),
        ggp in any::<bool>(),
        loopback in any::<bool>(),
    ) {
        let Ok(request) = Datagram::check(&bytes) else { return Ok(()) };
        let mut world = world(ggp, loopback);
        world.heard.gateway = Some(PEER);
        world.engine.take(&request, &mut world.heard);
        let asks_for_update = request.header().protocol == protocol::GGP
            && request.payload().first() == Some(&12);
        let sent = &world.heard.sent;
        prop_assert!(sent.len() <= 1 + usize::from(asks_for_update));
        let spoken = sent.len() + world.heard.notices.len() + world.heard.redirects.len();
        prop_assert!(spoken <= 1 || asks_for_update);
        for answer in sent {
            prop_assert_eq!(answer.destination, request.header().source);
            prop_assert_eq!(request.header().destination, US);
            prop_assert!(answer.options.len() <= request.options().len());
            // A host's own update is up to 11 bytes, whatever asked for it.
            let most = request.payload().len().max(if asks_for_update { 11 } else { 0 });
            prop_assert!(answer.payload.len() <= most);
        }
        prop_assert_eq!(world.counts().taken, 1);
        prop_assert_eq!(sums(&world.counts()), (1, 0));
    }

    #[test]
    fn an_error_is_one_datagram_of_576_bytes_at_most(
        bytes in any_datagram(),
        cut in any::<prop::sample::Index>(),
        more in 0usize..2000,
        why in any_reason(),
        loopback in any::<bool>(),
    ) {
        let mut bytes = bytes[..=cut.index(bytes.len())].to_vec();
        bytes.resize(bytes.len() + more * usize::from(more % 2 == 0), 9);
        let mut world = world(false, loopback);
        world.undeliverable(&bytes, why);
        if let Some(error) = world.answer() {
            prop_assert!(20 + error.payload.len() <= 576);
            prop_assert_eq!(&error.destination.octets()[..], &bytes[12..16]);
            prop_assert!(checksum::is_right(&error.payload));
            prop_assert!(bytes.starts_with(&error.payload[8..]));
        }
        prop_assert_eq!(sums(&world.counts()), (0, 1));
    }

    #[test]
    fn any_bytes_can_be_undeliverable(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        why in any_reason(),
        now_ns: u64,
    ) {
        let mut world = world(true, true);
        world.heard.now_ns = now_ns;
        world.undeliverable(&bytes, why);
        prop_assert!(world.heard.sent.len() <= 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_long_life_among_anything(
        packets in prop::collection::vec((any_datagram(), any_reason(), any::<u64>()), 1..30),
    ) {
        let mut world = world(true, true);
        let (mut taken, mut told) = (0, 0);
        for (bytes, why, now_ns) in packets {
            world.heard.now_ns = now_ns;
            if let Ok(datagram) = Datagram::check(&bytes) {
                world.engine.take(&datagram, &mut world.heard);
                taken += 1;
            }
            world.undeliverable(&bytes, why);
            told += 1;
        }
        prop_assert_eq!(sums(&world.counts()), (taken, told));
    }
}
