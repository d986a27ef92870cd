//! Headers, options and user datagrams, on packets as they were seen on a wire and on made ones.

use std::net::{Ipv4Addr, SocketAddrV4};
use weir_net::wire::ipv4::{Datagram, Header, Malformed, protocol};
use weir_net::wire::options::{self, OptionFault, OptionProblem, OptionSummary};
use weir_net::wire::{checksum, udp};

/// A DNS query, as Linux sends it from 192.0.2.1 to 192.0.2.2.
const QUERY: [u8; 57] = [
    0x45, 0x00, 0x00, 0x39, 0xb7, 0xcf, 0x00, 0x00, 0x40, 0x11, 0x3e, 0xe1, 0xc0, 0x00, 0x02, 0x01,
    0xc0, 0x00, 0x02, 0x02, 0x82, 0x35, 0x00, 0x35, 0x00, 0x25, 0x0f, 0x76, 0x12, 0x34, 0x01, 0x00,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x77, 0x77, 0x77, 0x07, 0x65, 0x78, 0x61,
    0x6d, 0x70, 0x6c, 0x65, 0x00, 0x00, 0x01, 0x00, 0x01,
];

/// A user datagram with a record route, which Linux fills in at the first of nine places.
const WITH_ROUTE: [u8; 73] = [
    0x4f, 0x00, 0x00, 0x49, 0xb8, 0x3d, 0x00, 0x00, 0x40, 0x11, 0x4a, 0x52, 0xc0, 0x00, 0x02, 0x01,
    0xc0, 0x00, 0x02, 0x02, 0x01, 0x07, 0x27, 0x08, 0xc0, 0x00, 0x02, 0x01, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0x35, 0x00, 0x09,
    0x00, 0x0d, 0xb5, 0xbf, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
];

/// A user datagram with a timestamp of one address and one time, which Linux fills in.
const WITH_TIME: [u8; 45] = [
    0x48, 0x00, 0x00, 0x2d, 0xb8, 0x74, 0x00, 0x00, 0x40, 0x11, 0xbb, 0x83, 0xc0, 0x00, 0x02, 0x01,
    0xc0, 0x00, 0x02, 0x02, 0x44, 0x0c, 0x0d, 0x01, 0xc0, 0x00, 0x02, 0x01, 0x04, 0xfa, 0x67, 0xbb,
    0x82, 0x35, 0x00, 0x09, 0x00, 0x0d, 0xb5, 0xbf, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
];

const OWN: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);
const NOON_MS: u32 = 43_200_000;

/// Sets the header's checksum.
fn repair(bytes: &mut [u8]) {
    bytes[10..12].fill(0);
    let checksum = checksum::of(&bytes[..usize::from(bytes[0] & 0xf) * 4]);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn spoiled(spoil: impl FnOnce(&mut [u8; 57])) -> Result<(), Malformed> {
    let mut bytes = QUERY;
    spoil(&mut bytes);
    repair(&mut bytes);
    Datagram::check(&bytes).map(|_| ())
}

#[test]
fn a_header_is_read_and_written_as_it_was() {
    // The header that textbooks most often compute, with its checksum.
    let bytes = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];
    let mut whole = [0; 0x73 + 3];
    whole[..20].copy_from_slice(&bytes);
    let datagram = Datagram::check(&whole).unwrap();
    let header = Header {
        tos: 0,
        total_bytes: 0x73,
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        offset_bytes: 0,
        ttl: 64,
        protocol: protocol::UDP,
        source: Ipv4Addr::new(192, 168, 0, 1),
        destination: Ipv4Addr::new(192, 168, 0, 199),
    };
    assert_eq!(datagram.header(), header);
    assert_eq!((datagram.bytes().len(), datagram.payload().len()), (0x73, 0x73 - 20));
    assert!(datagram.options().is_empty() && !datagram.is_fragment());
    let mut out = [0xaa; 20];
    assert_eq!(header.emit(&[], &mut out), Some(20));
    assert_eq!(out, bytes);
}

#[test]
fn options_are_padded_and_count_as_header() {
    let header = Datagram::check(&QUERY).unwrap().header();
    let mut out = [0xaa; 60];
    let header = Header { total_bytes: 60, ..header };
    assert_eq!(header.emit(&[148, 4, 0, 0, 1], &mut out), Some(28));
    assert_eq!(out[20..28], [148, 4, 0, 0, 1, 0, 0, 0]);
    let datagram = Datagram::check(&out).unwrap();
    assert_eq!((datagram.header(), datagram.header_bytes()), (header, 28));
    assert_eq!(datagram.options(), &out[20..28]);
}

