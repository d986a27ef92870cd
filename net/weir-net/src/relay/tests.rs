//! The impairments against what they promise: repeatable, at their rates, nothing lost unaccounted.

use super::{Impairment, ImpairmentCounts, Impairments, Share};
use proptest::prelude::*;
use proptest::sample::select;

fn percent(text: &str) -> Share {
    text.parse().expect("a rate")
}

/// A packet that says which one it is.
fn numbered(number: u32, bytes: usize) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    packet.resize(bytes.max(4), number as u8);
    packet
}

fn number(packet: &[u8]) -> u32 {
    packet.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Returns what comes out by `now_ns`.
fn drain(impairment: &mut Impairment, now_ns: u64) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| impairment.due(now_ns).map(<[u8]>::to_vec)).collect()
}

/// Sends this many packets, a microsecond apart, and returns everything that comes out.
fn run(settings: Impairments, packets: u32) -> (Vec<Vec<u8>>, ImpairmentCounts) {
    let mut impairment = Impairment::new(settings);
    let mut out = Vec::new();
    for sent in 0..packets {
        let now_ns = u64::from(sent) * 1000;
        impairment.take(&numbered(sent, 100), now_ns);
        out.append(&mut drain(&mut impairment, now_ns));
    }
    out.append(&mut drain(&mut impairment, u64::MAX));
    (out, impairment.counts())
}

#[test]
fn without_settings_packets_come_out_as_they_went_in() {
    let (out, counts) = run(Impairments::default(), 1000);
    let expected: Vec<_> = (0..1000).map(|sent| numbered(sent, 100)).collect();
    assert!(out == expected);
    let (taken, taken_bytes) = (1000, 100_000);
    let expected = ImpairmentCounts {
        taken,
        taken_bytes,
        delivered: taken,
        delivered_bytes: taken_bytes,
        ..ImpairmentCounts::default()
    };
    assert_eq!(counts, expected);
}

/// The largest distance from the expected count that chance has in one of 10^15 runs, which the
/// seed excludes for good.
fn near(count: u64, of: u64, rate: Share) -> bool {
    let share = f64::from(rate.millionths()) / 1e6;
    let deviation = (of as f64 * share * (1.0 - share)).sqrt();
    (count as f64 - of as f64 * share).abs() <= 8.0 * deviation
}

#[test]
fn each_impairment_strikes_at_its_rate() {
    const PACKETS: u32 = 100_000;
    let of = u64::from(PACKETS);
    for seed in [1, 42] {
        for text in ["0%", "0.1%", "1%", "5%", "50%", "100%"] {
            let (rate, plain) =
                (percent(text), Impairments { seed, hold_ns: 500_000, ..Impairments::default() });
            let (out, counts) = run(Impairments { loss: rate, ..plain }, PACKETS);
            assert!(near(counts.lost, of, rate), "loss {text}: {counts:?}");
            assert_eq!(out.len() as u64, of - counts.lost);
            let (out, counts) = run(Impairments { duplicate: rate, ..plain }, PACKETS);
            assert!(near(counts.duplicated, of, rate), "duplicate {text}: {counts:?}");
            assert_eq!(out.len() as u64, of + counts.duplicated);
            let (out, counts) = run(Impairments { corrupt: rate, ..plain }, PACKETS);
            assert!(near(counts.corrupted, of, rate), "corrupt {text}: {counts:?}");
            let differ = |(sent, packet): (usize, &Vec<u8>)| {
                let was = numbered(sent as u32, 100);
                let bits: u32 = was.iter().zip(packet).map(|(a, b)| (a ^ b).count_ones()).sum();
                assert!(bits <= 1 && packet.len() == 100, "more than one bit");
                u64::from(bits)
            };
            assert_eq!(out.iter().enumerate().map(differ).sum::<u64>(), counts.corrupted);
            let (out, counts) = run(Impairments { reorder: rate, ..plain }, PACKETS);
            assert!(near(counts.held_back, of, rate), "reorder {text}: {counts:?}");
            let mut numbers: Vec<_> = out.iter().map(|packet| number(packet)).collect();
            let overtaken = numbers.windows(2).filter(|two| two[1] < two[0]).count() as u64;
            assert!(overtaken <= counts.held_back);
            // Where none or all are held back, none is overtaken.
            let mixed = 0 < rate.millionths() && rate < Share::ALWAYS;
            assert_eq!(overtaken > 0, mixed, "reorder {text}: {overtaken}");
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..PACKETS), "reorder {text}");
        }
    }
}

#[test]
fn every_bit_of_a_packet_can_be_the_inverted_one() {
    let settings = Impairments { corrupt: Share::ALWAYS, seed: 7, ..Impairments::default() };
    let mut impairment = Impairment::new(settings);
    let mut seen = [0u32; 64];
    for _ in 0..64_000 {
        impairment.take(&[0; 8], 0);
        let packet = impairment.due(0).expect("it is due");
        let word = packet.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        assert_eq!(word.count_ones(), 1);
        seen[word.trailing_zeros() as usize] += 1;
    }
    // A thousand each, give or take eight standard deviations.
    assert!(seen.iter().all(|count| (747..=1253).contains(count)), "{seen:?}");
    impairment.take(&[], 0);
    assert_eq!(impairment.due(0), Some(&[][..]));
    assert_eq!(impairment.counts().corrupted, 64_000);
}

