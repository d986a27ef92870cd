//! Verdicts on runs written down by hand, whose truth is known.

use super::*;
use crate::facts::{GroupQuota, Host, MemoryLimit, Pipe, Program, Quota, Started};
use crate::made::{MS, run, stage};
use alloc::string::String;
use alloc::vec;

#[test]
fn a_cpu_bound_middle_is_named_with_the_next_limit() {
    let verdict = judge(&run(vec![
        stage("cat f", [50, 0, 0, 950, 0]),
        stage("grep host7", [930, 20, 50, 0, 0]),
        stage("wc -l", [500, 0, 500, 0, 0]),
    ]));
    let culprit = verdict.culprit.expect("a culprit");
    assert_eq!((culprit.stage, culprit.reason, culprit.next_stage), (1, BusyReason::Cpu, Some(2)));
    assert!((culprit.speedup_limit.expect("a limit") - 2.0).abs() < 1e-9);
    assert_eq!(verdict.finding, Finding::HeldUp(Busy::Parts(vec![(BusyPart::Cpu, 0.93)])));
    assert_eq!(verdict.around, []);
}

#[test]
fn a_reader_that_sleeps_is_named_as_asleep() {
    let verdict =
        judge(&run(vec![stage("yes", [20, 0, 0, 980, 0]), stage("slow", [30, 0, 20, 0, 950])]));
    let culprit = verdict.culprit.expect("a culprit");
    assert_eq!((culprit.stage, culprit.reason), (1, BusyReason::Sleep));
    assert_eq!(verdict.finding, Finding::HeldUp(Busy::Parts(vec![(BusyPart::Sleep, 0.95)])));
}

/// Two stages that slept for each line were as slow as each other, and the second one's pipe was empty.
/// Beside a poller "at most 1.2x faster" was told, where 15x was to be had.
#[test]
fn sleep_on_an_empty_pipe_is_busy_time_and_gives_no_bound() {
    let (one, poll) = (stage("one", [950, 50]), stage("other", [20, 0, 180, 0, 800]));
    let mut slept = run(vec![one, poll]);
    slept.stages[1].times.doubtful_ns = 780 * MS;
    assert!(judge(&slept).stages[1].busy > 0.8);
    let culprit = judge(&slept).culprit.expect("a culprit");
    assert_eq!((culprit.stage, culprit.speedup_limit), (0, None));
    slept.stages[1].times.doubtful_ns = 50 * MS;
    let culprit = judge(&slept).culprit.expect("a culprit");
    assert!(culprit.speedup_limit.expect("a limit") < 1.5);
}

#[test]
fn two_equal_stages_are_no_single_bottleneck() {
    let verdict =
        judge(&run(vec![stage("a", [880, 0, 0, 120, 0]), stage("b", [930, 0, 70, 0, 0])]));
    assert_eq!(verdict.culprit, None);
    assert_eq!(verdict.finding, Finding::Tie([(0, 0.88), (1, 0.93)]));
    assert_eq!(verdict.around, [CpuCause::Full]);
}

#[test]
fn equal_work_is_a_tie_even_if_one_waited_longer_for_a_cpu() {
    let verdict =
        judge(&run(vec![stage("a", [480, 500, 0, 20, 0]), stage("b", [480, 200, 320, 0, 0])]));
    assert_eq!(verdict.culprit, None);
    assert_eq!(verdict.finding, Finding::EqualWork([(0, 0.48), (1, 0.48)]));
}

#[test]
fn the_cpu_time_that_remains_bounds_the_gain() {
    // Three stages of 400 ms on two CPUs need 600 ms even when the fourth is free.
    let mut stages = vec![stage("big", [1000, 0, 0, 0, 0])];
    stages.extend((0..3).map(|_| stage("small", [400, 0, 600, 0, 0])));
    let limit = judge(&run(stages)).culprit.expect("a culprit").speedup_limit;
    assert!((limit.expect("a limit") - 1000.0 / 600.0).abs() < 1e-9);
}

