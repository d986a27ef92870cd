//! The arithmetic of ping: what it sends, which replies count, and what it reports in the end.

use crate::{FAR, SECOND_NS, US, message};
use proptest::prelude::*;
use weir_net::icmp::ping::{MOST_DATA_BYTES, PingResult, Pinger, Probe};
use weir_net::icmp::{Notice, NoticeKind};
use weir_net::wire::icmp::{Echo, Message, Timestamp};

const ID: u16 = 4711;
const MS: u64 = 1_000_000;

fn echo(data_bytes: usize) -> Pinger {
    Pinger::new(ID, Probe::Echo { data_bytes }, SECOND_NS)
}

/// What a host answers to an echo request.
fn reply(request: &[u8]) -> Vec<u8> {
    let Ok(Message::Echo(echo)) = Message::check(request) else { panic!("no echo request") };
    message(&Message::EchoReply(echo))
}

#[test]
fn requests_are_numbered_from_one_and_hold_magic_time_and_pattern() {
    let mut pinger = echo(56);
    for sequence in 1..=3 {
        let bytes = pinger.request(u64::from(sequence) * 256, 0).to_vec();
        let Ok(Message::Echo(echo)) = Message::check(&bytes) else { panic!("{bytes:?}") };
        assert_eq!((echo.id, echo.sequence, echo.data.len()), (ID, sequence, 56));
        assert_eq!(&echo.data[..4], b"weir");
        assert_eq!(echo.data[4..12], (u64::from(sequence) * 256 + 1).to_be_bytes());
        assert_eq!(echo.data[12..16], [12, 13, 14, 15]);
    }
}

#[test]
fn replies_of_any_size_give_their_round_trip() {
    for data_bytes in [0, 1, 4, 11, 12, 13, 56, 1472, MOST_DATA_BYTES, usize::MAX] {
        let mut pinger = echo(data_bytes);
        let answer = reply(pinger.request(7 * SECOND_NS, 0));
        assert_eq!(answer.len(), 8 + data_bytes.min(MOST_DATA_BYTES));
        let took = pinger.take(&answer, 7 * SECOND_NS + 3 * MS, 0);
        assert_eq!(
            took,
            PingResult::Reply { sequence: 1, rtt_ns: 3 * MS, late: false },
            "{data_bytes}"
        );
    }
}

#[test]
fn a_ggp_echo_has_its_numbers_in_its_data_and_gives_its_round_trip() {
    for data_bytes in [0, 1, 12, 56, usize::MAX] {
        let mut pinger = Pinger::new(ID, Probe::GgpEcho { data_bytes }, SECOND_NS);
        let mut answer = pinger.request(7 * SECOND_NS, 0).to_vec();
        let [high, low] = ID.to_be_bytes();
        assert_eq!(answer[..8], [8, 0, 0, 0, high, low, 0, 1]);
        assert_eq!(answer.len(), 8 + data_bytes.min(MOST_DATA_BYTES));
        let now_ns = 7 * SECOND_NS + 3 * MS;
        assert_eq!(pinger.take(&answer, now_ns, 0), PingResult::NotOurs, "a request");
        answer[0] = 0;
        assert_eq!(pinger.take(&answer[..7], now_ns, 0), PingResult::NotOurs, "cut");
        let changed = [&answer[..], &[0]].concat();
        assert_eq!(pinger.take(&changed, now_ns, 0), PingResult::Changed { sequence: 1 });
        let took = pinger.take(&answer, now_ns, 0);
        assert_eq!(took, PingResult::Reply { sequence: 1, rtt_ns: 3 * MS, late: false });
        answer[5] ^= 1;
        assert_eq!(pinger.take(&answer, now_ns, 0), PingResult::NotOurs, "another's");
    }
}

#[test]
fn a_second_reply_is_a_duplicate() {
    let mut pinger = echo(56);
    let answer = reply(pinger.request(0, 0));
    assert!(matches!(pinger.take(&answer, MS, 0), PingResult::Reply { .. }));
    assert_eq!(pinger.take(&answer, 9 * MS, 0), PingResult::Duplicate { sequence: 1 });
    let counts = pinger.summary().counts;
    assert_eq!((counts.sent, counts.received, counts.duplicates), (1, 1, 1));
    assert_eq!(pinger.summary().rtt.map(|rtt| rtt.max_ns), Some(1e6));
}

