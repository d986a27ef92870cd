//! Advice on the CPUs a run may use.

use super::{Advice, AdviceKind, Gain};
use crate::around;
use crate::facts::Run;
use crate::limits;
use crate::load::starting_share;
use crate::verdict::is_held_from_outside;

/// Waiting for a CPU for less than this share of the run is no reason for advice.
const QUEUED: f64 = 0.10;

/// Why there were too few CPUs for a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scarcity {
    /// A quota of this many CPUs throttled it in this share of the periods.
    Quota(f64, f64),
    /// Other processes used them.
    Crowded,
    /// The run itself filled all the CPUs it may use.
    Full,
}

/// Returns why stages waited for a CPU: a quota, other processes, or themselves.
pub fn scarcity(run: &Run) -> Option<Scarcity> {
    if let Some((quota, share)) = around::throttled(run) {
        return Some(Scarcity::Quota(quota.cpus, share));
    }
    let queued = around::queued(run) >= QUEUED;
    if queued && around::is_crowded(run) {
        return Some(Scarcity::Crowded);
    }
    (queued && around::cpus_full(run)).then_some(Scarcity::Full)
}

/// Advises more CPU time, if stages waited for it.
pub(super) fn more_cpus(run: &Run) -> Option<Advice> {
    let scarcity = scarcity(run)?;
    // More CPUs make the run's source and its reader no faster.
    if is_held_from_outside(run) {
        return None;
    }
    // Processes too short-lived for samples have unknown needs, so there is no bound.
    if run.stages.iter().any(|stage| starting_share(run, stage).is_some()) {
        return None;
    }
    let usable = run.usable_cpus();
    let cpus = match scarcity {
        Scarcity::Quota(..) if run.host.cpus > 0 => f64::from(run.host.cpus).max(usable),
        Scarcity::Quota(..) | Scarcity::Full => 2.0 * usable,
        Scarcity::Crowded => usable,
    };
    let gain = Gain::AtMost(limits::with_cpus(run, cpus));
    Some(Advice { kind: AdviceKind::MoreCpus, stage: None, pipe: None, gain })
}
