//! Advice on runs written down by hand: given where there is evidence, and only there.

use super::cpus::scarcity;
use super::rewrite::{apply, rewrite};
use super::*;
use crate::facts::{
    Evidence, Flushes, GroupQuota, Host, OutsideProcess, Peer, Pipe, Program, Quota, Stage,
    Started, Unseen,
};
use crate::made::{self, MS, in_kernel, reads, stage, writes};
use crate::partition::Times;
use crate::programs;
use crate::verdict::{Busy, Finding, judge};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;

mod passes;
mod tools;

fn run(stages: Vec<Stage>) -> Run {
    let used: u64 = stages.iter().map(Stage::cpu_sum_ns).sum();
    let idle_cpus = Some((2.0 - used as f64 / 1e9).max(0.0));
    let host = Host { cpus: 2, online_cpus: 2, idle_cpus, ..Host::default() };
    Run { host, ..made::run(stages) }
}

fn advice(run: &Run) -> Vec<Advice> {
    advise(run, &judge(run), &Vec::new)
}

fn kinds(run: &Run) -> Vec<AdviceKind> {
    advice(run).iter().map(|advice| advice.kind).collect()
}

fn with_pipe(full_share: f64, empty_share: f64, longest_ns: u64) -> Run {
    let mut run = run(vec![stage("a", [500, 0, 0, 500]), stage("b", [500, 0, 500, 0])]);
    run.pipes = vec![Pipe {
        from: 0,
        to: 1,
        capacity_bytes: 65_536,
        limit_bytes: 1 << 20,
        full_share: Some(full_share),
        empty_share: Some(empty_share),
        longest_full_ns: longest_ns,
        longest_empty_ns: longest_ns,
        longest_turn_ns: longest_ns,
        long_turns_ns: if longest_ns < 50 * MS { 0 } else { 400 * MS },
        samples: 200,
        ..Pipe::default()
    }];
    run
}

#[test]
fn a_pipe_full_and_empty_in_turn_should_be_larger() {
    let found = advice(&with_pipe(0.4, 0.4, 5 * MS));
    assert_eq!(found[0].kind, AdviceKind::LargerPipe);
    assert_eq!(found[0].gain, Gain::AtMost(2.0));
}

#[test]
fn a_pipe_that_is_only_full_needs_no_memory() {
    assert_eq!(kinds(&with_pipe(0.9, 0.0, 5 * MS)), vec![]);
    assert_eq!(kinds(&with_pipe(0.0, 0.9, 5 * MS)), vec![]);
}

#[test]
fn bursts_longer_than_a_pipe_ask_for_an_elastic_buffer() {
    assert_eq!(kinds(&with_pipe(0.4, 0.4, 200 * MS)), vec![AdviceKind::ElasticBuffer]);
    let mut largest = with_pipe(0.4, 0.4, 5 * MS);
    largest.pipes[0].capacity_bytes = 1 << 20;
    assert_eq!(kinds(&largest), vec![], "a pipe at its limit without bursts cannot be helped");
}

/// Three equal sleepers got "an elastic buffer (at most 1.2x)" for the start of one of them.
#[test]
fn one_burst_gains_no_more_than_it_took() {
    let mut once = with_pipe(0.4, 0.4, 80 * MS);
    once.pipes[0].long_turns_ns = 80 * MS;
    assert_eq!(kinds(&once), vec![]);
}

#[test]
fn bursts_are_seen_though_the_writer_lags_behind_a_reader_that_works() {
    // dd in a loop into gzip: while the burst lasts, every few samples find some room.
    let mut bursts = with_pipe(0.38, 0.46, 300 * MS);
    bursts.pipes[0].longest_full_ns = 30 * MS;
    assert_eq!(kinds(&bursts), vec![AdviceKind::ElasticBuffer]);
}

#[test]
fn a_slow_start_before_a_slow_reader_is_no_burst() {
    // An interpreter starts for 150 ms, and then writes faster than is read: no memory helps.
    let mut start = with_pipe(0.7, 0.3, 150 * MS);
    start.pipes[0].longest_turn_ns = 0;
    assert_eq!(kinds(&start), vec![]);
}

