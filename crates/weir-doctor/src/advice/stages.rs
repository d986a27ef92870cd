//! Advice on the work of a single stage.

use super::tools::{has_too_little, shared_out, used_one_cpu};
use super::{Advice, AdviceKind, Gain, estimate, weight};
use crate::facts::{Program, Run, START_USER_NS, Stage, Started};
use crate::limits::{self, are_tiny};
use crate::outside::round_trips;
use crate::programs;
use crate::verdict::{Bottleneck, Finding, Verdict};

/// For a stage that is not the bottleneck, less system time than this is no reason for advice.
const MUCH_SYSTEM: f64 = 0.10;
/// Less time in user mode than this is no reason to change the locale.
const MUCH_CPU: f64 = 0.3;
/// Processes that live longer than this work on their own.
const SHORT_LIFE_NS: u64 = 50_000_000;
/// A loop that starts processes for a smaller share of the run has other work as well.
const MOST_OF_THE_TIME: f64 = 0.5;
/// A loop that starts fewer processes a second works on each.
const MANY_PER_S: f64 = 10.0;
/// A loop shorter than this is not worth rewriting; starting an interpreter takes as long.
const LOOP_NS: f64 = 400e6;
/// The least share of its time that a loop needs without starting processes.
const IN_ONE_PROCESS: f64 = 0.05;
/// A reader whose reads are this many times smaller than its writer's writes chose that size.
const SMALLER: u64 = 2;

/// Advises fewer processes, where a loop spends most of its time starting them. A program that
/// starts a few before its own work (a wrapper of an interpreter, say) has no loop to rewrite.
pub(super) fn fewer_processes(run: &Run, verdict: &Verdict, position: usize) -> Option<Advice> {
    let stage = &run.stages[position];
    let started = stage.started.as_ref()?;
    let share = verdict.stages.get(position)?.starting?;
    let long_ns = run.wall_ns as f64 * share;
    let rate_per_s = started.likely_processes as f64 * 1e9 / long_ns.max(1.0);
    let worth = share >= MOST_OF_THE_TIME && rate_per_s >= MANY_PER_S && long_ns >= LOOP_NS;
    let loops = run.script || programs::starts_in_a_loop(&stage.label);
    let names_one = started.frequent().any(|program| !programs::is_shell(program));
    // A loop that starts `sleep` again and again keeps to a rate.
    if started.frequent().any(|program| program == "sleep") {
        return None;
    }
    if started.likely_life_ns() > SHORT_LIFE_NS || !worth || !(loops || names_one) {
        return None;
    }
    programs::instead_of_processes(&stage.label, &stage.program, started.frequent())?;
    // What that work costs within one process is unknown, but it is not nothing.
    // The other stages need their time all the same; those of a script are what the loop starts.
    let others = limits::without_stage(run, position).filter(|_| !run.script);
    let saved = share * (1.0 - work(run, stage, started));
    let saved = match programs::saves_only_shells(&stage.label) {
        true => saved * shells(started),
        false => saved.min(1.0 - IN_ONE_PROCESS),
    };
    let gain = Gain::About(estimate(saved).min(others.unwrap_or(f64::INFINITY)));
    Some(Advice { kind: AdviceKind::FewerProcesses, stage: Some(position), pipe: None, gain })
}

/// Returns the part of the CPU time of processes that one process for all needs too: what they computed
/// beyond a start.
fn work(run: &Run, stage: &Stage, started: &Started) -> f64 {
    let is_started = |row: &&Stage| started.programs.iter().any(|it| it.name == row.program);
    let rows = || run.stages.iter().filter(is_started);
    // Of a script they have rows of their own.
    let (user_ns, cpu_ns, processes) = match run.script {
        true => (
            rows().map(|row| row.user_ns).sum(),
            rows().map(Stage::cpu_sum_ns).sum(),
            rows().map(|row| row.processes).sum(),
        ),
        false => (stage.user_ns, stage.cpu_sum_ns(), started.likely_processes),
    };
    // Those that were too brief to be seen did the same.
    let unseen_ns = run.unseen.as_ref().filter(|_| run.script).map_or(0, |unseen| unseen.cpu_ns);
    let all_ns = cpu_ns + unseen_ns;
    let user_ns = user_ns as f64 * all_ns as f64 / u64::max(cpu_ns, 1) as f64;
    let start_ns = START_USER_NS.saturating_mul(processes) as f64;
    match started.frequent().any(programs::starts_slowly) {
        true => 0.0,
        false => (user_ns - start_ns).max(0.0) / u64::max(all_ns, 1) as f64,
    }
}

/// Returns the share of shells among processes: what they start is started by one shell for all too.
fn shells(started: &Started) -> f64 {
    let sum = |of: &dyn Fn(&&Program) -> bool| {
        started.programs.iter().filter(of).map(|program| program.processes).sum::<u64>() as f64
    };
    sum(&|program| programs::is_shell(&program.name)) / sum(&|_| true).max(1.0)
}

/// Fewer flushes than this are not one after each piece of work.
const MANY_FLUSHES: u64 = 8;
/// The least share of the run after which waits for a CPU count as theirs.
const SOME_FLUSHING: f64 = 0.05;
/// Flushes that took a smaller share of the run do not hold it up.
const MUCH_FLUSHING: f64 = 0.25;

