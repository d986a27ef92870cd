//! All that is found about a run, in one value. A report prints it, and derives nothing.

use crate::advice::{self, Advised, Surroundings};
use crate::around::{self, CpuCause};
use crate::ends::{self, EndRemark};
use crate::facts::{Phase, Run};
use crate::groups::{self, Inside, MoreJobs, Part};
use crate::verdict::{self, Verdict};
use alloc::vec::Vec;

/// All that is found about a run.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// What held the run up.
    pub verdict: Verdict,
    /// The groups that took most of the run, the largest first, where these tell more than stages.
    pub parts: Vec<Part>,
    /// What held each group up, in the order of [`Run::groups`].
    pub groups: Vec<Verdict>,
    /// What was found inside of the stage that held the run up.
    pub inside: Option<Inside>,
    /// Who held the run up when: stages of a pipeline, groups of a script.
    pub phases: Vec<Phase>,
    /// How stages, or the script, ended, where that needs saying.
    pub ends: Vec<EndRemark>,
    /// Whether a script failed, and nobody reported which of its commands did.
    pub failed_unknown: bool,
    /// What others took of the CPUs, where the run lost much by it.
    pub beside: Vec<CpuCause>,
    /// Whether a build would gain by more jobs.
    pub jobs: Option<MoreJobs>,
    /// What would make the run faster, the largest gain first.
    pub advice: Vec<Advised>,
}

/// Finds out all about a run of this command.
pub fn diagnose(run: &Run, command: &str, around: &dyn Surroundings) -> Diagnosis {
    let parts = groups::parts(run);
    let whole = groups::whole(run, &parts);
    let parts = if whole.is_some() { parts } else { Vec::new() };
    let verdict = whole.unwrap_or_else(|| verdict::judge(run));
    let refuted = || around.refuted();
    let advice = match parts.is_empty() || !run.script {
        true => advice::advise(run, &verdict, &refuted),
        false => groups::advise(run, &parts, &refuted),
    };
    let advised = |advice| Advised::of(run, command, advice, around);
    let ends = ends::remarks(run, command);
    Diagnosis {
        groups: run.groups.iter().map(|group| verdict::judge(&group.run)).collect(),
        inside: if parts.is_empty() { groups::inside(run, &verdict) } else { None },
        phases: if run.script { groups::phases(run) } else { run.phases.clone() },
        failed_unknown: ends::failed_unknown(run, &ends),
        ends,
        beside: around::beside(run),
        jobs: run.jobs.and_then(|jobs| groups::more_jobs(run, jobs)),
        advice: advice.into_iter().map(advised).collect(),
        verdict,
        parts,
    }
}
