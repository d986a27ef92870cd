//! Echo and timestamp requests, and which of them are answered.

use crate::packets::{self, PING, PING_ROUTE, PING_TIMES, PING_TOS, PONG};
use crate::{FAR, MIDNIGHT_MS, PEER, PREFIX_BITS, US, World, datagram, header, message};
use std::net::Ipv4Addr;
use weir_net::icmp::{IcmpCounts, IcmpSettings, TokenRate};
use weir_net::wire::icmp::{Echo, Message, Timestamp};
use weir_net::wire::ipv4::{Header, protocol};

fn ask() -> Vec<u8> {
    message(&Message::Echo(Echo { id: 1, sequence: 2, data: b"some" }))
}

#[test]
fn a_ping_of_linux_is_answered_as_linux_answers_it() {
    let mut world = World::default();
    world.take(&packets::bytes(PING));
    let answer = world.answer().expect("an answer");
    assert_eq!((answer.destination, answer.protocol), (PEER, protocol::ICMP));
    assert_eq!((answer.tos, answer.ttl), (0, 64));
    assert_eq!(answer.payload, packets::payload(PONG));
    assert!(answer.options.is_empty());
    assert_eq!(
        world.counts(),
        IcmpCounts { taken: 1, echoes_answered: 1, ..IcmpCounts::default() }
    );
}

#[test]
fn the_type_of_service_is_that_of_the_request() {
    let mut world = World::default();
    world.take(&packets::bytes(PING_TOS));
    assert_eq!(world.answer().map(|answer| answer.tos), Some(0x10));
}

#[test]
fn record_route_and_timestamps_go_back() {
    for hex in [PING_ROUTE, PING_TIMES] {
        let mut world = World::default();
        let bytes = packets::bytes(hex);
        world.take(&bytes);
        let options = world.answer().expect("an answer").options;
        // The no-operation before the record of route was only for alignment.
        let asked = &bytes[20..60];
        let start = usize::from(asked[0] == 1);
        assert_eq!(
            options[..asked[start + 1].into()],
            asked[start..start + asked[start + 1] as usize]
        );
    }
}

#[test]
fn all_lengths_of_data_come_back() {
    let mut world = World::default();
    let data: Vec<u8> = (0..65_507u32).map(|at| (at * 31 % 251) as u8).collect();
    for length in (0..300).chain([1472, 1473, 4000, 65_506, 65_507]) {
        let echo = Echo { id: 0xbeef, sequence: length as u16, data: &data[..length] };
        world.take(&datagram(header(), &[], &message(&Message::Echo(echo))));
        let answer = world.answer().expect("an answer");
        assert_eq!(Message::check(&answer.payload), Ok(Message::EchoReply(echo)));
    }
}

#[test]
fn an_echo_of_nothing_but_zeroes_has_a_right_checksum() {
    // If everything else is zero, the checksum is all ones. Patching it, in place of computing it,
    // gives 0.
    let mut world = World::default();
    let echo = Echo { id: 0, sequence: 0, data: &[0; 8] };
    world.take(&datagram(header(), &[], &message(&Message::Echo(echo))));
    let answer = world.answer().expect("an answer");
    assert_eq!(answer.payload[2..4], [0xff, 0xff]);
    assert_eq!(Message::check(&answer.payload), Ok(Message::EchoReply(echo)));
}

#[test]
fn the_time_is_told_as_linux_tells_it() {
    let mut world = World::default();
    world.take(&packets::bytes(packets::TIMESTAMP));
    let answer = world.answer().expect("an answer");
    assert_eq!(answer.payload, packets::payload(packets::TIMESTAMP_REPLY));
    assert_eq!(world.counts().timestamps_answered, 1);
}

#[test]
fn a_longer_timestamp_request_has_no_longer_answer() {
    let mut world = World::default();
    let asked =
        Timestamp { id: 5, sequence: 6, originate_ms: 0x8000_0001, receive_ms: 9, transmit_ms: 9 };
    let mut bytes = message(&Message::Timestamp(asked));
    bytes.extend_from_slice(&[0; 6]);
    world.take(&datagram(header(), &[], &bytes));
    let answer = world.answer().expect("an answer");
    let told = Timestamp { receive_ms: MIDNIGHT_MS, transmit_ms: MIDNIGHT_MS, ..asked };
    assert_eq!(answer.payload.len(), 20);
    assert_eq!(Message::check(&answer.payload), Ok(Message::TimestampReply(told)));
}

#[test]
fn what_was_sent_to_many_is_not_answered() {
    for last in ["255.255.255.255", "10.9.0.255", "10.9.0.0", "224.0.0.1", "239.1.2.3", "0.0.0.0"] {
        let destination = last.parse().expect("an address");
        let mut world = World::default();
        world.take(&datagram(Header { destination, ..header() }, &[], &ask()));
        world.expect_silence(IcmpCounts { dropped_broadcast: 1, ..IcmpCounts::default() });
    }
}

#[test]
fn what_is_for_another_host_is_not_answered() {
    let mut world = World::default();
    world.take(&datagram(Header { destination: FAR, ..header() }, &[], &ask()));
    world.expect_silence(IcmpCounts { dropped_not_ours: 1, ..IcmpCounts::default() });
}

#[test]
fn what_does_not_come_from_one_host_is_not_answered() {
    let none = [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "10.9.0.0",
        "10.9.0.255",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "10.9.0.2",
    ];
    for source in none {
        let source: Ipv4Addr = source.parse().expect("an address");
        let mut world = World::default();
        world.take(&datagram(Header { source, ..header() }, &[], &ask()));
        world.expect_silence(IcmpCounts { dropped_source: 1, ..IcmpCounts::default() });
    }
}

