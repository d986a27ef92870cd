//! The groups of a run: the pipelines and single commands found in what it started, each with its
//! share of the time, and the verdict of the whole.

use crate::advice::{self, Advice, AdviceKind, Gain, Refuted};
use crate::around;
use crate::facts::{FoundGroup, Phase, Run, Stage};
use crate::graph::Jobs;
use crate::phases::{Spent, Timeline};
use crate::programs::is_shell;
use crate::starts::Starts;
use crate::verdict::{self, Bottleneck, Busy, Finding, Verdict};
use alloc::vec;
use alloc::vec::Vec;

/// What was found about a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupFinding {
    /// What held it up. Its positions are those in the group.
    pub verdict: Verdict,
    /// Whether it ran often and briefly, so that starting its processes was most of its time.
    pub is_starting: bool,
    /// What is known of its starts, where it was started again and again.
    pub starts: Option<Starts>,
}

impl GroupFinding {
    /// Judges a group.
    pub(crate) fn of(group: &FoundGroup) -> GroupFinding {
        let verdict = verdict::judge(&group.run);
        GroupFinding { verdict, is_starting: group.is_starting(), starts: Starts::of(group) }
    }
}

/// A group that took a part of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Position of the group.
    pub group: usize,
    /// Its share of the run.
    pub share: f64,
}

/// Parts below this share are not mentioned, unless nothing is larger.
const WORTH: f64 = 0.10;
/// Slices into which the run of a script is cut.
const SLICES: u64 = 256;
/// The shortest of them.
const SLICE_NS: u64 = 5_000_000;
/// The most parts that are mentioned.
const MOST: usize = 4;

/// Returns the groups that took most of the run, the largest first. Nothing where the run has fewer than
/// two groups: then its stages are judged.
pub(crate) fn parts(run: &Run) -> Vec<Part> {
    let groups = run.groups.iter().enumerate().filter(|(_, group)| run.is_part(group));
    let mut parts: Vec<Part> =
        groups.map(|(group, of)| Part { group, share: run.share(of.own_ns()).min(1.0) }).collect();
    if parts.len() < 2 || verdict::lock_step(run).is_some() {
        return Vec::new();
    }
    // What ran beside others counts less than what was waited for.
    let weight = |part: &Part| part.share + 2.0 * on_path(run, part.group);
    parts.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
    // A shell that did nothing itself is no part of the time.
    let worth = parts.into_iter().enumerate().filter(|(at, part)| *at == 0 || part.share >= WORTH);
    worth.map(|(_, part)| part).take(MOST).collect()
}

/// Returns the share of the run for which the processes of a group were waited for, by the critical path.
fn on_path(run: &Run, group: usize) -> f64 {
    let stages = &run.groups[group].run.stages;
    let links = run.critical_path.iter().flat_map(|path| &path.links);
    let mine = links.filter(|link| stages.iter().any(|stage| stage.label == link.command));
    run.share(mine.map(|link| link.waited_ns).sum()).min(1.0)
}

/// Cuts the run of a script into phases: in each, the group is named that ran for most of it. A
/// holder is a position in the groups. Nothing for fewer than two groups that do not only wait for
/// others.
pub(crate) fn phases(run: &Run) -> Vec<Phase> {
    let counts = |group: &&FoundGroup| group.inside.is_none() && !group.follows_others();
    if run.groups.iter().filter(counts).count() < 2 {
        return Vec::new();
    }
    let slice_ns = (run.wall_ns / SLICES).max(SLICE_NS);
    let slices = run.wall_ns.div_ceil(slice_ns) as usize;
    let mut spent = vec![vec![Spent::default(); run.groups.len()]; slices];
    for (position, group) in run.groups.iter().enumerate().filter(|(_, group)| counts(group)) {
        for span in &group.spans {
            let last = span.end_ns.min(run.wall_ns);
            let mut at_ns = span.start_ns;
            while at_ns < last {
                let slice = at_ns / slice_ns;
                let next_ns = ((slice + 1) * slice_ns).min(last);
                let own_ns = &mut spent[slice as usize][position].own_ns;
                // Of several instances at once, one counts.
                *own_ns = (*own_ns + next_ns - at_ns).min(slice_ns);
                at_ns = next_ns;
            }
        }
    }
    let mut timeline = Timeline::default();
    for (slice, spent) in spent.iter().enumerate() {
        let start_ns = slice as u64 * slice_ns;
        let end_ns = (start_ns + slice_ns).min(run.wall_ns);
        timeline.add(end_ns, end_ns - start_ns, spent);
    }
    timeline.phases(run.wall_ns, &|_| false)
}

