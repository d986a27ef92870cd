//! Runs of groups written down by hand, and what is said of them.

use super::*;
use crate::facts::{Copies, Exchange, Holder, Io, Pipe, Spread, Stage};
use crate::graph::{CriticalPath, Link, WallSpan};
use crate::made::{self, MS};
use alloc::string::String;
use alloc::vec;

fn stage(label: &str, wall_ms: u64, cpu_ms: u64) -> Stage {
    let stage = made::stage(label, [cpu_ms, 0, wall_ms - cpu_ms]);
    Stage { processes: 1, wall_ns: wall_ms * MS, samples: 500, ..stage }
}

/// A run of groups one after the other.
fn run(groups: &[&[Stage]]) -> Run {
    let mut run = Run { cpus: 2.0, script: true, ..Run::default() };
    for stages in groups {
        let wall_ns = stages.iter().map(|stage| stage.wall_ns).max().unwrap_or(0);
        let first = run.stages.len();
        let of =
            Run { wall_ns, cpus: 2.0, stages: stages.to_vec(), script: true, ..Run::default() };
        run.pipes.extend((1..stages.len()).map(|to| Pipe {
            from: first + to - 1,
            to: first + to,
            ..Pipe::default()
        }));
        run.stages.extend(stages.iter().cloned());
        run.groups.push(FoundGroup {
            run: of,
            first_stage: Some(first),
            instances: 1,
            start_ns: run.wall_ns,
            end_ns: run.wall_ns + wall_ns,
            ..FoundGroup::default()
        });
        run.wall_ns += wall_ns;
    }
    run
}

/// Judges its groups and its stages.
fn judged(run: &Run) -> (Vec<GroupFinding>, Verdict) {
    (run.groups.iter().map(GroupFinding::of).collect(), verdict::judge(run))
}

fn whole(run: &Run, parts: &[Part]) -> Option<Verdict> {
    let (groups, flat) = judged(run);
    super::whole(run, parts, &groups, &flat)
}

fn advise(run: &Run, parts: &[Part], refuted: &dyn Fn() -> Vec<Refuted>) -> Vec<Advice> {
    let (groups, flat) = judged(run);
    super::advise(run, parts, &groups, &flat, refuted)
}

fn three() -> Run {
    run(&[
        &[stage("cut", 300, 20), stage("sort", 300, 280)],
        &[stage("gzip -9 a", 600, 580)],
        &[stage("cat", 50, 20), stage("wc", 50, 20)],
    ])
}

/// A job in the background took longest and nobody waited for it: the verdict named it, and the line
/// below, the critical path, another one.
#[test]
fn what_was_waited_for_comes_before_what_ran_beside_it() {
    let mut run = run(&[&[stage("log", 800, 700)], &[stage("cc", 200, 200)]]);
    (run.wall_ns, run.groups[1].start_ns) = (800 * MS, 0);
    let groups = |run: &Run| parts(run).iter().map(|part| part.group).collect::<Vec<_>>();
    assert_eq!(groups(&run), [0, 1]);
    let (command, output) = (String::from("cc"), None);
    let link = Link { processes: vec![1], command, output, waited_ns: 700 * MS };
    run.critical_path = Some(CriticalPath { links: vec![link], share: 0.9 });
    assert_eq!(groups(&run), [1, 0]);
}

/// Two processes in lock step are the whole answer, and no groups beside each other.
#[test]
fn two_that_ask_and_answer_are_no_parts_of_the_time() {
    let mut run = run(&[&[stage("bash", 500, 200)], &[stage("bc", 500, 150)]]);
    run.wall_ns = 500 * MS;
    let both = [run.stages[0].clone(), run.stages[1].clone()];
    let (together_ns, turns) = (490 * MS, 5000);
    run.exchanges = vec![Exchange { both, together_ns, turns, ..Exchange::default() }];
    let parts = parts(&run);
    assert!(parts.is_empty() && whole(&run, &parts).is_none());
    assert_eq!(verdict::judge(&run).finding, Finding::LockStep(0));
    assert_eq!(verdict::judge(&run).culprit, None);
    // Both are the work of one stage of a pipeline: that one holds it up.
    run.exchanges[0].inside = Some(0);
    assert_eq!(verdict::judge(&run).culprit.map(|culprit| culprit.stage), Some(0));
}

#[test]
fn the_group_that_took_most_of_the_time_is_named_and_what_held_it_up() {
    let run = three();
    let parts = parts(&run);
    let shares: Vec<(usize, u64)> =
        parts.iter().map(|part| (part.group, (part.share * 100.0) as u64)).collect();
    assert_eq!(shares, [(1, 63), (0, 31)], "what took 5 % is not worth a word");
    let whole = whole(&run, &parts).expect("several groups");
    let culprit = whole.culprit.expect("gzip");
    // Its place is that among all stages, and its share that of the whole run.
    assert_eq!(culprit.stage, 2);
    assert!((culprit.share - 580.0 / 950.0).abs() < 1e-9, "{}", culprit.share);
}

