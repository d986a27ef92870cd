//! Phases of runs written down by hand.

use super::*;
use Holder::{Nobody, Two};

const MS: u64 = 1_000_000;

/// A timeline of parts: each lasts this many ms, and each stage spends these parts of a hundred
/// on its own work.
fn timeline(parts: &[(u64, &[u64])]) -> Timeline {
    let mut timeline = Timeline::default();
    let mut now_ns = 0;
    for (length_ms, percents) in parts {
        for _ in 0..*length_ms {
            now_ns += MS;
            let spent = |percent: &u64| Spent { own_ns: MS / 100 * percent, ..Spent::default() };
            timeline.add(now_ns, MS, &percents.iter().map(spent).collect::<Vec<_>>());
        }
    }
    timeline
}

fn cut(parts: &[(u64, &[u64])]) -> Vec<Phase> {
    let wall_ns = parts.iter().map(|(ms, _)| ms * MS).sum();
    timeline(parts).phases(wall_ns, &|_| false)
}

/// The phases as they are easily written: ends in ms, and who held the run up.
fn brief(phases: &[Phase]) -> Vec<(u64, Vec<usize>)> {
    let who = |holder: &Holder| match holder {
        Holder::Stage { stage, .. } => vec![*stage],
        Two(two) => two.to_vec(),
        Nobody => vec![],
    };
    phases.iter().map(|phase| (phase.end_ns / MS, who(&phase.holder))).collect()
}

#[test]
fn a_sort_reads_and_then_works_alone() {
    let phases = cut(&[(3100, &[97, 2, 40]), (900, &[0, 3, 100])]);
    assert_eq!(phases.len(), 2);
    let [first, last] = &phases[..] else { panic!("{phases:?}") };
    // A boundary is as fine as a slice.
    assert!(first.end_ns.abs_diff(3100 * MS) <= 20 * MS, "{phases:?}");
    assert_eq!((first.start_ns, last.start_ns, last.end_ns), (0, first.end_ns, 4000 * MS));
    let Holder::Stage { stage: 0, busy, alone: false } = first.holder else { panic!("{first:?}") };
    assert!((busy - 0.97).abs() < 0.01);
    assert!(matches!(last.holder, Holder::Stage { stage: 2, alone: true, .. }), "{last:?}");
}

#[test]
fn a_run_that_one_stage_holds_up_is_one_phase() {
    assert_eq!(brief(&cut(&[(1000, &[10, 95])])), [(1000, vec![1])]);
    assert_eq!(brief(&cut(&[(1, &[10, 95])])), [(1, vec![1])]);
    assert_eq!(cut(&[]), []);
}

#[test]
fn flickers_are_no_phases() {
    let mut parts: Vec<(u64, &[u64])> = Vec::new();
    for _ in 0..50 {
        // Turns of 30 ms, as a pipe fills and drains: the stages are equal.
        parts.extend([(30, &[100, 0][..]), (30, &[0, 100][..])]);
    }
    assert_eq!(brief(&cut(&parts)), [(3000, vec![0, 1])]);
    // A short turn within a phase of another.
    assert_eq!(brief(&cut(&[(1000, &[90, 10]), (80, &[10, 90]), (920, &[90, 10])])).len(), 1);
    // At the end of a run it has to pay for one change only.
    let end = [(1000, &[90, 10][..]), (60, &[0, 100][..])];
    assert_eq!(brief(&cut(&end)).len(), 2);
    let end = [(1000, &[90, 10][..]), (40, &[0, 100][..])];
    assert_eq!(brief(&cut(&end)).len(), 1, "less than 50 ms");
    let end = [(9900, &[90, 10][..]), (100, &[0, 100][..])];
    assert_eq!(brief(&cut(&end)).len(), 1, "less than 5 % of the run");
}

#[test]
fn a_stage_that_comes_back_has_a_phase_again() {
    let parts = [(500, &[90, 20][..]), (300, &[10, 90][..]), (600, &[80, 5][..])];
    let phases = brief(&cut(&parts));
    assert_eq!(phases.iter().map(|(_, who)| who.clone()).collect::<Vec<_>>(), [[0], [1], [0]]);
}

#[test]
fn two_that_are_equally_busy_share_a_phase() {
    let phases = brief(&cut(&[(600, &[95, 91, 0]), (400, &[0, 0, 99])]));
    assert_eq!(phases, [(600, vec![0, 1]), (1000, vec![2])]);
    // Whichever was chosen: neighbours of the same pair are one phase.
    let phases = brief(&cut(&[(600, &[95, 91]), (600, &[91, 95])]));
    assert_eq!(phases, [(1200, vec![0, 1])]);
}

#[test]
fn where_no_stage_is_busy_nobody_holds_the_run_up() {
    assert_eq!(brief(&cut(&[(700, &[3, 2]), (300, &[0, 98])])), [(700, vec![]), (1000, vec![1])]);
}

#[test]
fn a_wait_for_a_cpu_is_no_work_but_no_idleness_either() {
    let mut timeline = Timeline::default();
    for tick in 1..=1000 {
        let (own_ns, queue_ns) = (MS / 2, MS / 2);
        let waits = Spent { own_ns: MS / 5, queue_ns: MS * 4 / 5, ..Spent::default() };
        timeline.add(tick * MS, MS, &[Spent { own_ns, queue_ns, ..Spent::default() }, waits]);
    }
    let phases = timeline.phases(1000 * MS, &|_| false);
    let holder = Holder::Stage { stage: 0, busy: 1.0, alone: false };
    assert_eq!(phases, [Phase { start_ns: 0, end_ns: 1000 * MS, holder }]);
}

#[test]
fn relays_hold_nothing_up() {
    let timeline = timeline(&[(500, &[10, 99, 80]), (500, &[10, 99, 60])]);
    assert_eq!(brief(&timeline.phases(1000 * MS, &|stage| stage == 1)), [(1000, vec![2])]);
    assert_eq!(timeline.phases(1000 * MS, &|_| true), []);
}

#[test]
fn a_long_run_takes_no_more_memory_than_a_short_one() {
    let hours = [(3_600_000, &[95, 20][..]), (1_000_000, &[0, 100][..])];
    let timeline = timeline(&hours);
    assert!(timeline.slices.len() <= MOST_SLICES && timeline.slices.len() > MOST_SLICES / 4);
    let phases = timeline.phases(4_600_000 * MS, &|_| false);
    assert_eq!(phases.len(), 2);
    // A boundary is known to a slice: at most 1/64 of the run.
    assert!(phases[0].end_ns.abs_diff(3_600_000 * MS) < 4_600_000 * MS / 64, "{phases:?}");
    // As many as were sampled: what is merged is the sum.
    let weight_ns: u64 = timeline.slices.iter().map(|slice| slice.weight_ns).sum();
    assert_eq!(weight_ns, 4_600_000 * MS);
}

#[test]
fn time_decides_who_held_a_run_up() {
    let held = |parts: &[(u64, &[u64])]| {
        by_time(&cut(parts)).iter().map(|(stage, _)| *stage).collect::<Vec<_>>()
    };
    assert_eq!(held(&[(400, &[95, 10]), (600, &[0, 100])]), [1, 0]);
    assert_eq!(held(&[(300, &[95, 10]), (400, &[0, 100]), (300, &[95, 10])]), [0, 1]);
    assert_eq!(held(&[(1000, &[95, 10])]), [0; 0], "one phase decides nothing");
    assert_eq!(held(&[(600, &[95, 95, 0]), (400, &[0, 0, 100])]), [0; 0], "a pair held it longer");
}