/// Returns the verdict of the whole run in terms of its stages, from that of its largest part.
/// `None` where the stages themselves tell more: without several groups, or where starting
/// processes took the time. `found`: what was found about the groups. `flat`: the
/// verdict on the stages.
pub(crate) fn whole(
    run: &Run,
    parts: &[Part],
    found: &[GroupFinding],
    flat: &Verdict,
) -> Option<Verdict> {
    let largest = parts.first()?;
    let flat = Verdict { around: around::beside(run), ..flat.clone() };
    let Some(first) = run.groups[largest.group].first_stage else {
        // The one stage was held up by what it did and started.
        let is_own = run.groups[largest.group].is_parent();
        let known = match flat.finding {
            Finding::Blind | Finding::TooShort | Finding::Hidden(..) => false,
            // That says which programs, and how often.
            Finding::HeldUp(Busy::Starting(_)) => is_own,
            _ => true,
        };
        return known.then_some(flat);
    };
    if matches!(flat.finding, Finding::HeldUp(Busy::Starting(_))) {
        let starting = found[largest.group].is_starting && parts.len() > 1;
        let mut verdict = flat;
        let culprit = verdict.culprit.as_mut().filter(|_| starting)?;
        culprit.share = largest.share;
        (culprit.speedup_limit, culprit.next_stage) = (None, None);
        return Some(verdict);
    }
    let held = match flat.finding {
        Finding::Blind | Finding::Quota | Finding::QuotaTie(_) | Finding::Hidden(..) => true,
        // Too short for samples; the kernel has told when each process ran.
        Finding::TooShort => !run.has_all,
        _ => false,
    };
    if held {
        return None;
    }
    let Verdict { culprit, finding, .. } = found[largest.group].verdict.clone();
    let culprit = culprit.map(|of| Bottleneck {
        stage: of.stage + first,
        share: of.share * largest.share,
        // Other groups may need what this one leaves free, or run beside it.
        speedup_limit: None,
        next_stage: None,
        crowded_speedup: None,
        ..of
    });
    let finding = match finding {
        Finding::Tie(both) => Finding::Tie(both.map(|(at, share)| (at + first, share))),
        Finding::EqualWork(both) => Finding::EqualWork(both.map(|(at, share)| (at + first, share))),
        other => other,
    };
    Some(Verdict { culprit, finding, ..flat })
}

/// What was found inside of the stage that held a pipeline up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inside {
    /// Position of the stage.
    pub stage: usize,
    /// Position of the group that took most of its time.
    pub group: usize,
    /// The share of that group.
    pub share: f64,
    /// The share of the stage's own work, where that is larger.
    pub own: Option<f64>,
}

/// Returns what was found inside of the stage that held a pipeline up, if it took much of its time.
pub fn inside(run: &Run, verdict: &Verdict) -> Option<Inside> {
    /// The smallest share of a stage's time at which a group inside of it is named.
    const MUCH: f64 = 0.25;
    /// Beside the stage's own work, what took less is not worth a word.
    const LITTLE: f64 = 0.05;
    if matches!(verdict.finding, Finding::LockStep(_)) {
        return None;
    }
    let stage = match (&verdict.culprit, run.stages.as_slice()) {
        (Some(culprit), _) => culprit.stage,
        (None, [_]) => 0,
        _ => return None,
    };
    let of = run.stages.get(stage)?;
    let found = || run.groups.iter().enumerate().filter(|(_, it)| it.inside == Some(stage));
    // A process that waits for what it started says less than what it started.
    let is_starter = |group: &FoundGroup| group.starts_others && group.is_single();
    let others = found().filter(|(_, group)| !is_starter(group));
    let share = |group: &FoundGroup| run.group_share(group);
    let (at, group) = others.max_by(|(_, one), (_, two)| share(one).total_cmp(&share(two)))?;
    let share = share(group);
    // GNU parallel with small jobs works more than all that it starts. Of a shell, the verdict says
    // what it starts.
    let works = |group: &&FoundGroup| !is_shell(&group.run.stages[0].program);
    let starter = found().map(|(_, group)| group).filter(|it| is_starter(it)).find(works);
    let working = |group: &FoundGroup| {
        let times = &group.run.stages[0].times;
        (times.cpu_ns + times.queue_ns) as f64 / of.wall_ns.max(1) as f64
    };
    let own = starter.map(working).filter(|own| *own >= MUCH && *own > share && share >= LITTLE);
    // A group that is the whole stage adds nothing.
    let itself = group.is_single() && group.run.stages[0].label == of.label;
    let is_worth = own.is_some() || share >= MUCH && !itself;
    is_worth.then_some(Inside { stage, group: at, share, own })
}