#[test]
fn a_stage_that_waits_for_a_cpu_is_told_so() {
    let verdict =
        judge(&run(vec![stage("a", [200, 700, 50, 50, 0]), stage("b", [100, 100, 800, 0, 0])]));
    assert_eq!(verdict.culprit.expect("a culprit").reason, BusyReason::Queue);
    let parts = vec![(BusyPart::Queue(None), 0.7), (BusyPart::Cpu, 0.2)];
    assert_eq!(verdict.finding, Finding::HeldUp(Busy::Parts(parts)));
}

#[test]
fn a_slow_reader_outside_is_not_blamed_on_a_stage() {
    let mut outside = run(vec![stage("cat", [20, 0, 0, 980, 0]), stage("tr", [50, 0, 0, 950, 0])]);
    outside.output_to_outside = true;
    let verdict = judge(&outside);
    assert_eq!(verdict.culprit, None);
    assert_eq!(verdict.finding, Finding::SlowOutput(0.95));
}

/// `(sleep 4 & echo ok) | cat`: "no single bottleneck: no stage was busy for long".
#[test]
fn what_a_stage_left_running_with_its_pipe_open_is_the_finding() {
    let with = |reads_ms: u64, computes_ms: u64| {
        let mut left =
            run(vec![stage("bash", [5, 0]), stage("cat", [computes_ms, 0, reads_ms, 0, 0])]);
        left.left = vec![LeftOpen { stage: 0, after_ns: 950 * MS, process: None }];
        judge(&left).finding
    };
    assert_eq!(with(990, 5), Finding::LeftOpen(0));
    // Its reader had enough to do meanwhile.
    assert!(matches!(with(300, 690), Finding::HeldUp(_)));
    let mut none = run(vec![stage("bash", [5, 0]), stage("cat", [5, 0, 990, 0, 0])]);
    none.left = Vec::new();
    assert_eq!(judge(&none).finding, Finding::Idle);
}

#[test]
fn a_short_run_is_not_judged() {
    let mut short = run(vec![stage("true", [1, 0, 0, 0, 0])]);
    short.stages[0].samples = 2;
    assert_eq!(judge(&short).finding, Finding::TooShort);
    assert_eq!(judge(&Run::default()).finding, Finding::NothingRan);
}

#[test]
fn a_pipeline_of_one_has_no_next_limit() {
    let culprit = judge(&run(vec![stage("gzip x", [990, 0, 0, 0, 0])])).culprit;
    let culprit = culprit.expect("a culprit");
    assert_eq!((culprit.next_stage, culprit.speedup_limit), (None, None));
}

#[test]
fn a_stage_that_may_not_be_looked_into_is_not_accused() {
    let mut hidden = run(vec![stage("sudo x", [10, 0, 0, 0, 0]), stage("cat", [10, 0, 990, 0, 0])]);
    hidden.stages[0].times.unknown_ns = 990 * MS;
    let verdict = judge(&hidden);
    assert_eq!(verdict.culprit, None);
    assert_eq!(verdict.finding, Finding::Hidden(0, 0.99));
}

#[test]
fn a_script_waiting_for_its_stages_holds_nobody_up() {
    // Once the shell tied with the one program that kept it waiting.
    let mut shell = stage("bash (the script itself)", [20, 0, 0, 0, 0]);
    shell.times.child_ns = 980 * MS;
    shell.times.stage_child_ns = shell.times.child_ns;
    let worker = stage("perl", [950, 0, 50, 0, 0]);
    let culprit = judge(&run(vec![shell, worker])).culprit.expect("a culprit");
    assert_eq!((culprit.stage, culprit.reason), (1, BusyReason::Cpu));
}

/// Any stage made a relay.
fn relay(label: &str, times: [u64; 5]) -> Stage {
    Stage { relay: true, ..stage(label, times) }
}

