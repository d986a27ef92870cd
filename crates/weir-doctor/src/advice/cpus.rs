//! Advice on the CPUs a run may use.

use super::{Advice, Gain, Kind};
use crate::around;
use crate::facts::Run;
use crate::limits;
use crate::load::starting_share;
use crate::verdict::is_held_from_outside;

/// Waiting for a CPU for less than this share of the run is no reason.
const QUEUED: f64 = 0.10;

/// Why there were too few CPUs for a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scarcity {
    /// A quota of so many CPUs stopped it in this share of the periods.
    Quota(f64, f64),
    /// Others used them.
    Crowded,
    /// It filled all it may use.
    Full,
}

/// Why stages waited for a CPU: a quota, others, or themselves.
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

/// More CPU time, where stages waited for it.
pub(super) fn more_cpus(run: &Run) -> Option<Advice> {
    let scarcity = scarcity(run)?;
    // However many CPUs there are, who feeds the run or reads from it is no faster.
    if is_held_from_outside(run) {
        return None;
    }
    // What processes too short to be looked at need is not known, so there is no bound.
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
    Some(Advice { kind: Kind::MoreCpus, stage: None, pipe: None, gain })
}
