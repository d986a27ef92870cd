//! Allen's figures beside an echo at user level of today, and the bounds on its cost.

use super::first;
use crate::figure::figure;
use comfy_table::Table;
use std::ops::RangeInclusive;
use weir_bench::allen_echo::goals::{self, Goal};
use weir_bench::engine::params::{Placement, Unit};
use weir_bench::engine::record::{CaseRecord, ComparisonRecord};
use weir_command::output::{aligned, trimmed};
use weir_model::published::{ALLEN, PublishedRow, lines};

/// Allen's quantities, and the cases of today beside them.
const ROWS: [(&str, &str); 9] = [
    ("turnaround goal for an echo", "icmp, weir, turnaround"),
    ("round trip to self with logging off", "icmp, weir, log off, turnaround"),
    ("round trip to self with unbuffered", "icmp, bare, log unbuffered, turnaround"),
    ("round trip to self with unbuffered", "icmp, bare, log synchronous, turnaround"),
    ("packet interval sustained with logging off", "icmp, weir, log off, 64 under way, packet"),
    ("driver send elapsed", "icmp, bare, send"),
    ("driver receive elapsed", "icmp, bare, receive"),
    (CPU[0], "icmp, bare, log synchronous, 64 under way, user"),
    (CPU[1], "icmp, bare, log synchronous, 64 under way, kernel"),
];
/// User and kernel time of a packet.
const CPU: [&str; 2] = ["user CPU a packet", "kernel CPU a packet"];
const COPIES: &str = "slow-down of send and receive with four copies";
const FOUR: &str = "driver test, weir, division allen, 4 copies at once";

/// What Allen concluded: in his words, the comparison of today that tests it, and the ratios at which it
/// holds. Twice as fast a daemon could be if the least that answers took half its time; "about twice" is
/// taken for 1.5 to 2.5 times.
const CONCLUSIONS: [(&str, &str, &str, RangeInclusive<f64>); 3] = [
    (
        "most of an echo's time is the log's",
        "icmp, bare, log synchronous",
        "icmp, bare, log off",
        2.0..=f64::INFINITY,
    ),
    ("the daemon can be twice as fast", "icmp, weir", "icmp, bare", 2.0..=f64::INFINITY),
    (
        "four copies at once take about twice as long",
        FOUR,
        "driver test, weir, division allen (1 or 4 copies)",
        1.5..=2.5,
    ),
];

/// The text of the tables that have rows.
pub fn echo(cases: &[&CaseRecord], comparisons: &[ComparisonRecord]) -> Option<String> {
    let bounds = bounds(comparisons, &goals::goals());
    let tables = [published(cases, comparisons), bounds, conclusions(comparisons)];
    let tables: Vec<String> = tables.into_iter().flatten().map(|table| trimmed(&table)).collect();
    (!tables.is_empty()).then(|| tables.join("\n\n"))
}

/// The published figures, with both sides on one CPU, as then.
fn published(cases: &[&CaseRecord], comparisons: &[ComparisonRecord]) -> Option<Table> {
    let then = lines(ALLEN);
    let header = ["  PDP-11/45 (L. Allen, MIT)", "", "this host, same-cpu", "", "", ""];
    let mut table = aligned(header, [1, 3]);
    for (quantity, name) in ROWS {
        let Some(now) = super::find(cases, name, Placement::SameCpu) else { continue };
        let (quantity, was) = published_of(&then, quantity, |ms| figure(ms * 1e6, Unit::Ns));
        table.add_row([quantity, was, name.into(), figure(now.estimate, now.unit)]);
    }
    let four = |row: &&ComparisonRecord| row.b == FOUR && row.placement == Placement::SameCpu;
    if let Some(row) = comparisons.iter().find(four) {
        let (quantity, was) = published_of(&then, COPIES, |times| format!("{times:.0}x"));
        table.add_row([quantity, was, format!("{FOUR}, turnaround"), times(row.ratio)]);
    }
    (table.row_count() > 0).then_some(table)
}