#[test]
fn a_reply_after_the_wait_is_late_and_received() {
    let mut pinger = echo(56);
    let (first, second) = (reply(pinger.request(0, 0)), reply(pinger.request(0, 0)));
    let took = pinger.take(&first, SECOND_NS, 0);
    assert_eq!(took, PingResult::Reply { sequence: 1, rtt_ns: SECOND_NS, late: false });
    let took = pinger.take(&second, SECOND_NS + 1, 0);
    assert_eq!(took, PingResult::Reply { sequence: 2, rtt_ns: SECOND_NS + 1, late: true });
    let summary = pinger.summary();
    assert_eq!((summary.counts.received, summary.counts.late, summary.lost), (2, 1, 0));
}

#[test]
fn replies_that_are_not_ours_are_not_counted() {
    let mut pinger = echo(56);
    let request = pinger.request(0, 0).to_vec();
    let Ok(Message::Echo(asked)) = Message::check(&request) else { panic!("no echo request") };
    let others = message(&Message::EchoReply(Echo { id: ID + 1, ..asked }));
    let times = Timestamp { id: ID, sequence: 1, originate_ms: 0, receive_ms: 0, transmit_ms: 0 };
    let times = message(&Message::TimestampReply(times));
    let mut wrong = reply(&request);
    wrong[20] ^= 1;
    for bytes in [&request[..], &others, &times, &wrong, &[], &[0; 8]] {
        assert_eq!(pinger.take(bytes, MS, 0), PingResult::NotOurs);
    }
    assert_eq!((pinger.summary().counts.received, pinger.summary().counts.changed), (0, 0));
}

#[test]
fn replies_with_other_data_are_changed_not_received() {
    let mut pinger = echo(56);
    let request = pinger.request(0, 0).to_vec();
    let Ok(Message::Echo(asked)) = Message::check(&request) else { panic!("no echo request") };
    // Wrong in turn: the magic number, the time, the pattern, the end; too short, too long; a
    // sequence number that was never sent.
    for at in [0, 11, 12, 55] {
        let mut data = asked.data.to_vec();
        data[at] ^= 0x80;
        let bytes = message(&Message::EchoReply(Echo { data: &data, ..asked }));
        assert_eq!(pinger.take(&bytes, MS, 0), PingResult::Changed { sequence: 1 }, "{at}");
    }
    let long = [asked.data, &[56]].concat();
    for data in [&asked.data[..55], &long, &[]] {
        let bytes = message(&Message::EchoReply(Echo { data, ..asked }));
        assert_eq!(pinger.take(&bytes, MS, 0), PingResult::Changed { sequence: 1 });
    }
    let never = message(&Message::EchoReply(Echo { sequence: 2, ..asked }));
    assert_eq!(pinger.take(&never, MS, 0), PingResult::Changed { sequence: 2 });
    assert_eq!((pinger.summary().counts.changed, pinger.summary().counts.received), (8, 0));
}

#[test]
fn after_all_sequences_an_old_reply_is_not_taken_for_a_new_one() {
    let mut pinger = echo(56);
    let old = reply(pinger.request(0, 0));
    for sent in 1..=65_536u64 {
        pinger.request(sent, 0);
    }
    // Its sequence number, 1, now belongs to the last request, but its time does not.
    assert_eq!(pinger.take(&old, SECOND_NS, 0), PingResult::Changed { sequence: 1 });
    let summary = pinger.summary();
    assert_eq!((summary.counts.sent, summary.lost), (65_537, 65_537));
}

