//! Reassembly, case by case: what is put together, what is dropped and why, and what gives way.

use crate::datagrams::{self, FIRST, LAST, bytes, datagram};
use std::net::Ipv4Addr;
use weir_net::reassembly::{
    LEAST_BUDGET_BYTES, Reassembled, Reassembly, ReassemblyLimits, Rejection,
};
use weir_net::wire::ipv4::{Datagram, Header, protocol};

const SECOND_NS: u64 = 1_000_000_000;

/// What became of a fragment, by value.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    Whole(Vec<u8>),
    Waiting,
    Dropped(Rejection),
}

fn take(reassembly: &mut Reassembly, bytes: &[u8], now_ns: u64) -> Became {
    match reassembly.take(&Datagram::check(bytes).unwrap(), now_ns) {
        Reassembled::Whole(whole) => Became::Whole(whole.to_vec()),
        Reassembled::Waiting => Became::Waiting,
        Reassembled::Dropped(why) => Became::Dropped(why),
    }
}

fn header() -> Header {
    datagrams::header(7, protocol::UDP, [10, 0, 0, 1], [10, 0, 0, 2])
}

/// The byte at a place of a payload, unless a test says otherwise.
fn byte(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]
}

/// A fragment of `header`'s datagram from `start` to `end`.
fn piece(header: Header, start: usize, end: usize, more_fragments: bool) -> Vec<u8> {
    let header = Header { offset_bytes: start as u16, more_fragments, ..header };
    datagram(header, &[], &(start..end).map(byte).collect::<Vec<_>>())
}

/// All fragments of a datagram with this many bytes of payload, in order.
fn pieces(header: Header, payload_bytes: usize, piece_bytes: usize) -> Vec<Vec<u8>> {
    (0..payload_bytes)
        .step_by(piece_bytes)
        .map(|start| {
            let end = (start + piece_bytes).min(payload_bytes);
            piece(header, start, end, end < payload_bytes)
        })
        .collect()
}

/// How many datagrams the last fragment made give way, by the budgets of their source and of all.
fn evicted(reassembly: &Reassembly) -> [usize; 2] {
    [Rejection::SourceBudget, Rejection::WholeBudget]
        .map(|budget| reassembly.evicted().filter(|(why, _)| *why == budget).count())
}

fn whole(header: Header, payload_bytes: usize) -> Became {
    Became::Whole(datagram(header, &[], &(0..payload_bytes).map(byte).collect::<Vec<_>>()))
}

fn default() -> Reassembly {
    Reassembly::new(ReassemblyLimits::default())
}

#[test]
fn fragments_that_linux_made_are_put_together_in_either_order() {
    let mut reassembly = default();
    let (first, last) = (bytes(FIRST), bytes(LAST));
    for [one, other] in [[&first, &last], [&last, &first]] {
        assert_eq!(take(&mut reassembly, one, 0), Became::Waiting);
        let Became::Whole(bytes) = take(&mut reassembly, other, 0) else { panic!("not whole") };
        let datagram = Datagram::check(&bytes).expect("its header is right");
        assert!(!datagram.is_fragment());
        assert_eq!(datagram.payload(), [&first[20..], &last[20..]].concat());
        let first = Datagram::check(&first).unwrap().header();
        assert_eq!(datagram.header(), Header { total_bytes: 88, more_fragments: false, ..first });
        // The checksum of the user datagram covers all of its 68 bytes.
        let (from, to) = (first.source, first.destination);
        weir_net::wire::udp::UdpDatagram::check(from, to, datagram.payload()).unwrap();
    }
    assert_eq!((reassembly.waiting(), reassembly.held_bytes()), (0, 0));
}

#[test]
fn a_datagram_that_is_no_fragment_is_whole_as_it_is() {
    let mut reassembly = default();
    let bytes = piece(header(), 0, 9, false);
    assert_eq!(take(&mut reassembly, &bytes, 0), Became::Whole(bytes.clone()));
    assert_eq!((reassembly.waiting(), reassembly.held_bytes()), (0, 0));
}

