//! What each stage of a run was: how busy, and with what that goes beyond its times by state.

use crate::around::{self, Pages};
use crate::facts::{Run, Stage, Started};
use crate::outside::{self, Limit};
use crate::partition::Times;
use crate::programs::{keeps_a_pace, starts_slowly};
use alloc::vec::Vec;
pub use lean::PipeSide;

pub(crate) mod lean;

/// Two stages whose busy shares differ by less than this count as equal.
pub const MARGIN: f64 = 0.10;
/// The fewest processes that are a reason.
const MANY_PROCESSES: u64 = 50;
/// Processes that live longer than this work on their own.
const SHORT_LIFE_NS: u64 = 100_000_000;
/// Starting a program takes about 1 ms of CPU time; one that used more than this did some work.
const START_NS: u64 = 4_000_000;
/// This limit for a program that loads an interpreter or a library of its own.
const SLOW_START_NS: u64 = 60_000_000;
/// A share of the run that is a reason on its own.
const MUCH: f64 = 0.25;
/// A stage that falls asleep again within this time sleeps to keep a rate.
const RATE_PERIOD_NS: u64 = 200_000_000;
/// The fewest sleeps that show a rate.
const RATE_SLEEPS: u64 = 8;
/// Shares below this count as none.
pub(crate) const LITTLE: f64 = 0.10;

/// What was found about one stage. Shares are those of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageFinding {
    /// The share in which it did not wait for others.
    pub busy: f64,
    /// `busy` without the wait for a CPU.
    pub own: f64,
    /// The part of the time in which its tasks were found at work that held nobody up: another task of it
    /// waited for a neighbour meanwhile, as the pipe between them shows.
    pub overlap_ns: u64,
    /// Whether it keeps to a rate: it would otherwise have slept while it waited for its reader.
    pub paced: bool,
    /// The share in which short processes lived that it started, where they are the reason.
    pub starting: Option<f64>,
    /// Whether the quota of its own control group withheld most of the time that it waited for a CPU.
    pub throttled: bool,
    /// The pages for which it waited most of the time.
    pub pages: Option<Pages>,
    /// What it waited for on a socket.
    pub limit: Option<Limit>,
    /// The neighbour for which it waited most of its own time, and for what share of that.
    pub waited: Option<(PipeSide, f64)>,
    /// The share in which it waited to write to its standard error, where that was most of its time: what
    /// it was found doing is then what the reader did.
    pub err: Option<f64>,
}

/// Finds out about each stage.
pub(crate) fn findings(run: &Run) -> Vec<StageFinding> {
    (0..run.stages.len()).map(|position| finding(run, position)).collect()
}

fn finding(run: &Run, position: usize) -> StageFinding {
    let stage = &run.stages[position];
    let times = &stage.times;
    // A hidden wait may have been for a neighbour: it makes no stage busy.
    let mut own_ns = times.own_ns() - times.unknown_ns;
    let starting = starting_share(run, stage);
    if starting.is_some() {
        // Waiting for hundreds of short processes is the work of the stage that starts them.
        own_ns += times.stage_child_ns;
    }
    let paced = is_paced(run, position);
    if paced {
        own_ns += times.output_ns;
    }
    let (mut own, mut busy) = (run.share(own_ns), run.share(own_ns + times.work_queue_ns()));
    // One task alone is never at work and waiting at the same time.
    let several_ns = if run.share(stage.several_ns) < LITTLE { 0 } else { stage.several_ns };
    let overlap_ns = ahead_ns(run, position).min(several_ns);
    if busy > 0.0 {
        let behind = 1.0 - (run.share(overlap_ns) / busy).min(1.0);
        (own, busy) = (own * behind, busy * behind);
    }
    let sides = [(PipeSide::Reader, times.output_ns), (PipeSide::Writer, times.input_ns)];
    let waited = sides.into_iter().max_by_key(|(_, ns)| *ns);
    let waited = waited.map(|(side, ns)| (side, ns as f64 / stage.wall_ns.max(1) as f64));
    let waits_for_err = !stage.single_task && stage.err_ns * 2 >= stage.wall_ns;
    StageFinding {
        busy,
        own,
        overlap_ns,
        paced,
        starting,
        throttled: around::throttled_alone(stage),
        pages: around::pages(run, stage),
        limit: stage
            .peer
            .as_ref()
            .and_then(|peer| outside::limit(run, peer, stage.times.network_ns)),
        waited: waited.filter(|(_, share)| *share >= 0.5),
        err: waits_for_err.then(|| run.share(stage.err_ns)),
    }
}

