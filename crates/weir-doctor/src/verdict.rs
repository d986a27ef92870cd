//! Which stage held a pipeline up, and why.
//!
//! A stage is busy when it waits for neither neighbour. The busiest stage is named unless the
//! next is within the margin: then there is no single bottleneck, and saying otherwise would send
//! somebody to the wrong place. Where the times of stages leave it open, the fill of the pipes
//! between them decides: a pipe that is full and hardly ever empty has the slower stage behind it.
//! What the pipeline could gain if the named stage were free is bounded by what the others need
//! (see `limits`), so "at most" holds however the stages overlap.
//!
//! Relays (`weir buffer`) are looked through: they work only because a neighbour does, so who
//! holds the pipeline up is sought among the others.

use crate::around::{self, Around};
use crate::facts::{Run, Stage};
use crate::limits;
use crate::load::{self, Load, lean};
use crate::partition::Times;
use alloc::vec::Vec;

mod reasons;

pub use reasons::{Busy, Part};

/// Two stages whose busy shares differ by less than this are not told apart.
pub const MARGIN: f64 = 0.10;
/// Fewer samples than this say nothing about a run.
const ENOUGH_SAMPLES: u64 = 8;
/// Of runs shorter than this, unseen waits are for want of samples.
const UNSEEN_NS: u64 = 50_000_000;
/// A stage busy for less than this share holds nothing up.
const IDLE: f64 = 0.15;

/// Why a stage was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum Reason {
    /// Its own CPU time.
    Cpu,
    /// Waiting for a CPU.
    #[strum(serialize = "runq")]
    Queue,
    /// The CPU quota that all stages share.
    Quota,
    /// Starting many short processes.
    Processes,
    /// Waiting for storage.
    Disk,
    /// Asleep.
    Sleep,
    /// Any other wait: network, lock, child, device.
    Other,
}

/// The stage that held the pipeline up.
#[derive(Clone, Debug, PartialEq)]
pub struct Culprit {
    /// Position of the stage.
    pub stage: usize,
    /// The largest part of its busy time.
    pub reason: Reason,
    /// Its busy time as a share of the run; under a quota its share of the CPU time used.
    pub share: f64,
    /// If the stage were free, the run would be at most this many times faster; `None` when
    /// nothing else takes time.
    pub speedup_limit: Option<f64>,
    /// The stage that would then be the limit.
    pub next_stage: Option<usize>,
    /// An estimate of the same where others use the CPUs, and go on doing so.
    pub crowded_speedup: Option<f64>,
}

/// The answer to "where does the time go".
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The stage, if it is a single one.
    pub culprit: Option<Culprit>,
    /// What held the run up, or why that cannot be said.
    pub finding: Finding,
    /// What else took its CPU time.
    pub around: Vec<Around>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// There was no stage.
    NothingRan,
    /// The run was too short to say.
    TooShort,
    /// `/proc` cannot be read: only CPU time and memory are known.
    Blind,
    /// A stage was blocked for this share on something that is hidden.
    Hidden(usize, f64),
    /// What feeds standard input kept the run waiting for this share.
    SlowInput(f64),
    /// What reads standard output was full for this share.
    SlowOutput(f64),
    /// No stage was busy for long.
    Idle,
    /// Two stages were as busy as each other: positions and shares.
    Tie([(usize, f64); 2]),
    /// A quota held the run up, and two stages used as much of it: positions and shares.
    QuotaTie([(usize, f64); 2]),
    /// A quota held the run up, and the culprit used most of it.
    Quota,
    /// The culprit did, and was busy with this.
    HeldUp(Busy),
}

/// A stage whose own work takes less than this share is not the equal of a busier one.
const WORKS: f64 = 0.25;