#[test]
fn beside_a_buffer_no_other_is_advised() {
    for position in [0, 1] {
        let mut buffered = with_pipe(0.4, 0.4, 200 * MS);
        buffered.stages[position].label = "weir buffer --rate 10M".to_string();
        assert_eq!(kinds(&buffered), vec![]);
        let mut buffered = with_pipe(0.4, 0.4, 5 * MS);
        buffered.stages[position].relay = true;
        assert_eq!(kinds(&buffered), vec![]);
    }
}

#[test]
fn the_locale_is_blamed_only_where_it_is_used_and_costs() {
    let mut utf8 = run(vec![stage("cat f", [50, 0, 0, 950]), stage("sort -k4", [950, 0, 50, 0])]);
    assert_eq!(kinds(&utf8), vec![]);
    utf8.stages[1].locale = Some("en_US.UTF-8".to_string());
    let found = advice(&utf8);
    assert_eq!((found[0].kind, found[0].stage), (AdviceKind::CLocale, Some(1)));
    utf8.stages[1].program = "mawk".to_string();
    assert_eq!(kinds(&utf8), vec![]);
}

#[test]
fn a_one_cpu_decompressor_beside_idle_cpus() {
    let mut zipped =
        run(vec![stage("gzip -dc f.gz", [950, 0, 0, 50]), stage("wc -l", [100, 0, 900, 0])]);
    let found = advice(&zipped);
    assert_eq!(found[0].kind, AdviceKind::ParallelCompressor);
    assert!(matches!(found[0].gain, Gain::About(factor) if (factor - 1.32).abs() < 0.02));
    // Others used the second CPU: this run did not leave it idle.
    zipped.host = Host { idle_cpus: Some(0.05), others_cpus: Some(0.9), ..zipped.host };
    assert!(!kinds(&zipped).contains(&AdviceKind::ParallelCompressor));
    zipped.host.idle_cpus = None;
    assert!(
        !kinds(&zipped).contains(&AdviceKind::ParallelCompressor),
        "what is not known is not idle"
    );
}

#[test]
fn tiny_writes_are_shown_with_their_size() {
    let mut tiny =
        run(vec![stage("python3 -u g.py", [950, 0, 0, 50]), stage("wc", [50, 0, 950, 0])]);
    tiny.pipes = vec![Pipe { from: 0, to: 1, ..Pipe::default() }];
    writes(&mut tiny.stages[0], 1_000_000, 14_000_000);
    in_kernel(&mut tiny.stages[0], 600 * MS);
    let found = advice(&tiny);
    assert_eq!((found[0].kind, found[0].gain), (AdviceKind::LargerWrites, Gain::About(1.0 / 0.49)));
    let typed = |run: &Run| rewrite(run, &found[0], &|_| false);
    assert_eq!(typed(&tiny), Some(vec![(0, Some("python3 g.py".to_string()))]));
    tiny.stages[0].unbuffered = true;
    assert_eq!(typed(&tiny), None, "PYTHONUNBUFFERED does the same as -u");
    // `strace -o x dd bs=512` was to gather its output (2.7x): the time was that of ptrace's stops.
    tiny.stages[0].label = "strace -o x dd bs=512".to_string();
    assert_eq!(kinds(&tiny), vec![]);
    // perf counts, and stops nothing.
    tiny.stages[0].label = "perf stat dd bs=512".to_string();
    assert_eq!(kinds(&tiny), vec![AdviceKind::LargerWrites]);
    tiny.stages[0].label = "python3 -u g.py".to_string();
    writes(&mut tiny.stages[0], 1_000_000, 4_000_000_000);
    assert_eq!(kinds(&tiny), vec![]);
}

#[test]
fn full_cpus_ask_for_more_only_when_stages_waited_for_them() {
    let stages = |queue| vec![stage("a", [900, queue, 0, 0]), stage("b", [900, queue, 0, 0])];
    assert_eq!(kinds(&run(stages(450))), vec![AdviceKind::MoreCpus]);
    // Most of the time there was no work for a third CPU.
    assert_eq!(kinds(&run(stages(100))), vec![]);
    assert_eq!(kinds(&run(vec![stage("a", [990, 0, 0, 0]), stage("b", [950, 0, 50, 0])])), vec![]);
}

