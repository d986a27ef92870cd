//! The verdict: which stage was the bottleneck, and why.
//!
//! A stage is busy when it waits for neither neighbour. The busiest stage is named unless the next
//! is within the margin: then there is no single bottleneck, and naming one would send somebody to
//! the wrong place. Where the times of the stages are too close, the fill of the pipes between them
//! decides: a pipe that is full and hardly ever empty has the slower stage behind it. The needs of
//! the other stages bound what the pipeline could gain if the named stage were free (see `limits`),
//! so "at most" holds however the stages overlap.
//!
//! Where the stage that holds the run up changes (see [`phases`]), time decides: the stage is named
//! that held it up for longest, and then the others. Two stages that held it up in turn are not a
//! tie.
//!
//! Relays (`weir buffer`) are skipped: they work only because a neighbour does, so the bottleneck
//! is sought among the other stages.

use crate::around::{self, CpuCause, Pages};
use crate::facts::{LeftOpen, Run, Stage};
use crate::limits;
use crate::load::{self, LITTLE, MARGIN, StageFinding, lean};
use crate::partition::Times;
use crate::phases;
use alloc::vec::Vec;

mod reasons;

pub use crate::parts::BusyPart;
pub use reasons::Busy;

/// The fewest samples from which a verdict is possible.
const ENOUGH_SAMPLES: u64 = 8;
/// In runs shorter than this, unknown waits come from a lack of samples.
const UNSEEN_NS: u64 = 50_000_000;
/// A stage that is busy for less than this share is not a bottleneck.
const IDLE: f64 = 0.25;

/// Why a stage was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum BusyReason {
    /// Its own CPU time.
    Cpu,
    /// Waiting for a CPU.
    #[strum(serialize = "runq")]
    Queue,
    /// A CPU quota: of the run, whose stages share it, or of the stage's own control group.
    Quota,
    /// Pages of its memory, which a limit of memory had taken away from it.
    Memory,
    /// It started many short processes.
    Processes,
    /// Waiting for storage.
    Disk,
    /// It was asleep.
    Sleep,
    /// Any other wait: network, lock, child, device.
    Other,
}

/// The bottleneck of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Bottleneck {
    /// Position of the stage.
    pub stage: usize,
    /// The largest part of its busy time.
    pub reason: BusyReason,
    /// Its busy time as a share of the run; under a quota, its share of the CPU time used.
    pub share: f64,
    /// If the stage were free, the run would be at most this many times faster; `None` when no
    /// other stage takes time.
    pub speedup_limit: Option<f64>,
    /// The stage that would then be the bottleneck.
    pub next_stage: Option<usize>,
    /// An estimate of that speed-up if others keep using the CPUs.
    pub crowded_speedup: Option<f64>,
}

/// The answer to "where does the time go".
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The bottleneck, if it is a single stage.
    pub culprit: Option<Bottleneck>,
    /// The finding about the run.
    pub finding: Finding,
    /// What else took its CPU time.
    pub around: Vec<CpuCause>,
    /// What was found about each stage.
    pub stages: Vec<StageFinding>,
    /// The time that all stages together waited for a CPU, without what the quotas of their own groups
    /// withheld.
    pub queued_ns: u64,
}

/// A finding about a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// There was no stage.
    NothingRan,
    /// The run was too short.
    TooShort,
    /// `/proc` cannot be read: only CPU time and memory are known.
    Blind,
    /// A stage was blocked on something hidden for this share.
    Hidden(usize, f64),
    /// The source of standard input kept the run waiting for this share.
    SlowInput(f64),
    /// The reader of standard output kept the run waiting for this share.
    SlowOutput(f64),
    /// What a stage left running kept the pipe behind it open: position in [`Run::left`]. The next
    /// stage waited for its end for longer than any stage was busy.
    LeftOpen(usize),
    /// No stage was busy for long enough.
    Idle,
    /// None was busy for long enough, since each waited for another one: where each reads from another
    /// one too, they hold each other up.
    EachWaits,
    /// Two stages were equally busy: positions and shares.
    Tie([(usize, f64); 2]),
    /// Two stages had equally much work, though one of them waited longer for a CPU: positions, and shares
    /// without that wait.
    EqualWork([(usize, f64); 2]),
    /// A quota limited the run, and two stages used equally much of it: positions and shares.
    QuotaTie([(usize, f64); 2]),
    /// A quota limited the run, and the bottleneck used most of it.
    Quota,
    /// The bottleneck limited the run, and was busy with this.
    HeldUp(Busy),
    /// Two processes asked and answered each other in turn: position in [`Run::exchanges`].
    LockStep(usize),
    /// These stages held the run up in turn, each for this share of it; the bottleneck, the first of
    /// them, for longest.
    InTurn(Vec<(usize, f64)>),
}