#[test]
fn a_relay_is_looked_through_however_busy_it_was() {
    let verdict = judge(&run(vec![
        stage("tar c src", [300, 0, 0, 0, 0]),
        relay("weir buffer", [700, 50, 100, 150, 0]),
        stage("xz", [600, 0, 400, 0, 0]),
    ]));
    let culprit = verdict.culprit.expect("a culprit");
    assert_eq!((culprit.stage, culprit.next_stage), (2, Some(0)));
    // The buffer's CPU time stays: 1,000 ms on two CPUs.
    assert!((culprit.speedup_limit.expect("a limit") - 2.0).abs() < 1e-9);
    assert_eq!(verdict.finding, Finding::HeldUp(Busy::Parts(vec![(BusyPart::Cpu, 0.6)])));
}

#[test]
fn a_relay_makes_no_tie_and_hides_none() {
    let busy = relay("weir buffer", [900, 0, 50, 50, 0]);
    let verdict = judge(&run(vec![
        stage("a", [100, 0, 0, 900, 0]),
        busy.clone(),
        stage("b", [900, 0, 100, 0, 0]),
    ]));
    assert_eq!(verdict.culprit.map(|culprit| culprit.stage), Some(2));
    let equal = [stage("a", [880, 0, 0, 120, 0]), busy, stage("b", [930, 0, 70, 0, 0])];
    assert_eq!(judge(&run(equal.to_vec())).finding, Finding::Tie([(0, 0.88), (2, 0.93)]));
}

#[test]
fn a_relay_that_waits_for_the_outside_hides_a_stage_that_does_not() {
    // The buffer took all there was early; its reader had enough to do from then on.
    let mut fed = run(vec![
        relay("weir buffer", [20, 0, 980, 0, 0]),
        stage("gzip", [800, 0, 200, 0, 0]),
        relay("weir buffer", [20, 0, 50, 930, 0]),
    ]);
    fed.input_from_outside = true;
    fed.output_to_outside = true;
    assert_eq!(judge(&fed).culprit.map(|culprit| culprit.stage), Some(1));
    fed.stages[1] = stage("gzip", [100, 0, 900, 0, 0]);
    assert_eq!(judge(&fed).finding, Finding::SlowInput(0.9));
}

#[test]
fn relays_alone_are_judged_as_any_stage() {
    let verdict = judge(&run(vec![relay("weir buffer", [950, 0, 0, 50, 0])]));
    assert_eq!(verdict.culprit.map(|culprit| culprit.stage), Some(0));
    let mut hidden =
        run(vec![relay("weir buffer", [10, 0, 0, 0, 0]), stage("wc", [300, 0, 700, 0, 0])]);
    hidden.stages[0].times.unknown_ns = 990 * MS;
    assert_eq!(judge(&hidden).culprit.map(|culprit| culprit.stage), Some(1));
}

/// Two stages with a pipe between them.
fn joined(first: Stage, second: Stage, full_share: f64, empty_share: f64) -> Run {
    let (full_share, empty_share) = (Some(full_share), Some(empty_share));
    let pipe = Pipe { from: 0, to: 1, full_share, empty_share, samples: 200, ..Pipe::default() };
    Run { pipes: vec![pipe], ..run(vec![first, second]) }
}

/// A stage whose threads ran side by side.
fn threads(label: &str, times: [u64; 5], cpu_sum_ms: u64) -> Stage {
    let several = Stage { single_task: false, several_ns: 1000 * MS, ..stage(label, times) };
    Stage { user_ns: cpu_sum_ms * MS, ..several }
}

