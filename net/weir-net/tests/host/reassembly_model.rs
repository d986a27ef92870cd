//! Reassembly beside a naive one that keeps a map of bytes for each datagram, on any fragments in
//! any order; and what holds of budgets, whatever comes.

use crate::datagrams::{datagram, header};
use proptest::prelude::*;
use std::collections::HashMap;
use weir_net::fragment::Pieces;
use weir_net::reassembly::{
    LEAST_BUDGET_BYTES, Reassembled, Reassembly, ReassemblyLimits, Rejection,
};
use weir_net::wire::ipv4::{Datagram, Header};

const TIMEOUT_NS: u64 = 1000;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A fragment as the test generates it.
#[derive(Clone, Debug)]
struct Fragment {
    source: u8,
    id: u8,
    protocol: u8,
    unit: u16,
    bytes: u16,
    more: bool,
    /// Each version has different bytes.
    version: u8,
    tos: u8,
    options: u8,
}

impl Fragment {
    fn start(&self) -> usize {
        usize::from(self.unit) * 8
    }

    fn end(&self) -> usize {
        self.start() + usize::from(self.bytes)
    }

    fn payload(&self) -> Vec<u8> {
        let byte = |at: usize| (at * 31 + (at >> 8) * 7) as u8 ^ self.version;
        (self.start()..self.end()).map(byte).collect()
    }

    fn written(&self) -> Vec<u8> {
        let to = [10, 0, 1, 1];
        let header = Header {
            tos: self.tos,
            more_fragments: self.more,
            offset_bytes: self.unit * 8,
            ttl: 9,
            ..header(self.id.into(), self.protocol, [10, 0, 0, self.source], to)
        };
        datagram(header, &[1; 40][..usize::from(self.options)], &self.payload())
    }
}

/// A datagram of the naive reassembly.
#[derive(Default)]
struct Known {
    deadline_ns: u64,
    poisoned: bool,
    map: HashMap<usize, u8>,
    came: Vec<Fragment>,
}

/// What the naive reassembly returns: [`Reassembled`] by value.
#[derive(Debug, PartialEq)]
enum Says {
    Whole(Vec<u8>),
    Waiting,
    Dropped(Rejection),
}

#[derive(Default)]
struct Naive {
    known: HashMap<(u8, u8, u8), Known>,
}

impl Naive {
    fn take(&mut self, fragment: &Fragment, now_ns: u64) -> Says {
        let (start, end) = (fragment.start(), fragment.end());
        let small = start == 0 && fragment.bytes < 20;
        if fragment.protocol == 6 && (small || start == 8) {
            return Says::Dropped(Rejection::Tiny);
        }
        let key = (fragment.source, fragment.id, fragment.protocol);
        if self.known.get(&key).is_some_and(|known| known.deadline_ns <= now_ns) {
            self.known.remove(&key);
        }
        let fresh = || Known { deadline_ns: now_ns + TIMEOUT_NS, ..Known::default() };
        let known = self.known.entry(key).or_insert_with(fresh);
        if known.poisoned {
            return Says::Dropped(Rejection::Poisoned);
        }
        let same = |other: &Fragment| {
            (other.unit, other.bytes, other.more) == (fragment.unit, fragment.bytes, fragment.more)
                && other.payload() == fragment.payload()
        };
        if known.came.iter().any(same) {
            return Says::Dropped(Rejection::Duplicate);
        }
        if let Some(why) = known.contradicts(fragment) {
            known.poisoned = true;
            return Says::Dropped(why);
        }
        known.map.extend((start..end).zip(fragment.payload()));
        known.came.push(fragment.clone());
        let last = known.came.iter().find(|other| !other.more).map(Fragment::end);
        match last {
            Some(last) if (0..last).all(|at| known.map.contains_key(&at)) => {
                let says = known.whole(last);
                self.known.remove(&key);
                says
            }
            _ => Says::Waiting,
        }
    }
}