#[test]
fn one_that_is_held_back_leaves_right_behind_the_nth_later_one() {
    for behind in [0, 1, 3, 10] {
        let settings =
            Impairments { reorder: percent("10%"), behind, seed: 3, ..Impairments::default() };
        let mut impairment = Impairment::new(settings);
        let mut held: Vec<(u32, u32)> = Vec::new();
        let mut before = 0;
        for sent in 0..10_000 {
            impairment.take(&numbered(sent, 20), 0);
            let mut expected = Vec::new();
            if impairment.counts().held_back > before {
                before += 1;
                held.push((sent, behind.max(1)));
            } else {
                expected.push(sent);
                held.iter_mut().for_each(|(_, left)| *left -= 1);
                expected.extend(held.extract_if(.., |(_, left)| *left == 0).map(|(sent, _)| sent));
            }
            let out = drain(&mut impairment, 0);
            assert!(out.iter().map(|packet| number(packet)).eq(expected), "{sent} of {behind}");
        }
        assert!(before > 800);
    }
}

#[test]
fn one_that_is_held_back_is_not_held_for_longer_than_was_set() {
    let settings = Impairments {
        reorder: Share::ALWAYS,
        hold_ns: 50,
        least_delay_ns: 10,
        ..Impairments::default()
    };
    let mut impairment = Impairment::new(settings);
    impairment.take(b"one", 100);
    impairment.take(b"two", 120);
    assert_eq!((impairment.next_due_ns(), impairment.waiting()), (Some(150), 2));
    assert_eq!(impairment.due(149), None);
    assert_eq!(impairment.due(150), Some(&b"one"[..]));
    assert_eq!(impairment.next_due_ns(), Some(170));
    assert_eq!(impairment.due(1000), Some(&b"two"[..]));
    assert_eq!((impairment.next_due_ns(), impairment.due(u64::MAX)), (None, None));
}

#[test]
fn delays_are_of_the_range_and_all_over_it() {
    let settings = Impairments {
        least_delay_ns: 1_000_000,
        most_delay_ns: 5_000_000,
        seed: 11,
        ..Impairments::default()
    };
    let mut impairment = Impairment::new(settings);
    let (mut quarters, mut now_ns) = ([0; 4], 0);
    for _ in 0..4000 {
        impairment.take(b"packet", now_ns);
        let due_ns = impairment.next_due_ns().expect("it waits");
        assert!((1_000_000..=5_000_000).contains(&(due_ns - now_ns)), "{due_ns}");
        quarters[((due_ns - now_ns - 1_000_000) / 1_000_001) as usize] += 1;
        assert_eq!(impairment.due(due_ns - 1), None);
        assert!(impairment.due(due_ns).is_some());
        now_ns = due_ns;
    }
    assert!(quarters.iter().all(|count| (780..=1220).contains(count)), "{quarters:?}");
}

#[test]
fn what_waits_is_bounded_and_the_rest_is_counted() {
    let waiting = Impairments { least_delay_ns: 1000, ..Impairments::default() };
    let mut few = Impairment::new(Impairments { most_packets: 3, ..waiting });
    let mut short = Impairment::new(Impairments { most_bytes: 250, ..waiting });
    for sent in 0..10 {
        few.take(&numbered(sent, 100), 0);
        short.take(&numbered(sent, 100), 0);
    }
    assert_eq!((few.waiting(), few.counts().overflowed), (3, 7));
    assert_eq!((short.waiting(), short.counts().overflowed), (2, 8));
    assert_eq!((drain(&mut few, 1000).len(), drain(&mut short, 1000).len()), (3, 2));
    // There is room again.
    few.take(b"packet", 2000);
    assert_eq!(drain(&mut few, 3000), [b"packet"]);
}

#[test]
fn one_setting_does_not_change_what_the_others_decide() {
    let lost = |settings: Impairments| {
        let mut impairment = Impairment::new(settings);
        let gone = |sent: &u32| {
            let before = impairment.counts().lost;
            impairment.take(&numbered(*sent, 64), 0);
            while impairment.due(u64::MAX).is_some() {}
            impairment.counts().lost > before
        };
        (0..20_000).filter(gone).collect::<Vec<u32>>()
    };
    let five = Impairments { loss: percent("5%"), seed: 9, ..Impairments::default() };
    let few = lost(five);
    let among = lost(Impairments {
        loss: percent("10%"),
        duplicate: percent("20%"),
        corrupt: percent("30%"),
        reorder: percent("40%"),
        most_delay_ns: 1_000_000,
        ..five
    });
    assert!(few.len() > 800 && among.len() > 1600);
    assert!(few.iter().all(|sent| among.binary_search(sent).is_ok()));
    assert!(lost(Impairments { seed: 10, ..five }) != few);
}

