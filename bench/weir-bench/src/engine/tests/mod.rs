//! Tests of the engine from end to end: cells with simulated output, impossible plans, and reports.

mod calibrate;
mod noise;
mod pace;
mod reports;

use super::case::{
    Batch, BatchSize, Case, CaseError, Derived, Group, Measure, Normalise, Sides, Site, Suite, Work,
};
use super::cell::{self, CellBatch, CellLine, CellRequest};
use super::drive::{self, Driven, RunObserver};
use super::params::{Load, Params, Placement};
use super::pick::{Pick, Picks};
use super::place::Topology;
use super::plan::{Plan, PlanError, PlanRequest};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// Work that reports a fixed time for each operation.
struct Says(f64);

impl Work for Says {
    fn batch(&mut self, count: u64) -> Result<Batch, CaseError> {
        if self.0 < 0.0 {
            return Err(CaseError::failed("it broke"));
        }
        Ok(Batch::time(self.0 * count as f64, count))
    }
}

pub fn case(name: &str, says_ns: f64) -> Case {
    Case {
        name: name.into(),
        params: Params::default(),
        measures: vec![Measure::TIME],
        size: BatchSize::Time { ns: 1_000_000 },
        normalise: Normalise::Always,
        perspective: None,
        standard: true,
        resolution: None,
        weight: 1.0,
        make: Box::new(move |_| Ok(Box::new(Says(says_ns)))),
    }
}

pub fn suite(cases: Vec<Case>) -> Suite {
    let derived = Derived {
        name: "difference".into(),
        params: Params::default(),
        plus: vec!["b".into()],
        minus: vec!["a".into()],
        divide_by: 1.0,
        measure: Measure::TIME,
        standard: true,
        perspective: None,
    };
    let group = Group {
        name: "group".into(),
        cases,
        derived: vec![derived],
        baseline: Some("a".into()),
        sides: Sides::One,
        standard: vec![Placement::SameCpu],
        processes: 10,
        twin: true,
    };
    Suite { name: "suite", about: "", source: "", groups: vec![group] }
}

fn wish(suites: &[&str]) -> PlanRequest {
    PlanRequest {
        picks: Picks {
            suites: suites.iter().map(|name| Pick::parse(name).expect("a suite")).collect(),
            filter: None,
        },
        placements: Vec::new(),
        load: Load::None,
        budget: None,
        standard_budget: Duration::from_secs(5),
        directory: std::env::temp_dir(),
        seed: 1,
        floors_s: BTreeMap::new(),
    }
}

/// A request for these cases, wherever the kernel puts them.
pub fn request(cases: &[&str], time_ns: u64) -> CellRequest {
    CellRequest {
        suite: "suite".into(),
        group: "group".into(),
        cases: cases.iter().map(|case| (*case).into()).collect(),
        twin: false,
        site: Site {
            placement: Placement::Free,
            cpus: Vec::new(),
            load: Load::None,
            directory: std::env::temp_dir(),
        },
        seed: 1,
        time_ns,
        rounds: u64::MAX,
        counts: Vec::new(),
    }
}

struct Patient;

impl RunObserver for Patient {
    fn cell(&mut self, _: &str, _: Duration) {}
    fn overrun(&mut self, _: Duration) {}
    fn stop(&mut self) -> bool {
        false
    }
}

#[test]
fn a_cell_runs_every_case_each_round_and_says_what_failed() {
    let suite = suite(vec![case("a", 1_000.0), case("b", 3_000.0), case("broken", -1.0)]);
    let request = request(&["a", "b", "broken", "unknown"], 30_000_000);
    let request = CellRequest { twin: true, seed: 3, ..request };
    let mut said = Vec::new();
    cell::run(&suite.groups[0], &request, &mut said).expect("it runs");
    let lines: Vec<CellLine> = said
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("a line of JSON"))
        .collect();
    let rows: Vec<&CellBatch> = lines
        .iter()
        .filter_map(|l| if let CellLine::Batch(row) = l { Some(row) } else { None })
        .collect();
    let rounds = rows.iter().map(|row| row.round).max().expect("a round") + 1;
    for index in [0, 1, 4] {
        let count = rows.iter().filter(|row| row.case == index).count() as u64;
        assert_eq!(count, rounds, "case {index}");
    }
    assert!(rows.iter().filter(|row| row.case == 1).all(|row| row.values == [3_000.0]));
    assert!(rows.iter().all(|row| row.reference_ns > 0.0));
    let mut troubled: Vec<usize> = lines
        .iter()
        .filter_map(|line| if let CellLine::Trouble(case, _) = line { *case } else { None })
        .collect();
    troubled.sort_unstable();
    assert_eq!(troubled, [2, 3]);
}