#[test]
fn what_cannot_be_a_header_is_not_written() {
    let header = Datagram::check(&QUERY).unwrap().header();
    let mut out = [0; 60];
    assert_eq!(header.emit(&[1; 41], &mut out), None);
    assert_eq!(header.emit(&[1; 4], &mut out[..23]), None);
    assert_eq!(Header { total_bytes: 23, ..header }.emit(&[1; 4], &mut out), None);
    assert_eq!(Header { offset_bytes: 12, ..header }.emit(&[], &mut out), None);
    assert_eq!(out, [0; 60]);
    let header = Header { total_bytes: 60, ..header };
    assert_eq!(header.emit(&[1; 40], &mut out), Some(60));
}

#[test]
fn each_fault_of_a_header_has_its_name() {
    assert_eq!(spoiled(|_| ()), Ok(()));
    assert_eq!(Datagram::check(&[]).unwrap_err(), Malformed::Short);
    assert_eq!(Datagram::check(&QUERY[..19]).unwrap_err(), Malformed::Short);
    assert_eq!(spoiled(|bytes| bytes[0] = 0x65), Err(Malformed::Version6));
    assert_eq!(spoiled(|bytes| bytes[0] = 0x55), Err(Malformed::Version));
    assert_eq!(spoiled(|bytes| bytes[0] = 0x44), Err(Malformed::HeaderLength));
    assert_eq!(
        Datagram::check(
            &{
                let mut bytes = QUERY;
                bytes[0] = 0x46;
                bytes
            }[..23]
        )
        .unwrap_err(),
        Malformed::HeaderLength
    );
    assert_eq!(spoiled(|bytes| bytes[3] = 58), Err(Malformed::TotalLength));
    assert_eq!(spoiled(|bytes| bytes[3] = 19), Err(Malformed::TotalLength));
    assert_eq!(spoiled(|bytes| bytes[3] = 20), Ok(()));
    let mut bytes = QUERY;
    bytes[8] -= 1;
    assert_eq!(Datagram::check(&bytes).unwrap_err(), Malformed::Checksum);
}

#[test]
fn fragments_that_no_datagram_has_are_refused() {
    let fragment = |flags: u16, total: u8| {
        spoiled(|bytes| {
            bytes[3] = total;
            bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        })
    };
    assert_eq!(fragment(0x2000, 52), Ok(()), "32 bytes, more to come");
    assert_eq!(fragment(0x6000, 52), Ok(()), "with the don't-fragment flag too");
    assert_eq!(fragment(0x2000, 57), Err(Malformed::Fragment), "37 bytes, more to come");
    assert_eq!(fragment(0x0001, 57), Ok(()), "37 bytes, the last");
    assert_eq!(fragment(0x2000, 20), Err(Malformed::Fragment), "empty");
    assert_eq!(fragment(0x0001, 20), Err(Malformed::Fragment), "empty, the last");
    assert_eq!(fragment(0x1ffd, 20 + 3), Ok(()), "to the last byte of the longest");
    assert_eq!(fragment(0x1ffd, 20 + 4), Err(Malformed::Fragment), "beyond (the ping of death)");
    assert_eq!(fragment(0x8000, 57), Ok(()), "the reserved flag is not looked at");
}

fn at(pointer: u8, reason: OptionFault) -> OptionProblem {
    OptionProblem { pointer, reason }
}

#[test]
fn an_address_is_put_into_a_record_route_until_it_is_full() {
    let mut list = <[u8; 40]>::try_from(Datagram::check(&WITH_ROUTE).unwrap().options()).unwrap();
    let seen = OptionSummary { record_route: true, ..OptionSummary::default() };
    assert_eq!(options::verify(&list), Ok(seen));
    options::update(&mut list, OWN, NOON_MS).unwrap();
    assert_eq!(list[..12], [1, 7, 39, 12, 192, 0, 2, 1, 10, 9, 8, 7]);
    assert!(list[12..].iter().all(|byte| *byte == 0));
    for _ in 0..7 {
        options::update(&mut list, OWN, NOON_MS).unwrap();
    }
    assert_eq!((list[3], &list[36..]), (40, &[10, 9, 8, 7][..]));
    let full = list;
    options::update(&mut list, OWN, NOON_MS).unwrap();
    assert_eq!(list, full, "a full one is left");
    assert_eq!(options::verify(&list), Ok(seen));
}