#[test]
fn the_longest_datagram_is_put_together_from_the_smallest_fragments_in_any_order() {
    let mut reassembly = default();
    for piece_bytes in [8, 48, 552, 1480, 65_512] {
        let fragments = pieces(header(), 65_515, piece_bytes);
        let count = fragments.len();
        // A step that has no divisor in common with any of the counts goes through all of them.
        let scattered: Vec<usize> = (0..count).map(|at| at * 7919 % count).collect();
        for order in [(0..count).collect(), (0..count).rev().collect(), scattered] {
            let order: Vec<usize> = order;
            for at in &order[..count - 1] {
                let became = take(&mut reassembly, &fragments[*at], 0);
                assert_eq!(became, Became::Waiting, "{piece_bytes}: {at}");
            }
            let became = take(&mut reassembly, &fragments[order[count - 1]], 0);
            assert!(became == whole(header(), 65_515), "{piece_bytes}");
        }
    }
}

#[test]
fn options_and_marks_are_those_of_the_first_fragment() {
    let mut reassembly = default();
    let route = [148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0];
    let head = Header { tos: 0x10, ttl: 3, ..header() };
    let first = datagram(Header { more_fragments: true, ..head }, &route, &[1; 16]);
    let last = Header { offset_bytes: 16, tos: 0x20, ttl: 9, ..header() };
    let last = datagram(last, &[148, 4, 0, 0], &[2; 3]);
    assert_eq!(take(&mut reassembly, &last, 0), Became::Waiting);
    let expected = datagram(head, &route, &[[1; 16].as_slice(), &[2; 3]].concat());
    assert_eq!(take(&mut reassembly, &first, 0), Became::Whole(expected));
}

#[test]
fn datagrams_are_told_apart_by_all_four_parts_of_their_key() {
    let mut reassembly = default();
    let others = [
        header(),
        Header { id: 8, ..header() },
        Header { protocol: protocol::ICMP, ..header() },
        Header { source: Ipv4Addr::new(10, 0, 0, 3), ..header() },
        Header { destination: Ipv4Addr::new(10, 0, 0, 3), ..header() },
    ];
    for other in others {
        assert_eq!(take(&mut reassembly, &piece(other, 0, 24, true), 0), Became::Waiting);
    }
    for other in others {
        assert_eq!(take(&mut reassembly, &piece(other, 24, 30, false), 0), whole(other, 30));
    }
}

#[test]
fn a_fragment_that_came_before_is_ignored() {
    let mut reassembly = default();
    let fragments = pieces(header(), 1000, 304);
    for (at, is_new) in
        [(0, true), (0, false), (3, true), (3, false), (2, true), (0, false), (2, false)]
    {
        let became = take(&mut reassembly, &fragments[at], 0);
        let duplicate = Became::Dropped(Rejection::Duplicate);
        assert_eq!(became, if is_new { Became::Waiting } else { duplicate });
    }
    assert_eq!(take(&mut reassembly, &fragments[1], 0), whole(header(), 1000));
}

/// Each pair of fragments, and whether the second contradicts the first.
#[test]
fn any_overlap_but_a_duplicate_drops_the_datagram_and_what_else_comes_of_it() {
    let base = (64, 128, true);
    let contradictions = [
        ("partly, before it", base, (56, 72, true)),
        ("partly, after it", base, (120, 136, true)),
        ("inside", base, (72, 80, true)),
        ("around", base, (0, 512, true)),
        ("the same beginning, shorter", base, (64, 72, true)),
        ("the same beginning, longer", base, (64, 136, true)),
        ("the same end, shorter", base, (120, 128, true)),
        ("the same end, longer", base, (56, 128, true)),
        ("the same place, but the last", base, (64, 128, false)),
        ("a last that lies before it", base, (8, 24, false)),
        ("a last that ends within it", base, (56, 65, false)),
        ("beyond the last", (64, 128, false), (128, 136, true)),
        ("the same place, but not the last", (64, 128, false), (64, 128, true)),
        ("two lasts, the second longer", (64, 128, false), (128, 130, false)),
        ("two lasts, the second shorter", (64, 128, false), (32, 40, false)),
        ("across two chunks", (0, 1024, true), (504, 520, true)),
        ("the end of one, from a chunk's border", (0, 1024, true), (512, 1024, true)),
        ("the beginning of one, up to a chunk's border", (0, 1024, true), (0, 512, true)),
        ("a last of odd length, longer", (64, 125, false), (64, 126, false)),
    ];
    for (story, (start, end, more), (from, to, later)) in contradictions {
        let mut reassembly = default();
        let first = piece(header(), start, end, more);
        assert_eq!(take(&mut reassembly, &first, 0), Became::Waiting);
        let second = piece(header(), from, to, later);
        let became = take(&mut reassembly, &second, 0);
        assert_eq!(became, Became::Dropped(Rejection::Overlap), "{story}");
        for bytes in [&first, &second, &piece(header(), 2000, 2008, true)] {
            let became = take(&mut reassembly, bytes, SECOND_NS);
            assert_eq!(became, Became::Dropped(Rejection::Poisoned), "{story}");
        }
        assert!(reassembly.held_bytes() > 0 && reassembly.waiting() == 1);
        // After its time the key is free again, and no error is sent.
        reassembly.expire(30 * SECOND_NS, |_| panic!("{story}: nothing waited"));
        assert_eq!((reassembly.held_bytes(), reassembly.waiting()), (0, 0));
        assert_eq!(take(&mut reassembly, &first, 30 * SECOND_NS), Became::Waiting);
    }
}