fn run(script: &str, time: Duration) -> std::io::Result<Driven> {
    let suites = [suite(vec![case("a", 1.0)])];
    let mut wish = wish(&["suite"]);
    wish.budget = Some(time);
    let topology = Topology::read();
    let plan = Plan::new(&suites, wish, &topology).expect("a plan");
    let launch = || {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    };
    drive::run(&suites, &plan, Instant::now(), &launch, &mut Patient)
}

/// A short time made batches of 120 ms shorter than one hundredth, which then measured how long 256
/// writers take to wake; and all other cells of the run had batches as short as the first one's.
#[test]
fn a_short_time_leaves_a_batch_a_quarter_of_its_length() {
    let sized = |name, size| Case { size, ..case(name, 1_000.0) };
    let long = sized("long", BatchSize::Time { ns: 40_000_000 });
    let whole = sized("whole", BatchSize::WholeTime { ns: 40_000_000 });
    let suite = suite(vec![case("a", 1_000.0), long, whole]);
    let count = |name: &str| {
        let mut said = Vec::new();
        cell::run(&suite.groups[0], &request(&[name], 0), &mut said).expect("it runs");
        let said = String::from_utf8(said).expect("text");
        let mut counts = said.lines().filter_map(|line| match serde_json::from_str(line) {
            Ok(CellLine::Count(0, count)) => Some(count),
            _ => None,
        });
        counts.next_back().expect("calibrated")
    };
    assert_eq!(["a", "long", "whole"].map(count), [250, 10_000, 40_000]);
}

/// A run of a day kept gigabytes of batches, and wrote them.
#[test]
fn a_long_run_has_a_million_batches_at_most() {
    let suites = [suite(vec![case("a", 1.0), case("b", 2.0)])];
    let day = PlanRequest { budget: Some(Duration::from_hours(24)), ..wish(&["suite"]) };
    // Ten processes of three cases: the first runs twice.
    let plan = Plan::new(&suites, day, &Topology::read()).expect("a plan");
    assert_eq!(plan.rounds, (1 << 20) / 30);
    let mut said = Vec::new();
    let request = CellRequest { rounds: 3, ..request(&["a"], 1_000_000_000) };
    cell::run(&suites[0].groups[0], &request, &mut said).expect("it runs");
    assert_eq!(String::from_utf8_lossy(&said).matches("Batch").count(), 3);
}

/// What a cell took with many rounds was kept as its least time, wherever it continued for a moment
/// longer than it was to. So later runs with a small budget gave their cells no time at all.
#[test]
fn the_least_time_of_a_cell_is_that_of_one_round() {
    let row = |round: u64| {
        let batch = CellBatch {
            case: 0,
            round,
            at_ms: 1 + round * 60_000,
            values: vec![1.0],
            reference_ns: 1.0,
            cpu: 0,
            involuntary: 0,
            line_rtt_ns: None,
        };
        serde_json::to_string(&CellLine::Batch(batch)).expect("a line")
    };
    // They say that their later rounds take minutes, and end at once.
    let script = format!("echo '{}'; echo '{}'; exec sleep 0.01", row(0), row(2));
    let floors = run(&script, Duration::from_secs(1)).expect("it ends").floors;
    assert_eq!(floors, [Some(Duration::ZERO)]);
}

