//! From the output of cells to the report.

use super::super::assemble::{RunFacts, report};
use super::super::case::{Activity, Case, Measure, Normalise, Perspective};
use super::super::cell::CellBatch;
use super::super::drive::Collected;
use super::super::params::{Placement, Unit};
use super::super::place::Topology;
use super::super::plan::{Block, Plan};
use super::super::record::{CaseRecord, Host, Rates, Report, ReportError};
use super::super::remarks::remarks;
use super::{case, suite, wish};
use std::time::Duration;
use weir_policy::random::Random;

/// A host whose CPU has two speeds, and whose cache line is far in some processes.
struct TwoSpeedHost {
    random: Random,
    across: bool,
}

impl TwoSpeedHost {
    fn noise(&mut self, size: f64) -> f64 {
        let even = self.random.below(1 << 30) as f64 / f64::from(1 << 30);
        1.0 + size * (even - 0.5)
    }

    /// Returns one process of six rounds. Case i takes `times[i]` at full speed; the twin takes as
    /// long as the first.
    fn process(&mut self, process: u64, times: &[f64]) -> Collected {
        let slow = if self.random.below(2) == 0 { 1.27 } else { 1.0 };
        let far = self.across && process >= 6;
        let mut rows = Vec::new();
        for round in 0..6 {
            for (index, time) in times.iter().chain(times.first()).enumerate() {
                let reach = if far { 4.0 } else { 1.0 };
                rows.push(CellBatch {
                    case: index,
                    round,
                    at_ms: round * 10,
                    values: vec![time * slow * reach * self.noise(0.02)],
                    reference_ns: 1.25 * slow * self.noise(0.004),
                    cpu: 0,
                    involuntary: u64::from(round == 3),
                    line_rtt_ns: self.across.then_some(if far { 400.0 } else { 60.0 }),
                });
            }
        }
        let began_ms = process * 100;
        Collected {
            block: 0,
            process,
            began_ms,
            rows,
            counts: Vec::new(),
            troubles: Vec::new(),
            killed: false,
        }
    }

    fn run(&mut self, times: &[f64]) -> Report {
        let processes = if self.across { 14 } else { 12 };
        let collected: Vec<Collected> =
            (0..processes).map(|process| self.process(process, times)).collect();
        self.report(times, &collected)
    }

    /// Makes the report of these cells; those of any block are of one group.
    fn report(&self, times: &[f64], collected: &[Collected]) -> Report {
        let names = ["a", "b", "c"];
        let cases = times.iter().zip(names).map(|(time, name)| case(name, *time)).collect();
        let suites = [suite(cases)];
        let plan = Plan::new(&suites, wish(&["suite"]), &Topology::read()).expect("a plan");
        let placement = if self.across { Placement::OtherCpu } else { Placement::SameCpu };
        let block = Block { placement, cpus: vec![0, 1], ..plan.blocks[0].clone() };
        let blocks = collected.iter().map(|cell| cell.block).max().unwrap_or_default() + 1;
        let plan = Plan { blocks: vec![block; blocks], ..plan };
        report(&suites, &plan, collected, about())
    }
}

fn about() -> RunFacts {
    RunFacts {
        weir_version: "0".into(),
        started_unix_s: 0,
        duration: Duration::from_secs(1),
        host: Host::default(),
        rates: Rates::default(),
        interrupted: false,
        nominal_ns: Some(1.25),
    }
}

fn host(seed: u64, across: bool) -> TwoSpeedHost {
    TwoSpeedHost { random: Random::new(seed), across }
}