/// What the run must gain at most without the slower of two equal stages.
const GAINS: f64 = 1.05;
/// A stage whose own work takes less than this share is never equal to a busier one.
const WORKS: f64 = 0.25;

/// Two processes that ask and answer each other for less of the run than this do not explain it.
const EXPLAINS: f64 = 0.5;

/// Returns the two processes that asked and answered each other in turn for most of the run, if there
/// are such: position in [`Run::exchanges`].
pub(crate) fn lock_step(run: &Run) -> Option<usize> {
    let explains = |together_ns: u64| run.share(together_ns) >= EXPLAINS;
    run.exchanges.iter().position(|it| it.is_lock_step() && explains(it.together_ns))
}

/// Judges a run.
pub fn judge(run: &Run) -> Verdict {
    let stages = load::findings(run);
    let verdict = judge_whole(run, &stages);
    let verdict = by_phases(run, &stages, &verdict).unwrap_or(verdict);
    Verdict { stages, queued_ns: around::queued_ns(run), ..verdict }
}

/// Judges a run whose stages held it up in turn, if the verdict on the whole does not name the one
/// that did so for longest.
fn by_phases(run: &Run, found: &[StageFinding], whole: &Verdict) -> Option<Verdict> {
    if !matches!(
        whole.finding,
        Finding::Tie(_)
            | Finding::EqualWork(_)
            | Finding::Idle
            | Finding::EachWaits
            | Finding::HeldUp(_)
    ) {
        return None;
    }
    let held = phases::by_time(&run.phases);
    let (top, longest_ns) = *held.first()?;
    if let Some(culprit) = &whole.culprit {
        let its = held.iter().find(|(stage, _)| *stage == culprit.stage);
        let its_ns = its.map_or(0, |(_, ns)| *ns);
        if culprit.stage == top || run.share(longest_ns - its_ns) < MARGIN {
            return None;
        }
    }
    let mut culprit = bottleneck_of(run, &workers(run), top, found.get(top)?);
    culprit.share = run.share(longest_ns);
    let shares = held.into_iter().map(|(stage, ns)| (stage, run.share(ns))).collect();
    Some(held_by(run, culprit, Finding::InTurn(shares)))
}

fn held_by(run: &Run, culprit: Bottleneck, finding: Finding) -> Verdict {
    let mut around = around::explain(run);
    // Stages that filled the CPUs explain only waits for a CPU.
    around.retain(|found| culprit.reason == BusyReason::Queue || *found != CpuCause::Full);
    Verdict { culprit: Some(culprit), around, ..nobody(finding) }
}

/// Whether there are several stages, and each waited for another one for most of the run.
fn each_waits(run: &Run, work: &[usize]) -> bool {
    let waits = |at: &usize| {
        let times = &run.stages[*at].times;
        run.share(times.input_ns + times.output_ns) >= 1.0 - IDLE
    };
    work.len() > 1 && work.iter().all(waits)
}

/// Judges a run by what each stage did in all of it.
fn judge_whole(run: &Run, found: &[StageFinding]) -> Verdict {
    let work = workers(run);
    let busy: Vec<f64> = found.iter().map(|stage| stage.busy).collect();
    let Some(top) = position_of_max(&busy, &work) else {
        // All the processes of a script may have been too short-lived to be seen.
        return nobody(if run.script { Finding::TooShort } else { Finding::NothingRan });
    };
    if let Some(why) = cannot_say(run, &work, busy[top]) {
        return nobody(why);
    }
    if let Some(finding) = left_open(run, busy[top]) {
        return nobody(finding);
    }
    if let Some(exchange) = lock_step(run) {
        // Both are the work of one stage.
        let inside = run.exchanges[exchange].inside.filter(|stage| *stage == top);
        let culprit = inside.map(|stage| bottleneck_of(run, &work, stage, &found[stage]));
        let around = around::explain(run);
        return Verdict { culprit, around, ..nobody(Finding::LockStep(exchange)) };
    }
    if let Some(finding) = outside(run, &work, busy[top]) {
        return Verdict { around: around::explain(run), ..nobody(finding) };
    }
    if let Some(verdict) = by_quota(run, &work) {
        return verdict;
    }
    if busy[top] < IDLE {
        return nobody(if each_waits(run, &work) { Finding::EachWaits } else { Finding::Idle });
    }
    let mut top = top;
    let second = position_of_max(&busy, &without(&work, top));
    if let Some(second) = second.filter(|second| are_equal(found, top, *second)) {
        match slower_of_equals(run, found, top, second) {
            Some(slower) => top = slower,
            None => {
                let own: Vec<f64> = found.iter().map(|stage| stage.own).collect();
                let finding = match busy[top] - busy[second] < MARGIN {
                    true => Finding::Tie(in_order(&busy, top, second)),
                    false => Finding::EqualWork(in_order(&own, top, second)),
                };
                return Verdict { around: around::explain(run), ..nobody(finding) };
            }
        }
    }
    let mut culprit = bottleneck_of(run, &work, top, &found[top]);
    let busy = reasons::busy(run, &run.stages[top], &found[top]);
    if run.script && matches!(busy, Busy::Starting(_)) {
        // The other stages are what it started: without it there were none.
        (culprit.speedup_limit, culprit.next_stage, culprit.crowded_speedup) = (None, None, None);
    }
    held_by(run, culprit, Finding::HeldUp(busy))
}