#[test]
fn a_full_pipe_tells_that_threads_were_ahead() {
    // Some thread of mlr is at work all the time, yet it waits for jq.
    let mlr = threads("mlr cat", [930, 30, 0, 40, 0], 1300);
    let jq = stage("jq .", [900, 0, 100, 0, 0]);
    let culprit = |run: Run| judge(&run).culprit.map(|culprit| culprit.stage);
    assert_eq!(culprit(joined(mlr.clone(), jq.clone(), 0.9, 0.01)), Some(1));
    assert_eq!(culprit(joined(mlr.clone(), jq.clone(), 0.2, 0.02)), Some(1));
    assert_eq!(culprit(joined(mlr.clone(), jq.clone(), 0.01, 0.6)), Some(0));
    assert_eq!(culprit(joined(mlr, jq, 0.2, 0.15)), None, "a pipe of two minds says nothing");
}

#[test]
fn what_threads_do_beside_a_full_pipe_holds_nobody_up() {
    // Garbage is collected, input read ahead: some thread is always at work.
    let ahead = threads("mlr cat", [990, 0, 0, 10, 0], 1500);
    let reader = stage("jq .", [780, 0, 220, 0, 0]);
    let verdict = judge(&joined(ahead.clone(), reader.clone(), 0.6, 0.05));
    assert_eq!(verdict.culprit.map(|culprit| culprit.stage), Some(1));
    let verdict = judge(&joined(ahead, reader, 0.05, 0.6));
    assert_eq!(verdict.culprit.map(|culprit| culprit.stage), Some(0));
}

/// Of three equal sleepers in a row the first was named, since a wrapper that had started it made its
/// times those of several tasks: the run would have been as long without it.
#[test]
fn a_stage_without_which_the_run_would_be_as_long_is_no_bottleneck() {
    let slow = |times| Stage { single_task: false, several_ns: 20 * MS, ..stage("slow.py", times) };
    let run = joined(slow([50, 0, 0, 10, 940]), slow([50, 0, 20, 0, 910]), 0.02, 0.98);
    assert_eq!(judge(&run).culprit, None);
}

/// Three equal stages on two CPUs: the pipe before the middle one was full and the one behind it empty, and
/// so half of what the others did was said to be the work of further tasks, which there were not.
#[test]
fn one_task_is_not_at_work_while_it_waits() {
    let block = |times| Stage { single_task: false, ..stage("block.py", times) };
    let run = joined(block([570, 300, 0, 110, 20]), block([570, 390, 20, 0, 20]), 0.7, 0.1);
    let verdict = judge(&run);
    assert_eq!(verdict.culprit, None);
    assert_eq!(verdict.stages[0].overlap_ns, 0);
}

#[test]
fn the_pipe_never_overrules_exact_figures() {
    let busy = [stage("a", [880, 0, 0, 120, 0]), stage("b", [930, 0, 70, 0, 0])];
    let [first, second] = busy;
    let verdict = judge(&joined(first, second, 0.6, 0.0));
    assert_eq!(verdict.culprit.map(|culprit| culprit.stage), Some(1), "work and pipe agree");
    let equal = joined(stage("a", [900, 0, 0, 100, 0]), stage("b", [910, 0, 90, 0, 0]), 0.6, 0.0);
    assert_eq!(judge(&equal).culprit, None);
}

#[test]
fn a_wait_for_a_cpu_does_not_hide_who_has_more_work() {
    // sqlite3 alone takes 340 ms and awk 590; on a busy host the one waits as long as it works.
    let sqlite = stage("sqlite3 o.db", [340, 210, 0, 450, 0]);
    let awk = stage("awk '{s+=$3}'", [590, 50, 360, 0, 0]);
    let verdict = judge(&joined(sqlite, awk, 0.4, 0.05));
    assert_eq!(verdict.culprit.map(|culprit| culprit.stage), Some(1));
}