/// What the name of a process has behind the program that started it, where it runs no other one.
pub const COPY: &str = " (a copy of itself)";

/// A pool of workers that waited for the process of which they are copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolWait {
    /// Position of the group of that process.
    pub starter: usize,
    /// The share of their time.
    pub share: f64,
    /// Whether they waited longer to write than to read: for room for their results, and not for work.
    pub writes: bool,
}

/// Returns whether the processes of a group are workers that hardly did anything but wait for the process
/// that they are copies of, which was at work: for its pipes, or for the lock of the one that reads or
/// writes there.
pub fn waits_for_starter(run: &Run, position: usize) -> Option<PoolWait> {
    /// What they waited so for less than this share of their time had other reasons.
    const MOSTLY: f64 = 0.6;
    /// The one that they waited for was on a CPU for this share of the time.
    const BUSY: f64 = 0.6;
    let [row] = run.groups.get(position)?.run.stages.as_slice() else { return None };
    let name = row.label.strip_suffix(COPY).filter(|_| row.processes > 1)?;
    let is_starter = |group: &FoundGroup| {
        let of_it = |own: &Stage| own.program == row.program && !own.label.ends_with(COPY);
        let works = |own: &Stage| run.share(own.times.work_cpu_ns()) >= BUSY;
        group.starts_others
            && matches!(group.run.stages.as_slice(), [own] if of_it(own) && works(own))
    };
    let mut starters = (0..run.groups.len()).filter(|at| is_starter(&run.groups[*at]));
    let (starter, None) = (starters.next()?, starters.next()) else { return None };
    let times = &row.times;
    let pipes_ns = times.input_ns + times.output_ns;
    let share = (times.lock_ns + pipes_ns) as f64 / row.wall_ns.max(1) as f64;
    let is_it = share >= MOSTLY && pipes_ns > 0 && !name.is_empty();
    is_it.then_some(PoolWait { starter, share, writes: times.output_ns > times.input_ns })
}

/// One of several copies of a process, which had far more than an equal part of their work.
#[derive(Clone, Copy, Debug)]
pub struct Straggler<'a> {
    /// Their row.
    pub row: &'a Stage,
    /// Its share of their CPU time.
    pub share: f64,
}

/// Returns the copy that had most of the work of all, and for much of the run.
pub fn straggler(run: &Run) -> Option<Straggler<'_>> {
    /// Less CPU time, or less of the run, does not tell how work was shared out.
    const LEAST_NS: u64 = 200_000_000;
    const MUCH: f64 = 0.2;
    let of = |row: &Stage| {
        let copies = &row.copies;
        let equal = 1.0 / copies.processes.max(1) as f64;
        let share = copies.most_cpu_ns as f64 / copies.cpu_ns.max(1) as f64;
        let is_far = copies.processes > 1 && share >= equal + (1.0 - equal) / 2.0;
        let is_much = copies.most_cpu_ns >= LEAST_NS && run.share(copies.most_cpu_ns) >= MUCH;
        (is_far && is_much).then_some(share)
    };
    let rows = run.groups.iter().flat_map(|group| &group.run.stages);
    let all = rows.filter_map(|row| Some(Straggler { row, share: of(row)? }));
    all.max_by_key(|found| found.row.copies.most_cpu_ns)
}