impl Known {
    fn contradicts(&self, fragment: &Fragment) -> Option<Rejection> {
        let (start, end) = (fragment.start(), fragment.end());
        let overlaps = (start..end).any(|at| self.map.contains_key(&at));
        let beyond = |other: &Fragment| {
            (!other.more && end > other.end())
                || (!fragment.more && other.end() > end)
                || (!other.more && !fragment.more)
        };
        if overlaps || self.came.iter().any(beyond) {
            return Some(Rejection::Overlap);
        }
        let all = || self.came.iter().chain([fragment]);
        let first = all().find(|fragment| fragment.unit == 0);
        let header_bytes = 20 + first.map_or(0, |first| usize::from(first.options));
        let longest = all().map(Fragment::end).max().unwrap_or(0);
        (header_bytes + longest > 65_535).then_some(Rejection::TooLong)
    }

    /// The whole, under the first fragment's header, whose checksum is reckoned word by word.
    fn whole(&self, payload_bytes: usize) -> Says {
        let codepoint = |wanted| self.came.iter().any(|fragment| fragment.tos & 3 == wanted);
        if codepoint(0) && codepoint(3) {
            return Says::Dropped(Rejection::Ecn);
        }
        let first = self.came.iter().find(|fragment| fragment.unit == 0).unwrap();
        let mut bytes = first.written();
        let header_bytes = 20 + usize::from(first.options);
        bytes.truncate(header_bytes);
        bytes[2..4].copy_from_slice(&((header_bytes + payload_bytes) as u16).to_be_bytes());
        bytes[6..8].fill(0);
        bytes[1] |= if codepoint(3) { 3 } else { 0 };
        bytes[10..12].fill(0);
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair[1]);
        let mut sum: u32 = bytes.chunks(2).map(word).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        bytes[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
        bytes.extend((0..payload_bytes).map(|at| self.map[&at]));
        Says::Whole(bytes)
    }
}

fn says(reassembly: &mut Reassembly, bytes: &[u8], now_ns: u64) -> Says {
    match reassembly.take(&Datagram::check(bytes).unwrap(), now_ns) {
        Reassembled::Whole(whole) => Says::Whole(whole.to_vec()),
        Reassembled::Waiting => Says::Waiting,
        Reassembled::Dropped(why) => Says::Dropped(why),
    }
}

/// Fragments of few datagrams, which often meet: units 0 to 15 and around a chunk's border, lengths
/// that end at the same places, and a few as far out as there can be.
fn any_fragment() -> impl Strategy<Value = Fragment> {
    let unit = prop_oneof![6 => 0u16..8, 2 => 56u16..72, 1 => 8180u16..8190];
    let key = (1u8..3, 0u8..2, prop_oneof![3 => Just(17u8), 1 => Just(6u8)]);
    let tos = prop_oneof![8 => Just(0u8), 1 => Just(2u8), 1 => Just(3u8)];
    let options = prop_oneof![3 => Just(0u8), 1 => Just(40u8)];
    let version = prop_oneof![9 => Just(0u8), 1 => Just(1u8)];
    let size = (1u16..9, 1u16..9);
    (key, unit, size, any::<bool>(), version, tos, options).prop_map(
        |((source, id, protocol), unit, (units, tail), more, version, tos, options)| {
            let bytes = if more { units * 8 } else { units * 8 - tail + 1 };
            let room = 65_515 - unit * 8;
            let bytes = if bytes <= room { bytes } else { room & !7 };
            Fragment {
                source,
                id,
                protocol,
                unit,
                bytes: bytes.max(1),
                more,
                version,
                tos,
                options,
            }
        },
    )
}

/// A step: a fragment, after this much time.
fn any_steps() -> impl Strategy<Value = Vec<(Fragment, u64)>> {
    let time = prop_oneof![9 => 0u64..10, 1 => 0u64..1200];
    prop::collection::vec((any_fragment(), time), 1..60)
}

fn is_possible(fragment: &Fragment) -> bool {
    fragment.more || fragment.unit > 0
}