/// Judges a run.
pub fn judge(run: &Run) -> Verdict {
    let loads = load::loads(run);
    let work = workers(run);
    let busy: Vec<f64> = loads.iter().map(|load| load.busy).collect();
    let Some(top) = position_of_max(&busy, &work) else {
        // All that a script started may have lived too briefly to be seen.
        return nobody(if run.script { Finding::TooShort } else { Finding::NothingRan });
    };
    if let Some(why) = cannot_say(run, &work, busy[top]) {
        return nobody(why);
    }
    if let Some(finding) = outside(run, &work, busy[top]) {
        return Verdict { around: around::explain(run), ..nobody(finding) };
    }
    if let Some(verdict) = by_quota(run, &work) {
        return verdict;
    }
    if busy[top] < IDLE {
        return nobody(Finding::Idle);
    }
    let mut top = top;
    let others: Vec<usize> = work.iter().copied().filter(|position| *position != top).collect();
    let second = position_of_max(&busy, &others);
    if let Some(second) = second.filter(|second| are_equal(&loads, top, *second)) {
        match slower_of_equals(run, &loads, top, second) {
            Some(slower) => top = slower,
            None => {
                let finding = Finding::Tie(in_order(&busy, top, second));
                return Verdict { around: around::explain(run), ..nobody(finding) };
            }
        }
    }
    let culprit = accuse(run, &work, top, &loads[top]);
    let finding = Finding::HeldUp(reasons::busy(run, &run.stages[top], &loads[top]));
    let mut around = around::explain(run);
    // That the run's own stages filled the CPUs explains a wait for one, and nothing else.
    around.retain(|found| culprit.reason == Reason::Queue || *found != Around::Full);
    Verdict { culprit: Some(culprit), finding, around }
}

/// Whether two stages cannot be told apart: by their busy time, or because their own work is the
/// same and one only waited longer for a CPU, which is chance and not a property of the stage.
fn are_equal(loads: &[Load], top: usize, second: usize) -> bool {
    let (first, other) = (&loads[top], &loads[second]);
    let same_work = (first.own - other.own).abs() < MARGIN && other.own >= WORKS;
    first.busy - other.busy < MARGIN || same_work
}

/// The slower of two stages whose busy times are the same, if there is evidence of another kind.
///
/// Exact and equal times stay a tie whatever the pipe shows. The pipe between decides where a
/// figure is sampled (several tasks), or where it confirms that one has the more work of
/// its own and the other only waited longer for a CPU.
fn slower_of_equals(run: &Run, loads: &[Load], top: usize, second: usize) -> Option<usize> {
    let (first, other) = (&loads[top], &loads[second]);
    let paced = |at: usize| loads[at].paced || load::seems_paced(run, at);
    if paced(top) != paced(second) {
        return Some(if paced(top) { top } else { second });
    }
    let slower = lean::slower_of(run, top, second)?;
    let faster = if slower == top { second } else { top };
    let confirmed = loads[slower].own - loads[faster].own >= MARGIN / 2.0;
    let open = first.sampled || other.sampled;
    (confirmed || open).then_some(slower)
}

fn nobody(finding: Finding) -> Verdict {
    Verdict { culprit: None, finding, around: Vec::new() }
}

/// Two stages in the order of the pipeline, each with its share.
fn in_order(shares: &[f64], one: usize, other: usize) -> [(usize, f64); 2] {
    [one.min(other), one.max(other)].map(|position| (position, shares[position]))
}

/// Positions of the stages that are no relays; of all where there are only relays.
fn workers(run: &Run) -> Vec<usize> {
    let all = 0..run.stages.len();
    let work: Vec<usize> = all.clone().filter(|position| !run.stages[*position].relay).collect();
    if work.is_empty() { all.collect() } else { work }
}

fn position_of_max(values: &[f64], among: &[usize]) -> Option<usize> {
    among.iter().copied().max_by(|a, b| values[*a].total_cmp(&values[*b]).then(b.cmp(a)))
}

/// Why nothing can be said of the run, if that is so.
fn cannot_say(run: &Run, work: &[usize], busiest: f64) -> Option<Finding> {
    if run.blind {
        return Some(Finding::Blind);
    }
    let samples = run.stages.iter().map(|stage| stage.samples).max().unwrap_or(0);
    let too_short = (samples < ENOUGH_SAMPLES).then_some(Finding::TooShort);
    unseen(run, work, busiest).or(too_short)
}

/// Whether a stage was blocked on something unseen for longer than any stage was busy.
fn unseen(run: &Run, work: &[usize], busiest: f64) -> Option<Finding> {
    let unknown: Vec<f64> = run.stages.iter().map(|s| run.share(s.times.unknown_ns)).collect();
    let worst = position_of_max(&unknown, work)?;
    let decides = unknown[worst] > busiest + MARGIN && run.wall_ns >= UNSEEN_NS;
    decides.then(|| Finding::Hidden(worst, unknown[worst]))
}