#[test]
fn the_time_is_put_into_a_timestamp_in_its_three_forms() {
    let mut times = [68, 12, 5, 0x00, 0, 0, 0, 0, 0, 0, 0, 0];
    options::update(&mut times, OWN, NOON_MS).unwrap();
    assert_eq!(times, [68, 12, 9, 0x00, 0x02, 0x93, 0x2e, 0x00, 0, 0, 0, 0]);
    let mut both = [68, 12, 5, 0x01, 0, 0, 0, 0, 0, 0, 0, 0];
    options::update(&mut both, OWN, NOON_MS).unwrap();
    assert_eq!(both, [68, 12, 13, 0x01, 10, 9, 8, 7, 0x02, 0x93, 0x2e, 0x00]);
    let mut given = [68, 20, 5, 0x03, 10, 9, 8, 7, 0, 0, 0, 0, 10, 9, 8, 6, 0, 0, 0, 0];
    for _ in 0..2 {
        options::update(&mut given, OWN, NOON_MS).unwrap();
        let filled = [68, 20, 13, 3, 10, 9, 8, 7, 0x02, 0x93, 0x2e, 0x00, 10, 9, 8, 6, 0, 0, 0, 0];
        assert_eq!(given, filled, "the next address is another's");
    }
    let mut unknown = [68, 12, 5, 0xf2, 0, 0, 0, 0, 0, 0, 0, 0];
    options::update(&mut unknown, OWN, NOON_MS).unwrap();
    assert_eq!(unknown, [68, 12, 5, 0xf2, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_timestamp_that_linux_filled_in_is_full_for_us() {
    let mut list = Datagram::check(&WITH_TIME).unwrap().options().to_vec();
    let seen = OptionSummary { timestamp: true, ..OptionSummary::default() };
    assert_eq!(options::verify(&list), Ok(seen));
    options::update(&mut list, OWN, NOON_MS).unwrap();
    assert_eq!(list[3], 0x11, "one had no room");
    list[3] = 0x01;
    assert_eq!(list, WITH_TIME[20..32]);
    // What Linux filled in is what weir would fill in.
    let mut empty = [68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    options::update(&mut empty, Ipv4Addr::new(192, 0, 2, 1), 0x04fa_67bb).unwrap();
    assert_eq!(empty, WITH_TIME[20..32]);
}

#[test]
fn who_has_no_room_for_a_timestamp_is_counted_up_to_fifteen() {
    let mut list = [1, 68, 8, 9, 0x00, 0, 0, 0, 1, 0, 0, 0];
    for count in 1..=15 {
        options::update(&mut list, OWN, NOON_MS).unwrap();
        assert_eq!(list[4], count << 4);
    }
    let full = list;
    assert_eq!(options::update(&mut list, OWN, NOON_MS), Err(at(24, OptionFault::Overflow)));
    assert_eq!(list, full);
}

#[test]
fn problems_are_told_with_their_place() {
    let cases: [(&[u8], OptionProblem); 18] = [
        (&[7], at(20, OptionFault::Length)),
        (&[1, 1, 7], at(22, OptionFault::Length)),
        (&[7, 0], at(21, OptionFault::Length)),
        (&[1, 7, 1, 4], at(22, OptionFault::Length)),
        (&[7, 8, 4, 0], at(21, OptionFault::Length)),
        (&[7, 2, 4, 0], at(21, OptionFault::Length)),
        (&[222, 5, 0, 0], at(21, OptionFault::Length)),
        (&[7, 7, 3, 0, 0, 0, 0], at(22, OptionFault::Pointer)),
        (&[7, 7, 0, 0, 0, 0, 0], at(22, OptionFault::Pointer)),
        (&[7, 7, 5, 0, 0, 0, 0], at(22, OptionFault::Pointer)),
        (&[68, 16, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], at(22, OptionFault::Pointer)),
        (&[7, 12, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0], at(22, OptionFault::Pointer)),
        (&[68, 3, 5, 0], at(21, OptionFault::Length)),
        (&[68, 8, 4, 0, 0, 0, 0, 0], at(22, OptionFault::Pointer)),
        (&[68, 8, 5, 1, 0, 0, 0, 0], at(22, OptionFault::Pointer)),
        (&[7, 3, 4, 7, 3, 4, 0, 0], at(23, OptionFault::Twice)),
        (&[68, 4, 5, 0, 1, 68, 4, 5, 0], at(25, OptionFault::Twice)),
        (&[148, 4, 0, 0, 7, 7, 6, 0, 0, 0, 0, 0], at(26, OptionFault::Pointer)),
    ];
    for (list, problem) in cases {
        assert_eq!(options::verify(list), Err(problem), "{list:?}");
    }
}

#[test]
fn source_routes_are_refused_used_up_or_not() {
    for kind in [131, 137] {
        for pointer in [4, 8, 12] {
            let list = [1, kind, 11, pointer, 10, 0, 0, 1, 10, 0, 0, 2];
            assert_eq!(options::verify(&list), Err(at(21, OptionFault::SourceRoute)));
        }
        let list = [1, kind, 12, 4, 10, 0, 0, 1, 10, 0, 0, 2];
        assert_eq!(options::verify(&list), Err(at(22, OptionFault::Length)), "beyond the end");
    }
}

#[test]
fn others_are_passed_over_unread() {
    let list =
        [148, 4, 0, 0, 130, 11, 9, 9, 9, 9, 9, 9, 9, 9, 9, 136, 4, 1, 2, 94, 2, 0, 7, 0, 131];
    let seen = OptionSummary { others: 4, ..OptionSummary::default() };
    assert_eq!(options::verify(&list), Ok(seen), "and nothing is read after the end");
    let mut updated = list;
    options::update(&mut updated, OWN, NOON_MS).unwrap();
    assert_eq!(updated, list);
}

#[test]
fn a_reply_has_the_routes_and_times_of_its_request_and_fragments_what_is_copied() {
    let list = [148, 4, 0, 0, 1, 7, 7, 4, 0, 0, 0, 0, 130, 3, 5, 68, 8, 5, 0, 0, 0, 0, 0, 0];
    let mut out = [0xaa; 40];
    let bytes = options::for_reply(&list, &mut out);
    assert_eq!(out[..bytes], [7, 7, 4, 0, 0, 0, 0, 68, 8, 5, 0, 0, 0, 0, 0]);
    let bytes = options::copied_on_fragments(&list, &mut out);
    assert_eq!(out[..bytes], [148, 4, 0, 0, 130, 3, 5]);
}

#[test]
fn a_user_datagram_is_read_and_written_as_it_was() {
    let bytes = QUERY;
    let datagram = Datagram::check(&bytes).unwrap();
    let header = datagram.header();
    let user = udp::UdpDatagram::check(header.source, header.destination, datagram.payload());
    let user = user.unwrap();
    assert_eq!((user.source_port(), user.destination_port()), (33_333, 53));
    assert_eq!((user.payload().len(), user.has_checksum()), (29, true));
    let (source, destination) =
        (SocketAddrV4::new(header.source, 33_333), SocketAddrV4::new(header.destination, 53));
    let mut out = [0xaa; 37];
    assert_eq!(udp::emit(source, destination, user.payload(), &mut out), Some(37));
    assert_eq!(out, datagram.payload());
    assert_eq!(udp::emit(source, destination, user.payload(), &mut out[..36]), None);
    assert_eq!(udp::emit(source, destination, &[0; 65_508], &mut [0; 70_000]), None);
    assert_eq!(udp::emit_header(source, destination, &mut out[..7]), None);
}

#[test]
fn each_fault_of_a_user_datagram_has_its_name() {
    let (from, to) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    let good = QUERY[20..].to_vec();
    let check =
        |bytes: &[u8]| udp::UdpDatagram::check(from, to, bytes).map(|user| user.payload().len());
    assert_eq!(check(&good[..7]), Err(udp::Malformed::Short));
    assert_eq!(check(&good[..36]), Err(udp::Malformed::Length));
    let longer = [&good[..], b"beyond"].concat();
    assert_eq!(check(&longer), Ok(29));
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        assert!(check(&bytes).is_err(), "byte {at}");
    }
    let mut bytes = good.clone();
    bytes[5] = 7;
    assert_eq!(check(&bytes), Err(udp::Malformed::Length));
    assert!(udp::UdpDatagram::check(from, from, &good).is_err(), "addresses are covered");
    let mut bytes = good;
    bytes[6..8].fill(0);
    bytes[20] ^= 1;
    assert_eq!(check(&bytes), Ok(29), "none is none");
}

#[test]
fn a_checksum_that_comes_out_as_none_is_sent_as_all_ones() {
    let (from, to) = (SocketAddrV4::new(OWN, 1), SocketAddrV4::new(OWN, 2));
    let mut out = [0; 10];
    udp::emit(from, to, &[0, 0], &mut out).unwrap();
    let missing = u16::from_be_bytes([out[6], out[7]]);
    // The payload takes up the difference, so that the checksum becomes 0.
    udp::emit(from, to, &missing.to_be_bytes(), &mut out).unwrap();
    assert_eq!(out[6..8], [0xff, 0xff]);
    assert!(udp::UdpDatagram::check(OWN, OWN, &out).unwrap().has_checksum());
}