proptest! {
    #![proptest_config(config(4096))]

    #[test]
    fn it_says_what_a_naive_one_says(steps in any_steps(), expires in any::<bool>()) {
        let limits = ReassemblyLimits { timeout_ns: TIMEOUT_NS, ..ReassemblyLimits::default() };
        let (mut reassembly, mut naive) = (Reassembly::new(limits), Naive::default());
        let mut now_ns = 0;
        for (fragment, time_ns) in steps.iter().filter(|(fragment, _)| is_possible(fragment)) {
            now_ns += time_ns;
            let Ok(_) = Datagram::check(&fragment.written()) else { continue };
            if expires {
                let mut gone = 0;
                reassembly.expire(now_ns, |_| gone += 1);
                let over = |known: &Known| known.deadline_ns <= now_ns;
                let expected = naive.known.values().filter(|known| over(known) && !known.poisoned);
                prop_assert_eq!(gone, expected.count());
                naive.known.retain(|_, known| !over(known));
            }
            let expected = naive.take(fragment, now_ns);
            let said = says(&mut reassembly, &fragment.written(), now_ns);
            prop_assert_eq!(said, expected, "{:?} at {}", fragment, now_ns);
        }
        prop_assert_eq!(reassembly.waiting(), naive.known.len());
        let next = naive.known.values().map(|known| known.deadline_ns).min();
        prop_assert_eq!(reassembly.next_expiry_ns(), next);
        reassembly.expire(u64::MAX, |_| ());
        prop_assert_eq!(reassembly.held_bytes(), 0);
    }
}

/// A datagram of an honest source, in fragments.
#[derive(Clone, Debug)]
struct Honest {
    whole: Vec<u8>,
    fragments: Vec<Vec<u8>>,
}

fn honest(source: u8, id: u16, payload_bytes: usize, mtu: usize, options: &[u8]) -> Honest {
    let header_bytes = 20 + options.len().next_multiple_of(4);
    let payload_bytes = payload_bytes.min(65_535 - header_bytes);
    let header = header(id, 17, [10, 0, 2, source], [10, 0, 1, 1]);
    let payload: Vec<u8> = (0..payload_bytes).map(|at| (at * 7 + at / 251) as u8).collect();
    let whole = datagram(header, options, &payload);
    let fragments = Pieces::new(header, options, payload_bytes, mtu)
        .unwrap()
        .map(|piece| {
            let mut out = vec![0; mtu];
            let bytes = piece.emit(&payload, &mut out).expect("it fits into the MTU");
            out.truncate(bytes);
            out
        })
        .collect();
    Honest { whole, fragments }
}

