//! ICMP messages: what is read from them, what is refused, and that what is written can be read.

use crate::packets::{self, PING, TIMESTAMP, UNREACHABLE};
use crate::{FAR, US, datagram, header, message, ours};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use weir_net::wire::checksum;
use weir_net::wire::icmp::{Echo, Malformed, Message, Quoted, Timestamp, is_query};
use weir_net::wire::ipv4::{Header, protocol};

/// The bytes with their correct checksum.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[2..4].fill(0);
    let checksum = checksum::of(&bytes);
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

#[test]
fn requests_of_ping_and_hping_are_read() {
    let ping = packets::payload(PING);
    let echo = Echo { id: 0x1fb8, sequence: 1, data: &ping[8..] };
    assert_eq!(Message::check(&ping), Ok(Message::Echo(echo)));
    let asked = Timestamp {
        id: 0xbc1f,
        sequence: 0,
        originate_ms: 83_523_127,
        receive_ms: 0,
        transmit_ms: 0,
    };
    let bytes = packets::payload(TIMESTAMP);
    assert_eq!(Message::check(&bytes), Ok(Message::Timestamp(asked)));
}

#[test]
fn an_error_of_linux_is_read_and_written() {
    let bytes = packets::payload(UNREACHABLE);
    let read = Message::check(&bytes).expect("a message");
    let Message::Unreachable { code: 3, mtu_bytes: 0, quoted } = read else {
        panic!("{read:?}");
    };
    assert_eq!(quoted.bytes(), packets::bytes(packets::UDP));
    let header = quoted.header();
    assert_eq!((header.tos, header.total_bytes, header.protocol), (0x11, 37, protocol::UDP));
    assert_eq!((header.source, header.destination), ("10.9.0.1".parse().expect("one"), US));
    assert_eq!(quoted.payload(), b"\xc1\xd5\x1e\x61\x00\x11\x14\x37weir asks");
    assert!(header.offset_bytes == 0);
    assert_eq!(message(&read), bytes);
}

#[test]
fn the_mtu_is_read_where_it_means_something() {
    let ours = ours();
    let quoted = Quoted::check(&ours).expect("a datagram");
    let mut bytes = message(&Message::Unreachable { code: 4, mtu_bytes: 1400, quoted });
    let read = Message::check(&bytes);
    assert_eq!(read, Ok(Message::Unreachable { code: 4, mtu_bytes: 1400, quoted }));
    bytes[1] = 3;
    let bytes = summed(bytes);
    let read = Message::check(&bytes);
    assert_eq!(read, Ok(Message::Unreachable { code: 3, mtu_bytes: 0, quoted }));
}

#[test]
fn short_messages_and_wrong_checksums_are_refused() {
    let bytes = packets::payload(PING);
    for length in 0..8 {
        assert_eq!(Message::check(&bytes[..length]), Err(Malformed::Short));
    }
    for at in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x10;
        assert_eq!(Message::check(&wrong), Err(Malformed::Checksum), "{at}");
    }
    let timestamp = packets::payload(TIMESTAMP);
    for length in 8..20 {
        let cut = summed(timestamp[..length].to_vec());
        assert_eq!(Message::check(&cut), Err(Malformed::Short), "{length}");
    }
}

#[test]
fn codes_that_no_standard_knows_are_other() {
    let ours = ours();
    for (kind, last) in [
        (0, 0),
        (3, 15),
        (4, 0),
        (5, 3),
        (8, 0),
        (11, 1),
        (12, 2),
        (13, 0),
        (14, 0),
        (15, 0),
        (16, 0),
    ] {
        for code in 0..=255 {
            let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
            bytes.extend_from_slice(&ours);
            let bytes = summed(bytes);
            let read = Message::check(&bytes).expect("a message");
            let is_other = read == Message::Other { kind, code };
            assert_eq!(is_other, code > last, "type {kind} code {code}: {read:?}");
        }
    }
}

#[test]
fn a_quotation_needs_its_header_and_eight_bytes() {
    let whole = ours();
    for length in 0..whole.len() {
        assert_eq!(Quoted::check(&whole[..length]).is_ok(), length >= 28, "{length}");
    }
    // One that is shorter itself need not have them.
    let short = datagram(Header { source: US, destination: FAR, ..header() }, &[], &[1, 2, 3]);
    assert_eq!(Quoted::check(&short).map(|quoted| quoted.payload()), Ok(&[1u8, 2, 3][..]));
    assert_eq!(Quoted::check(&short[..22]), Err(Malformed::Quoted));
    // Nor is a length below the header's believed.
    let mut zero = short.clone();
    zero[2..4].fill(0);
    assert_eq!(Quoted::check(&zero).map(|quoted| quoted.payload().len()), Ok(3));
}

#[test]
fn a_quotation_is_read_leniently_but_for_version_and_header_length() {
    let mut bytes = ours();
    // Gateways count the time to live down and leave the checksum, or none, behind.
    bytes[8] = 1;
    bytes[10..12].fill(0);
    assert!(Quoted::check(&bytes).is_ok());
    for first in 0..=255u8 {
        bytes[0] = first;
        // 32 bytes are there, and all of the datagram: a header of 20 to 32 may be.
        assert_eq!(Quoted::check(&bytes).is_ok(), (0x45..=0x48).contains(&first), "{first:#x}");
    }
}