/// Lines of 16 %, 21 %, 15 % stood below each other.
#[test]
fn the_largest_group_is_named_first_and_of_equal_ones_the_first() {
    let order = |ms: [u64; 2]| {
        let run = run(&[&[stage("sort a", ms[0], 290)], &[stage("sort b", ms[1], 290)]]);
        parts(&run).iter().map(|part| part.group).collect::<Vec<_>>()
    };
    assert_eq!((order([300, 300]), order([300, 305])), (vec![0, 1], vec![1, 0]));
}

/// `python3 etl.py: held up by python3 etl.py` was said of a program that ran sort eight times.
#[test]
fn the_own_work_of_a_program_is_apart_from_what_it_starts() {
    let mut run = run(&[&[stage("python3 etl.py", 900, 900)], &[stage("sort a", 600, 580)]]);
    run.script = false;
    run.stages.truncate(1);
    for group in &mut run.groups {
        (group.first_stage, group.inside) = (None, Some(0));
    }
    let times = &mut run.groups[0].run.stages[0].times;
    (times.cpu_ns, times.child_ns, times.stage_child_ns) = (300 * MS, 600 * MS, 600 * MS);
    run.groups[0].starts_others = true;
    run.wall_ns = 900 * MS;
    let parts = parts(&run);
    let shares: Vec<(usize, u64)> =
        parts.iter().map(|part| (part.group, (part.share * 100.0 + 0.5) as u64)).collect();
    assert_eq!(shares, [(1, 67), (0, 33)]);
    assert!(whole(&run, &parts).is_some_and(|whole| whole.culprit.is_some()));
    // Inside of one stage of several it is no part of the whole run.
    run.stages.push(stage("wc", 900, 1));
    assert!(super::parts(&run).is_empty());
}

/// A process left running by a stage of 7 ms had a share of 68,246 %.
#[test]
fn a_group_that_outlives_its_stage_belongs_to_the_run() {
    let mut run = run(&[&[stage("sleep 5", 5000, 1)]]);
    run.script = false;
    run.wall_ns = 5010 * MS;
    run.stages = vec![stage("bash", 7, 7), stage("wc", 5010, 1)];
    (run.groups[0].first_stage, run.groups[0].inside) = (None, Some(0));
    let share = run.group_share(&run.groups[0]);
    assert!((0.99..=1.0).contains(&share), "{share}");
    run.stages[0].wall_ns = 10_000 * MS;
    assert!((run.group_share(&run.groups[0]) - 0.5).abs() < 1e-9, "of its stage");
}

#[test]
fn more_jobs_help_where_as_many_as_may_ran_and_cpus_were_idle() {
    let of = |idle, asked, most_ms| {
        let mut run = three();
        run.host.idle_cpus = idle;
        let (any_ns, most_ns, below) = (1000 * MS, most_ms * MS, false);
        let jobs = Jobs { most: 2, asked, any_ns, most_ns, below, pools: false };
        more_jobs(&run, jobs)
    };
    assert_eq!(of(Some(0.1), Some(2), 900), Some(MoreJobs::CpusFull));
    assert_eq!(of(Some(1.8), Some(2), 900), Some(MoreJobs::May(4)));
    assert_eq!(of(Some(1.8), Some(2), 300), Some(MoreJobs::Waits));
    assert_eq!(of(Some(1.8), Some(8), 900), Some(MoreJobs::Waits), "no more were ready");
    // Whoever filled the CPUs, a chain of jobs gains nothing by more of them.
    assert_eq!(of(Some(0.1), Some(8), 900), Some(MoreJobs::Waits));
    assert_eq!((of(None, Some(2), 900), of(Some(0.4), Some(2), 900)), (None, None));
    // 3.1 s of one job at a time beside a compiler that filled the other CPU; two jobs took 1.4.
    let mut run = three();
    (run.host.idle_cpus, run.host.others_cpus) = (Some(0.0), Some(1.2));
    let (any_ns, most_ns) = (1000 * MS, 900 * MS);
    let (asked, below, pools) = (None, false, false);
    let jobs = Jobs { most: 1, asked, any_ns, most_ns, below, pools };
    assert_eq!(more_jobs(&run, jobs), None);
}

#[test]
fn a_run_too_short_for_samples_has_parts_where_each_process_is_known() {
    let mut run = three();
    for stage in run.stages.iter_mut().chain(run.groups.iter_mut().flat_map(|g| &mut g.run.stages))
    {
        stage.samples = 1;
    }
    let parts = parts(&run);
    assert!(whole(&run, &parts).is_none());
    run.has_all = true;
    assert_eq!(whole(&run, &parts).map(|whole| whole.finding), Some(Finding::TooShort));
}

