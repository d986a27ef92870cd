//! Advice on the CPUs a run may use.

use super::{Advice, Gain, Kind};
use crate::facts::Run;
use crate::limits;
use crate::verdict::load::starting_share;
use crate::verdict::{around, is_held_from_outside};
use crate::words;
use alloc::format;
use alloc::string::String;

/// Waiting for a CPU for less than this share of the run is no reason.
const QUEUED: f64 = 0.10;

/// More CPU time, where stages waited for it, with what took it: a quota, others, or themselves.
pub(super) fn more_cpus(run: &Run) -> Option<Advice> {
    let queued = around::queued(run);
    let usable = limits::usable_cpus(run);
    let throttled = around::throttled(run);
    if throttled.is_none() && queued < QUEUED {
        return None;
    }
    // However many CPUs there are, who feeds the run or reads from it is no faster.
    if is_held_from_outside(run) {
        return None;
    }
    // What processes too short to be looked at need is not known, so there is no bound.
    if run.stages.iter().any(|stage| starting_share(run, stage).is_some()) {
        return None;
    }
    let waited = format!("stages waited {:.1} s for one", queued * run.wall_ns as f64 / 1e9);
    let (text, cpus) = if let Some((quota, share)) = throttled {
        let host = if run.host.cpus > 0 { f64::from(run.host.cpus) } else { 2.0 * usable };
        let why = around::quota_words(quota, share);
        (format!("a higher CPU quota: the run was {why}"), host.max(usable))
    } else if around::is_crowded(run) {
        let who = around::others_words(run).join(", ");
        (format!("run it when the host has less to do: {who}, and {waited}"), usable)
    } else if around::cpus_full(run) {
        let full = match usable {
            1.0 => String::from("the CPU it may use was full"),
            usable => format!("the {} it may use were full", words::of_cpus(usable)),
        };
        (format!("twice as many CPUs: {full}, and {waited}"), 2.0 * usable)
    } else {
        return None;
    };
    let gain = Gain::AtMost(limits::with_cpus(run, cpus));
    Some(Advice { kind: Kind::MoreCpus, stage: None, pipe: None, gain, text })
}