/// Returns the time in which a stage of several tasks was seen at work although the pipe beside it
/// shows that it was ahead: that work held no stage up.
fn ahead_ns(run: &Run, position: usize) -> u64 {
    let mut most_ns = 0;
    for pipe in &run.pipes {
        let (Some(writer), Some(reader)) = (run.stages.get(pipe.from), run.stages.get(pipe.to))
        else {
            continue;
        };
        let open_ns = writer.wall_ns.min(reader.wall_ns) as f64;
        let (full, empty) = pipe.shares();
        let (share, waited_ns) = match lean::slower(pipe) {
            Some(PipeSide::Reader) if pipe.from == position => (full, writer.times.output_ns),
            Some(PipeSide::Writer) if pipe.to == position => (empty, reader.times.input_ns),
            _ => continue,
        };
        most_ns = most_ns.max(((share * open_ns) as u64).saturating_sub(waited_ns));
    }
    most_ns.min(hiding_ns(&run.stages[position].times))
}

/// Returns the time of the states that are stronger than a wait for a neighbour: only behind these
/// can another task have waited for one and not been seen. While a stage slept, none of its tasks
/// read or wrote.
fn hiding_ns(times: &Times) -> u64 {
    let outside_ns = times.disk_ns + times.network_ns + times.file_ns + times.device_ns;
    times.work_cpu_ns() + times.work_queue_ns() + outside_ns
}

/// Whether a stage that keeps to a rate was limited by that rate and not by its reader: it slept,
/// and its reader had nothing to do.
pub(crate) fn is_paced(run: &Run, position: usize) -> bool {
    let stage = &run.stages[position];
    let slept = run.share(stage.times.sleep_ns) >= LITTLE;
    if !slept || !keeps_a_pace(&stage.label) {
        return false;
    }
    reader_of(run, position).is_none_or(|reader| run.share(reader.times.input_ns) >= LITTLE)
}

fn reader_of(run: &Run, position: usize) -> Option<&Stage> {
    run.stages.get(run.pipes.iter().find(|pipe| pipe.from == position)?.to)
}

/// Whether a stage slept repeatedly for short times, as one does that keeps to a rate.
pub(crate) fn sleeps_for_a_rate(run: &Run, stage: &Stage) -> bool {
    let often = stage.times_asleep >= RATE_SLEEPS;
    let slept = run.share(stage.times.sleep_ns) >= LITTLE;
    often && slept && stage.wall_ns / stage.times_asleep < RATE_PERIOD_NS
}

/// Whether most of what a stage did was to sleep again and again for short times, however little of the
/// run that was: once its reader holds it up, one that keeps to a rate sleeps no more.
pub(crate) fn lives_by_naps(stage: &Stage) -> bool {
    /// Samples do not meet each of them.
    const SOME: u64 = 4;
    let times = &stage.times;
    let often = stage.times_asleep >= SOME;
    often
        && times.sleep_ns / stage.times_asleep < RATE_PERIOD_NS
        && times.sleep_ns * 2 >= times.own_ns()
}

/// Whether a stage without a rate in its command seems to keep to one: between its short sleeps it
/// is blocked in writes, and its reader has nothing to do meanwhile. It may also sleep for fixed
/// times, so this only decides between stages that are otherwise equal.
pub(crate) fn seems_paced(run: &Run, position: usize) -> bool {
    let stage = &run.stages[position];
    let Some(reader) = reader_of(run, position) else { return false };
    sleeps_for_a_rate(run, stage)
        && run.share(stage.times.sleep_ns) >= MUCH
        && run.share(stage.times.output_ns) >= LITTLE
        && run.share(reader.times.input_ns) >= MUCH
}

/// Returns the share of the run in which short processes lived that a stage started, if there were
/// many, the share was large, and they did little besides starting.
fn starting_share(run: &Run, stage: &Stage) -> Option<f64> {
    let started = stage.started.as_ref().filter(|s| s.likely_processes >= MANY_PROCESSES)?;
    // In a script the started processes are stages themselves, and the briefest were not seen.
    let unseen_ns = run.unseen.as_ref().map_or(0, |unseen| unseen.cpu_ns);
    let cpu_ns = if run.script { run.cpu_sum_ns() + unseen_ns } else { stage.cpu_sum_ns() };
    let slow = started.programs.first().is_some_and(|program| starts_slowly(&program.name));
    let start_ns = if slow { SLOW_START_NS } else { START_NS };
    let starts = cpu_ns / started.likely_processes <= start_ns;
    let share = started.wall_share * run.share(stage.wall_ns);
    let short = started.likely_life_ns() <= SHORT_LIFE_NS && !they_idle(run, stage, started);
    (starts && short && share >= MUCH).then_some(share.min(1.0))
}

/// Whether the processes that a stage started waited for something else for most of their lives: a
/// time, a lock, or an answer. Without a row of their own, their waits are the stage's.
fn they_idle(run: &Run, stage: &Stage, started: &Started) -> bool {
    if !run.script {
        let alive_ns = started.wall_share * stage.wall_ns as f64;
        return stage.times.idle_ns() as f64 * 2.0 > alive_ns;
    }
    let others = || run.stages.iter().filter(|other| !core::ptr::eq(*other, stage));
    let idle_ns: u64 = others().map(|other| other.times.idle_ns()).sum();
    idle_ns * 2 > others().map(|other| other.wall_ns).sum()
}