/// Allen's own conclusions, tested on this run with both sides on one CPU, as then.
fn conclusions(comparisons: &[ComparisonRecord]) -> Option<Table> {
    let mut table = aligned(["  Allen concluded", "tested by", "ratio", "interval", "here"], [2]);
    let mut measured = false;
    for (said, case, base, holds) in CONCLUSIONS {
        let is = |row: &&ComparisonRecord| {
            (row.a.as_str(), row.b.as_str(), row.placement) == (base, case, Placement::SameCpu)
        };
        let row = comparisons.iter().find(is);
        measured |= row.is_some();
        let (ratio, interval) = row.map_or(Default::default(), |row| {
            (times(row.ratio), format!("{} to {}", times(row.low), times(row.high)))
        });
        let here = row.map_or("cannot tell here: not measured", |row| test(row, &holds));
        table.add_row([
            format!("  {said}"),
            format!("{case} / {base}"),
            ratio,
            interval,
            here.into(),
        ]);
    }
    measured.then_some(table)
}

/// Whether the whole interval of a ratio is where a conclusion holds.
fn test(row: &ComparisonRecord, holds: &RangeInclusive<f64>) -> &'static str {
    match () {
        () if row.low >= *holds.start() && row.high <= *holds.end() => "holds",
        () if row.high < *holds.start() || row.low > *holds.end() => "does not",
        () => "cannot tell here",
    }
}

/// The least and the most CPU time of a packet with its log, user and kernel time together.
pub(super) fn cpu_ms(then: &[PublishedRow]) -> [f64; 2] {
    let of = |name: &str| {
        let found = then.iter().filter(|line| line.name.starts_with(name)).map(first);
        found.fold([f64::INFINITY, 0.0], |[low, high], ms| [low.min(ms), high.max(ms)])
    };
    let [user, kernel] = CPU.map(of);
    [user[0] + kernel[0], user[1] + kernel[1]]
}

/// The published quantity that begins with this text, with its figure or its lower and upper figure.
fn published_of(
    then: &[PublishedRow],
    quantity: &str,
    show: impl Fn(f64) -> String,
) -> (String, String) {
    let found: Vec<&PublishedRow> =
        then.iter().filter(|line| line.name.starts_with(quantity)).collect();
    let name = found.first().map_or(quantity, |line| line.name.trim_end_matches(" (low)"));
    let figures: Vec<String> = found.iter().map(|line| show(first(line))).collect();
    (format!("  {name}"), figures.join(" to "))
}

/// The bounds, and the ratios measured in the same rounds.
pub fn bounds(comparisons: &[ComparisonRecord], goals: &[Goal]) -> Option<Table> {
    let mut table =
        aligned(["  in the same rounds", "place", "ratio", "interval", "goal", ""], [2]);
    for goal in goals {
        let is = |row: &&ComparisonRecord| row.a == goal.a && row.b == goal.b;
        for row in comparisons.iter().filter(is) {
            let sign = if goal.is_most { "<=" } else { ">=" };
            table.add_row([
                format!("  {} / {}", row.b, row.a),
                row.placement.to_string(),
                times(row.ratio),
                format!("{} to {}", times(row.low), times(row.high)),
                format!("{sign} {}", times(goal.bound)),
                verdict(row, goal).into(),
            ]);
        }
    }
    (table.row_count() > 0).then_some(table)
}

fn times(ratio: f64) -> String {
    format!("{ratio:.3}x")
}