#[test]
fn the_reference_loop_takes_two_speeds_out() {
    let report = host(1, false).run(&[1_000.0, 1_030.0, 2_000.0]);
    let a = &report.cases[0];
    assert!((a.estimate / 995.0 - 1.0).abs() < 0.02, "{}", a.estimate);
    assert!(a.low < a.estimate && a.estimate < a.high && a.relative_width() < 0.08);
    assert!(a.as_timed > a.estimate, "half of the processes were slow");
    assert_eq!((a.batches, a.processes, a.samples.len()), (72, 12, 72));
    assert!(a.beside.label.iter().any(|label| label.contains("slow")));
    assert!(a.beside.label.iter().any(|label| label.contains("preempted")));
    assert!(report.reference.slow_batches > 0);
}

#[test]
fn differences_within_rounds_and_pairs_against_the_baseline() {
    let report = host(2, false).run(&[1_000.0, 1_060.0, 1_000.0]);
    let difference = report.cases.iter().find(|case| case.case == "difference").expect("there");
    assert!(difference.low < 60.5 && difference.high > 59.5, "{difference:?}");
    assert!(!difference.below_resolution);
    let verdict = |b: &str| {
        let found = report.comparisons.iter().find(|comparison| comparison.b == b);
        found.map(|comparison| comparison.verdict.kind.clone()).expect("compared")
    };
    assert_eq!(verdict("b"), "slower");
    assert_eq!(verdict("c"), "equivalent");
    let own = &report.self_test.entries[0];
    assert!(own.low <= 1.0 && own.high >= 1.0 && own.resolves_share < 0.02, "{own:?}");
    assert!(report.self_test.sentence.starts_with("A/A: this host resolves "));
}

#[test]
fn a_difference_that_cannot_be_told_from_nothing_says_so() {
    let report = host(3, false).run(&[1_000.0, 1_000.0]);
    let difference = report.cases.iter().find(|case| case.case == "difference").expect("there");
    assert!(difference.below_resolution, "{difference:?}");
}

/// Groups that run nothing twice were said to have too few processes, of which they had thirty.
#[test]
fn why_there_is_no_self_test_is_told() {
    let of = |twin: bool, processes: u64, times: &[f64]| {
        let mut suites = [suite(vec![case("a", 1_000.0)])];
        suites[0].groups[0].twin = twin;
        let plan = Plan::new(&suites, wish(&["suite"]), &Topology::read()).expect("a plan");
        let mut host = host(17, false);
        let cells: Vec<Collected> =
            (0..processes).map(|process| host.process(process, times)).collect();
        report(&suites, &plan, &cells, about()).self_test.sentence
    };
    let too_few = "no self-test: no case ran twice in six processes or more";
    assert_eq!(of(true, 3, &[1_000.0]), too_few);
    // Twelve processes, whose first case could not be measured.
    assert_eq!(of(true, 12, &[]), too_few);
    assert_eq!(of(false, 12, &[1_000.0]), "no self-test: none of these groups runs a case twice");
}

#[test]
fn near_and_far_are_figures_of_their_own() {
    let report = host(4, true).run(&[1_000.0, 2_000.0]);
    let of_a: Vec<_> = report.cases.iter().filter(|case| case.case == "a").collect();
    let strata: Vec<&str> = of_a.iter().filter_map(|case| case.stratum.as_deref()).collect();
    assert_eq!(strata, ["far", "near"]);
    assert!((of_a[0].estimate / of_a[1].estimate - 4.0).abs() < 0.2);
    assert_eq!((of_a[0].processes, of_a[1].processes), (8, 6));
    assert_eq!(of_a[0].line_rtt_ns, Some(400.0));
    assert_ne!(of_a[0].key(), of_a[1].key());
}

/// The difference of two cases beside near lines and beside far ones was one figure between the two,
/// which no batch had.
#[test]
fn differences_are_of_one_state_of_the_line() {
    let report = host(18, true).run(&[1_000.0, 2_000.0]);
    let found: Vec<_> = report.cases.iter().filter(|case| case.is_difference).collect();
    let strata: Vec<&str> = found.iter().filter_map(|case| case.stratum.as_deref()).collect();
    assert_eq!(strata, ["far", "near"]);
    assert!((found[0].estimate / found[1].estimate - 4.0).abs() < 0.3, "{found:?}");
    assert_eq!((found[0].processes, found[1].processes), (8, 6));
}