/// A sort that has read its input works alone: a run on one CPU that is always busy gains nothing by a
/// second one.
#[test]
fn a_cpu_that_is_full_of_one_stage_s_work_is_not_asked_for_twice() {
    let mut alone = run(vec![stage("cut", [200, 150, 0, 0]), stage("sort", [780, 150, 50, 0])]);
    alone.cpus = 1.0;
    assert_eq!(scarcity(&alone), Some(Scarcity::Full(300 * MS)));
    assert_eq!(kinds(&alone), vec![]);
    alone.stages[0].times.queue_ns = 700 * MS;
    assert_eq!(kinds(&alone), vec![AdviceKind::MoreCpus]);
    // Lines one by one from CPU to CPU: as long as on one.
    alone.pipes = vec![Pipe { from: 0, to: 1, ..Pipe::default() }];
    writes(&mut alone.stages[0], 1_000_000, 14_000_000);
    assert!(!kinds(&alone).contains(&AdviceKind::MoreCpus));
}

/// On a host that others use, the only advice was "run it when the host has less to do". Of what can be
/// typed, pigz took half of the time of gzip there, and zstd -T0 two thirds.
#[test]
fn beside_others_a_program_is_judged_by_the_cpus_that_are_left() {
    let beside = |label: &str, idle_cpus: f64| {
        let mut run = run(vec![stage(label, [660, 340, 0, 0])]);
        run.host = Host { others_cpus: Some(1.3), idle_cpus: Some(idle_cpus), ..run.host };
        advice(&run)
    };
    let found = beside("gzip -6 -c f", 0.0);
    assert_eq!((found[0].kind, found.len()), (AdviceKind::ParallelCompressor, 1));
    assert!((found[0].gain.factor() - 1.25).abs() < 1e-9, "it needs less: {:?}", found[0].gain);
    assert_eq!(beside("zstd -9 f", 0.0), []);
    // 0.3 of the CPUs were free.
    let found = beside("zstd -9 f", 0.3);
    assert!(matches!(found[0].gain, Gain::About(factor) if (factor - 1.45).abs() < 0.01));
}

/// "Perhaps 1.6x" where the writer needed half of the other CPU: 1.2 and 1.3 were gained.
#[test]
fn what_the_neighbours_need_is_not_shared_out() {
    let beside = |writer_ms| {
        let mut run = run(vec![stage("tar c d", [writer_ms, 0]), stage("gzip", [990, 0])]);
        run.pipes = vec![Pipe { from: 0, to: 1, ..Pipe::default() }];
        let found = advice(&run).into_iter();
        let found = found.filter(|advice| advice.kind == AdviceKind::ParallelCompressor);
        found.map(|advice| advice.gain.factor()).collect::<Vec<_>>()
    };
    let [alone, half] = [beside(0)[0], beside(500)[0]];
    assert!((alone - 1.97).abs() < 0.02 && (half - 1.41).abs() < 0.02, "{alone} {half}");
}

#[test]
fn the_reader_of_small_writes_is_not_blamed_for_them() {
    let mut fed = run(vec![stage("while read", [900, 0, 0, 50]), stage("sort", [500, 0, 500, 0])]);
    fed.pipes = vec![Pipe { from: 0, to: 1, ..Pipe::default() }];
    for (stage, calls) in fed.stages.iter_mut().zip([400_000, 329_000]) {
        writes(stage, calls, calls * 24);
        in_kernel(stage, 400 * MS);
    }
    let sort = &mut fed.stages[1];
    writes(sort, 100, 9_600_000);
    reads(sort, 329_000, 9_600_000);
    let found = advice(&fed);
    assert_eq!(
        (found.len(), found[0].kind, found[0].stage),
        (1, AdviceKind::LargerWrites, Some(0))
    );
    // A reader that reads a byte at a time of what was written in blocks does so of its own accord.
    writes(&mut fed.stages[0], 2400, 9_600_000);
    reads(&mut fed.stages[1], 9_600_000, 9_600_000);
    let found = advice(&fed);
    assert_eq!((found[0].kind, found[0].stage), (AdviceKind::LargerReads, Some(1)));
}