#[test]
fn a_rate_limiter_holds_up_whom_it_feeds() {
    let pv = stage("pv -qL 20m", [20, 0, 0, 450, 530]);
    let gzip = stage("gzip -1", [450, 0, 550, 0, 0]);
    let verdict = judge(&joined(pv.clone(), gzip, 0.2, 0.5));
    let culprit = verdict.culprit.expect("a culprit");
    assert_eq!((culprit.stage, culprit.reason), (0, BusyReason::Sleep));
    assert_eq!(verdict.finding, Finding::HeldUp(Busy::Paced(vec![(BusyPart::Sleep, 0.53)])));
    // A reader that is slower than the rate is the limit, and the limiter hardly sleeps.
    let slow = stage("gzip -9", [980, 0, 20, 0, 0]);
    let verdict = judge(&joined(pv, slow, 0.8, 0.01));
    assert_eq!(verdict.culprit.map(|culprit| culprit.stage), Some(1));
}

#[test]
fn who_seems_to_keep_to_a_rate_wins_a_tie_and_nothing_else() {
    let mut limiter = stage("./limit 20m", [20, 0, 0, 450, 530]);
    limiter.times_asleep = 10;
    let reader = stage("gzip -1", [500, 0, 500, 0, 0]);
    let culprit = |writer: &Stage, reader: &Stage| {
        let verdict = judge(&joined(writer.clone(), reader.clone(), 0.3, 0.4));
        verdict.culprit.map(|culprit| culprit.stage)
    };
    assert_eq!(culprit(&limiter, &reader), Some(0));
    let slower = stage("gzip -9", [720, 0, 280, 0, 0]);
    assert_eq!(culprit(&limiter, &slower), Some(1), "fixed sleeps cannot be excluded");
    limiter.times_asleep = 4;
    assert_eq!(culprit(&limiter, &reader), None, "a few long sleeps are bursts");
}

#[test]
fn a_quota_is_the_reason_and_bounds_know_it() {
    let mut throttled = run(vec![
        stage("zcat", [140, 860, 0, 0, 0]),
        stage("grep x", [50, 500, 450, 0, 0]),
        stage("wc -l", [10, 100, 890, 0, 0]),
    ]);
    throttled.cpus = 0.2;
    throttled.quota =
        Some(Quota { cpus: 0.2, periods: 51, throttled_periods: 50, throttled_ns: 800 * MS });
    let verdict = judge(&throttled);
    let culprit = verdict.culprit.expect("a culprit");
    assert_eq!((culprit.stage, culprit.reason.as_ref()), (0, "quota"));
    // The other stages need 60 ms of CPU time: 300 ms at a fifth of a CPU.
    assert_eq!((verdict.finding, culprit.next_stage), (Finding::Quota, Some(1)));
    assert!((culprit.share - 0.7).abs() < 1e-9);
    assert!((culprit.speedup_limit.expect("a limit") - 1000.0 / 300.0).abs() < 1e-9);
    assert_eq!(verdict.around, [CpuCause::Throttled { cpus: 0.2, share: 50.0 / 51.0 }]);
    throttled.stages[1].user_ns = 130 * MS;
    let verdict = judge(&throttled);
    assert_eq!(verdict.culprit, None);
    assert_eq!(verdict.finding, Finding::QuotaTie([(0, 0.5), (1, 130.0 / 280.0)]));
    throttled.quota.as_mut().expect("a quota").throttled_periods = 2;
    let hardly = judge(&throttled);
    assert!(!matches!(hardly.finding, Finding::Quota | Finding::QuotaTie(_)));
    assert!(!hardly.around.iter().any(|found| matches!(found, CpuCause::Throttled { .. })));
}