/// On a busy host the round trip of a line is not always known: the commoner of the two figures has
/// such batches.
#[test]
fn batches_beside_an_unknown_line_are_in_one_figure_only() {
    let mut host = host(8, true);
    let mut cells: Vec<Collected> = (0..14).map(|process| host.process(process, &[1.0])).collect();
    for row in cells.iter_mut().flat_map(|cell| &mut cell.rows).filter(|row| row.round >= 4) {
        row.line_rtt_ns = None;
    }
    let report = host.report(&[1.0], &cells);
    let seen = |case: &CaseRecord| (case.stratum.clone().expect("known"), case.batches);
    let seen: Vec<_> = report.cases.iter().map(seen).collect();
    assert_eq!(seen, [("far".into(), 8 * 4 + 14 * 2), ("near".into(), 6 * 4)]);
}

/// "n" counted batches from which the figure does not come.
#[test]
fn batches_beside_another_line_are_not_counted() {
    let mut host = host(11, true);
    let cells: Vec<Collected> = (3..14).map(|process| host.process(process, &[1.0])).collect();
    let report = host.report(&[1.0], &cells);
    let [case] = report.cases.as_slice() else { panic!("three processes make no figure") };
    assert_eq!((case.stratum.as_deref(), case.processes), (Some("far"), 8));
    assert_eq!((case.batches, case.samples.len()), (8 * 6, 11 * 6));
}

/// A difference was normalised where the cases that it is made of are not.
#[test]
fn a_difference_is_normalised_as_its_cases_are() {
    let of = |placement| {
        let cases = [case("a", 1_000.0), case("b", 2_000.0)];
        let cases = cases.map(|case| Case { normalise: Normalise::OnOneCpu, ..case });
        let suites = [suite(cases.into())];
        let plan = Plan::new(&suites, wish(&["suite"]), &Topology::read()).expect("a plan");
        let block = Block { placement, cpus: vec![0, 0], ..plan.blocks[0].clone() };
        let plan = Plan { blocks: vec![block], ..plan };
        let mut host = host(12, false);
        let cells: Vec<Collected> =
            (0..8).map(|process| host.process(process, &[1_000.0, 2_000.0])).collect();
        let report = report(&suites, &plan, &cells, about());
        assert_eq!(report.cases.len(), 3);
        let found = report.cases[2].clone();
        assert!(
            found.is_difference
                && report.cases.iter().all(|case| case.normalised == found.normalised)
        );
        (found.normalised, (found.estimate - found.as_timed).abs() < 1e-9)
    };
    assert_eq!(of(Placement::SameCpu), (true, false));
    assert_eq!(of(Placement::Free), (false, true));
}

/// Parts of a switch, each less the cost of an event, were those of the quarter with the dearest event.
#[test]
fn what_is_less_its_resolution_is_represented_by_the_middle() {
    let measures = ["part", "one event"].map(|part| Measure::new(part, Unit::Ns)).into();
    let normalise = Normalise::Never;
    let suites = [suite(vec![Case { measures, resolution: Some(1), normalise, ..case("a", 1.0) }])];
    let plan = Plan::new(&suites, wish(&["suite"]), &Topology::read()).expect("a plan");
    let mut host = host(14, false);
    let mut cells: Vec<Collected> = (0..8).map(|process| host.process(process, &[1.0])).collect();
    for row in cells.iter_mut().flat_map(|cell| &mut cell.rows) {
        row.values = vec![10.0 * (row.round + 1) as f64, 1.0];
    }
    let report = report(&suites, &plan, &cells, about());
    assert!((report.cases[0].estimate - 35.0).abs() < 1e-9, "{}", report.cases[0].estimate);
}