#[test]
fn one_group_is_judged_by_its_stages() {
    let run = run(&[&[stage("cut", 300, 20), stage("sort", 300, 280)]]);
    assert!(parts(&run).is_empty() && whole(&run, &[]).is_none());
}

#[test]
fn a_shell_counts_with_the_time_in_which_it_worked_itself() {
    let mut run = three();
    let mut shell = stage("bash (the script itself)", 950, 10);
    (shell.times.input_ns, shell.times.child_ns) = (0, 940 * MS);
    shell.times.stage_child_ns = 940 * MS;
    let of = Run { wall_ns: 950 * MS, stages: vec![shell], script: true, ..Run::default() };
    run.groups.push(FoundGroup {
        run: of,
        first_stage: Some(5),
        starts_others: true,
        ..FoundGroup::default()
    });
    assert_eq!(run.groups[3].own_ns(), 10 * MS);
    assert_eq!(parts(&run)[0].group, 1);
}

#[test]
fn advice_on_a_part_gains_no_more_than_its_share() {
    let mut run = three();
    run.host.idle_cpus = Some(1.0);
    for group in &mut run.groups {
        group.run.host = run.host;
    }
    let parts = parts(&run);
    let advice = advise(&run, &parts, &Vec::new);
    let pigz = advice.iter().find(|advice| advice.kind == AdviceKind::ParallelCompressor);
    let pigz = pigz.unwrap_or_else(|| panic!("{advice:?}"));
    assert_eq!(pigz.stage, Some(2));
    // The rest of the run takes 350 of 950 ms, whatever gzip does.
    assert!(pigz.gain.factor() <= 950.0 / 350.0 + 1e-9, "{pigz:?}");
    let refuted = Refuted { kind: pigz.kind, stage: pigz.stage, pipe: None };
    assert!(!advise(&run, &parts, &|| vec![refuted]).contains(pigz));
}

#[test]
fn the_spread_of_times_is_their_median_and_ends() {
    let spread = Spread::of(vec![5, 1, 9]);
    assert_eq!((spread.min_ns, spread.median_ns, spread.max_ns, spread.sum_ns), (1, 5, 9, 15));
    assert_eq!(Spread::of(vec![4, 8]).median_ns, 6);
    assert_eq!(Spread::of(vec![]), Spread::default());
}

#[test]
fn the_phases_of_a_script_are_the_groups_that_ran() {
    let mut run =
        run(&[&[stage("cc", 400, 400)], &[stage("ld", 300, 300)], &[stage("make", 700, 5)]]);
    run.wall_ns = 1000 * MS;
    let span = |from: u64, to: u64| WallSpan { start_ns: from * MS, end_ns: to * MS };
    // Two at once and one after them, then the linker, then nothing.
    run.groups[0].spans = vec![span(0, 200), span(0, 300), span(300, 400)];
    run.groups[1].spans = vec![span(400, 700)];
    (run.groups[2].spans, run.groups[2].starts_others) = (vec![span(0, 1000)], true);
    let seen: Vec<(u64, Holder)> =
        phases(&run).iter().map(|phase| (phase.end_ns / MS, phase.holder)).collect();
    let near = |ms: u64, to: u64| ms.abs_diff(to) <= 5;
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(near(seen[0].0, 400) && near(seen[1].0, 700) && seen[2].0 == 1000, "{seen:?}");
    let places = |holder: &Holder| match holder {
        Holder::Stage { stage, .. } => Some(*stage),
        _ => None,
    };
    assert_eq!(places(&seen[0].1), Some(0));
    assert_eq!(places(&seen[1].1), Some(1));
    assert_eq!(seen[2].1, Holder::Nobody);
    run.groups.truncate(1);
    assert_eq!(phases(&run), vec![], "one group");
}

/// Of sixty sleeps of 5 ms each it was said that starting them took most of that, and of sixty rows that
/// sqlite3 flushed for 10 ms each.
#[test]
fn what_sleeps_or_waits_for_most_of_its_time_is_not_starting() {
    let mut sleeps = stage("sleep 0.005", 340, 60);
    (sleeps.processes, sleeps.times.input_ns) = (60, 0);
    sleeps.times.sleep_ns = 300 * MS;
    let mut run = run(&[&[sleeps.clone()]]);
    let group = &mut run.groups[0];
    (group.instances, group.spread.sum_ns) = (60, 340 * MS);
    assert!(!group.is_starting());
    group.run.stages[0].times.sleep_ns = 0;
    assert!(group.is_starting());
    group.spread.sum_ns = 720 * MS;
    assert!(!group.is_starting());
    // On a busy host each waits for a CPU.
    group.run.stages[0].times.queue_ns = 500 * MS;
    assert!(group.is_starting());
    // Beside it, samples met few of the flushes: `insert` took 22 ms each, and `select 1` 5 ms.
    group.run.stages[0].times.disk_ns = 100 * MS;
    assert!(!group.is_starting());
    group.run.stages[0].times.disk_ns = 0;
    for (label, starts) in [("sqlite3 b.db", false), ("dd oflag=dsync", false), ("dd bs=1", true)] {
        group.run.stages[0].label = String::from(label);
        assert_eq!(group.is_starting(), starts, "{label}");
    }
}