/// Whether the run was held up by what feeds it or reads from it, and not by its stages.
pub(crate) fn is_held_from_outside(run: &Run) -> bool {
    let busiest = load::loads(run).iter().map(|load| load.busy).fold(0.0, f64::max);
    outside(run, &workers(run), busiest).is_some()
}

/// Whether the pipeline mostly waited for what feeds it or reads from it: a relay at its end may
/// well wait while the stage behind it has enough.
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

/// The verdict on a run that a CPU quota stopped again and again: all stages share it, so the one
/// that used most of it holds the others up.
fn by_quota(run: &Run, work: &[usize]) -> Option<Verdict> {
    let (quota, share) = around::throttled(run)?;
    let total_ns = run.cpu_sum_ns().max(1) as f64;
    // Far below its quota, others in the group used it up.
    if total_ns < 0.5 * quota.cpus * run.wall_ns as f64 {
        return None;
    }
    let used: Vec<f64> = run.stages.iter().map(|s| s.cpu_sum_ns() as f64 / total_ns).collect();
    let top = position_of_max(&used, work)?;
    let others: Vec<usize> = work.iter().copied().filter(|position| *position != top).collect();
    let second = position_of_max(&used, &others);
    let throttled = Around::Throttled { cpus: quota.cpus, share };
    if let Some(second) = second.filter(|second| used[top] - used[*second] < MARGIN) {
        let finding = Finding::QuotaTie(in_order(&used, top, second));
        return Some(Verdict { around: [throttled].into(), ..nobody(finding) });
    }
    let mut culprit = accuse(run, work, top, &Load::default());
    (culprit.reason, culprit.share) = (Reason::Quota, used[top]);
    let around = [throttled].into_iter().chain(around::others(run)).collect();
    Some(Verdict { culprit: Some(culprit), finding: Finding::Quota, around })
}

fn accuse(run: &Run, work: &[usize], top: usize, load: &Load) -> Culprit {
    let own_ns = |position: usize| run.stages[position].times.own_ns();
    let rest = work.iter().copied().filter(|position| *position != top);
    let longest = rest.max_by_key(|position| own_ns(*position));
    let next_stage = longest.filter(|position| own_ns(*position) > 0);
    // What relays need stays too.
    let limit = limits::without_stage(run, top);
    Culprit {
        stage: top,
        reason: main_reason(run, &run.stages[top], load),
        share: load.busy,
        speedup_limit: limit.filter(|_| next_stage.is_some()),
        next_stage,
        crowded_speedup: around::is_crowded(run).then(|| as_crowded(run, top)),
    }
}

fn main_reason(run: &Run, stage: &Stage, load: &Load) -> Reason {
    if load::starting_share(run, stage).is_some() {
        return Reason::Processes;
    }
    if load.paced {
        return Reason::Sleep;
    }
    let times: &Times = &stage.times;
    let elsewhere = times.other_ns() - times.disk_ns - times.sleep_ns - times.stage_child_ns;
    let parts = [
        (Reason::Cpu, times.cpu_ns),
        (Reason::Queue, times.queue_ns),
        (Reason::Disk, times.disk_ns),
        (Reason::Sleep, times.sleep_ns),
        (Reason::Other, elsewhere),
    ];
    // The first of equals, so that CPU time is preferred.
    let most = parts.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
    parts.iter().find(|(_, ns)| *ns == most).map_or(Reason::Other, |(reason, _)| *reason)
}

/// How many times faster the run would be without this stage where others go on using the CPUs:
/// each of the rest then waits for one as it did. An estimate, where the bound says too little.
fn as_crowded(run: &Run, gone: usize) -> f64 {
    let rest = run.stages.iter().enumerate().filter(|(at, stage)| *at != gone && !stage.relay);
    let longest_ns = rest.map(|(_, stage)| stage.times.busy_ns()).max().unwrap_or(0);
    run.wall_ns as f64 / longest_ns.max(1) as f64
}

#[cfg(test)]
mod tests;