#[test]
fn forged_bytes_in_the_place_of_a_fragment_drop_the_datagram() {
    let mut reassembly = default();
    let fragment = piece(header(), 0, 600, true);
    assert_eq!(take(&mut reassembly, &fragment, 0), Became::Waiting);
    let mut forged = fragment;
    forged[20 + 599] ^= 1;
    assert_eq!(take(&mut reassembly, &forged, 0), Became::Dropped(Rejection::Overlap));
}

#[test]
fn what_would_be_too_long_with_its_header_is_dropped() {
    let options = [7, 39, 4].into_iter().chain([0; 36]).collect::<Vec<_>>();
    let first = datagram(Header { more_fragments: true, ..header() }, &options, &[0; 8]);
    let end = 65_535 - 60;
    // The last byte that is possible, and one more.
    for (last_end, fits) in [(end, true), (end + 1, false)] {
        let mut last = header();
        last.offset_bytes = 65_400;
        let last = datagram(last, &[], &vec![0; last_end - 65_400]);
        for order in [[&first, &last], [&last, &first]] {
            let mut reassembly = default();
            assert_eq!(take(&mut reassembly, order[0], 0), Became::Waiting);
            let became = take(&mut reassembly, order[1], 0);
            let expected = if fits { Became::Waiting } else { Became::Dropped(Rejection::TooLong) };
            assert_eq!(became, expected);
        }
    }
}

#[test]
fn fragments_that_hide_the_header_of_tcp_are_dropped_alone() {
    let mut reassembly = default();
    let tcp = Header { protocol: protocol::TCP, ..header() };
    for bytes in [piece(tcp, 0, 16, true), piece(tcp, 8, 32, true), piece(tcp, 8, 32, false)] {
        assert_eq!(take(&mut reassembly, &bytes, 0), Became::Dropped(Rejection::Tiny));
    }
    assert_eq!(reassembly.waiting(), 0);
    assert_eq!(take(&mut reassembly, &piece(tcp, 0, 24, true), 0), Became::Waiting);
    assert_eq!(
        take(&mut reassembly, &piece(tcp, 8, 32, true), 0),
        Became::Dropped(Rejection::Tiny)
    );
    assert_eq!(take(&mut reassembly, &piece(tcp, 24, 29, false), 0), whole(tcp, 29));
    assert_eq!(take(&mut reassembly, &piece(header(), 0, 8, true), 0), Became::Waiting);
    assert_eq!(take(&mut reassembly, &piece(header(), 8, 9, false), 0), whole(header(), 9));
}

#[test]
fn a_mark_of_congestion_on_any_fragment_is_on_the_whole() {
    let marked = |tos| Header { tos, ..header() };
    let mut reassembly = default();
    // ECT(0), congestion experienced; then without support and congestion experienced.
    take(&mut reassembly, &piece(marked(0x02), 0, 24, true), 0);
    let became = take(&mut reassembly, &piece(marked(0x03), 24, 30, false), 0);
    assert_eq!(became, whole(marked(0x03), 30));
    take(&mut reassembly, &piece(marked(0x00), 0, 24, true), 0);
    let became = take(&mut reassembly, &piece(marked(0x03), 24, 30, false), 0);
    assert_eq!(became, Became::Dropped(Rejection::Ecn));
    assert_eq!(reassembly.held_bytes(), 0);
}