#[test]
fn a_loop_that_is_replaced_has_the_bound_of_a_stage_that_is_free() {
    let mut loops = run(vec![
        stage("head -400000 f", [10, 0, 0, 900]),
        stage("while read -r a b; do echo $b; done", [900, 0, 0, 0]),
        stage("sort", [200, 0, 700, 0]),
    ]);
    loops.pipes = vec![
        Pipe { from: 0, to: 1, ..Pipe::default() },
        Pipe { from: 1, to: 2, ..Pipe::default() },
    ];
    let shell = &mut loops.stages[1];
    reads(shell, 34_300_000, 34_300_000);
    in_kernel(shell, 650 * MS);
    writes(&mut loops.stages[0], 600, 34_300_000);
    // Its reader spends most of its time on reads of a few bytes, which go as well.
    let sort = &mut loops.stages[2];
    reads(sort, 400_000, 9_600_000);
    in_kernel(sort, 180 * MS);
    let found = advice(&loops);
    assert_eq!(found[0].kind, AdviceKind::LargerReads);
    assert!(found[0].gain.factor() > 49.8, "that much was gained once: {:?}", found[0].gain);
    assert!(matches!(found[0].gain, Gain::About(_)), "what sort would need is not known");
    reads(&mut loops.stages[2], 100, 9_600_000);
    let found = advice(&loops);
    assert_eq!(found[0].gain, Gain::AtMost(5.0));
}

#[test]
fn many_short_processes_are_the_reason_and_not_their_small_writes() {
    let mut forks = run(vec![
        stage("for i in $(seq 3000); do basename /a/$i; done", [900, 50, 0, 0]),
        stage("sort", [20, 0, 980, 0]),
    ]);
    let looping = &mut forks.stages[0];
    looping.single_task = false;
    writes(looping, 3003, 27_000);
    in_kernel(looping, 500 * MS);
    looping.started = Some(Started {
        processes: 3000,
        likely_processes: 3000,
        mean_life_ns: 1_100_000,
        wall_share: 0.91,
        programs: ["basename", "seq"]
            .into_iter()
            .zip([2990, 1])
            .map(|(name, processes)| Program { name: name.to_string(), processes, share: 0.5 })
            .collect(),
        evidence: Evidence::Exact,
    });
    let verdict = judge(&forks);
    assert_eq!(verdict.finding, Finding::HeldUp(Busy::Starting(0.91)));
    let found = advice(&forks);
    assert_eq!(found.iter().map(|a| a.kind).collect::<Vec<_>>(), [AdviceKind::FewerProcesses]);
    forks.stages[0].started.as_mut().expect("started").likely_processes = 6;
    assert!(!kinds(&forks).contains(&AdviceKind::FewerProcesses));
}

/// "Over 10x" for one shell in place of many, of which each started `sha1sum` and `cut`: it was 1.8 times as
/// fast.
#[test]
fn one_shell_for_all_saves_no_more_than_the_shells() {
    let gain = |label: &str| {
        let mut starts = run(vec![stage(label, [100, 0, 0, 900])]);
        let xargs = &mut starts.stages[0];
        (xargs.times.child_ns, xargs.times.sleep_ns) = (900 * MS, 0);
        let programs = [("sh", 240), ("cut", 120), ("sha1sum", 120)]
            .map(|(name, processes)| Program { name: name.to_string(), processes, share: 0.3 });
        xargs.started = Some(Started {
            processes: 480,
            likely_processes: 480,
            mean_life_ns: 3 * MS,
            wall_share: 0.9,
            programs: programs.into(),
            evidence: Evidence::Exact,
        });
        let found = advice(&starts);
        assert_eq!(found[0].kind, AdviceKind::FewerProcesses, "{label}");
        let Gain::About(gain) = found[0].gain else { panic!("{found:?}") };
        gain
    };
    let shells = gain("xargs -I{} sh -c 'echo {} | sha1sum | cut -c1-8'");
    assert!((1.7..1.9).contains(&shells), "{shells}");
    assert!(gain("xargs -n1 mytool") > 5.0);
}

