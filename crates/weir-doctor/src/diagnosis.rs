//! All that is found about a run, in one value. A report prints it, and derives nothing.

use crate::advice::{self, Advised, Surroundings};
use crate::ends::{self, EndRemark};
use crate::facts::{Phase, Run};
use crate::groups::{self, GroupFinding, Inside, MoreJobs, Part};
use crate::verdict::{self, Verdict};
use alloc::vec::Vec;

/// All that is found about a run.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// What held the run up, and what was found about each stage.
    pub verdict: Verdict,
    /// The groups that took most of the run, the largest first, where these tell more than stages.
    pub parts: Vec<Part>,
    /// What was found about each group, in the order of [`Run::groups`].
    pub groups: Vec<GroupFinding>,
    /// What was found inside of the stage that held the run up.
    pub inside: Option<Inside>,
    /// Who held the run up when: stages of a pipeline, groups of a script.
    pub phases: Vec<Phase>,
    /// How stages, or the script, ended, where that needs saying.
    pub ends: Vec<EndRemark>,
    /// Whether a script failed, and nobody reported which of its commands did.
    pub failed_unknown: bool,
    /// Whether a build would gain by more jobs.
    pub jobs: Option<MoreJobs>,
    /// What would make the run faster, the largest gain first.
    pub advice: Vec<Advised>,
}

/// Finds out all about a run of this command.
pub fn diagnose(run: &Run, command: &str, around: &dyn Surroundings) -> Diagnosis {
    let found: Vec<GroupFinding> = run.groups.iter().map(GroupFinding::of).collect();
    let flat = verdict::judge(run);
    let parts = groups::parts(run);
    let whole = groups::whole(run, &parts, &found, &flat);
    let parts = if whole.is_some() { parts } else { Vec::new() };
    let verdict = whole.as_ref().unwrap_or(&flat);
    let refuted = || around.refuted();
    let advice = match parts.is_empty() || !run.script {
        true => advice::advise(run, verdict, &refuted),
        false => groups::advise(run, &parts, &found, &flat, &refuted),
    };
    let advised = |advice| Advised::of(run, command, advice, around);
    let ends = ends::remarks(run, command);
    Diagnosis {
        inside: if parts.is_empty() { groups::inside(run, verdict) } else { None },
        phases: if run.script { groups::phases(run) } else { run.phases.clone() },
        failed_unknown: ends::failed_unknown(run, &ends),
        ends,
        jobs: run.jobs.and_then(|jobs| groups::more_jobs(run, jobs)),
        advice: advice.into_iter().map(advised).collect(),
        verdict: whole.unwrap_or(flat),
        groups: found,
        parts,
    }
}
