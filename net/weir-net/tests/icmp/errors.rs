//! Errors that are sent, and datagrams about which none is sent.

use crate::packets::{self, UDP, UNREACHABLE};
use crate::{FAR, PEER, US, World, datagram, header, message};
use std::net::Ipv4Addr;
use weir_net::icmp::{IcmpCounts, Undeliverable};
use weir_net::wire::icmp::{Echo, Message};
use weir_net::wire::ipv4::{Header, protocol};

/// A UDP datagram to us.
fn udp() -> Header {
    Header { protocol: protocol::UDP, ..header() }
}

#[test]
fn a_port_is_unreachable_as_linux_says_it() {
    let mut world = World::default();
    world.undeliverable(&packets::bytes(UDP), Undeliverable::Port);
    let error = world.answer().expect("an error");
    assert_eq!((error.destination, error.protocol), (PEER, protocol::ICMP));
    assert_eq!(error.payload, packets::payload(UNREACHABLE));
    // The precedence is internetwork control; the rest is the datagram's type of service without
    // its congestion bits.
    assert_eq!(error.tos, packets::bytes(UNREACHABLE)[1]);
    assert_eq!(world.counts(), IcmpCounts { sent_port: 1, ..IcmpCounts::default() });
}

#[test]
fn each_reason_has_its_type_and_code() {
    let cases = [
        (Undeliverable::Protocol, [3, 2], [0, 0, 0, 0]),
        (Undeliverable::Port, [3, 3], [0, 0, 0, 0]),
        (Undeliverable::SourceRoute, [3, 5], [0, 0, 0, 0]),
        (Undeliverable::ReassemblyTimeout, [11, 1], [0, 0, 0, 0]),
        (Undeliverable::Parameter { pointer: 21 }, [12, 0], [21, 0, 0, 0]),
    ];
    let mut world = World::default();
    for (why, kind, field) in cases {
        let bytes = datagram(Header { id: 9, ..udp() }, &[0x44, 4, 1, 0], &[1; 12]);
        world.undeliverable(&bytes, why);
        let error = world.answer().expect("an error").payload;
        assert_eq!((&error[..2], &error[4..8], &error[8..]), (&kind[..], &field[..], &bytes[..]));
        assert!(weir_net::wire::checksum::is_right(&error));
    }
    let counts = IcmpCounts {
        sent_protocol: 1,
        sent_port: 1,
        sent_source_route: 1,
        sent_reassembly: 1,
        sent_parameter: 1,
        ..IcmpCounts::default()
    };
    assert_eq!(world.counts(), counts);
}

#[test]
fn as_much_is_quoted_as_makes_576_bytes() {
    for (payload_bytes, quoted_bytes) in [(0, 20), (8, 28), (100, 120), (528, 548), (1480, 548)] {
        let mut world = World::default();
        let bytes = datagram(udp(), &[], &vec![7; payload_bytes]);
        world.undeliverable(&bytes, Undeliverable::Port);
        let error = world.answer().expect("an error").payload;
        assert_eq!(error[8..], bytes[..quoted_bytes], "{payload_bytes}");
        assert!(20 + error.len() <= 576 && error[8..] == bytes[..quoted_bytes]);
    }
}

#[test]
fn a_header_and_eight_bytes_suffice_and_less_does_not() {
    let bytes = datagram(udp(), &[1; 40], &[7; 1000]);
    for there in 0..=72 {
        let mut world = World::default();
        world.undeliverable(&bytes[..there], Undeliverable::Port);
        let error = world.answer();
        assert_eq!(error.is_some(), there >= 68, "{there}");
        assert_eq!(world.counts().unsent_malformed, u64::from(there < 68));
        assert!(error.is_none_or(|error| error.payload[8..] == bytes[..there]));
    }
}

#[test]
fn what_a_link_padded_is_not_quoted() {
    let mut bytes = datagram(udp(), &[], &[7; 10]);
    let length = bytes.len();
    bytes.resize(46, 0xee);
    let mut world = World::default();
    world.undeliverable(&bytes, Undeliverable::Port);
    assert_eq!(world.answer().map(|error| error.payload.len()), Some(8 + length));
}

#[test]
fn there_is_no_error_about_an_error() {
    let quoted = packets::payload(UNREACHABLE);
    for kind in 0..=255u8 {
        let mut bytes = datagram(header(), &[], &quoted);
        bytes[20] = kind;
        let mut world = World::default();
        world.undeliverable(&bytes, Undeliverable::ReassemblyTimeout);
        // Only requests and replies: an unknown type may become an error type one day.
        let may = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18].contains(&kind);
        assert_eq!(world.answer().is_some(), may, "type {kind}");
        assert_eq!(world.counts().unsent_error, u64::from(!may));
    }
    // A message without a type is neither.
    let mut world = World::default();
    world.undeliverable(&datagram(header(), &[], &[]), Undeliverable::Protocol);
    world.expect_silence(IcmpCounts { unsent_error: 1, ..IcmpCounts::default() });
}

#[test]
fn there_is_no_error_about_a_later_fragment() {
    let echo = message(&Message::Echo(Echo { id: 1, sequence: 1, data: &[5; 56] }));
    for (offset_bytes, sent) in [(0, true), (8, false), (64, false)] {
        let fragment = Header { offset_bytes, more_fragments: true, ..header() };
        let mut world = World::default();
        world.undeliverable(&datagram(fragment, &[], &echo), Undeliverable::ReassemblyTimeout);
        assert_eq!(world.answer().is_some(), sent);
        assert_eq!(world.counts().unsent_fragment, u64::from(!sent));
    }
}

#[test]
fn there_is_no_error_about_what_was_for_many_or_not_for_us() {
    for last in ["255.255.255.255", "10.9.0.255", "10.9.0.0", "224.0.0.251", "0.0.0.0"] {
        let destination = last.parse().expect("an address");
        let mut world = World::default();
        let bytes = datagram(Header { destination, ..udp() }, &[], &[7; 10]);
        world.undeliverable(&bytes, Undeliverable::Port);
        world.expect_silence(IcmpCounts { unsent_broadcast: 1, ..IcmpCounts::default() });
    }
    let mut world = World::default();
    let bytes = datagram(Header { destination: FAR, ..udp() }, &[], &[7; 10]);
    world.undeliverable(&bytes, Undeliverable::Port);
    world.expect_silence(IcmpCounts { unsent_not_ours: 1, ..IcmpCounts::default() });
}

#[test]
fn there_is_no_error_to_what_is_not_one_host() {
    let none = ["0.0.0.0", "127.0.0.1", "10.9.0.255", "10.9.0.0", "224.0.0.1", "250.1.1.1"];
    let none = none.map(|text| text.parse().expect("an address"));
    for source in none.into_iter().chain([US, Ipv4Addr::BROADCAST]) {
        let mut world = World::default();
        let bytes = datagram(Header { source, ..udp() }, &[], &[7; 10]);
        world.undeliverable(&bytes, Undeliverable::Port);
        world.expect_silence(IcmpCounts { unsent_source: 1, ..IcmpCounts::default() });
    }
}