/// Whether two stages count as equal: by their busy time, or because their own work is equal and
/// one only waited longer for a CPU, which is chance and not a property of the stage.
fn are_equal(found: &[StageFinding], top: usize, second: usize) -> bool {
    let (first, other) = (&found[top], &found[second]);
    let same_work = (first.own - other.own).abs() < MARGIN && other.own >= WORKS;
    first.busy - other.busy < MARGIN || same_work
}

/// Returns the slower of two equally busy stages, if other evidence shows it.
///
/// The equal times of two tasks stay a tie whatever the pipe shows. The pipe between them decides if
/// a time is that of several tasks at once, or if it confirms that one stage has more work of its own and
/// the other only waited longer for a CPU.
fn slower_of_equals(run: &Run, found: &[StageFinding], top: usize, second: usize) -> Option<usize> {
    let paced = |at: usize| found[at].paced || load::seems_paced(run, at);
    if paced(top) != paced(second) {
        return Some(if paced(top) { top } else { second });
    }
    let slower = lean::slower_of(run, top, second)?;
    let faster = if slower == top { second } else { top };
    let confirmed = found[slower].own - found[faster].own >= MARGIN / 2.0;
    let are_several = |at: usize| run.share(run.stages[at].several_ns) >= LITTLE;
    // Without it the run would take as long.
    let gains = limits::without_stage(run, slower).is_none_or(|factor| factor >= GAINS);
    (gains && (confirmed || are_several(top) || are_several(second))).then_some(slower)
}

/// Returns a finding if a stage waited for longer than any was busy for the end of a pipe that
/// something still had open which the stage in front of it had left running.
fn left_open(run: &Run, busiest: f64) -> Option<Finding> {
    let waited = |left: &LeftOpen| run.share(run.waited_for_left_ns(left));
    let shares = run.left.iter().map(waited).enumerate();
    let (longest, share) = shares.max_by(|one, other| one.1.total_cmp(&other.1))?;
    (share >= busiest + MARGIN).then_some(Finding::LeftOpen(longest))
}

fn nobody(finding: Finding) -> Verdict {
    Verdict { culprit: None, finding, around: Vec::new(), stages: Vec::new(), queued_ns: 0 }
}

/// Puts two stages in the order of the pipeline, each with its share.
fn in_order(shares: &[f64], one: usize, other: usize) -> [(usize, f64); 2] {
    [one.min(other), one.max(other)].map(|position| (position, shares[position]))
}

/// Returns the positions of the stages that are not relays; of all if there are only relays.
fn workers(run: &Run) -> Vec<usize> {
    let all = 0..run.stages.len();
    let work: Vec<usize> = all.clone().filter(|position| !run.stages[*position].relay).collect();
    if work.is_empty() { all.collect() } else { work }
}

fn without(positions: &[usize], one: usize) -> Vec<usize> {
    positions.iter().copied().filter(|position| *position != one).collect()
}

fn position_of_max(values: &[f64], among: &[usize]) -> Option<usize> {
    among.iter().copied().max_by(|a, b| values[*a].total_cmp(&values[*b]).then(b.cmp(a)))
}

/// Returns why there can be no verdict on the run, if so.
fn cannot_say(run: &Run, work: &[usize], busiest: f64) -> Option<Finding> {
    if run.blind {
        return Some(Finding::Blind);
    }
    let samples = run.stages.iter().map(|stage| stage.samples).max().unwrap_or(0);
    let too_short = (samples < ENOUGH_SAMPLES).then_some(Finding::TooShort);
    unseen(run, work, busiest).or(too_short)
}

/// Whether a stage was blocked on something hidden for longer than any stage was busy.
fn unseen(run: &Run, work: &[usize], busiest: f64) -> Option<Finding> {
    let unknown: Vec<f64> = run.stages.iter().map(|s| run.share(s.times.unknown_ns)).collect();
    let worst = position_of_max(&unknown, work)?;
    let decides = unknown[worst] > busiest + MARGIN && run.wall_ns >= UNSEEN_NS;
    decides.then(|| Finding::Hidden(worst, unknown[worst]))
}

