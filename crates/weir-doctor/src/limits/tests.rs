//! Bounds on runs written down by hand.

use super::*;
use crate::facts::{Pipe, Quota, Stage};
use crate::made::{self, MS, in_kernel, reads, run};
use alloc::string::String;
use alloc::vec;

fn stage(cpu_ms: u64, sleep_ms: u64) -> Stage {
    made::stage("", [cpu_ms, 0, 0, 0, sleep_ms])
}

fn is(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

#[test]
fn the_longest_of_the_others_bounds_and_so_does_their_cpu_time() {
    assert!(is(without_stage(&run(vec![stage(900, 0), stage(500, 0)]), 0).expect("bound"), 2.0));
    let four = run(vec![stage(1000, 0), stage(400, 0), stage(400, 0), stage(400, 0)]);
    assert!(is(without_stage(&four, 0).expect("bound"), 1000.0 / 600.0));
    assert_eq!(without_stage(&run(vec![stage(900, 0)]), 0), None);
}

#[test]
fn a_quota_bounds_as_cpus_do() {
    // At a fifth of a CPU the 100 ms of the other stage take 500 ms.
    let mut throttled = run(vec![stage(100, 0), stage(100, 0)]);
    assert!(is(without_stage(&throttled, 0).expect("bound"), 10.0));
    throttled.quota = Some(Quota { cpus: 0.2, ..Quota::default() });
    assert!(is(without_stage(&throttled, 0).expect("bound"), 2.0));
    assert!(is(without_waits(&throttled), 1.0));
}

#[test]
fn the_tasks_of_one_stage_may_share_the_cpus_better_than_they_did() {
    let mut threads = stage(800, 0);
    (threads.single_task, threads.several_ns, threads.user_ns) = (false, 800 * MS, 1000 * MS);
    let run = run(vec![stage(900, 0), threads]);
    assert!(is(without_stage(&run, 0).expect("bound"), 2.0));
    assert!(is(with_cpus(&run, 8.0), 1000.0 / 900.0), "one task gains nothing by more CPUs");
}

#[test]
fn a_reader_of_tiny_pieces_needs_less_when_its_writer_is_replaced() {
    // The reader spends 250 of 300 ms in calls that bring a few bytes each.
    let mut loops = run(vec![stage(950, 0), stage(300, 0)]);
    in_kernel(&mut loops.stages[1], 250 * MS);
    loops.pipes = vec![Pipe { from: 0, to: 1, ..Pipe::default() }];
    assert!(is(without_stage(&loops, 0).expect("bound"), 1000.0 / 300.0));
    assert!(!has_tiny_neighbour(&loops, 0));
    // The 20,000 calls cost 250 ms in the kernel and about 20 ms outside of it.
    reads(&mut loops.stages[1], 20_000, 480_000);
    assert!(is(without_stage(&loops, 0).expect("bound"), 1000.0 / 30.0));
    assert!(has_tiny_neighbour(&loops, 0) && !has_tiny_neighbour(&loops, 1));
}

#[test]
fn sleep_stays_and_user_time_can_go() {
    let mut sorts = run(vec![stage(900, 50)]);
    in_kernel(&mut sorts.stages[0], 150 * MS);
    assert!(is(without_user_time(&sorts, 0), 5.0));
    assert!(is(without_waits(&sorts), 1000.0 / 950.0));
}

#[test]
fn a_rate_stays_whatever_the_others_do() {
    // It slept for half of the run and was held in writes for the rest; it would sleep instead.
    let mut limiter = stage(10, 500);
    limiter.label = String::from("pv -qL 20m");
    limiter.times.output_ns = 490 * MS;
    let mut reader = stage(450, 0);
    reader.times.input_ns = 550 * MS;
    let mut run = run(vec![limiter, reader]);
    run.pipes = vec![Pipe { from: 0, to: 1, ..Pipe::default() }];
    assert!(is(without_stage(&run, 1).expect("bound"), 1.0));
    assert!(is(with_cpus(&run, 8.0), 1.0));
    assert!(is(without_stage(&run, 0).expect("bound"), 1000.0 / 450.0));
}

/// "At most 24x" where `pv -L` hardly slept behind a full pipe, and would have been the limit at once.
#[test]
fn a_rate_is_a_need_whatever_it_hides_behind() {
    let pipeline = |label: &str| {
        let mut limiter = stage(10, 40);
        (limiter.label, limiter.times_asleep) = (String::from(label), 20);
        limiter.times.output_ns = 950 * MS;
        limiter.pipe_out_bytes = Some(8 << 20);
        let mut run = run(vec![limiter, stage(990, 0)]);
        run.pipes = vec![Pipe { from: 0, to: 1, ..Pipe::default() }];
        run
    };
    // 8 MiB at 10 MiB/s take 0.8 s; a tenth of that is slack.
    let known = without_stage(&pipeline("pv -qL 10m"), 1).expect("bound");
    assert!(is(known, 1000.0 / 720.0), "{known}");
    assert_eq!(without_stage(&pipeline("python3 bucket.py"), 1), None, "nobody knows its rate");
    let mut once = pipeline("python3 start.py");
    once.stages[0].times_asleep = 1;
    assert!(is(without_stage(&once, 1).expect("bound"), 20.0));
}

/// A stage that only asked an empty pipe again and again, on a CPU or between naps, was said to
/// be the next limit.
#[test]
fn asking_for_input_is_no_need() {
    let mut spins = stage(1000, 0);
    spins.times.spun_cpu_ns = 950 * MS;
    let run = run(vec![stage(900, 0), spins]);
    assert!(is(without_stage(&run, 0).expect("bound"), 20.0));
}

/// A stage that runs as another user waited for its writer all the time, which weir may not see: the
/// run without that writer was said to be "not measurably faster".
#[test]
fn a_wait_that_may_have_been_for_another_stage_bounds_nothing() {
    let mut hidden = stage(100, 0);
    hidden.times.unknown_ns = 900 * MS;
    let both = |hidden: &Stage| run(vec![stage(950, 0), hidden.clone()]);
    assert!(is(without_stage(&both(&hidden), 0).expect("bound"), 10.0));
    hidden.times.cpu_ns = 0;
    hidden.user_ns = 0;
    assert_eq!(without_stage(&both(&hidden), 0), None, "nothing is known to be needed");
    // Nor does one that a single sample met.
    let mut asleep = stage(100, 900);
    asleep.times.unseen_ns = 700 * MS;
    assert!(is(without_stage(&both(&asleep), 0).expect("bound"), 1000.0 / 300.0));
}
