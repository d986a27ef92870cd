//! Messages between the switch and its stations: one side reads what the other writes, and refuses
//! what is not a message.

use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use weir_net::division::Division;
use weir_net::icmp::{Notice, NoticeKind, Undeliverable};
use weir_net::message::{
    self, AttachRequest, Attached, FROM_STATION_BYTES, MessageHead, Want, from_station,
};
use weir_net::outgoing::{Offload, Outgoing};

fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

fn wants() -> impl Strategy<Value = Vec<Want>> {
    let want = (any::<u8>(), any::<Option<u16>>());
    let want = want.prop_map(|(protocol, port)| Want { protocol, port });
    proptest::collection::vec(want, 0..=message::MOST_WANTS)
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_put(wants in wants(), name in "/[a-z/]{0,80}") {
        let request = AttachRequest { wants, path: PathBuf::from(name) };
        let bytes = request.put();
        let front: &[u8; FROM_STATION_BYTES] = bytes.first_chunk().expect("a front");
        prop_assert_eq!(MessageHead::check(front).expect("a front").kind, from_station::ATTACH);
        prop_assert_eq!(AttachRequest::check(&bytes[FROM_STATION_BYTES..]), Some(request));
    }

    #[test]
    fn a_datagram_is_read_as_it_was_put(
        to in address(),
        protocol in prop_oneof![Just(6), any::<u8>()],
        (tos, ttl, dont_fragment) in any::<(u8, u8, bool)>(),
        options in proptest::collection::vec(any::<u8>(), 0..=40),
        payload in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let destination = to;
        let offload = match (protocol, ttl) {
            (6, 0..85) => Offload::Checksum,
            (6, 85..170) => Offload::Segments(1 + u16::from(tos)),
            _ => Offload::None,
        };
        let options = &options[..];
        let out = Outgoing { destination, protocol, tos, ttl, dont_fragment, offload, options };
        let mut bytes = Vec::new();
        message::put_send(&mut bytes, &out, &payload);
        let front = MessageHead::check(bytes.first_chunk().expect("a front")).expect("a front");
        prop_assert_eq!(front.kind, from_station::SEND);
        prop_assert_eq!((front.out.destination, front.out.protocol), (to, protocol));
        prop_assert_eq!((front.out.tos, front.out.ttl), (tos, ttl));
        prop_assert_eq!((front.out.dont_fragment, front.out.offload), (dont_fragment, offload));
        prop_assert_eq!(front.options_bytes, options.len().next_multiple_of(4));
        let rest = &bytes[FROM_STATION_BYTES..];
        prop_assert_eq!(&rest[..options.len()], options);
        prop_assert!(rest[options.len()..front.options_bytes].iter().all(|pad| *pad == 0));
        prop_assert_eq!(&rest[front.options_bytes..], &payload[..]);
    }

    #[test]
    fn a_notice_is_read_as_it_was_put(
        (code, protocol, pointer) in any::<(u8, u8, u8)>(),
        (local_port, remote_port, mtu_bytes) in any::<(u16, u16, u16)>(),
        (from, remote) in (address(), address()),
        first in any::<[u8; 8]>(),
        trouble in prop_oneof![
            Just(NoticeKind::Unreachable),
            Just(NoticeKind::TimeExceeded),
            Just(NoticeKind::ParameterProblem)
        ],
    ) {
        let notice = Notice {
            trouble, code, from, protocol, local_port, remote, remote_port, mtu_bytes, pointer,
            first,
        };
        prop_assert_eq!(message::notice(&message::put_notice(&notice)), Some(notice));
    }

    #[test]
    fn what_is_attached_is_read_as_it_was_put(
        (address, peer) in (address(), address()),
        (prefix_bits, mtu, offloads, is_allen) in any::<(u8, u16, bool, bool)>(),
    ) {
        let division = if is_allen { Division::Allen } else { Division::Later };
        let attached = Attached { address, peer, prefix_bits, mtu, offloads, division };
        let bytes = attached.put();
        prop_assert_eq!(Attached::check(&bytes[message::TO_STATION_BYTES..]), Some(attached));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Some(front) = bytes.first_chunk().and_then(MessageHead::check) {
            prop_assert!(front.options_bytes <= 40 && front.options_bytes % 4 == 0);
        }
        if let Some(request) = AttachRequest::check(&bytes) {
            prop_assert!(request.path.is_absolute() && request.wants.len() <= message::MOST_WANTS);
        }
        let _ = message::notice(&bytes);
        let _ = Attached::check(&bytes);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let good = message::front(from_station::SEND);
    assert!(MessageHead::check(&good).is_some());
    for (at, value) in [(4, 2), (5, 3), (5, 44), (6, 1), (7, 1), (12, 1), (15, 1)] {
        let mut bad = good;
        bad[at] = value;
        assert_eq!(MessageHead::check(&bad), None, "byte {at} is {value}");
    }
    let too_many = [&[message::MOST_WANTS as u8 + 1][..], &[1, 0, 0, 0].repeat(65), b"/x"].concat();
    for bad in
        [&b""[..], b"\x01\x01\x02\0\0/x", b"\0relative", b"\0/nul\0", b"\x02\x01\0\0\0", &too_many]
    {
        assert_eq!(AttachRequest::check(bad), None, "{bad:?}");
    }
}

#[test]
fn why_nobody_takes_a_datagram_is_read_as_it_was_put() {
    let all = [
        Undeliverable::Protocol,
        Undeliverable::Port,
        Undeliverable::ReassemblyTimeout,
        Undeliverable::SourceRoute,
        Undeliverable::Parameter { pointer: 20 },
    ];
    for why in all {
        let (what, pointer) = message::put_why(why);
        assert_eq!(message::why(what, pointer), Some(why));
    }
    assert_eq!((message::why(0, 0), message::why(6, 0)), (None, None));
}