/// Whether the run's source or its reader held it up, and not its stages.
pub(crate) fn is_held_from_outside(run: &Run, found: &[StageFinding]) -> bool {
    let busiest = found.iter().map(|stage| stage.busy).fold(0.0, f64::max);
    outside(run, &workers(run), busiest).is_some()
}

/// Returns a finding if the pipeline mostly waited for its source or its reader. A relay at its end
/// may wait although the stage behind it has enough.
fn outside(run: &Run, work: &[usize], busiest: f64) -> Option<Finding> {
    let at = |position: Option<&usize>| position.map(|position| &run.stages[*position]);
    let input = at(work.first()).filter(|_| run.input_from_outside);
    let output = at(work.last()).filter(|_| run.output_to_outside);
    let input = run.share(input.map_or(0, |stage| stage.times.input_ns));
    let output = run.share(output.map_or(0, |stage| stage.times.output_ns));
    if input.max(output) < busiest + MARGIN {
        return None;
    }
    Some(if input > output { Finding::SlowInput(input) } else { Finding::SlowOutput(output) })
}

/// Judges a run that a CPU quota throttled repeatedly: all stages share it, so the one that used
/// most of it holds the others up.
fn by_quota(run: &Run, work: &[usize]) -> Option<Verdict> {
    let (quota, share) = around::throttled(run)?;
    let total_ns = run.cpu_sum_ns().max(1) as f64;
    // Far below its quota: other processes in the group used it up.
    if total_ns < 0.5 * quota.cpus * run.wall_ns as f64 {
        return None;
    }
    let used: Vec<f64> = run.stages.iter().map(|s| s.cpu_sum_ns() as f64 / total_ns).collect();
    let top = position_of_max(&used, work)?;
    let second = position_of_max(&used, &without(work, top));
    let throttled = CpuCause::Throttled { cpus: quota.cpus, share };
    if let Some(second) = second.filter(|second| used[top] - used[*second] < MARGIN) {
        let finding = Finding::QuotaTie(in_order(&used, top, second));
        return Some(Verdict { around: [throttled].into(), ..nobody(finding) });
    }
    let mut culprit = bottleneck_of(run, work, top, &StageFinding::default());
    (culprit.reason, culprit.share) = (BusyReason::Quota, used[top]);
    let around = [throttled].into();
    Some(Verdict { culprit: Some(culprit), around, ..nobody(Finding::Quota) })
}

fn bottleneck_of(run: &Run, work: &[usize], top: usize, found: &StageFinding) -> Bottleneck {
    let own_ns = |position: &usize| limits::own_ns(run, *position);
    let longest = without(work, top).into_iter().max_by(|a, b| own_ns(a).total_cmp(&own_ns(b)));
    let next_stage = longest.filter(|position| own_ns(position) > 0.0);
    // The relays still need their time.
    let limit = limits::without_stage(run, top);
    Bottleneck {
        stage: top,
        reason: main_reason(&run.stages[top], found),
        share: found.busy,
        speedup_limit: limit.filter(|_| next_stage.is_some()),
        next_stage,
        crowded_speedup: around::is_crowded(run).then(|| as_crowded(run, top)),
    }
}

fn main_reason(stage: &Stage, found: &StageFinding) -> BusyReason {
    if found.starting.is_some() {
        return BusyReason::Processes;
    }
    if found.paced {
        return BusyReason::Sleep;
    }
    let times: &Times = &stage.times;
    let elsewhere = times.other_ns() - times.disk_ns - times.sleep_ns - times.stage_child_ns;
    let parts = [
        (BusyReason::Cpu, times.work_cpu_ns()),
        (BusyReason::Queue, times.work_queue_ns()),
        (BusyReason::Disk, times.disk_ns),
        (BusyReason::Sleep, times.sleep_ns),
        (BusyReason::Other, elsewhere),
    ];
    // Of equal parts the first, so that CPU time is preferred.
    let most = parts.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
    let first = parts.iter().find(|(_, ns)| *ns == most).map(|(reason, _)| *reason);
    match first.unwrap_or(BusyReason::Other) {
        BusyReason::Queue if found.throttled => BusyReason::Quota,
        _ if found.pages.as_ref().is_some_and(Pages::lacks_memory) => BusyReason::Memory,
        reason => reason,
    }
}

/// Returns how many times faster the run would be without this stage if others keep using the CPUs:
/// each remaining stage then waits for one as before. An estimate, for when the bound is loose.
fn as_crowded(run: &Run, gone: usize) -> f64 {
    let rest = run.stages.iter().enumerate().filter(|(at, stage)| *at != gone && !stage.relay);
    let longest_ns = rest.map(|(_, stage)| stage.times.busy_ns()).max().unwrap_or(0);
    run.wall_ns as f64 / longest_ns.max(1) as f64
}

#[cfg(test)]
mod tests;