/// `gzip` of 80 kB, 300 times, was "perhaps over 10x", and 1.7 times as fast by one process for all.
#[test]
fn what_the_processes_computed_is_not_saved_by_one_for_all() {
    let started = |processes| Started {
        processes,
        likely_processes: processes,
        mean_life_ns: 8 * MS,
        wall_share: 0.9,
        programs: vec![Program { name: String::from("gzip"), processes, share: 1.0 }],
        evidence: Evidence::Exact,
    };
    let mut packs = run(vec![stage("xargs -n1 gzip", [400, 0, 0, 500])]);
    let xargs = &mut packs.stages[0];
    (xargs.times.child_ns, xargs.times.sleep_ns) = (500 * MS, 0);
    (xargs.user_ns, xargs.system_ns) = (360 * MS, 30 * MS);
    xargs.started = Some(started(100));
    let gain = |run: &Run| {
        let found = advice(run).into_iter().find(|it| it.kind == AdviceKind::FewerProcesses);
        found.expect("advice").gain.factor()
    };
    assert!((1.5..2.1).contains(&gain(&packs)), "{}", gain(&packs));
    // Short ones do little but start.
    packs.stages[0].user_ns = 150 * MS;
    assert!(gain(&packs) > 5.0, "{}", gain(&packs));
    // A script has the processes in rows of their own.
    packs.script = true;
    let row = stage("gzip -c ...", [400, 0, 0, 0]);
    packs.stages.push(Stage { processes: 100, user_ns: 260 * MS, system_ns: 30 * MS, ..row });
    packs.stages[0].label = String::from("bash x.sh");
    (packs.stages[0].user_ns, packs.stages[0].system_ns) = (0, 0);
    packs.unseen = Some(Unseen { cpu_ns: 100 * MS, ..Unseen::default() });
    assert!((1.5..2.1).contains(&gain(&packs)), "{}", gain(&packs));
}

#[test]
fn a_wrapper_that_starts_a_few_is_not_told_to_use_awk() {
    // A script that looks for the right interpreter forks some subshells before it starts it.
    let mut wrapped = run(vec![stage("python3 report.py", [200, 50, 0, 0])]);
    wrapped.wall_ns = 300 * MS;
    let python = &mut wrapped.stages[0];
    (python.wall_ns, python.single_task) = (300 * MS, false);
    let programs = vec![Program { name: String::from("bash"), processes: 79, share: 1.0 }];
    python.started = Some(Started {
        processes: 79,
        likely_processes: 79,
        mean_life_ns: 2 * MS,
        wall_share: 0.9,
        programs,
        ..Started::default()
    });
    assert!(!kinds(&wrapped).contains(&AdviceKind::FewerProcesses));
    // The same in a loop that continues for a second.
    wrapped.wall_ns = 1000 * MS;
    let looping = &mut wrapped.stages[0];
    looping.label = String::from("while read -r x; do echo $(f $x); done");
    (looping.wall_ns, looping.times.child_ns) = (1000 * MS, 700 * MS);
    assert!(kinds(&wrapped).contains(&AdviceKind::FewerProcesses));
}

#[test]
fn who_reads_the_output_slowly_does_so_on_any_host() {
    let mut paged = run(vec![stage("cat", [100, 200, 0, 700])]);
    paged.quota =
        Some(Quota { cpus: 0.2, periods: 50, throttled_periods: 49, throttled_ns: 200 * MS });
    assert_eq!(kinds(&paged), [AdviceKind::MoreCpus]);
    paged.output_to_outside = true;
    assert_eq!(kinds(&paged), []);
}

/// A run that was killed for its memory was told to come again when the host has less to do.
#[test]
fn a_run_that_memory_ran_out_for_is_not_told_how_to_be_faster() {
    let mut killed = run(vec![stage("gzip -9 f", [950, 0])]);
    killed.memory_kills.host = Some(1);
    assert_eq!(kinds(&killed), [AdviceKind::ParallelCompressor], "that was another one");
    for (ending, group) in
        [(Ending::Signal(9), None), (Ending::Code(137), None), (Ending::Code(0), Some(1))]
    {
        killed.stages[0].ending = Some(ending);
        killed.memory_kills.group = group;
        assert_eq!(kinds(&killed), [], "{ending:?}");
    }
}

#[test]
fn under_a_quota_nothing_is_advised_that_only_does_more_at_once() {
    let mut throttled = with_pipe(0.4, 0.4, 200 * MS);
    for stage in &mut throttled.stages {
        stage.user_ns = 100 * MS;
    }
    throttled.cpus = 0.2;
    throttled.quota =
        Some(Quota { cpus: 0.2, periods: 50, throttled_periods: 49, throttled_ns: 800 * MS });
    let found = advice(&throttled);
    assert_eq!(found.iter().map(|a| a.kind).collect::<Vec<_>>(), [AdviceKind::MoreCpus]);
    assert_eq!(scarcity(&throttled), Some(Scarcity::Quota(0.2, 0.98)));
}

