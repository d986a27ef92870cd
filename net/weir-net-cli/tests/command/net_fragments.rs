//! `weir net`: fragments in every wrong order and shape, a flood of fragments, and fragments that
//! never come (docs/contracts/net.md, RFC 791, 1858, 5722).

use crate::common::net::{ANSWERS, Answers, Bed};
use crate::common::{WEIR, python, until};
use serde_json::{Value, json};
use std::process::Command;

/// The dropped packets in the log.
fn dropped(bed: &Bed) -> String {
    bed.ok(&format!("{WEIR} net log --tun weir0 --kinds drops"))
}

/// Each game of a script and its outcome. There must be as many outcomes as games.
fn games(outcomes: &Value, count: usize) -> impl Iterator<Item = (&str, &Value)> {
    let outcomes = outcomes.as_object().expect("games");
    assert_eq!(outcomes.len(), count);
    outcomes.iter().map(|(name, outcome)| (name.as_str(), outcome))
}

#[test]
fn fragments_in_any_order_make_the_datagram() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        for (game, outcome) in games(&bed.script("fragments.py orders"), 27) {
            let right = json!({"answered": 1, "right": 1, "others": [], "honest": 1});
            assert_eq!(*outcome, right, "{game}");
        }
        // Two fragments came twice, and one datagram never got its first fragment.
        let stat = bed.stat();
        assert_eq!(stat["drops"], json!({"duplicate_fragment": 2}));
        assert_eq!(
            (&stat["datagrams_reassembled"], &stat["reassembly"]["datagrams"]),
            (&54.into(), &1.into())
        );
        host.end();
    }
}

#[test]
fn what_overlaps_is_dropped_whole_whoever_was_first() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let outcomes = bed.script("fragments.py overlaps");
        for (game, outcome) in games(&outcomes, 11) {
            let silent = json!({"answered": 0, "right": 0, "others": [], "honest": 1});
            assert_eq!(*outcome, silent, "{game}");
        }
        let drops = bed.stat()["drops"].clone();
        assert_eq!(drops.as_object().map(|drops| drops.len()), Some(1), "{drops}");
        assert!(drops["overlap"].as_u64() >= Some(10), "{drops}");
        host.end();
    }
}

#[test]
fn fragments_that_cannot_be_are_dropped_for_what_they_are() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        for (game, outcome) in games(&bed.script("fragments.py impossible"), 8) {
            let silent = json!({"answered": 0, "right": 0, "others": [], "honest": 1});
            assert_eq!(*outcome, silent, "{game}");
        }
        // Bad: two end beyond the longest datagram, one is not a multiple of eight bytes, two are
        // empty. Tiny: those that hide TCP's header.
        assert_eq!(bed.stat()["drops"], json!({"bad_fragment": 5, "tiny_fragment": 3}));
        host.end();
    }
}

#[test]
fn ten_thousand_stuck_datagrams_do_not_keep_honest_ones_out() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let outcome = bed.script("fragments.py stuck 10000");
        assert_eq!(outcome, json!({"honest": 100, "answered": 100, "right": 100}));
        // All incomplete datagrams fit into the memory, and those that gave way were counted.
        let stat = bed.stat();
        let reassembly = &stat["reassembly"];
        assert!(reassembly["held_bytes"].as_u64() <= Some(4 << 20), "{stat}");
        let waiting = reassembly["datagrams"].as_u64().expect("a count");
        let evicted = stat["drops"]["evicted"].as_u64();
        assert_eq!(Some(waiting), 10_000u64.checked_sub(evicted.unwrap_or(0)), "{stat}");
        host.end();
    }
}

#[test]
fn one_source_cannot_take_the_memory_of_the_others() {
    let Some(bed) = Bed::new(&[]) else { return };
    let host = bed.host(Answers::Daemon, "", "");
    let outcome = bed.script("fragments.py hog 2000");
    // The other host's datagram began before the flood and ends after it. It arrives.
    assert_eq!(outcome["other"]["right"], 1, "{outcome}");
    let stat = bed.stat();
    assert!(stat["reassembly"]["held_bytes"].as_u64() <= Some(512 << 10), "{stat}");
    let waiting = stat["reassembly"]["datagrams"].as_u64().expect("a count");
    let evicted = stat["drops"]["evicted_of_source"].as_u64();
    assert_eq!(Some(waiting), 2000u64.checked_sub(evicted.unwrap_or(0)), "{stat}");
    // Those that gave way were counted, and no event of the log said so.
    let log = dropped(&bed);
    let told = log.lines().filter(|line| line.ends_with(": evicted-of-source"));
    assert_eq!(told.count() as u64, evicted.unwrap_or(0), "{log}");
    host.end();
}

/// What had waited too long was forgotten uncounted where another fragment of its number came first.
#[test]
fn a_fragment_after_the_time_of_its_datagram_leaves_that_counted() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline --reassembly-timeout 150ms");
    let sent = bed.script("fragments.py late")["sent"].as_u64().expect("a count");
    until("nothing waits any more", || bed.stat()["reassembly"]["datagrams"] == 0);
    // Each was a copy of one that waited, or waited in vain.
    let counted = ["duplicate-fragment", "reassembly-timeout"].map(|reason| bed.drops(reason));
    assert_eq!(counted.iter().sum::<u64>(), sent, "{counted:?}");
    switch.end();
}

#[test]
fn what_does_not_come_in_time_is_reported_only_where_the_first_fragment_came() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "--reassembly-timeout 300ms", "");
        let outcome = bed.script("fragments.py timeout");
        assert_eq!(outcome["rest"], json!([]), "{outcome}");
        let exceeded = &outcome["exceeded"];
        assert_eq!((&exceeded["type"], &exceeded["code"]), (&11.into(), &1.into()), "{outcome}");
        assert_eq!(exceeded["dst"], "10.9.0.1", "{outcome}");
        assert_eq!(outcome["quotes the first fragment"], true, "{outcome}");
        assert!(outcome["took_s"].as_f64() >= Some(0.29), "before its time: {outcome}");
        assert_eq!(outcome["after"]["right"], 1, "{outcome}");
        until("both are counted", || bed.drops("reassembly-timeout") == 2);
        // The one without its first fragment was "not an IP packet".
        let log = dropped(&bed);
        let named = |line: &&str| line.contains(" 10.9.0.1 > 10.9.0.2 ");
        let told = log.lines().filter(|line| line.ends_with(": reassembly-timeout"));
        assert_eq!(told.filter(named).count(), 2, "{log}");
        host.end();
    }
}

/// Scapy does not know the packets that the other games make by hand.
#[test]
fn scapy_finds_the_same() {
    let Some(bed) = Bed::new(&[]) else { return };
    let has_scapy = Command::new(python()).args(["-c", "import scapy.all"]).output();
    if !has_scapy.is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED: {} has no scapy", python());
    }
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let outcome = bed.script("scapy_games.py");
        let games = outcome.as_object().expect("games");
        assert_eq!(games.len(), 10, "{outcome}");
        for (game, outcome) in games {
            let whole = ["in order", "reverse", "each twice", "first of eight bytes"];
            let right = u8::from(whole.contains(&game.as_str()));
            let wanted = json!({"answered": right, "right": right, "others": 0});
            assert_eq!(*outcome, wanted, "{game}");
        }
        host.end();
    }
}
