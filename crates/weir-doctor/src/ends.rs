//! How the stages of a run, or its script, ended: the ends of which a report must speak.

use crate::command::Command;
use crate::ending::{Ending, Remark, remark};
use crate::facts::{Run, Stage};
use crate::failures::Role;
use alloc::vec::Vec;

/// How a stage, or a script, ended, where that needs saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndRemark {
    /// Position of the stage; `None`: a script that ran whole.
    pub stage: Option<usize>,
    /// What there is to say.
    pub remark: Remark,
    /// Whether no stage comes after it.
    pub is_last: bool,
}

/// Returns the remarks on how the stages of a run, or the script, ended. `command`: its text.
pub fn remarks(run: &Run, command: &str) -> Vec<EndRemark> {
    let of = |stage: Option<usize>, label: &str, end: Option<Ending>| {
        let interrupted =
            matches!(end, Some(Ending::Signal(number)) if run.signals.contains(&number));
        let remark = remark(label, end, interrupted, run.memory_kills)?;
        let is_last = stage.is_none_or(|at| at + 1 == run.stages.len());
        Some(EndRemark { stage, remark, is_last })
    };
    if run.script {
        // The status of several commands is not an answer of the first.
        let asked = if Command::read(command).is_some() { command } else { "" };
        return run.ending.and_then(|end| of(None, asked, Some(end))).into_iter().collect();
    }
    let known = |(at, stage): (usize, &Stage)| match &stage.failure {
        Some(_) => of(Some(at), &stage.label, None),
        None => of(Some(at), &stage.label, Some(stage.ending?)),
    };
    let found = run.stages.iter().enumerate().filter_map(known);
    found.chain(cut_off(run)).collect()
}

/// Returns the stage whose reader had what it wanted, if that alone makes the status of the run with
/// `pipefail` a failure.
fn cut_off(run: &Run) -> Option<EndRemark> {
    let ending = |at: &usize| run.stages[*at].ending.filter(|end| end.shell_status() != 0);
    let last = (0..run.stages.len()).rev().find(|at| ending(at).is_some())?;
    let is_cut = run.pipefail && ending(&last)?.is_broken_pipe() && last + 1 < run.stages.len();
    is_cut.then_some(EndRemark { stage: Some(last), remark: Remark::CutOff, is_last: false })
}

/// Whether a script failed, and nobody reported which of its commands did.
pub(crate) fn failed_unknown(run: &Run, ends: &[EndRemark]) -> bool {
    let is_grave = ends.iter().any(|end| end.remark.is_grave());
    let fails = run.ending.is_some_and(|ending| ending.shell_status() != 0);
    let is_known = run.has_all || run.failed.iter().any(|failed| failed.role != Role::Other);
    run.script && fails && is_grave && !is_known
}