/// gzip in a control group of 0.2 CPUs was "waiting for a CPU", and the host was to blame.
#[test]
fn a_stage_in_a_group_of_its_own_is_held_up_by_that_group_s_quota() {
    let mut alone = run(vec![
        stage("head", [20, 10, 0, 970, 0]),
        stage("gzip -1", [200, 790, 10, 0, 0]),
        stage("wc -c", [10, 10, 980, 0, 0]),
    ]);
    alone.host = Host { cpus: 2, others_cpus: Some(1.0), ..Host::default() };
    let quota = Quota { cpus: 0.2, periods: 10, throttled_periods: 10, throttled_ns: 780 * MS };
    let others = [CpuCause::Others(1.0)];
    assert_eq!(judge(&alone).around, others, "without it, others are the cause");
    alone.stages[1].quota = Some(GroupQuota { group: String::from("job"), quota });
    let verdict = judge(&alone);
    let culprit = verdict.culprit.expect("a culprit");
    assert_eq!((culprit.stage, culprit.reason.as_ref()), (1, "quota"));
    assert_eq!((culprit.crowded_speedup, verdict.around), (None, vec![]));
    // A quota that withheld little of that time is no reason.
    let little = Quota { throttled_ns: 300 * MS, ..quota };
    alone.stages[1].quota = Some(GroupQuota { group: String::from("job"), quota: little });
    let verdict = judge(&alone);
    let culprit = verdict.culprit.expect("a culprit");
    assert_eq!((culprit.reason, verdict.around), (BusyReason::Queue, others.to_vec()));
}

/// Its time was called disk or CPU, since no call shows that a page is waited for.
#[test]
fn a_limit_of_memory_is_the_reason_where_pages_are_read_again_and_again() {
    let mut short = run(vec![stage("python3", [300, 0, 0, 0, 0]), stage("cat", [0, 0, 990, 0, 0])]);
    (short.stages[0].times.disk_ns, short.stages[0].major_faults) = (600 * MS, Some(40_000));
    let reason = |run: &Run| judge(run).culprit.expect("a culprit").reason;
    assert_eq!(reason(&short), BusyReason::Disk, "no limit is known");
    assert!(judge(&short).stages[0].pages.is_some(), "a file that is mapped");
    short.host.swapped_in_pages = Some(50_000);
    assert_eq!(reason(&short), BusyReason::Memory, "it was in swap");
    short.host.swapped_in_pages = None;
    let limit = |times_reached| {
        Some(MemoryLimit { limit_bytes: 64 << 20, times_reached, ..MemoryLimit::default() })
    };
    short.stages[0].memory_limit = limit(0);
    assert_eq!(reason(&short), BusyReason::Disk, "it was never reached");
    short.stages[0].memory_limit = limit(500);
    assert_eq!(reason(&short), BusyReason::Memory);
    // On a fast disk the kernel computes for them.
    let times = Times { cpu_ns: 900 * MS, ..Times::default() };
    (short.stages[0].times, short.stages[0].user_ns, short.stages[0].system_ns) =
        (times, 200 * MS, 700 * MS);
    assert_eq!(reason(&short), BusyReason::Memory);
    short.stages[0].memory_limit = None;
    short.memory_limit = limit(500);
    assert_eq!(reason(&short), BusyReason::Memory, "the run's own group");
    (short.stages[0].user_ns, short.stages[0].system_ns) = (700 * MS, 200 * MS);
    assert_eq!(reason(&short), BusyReason::Cpu, "it computes for itself");
    short.stages[0].major_faults = Some(30);
    (short.stages[0].user_ns, short.stages[0].system_ns) = (200 * MS, 700 * MS);
    assert_eq!(reason(&short), BusyReason::Cpu, "few pages were waited for");
}

#[test]
fn what_others_used_explains_a_wait_for_a_cpu() {
    let mut crowded =
        run(vec![stage("a", [200, 700, 50, 50, 0]), stage("b", [100, 100, 800, 0, 0])]);
    crowded.host =
        Host { cpus: 2, others_cpus: Some(1.8), steal_cpus: Some(0.3), ..Host::default() };
    let verdict = judge(&crowded);
    assert_eq!(verdict.around, [CpuCause::Others(1.8), CpuCause::Steal(0.3)]);
    assert!(verdict.culprit.expect("a culprit").crowded_speedup.is_some());
    crowded.stages.iter_mut().for_each(|stage| stage.times.queue_ns = 0);
    assert_eq!(judge(&crowded).around, [], "nobody waited for a CPU");
}

