//! Which stage held a pipeline up, and why.
//!
//! A stage is busy when it waits for neither neighbour. The busiest stage is named unless the
//! next is within the margin: then there is no single bottleneck, and saying otherwise would send
//! somebody to the wrong place. What the pipeline could gain if the named stage were free is
//! bounded by the next stage's own work and by the CPU time that remains, so "at most" holds
//! however the stages overlap.
//!
//! Relays (`weir buffer`) are looked through: they work only because a neighbour does, so who
//! holds the pipeline up is sought among the others.

use crate::facts::{Run, Stage};
use crate::partition::Times;
use crate::words;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Two stages whose busy shares differ by less than this are not told apart.
pub const MARGIN: f64 = 0.10;
/// Fewer samples than this say nothing about a run.
const ENOUGH_SAMPLES: u64 = 8;
/// Of runs shorter than this, unseen waits are for want of samples.
const UNSEEN_NS: u64 = 50_000_000;
/// A stage busy for less than this share holds nothing up.
const IDLE: f64 = 0.15;

/// Why a stage was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its own CPU time.
    Cpu,
    /// Waiting for a CPU.
    Queue,
    /// Waiting for storage.
    Disk,
    /// Asleep.
    Sleep,
    /// Any other wait: network, lock, child, device.
    Other,
}

impl Reason {
    /// The stable name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Cpu => "cpu",
            Reason::Queue => "runq",
            Reason::Disk => "disk",
            Reason::Sleep => "sleep",
            Reason::Other => "other",
        }
    }
}

/// The stage that held the pipeline up.
#[derive(Clone, Debug, PartialEq)]
pub struct Culprit {
    /// Position of the stage.
    pub stage: usize,
    /// The largest part of its busy time.
    pub reason: Reason,
    /// Its busy time as a share of the run.
    pub share: f64,
    /// If the stage were free, the run would be at most this many times faster; `None` when
    /// nothing else takes time.
    pub speedup_limit: Option<f64>,
    /// The stage that would then be the limit.
    pub next_stage: Option<usize>,
}

/// The answer to "where does the time go".
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The stage, if it is a single one.
    pub culprit: Option<Culprit>,
    /// The answer in sentences.
    pub text: String,
}

/// A stage whose own work takes less than this share is not the equal of a busier one.
const WORKS: f64 = 0.25;

/// Judges a run.
pub fn judge(run: &Run) -> Verdict {
    // A wait that could not be seen may have been for a neighbour: it makes nobody busy.
    let seen_ns = |times: &Times| times.busy_ns() - times.unknown_ns;
    let busy: Vec<f64> = run.stages.iter().map(|s| run.share(seen_ns(&s.times))).collect();
    let work = workers(run);
    let Some(top) = position_of_max(&busy, &work) else { return nobody("nothing ran") };
    if let Some(text) = unseen(run, &work, busy[top]) {
        return Verdict { culprit: None, text };
    }
    if run.stages.iter().map(|s| s.samples).max().unwrap_or(0) < ENOUGH_SAMPLES {
        let ms = run.wall_ns as f64 / 1e6;
        return nobody(&format!("too short to say what held it up ({ms:.0} ms)"));
    }
    if let Some(text) = outside(run, &work, busy[top]) {
        return Verdict { culprit: None, text };
    }
    let rest: Vec<usize> = work.iter().copied().filter(|position| *position != top).collect();
    let second = position_of_max(&busy, &rest);
    if let Some(second) = second.filter(|second| are_equal(run, &busy, top, *second)) {
        return Verdict { culprit: None, text: tie(run, &busy, top, second) };
    }
    if busy[top] < IDLE {
        return nobody("no single bottleneck: no stage was busy for long");
    }
    let culprit = accuse(run, &rest, top, busy[top]);
    let text = sentences(run, &culprit);
    Verdict { culprit: Some(culprit), text }
}

/// Whether two stages cannot be told apart: by their busy time, or because their own work is the
/// same and one only waited longer for a CPU, which is chance and not a property of the stage.
fn are_equal(run: &Run, busy: &[f64], top: usize, second: usize) -> bool {
    let lead = busy[top] - busy[second];
    let (first, other) = (&run.stages[top].times, &run.stages[second].times);
    let own_lead = run.share(first.own_ns()) - run.share(other.own_ns());
    let same_work = own_lead.abs() < MARGIN && run.share(other.own_ns()) >= WORKS;
    lead < MARGIN || same_work
}

