//! The groups of a run: the pipelines and single commands found in what it started, each with its
//! share of the time, and the verdict of the whole.

use crate::advice::{self, Advice, AdviceKind, Gain, Refuted};
use crate::facts::{Evidence, Run};
use crate::verdict::{self, Busy, Finding, Verdict};
use alloc::string::String;
use alloc::vec::Vec;

/// A pipeline, or a single command, that was found in a run.
#[derive(Clone, Debug, Default)]
pub struct FoundGroup {
    /// Its stages and pipes; its wall time is the time in which at least one instance ran.
    pub run: Run,
    /// Its name: the commands that a person typed, without what these started themselves.
    pub name: String,
    /// Whether it started other groups: it may have done no more than wait for them.
    pub starts_others: bool,
    /// Position in the stages of the run of its first stage. None where it was found inside of one
    /// stage of a pipeline: its stages are then its own.
    pub first_stage: Option<usize>,
    /// The stage of the run in which it was found, if it is not a stage itself.
    pub inside: Option<usize>,
    /// How often it ran.
    pub instances: u64,
    /// How that is known: exact, estimated where many were too brief to be seen, or a lower bound.
    pub instances_evidence: Evidence,
    /// When it first began, since the start of the run.
    pub start_ns: u64,
    /// When it last ended, since the start of the run.
    pub end_ns: u64,
    /// The times of its instances.
    pub spread: Spread,
    /// Where it stands in a script, if that is known.
    pub line: Option<Line>,
}

/// The spread of the times of the instances of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub median_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All added up.
    pub sum_ns: u64,
}

/// A line of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The script, as it was named. Empty for the text of the run itself.
    pub script: String,
    /// The line, from 1.
    pub line: usize,
}

/// Processes that lived too briefly to be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unseen {
    /// Their likely number; `None` where it is not known.
    pub processes: Option<u64>,
    /// CPU time that the kernel counted for the run and that no process had used when it was last
    /// seen.
    pub cpu_ns: u64,
}

impl Spread {
    /// Returns the spread of these times.
    pub fn of(mut times_ns: Vec<u64>) -> Spread {
        times_ns.sort_unstable();
        let at = |position: usize| times_ns.get(position).copied().unwrap_or(0);
        let last = times_ns.len().saturating_sub(1);
        Spread {
            min_ns: at(0),
            median_ns: at(last / 2).midpoint(at(times_ns.len() / 2)),
            max_ns: at(last),
            sum_ns: times_ns.iter().sum(),
        }
    }
}

impl FoundGroup {
    /// Whether it ran often, and for so short a time that starting its processes is what it took.
    pub fn is_starting(&self) -> bool {
        let each_ns = self.spread.sum_ns / self.instances.max(1);
        let processes = self.instances * self.run.stages.len() as u64;
        let seen: u64 = self.run.stages.iter().map(|stage| stage.processes).sum();
        // Of what is known of those that were seen.
        let cpu_ns = self.run.cpu_sum_ns() / seen.max(1);
        processes >= OFTEN && each_ns <= BRIEF_NS && cpu_ns <= START_NS
    }

    /// Whether it is a single command.
    pub fn is_single(&self) -> bool {
        self.run.stages.len() == 1
    }

    /// Returns the time that counts as its own: the time that it ran, but of one that starts other
    /// groups only the time in which it worked itself.
    pub fn own_ns(&self) -> u64 {
        match self.starts_others {
            true => self.run.stages.iter().map(|stage| stage.times.busy_ns()).max().unwrap_or(0),
            false => self.run.wall_ns,
        }
    }
}

/// A group that took a part of the run, and what held it up.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Position of the group.
    pub group: usize,
    /// Its share of the run.
    pub share: f64,
    /// What held it up. Its positions are those in the group.
    pub verdict: Verdict,
}

/// The fewest processes whose starting is a reason.
const OFTEN: u64 = 50;
/// What takes longer does some work.
const BRIEF_NS: u64 = 50_000_000;
/// So does a process that uses more CPU time.
const START_NS: u64 = 4_000_000;
/// Parts below this share are not mentioned, unless nothing is larger.
const WORTH: f64 = 0.10;
/// The most parts that are mentioned.
const MOST: usize = 4;

/// Returns the groups that took most of the run, the largest first; the first of those that are
/// equal. Nothing where the run has fewer than two groups: then its stages are judged.
pub fn parts(run: &Run) -> Vec<Part> {
    let share = |group: &FoundGroup| run.share(group.own_ns());
    let mut parts: Vec<(usize, f64)> = run
        .groups
        .iter()
        .enumerate()
        .filter(|(_, group)| group.first_stage.is_some())
        .map(|(at, group)| (at, share(group)))
        .collect();
    if parts.len() < 2 {
        return Vec::new();
    }
    // A shell that did nothing itself is no part of the time.
    parts.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    let most = parts.first().map_or(0.0, |part| part.1);
    // Of equal parts the first is named first.
    let equal = |part: &(usize, f64)| most - part.1 < verdict::MARGIN / 2.0;
    let count = parts.iter().take_while(|part| equal(part)).count();
    parts[..count].sort_by_key(|part| part.0);
    let worth = parts.into_iter().enumerate().filter(|(at, part)| *at == 0 || part.1 >= WORTH);
    worth
        .take(MOST)
        .map(|(_, (group, share))| {
            let verdict = verdict::judge(&run.groups[group].run);
            Part { group, share, verdict }
        })
        .collect()
}