#[test]
fn a_shell_that_starts_thousands_of_programs_is_not_waiting_for_its_stages() {
    let mut shell = stage("bash (the script itself)", [140, 0, 0, 0, 0]);
    shell.times.child_ns = 860 * MS;
    shell.times.stage_child_ns = shell.times.child_ns;
    let programs = vec![Program { name: String::from("basename"), processes: 2000, share: 1.0 }];
    let wall_share = 0.85;
    let started = Started {
        processes: 2000,
        likely_processes: 2000,
        mean_life_ns: MS,
        wall_share,
        programs,
        ..Started::default()
    };
    shell.started = Some(started);
    let brief = stage("basename a", [7, 0, 0, 0, 0]);
    let verdict = judge(&Run { script: true, ..run(vec![shell.clone(), brief]) });
    let culprit = verdict.culprit.expect("a culprit");
    assert_eq!(culprit.reason.as_ref(), "processes");
    // "If bash took no time, the next limit would be basename", which bash starts.
    assert_eq!((culprit.speedup_limit, culprit.next_stage), (None, None));
    assert!(culprit.share > 0.9);
    let mut working = stage("xargs -n 200 md5sum", [900, 0, 0, 0, 0]);
    working.started = Some(Started {
        mean_life_ns: 46 * MS,
        processes: 60,
        likely_processes: 60,
        ..shell.started.unwrap_or_default()
    });
    // Processes that use 15 ms each do work of their own.
    let finding = judge(&run(vec![working])).finding;
    assert_eq!(finding, Finding::HeldUp(Busy::Parts(vec![(BusyPart::Cpu, 0.9)])));
    assert_eq!(verdict.finding, Finding::HeldUp(Busy::Starting(0.85)));
}

/// A writer was blamed that took three quarters of the run, beside a reader that slept for all of it.
#[test]
fn who_sleeps_before_it_reads_is_not_ahead_of_its_writer() {
    let writer = stage("make-some", [300, 0, 0, 0, 450]);
    let culprit = |reader| judge(&joined(writer.clone(), reader, 0.0, 0.9)).culprit;
    let sleeps = culprit(threads("(sleep 1; cat)", [0, 0, 0, 0, 1000], 1)).expect("a culprit");
    assert_eq!((sleeps.stage, sleeps.reason), (1, BusyReason::Sleep));
    // Behind work a wait for data may have been hidden.
    let works = culprit(threads("mlr cat", [1000, 0, 0, 0, 0], 1500)).expect("a culprit");
    assert_eq!(works.stage, 0);
}

/// "Started 100 processes" was the reason where each of them slept for most of its life.
#[test]
fn processes_that_sleep_are_no_starts() {
    let started = Started {
        processes: 100,
        likely_processes: 100,
        mean_life_ns: 16 * MS,
        wall_share: 0.99,
        ..Started::default()
    };
    let mut calls = stage("xargs -n 1 sh -c 'sleep 0.01'", [100, 50, 0, 0, 0]);
    (calls.times.sleep_ns, calls.single_task) = (850 * MS, false);
    calls.started = Some(started.clone());
    let reason = |run: &Run| judge(run).culprit.expect("a culprit").reason;
    assert_eq!(reason(&run(vec![calls.clone()])), BusyReason::Sleep);
    (calls.times.sleep_ns, calls.times.child_ns) = (0, 850 * MS);
    assert_eq!(reason(&run(vec![calls])), BusyReason::Processes);
    // In a script they have rows of their own.
    let mut shell = stage("bash (the script itself)", [140, 0, 0, 0, 0]);
    (shell.times.child_ns, shell.times.stage_child_ns) = (860 * MS, 860 * MS);
    shell.started = Some(started);
    let mut child = stage("sleep 0.01", [100, 0, 0, 0, 0]);
    child.times.sleep_ns = 800 * MS;
    let script = |child: &Stage| Run { script: true, ..run(vec![shell.clone(), child.clone()]) };
    assert_eq!(reason(&script(&child)), BusyReason::Sleep);
    child.times.sleep_ns = 0;
    assert_eq!(reason(&script(&child)), BusyReason::Processes);
}