/// Whether the whole interval meets the bound.
fn verdict(row: &ComparisonRecord, goal: &Goal) -> &'static str {
    let (low, high) = match goal.is_most {
        true => (row.low / goal.bound, row.high / goal.bound),
        false => (goal.bound / row.high, goal.bound / row.low),
    };
    match () {
        () if high <= 1.0 => "met",
        () if low > 1.0 => "missed",
        () => "not decided",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use weir_bench::engine::record::VerdictRecord;

    pub(in super::super) fn row(b: &str, unit: Unit, low: f64, high: f64) -> ComparisonRecord {
        ComparisonRecord {
            suite: "allen-echo".into(),
            a: "a".into(),
            b: b.into(),
            placement: Placement::SameCpu,
            unit,
            ratio: f64::midpoint(low, high),
            low,
            high,
            p: 0.0,
            pairs: 30,
            band_share: 0.05,
            verdict: VerdictRecord { kind: String::new(), text: String::new() },
        }
    }

    #[test]
    fn a_bound_is_met_or_missed_by_the_whole_interval() {
        let of = |unit, low, high, bound, is_most| {
            let goal = Goal { a: "a".into(), b: FOUR.into(), bound, is_most };
            verdict(&row(FOUR, unit, low, high), &goal)
        };
        assert_eq!(of(Unit::Ns, 1.7, 1.9, 2.0, true), "met");
        assert_eq!(of(Unit::Ns, 1.9, 2.1, 2.0, true), "not decided");
        assert_eq!(of(Unit::Ns, 2.1, 2.2, 2.0, true), "missed");
        assert_eq!(of(Unit::PerSecond, 0.81, 0.9, 0.8, false), "met");
        assert_eq!(of(Unit::PerSecond, 0.79, 0.9, 0.8, false), "not decided");
        assert_eq!(of(Unit::PerSecond, 0.7, 0.75, 0.8, false), "missed");
        // The most that a competitor may do.
        assert_eq!(of(Unit::MegabytesPerSecond, 0.7, 0.8, 1.0, true), "met");
        assert_eq!(of(Unit::MegabytesPerSecond, 1.1, 1.2, 1.0, true), "missed");
    }

    #[test]
    fn every_row_names_a_case_of_the_suite() {
        let suite = weir_bench::allen_echo::suite();
        let cases = || suite.groups.iter().flat_map(|group| &group.cases);
        for (_, name) in ROWS {
            let is = |case: &weir_bench::engine::case::Case| {
                let mut measures = case.measures.iter();
                measures.any(|measure| format!("{}, {}", case.name, measure.quantity) == name)
            };
            assert!(cases().any(is), "{name}");
        }
        for (_, case, base, _) in CONCLUSIONS {
            let compares = |group: &weir_bench::engine::case::Group| {
                group.baseline.as_deref() == Some(base)
                    && group.cases.iter().any(|of| of.name == case)
            };
            assert!(suite.groups.iter().any(compares), "{case}");
        }
    }

    #[test]
    fn a_conclusion_holds_by_the_whole_interval() {
        let test = |low, high| super::test(&row(FOUR, Unit::Ns, low, high), &(1.5..=2.5));
        assert_eq!(
            [test(1.6, 2.4), test(2.4, 2.6), test(2.6, 3.0)],
            ["holds", "cannot tell here", "does not"]
        );
        let base = "driver test, weir, division allen (1 or 4 copies)";
        let four = ComparisonRecord { a: base.into(), ..row(FOUR, Unit::Ns, 3.9, 4.1) };
        let text = echo(&[], &[four]).expect("a table");
        let line = text.lines().find(|line| line.contains("four copies at once")).expect("a row");
        assert!(line.contains("3.900x to 4.100x") && line.ends_with("does not"), "{text}");
        assert!(text.contains("cannot tell here: not measured"), "{text}");
    }

    #[test]
    fn every_row_names_a_published_figure() {
        let then = lines(ALLEN);
        for quantity in ROWS.iter().map(|(quantity, _)| *quantity).chain([COPIES]) {
            let (_, figures) = published_of(&then, quantity, |ms| format!("{ms}"));
            assert!(!figures.is_empty(), "{quantity}");
        }
        // The user time of then stood beside all CPU time of today.
        assert_eq!(cpu_ms(&then), [250.0, 325.0]);
        assert!(echo(&[], &[row(FOUR, Unit::Ns, 3.9, 4.1)]).expect("a table").contains("4.000x"));
        assert!(echo(&[], &[]).is_none());
    }
}