#[test]
fn the_quota_of_one_stage_is_what_to_raise_and_no_other_host_helps() {
    let mut alone =
        run(vec![stage("gzip -1", [200, 790, 10, 0]), stage("wc -c", [10, 10, 980, 0])]);
    alone.host.idle_cpus = Some(0.1);
    alone.host.others_cpus = Some(1.7);
    let quota = Quota { cpus: 0.2, periods: 10, throttled_periods: 10, throttled_ns: 780 * MS };
    alone.stages[0].quota = Some(GroupQuota { group: "job".to_string(), quota });
    let found = advice(&alone);
    let [piece] = &found[..] else { panic!("{found:?}") };
    assert_eq!((piece.kind, piece.stage), (AdviceKind::MoreCpus, Some(0)));
    // 200 ms of CPU time remain.
    assert_eq!(piece.gain, Gain::AtMost(5.0));
}

#[test]
fn on_a_full_host_nothing_is_advised_that_only_does_more_at_once() {
    let mut crowded = with_pipe(0.4, 0.4, 5 * MS);
    crowded.host.others_cpus = Some(1.8);
    crowded.host.idle_cpus = Some(0.0);
    for stage in &mut crowded.stages {
        stage.times = Times { queue_ns: 400 * MS, cpu_ns: 100 * MS, ..stage.times };
    }
    assert_eq!((kinds(&crowded), scarcity(&crowded)), (vec![], None));
}

#[test]
fn a_rate_limiter_gets_no_elastic_buffer() {
    let mut limited = with_pipe(0.4, 0.4, 60 * MS);
    limited.stages[0].times = Times { sleep_ns: 500 * MS, output_ns: 500 * MS, ..Times::default() };
    limited.stages[0].times_asleep = 5;
    assert_eq!(kinds(&limited), vec![AdviceKind::ElasticBuffer], "a few long sleeps are bursts");
    limited.stages[0].times_asleep = 20;
    assert_eq!(kinds(&limited), vec![], "twenty short ones a second keep a rate");
    limited.stages[0].times_asleep = 5;
    limited.stages[0].label = "pv -qL 20m".to_string();
    assert_eq!(kinds(&limited), vec![], "pv says itself that it does");
}

#[test]
fn at_most_three_lines_and_none_below_what_the_run_resolves() {
    let mut many = run(vec![stage("w -u", [900, 0, 0, 100]); 9]);
    many.pipes = (0..8).map(|from| Pipe { from, to: from + 1, ..Pipe::default() }).collect();
    for stage in &mut many.stages {
        writes(stage, 100_000, 1_000_000);
        in_kernel(stage, 300 * MS);
    }
    many.cpus = 16.0;
    assert_eq!(advice(&many).len(), MOST);
    // 50 samples cannot show a gain of 12 %.
    let mut little = with_pipe(0.4, 0.4, 5 * MS);
    little.stages[0].times = Times { cpu_ns: 890 * MS, output_ns: 110 * MS, ..Times::default() };
    little.stages.iter_mut().for_each(|stage| stage.samples = 1000);
    assert_eq!(kinds(&little), vec![AdviceKind::LargerPipe]);
    little.stages.iter_mut().for_each(|stage| stage.samples = 50);
    assert_eq!(kinds(&little), vec![]);
    // Nor is one of 6 % worth a line, however well it is known.
    little.stages[0].times = Times { cpu_ns: 940 * MS, output_ns: 60 * MS, ..Times::default() };
    little.stages.iter_mut().for_each(|stage| stage.samples = 10_000);
    assert_eq!(kinds(&little), vec![]);
}

#[test]
fn what_was_refuted_is_not_said_again() {
    let bursts = with_pipe(0.4, 0.4, 200 * MS);
    let verdict = judge(&bursts);
    let refuted = Refuted { kind: AdviceKind::ElasticBuffer, stage: None, pipe: Some(0) };
    let elsewhere = Refuted { pipe: Some(1), ..refuted };
    assert_eq!(advise(&bursts, &verdict, &|| vec![elsewhere]).len(), 1, "that was another pipe");
    assert_eq!(advise(&bursts, &verdict, &|| vec![refuted]), vec![]);
}