fn nobody(text: &str) -> Verdict {
    Verdict { culprit: None, text: String::from(text) }
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

/// Whether a stage was blocked on something unseen for longer than any stage was busy.
fn unseen(run: &Run, work: &[usize], busiest: f64) -> Option<String> {
    let unknown: Vec<f64> = run.stages.iter().map(|s| run.share(s.times.unknown_ns)).collect();
    let worst = position_of_max(&unknown, work);
    let worst = worst.filter(|worst| unknown[*worst] > busiest + MARGIN)?;
    if run.wall_ns < UNSEEN_NS {
        return None;
    }
    let name = words::stage(worst, &run.stages[worst].label);
    let part = words::percent(unknown[worst]);
    Some(format!("cannot say: {name} was blocked {part} of the time on something that is hidden"))
}

/// Whether the pipeline mostly waited for what feeds it or reads from it: a relay at its end may
/// well wait while the stage behind it has enough.
fn outside(run: &Run, work: &[usize], busiest: f64) -> Option<String> {
    let at = |position: Option<&usize>| position.map(|position| &run.stages[*position]);
    let input = at(work.first()).filter(|_| run.input_from_outside);
    let output = at(work.last()).filter(|_| run.output_to_outside);
    let input = run.share(input.map_or(0, |stage| stage.times.input_ns));
    let output = run.share(output.map_or(0, |stage| stage.times.output_ns));
    if input.max(output) < busiest + MARGIN {
        return None;
    }
    Some(if input > output {
        let part = words::percent(input);
        format!(
            "held up from outside: what feeds standard input kept it waiting {part} of the time"
        )
    } else {
        let part = words::percent(output);
        format!("held up from outside: what reads standard output was full {part} of the time")
    })
}

fn tie(run: &Run, busy: &[f64], top: usize, second: usize) -> String {
    let name = |position: usize| {
        let stage = words::stage(position, &run.stages[position].label);
        format!("{stage} (busy {})", words::percent(busy[position]))
    };
    let (first, last) = (top.min(second), top.max(second));
    let mut text = format!("no single bottleneck: {} and {}", name(first), name(last));
    if run.cpus_full() {
        text.push_str(&format!("; the {} full", cpus(run)));
    }
    text
}

fn cpus(run: &Run) -> String {
    if run.cpus == 1.0 {
        String::from("one CPU was")
    } else {
        format!("{} CPUs were", libm::round(run.cpus * 10.0) / 10.0)
    }
}

fn accuse(run: &Run, rest: &[usize], top: usize, share: f64) -> Culprit {
    let own_ns = |position: usize| run.stages[position].times.own_ns();
    let longest = rest.iter().copied().max_by_key(|position| own_ns(*position));
    let next_stage = longest.filter(|position| own_ns(*position) > 0);
    let own_ns = next_stage.map_or(0, own_ns);
    // The CPU time of relays stays too.
    let cpu_ns = run.cpu_sum_ns() - run.stages[top].cpu_sum_ns;
    let remaining_ns = (own_ns as f64).max(cpu_ns as f64 / run.cpus.max(0.01));
    let limit = run.wall_ns as f64 / remaining_ns.max(1.0);
    Culprit {
        stage: top,
        reason: main_reason(&run.stages[top].times),
        share,
        speedup_limit: next_stage.map(|_| limit.max(1.0)),
        next_stage,
    }
}

fn main_reason(times: &Times) -> Reason {
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

fn sentences(run: &Run, culprit: &Culprit) -> String {
    let stage = &run.stages[culprit.stage];
    let name = words::stage(culprit.stage, &stage.label);
    let mut text = format!("held up by {name}: {}", reasons(run, stage));
    if culprit.reason == Reason::Queue && run.cpus_full() {
        text.push_str(&format!("\nthe {} full", cpus(run)));
    }
    if let (Some(next), Some(limit)) = (culprit.next_stage, culprit.speedup_limit) {
        let short = words::stage(culprit.stage, &stage.program);
        let next = words::stage(next, &run.stages[next].label);
        let gain = if limit >= 100.0 {
            String::from("over 100x faster")
        } else if limit < 1.05 {
            String::from("not measurably faster")
        } else {
            format!("at most {} faster", words::factor(limit))
        };
        text.push_str(&format!("\nif {short} were free, the next limit is {next}: {gain}"));
    }
    text
}

/// The parts of a stage's busy time worth a mention, largest first.
fn reasons(run: &Run, stage: &Stage) -> String {
    let times = &stage.times;
    let mut parts = [
        ("on CPU", times.cpu_ns),
        ("waiting for a CPU", times.queue_ns),
        ("waiting for the disk", times.disk_ns),
        ("asleep", times.sleep_ns),
        ("waiting for the network", times.network_ns),
        ("waiting for a lock", times.lock_ns),
        ("waiting for a child", times.child_ns - times.stage_child_ns),
        ("waiting for another file", times.file_ns),
        ("waiting for a terminal or device", times.device_ns),
        ("stopped", times.stopped_ns),
        ("blocked on something unseen", times.unknown_ns),
    ];
    parts.sort_by_key(|(_, ns)| core::cmp::Reverse(*ns));
    let worth = |position: usize, ns: u64| position == 0 || run.share(ns) >= 0.05;
    let kept = parts.iter().enumerate().filter(|(position, (_, ns))| worth(*position, *ns));
    let said: Vec<String> = kept
        .take(3)
        .map(|(_, (what, ns))| format!("{what} {}", words::percent(run.share(*ns))))
        .collect();
    format!("{} of the time", said.join(", "))
}

#[cfg(test)]
mod tests;