/// Options that are right, some of them copied on fragments.
fn right_options() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        Just(vec![7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0]),
        Just(vec![148, 4, 0, 0]),
        Just(vec![1]),
        Just(vec![130, 3, 9]),
        Just(vec![68, 8, 5, 0, 0, 0, 0, 0]),
    ];
    prop::collection::vec(one, 0..4).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn what_was_fragmented_comes_back_as_it_was(
        payload_bytes in prop_oneof![0usize..200, 0usize..4000, 65_000usize..65_536],
        mtu in prop_oneof![68usize..200, 560usize..600, Just(1500), 68usize..65_536],
        options in right_options(),
        seed in any::<u64>(),
    ) {
        let datagram = honest(1, 1, payload_bytes, mtu, &options);
        prop_assert!(datagram.fragments.iter().all(|fragment| fragment.len() <= mtu));
        let (_, full) = datagram.fragments.split_last().unwrap();
        prop_assert!(full.iter().all(|fragment| fragment.len() + 8 > mtu));
        let mut order: Vec<usize> = (0..datagram.fragments.len()).collect();
        shuffle(&mut order, seed);
        let mut reassembly = Reassembly::new(ReassemblyLimits::default());
        let (last, others) = order.split_last().unwrap();
        for at in others {
            // Each of them comes twice, as happens in networks.
            for expected in [Says::Waiting, Says::Dropped(Rejection::Duplicate)] {
                prop_assert!(says(&mut reassembly, &datagram.fragments[*at], 0) == expected);
            }
        }
        let said = says(&mut reassembly, &datagram.fragments[*last], 0);
        prop_assert!(said == Says::Whole(datagram.whole), "{} fragments", order.len());
        prop_assert_eq!(reassembly.held_bytes(), 0);
    }

    /// Gateways may fragment fragments.
    #[test]
    fn fragments_of_fragments_are_fragments_of_the_datagram(
        payload_bytes in 100usize..9000,
        mtus in [68usize..1500, 68usize..1500],
        options in right_options(),
        seed in any::<u64>(),
    ) {
        let datagram = honest(1, 1, payload_bytes, mtus[0], &options);
        let mut smaller = Vec::new();
        for fragment in &datagram.fragments {
            let view = Datagram::check(fragment).unwrap();
            let (header, payload) = (view.header(), view.payload());
            for piece in Pieces::new(header, view.options(), payload.len(), mtus[1]).unwrap() {
                let mut out = vec![0; mtus[1]];
                let bytes = piece.emit(payload, &mut out).unwrap();
                out.truncate(bytes);
                smaller.push(out);
            }
        }
        shuffle(&mut smaller, seed);
        let mut reassembly = Reassembly::new(ReassemblyLimits::default());
        let mut said: Vec<Says> =
            smaller.iter().map(|fragment| says(&mut reassembly, fragment, 0)).collect();
        prop_assert!(said.pop() == Some(Says::Whole(datagram.whole)));
        prop_assert!(said.iter().all(|said| *said == Says::Waiting));
    }

    /// Small budgets and a hostile source: never over budget, and each honest source, which keeps
    /// within its own, has its datagram whole, as long as the hostile one does not fill the whole.
    #[test]
    fn budgets_hold_and_the_honest_come_through(
        hostile in prop::collection::vec(any_fragment(), 0..400),
        sizes in [1usize..65_516, 1usize..65_516, 1usize..65_516],
        mtus in [68usize..1600, 68usize..1600, 68usize..1600],
        seed in any::<u64>(),
    ) {
        // Three honest sources and two hostile ones (of `any_fragment`), each at its limit.
        let limits = ReassemblyLimits {
            whole_bytes: 5 * LEAST_BUDGET_BYTES,
            source_bytes: LEAST_BUDGET_BYTES,
            timeout_ns: TIMEOUT_NS,
        };
        let datagrams: Vec<Honest> = (0..3u8)
            .map(|at| honest(at, 1, sizes[usize::from(at)], mtus[usize::from(at)], &[]))
            .collect();
        let mut all: Vec<Vec<u8>> = hostile
            .iter()
            .filter(|fragment| is_possible(fragment))
            .enumerate()
            .map(|(at, fragment)| Fragment { id: at as u8, ..fragment.clone() }.written())
            .filter(|bytes| Datagram::check(bytes).is_ok())
            .collect();
        all.extend(datagrams.iter().flat_map(|datagram| datagram.fragments.clone()));
        shuffle(&mut all, seed);
        let mut reassembly = Reassembly::new(limits);
        let mut wholes = Vec::new();
        for bytes in &all {
            if let Says::Whole(whole) = says(&mut reassembly, bytes, 0) {
                wholes.push(whole);
            }
            prop_assert!(reassembly.held_bytes() <= limits.whole_bytes);
            prop_assert!(reassembly.evicted().all(|(why, _)| why != Rejection::WholeBudget));
            let source = Datagram::check(bytes).unwrap().header().source;
            prop_assert!(reassembly.held_bytes_of(source) <= limits.source_bytes);
        }
        for datagram in datagrams {
            prop_assert!(wholes.contains(&datagram.whole), "{} bytes", datagram.whole.len());
        }
    }

    /// This many sources fill the whole budget.
    #[test]
    fn forged_sources_cost_others_only_what_is_oldest(
        forged in prop::collection::vec((any_fragment(), any::<u8>()), 0..600),
        payload_bytes in 1500usize..65_516,
    ) {
        let limits = ReassemblyLimits { whole_bytes: 0, source_bytes: 0, timeout_ns: TIMEOUT_NS };
        let mut reassembly = Reassembly::new(limits);
        let whole_bytes = reassembly.limits().whole_bytes;
        for (fragment, source) in forged {
            let fragment = Fragment { source, ..fragment };
            let bytes = fragment.written();
            if !is_possible(&fragment) || Datagram::check(&bytes).is_err() {
                continue;
            }
            says(&mut reassembly, &bytes, 0);
            prop_assert!(reassembly.held_bytes() <= whole_bytes);
        }
        // The newest goes last, so a full budget keeps nobody out.
        let datagram = honest(1, 1, payload_bytes, 1500, &[]);
        let said: Vec<Says> = datagram
            .fragments
            .iter()
            .map(|fragment| says(&mut reassembly, fragment, 0))
            .collect();
        prop_assert!(said.last() == Some(&Says::Whole(datagram.whole)));
        prop_assert!(reassembly.held_bytes() <= whole_bytes);
    }
}

/// The shuffle of Fisher and Yates, with a generator of its own, so that the seed alone decides.
fn shuffle<T>(items: &mut [T], mut seed: u64) {
    for at in (1..items.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(at, (seed >> 33) as usize % (at + 1));
    }
}