#[test]
fn bytes_are_bytes_also_in_c_utf_8() {
    let mut sorts = run(vec![stage("sort -k4", [950, 0, 50, 0])]);
    for plain in ["C", "POSIX", "C.UTF-8", "C.utf8"] {
        sorts.stages[0].locale = Some(plain.to_string());
        assert_eq!(kinds(&sorts), vec![], "{plain}");
    }
}

/// The names are in JSON and in what is remembered of earlier runs.
#[test]
fn kinds_keep_their_names() {
    for (kind, name) in [
        (AdviceKind::LargerPipe, "larger-pipe"),
        (AdviceKind::ElasticBuffer, "elastic-buffer"),
        (AdviceKind::MoreCpus, "more-cpus"),
        (AdviceKind::CLocale, "c-locale"),
        (AdviceKind::ParallelCompressor, "parallel-compressor"),
        (AdviceKind::LargerWrites, "larger-writes"),
        (AdviceKind::LargerReads, "larger-reads"),
        (AdviceKind::FewerProcesses, "fewer-processes"),
        (AdviceKind::OneProcess, "one-process"),
    ] {
        assert_eq!((kind.as_ref(), name.parse()), (name, Ok(kind)));
    }
    assert_eq!(Evidence::LowerBound.as_ref(), "lower bound");
}

/// sqlite3 was told to read in larger blocks: it read 32 bytes a call, and its time went into flushing
/// each row.
#[test]
fn what_takes_long_in_the_kernel_is_no_tiny_transfer() {
    let mut flushes = run(vec![stage("sed s/a/b/", [10, 0]), stage("sqlite3 x.db", [370, 0])]);
    flushes.stages[1].times.disk_ns = 450 * MS;
    in_kernel(&mut flushes.stages[1], 300 * MS);
    reads(&mut flushes.stages[1], 3035, 3035 * 32);
    assert_eq!(kinds(&flushes), vec![]);
    // A hundred times as many would take that time.
    reads(&mut flushes.stages[1], 303_500, 303_500 * 32);
    assert_eq!(kinds(&flushes), vec![AdviceKind::LargerReads]);
}

/// redis-cli was told to gather its output: it sends its next question after the last answer.
#[test]
fn who_asks_a_server_again_and_again_sends_each_question_at_once() {
    let mut asks = run(vec![stage("redis-cli", [500, 0]), stage("cat", [10, 0])]);
    in_kernel(&mut asks.stages[0], 400 * MS);
    writes(&mut asks.stages[0], 100_000, 100_000 * 30);
    assert_eq!(kinds(&asks), vec![AdviceKind::LargerWrites]);
    asks.stages[0].times.network_ns = 480 * MS;
    let times = Times { cpu_ns: 400 * MS, ..Times::default() };
    let server =
        OutsideProcess { times, samples: 50, round_trips: 100_000, ..OutsideProcess::default() };
    asks.stages[0].peer = Some(Peer { process: Some(Box::new(server)), ..Peer::default() });
    assert_eq!(kinds(&asks), vec![]);
}

/// A database that is fed row by row waits for the disk after each row.
#[test]
fn a_flush_after_each_row_is_one_too_many() {
    let of = |times: u64, waited_ms: u64| {
        let mut sqlite = stage("sqlite3 x.db", [30, 0, 0, 0]);
        sqlite.times.disk_ns = 970 * MS;
        sqlite.flushes = Flushes { times, waited_ns: waited_ms * MS };
        let run = run(vec![stage("seq 1500", [2, 0, 0, 0]), sqlite]);
        advice(&run)
    };
    let advice = of(300, 950);
    assert_eq!(advice[0].kind, AdviceKind::FewerFlushes);
    assert!(matches!(advice[0].gain, Gain::About(10.0..)));
    assert_eq!(of(3, 950), [], "one flush at the end");
    assert_eq!(of(300, 200), [], "it waits for something else");
    assert!(programs::flush_once("sqlite3 x.db").contains("one transaction"));
    assert!(programs::flush_once("./load rows").contains("fsync"));
}
