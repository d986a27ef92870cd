//! Messages of GGP, in the formats of RFC 823, Appendix A.

use proptest::prelude::*;
use std::net::Ipv4Addr;
use weir_net::wire::ggp::{MOST_NETWORKS, Malformed, Message, Network, Update, emit_update};

/// Sequence 258, an update needed, two groups: net 10 and 128.9 at distance 0, 192.5.7 at 3.
const UPDATE: [u8; 16] = [12, 0, 1, 2, 1, 2, 0, 2, 10, 128, 9, 3, 1, 192, 5, 7];

fn net(text: &str) -> Network {
    Network::of(text.parse().expect("an address")).expect("a net")
}

fn update(bytes: &[u8]) -> Result<Update<'_>, Malformed> {
    match Message::check(bytes)? {
        Message::RoutingUpdate(update) => Ok(update),
        other => panic!("{other:?}"),
    }
}

#[test]
fn short_messages_have_four_octets() {
    let cases: [(&[u8], Message<'_>); 6] = [
        (&[8, 0, 0, 0], Message::Echo { rest: &[0; 3] }),
        (&[8, 1, 2, 3, 4, 5], Message::Echo { rest: &[1, 2, 3, 4, 5] }),
        (&[0, 0, 0, 0], Message::EchoReply { rest: &[0; 3] }),
        (&[2, 0, 1, 2], Message::Acknowledgement { sequence: 258 }),
        (&[10, 0, 0xff, 0xff], Message::NegativeAcknowledgement { sequence: 65_535 }),
        (&[9, 0, 0, 0], Message::InterfaceStatus),
    ];
    for (bytes, message) in cases {
        assert_eq!(Message::check(bytes), Ok(message));
        let mut out = [0xaa; 6];
        assert_eq!(message.emit(&mut out), Some(bytes.len()));
        assert_eq!(&out[..bytes.len()], bytes);
        assert_eq!(message.emit(&mut out[..bytes.len() - 1]), None);
        assert_eq!(Message::check(&bytes[..3]), Err(Malformed::Length));
    }
    for kind in [2, 9, 10] {
        assert_eq!(Message::check(&[kind, 0, 0, 0, 0]), Err(Malformed::Length));
    }
    assert_eq!(Message::check(&[]), Err(Malformed::Length));
}

#[test]
fn types_that_rfc_823_does_not_know_are_refused() {
    for kind in 0..=255u8 {
        let is_known = [0, 2, 8, 9, 10].contains(&kind);
        let bytes = [kind, 0, 0, 0];
        let read = Message::check(&bytes);
        assert_eq!(read.is_ok(), is_known, "{kind}");
        assert!(is_known || kind == 12 || read == Err(Malformed::Kind));
    }
}

#[test]
fn a_routing_update_is_read() {
    let read = update(&UPDATE).expect("an update");
    assert_eq!((read.sequence(), read.need_update()), (258, true));
    let networks: Vec<_> = read.networks().collect();
    assert_eq!(networks, [(net("10.0.0.0"), 0), (net("128.9.0.0"), 0), (net("192.5.7.0"), 3)]);
    let mut out = [0; 16];
    assert_eq!(Message::RoutingUpdate(read).emit(&mut out), Some(16));
    assert_eq!(out, UPDATE);
}

#[test]
fn a_routing_update_is_written() {
    let groups = [(0, &[net("10.9.8.7"), net("128.9.1.1")][..]), (3, &[net("192.5.7.1")])];
    let mut out = [0; 20];
    assert_eq!(emit_update(258, true, &groups, &mut out), Some(16));
    assert_eq!(out[..16], UPDATE);
    for room in 0..16 {
        assert_eq!(emit_update(258, true, &groups, &mut out[..room]), None);
    }
    let doubled = [(0, &[net("10.0.0.0")][..]), (1, &[net("10.0.0.0")][..])];
    assert_eq!(emit_update(1, false, &doubled, &mut out), None);
}

#[test]
fn an_update_of_any_other_length_than_it_counts_is_refused() {
    for length in 1..UPDATE.len() {
        assert_eq!(update(&UPDATE[..length]), Err(Malformed::Length), "{length}");
    }
    assert_eq!(update(&[&UPDATE[..], &[0]].concat()), Err(Malformed::Length));
}

#[test]
fn need_update_is_one_or_zero() {
    let mut bytes = UPDATE;
    for need in 0..=255 {
        bytes[4] = need;
        let wanted = if need > 1 { Err(Malformed::NeedUpdate) } else { Ok(need == 1) };
        assert_eq!(update(&bytes).map(|update| update.need_update()), wanted);
    }
}

#[test]
fn net_numbers_are_of_class_a_b_or_c() {
    for first in 0..=255u8 {
        let octets = match first {
            1..=126 => 1,
            128..=191 => 2,
            192..=223 => 3,
            _ => 0,
        };
        let address = Ipv4Addr::new(first, 7, 6, 5);
        assert_eq!(Network::of(address).map_or(0, Network::number_bytes), octets);
        let bytes = [12, 0, 0, 1, 0, 1, 0, 1, first, 7, 6];
        let read = update(&bytes[..8 + octets.max(1)]);
        assert_eq!(read.err(), (octets == 0).then_some(Malformed::Network), "{first}");
    }
}

#[test]
fn a_net_twice_is_refused_wherever_it_is() {
    let same_group = [12, 0, 0, 1, 0, 1, 4, 3, 10, 11, 10];
    let other_group = [12, 0, 0, 1, 0, 2, 4, 1, 10, 5, 1, 10];
    assert_eq!(update(&same_group), Err(Malformed::Doubled));
    assert_eq!(update(&other_group), Err(Malformed::Doubled));
}

#[test]
fn groups_may_be_empty_or_at_the_same_distance() {
    let bytes = [12, 0, 0, 1, 0, 4, 9, 0, 1, 1, 10, 1, 1, 11, 7, 0];
    let networks: Vec<_> = update(&bytes).expect("an update").networks().collect();
    assert_eq!(networks, [(net("10.0.0.0"), 1), (net("11.0.0.0"), 1)]);
    let empty = [&[12, 0, 0, 1, 0, 255][..], &[0; 510]].concat();
    assert_eq!(update(&empty).expect("an update").networks().count(), 0);
}

/// So many different nets of class B, in groups of 255.
fn many(count: usize) -> Vec<u8> {
    let numbers: Vec<u16> = (0..count).map(|number| 0x8000 + number as u16).collect();
    let groups = numbers.chunks(255);
    let mut bytes = vec![12, 0, 0, 1, 0, groups.len() as u8];
    for group in groups {
        bytes.extend_from_slice(&[1, group.len() as u8]);
        bytes.extend(group.iter().flat_map(|number| number.to_be_bytes()));
    }
    bytes
}

#[test]
fn there_is_a_most_of_nets() {
    let most = many(MOST_NETWORKS);
    assert_eq!(update(&most).expect("an update").networks().count(), MOST_NETWORKS);
    assert_eq!(update(&many(MOST_NETWORKS + 1)), Err(Malformed::TooMany));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        sequence in any::<u16>(),
        need in any::<bool>(),
        addresses in prop::collection::btree_set(any::<u32>(), 0..60),
        cuts in prop::collection::vec((any::<u8>(), 1usize..9), 60),
    ) {
        let mut networks: Vec<Network> =
            addresses.iter().filter_map(|address| Network::of(Ipv4Addr::from(*address))).collect();
        networks.sort();
        networks.dedup();
        let mut rest = &networks[..];
        let mut groups = Vec::new();
        for (distance, length) in cuts {
            let (group, after) = rest.split_at(length.min(rest.len()));
            groups.push((distance, group));
            rest = after;
        }
        let mut out = [0; 1000];
        let bytes = emit_update(sequence, need, &groups, &mut out).expect("it can be written");
        let read = update(&out[..bytes]).expect("an update");
        prop_assert_eq!((read.sequence(), read.need_update()), (sequence, need));
        let wanted: Vec<(Network, u8)> = groups
            .iter()
            .flat_map(|(distance, group)| group.iter().map(|network| (*network, *distance)))
            .collect();
        prop_assert_eq!(read.networks().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        update_of in prop::collection::vec(0u8..4, 0..40),
    ) {
        let _ = Message::check(&bytes);
        // Small counts and small net numbers make updates that are right more often.
        let bytes = [&[12, 0, 0, 1, 0][..], &update_of].concat();
        if let Ok(Message::RoutingUpdate(update)) = Message::check(&bytes) {
            let mut out = vec![0; bytes.len()];
            prop_assert!(update.networks().count() <= MOST_NETWORKS);
            prop_assert_eq!(Message::RoutingUpdate(update).emit(&mut out), Some(bytes.len()));
            prop_assert_eq!(out, bytes);
        }
    }
}