/// One of 130 and one of 220 ns seemed alike, since the first is not half of the other.
#[test]
fn lines_above_the_most_of_near_ones_are_far() {
    let mut host = host(15, true);
    let mut cells: Vec<Collected> = (0..14).map(|process| host.process(process, &[1.0])).collect();
    for row in cells.iter_mut().flat_map(|cell| &mut cell.rows) {
        row.line_rtt_ns = row.line_rtt_ns.map(|line| if line > 200.0 { 220.0 } else { 130.0 });
    }
    let report = host.report(&[1.0], &cells);
    let strata: Vec<_> = report.cases.iter().filter_map(|case| case.stratum.as_deref()).collect();
    assert_eq!(strata, ["far", "near"]);
}

/// One placement was said to take three times as long as another whose interval met its own.
#[test]
fn placements_are_remarked_on_where_their_intervals_are_apart() {
    let report = host(13, false).run(&[1_000.0]);
    let of = |placement, time: f64, wide: f64| {
        let mut case = report.cases[0].clone();
        (case.placement, case.estimate) = (placement, time);
        (case.low, case.high) = (time * (1.0 - wide), time * (1.0 + wide));
        case
    };
    let remarked = |wide| {
        let cases = vec![of(Placement::SameCpu, 1e3, wide), of(Placement::OtherCpu, 4e3, wide)];
        let remarks = remarks(&Report { cases, ..report.clone() });
        remarks.iter().any(|remark| remark.contains("takes 4.0x as long at other-cpu"))
    };
    assert!(remarked(0.3) && !remarked(0.8));
}

/// Larger chunks seemed to move less where only their line was far.
#[test]
fn chunks_are_remarked_on_within_one_state_of_the_line() {
    let report = host(10, true).run(&[1_000.0]);
    let of = |state: &str, chunk_bytes: u64, rate: f64| {
        let mut case = report.cases[0].clone();
        (case.stratum, case.unit) = (Some(state.into()), Unit::MegabytesPerSecond);
        case.params.chunk_bytes = Some(chunk_bytes);
        (case.estimate, case.low, case.high) = (rate, rate * 0.95, rate * 1.05);
        case
    };
    let falls = |cases: Vec<CaseRecord>| {
        let remarks = remarks(&Report { cases, ..report.clone() });
        remarks.iter().filter(|remark| remark.contains(" % less than ")).count()
    };
    assert_eq!(falls(vec![of("near", 4_096, 900.0), of("far", 65_536, 300.0)]), 0);
    assert_eq!(falls(vec![of("far", 4_096, 900.0), of("far", 65_536, 300.0)]), 1);
}

/// The first block sees lines of 60 ns. Lines of 130 ns are far then, also in a block that sees no
/// other.
#[test]
fn lines_are_far_by_the_shortest_of_the_run() {
    let mut host = host(9, true);
    let mut cells: Vec<Collected> = (0..6).map(|process| host.process(process, &[1.0])).collect();
    let others: Vec<Collected> =
        cells.iter().cloned().map(|cell| Collected { block: 1, ..cell }).collect();
    cells.extend(others);
    for row in cells.iter_mut().filter(|cell| cell.block == 1).flat_map(|cell| &mut cell.rows) {
        row.line_rtt_ns = Some(130.0);
    }
    let report = host.report(&[1.0], &cells);
    let strata: Vec<_> = report.cases.iter().filter_map(|case| case.stratum.as_deref()).collect();
    assert_eq!(strata, ["near", "far"]);
}

#[test]
fn what_gave_nothing_is_noted() {
    let suites = [suite(vec![case("a", 1.0)])];
    let plan = Plan::new(&suites, wish(&["suite"]), &Topology::read()).expect("a plan");
    let mut cell = host(5, false).process(0, &[]);
    cell.rows.clear();
    cell.killed = true;
    let report = report(&suites, &plan, &[cell], about());
    assert!(report.cases.is_empty());
    let notes: Vec<&str> = report.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(
        notes,
        [
            "a at same-cpu: no figure (it ran out of time)",
            "group at same-cpu: 1 of 1 processes ran out of time and were ended"
        ]
    );
}