#[test]
fn the_percentiles_are_those_of_the_round_trips() {
    let mut pinger = echo(16);
    // The times are 1 to 1000 us, and one in ten is lost.
    for index in 1..=1000u64 {
        let answer = reply(pinger.request(index * SECOND_NS, 0));
        if index % 10 != 0 {
            pinger.take(&answer, index * SECOND_NS + index * 1000, 0);
        }
    }
    let summary = pinger.summary();
    assert_eq!((summary.lost, summary.loss_share), (100, 0.1));
    let rtt = summary.rtt.expect("replies");
    assert_eq!((rtt.min_ns, rtt.max_ns), (1000.0, 999_000.0));
    // The mean of those that are not multiples of ten: (500,500 - 50,500) / 900.
    assert_eq!(rtt.mean_ns, 500_000.0);
    let [p90_ns, p99_ns] = [rtt.p90_ns, rtt.p99_ns].map(|value| value.expect("enough replies"));
    for (value, exact) in [(rtt.p50_ns, 500e3), (p90_ns, 900e3), (p99_ns, 990e3)] {
        assert!((value / exact - 1.0).abs() < 0.003, "{value} {exact}");
    }
}

/// With three replies the 99th percentile would be the longest, so it is not shown.
#[test]
fn a_few_replies_have_no_percentiles() {
    let mut pinger = echo(16);
    for index in 1..=20u64 {
        let answer = reply(pinger.request(index * SECOND_NS, 0));
        pinger.take(&answer, index * SECOND_NS + 1000, 0);
        let rtt = pinger.summary().rtt.expect("replies");
        assert_eq!((rtt.p90_ns.is_some(), rtt.p99_ns), (index >= 10, None), "{index}");
    }
}

/// The answer to a timestamp request by a clock that is this many milliseconds ahead.
fn time_reply(request: &[u8], arrives_ms: u32, ahead_ms: i64) -> Vec<u8> {
    let Ok(Message::Timestamp(asked)) = Message::check(request) else { panic!("no request") };
    let told = (i64::from(arrives_ms) + ahead_ms).rem_euclid(86_400_000) as u32;
    let times = Timestamp { receive_ms: told, transmit_ms: told, ..asked };
    message(&Message::TimestampReply(times))
}

#[test]
fn the_other_clock_is_seen_by_the_shortest_round_trip() {
    let mut pinger = Pinger::new(ID, Probe::Timestamp, SECOND_NS);
    // 40 ms, all of them on the way there; then 4 ms, half of them each way; then 40 ms again.
    for (there, back) in [(40, 0), (2, 2), (0, 40)] {
        let request = pinger.request(0, 1000).to_vec();
        let answer = time_reply(&request, 1000 + there, 250);
        let (rtt, now_ms) = (u64::from(there + back) * MS, 1000 + there + back);
        assert!(matches!(pinger.take(&answer, rtt, now_ms), PingResult::Reply { .. }));
    }
    let clock = pinger.summary().clock.expect("a clock");
    assert_eq!((clock.ahead_ms, clock.uncertain_ms), (250.0, 3.0));
    assert_eq!((clock.there_ms, clock.back_ms), (252, -248));
}

#[test]
fn midnight_between_is_no_day() {
    for (ours_ms, ahead_ms) in [(86_399_999, 20), (5, -20), (86_399_000, 43_000_000)] {
        let mut pinger = Pinger::new(ID, Probe::Timestamp, SECOND_NS);
        let request = pinger.request(0, ours_ms).to_vec();
        let answer = time_reply(&request, ours_ms, ahead_ms);
        pinger.take(&answer, 10, ours_ms);
        let clock = pinger.summary().clock.expect("a clock");
        assert_eq!(clock.ahead_ms, ahead_ms as f64);
    }
}

#[test]
fn times_that_are_not_since_midnight_are_counted_and_not_reckoned_with() {
    let mut pinger = Pinger::new(ID, Probe::Timestamp, SECOND_NS);
    let request = pinger.request(0, 5).to_vec();
    let Ok(Message::Timestamp(asked)) = Message::check(&request) else { panic!("no request") };
    let times = Timestamp { receive_ms: 0x8000_0000, transmit_ms: 7, ..asked };
    let answer = message(&Message::TimestampReply(times));
    assert!(matches!(pinger.take(&answer, MS, 6), PingResult::Reply { .. }));
    let other = Timestamp { originate_ms: 6, ..asked };
    let other = message(&Message::TimestampReply(other));
    assert_eq!(pinger.take(&other, MS, 6), PingResult::Changed { sequence: 1 });
    let summary = pinger.summary();
    assert_eq!((summary.counts.nonstandard_times, summary.clock), (1, None));
}

