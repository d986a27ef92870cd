//! Which stages of a run get a row. A script may start hundreds of commands that lived too briefly
//! for a single figure: these share one line.

use crate::units::seconds;
use std::collections::BTreeMap;
use weir_doctor::facts::{Evidence, Run, Stage};
use weir_doctor::verdict::Verdict;

/// At most this many folded commands are named.
const NAMED: usize = 4;

/// Which stages get rows, and what is said of the others.
pub struct Rows {
    /// Positions of the stages that get a row.
    pub shown: Vec<usize>,
    /// One line for the rest.
    pub folded: Option<String>,
}

/// Chooses the rows. Stages that were given all get one: their numbers are the pipeline's.
pub fn choose(run: &Run, verdict: &Verdict) -> Rows {
    let named = |position| {
        let culprit = verdict.culprit.as_ref();
        culprit.is_some_and(|c| c.stage == position || c.next_stage == Some(position))
    };
    let all = run.stages.iter().enumerate();
    let (folded, shown): (Vec<_>, Vec<_>) =
        all.partition(|(position, stage)| run.script && !named(*position) && has_no_figure(stage));
    let shown: Vec<usize> = shown.into_iter().map(|(position, _)| position).collect();
    // A single row needs no folding: the line would be no shorter.
    if folded.len() < 2 {
        return Rows { shown: (0..run.stages.len()).collect(), folded: None };
    }
    let folded: Vec<&Stage> = folded.into_iter().map(|(_, stage)| stage).collect();
    let mut sentence = sentence(&folded);
    if let Some(started) = &run.started {
        let (mark, count) = (mark_word(started.evidence), started.processes);
        sentence.push_str(&format!("; the run started {mark}{count} processes in total"));
    }
    Rows { shown, folded: Some(sentence) }
}

fn mark_word(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Exact => "",
        Evidence::LowerBound => "at least ",
        _ => "about ",
    }
}

fn has_no_figure(stage: &Stage) -> bool {
    let times = &stage.times;
    let parts = [times.cpu_ns, times.queue_ns, times.input_ns, times.output_ns, times.other_ns()];
    parts.into_iter().all(|ns| seconds(ns) == "-")
}

fn sentence(stages: &[&Stage]) -> String {
    let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
    for stage in stages {
        let name = Some(stage.program.as_str()).filter(|name| !name.is_empty());
        *programs.entry(name.unwrap_or("unnamed")).or_default() += stage.processes.max(1);
    }
    let count: u64 = programs.values().sum();
    let mut programs: Vec<(&str, u64)> = programs.into_iter().collect();
    programs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said = programs.iter().take(NAMED).map(|(name, count)| match count {
        1 => String::from(*name),
        count => format!("{name} (x{count})"),
    });
    let mut said = said.collect::<Vec<_>>().join(", ");
    if programs.len() > NAMED {
        said.push_str(", ...");
    }
    format!("and {count} more commands, too short to measure: {said}")
}