#[test]
fn a_quotation_is_cut_to_what_is_wanted_and_what_is_there() {
    let mut bytes = ours();
    bytes.extend_from_slice(&[0; 100]);
    let quoted = Quoted::check(&bytes).expect("a datagram");
    assert_eq!(quoted.cut(1000).bytes(), ours());
    assert_eq!(quoted.cut(30).bytes().len(), 30);
    assert_eq!(quoted.cut(0).bytes().len(), 28);
}

#[test]
fn only_requests_and_answers_are_no_errors() {
    let queries: Vec<u8> = (0..=255).filter(|kind| is_query(*kind)).collect();
    assert_eq!(queries, [0, 8, 9, 10, 13, 14, 15, 16, 17, 18]);
}

#[test]
fn what_has_no_room_is_not_written() {
    let data = [7; 10];
    let echo = Message::Echo(Echo { id: 1, sequence: 2, data: &data });
    let mut out = [0xaa; 17];
    assert_eq!(echo.emit(&mut out), None);
    assert_eq!(out, [0xaa; 17]);
    assert_eq!(Message::Other { kind: 8, code: 0 }.emit(&mut out), None);
    let time = Message::Timestamp(Timestamp {
        id: 1,
        sequence: 2,
        originate_ms: 3,
        receive_ms: 4,
        transmit_ms: 5,
    });
    assert_eq!(time.emit(&mut out), None);
}

/// Any message that can be written, given what it quotes.
fn any_message(quoted: Quoted<'_>) -> impl Strategy<Value = Message<'_>> {
    let data = quoted.bytes();
    let echo = move |(id, sequence)| Echo { id, sequence, data };
    let time = |((id, sequence), originate_ms, receive_ms, transmit_ms)| Timestamp {
        id,
        sequence,
        originate_ms,
        receive_ms,
        transmit_ms,
    };
    let names = any::<(u16, u16)>();
    prop_oneof![
        names.prop_map(move |names| Message::Echo(echo(names))),
        names.prop_map(move |names| Message::EchoReply(echo(names))),
        (names, any::<u32>(), any::<u32>(), any::<u32>())
            .prop_map(move |times| Message::Timestamp(time(times))),
        (names, any::<u32>(), any::<u32>(), any::<u32>())
            .prop_map(move |times| Message::TimestampReply(time(times))),
        (names, any::<bool>()).prop_map(|((id, sequence), is_reply)| match is_reply {
            false => Message::Information { id, sequence },
            true => Message::InformationReply { id, sequence },
        }),
        (0u8..=15, any::<u16>()).prop_map(move |(code, mtu)| Message::Unreachable {
            code,
            mtu_bytes: if code == 4 { mtu } else { 0 },
            quoted
        }),
        Just(Message::SourceQuench { quoted }),
        (0u8..=3, any::<u32>()).prop_map(move |(code, gateway)| Message::Redirect {
            code,
            gateway: Ipv4Addr::from(gateway),
            quoted
        }),
        (0u8..=1).prop_map(move |code| Message::TimeExceeded { code, quoted }),
        any::<u8>().prop_map(move |pointer| Message::ParameterProblem { code: 0, pointer, quoted }),
    ]
}

/// A quotation, kept for the length of the test.
fn quotation() -> Quoted<'static> {
    static OURS: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(ours);
    Quoted::check(&OURS).expect("a datagram")
}

proptest! {
    #[test]
    fn what_is_written_is_read(sent in any_message(quotation())) {
        let bytes = message(&sent);
        prop_assert_eq!(Message::check(&bytes), Ok(sent));
        prop_assert!(checksum::is_right(&bytes));
    }

    #[test]
    fn what_is_read_of_any_bytes_is_written_the_same_to_the_reader(
        bytes in prop::collection::vec(any::<u8>(), 8..120),
        kind in prop_oneof![Just(0u8), Just(3), Just(5), Just(8), Just(11), Just(12), Just(13)],
        code in 0u8..4,
        header in prop::collection::vec(any::<u8>(), 20),
    ) {
        let mut bytes = [&bytes[..8], &header, &bytes[8..]].concat();
        (bytes[0], bytes[1], bytes[8]) = (kind, code, 0x45);
        let bytes = summed(bytes);
        if let Ok(read) = Message::check(&bytes) {
            let mut out = vec![0; bytes.len()];
            if let Some(written) = read.emit(&mut out) {
                prop_assert_eq!(Message::check(&out[..written]), Ok(read));
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Message::check(&bytes);
        if let Ok(quoted) = Quoted::check(&bytes) {
            prop_assert!(quoted.cut(548).bytes().len() <= bytes.len());
            prop_assert!(quoted.payload().len() + 20 <= bytes.len());
        }
        if bytes.len() >= 8 {
            let _ = Message::check(&summed(bytes));
        }
    }
}