#[test]
fn errors_about_our_requests_are_counted() {
    let mut pinger = echo(56);
    pinger.request(0, 0);
    let notice = Notice {
        trouble: NoticeKind::Unreachable,
        code: 1,
        from: FAR,
        protocol: 1,
        local_port: ID,
        remote: US,
        remote_port: 1,
        mtu_bytes: 0,
        pointer: 0,
        first: [0; 8],
    };
    assert!(pinger.notice(&notice));
    assert!(pinger.notice(&Notice { trouble: NoticeKind::TimeExceeded, ..notice }));
    let others = [
        Notice { local_port: ID + 1, ..notice },
        Notice { remote_port: 2, ..notice },
        Notice { protocol: 17, ..notice },
    ];
    assert!(others.iter().all(|other| !pinger.notice(other)));
    let counts = pinger.summary().counts;
    assert_eq!((counts.unreachable, counts.time_exceeded, counts.parameter_problem), (1, 1, 0));
}

#[test]
fn the_summary_reads_as_pings_last_lines() {
    let mut pinger = echo(56);
    assert_eq!(pinger.summary().to_string(), "0 sent, 0 received, 0% loss");
    for index in 0..4 {
        let answer = reply(pinger.request(0, 0));
        if index != 3 {
            pinger.take(&answer, 2 * MS, 0);
        }
        if index == 0 {
            pinger.take(&answer, 2 * MS, 0);
        }
    }
    let text = "4 sent, 3 received, 1 duplicates, 25.0% loss\n\
                rtt min/mean/p50/max = 2.000/2.000/2.000/2.000 ms";
    assert_eq!(pinger.summary().to_string(), text);

    let mut pinger = Pinger::new(ID, Probe::Timestamp, SECOND_NS);
    let request = pinger.request(0, 1000).to_vec();
    pinger.take(&time_reply(&request, 1001, -5), 2 * MS, 1002);
    let text = "1 sent, 1 received, 0% loss\n\
                rtt min/mean/p50/max = 2.000/2.000/2.000/2.000 ms\n\
                its clock differs from ours by -5.0 ms, give or take 2.0 ms \
                (there -4 ms, back 6 ms by the two clocks)";
    assert_eq!(pinger.summary().to_string(), text);
}

proptest! {
    #[test]
    fn whatever_comes_the_counts_add_up(
        steps in prop::collection::vec((0u8..4, any::<u64>(), any::<prop::sample::Index>()), 0..60),
        data_bytes in 0usize..40,
    ) {
        let mut pinger = echo(data_bytes);
        let mut requests: Vec<Vec<u8>> = Vec::new();
        for (step, now_ns, which) in steps {
            if step == 0 || requests.is_empty() {
                requests.push(pinger.request(now_ns, 0).to_vec());
                continue;
            }
            let mut bytes = reply(&requests[which.index(requests.len())]);
            if step == 1 {
                let at = which.index(bytes.len());
                bytes[at] ^= 1 << (now_ns % 8);
            }
            pinger.take(&bytes, now_ns, 0);
        }
        let summary = pinger.summary();
        let counts = summary.counts;
        prop_assert_eq!(counts.sent, requests.len() as u64);
        prop_assert!(counts.received <= counts.sent && counts.late <= counts.received);
        prop_assert_eq!(summary.lost + counts.received, counts.sent);
        prop_assert_eq!(summary.rtt.is_some(), counts.received > 0);
    }

    #[test]
    fn any_bytes_may_come(bytes in prop::collection::vec(any::<u8>(), 0..100), now_ns: u64) {
        for probe in [Probe::Echo { data_bytes: 8 }, Probe::Timestamp] {
            let mut pinger = Pinger::new(0, probe, 0);
            pinger.request(u64::MAX, u32::MAX);
            pinger.take(&bytes, now_ns, 0);
        }
    }
}