#[test]
fn time_runs_from_the_first_fragment_and_is_not_extended() {
    let mut reassembly = default();
    assert_eq!(reassembly.next_expiry_ns(), None);
    take(&mut reassembly, &piece(header(), 0, 24, true), SECOND_NS);
    take(&mut reassembly, &piece(header(), 24, 48, true), 30 * SECOND_NS);
    assert_eq!(reassembly.next_expiry_ns(), Some(31 * SECOND_NS));
    reassembly.expire(31 * SECOND_NS - 1, |_| panic!("too early"));
    let mut told = Vec::new();
    reassembly.expire(31 * SECOND_NS, |gone| {
        told.push((gone.source, gone.destination, gone.quote.map(<[u8]>::to_vec)));
    });
    let first = piece(header(), 0, 24, true);
    let quote = Some(first[..28].to_vec());
    assert_eq!(told, [(header().source, header().destination, quote)]);
    assert_eq!((reassembly.next_expiry_ns(), reassembly.held_bytes()), (None, 0));
}

#[test]
fn without_its_first_fragment_nothing_is_quoted() {
    let mut reassembly = default();
    take(&mut reassembly, &piece(header(), 24, 48, true), 0);
    let mut told = 0;
    reassembly.expire(u64::MAX, |gone| {
        assert_eq!(gone.quote, None);
        told += 1;
    });
    assert_eq!(told, 1);
}

/// An id that is used again after the timeout must not be put together with the fragments left of
/// the old datagram, even if nobody called `expire` meanwhile.
#[test]
fn an_old_fragment_is_not_put_together_with_one_after_its_time() {
    let mut reassembly = default();
    take(&mut reassembly, &piece(header(), 0, 24, true), 0);
    let last = piece(header(), 24, 30, false);
    assert_eq!(take(&mut reassembly, &last, 30 * SECOND_NS), Became::Waiting);
    assert_eq!(reassembly.waiting(), 1);
    let first = piece(header(), 0, 24, true);
    assert_eq!(take(&mut reassembly, &first, 30 * SECOND_NS), whole(header(), 30));
}

#[test]
fn limits_below_one_datagram_are_raised_to_it() {
    let limits = ReassemblyLimits { whole_bytes: 1, source_bytes: 0, timeout_ns: SECOND_NS };
    let mut reassembly = Reassembly::new(limits);
    let least = LEAST_BUDGET_BYTES;
    let kept = ReassemblyLimits { whole_bytes: least, source_bytes: least, timeout_ns: SECOND_NS };
    assert_eq!(reassembly.limits(), kept);
    let fragments = pieces(header(), 65_515, 1480);
    let (last, others) = fragments.split_last().unwrap();
    for fragment in others {
        assert_eq!(take(&mut reassembly, fragment, 0), Became::Waiting);
        assert!(reassembly.held_bytes() <= least);
    }
    assert!(take(&mut reassembly, last, 0) == whole(header(), 65_515));
}

/// smoltcp 0.14 stops reassembling for a minute after as many stuck datagrams as it has places.
#[test]
fn ten_thousand_stuck_datagrams_of_forged_sources_keep_nobody_out() {
    let mut reassembly = default();
    let fragments = pieces(header(), 65_515, 1480);
    let (last, others) = fragments.split_last().unwrap();
    let (mut forged, mut of_source, mut of_all) = (0u32, 0, 0);
    let mut flood = |reassembly: &mut Reassembly, count: u32| {
        for _ in 0..count {
            forged += 1;
            let source = Ipv4Addr::from(0x2000_0000 + forged);
            let bytes = piece(Header { source, ..header() }, 64, 72, true);
            assert_eq!(take(reassembly, &bytes, 0), Became::Waiting);
            assert!(reassembly.held_bytes() <= reassembly.limits().whole_bytes);
            let [source, all] = evicted(reassembly);
            (of_source, of_all) = (of_source + source, of_all + all);
        }
    };
    flood(&mut reassembly, 10_000);
    for _ in 0..3 {
        for fragment in others {
            assert_eq!(take(&mut reassembly, fragment, 0), Became::Waiting);
            flood(&mut reassembly, 50);
        }
        assert!(take(&mut reassembly, last, 0) == whole(header(), 65_515));
    }
    assert!(of_all > 9_000 && of_source == 0, "{of_all} of all, {of_source} of a source");
}