/// Returns the verdict of the whole run in terms of its stages, from that of its largest part.
/// `None` where the stages themselves tell more: without several groups, or where starting
/// processes took the time.
pub fn whole(run: &Run, parts: &[Part]) -> Option<Verdict> {
    let flat = verdict::judge(run);
    let largest = parts.first()?;
    if matches!(flat.finding, Finding::HeldUp(Busy::Starting(_))) {
        let starting = run.groups[largest.group].is_starting() && parts.len() > 1;
        let mut verdict = flat;
        let culprit = verdict.culprit.as_mut().filter(|_| starting)?;
        culprit.share = largest.share;
        (culprit.speedup_limit, culprit.next_stage) = (None, None);
        return Some(verdict);
    }
    let held = matches!(flat.finding, Finding::Blind | Finding::TooShort | Finding::Quota)
        || matches!(flat.finding, Finding::QuotaTie(_) | Finding::Hidden(..));
    if held {
        return None;
    }
    let first = run.groups[largest.group].first_stage?;
    let mut verdict = largest.verdict.clone();
    if let Some(culprit) = &mut verdict.culprit {
        culprit.stage += first;
        culprit.share *= largest.share;
        // Other groups may need what this one leaves free, or run beside it.
        culprit.speedup_limit = None;
        culprit.next_stage = None;
        culprit.crowded_speedup = None;
    }
    verdict.finding = match verdict.finding {
        Finding::Tie(both) => Finding::Tie(both.map(|(at, share)| (at + first, share))),
        other => other,
    };
    Some(verdict)
}

/// The share of a run from which advice on a group is worth it.
const ADVISED: f64 = 0.25;
/// Advice below this gain is not given.
const LEAST_GAIN: f64 = 1.05;

/// Returns advice on the run from that on its larger parts. What a part could gain is what the
/// whole could gain by it at most, weighed by its share.
pub fn advise(run: &Run, parts: &[Part], refuted: &[Refuted]) -> Vec<Advice> {
    let flat = advice::advise(run, &verdict::judge(run), refuted);
    let starting = run.groups.iter().filter(|group| group.is_starting());
    let starting = run.share(starting.map(FoundGroup::own_ns).sum()).min(0.99);
    let mut found: Vec<Advice> =
        flat.into_iter().filter(|advice| advice.kind == AdviceKind::FewerProcesses).collect();
    for advice in &mut found {
        // What starts took of the run is what fewer of them could save.
        let most = 1.0 / (1.0 - starting);
        advice.gain = Gain::About(advice.gain.factor().min(most));
    }
    found.retain(|advice| advice.gain.factor() >= LEAST_GAIN);
    for part in parts.iter().filter(|part| part.share >= ADVISED) {
        let group = &run.groups[part.group];
        let (Some(first), alone) = (group.first_stage, !overlaps(run, part.group)) else {
            continue;
        };
        let first_pipe = run.pipes.iter().position(|pipe| pipe.from >= first);
        for mut advice in advice::advise(&group.run, &part.verdict, &[]) {
            advice.stage = advice.stage.map(|at| at + first);
            advice.pipe = advice.pipe.zip(first_pipe).map(|(at, first)| at + first);
            let whole = |factor: f64| 1.0 / (1.0 - part.share * (1.0 - 1.0 / factor)).max(0.01);
            advice.gain = match advice.gain {
                Gain::AtMost(factor) if alone => Gain::AtMost(whole(factor)),
                Gain::AtMost(factor) | Gain::About(factor) => Gain::About(whole(factor)),
            };
            let same = |other: &Advice| (other.kind, other.stage) == (advice.kind, advice.stage);
            let known = found.iter().any(same) || advice::is_refuted(&advice, refuted);
            if !known && advice.gain.factor() >= LEAST_GAIN {
                found.push(advice);
            }
        }
    }
    found.sort_by(|one, other| other.gain.factor().total_cmp(&one.gain.factor()));
    found.truncate(advice::MOST);
    found
}

/// Whether a group ran at the same time as another that worked.
fn overlaps(run: &Run, position: usize) -> bool {
    let mine = &run.groups[position];
    run.groups.iter().enumerate().any(|(at, other)| {
        let beside = other.start_ns < mine.end_ns && mine.start_ns < other.end_ns;
        at != position && beside && other.inside.is_none() && run.share(other.own_ns()) >= 0.02
    })
}

#[cfg(test)]
mod tests;
