//! Arbitrary bytes, and valid packets that were changed: nothing panics, nothing is shown that was
//! not there, and what was accepted can be written again.

use crate::any_packet::{read_all, read_options};
use crate::datagrams::datagram;
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddrV4};
use weir_net::wire::ipv4::{Datagram, Header, MOST_OPTION_BYTES};
use weir_net::wire::options::kind;
use weir_net::wire::{checksum, udp};

/// Options as they are sent: some are valid, some nearly.
fn any_options() -> impl Strategy<Value = Vec<u8>> {
    let route = (0u8..10, 3u8..42).prop_map(|(slots, pointer)| {
        let mut option = vec![0; 3 + 4 * usize::from(slots)];
        (option[0], option[1], option[2]) = (kind::RECORD_ROUTE, 3 + 4 * slots, pointer);
        option
    });
    let times = (0u8..10, 4u8..43, any::<u8>()).prop_map(|(slots, pointer, flags)| {
        let mut option = vec![0; 4 + 4 * usize::from(slots)];
        option[..4].copy_from_slice(&[kind::TIMESTAMP, 4 + 4 * slots, pointer, flags & 0xf3]);
        option
    });
    let other = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..12))
        .prop_map(|(kind, body)| [&[kind, 2 + body.len() as u8], &body[..]].concat());
    let one = prop_oneof![route, times, other, Just(vec![1]), Just(vec![0])];
    prop::collection::vec(one, 0..5).prop_map(|all| {
        let mut list = all.concat();
        list.truncate(MOST_OPTION_BYTES);
        list
    })
}

fn any_header() -> impl Strategy<Value = Header> {
    (any::<[u32; 4]>(), any::<[u8; 4]>(), 0u16..0x2000).prop_map(|(words, bytes, units)| Header {
        tos: bytes[0],
        total_bytes: 0,
        id: words[0] as u16,
        dont_fragment: bytes[1] & 1 != 0,
        more_fragments: bytes[1] & 6 == 6,
        offset_bytes: if bytes[1] & 24 == 24 { units * 8 } else { 0 },
        ttl: bytes[2],
        protocol: [1, 3, 6, 17, 17, 17, bytes[3]][usize::from(bytes[3]) % 7],
        source: Ipv4Addr::from(words[1]),
        destination: Ipv4Addr::from(words[2]),
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 8192,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn any_options_are_read_without_harm(list in any_options()) {
        read_options(&list);
    }

    #[test]
    fn touched_packets_are_read_without_harm(
        header in any_header(),
        list in any_options(),
        payload in prop::collection::vec(any::<u8>(), 0..100),
        touches in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        is_cut in prop::bool::weighted(0.2),
        is_repaired in prop::bool::weighted(0.9),
    ) {
        let mut bytes = datagram(header, &list, &payload);
        for (at, value) in touches {
            // Most changes hit the header.
            let within = if value & 1 == 0 { bytes.len() } else { bytes.len().min(24) };
            bytes[at.index(within)] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        let header_bytes = bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4);
        if is_repaired && (20..=bytes.len()).contains(&header_bytes) {
            bytes[10..12].fill(0);
            let checksum = checksum::of(&bytes[..header_bytes]);
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        read_all(&bytes);
    }

    #[test]
    fn what_is_written_is_read_as_it_was(
        header in any_header(),
        list in prop::collection::vec(any::<u8>(), 0..=40),
        payload in prop::collection::vec(any::<u8>(), 0..100),
        padding in 0usize..50,
    ) {
        let header = Header { more_fragments: false, offset_bytes: 0, ..header };
        let mut bytes = datagram(header, &list, &payload);
        let total_bytes = bytes.len();
        bytes.resize(total_bytes + padding, 0xee);
        let datagram = Datagram::check(&bytes).unwrap();
        prop_assert_eq!(datagram.header(), Header { total_bytes: total_bytes as u16, ..header });
        prop_assert_eq!(&datagram.options()[..list.len()], &list);
        prop_assert_eq!(datagram.payload(), payload);
    }

    #[test]
    fn user_datagrams_are_read_as_they_were_written_and_not_when_a_bit_fell(
        addresses in any::<[u32; 2]>(),
        numbers in any::<[u16; 2]>(),
        payload in prop::collection::vec(any::<u8>(), 0..1500),
        bit in any::<prop::sample::Index>(),
    ) {
        let [source, destination] = addresses.map(Ipv4Addr::from);
        let from = SocketAddrV4::new(source, numbers[0]);
        let to = SocketAddrV4::new(destination, numbers[1]);
        let mut out = vec![0; 8 + payload.len()];
        prop_assert_eq!(udp::emit(from, to, &payload, &mut out), Some(out.len()));
        let user = udp::UdpDatagram::check(source, destination, &out).unwrap();
        prop_assert_eq!([user.source_port(), user.destination_port()], numbers);
        prop_assert_eq!(user.payload(), payload);
        prop_assert!(user.has_checksum());
        let bit = bit.index(out.len() * 8);
        out[bit / 8] ^= 1 << (bit % 8);
        let fallen = udp::UdpDatagram::check(source, destination, &out);
        // A change of one bit goes unnoticed only if it turns the checksum into "none".
        prop_assert!(fallen.is_err() || out[6..8] == [0, 0]);
    }
}
