//! Redirects and errors that are received: which are believed, and to whom they are passed.

use crate::packets::{self, PING, PONG, TIMESTAMP};
use crate::{FAR, PEER, US, World, datagram, header, message, ours};
use std::net::Ipv4Addr;
use weir_net::icmp::{IcmpCounts, Notice, NoticeKind};
use weir_net::wire::icmp::{Message, Quoted};
use weir_net::wire::ipv4::{Header, protocol};

/// A better gateway on our net.
const BETTER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 254);

/// A redirect about a datagram, from the peer.
fn redirect(code: u8, gateway: Ipv4Addr, about: &[u8]) -> Vec<u8> {
    let quoted = Quoted::check(about).expect("a datagram");
    datagram(header(), &[], &message(&Message::Redirect { code, gateway, quoted }))
}

/// A world in which the peer is the gateway used.
fn behind_peer() -> World {
    let mut world = World::default();
    world.heard.gateway = Some(PEER);
    world
}

#[test]
fn redirects_of_the_gateway_used_are_passed_on_for_nets_and_hosts() {
    for code in [0, 1] {
        let mut world = behind_peer();
        world.take(&redirect(code, BETTER, &ours()));
        assert_eq!(world.heard.redirects, [(FAR, BETTER)]);
        assert_eq!(world.counts().redirects_taken, 1);
        assert_eq!(world.answer(), None);
    }
}

#[test]
fn redirects_for_a_type_of_service_are_not() {
    for code in [2, 3] {
        let mut world = behind_peer();
        world.take(&redirect(code, BETTER, &ours()));
        world.expect_silence(IcmpCounts { redirects_service: 1, ..IcmpCounts::default() });
    }
}

#[test]
fn redirects_of_somebody_else_are_refused() {
    for gateway in [None, Some(BETTER), Some(US)] {
        let mut world = World::default();
        world.heard.gateway = gateway;
        world.take(&redirect(1, BETTER, &ours()));
        world.expect_silence(IcmpCounts { redirects_sender: 1, ..IcmpCounts::default() });
    }
}

#[test]
fn redirects_to_what_is_no_neighbour_are_refused() {
    for gateway in ["10.9.1.1", "192.0.2.1", "10.9.0.2", "10.9.0.0", "10.9.0.255", "0.0.0.0"] {
        let mut world = behind_peer();
        world.take(&redirect(1, gateway.parse().expect("an address"), &ours()));
        world.expect_silence(IcmpCounts { redirects_gateway: 1, ..IcmpCounts::default() });
    }
}

#[test]
fn redirects_about_what_we_did_not_send_are_refused() {
    for (source, destination) in
        [(FAR, PEER), (US, Ipv4Addr::BROADCAST), (US, [224, 0, 0, 5].into())]
    {
        let about = Header { source, destination, protocol: protocol::UDP, ..header() };
        let mut world = behind_peer();
        world.take(&redirect(1, BETTER, &datagram(about, &[], &[7; 8])));
        world.expect_silence(IcmpCounts { redirects_not_ours: 1, ..IcmpCounts::default() });
    }
}

#[test]
fn redirects_to_the_gateway_used_say_nothing() {
    let mut world = behind_peer();
    world.take(&redirect(1, PEER, &ours()));
    world.expect_silence(IcmpCounts { redirects_known: 1, ..IcmpCounts::default() });
}

#[test]
fn a_redirect_with_a_wrong_checksum_is_dropped() {
    let mut world = behind_peer();
    let mut bytes = redirect(1, BETTER, &ours());
    bytes[27] ^= 1;
    world.take(&bytes);
    world.expect_silence(IcmpCounts { dropped_checksum: 1, ..IcmpCounts::default() });
}

/// An error of the peer.
fn error(about: &Message<'_>) -> Vec<u8> {
    datagram(header(), &[], &message(about))
}