/// gzip of 80 kB for 3 ms, 300 times, and "starting its process is most of that".
#[test]
fn what_computes_on_data_is_not_starting() {
    let of = |label: &str, program: &str, user_ms: u64, read_bytes: u64| {
        let mut row = stage(label, 900, 850);
        (row.processes, row.program) = (300, String::from(program));
        (row.user_ns, row.system_ns) = (user_ms * MS, (850 - user_ms) * MS);
        row.io = Some(Io { read_bytes, ..Io::default() });
        let mut run = run(&[&[row]]);
        (run.groups[0].instances, run.groups[0].spread.sum_ns) = (300, 900 * MS);
        run.groups[0].is_starting()
    };
    assert!(!of("gzip -c f", "gzip", 640, 24 << 20));
    assert!(of("jq -n 1", "jq", 640, 1 << 20), "it read its libraries");
    assert!(of("grep x f", "grep", 300, 24 << 20), "it hardly computed");
    assert!(of("perl x.pl", "perl", 640, 24 << 20), "it starts slowly");
}

/// `exec 3> >(logger)` ran as long as the script, and had all of its time.
#[test]
fn what_serves_the_script_counts_with_its_own_work_only() {
    let mut run = three();
    run.groups[0].serves = true;
    let shares: Vec<usize> = parts(&run).iter().map(|part| part.group).collect();
    assert_eq!(shares[0], 1);
    assert_eq!(run.groups[0].own_ns(), 280 * MS);
}

/// `mapfile -t a < <(head -n 9 f)`: `head` had 79 % of the time, in which it waited for the shell to read.
#[test]
fn what_feeds_another_group_counts_without_its_waits_for_that() {
    let mut fed = stage("head -n 9 f", 1000, 20);
    (fed.times.output_ns, fed.times.input_ns) = (950 * MS, 0);
    let mut run = run(&[&[fed], &[stage("bash (the script itself)", 1000, 900)]]);
    let own_ms = |run: &Run| run.groups[0].own_ns() / MS;
    assert_eq!(own_ms(&run), run.groups[0].run.wall_ns / MS, "who reads it is not of the run");
    run.groups[0].feeds = true;
    assert_eq!(own_ms(&run), run.groups[0].run.wall_ns / MS - 950);
    assert_eq!(parts(&run)[0].group, 1);
}

/// Three workers were said to wait for a lock, and nobody for the process that took their results.
#[test]
fn workers_wait_until_their_results_are_taken() {
    let of = |input: u64, output: u64, lock: u64, own: u64| {
        let mut worker = stage("python3 (a copy of itself)", 3000, 0);
        worker.processes = 3;
        worker.program = String::from("python3");
        let times = &mut worker.times;
        (times.input_ns, times.output_ns) = (input * MS, output * MS);
        (times.lock_ns, times.cpu_ns) = (lock * MS, own * MS);
        let mut run = run(&[&[stage("python3 pool.py", 3200, 3000)], &[worker]]);
        (run.groups[0].starts_others, run.wall_ns) = (true, 3200 * MS);
        waits_for_starter(&run, 1)
    };
    let found = of(480, 550, 1900, 30).expect("a pool");
    assert_eq!((found.starter, found.writes), (0, true));
    assert!(!of(600, 50, 2000, 30).expect("a pool").writes);
    assert_eq!(of(100, 300, 500, 2000), None, "they work");
    assert_eq!(of(0, 0, 2900, 50), None, "a lock that has nothing to do with it");
}

/// A pool of two ran one long job last, for two thirds of the time, and nobody was told.
#[test]
fn one_worker_that_had_most_of_the_work_is_found() {
    let of = |processes: u64, most: u64, all: u64| {
        let mut pool = stage("python3 pool.py", 3000, 0);
        pool.copies = Copies { processes, cpu_ns: all * MS, most_cpu_ns: most * MS };
        let run = Run { wall_ns: 3000 * MS, ..run(&[&[pool]]) };
        straggler(&run).map(|found| found.share)
    };
    assert_eq!(of(2, 1600, 2000), Some(0.8));
    assert_eq!(of(4, 1300, 2000), Some(0.65));
    assert_eq!(of(2, 1300, 2000), None, "not far from one half");
    assert_eq!(of(2, 500, 510), None, "a sixth of the run");
    assert_eq!(of(1, 1600, 1600), None, "alone");
}