#[test]
fn a_report_comes_back_from_json_and_others_are_refused() {
    let report = host(6, false).run(&[1_000.0, 1_100.0]);
    let text = serde_json::to_string(&report).expect("JSON");
    assert!(Report::from_json(&text).expect("read") == report, "another report came back");
    for other in ["weir.bench/2", "weir.run/1"] {
        let foreign = Report::from_json(&text.replacen("weir.bench/1", other, 1));
        assert!(matches!(foreign, Err(ReportError::Foreign(named)) if named == other));
    }
    assert!(matches!(Report::from_json("{}"), Err(ReportError::Shape(_))));
    assert!(matches!(
        Report::from_json(r#"{"schema":"weir.bench/1"}"#),
        Err(ReportError::Shape(_))
    ));
}

/// Latencies across CPUs are those of waking idle CPUs, which is not CPU time, whatever the rate.
#[test]
fn only_time_of_a_cpu_is_put_into_perspective() {
    let of = |across: bool| {
        let switches = Perspective { of: Activity::Switches, per_operation: 1.0 };
        let put = |case: Case| Case { perspective: Some(switches), ..case };
        let suites = [suite(vec![put(case("a", 1_000.0))])];
        let plan = Plan::new(&suites, wish(&["suite"]), &Topology::read()).expect("a plan");
        let placement = if across { Placement::OtherCpu } else { Placement::SameCpu };
        let block = Block { placement, ..plan.blocks[0].clone() };
        let plan = Plan { blocks: vec![block], ..plan };
        let collected: Vec<Collected> =
            (0..8).map(|process| host(process, false).process(process, &[45_000.0])).collect();
        let rates = Rates { switches_per_s: 26_059.0, ..Rates::default() };
        let report = report(&suites, &plan, &collected, RunFacts { rates, ..about() });
        report.cases[0].perspective.clone()
    };
    let here = of(false).expect("time of one CPU");
    assert!(here.ends_with(" % of a CPU at 26059 switches/s"), "{here}");
    assert_eq!(of(true), None);
}

/// The other half of each pair was searched for from the beginning of the run. A run of an hour then
/// took a quarter of an hour more, in which it did and said nothing.
#[test]
fn a_run_of_many_rounds_is_paired_as_one_of_few() {
    const AGAIN: u64 = 1_000;
    let mut host = host(16, false);
    let times = [1_000.0, 1_060.0];
    let mut cells: Vec<Collected> = (0..8).map(|process| host.process(process, &times)).collect();
    let few = host.report(&times, &cells);
    for cell in &mut cells {
        let six = cell.rows.clone();
        for again in 1..AGAIN {
            let more = |row: &CellBatch| CellBatch { round: row.round + 6 * again, ..row.clone() };
            cell.rows.extend(six.iter().map(more));
        }
    }
    let many = host.report(&times, &cells);
    let [one, other] = [&few, &many].map(|report| report.comparisons[0].ratio);
    assert!((one - other).abs() < 1e-9, "{one} {other}");
    assert_eq!(many.comparisons[0].pairs, 8);
    assert_eq!(many.cases[2].batches, few.cases[2].batches * AGAIN);
}

/// In consecutive runs, the estimate of each is in the interval of the next.
#[test]
fn runs_of_the_same_host_agree_within_their_intervals() {
    let mut host = host(7, false);
    let runs: Vec<Report> = (0..40).map(|_| host.run(&[1_000.0, 500.0, 70.0])).collect();
    let mut inside = 0;
    let mut all = 0;
    for pair in runs.windows(2) {
        for (one, other) in pair[0].cases.iter().zip(&pair[1].cases) {
            inside += usize::from((one.low..=one.high).contains(&other.estimate));
            all += 1;
        }
    }
    assert!(inside * 100 >= all * 95, "{inside} of {all}");
}