/// A cell that never ends is killed with all that it has started; its earlier output counts.
#[test]
fn a_cell_that_hangs_is_killed_and_what_it_said_is_kept() {
    let begun = Instant::now();
    let row = r#"{"Batch":{"case":0,"round":0,"at_ms":1,"values":[5.0],"reference_ns":1.0,"cpu":0,"involuntary":0,"line_rtt_ns":null}}"#;
    let script = format!(
        "test -e \"$0.$PPID\" && exit; touch \"$0.$PPID\"; echo '{row}'; sleep 600 & sleep 600"
    );
    // Only the first cell hangs: each one would take its two seconds of grace.
    let directory = std::env::temp_dir().join(format!("weir-hang-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let script = script.replace("$0", &format!("{}/seen", directory.display()));
    let collected = run(&script, Duration::from_millis(800)).expect("it ends").collected;
    std::fs::remove_dir_all(&directory).expect("removed");
    assert!(begun.elapsed() < Duration::from_secs(60));
    // The time that it took is missing for others, whose number depends on it.
    assert!((6..=10).contains(&collected.len()), "{}", collected.len());
    let hung = &collected[0];
    assert!(hung.killed && hung.rows.len() == 1 && hung.rows[0].values == [5.0], "{hung:?}");
    assert!(collected[1..].iter().all(|cell| !cell.killed));
}

#[test]
fn a_cell_that_dies_or_talks_nonsense_is_no_figure() {
    let driven = run("echo nonsense; kill -9 $$", Duration::from_secs(1)).expect("it ends");
    let collected = driven.collected;
    assert!(collected.iter().all(|cell| cell.rows.is_empty()));
    assert!(collected.iter().all(|cell| cell.troubles[0].1.text == "its process died"));
}

/// What one case lacked hid that the process died.
#[test]
fn a_cell_that_dies_after_a_case_was_left_out_is_told() {
    let lacks = r#"{"Trouble":[0,{"left_out":true,"text":"nothing here"}]}"#;
    let driven = run(&format!("echo '{lacks}'; kill -9 $$"), Duration::from_secs(1));
    let collected = driven.expect("it ends").collected;
    let texts = |cell: &drive::Collected| -> Vec<String> {
        cell.troubles.iter().map(|(_, trouble)| trouble.text.clone()).collect()
    };
    assert!(collected.iter().all(|cell| texts(cell) == ["nothing here", "its process died"]));
}

/// Hours of a run were lost when the host could not start one more process for a moment.
#[test]
fn a_cell_that_cannot_be_started_loses_only_itself() {
    let suites = [suite(vec![case("a", 1.0)])];
    let plan = Plan::new(&suites, wish(&["suite"]), &Topology::read()).expect("a plan");
    let started = std::cell::Cell::new(0);
    let launch = || {
        started.set(started.get() + 1);
        Command::new(if started.get() == 3 { "/nonexistent" } else { "true" })
    };
    let driven = drive::run(&suites, &plan, Instant::now(), &launch, &mut Patient);
    let collected = driven.expect("it goes on").collected;
    assert!(collected.len() >= 6, "{}", collected.len());
    for (number, cell) in collected.iter().enumerate() {
        assert_eq!(cell.troubles.len(), usize::from(number == 2), "{cell:?}");
    }
    let nowhere = || Command::new("/nonexistent");
    assert!(drive::run(&suites, &plan, Instant::now(), &nowhere, &mut Patient).is_err());
}

/// In the first round of all it lost the whole run, although other cells had been measured.
#[test]
fn a_cell_of_the_first_round_that_cannot_be_started_loses_only_itself() {
    let suites = [suite(vec![case("a", 1.0)])];
    let mut both = wish(&["suite"]);
    both.placements = vec![Placement::SameCpu, Placement::Free];
    let plan = Plan::new(&suites, both, &Topology::read()).expect("a plan");
    let started = std::cell::Cell::new(0);
    let launch = || {
        started.set(started.get() + 1);
        Command::new(if started.get() == 2 { "/nonexistent" } else { "true" })
    };
    let driven = drive::run(&suites, &plan, Instant::now(), &launch, &mut Patient);
    let collected = driven.expect("it goes on").collected;
    let troubles: Vec<usize> = collected.iter().map(|cell| cell.troubles.len()).collect();
    assert_eq!(troubles[..3], [0, 1, 0]);
}

/// Batches of two operations had one in every other process, which is half of their length.
#[test]
fn the_length_of_a_batch_varies_by_a_sixth_at_most() {
    let directory = tempfile::tempdir().expect("a directory");
    let asked = directory.path().join("asked");
    let script = format!("cat >> {0}; echo >> {0}; echo '{{\"Count\":[0,2]}}'", asked.display());
    run(&script, Duration::from_secs(1)).expect("it ends");
    let asked = std::fs::read_to_string(asked).expect("written");
    let requests = asked.lines().map(serde_json::from_str::<CellRequest>);
    let counts: Vec<_> = requests.map(|request| request.expect("a request").counts).collect();
    assert!(counts.len() > 5 && counts[0].is_empty(), "{counts:?}");
    assert!(counts[1..].iter().all(|counts| counts[0] == Some(2)), "{counts:?}");
}

#[test]
fn stopping_ends_the_cell_at_once() {
    struct Impatient;
    impl RunObserver for Impatient {
        fn cell(&mut self, _: &str, _: Duration) {}
        fn overrun(&mut self, _: Duration) {}
        fn stop(&mut self) -> bool {
            true
        }
    }
    let suites = [suite(vec![case("a", 1.0)])];
    let plan = Plan::new(&suites, wish(&["suite"]), &Topology::read()).expect("a plan");
    let launch = || {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    };
    let begun = Instant::now();
    let stopped = drive::run(&suites, &plan, begun, &launch, &mut Impatient).expect("it starts");
    assert!(stopped.interrupted && stopped.collected.len() == 1 && stopped.passes == 0);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_budget_below_what_fresh_processes_take_is_refused_with_the_least() {
    let suites = [suite(vec![case("a", 1.0), case("b", 2.0)])];
    let mut small = wish(&["suite"]);
    small.budget = Some(Duration::from_millis(1));
    let refused = Plan::new(&suites, small.clone(), &Topology::read()).expect_err("too small");
    let PlanError::Budget { least, cases } = refused else { panic!("{refused:?}") };
    assert_eq!(cases, 2);
    small.budget = Some(least);
    assert!(Plan::new(&suites, small, &Topology::read()).is_ok(), "the least is enough");
}

/// The floors that earlier runs measured are reported before a run begins: here 6 processes of a
/// second each.
#[test]
fn a_budget_that_earlier_runs_refute_is_told_before_it_is_spent() {
    let suites = [suite(vec![case("a", 1.0), case("b", 2.0)])];
    let mut wish = wish(&["suite"]);
    wish.budget = Some(Duration::from_secs(2));
    let plan = Plan::new(&suites, wish.clone(), &Topology::read()).expect("a plan");
    assert_eq!(plan.expected(), Duration::from_secs(2));
    wish.floors_s.insert(plan.blocks[0].cost_name(&suites, Load::None), 1.0);
    let plan = Plan::new(&suites, wish.clone(), &Topology::read()).expect("a plan");
    assert_eq!(plan.expected(), Duration::from_secs(6));
    for nonsense in [f64::NAN, -1.0, 1e300] {
        wish.floors_s.values_mut().for_each(|floor| *floor = nonsense);
        let plan = Plan::new(&suites, wish.clone(), &Topology::read()).expect("a plan");
        assert_eq!(plan.expected(), Duration::from_secs(2), "{nonsense}");
    }
}

/// A run of one quick case was said to take as long as an earlier one of one slow case, since both
/// were one case of their group.
#[test]
fn what_cells_take_is_remembered_for_the_cases_that_they_have() {
    let suites = [suite(vec![case("a", 1.0), case("b", 2.0)])];
    let of = |cases: &str, floors_s: BTreeMap<String, f64>| {
        let wish = PlanRequest { budget: Some(Duration::from_secs(2)), floors_s, ..wish(&[cases]) };
        Plan::new(&suites, wish, &Topology::read()).expect("a plan")
    };
    let slow = of("suite/^b$", BTreeMap::new()).blocks[0].cost_name(&suites, Load::None);
    for (cases, seconds) in [("suite/^a$", 2), ("suite/^b$", 6), ("suite", 2)] {
        let plan = of(cases, BTreeMap::from([(slow.clone(), 1.0)]));
        assert_eq!(plan.expected(), Duration::from_secs(seconds), "{cases}");
    }
}

/// After a run beside a copy, which writes its file first, one without was said to take as long.
#[test]
fn what_cells_take_beside_a_load_is_remembered_apart() {
    let suites = [suite(vec![case("a", 1.0), case("b", 2.0)])];
    let mut wish = wish(&["suite"]);
    wish.budget = Some(Duration::from_secs(2));
    let plan = Plan::new(&suites, wish.clone(), &Topology::read()).expect("a plan");
    wish.floors_s.insert(plan.blocks[0].cost_name(&suites, Load::Copy), 1.0);
    for (load, seconds) in [(Load::None, 2), (Load::Cpu, 2), (Load::Copy, 6)] {
        wish.load = load;
        let plan = Plan::new(&suites, wish.clone(), &Topology::read()).expect("a plan");
        assert_eq!(plan.expected(), Duration::from_secs(seconds), "{load:?}");
    }
}

/// Two figures of one name were shown, of which `weir compare` saw the first.
#[test]
fn a_placement_that_is_named_twice_is_measured_once() {
    let suites = [suite(vec![case("a", 1.0)])];
    let mut twice = wish(&["suite"]);
    twice.placements = vec![Placement::SameCpu, Placement::Free, Placement::SameCpu];
    let plan = Plan::new(&suites, twice, &Topology::read()).expect("a plan");
    let placements: Vec<Placement> = plan.blocks.iter().map(|block| block.placement).collect();
    assert_eq!(placements, [Placement::SameCpu, Placement::Free]);
}

#[test]
fn one_side_cannot_be_placed_on_two_cpus() {
    let suites = [suite(vec![case("a", 1.0)])];
    let mut across = wish(&["suite"]);
    across.placements = vec![Placement::OtherCpu];
    let refused = Plan::new(&suites, across, &Topology::read()).expect_err("one side");
    let PlanError::Nothing(why) = refused else { panic!("{refused:?}") };
    assert_eq!(why, "no case of suite can be placed at other-cpu; possible: same-cpu, free");
}