#[test]
fn a_source_that_fills_its_budget_is_the_only_one_to_lose() {
    let mut reassembly = default();
    let greedy = Header { source: Ipv4Addr::new(10, 6, 6, 6), ..header() };
    let (mut of_source, mut of_all) = (0, 0);
    take(&mut reassembly, &piece(header(), 0, 1480, true), 0);
    for id in 0..3_000 {
        let became = take(&mut reassembly, &piece(Header { id, ..greedy }, 0, 1480, true), 0);
        assert_eq!(became, Became::Waiting);
        let [source, all] = evicted(&reassembly);
        (of_source, of_all) = (of_source + source, of_all + all);
        assert!(reassembly.held_bytes_of(greedy.source) <= reassembly.limits().source_bytes);
    }
    let became = take(&mut reassembly, &piece(header(), 1480, 1500, false), 0);
    assert_eq!(became, whole(header(), 1500));
    // The newest datagrams of this source are still held, its oldest are not.
    let newest = Header { id: 2_999, ..greedy };
    let became = take(&mut reassembly, &piece(newest, 1480, 1500, false), 0);
    assert_eq!(became, whole(newest, 1500));
    let oldest = Header { id: 0, ..greedy };
    let became = take(&mut reassembly, &piece(oldest, 1480, 1500, false), 0);
    assert_eq!(became, Became::Waiting);
    assert!(of_source > 2_000 && of_all == 0, "{of_source} of a source, {of_all} of all");
}

#[test]
fn seven_of_the_longest_datagrams_of_one_source_may_come_at_a_time() {
    let mut reassembly = default();
    let datagrams: Vec<_> =
        (0..7).map(|id| pieces(Header { id, ..header() }, 65_515, 1480)).collect();
    let mut completed = 0;
    for at in 0..datagrams[0].len() {
        for fragments in &datagrams {
            completed += u32::from(take(&mut reassembly, &fragments[at], 0) != Became::Waiting);
        }
    }
    assert_eq!(completed, 7);
}

/// The datagram that a fragment belongs to can be the one that has to give way for it.
#[test]
fn a_datagram_that_gives_way_to_its_own_fragment_is_gone() {
    let limits =
        ReassemblyLimits { whole_bytes: 0, source_bytes: 0, ..ReassemblyLimits::default() };
    for other in [header().source, Ipv4Addr::new(10, 0, 0, 9)] {
        let mut reassembly = Reassembly::new(limits);
        let newer = Header { id: 8, source: other, ..header() };
        assert_eq!(take(&mut reassembly, &piece(header(), 0, 8, true), 0), Became::Waiting);
        assert_eq!(take(&mut reassembly, &piece(newer, 0, 8, true), 0), Became::Waiting);
        let became = take(&mut reassembly, &piece(header(), 8, 65_400, true), 0);
        let is_own = other == header().source;
        let why = if is_own { Rejection::SourceBudget } else { Rejection::WholeBudget };
        assert_eq!(became, Became::Dropped(why));
        assert_eq!(reassembly.waiting(), 1);
        assert_eq!(take(&mut reassembly, &piece(newer, 8, 9, false), 0), whole(newer, 9));
    }
}

#[test]
fn poisoned_keys_are_within_the_budgets() {
    let mut reassembly = default();
    for id in 0..5_000 {
        let header = Header { id, ..header() };
        take(&mut reassembly, &piece(header, 0, 1024, true), 0);
        let became = take(&mut reassembly, &piece(header, 8, 16, true), 0);
        assert_eq!(became, Became::Dropped(Rejection::Overlap));
        assert!(reassembly.held_bytes() <= reassembly.limits().source_bytes);
        // A datagram that gives way here was counted when it was poisoned.
        assert_eq!(evicted(&reassembly), [0, 0]);
    }
}