#[test]
fn a_switch_that_hands_back_what_we_send_ourselves_may_say_so() {
    let mut world =
        World::new(IcmpSettings { loopback: true, ..IcmpSettings::new(US, PREFIX_BITS) });
    world.take(&datagram(Header { source: US, ..header() }, &[], &ask()));
    assert_eq!(world.answer().map(|answer| answer.destination), Some(US));
    world.take(&datagram(Header { source: Ipv4Addr::LOCALHOST, ..header() }, &[], &ask()));
    assert_eq!(world.answer(), None);
}

#[test]
fn a_net_of_two_addresses_has_no_broadcast() {
    // RFC 3021: both ends of a point-to-point link of 31 bits are hosts.
    for (prefix_bits, answered) in [(30, false), (31, true), (32, true), (200, true)] {
        let mut world = World::new(IcmpSettings::new(US, prefix_bits));
        let source = Ipv4Addr::new(10, 9, 0, 3);
        world.take(&datagram(Header { source, ..header() }, &[], &ask()));
        assert_eq!(world.answer().is_some(), answered, "{prefix_bits}");
    }
}

#[test]
fn fragments_and_other_protocols_are_not_looked_at() {
    let mut world = World::default();
    world.take(&datagram(Header { more_fragments: true, ..header() }, &[], &[8; 64]));
    world.take(&datagram(Header { offset_bytes: 64, ..header() }, &[], &[8; 64]));
    world.take(&datagram(Header { protocol: protocol::UDP, ..header() }, &[], &ask()));
    world.take(&datagram(Header { protocol: protocol::GGP, ..header() }, &[], &[8, 0, 0, 0]));
    let counts = IcmpCounts { dropped_fragment: 2, dropped_protocol: 2, ..IcmpCounts::default() };
    world.expect_silence(counts);
}

#[test]
fn what_is_malformed_or_means_nothing_is_dropped_silently() {
    let mut world = World::default();
    let mut wrong = ask();
    wrong[9] ^= 1;
    world.take(&datagram(header(), &[], &wrong));
    world.take(&datagram(header(), &[], &[8, 0, 0xf7, 0xff, 0, 0, 0]));
    // An address mask request (RFC 1122 3.2.2.9), a type nobody assigned, a code echoes do not
    // have.
    for (kind, code) in [(17, 0), (99, 0), (8, 1)] {
        let mut bytes = [kind, code, 0, 0, 0, 0, 0, 0];
        let checksum = weir_net::wire::checksum::of(&bytes);
        bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
        world.take(&datagram(header(), &[], &bytes));
    }
    world.expect_silence(IcmpCounts {
        dropped_checksum: 1,
        dropped_malformed: 1,
        dropped_unknown: 3,
        ..IcmpCounts::default()
    });
}

#[test]
fn replies_are_for_those_who_asked() {
    let mut world = World::default();
    world.take(&datagram(header(), &[], &packets::payload(PONG)));
    world.take(&datagram(header(), &[], &packets::payload(packets::TIMESTAMP_REPLY)));
    world.expect_silence(IcmpCounts { stray_replies: 2, ..IcmpCounts::default() });
}

#[test]
fn information_is_given_only_if_asked_for() {
    let settings = IcmpSettings::new(US, PREFIX_BITS);
    let asked = Message::Information { id: 7, sequence: 9 };
    let request = datagram(header(), &[], &message(&asked));
    let mut usual = World::new(settings);
    usual.take(&request);
    usual.expect_silence(IcmpCounts { dropped_off: 1, ..IcmpCounts::default() });
    let mut willing = World::new(IcmpSettings { information: true, ..settings });
    willing.take(&request);
    let answer = willing.answer().expect("an answer");
    assert_eq!((answer.destination, answer.payload.len()), (PEER, 8));
    let told = Message::InformationReply { id: 7, sequence: 9 };
    assert_eq!(Message::check(&answer.payload), Ok(told));
    assert_eq!(willing.counts().information_answered, 1);
    // A reply is not answered.
    willing.take(&datagram(header(), &[], &answer.payload));
    assert_eq!((willing.answer(), willing.counts().stray_replies), (None, 1));
}

#[test]
fn both_can_be_switched_off() {
    let settings = IcmpSettings::new(US, PREFIX_BITS);
    let mut world = World::new(IcmpSettings { echo: false, timestamp: false, ..settings });
    world.take(&packets::bytes(PING));
    world.take(&packets::bytes(packets::TIMESTAMP));
    world.expect_silence(IcmpCounts { dropped_off: 2, ..IcmpCounts::default() });
}

#[test]
fn replies_are_limited_only_if_asked_for() {
    let mut free = World::default();
    let settings = IcmpSettings::new(US, PREFIX_BITS);
    let rate = TokenRate { per_s: 2, burst: 3 };
    let mut limited = World::new(IcmpSettings { replies: Some(rate), ..settings });
    for _ in 0..1000 {
        free.take(&packets::bytes(PING));
        limited.take(&packets::bytes(PING));
    }
    assert_eq!(free.counts().echoes_answered, 1000);
    let counts = limited.counts();
    assert_eq!((counts.echoes_answered, counts.dropped_rate), (3, 997));
    assert_eq!(limited.heard.sent.len(), 3);
}