/// Whether a build would gain by more jobs at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoreJobs {
    /// Hardly: the run filled the CPUs.
    CpusFull,
    /// Perhaps: it ran as many as it may for most of the time, and CPUs were idle. So many jobs would
    /// fill them.
    May(u64),
    /// Hardly: for most of the time fewer could run than may.
    Waits,
    /// Never more than one ran, although more may. Whether these were the jobs of a build below.
    OneByOne(bool),
}

/// Returns whether a build would gain by more jobs; `None` where the host tells too little.
pub(crate) fn more_jobs(run: &Run, jobs: Jobs) -> Option<MoreJobs> {
    /// CPUs that are idle for less than this are full, and with more there is one for another job.
    const FULL: f64 = 0.25;
    const FREE: f64 = 0.5;
    /// In a shorter run neither the CPUs nor the jobs tell much.
    const LEAST_NS: u64 = 500_000_000;
    let idle = run.host.idle_cpus.filter(|_| run.wall_ns >= LEAST_NS)?;
    // Others may give way: a make halved its time by two jobs where a compiler had filled the CPUs.
    let filled_by_others = run.host.others_cpus.unwrap_or_default() > FULL;
    // The time in which CPUs were idle since nothing could run counts too.
    let at_most = jobs.most_ns * 2 >= jobs.any_ns;
    let is_limit = jobs.asked.is_none_or(|asked| jobs.most >= asked);
    match idle {
        _ if jobs.most == 1 && !is_limit => Some(MoreJobs::OneByOne(jobs.below)),
        _ if !at_most || !is_limit => Some(MoreJobs::Waits),
        ..FULL if !filled_by_others => Some(MoreJobs::CpusFull),
        FREE.. => Some(MoreJobs::May(jobs.most + (idle + 0.5) as u64)),
        _ => None,
    }
}

/// The share of a run from which advice on a group is worth it.
const ADVISED: f64 = 0.25;

/// Returns advice on the run from that on its larger parts. What a part could gain is what the
/// whole could gain by it at most, weighed by its share. `found`: what was found about the
/// groups. `flat`: the verdict on the stages.
pub(crate) fn advise(
    run: &Run,
    parts: &[Part],
    found: &[GroupFinding],
    flat: &Verdict,
    refuted: &dyn Fn() -> Vec<Refuted>,
) -> Vec<Advice> {
    if advice::lacked_memory(run) {
        return Vec::new();
    }
    let flat = advice::advise(run, flat, refuted);
    let starting = run.groups.iter().zip(found).filter(|(_, found)| found.is_starting);
    let starting = run.share(starting.map(|(group, _)| group.own_ns()).sum()).min(0.99);
    let mut all: Vec<Advice> =
        flat.into_iter().filter(|advice| advice.kind == AdviceKind::FewerProcesses).collect();
    for advice in &mut all {
        // What starts took of the run is what fewer of them could save.
        let most = 1.0 / (1.0 - starting);
        advice.gain = Gain::About(advice.gain.factor().min(most));
    }
    all.extend(advice::passes::one_pass(run));
    all.extend(advice::passes::no_packing(run));
    all.extend(advice::starts::one_process(run));
    all.extend(advice::jobs::longest_first(run));
    all.retain(|advice| advice.gain.factor() >= advice::WORTH);
    for part in parts.iter().filter(|part| part.share >= ADVISED) {
        let group = &run.groups[part.group];
        let (Some(first), alone) = (group.first_stage, !overlaps(run, part.group)) else {
            continue;
        };
        let first_pipe = run.pipes.iter().position(|pipe| pipe.from >= first);
        for mut advice in advice::advise(&group.run, &found[part.group].verdict, &Vec::new) {
            advice.stage = advice.stage.map(|at| at + first);
            advice.pipe = advice.pipe.zip(first_pipe).map(|(at, first)| at + first);
            let whole = |factor: f64| 1.0 / (1.0 - part.share * (1.0 - 1.0 / factor)).max(0.01);
            advice.gain = match advice.gain {
                Gain::AtMost(factor) if alone => Gain::AtMost(whole(factor)),
                Gain::AtMost(factor) | Gain::About(factor) => Gain::About(whole(factor)),
            };
            let same = |other: &Advice| (other.kind, other.stage) == (advice.kind, advice.stage);
            if !all.iter().any(same) && advice.gain.factor() >= advice::WORTH {
                all.push(advice);
            }
        }
    }
    advice::keep_best(&mut all, refuted);
    all
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