/// Any settings: none, some or all of each.
fn any_settings() -> impl Strategy<Value = Impairments> {
    let rate = || select(vec![0, 0, 1000, 50_000, 300_000, 1_000_000]);
    let rates = (rate(), rate(), rate(), rate());
    let delays = (0u64..3000, 0u64..6000, 1u64..8000);
    let limits = (1usize..200, 64usize..100_000);
    (rates, delays, limits, 0u32..6, any::<u64>()).prop_map(
        |((loss, duplicate, corrupt, reorder), delays, limits, behind, seed)| {
            let rate = |count| Share::per_million(count).expect("at most all");
            let (least_delay_ns, most_delay_ns, hold_ns) = delays;
            let (most_packets, most_bytes) = limits;
            Impairments {
                loss: rate(loss),
                duplicate: rate(duplicate),
                corrupt: rate(corrupt),
                reorder: rate(reorder),
                behind,
                hold_ns,
                least_delay_ns,
                most_delay_ns,
                most_packets,
                most_bytes,
                seed,
            }
        },
    )
}

/// Packets: the time since the one before, and the length.
fn any_packets() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((0u64..2000, 0usize..1500), 0..300)
}

/// Gives it the packets and takes what leaves: at each one's time, or when told to look.
fn feed(
    settings: Impairments,
    packets: &[(u64, usize)],
    when_due: bool,
) -> (Impairment, Vec<Vec<u8>>) {
    let mut impairment = Impairment::new(settings);
    let (mut now_ns, mut out) = (0, Vec::new());
    for (at, (after_ns, bytes)) in packets.iter().enumerate() {
        let next_ns = now_ns + after_ns;
        while when_due && let Some(due_ns) = impairment.next_due_ns().filter(|due| *due < next_ns) {
            out.append(&mut drain(&mut impairment, due_ns));
        }
        now_ns = next_ns;
        let packet: Vec<u8> = (0..*bytes).map(|byte| (byte * 31 + at) as u8).collect();
        impairment.take(&packet, now_ns);
        assert!(impairment.waiting() <= settings.most_packets);
    }
    out.append(&mut drain(&mut impairment, u64::MAX));
    (impairment, out)
}

proptest! {
    #[test]
    fn the_same_seed_and_packets_give_the_same(
        settings in any_settings(),
        packets in any_packets(),
    ) {
        let (one, out) = feed(settings, &packets, true);
        let (other, again) = feed(settings, &packets, true);
        prop_assert!(out == again);
        prop_assert_eq!(one.counts(), other.counts());
    }

    #[test]
    fn when_it_is_looked_at_changes_nothing_while_nothing_overflows(
        settings in any_settings(),
        packets in any_packets(),
    ) {
        let settings = Impairments { most_packets: 10_000, most_bytes: 1 << 30, ..settings };
        let (one, out) = feed(settings, &packets, true);
        let (other, late) = feed(settings, &packets, false);
        prop_assert!(out == late);
        prop_assert_eq!(one.counts(), other.counts());
    }

    #[test]
    fn nothing_is_lost_that_is_not_counted(settings in any_settings(), packets in any_packets()) {
        let (impairment, out) = feed(settings, &packets, true);
        let counts = impairment.counts();
        prop_assert_eq!(counts.taken, packets.len() as u64);
        let left = counts.taken - counts.lost + counts.duplicated - counts.overflowed;
        prop_assert_eq!(counts.delivered, left);
        prop_assert_eq!(out.len() as u64, left);
        prop_assert_eq!(counts.delivered_bytes, out.iter().map(|p| p.len() as u64).sum::<u64>());
        prop_assert_eq!((impairment.waiting(), impairment.next_due_ns()), (0, None));
    }
}

#[test]
fn rates_are_read_to_a_millionth() {
    for (text, millionths) in [
        ("0%", 0),
        ("5%", 50_000),
        ("0.1%", 1000),
        ("0.0001%", 1),
        ("12.5 %", 125_000),
        ("100%", 1_000_000),
        ("100.0%", 1_000_000),
    ] {
        assert_eq!(text.parse::<Share>().map(Share::millionths), Ok(millionths), "{text}");
    }
    let wrong = ["", "%", "5", "-1%", "+5%", ".5%", "5.%", "0.00001%", "100.0001%", "101%"];
    for text in wrong.into_iter().chain(["99999999999%", "1e1%", "1.+5%", "5%%", "5,5%"]) {
        assert!(text.parse::<Share>().is_err(), "{text}");
    }
    for text in ["0%", "5%", "0.1%", "0.0001%", "12.5%", "100%"] {
        assert_eq!(percent(text).to_string(), text);
    }
    assert_eq!(Share::per_million(1_000_001), None);
}
