//! The choice of the stages that get a row. A script may start hundreds of commands that lived too
//! briefly to be measured: these share one line.

use super::words::{self, mark_word};
use std::collections::BTreeMap;
use weir_command::units::seconds;
use weir_doctor::facts::{FoundGroup, Run, Stage};
use weir_doctor::verdict::Verdict;

/// The stages that get rows, and one line on the others.
pub struct ShownRows {
    /// Positions of the stages that get a row.
    pub shown: Vec<usize>,
    /// The line on the other stages.
    pub folded: Option<String>,
}

/// Commands of a group with a smaller share of the run get no rows if there are many.
const LITTLE: f64 = 0.05;
/// Up to this number, all rows are shown.
const FEW: usize = 6;

/// Chooses the rows. Each stage of a pipeline that was typed gets one, since its number is its place. With
/// `all`, so does each command of a script, also if it took little of the time.
pub fn choose(run: &Run, verdict: &Verdict, all: bool) -> ShownRows {
    let named = |position| {
        let culprit = verdict.culprit.as_ref();
        culprit.is_some_and(|c| c.stage == position || c.next_stage == Some(position))
    };
    let minor: Vec<bool> = (0..run.stages.len())
        .map(|at| !all && run.stages.len() > FEW && is_minor(run, at))
        .collect();
    let little = |(at, stage): &(usize, &Stage)| {
        run.script && !named(*at) && (has_no_figure(stage) || minor[*at])
    };
    let (folded, shown): (Vec<_>, Vec<_>) = run.stages.iter().enumerate().partition(little);
    let brief = folded.iter().all(|(_, stage)| has_no_figure(stage));
    let shown: Vec<usize> = shown.into_iter().map(|(position, _)| position).collect();
    // The line would take as much room as a single row.
    if folded.len() < 2 {
        return ShownRows { shown: (0..run.stages.len()).collect(), folded: None };
    }
    let folded: Vec<&Stage> = folded.into_iter().map(|(_, stage)| stage).collect();
    let why = if brief { "too short to measure" } else { "which took little of the time" };
    let mut sentence = sentence(&folded, why);
    if let Some(started) = &run.started {
        let (mark, count) = (mark_word(started.evidence), started.processes);
        sentence.push_str(&format!("; the run started {mark}{count} processes in total"));
    }
    ShownRows { shown, folded: Some(sentence) }
}

/// Returns whether a stage belongs to a group that took little of the run.
fn is_minor(run: &Run, at: usize) -> bool {
    let of = |group: &&FoundGroup| {
        group.first_stage.is_some_and(|first| (first..first + group.run.stages.len()).contains(&at))
    };
    run.groups.iter().find(of).is_some_and(|group| run.share(group.own_ns()) < LITTLE)
}

fn has_no_figure(stage: &Stage) -> bool {
    let times = &stage.times;
    let parts = [times.cpu_ns, times.queue_ns, times.input_ns, times.output_ns, times.other_ns()];
    parts.into_iter().all(|ns| seconds(ns) == "-")
}

fn sentence(stages: &[&Stage], why: &str) -> String {
    let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
    for stage in stages {
        let name = Some(stage.program.as_str()).filter(|name| !name.is_empty());
        *programs.entry(name.unwrap_or("unnamed")).or_default() += stage.processes.max(1);
    }
    let count: u64 = programs.values().sum();
    let programs = words::programs(programs.into_iter().collect());
    format!("and {count} more commands, {why}: {programs}")
}
