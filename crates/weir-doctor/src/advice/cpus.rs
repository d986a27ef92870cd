//! Advice on the CPUs a run may use.

use super::{Advice, AdviceKind, Gain};
use crate::around;
use crate::facts::{GroupQuota, Run};
use crate::limits::{self, are_tiny};
use crate::verdict::{Bottleneck, BusyReason, Verdict, is_held_from_outside};

/// Waiting for a CPU for less than this share of the run is no reason for advice.
const QUEUED: f64 = 0.10;
/// A run that filled its CPUs had work for more of them at once while its stages waited for a CPU.
/// They must have waited for this share of the run, all together: below it, two CPUs in place of one
/// gained nothing on most pipelines (docs/design/advice.md).
const WORK_FOR_MORE: f64 = 0.80;

/// Why there were too few CPUs for a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Scarcity {
    /// A quota of this many CPUs throttled it in this share of the periods.
    Quota(f64, f64),
    /// The quota of its own control group withheld them from a stage.
    Group(GroupQuota),
    /// The run itself filled all the CPUs it may use, and its stages waited for so long.
    Full(u64),
}

/// Returns why stages waited for a CPU: a quota, or themselves. What others take is a fact of the
/// verdict: nothing that is typed changes it.
pub(super) fn scarcity(run: &Run) -> Option<Scarcity> {
    if let Some((quota, share)) = around::throttled(run) {
        return Some(Scarcity::Quota(quota.cpus, share));
    }
    let queued = around::queued(run) >= QUEUED && !around::is_crowded(run);
    (queued && around::cpus_full(run)).then(|| Scarcity::Full(around::queued_ns(run)))
}

/// Advises more CPU time, if stages waited for it.
pub(super) fn more_cpus(run: &Run, verdict: &Verdict) -> Option<Advice> {
    let is_full = matches!(scarcity(run)?, Scarcity::Full(_));
    // More CPUs make the run's source and its reader no faster.
    if is_held_from_outside(run, &verdict.stages) {
        return None;
    }
    // Processes too short-lived for samples have unknown needs, so there is no bound.
    if verdict.stages.iter().any(|stage| stage.starting.is_some()) {
        return None;
    }
    // A stage of one task uses one CPU, and a sort that has read all its input works alone: CPU
    // time does not show that a further CPU would have had work.
    let none_waits = is_full && around::queued(run) < WORK_FOR_MORE;
    // Stages on two CPUs that wake each other for every few bytes lose what the second one gains.
    let none_gains = is_full && passes_tiny_pieces(run);
    if none_waits || none_gains {
        return None;
    }
    let usable = run.usable_cpus();
    let cpus = match is_full || run.host.cpus == 0 {
        true => 2.0 * usable,
        false => f64::from(run.host.cpus).max(usable),
    };
    let gain = Gain::AtMost(limits::with_cpus(run, cpus));
    Some(Advice { kind: AdviceKind::MoreCpus, stage: None, pipe: None, gain })
}

/// Advises a higher quota for the control group of the stage that it held up.
pub(super) fn higher_quota(run: &Run, verdict: &Verdict, culprit: &Bottleneck) -> Option<Advice> {
    let throttled = verdict.stages.get(culprit.stage)?.throttled;
    let gain = Gain::AtMost(limits::with_cpus(run, run.usable_cpus()));
    let is_reason = throttled && culprit.reason == BusyReason::Quota;
    let stage = Some(culprit.stage);
    is_reason.then_some(Advice { kind: AdviceKind::MoreCpus, stage, pipe: None, gain })
}

/// Whether the stages pass tiny pieces to each other.
fn passes_tiny_pieces(run: &Run) -> bool {
    run.pipes.iter().filter_map(|pipe| run.stages.get(pipe.from)).any(|writer| {
        let io = writer.io.unwrap_or_default();
        are_tiny(io.write_calls, io.write_bytes)
    })
}