#[test]
fn without_proc_nothing_is_reported_of_time() {
    let blind = Run { blind: true, ..run(vec![stage("a", [10, 0, 0, 0, 0])]) };
    assert_eq!(judge(&blind).finding, Finding::Blind);
}

#[test]
fn stages_that_hardly_work_are_no_tie() {
    let idle =
        judge(&run(vec![stage("bash", [10, 0, 0, 0, 0]), stage("tail", [10, 0, 990, 0, 0])]));
    assert_eq!(idle.finding, Finding::Idle);
    // "Held up by" one that was on a CPU for a sixth of the time.
    let sixth = run(vec![stage("bash", [170, 0, 0, 0, 0]), stage("tail", [10, 0, 990, 0, 0])]);
    assert_eq!(judge(&sixth).finding, Finding::Idle);
}

/// A Python program and an awk that read from each other hung: "no stage was busy for long".
#[test]
fn stages_that_all_wait_for_another_one_are_told_so() {
    let circle = run(vec![stage("python3", [20, 0, 980, 0, 0]), stage("awk", [1, 0, 600, 399, 0])]);
    assert_eq!(judge(&circle).finding, Finding::EachWaits);
}

/// A phase from one ms to another, held up by one stage.
fn phase(start_ms: u64, end_ms: u64, stage: usize) -> crate::facts::Phase {
    let holder = crate::facts::Holder::Stage { stage, busy: 0.98, alone: true };
    crate::facts::Phase { start_ns: start_ms * MS, end_ns: end_ms * MS, holder }
}

#[test]
fn two_stages_that_held_the_run_up_in_turn_are_no_tie() {
    let stages = vec![stage("sort", [550, 0, 20, 430, 0]), stage("gzip", [520, 0, 480, 0, 0])];
    let mut run = run(stages);
    assert_eq!(judge(&run).culprit, None);
    run.phases = vec![phase(0, 420, 0), phase(420, 1000, 1)];
    let verdict = judge(&run);
    assert_eq!(verdict.finding, Finding::InTurn(vec![(1, 0.58), (0, 0.42)]));
    let culprit = verdict.culprit.expect("the one that held it up for longest");
    assert_eq!((culprit.stage, culprit.reason, culprit.next_stage), (1, BusyReason::Cpu, Some(0)));
    assert!((culprit.share - 0.58).abs() < 1e-9);
    // One phase, or a pair of equals for longer, leaves the tie as it is.
    run.phases = vec![phase(0, 1000, 0)];
    assert_eq!(judge(&run).culprit, None);
    run.phases = vec![phase(0, 420, 0), phase(420, 1000, 1)];
    run.phases[1].holder = crate::facts::Holder::Two([0, 1]);
    assert_eq!(judge(&run).culprit, None);
}

#[test]
fn time_decides_between_the_busiest_and_the_one_that_was_waited_for_longest() {
    // grep worked beside gzip all the while, but gzip was what it waited for.
    let stages = vec![stage("gzip", [600, 0, 0, 100, 0]), stage("grep", [750, 0, 250, 0, 0])];
    let mut run = run(stages);
    assert_eq!(judge(&run).culprit.expect("the busiest").stage, 1);
    run.phases = vec![phase(0, 650, 0), phase(650, 1000, 1)];
    assert_eq!(judge(&run).culprit.expect("the one that held it up for longest").stage, 0);
    // Little more time decides nothing.
    run.phases = vec![phase(0, 520, 0), phase(520, 1000, 1)];
    let verdict = judge(&run);
    assert!(
        matches!(verdict.finding, Finding::HeldUp(_))
            && verdict.culprit.is_some_and(|c| c.stage == 1)
    );
}