#[test]
fn errors_about_our_datagrams_are_passed_to_their_process() {
    let ours = ours();
    let quoted = Quoted::check(&ours).expect("a datagram");
    let notice = Notice {
        trouble: NoticeKind::Unreachable,
        code: 4,
        from: PEER,
        protocol: protocol::UDP,
        local_port: 5353,
        remote: FAR,
        remote_port: 69,
        mtu_bytes: 1400,
        pointer: 0,
        first: [0x14, 0xe9, 0, 69, 0, 12, 0, 0],
    };
    let plain = Notice { code: 1, mtu_bytes: 0, ..notice };
    let cases = [
        (Message::Unreachable { code: 4, mtu_bytes: 1400, quoted }, notice),
        (Message::Unreachable { code: 1, mtu_bytes: 0, quoted }, plain),
        (
            Message::TimeExceeded { code: 1, quoted },
            Notice { trouble: NoticeKind::TimeExceeded, ..plain },
        ),
        (
            Message::ParameterProblem { code: 0, pointer: 20, quoted },
            Notice { trouble: NoticeKind::ParameterProblem, code: 0, pointer: 20, ..plain },
        ),
    ];
    for (message, notice) in cases {
        let mut world = World::default();
        world.take(&error(&message));
        assert_eq!(world.heard.notices, [notice]);
        assert_eq!((world.counts().notices_given, world.answer()), (1, None));
    }
}

/// The captured datagram as if we had sent it, with its addresses exchanged.
fn sent_by_us(hex: &str) -> Vec<u8> {
    let mut bytes = packets::bytes(hex);
    let header_bytes = usize::from(bytes[0] & 0xf) * 4;
    bytes[12..16].copy_from_slice(&US.octets());
    bytes[16..20].copy_from_slice(&FAR.octets());
    bytes.truncate(header_bytes + 8);
    bytes
}

#[test]
fn a_request_of_icmp_is_known_by_its_id() {
    for (hex, id, sequence) in [(PING, 0x1fb8, 1), (TIMESTAMP, 0xbc1f, 0)] {
        let about = sent_by_us(hex);
        let quoted = Quoted::check(&about).expect("a datagram");
        let mut world = World::default();
        world.take(&error(&Message::TimeExceeded { code: 0, quoted }));
        let [notice] = world.heard.notices[..] else { panic!("{:?}", world.heard.notices) };
        assert_eq!((notice.local_port, notice.remote_port), (id, sequence));
        assert_eq!((notice.protocol, notice.remote), (protocol::ICMP, FAR));
    }
}

#[test]
fn another_protocol_has_no_ports() {
    let about = Header { protocol: 89, source: US, destination: FAR, ..header() };
    let about = datagram(about, &[], &[9; 8]);
    let quoted = Quoted::check(&about).expect("a datagram");
    let mut world = World::default();
    world.take(&error(&Message::Unreachable { code: 2, mtu_bytes: 0, quoted }));
    let [notice] = world.heard.notices[..] else { panic!("{:?}", world.heard.notices) };
    assert_eq!((notice.protocol, notice.local_port, notice.remote_port), (89, 0, 0));
}

#[test]
fn errors_that_no_process_waits_for_are_counted() {
    // Answers that we sent, and fragments that do not hold the ports.
    let middle = Header { offset_bytes: 8, source: US, destination: FAR, ..header() };
    let middle = Header { protocol: protocol::UDP, ..middle };
    for about in [sent_by_us(PONG), datagram(middle, &[], &[9; 8])] {
        let quoted = Quoted::check(&about).expect("a datagram");
        let mut world = World::default();
        world.take(&error(&Message::TimeExceeded { code: 1, quoted }));
        world.expect_silence(IcmpCounts { errors_nobodys: 1, ..IcmpCounts::default() });
    }
}

#[test]
fn errors_about_what_others_sent_are_not_passed_on() {
    let about = packets::bytes(packets::UDP);
    let quoted = Quoted::check(&about).expect("a datagram");
    let mut world = World::default();
    world.take(&error(&Message::Unreachable { code: 3, mtu_bytes: 0, quoted }));
    world.expect_silence(IcmpCounts { errors_not_ours: 1, ..IcmpCounts::default() });
}

#[test]
fn source_quenches_are_ignored() {
    let ours = ours();
    let quoted = Quoted::check(&ours).expect("a datagram");
    let mut world = World::default();
    world.take(&error(&Message::SourceQuench { quoted }));
    world.expect_silence(IcmpCounts { source_quenches_ignored: 1, ..IcmpCounts::default() });
}