/// Advises one flush to the disk for many writes, where a stage waits for one after another.
pub(super) fn fewer_flushes(run: &Run, position: usize) -> Option<Advice> {
    let stage = &run.stages[position];
    // On a busy host it waits for a CPU after each of them.
    let flush_ns = stage.flushes.waited_ns.min(stage.times.disk_ns);
    let waits_ns = stage.times.own_ns() - stage.times.work_cpu_ns();
    let mostly = flush_ns * 2 >= waits_ns && run.share(flush_ns) >= SOME_FLUSHING;
    let queue_ns = if mostly { stage.times.work_queue_ns() } else { 0 };
    let share = run.share(flush_ns + queue_ns);
    if stage.flushes.times < MANY_FLUSHES || share < MUCH_FLUSHING {
        return None;
    }
    let without = limits::without_stage(run, position).unwrap_or(f64::INFINITY);
    let gain = Gain::About(estimate(share).min(without));
    Some(Advice { kind: AdviceKind::FewerFlushes, stage: Some(position), pipe: None, gain })
}

/// Advises larger reads or writes, where a stage makes many tiny ones of its own accord.
pub(super) fn larger_transfers(run: &Run, verdict: &Verdict, position: usize) -> Option<Advice> {
    let stage = run.stages.get(position).filter(|stage| !stage.relay)?;
    // One that waits for an answer must send its question at once.
    let peer = stage.peer.as_ref();
    let asks = matches!(verdict.finding, Finding::LockStep(_))
        || peer.is_some_and(|peer| round_trips(peer, stage.times.network_ns).is_some());
    let traces = programs::traces(&stage.label);
    if asks || traces || verdict.stages.get(position)?.starting.is_some() {
        return None;
    }
    let io = stage.io.unwrap_or_default();
    let writes = are_tiny(io.write_calls, io.write_bytes);
    let reads = are_tiny(io.read_calls, io.read_bytes) && !is_fed_small(run, position);
    let by_reads = match (writes, reads) {
        (true, true) => io.read_calls > io.write_calls,
        (false, false) => return None,
        (_, reads) => reads,
    };
    let kind = if by_reads { AdviceKind::LargerReads } else { AdviceKind::LargerWrites };
    // A call that takes longer does more than move a few bytes: it flushes, or waits.
    let calls = if by_reads { io.read_calls } else { io.write_calls };
    let kernel_ns = stage.system_ns.min(calls.saturating_mul(MOST_CALL_NS));
    let saved_ns = kernel_ns.min(stage.times.busy_ns());
    let share = weight(run, saved_ns, kernel_ns);
    let culprit = verdict.culprit.as_ref().is_some_and(|culprit| culprit.stage == position);
    if !culprit && share < MUCH_SYSTEM {
        return None;
    }
    let gain = transfer_gain(run, stage, position, share);
    Some(Advice { kind, stage: Some(position), pipe: None, gain })
}

/// The most that a call which moves a few bytes takes in the kernel, with the wake-up of a reader.
const MOST_CALL_NS: u64 = 10_000;
/// Part of a stage's time in the kernel that goes with its tiny transfers; the bytes are still moved.
const KERNEL_PART: f64 = 0.85;

/// Estimates the gain from larger transfers: a shell's loop is replaced as a whole, so all of its
/// time may go; for another program, most of its time in the kernel. The later needs of a neighbour
/// that exchanges tiny pieces with the loop are unknown.
fn transfer_gain(run: &Run, stage: &Stage, position: usize, system_share: f64) -> Gain {
    let bound = limits::without_stage(run, position);
    let replaced = programs::is_loop(&stage.label);
    match bound {
        Some(bound) if replaced && limits::has_tiny_neighbour(run, position) => Gain::About(bound),
        Some(bound) if replaced => Gain::AtMost(bound),
        Some(bound) => Gain::About(estimate(KERNEL_PART * system_share).min(bound)),
        None => Gain::About(estimate(KERNEL_PART * system_share)),
    }
}

/// Whether the reads of a stage are as small as the writes that feed it: then it has no choice.
fn is_fed_small(run: &Run, position: usize) -> bool {
    let read = run.stages[position].io.unwrap_or_default();
    let feeds = run.pipes.iter().find(|pipe| pipe.to == position);
    let writer = feeds.and_then(|pipe| run.stages.get(pipe.from));
    writer.is_some_and(|writer| {
        let wrote = writer.io.unwrap_or_default();
        let written = wrote.write_bytes / wrote.write_calls.max(1);
        let read = read.read_bytes / read.read_calls.max(1);
        wrote.write_calls > 0 && written < SMALLER * read.max(1)
    })
}

/// Advises comparing text as bytes, where the locale costs time.
pub(super) fn c_locale(run: &Run, position: usize) -> Option<Advice> {
    let stage = &run.stages[position];
    stage.locale.as_ref().filter(|locale| !is_plain(locale))?;
    // What was typed for it would hold.
    if stage.label.contains("LC_ALL=") {
        return None;
    }
    let share = weight(run, stage.times.cpu_ns, stage.user_ns);
    if !programs::locale_matters(&stage.program, &stage.label) || share < MUCH_CPU {
        return None;
    }
    let gain = Gain::AtMost(limits::without_user_time(run, position));
    Some(Advice { kind: AdviceKind::CLocale, stage: Some(position), pipe: None, gain })
}

/// Whether a locale compares text as bytes.
fn is_plain(locale: &str) -> bool {
    matches!(locale.split('.').next(), None | Some("" | "C" | "POSIX"))
}

/// Advises a compressor that uses several CPUs, or one of them better.
pub(super) fn parallel_compressor(run: &Run, culprit: &Bottleneck) -> Option<Advice> {
    let stage = &run.stages[culprit.stage];
    let form = programs::parallel_form(&stage.label)?;
    if has_too_little(run, culprit.stage) || !used_one_cpu(stage) {
        return None;
    }
    let gain = Gain::About(shared_out(run, culprit, form.efficiency())?);
    let (kind, stage) = (AdviceKind::ParallelCompressor, Some(culprit.stage));
    Some(Advice { kind, stage, pipe: None, gain })
}
