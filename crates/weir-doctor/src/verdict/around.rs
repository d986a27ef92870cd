//! What was around the run and took its CPU time: a quota, other processes, a hypervisor.

use crate::facts::{Quota, Run};
use crate::limits::usable_cpus;
use crate::words;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A quota that stopped the run in fewer of its periods did not decide.
const THROTTLED: f64 = 0.25;
/// Fewer periods than this say nothing.
const ENOUGH_PERIODS: u64 = 3;
/// CPU use of others below this is not worth a sentence.
const MUCH_CPUS: f64 = 0.25;
/// Waiting for a CPU for less than this share of the run, all stages together, is not.
const QUEUED: f64 = 0.10;
/// With fewer idle CPUs than this there is none left to use.
const NONE_IDLE: f64 = 0.25;

/// The quota that stopped the run again and again, if one did, with the share of the periods.
pub(crate) fn throttled(run: &Run) -> Option<(&Quota, f64)> {
    let quota = run.quota.as_ref().filter(|quota| quota.periods >= ENOUGH_PERIODS)?;
    let share = quota.throttled_periods as f64 / quota.periods as f64;
    (share >= THROTTLED).then_some((quota, share.min(1.0)))
}

/// Whether the run had no CPU time left to use: nothing that lets more be done at once helps.
pub(crate) fn is_short_of_cpu(run: &Run) -> bool {
    let none_idle = run.host.idle_cpus.is_some_and(|idle| idle < NONE_IDLE);
    throttled(run).is_some() || (none_idle && queued(run) >= QUEUED)
}

/// Whether others took CPU time that the run waited for.
pub(crate) fn is_crowded(run: &Run) -> bool {
    let others = run.host.others_cpus.unwrap_or(0.0) + run.host.steal_cpus.unwrap_or(0.0);
    others >= MUCH_CPUS && queued(run) >= QUEUED
}

/// Time that all stages together waited for a CPU, as a share of the run.
pub(crate) fn queued(run: &Run) -> f64 {
    run.share(run.stages.iter().map(|stage| stage.times.queue_ns).sum())
}

/// `throttled by a CPU quota of 0.2 CPUs in 98 % of the periods`.
pub(crate) fn quota_words(quota: &Quota, share: f64) -> String {
    let (cpus, part) = (words::of_cpus(quota.cpus), words::percent(share));
    format!("throttled by a CPU quota of {cpus} in {part} of the periods")
}

/// What others took, each in a clause with its figure.
pub(crate) fn others_words(run: &Run) -> Vec<String> {
    let host = &run.host;
    let of = words::of_cpus(if host.cpus > 0 { f64::from(host.cpus) } else { run.cpus });
    let worth = |used: Option<f64>| used.filter(|used| *used >= MUCH_CPUS).map(words::cpus);
    let mut said = Vec::new();
    if let Some(used) = worth(host.others_cpus) {
        said.push(format!("other processes used {used} of {of}"));
    }
    if let Some(used) = worth(host.steal_cpus) {
        said.push(format!("the hypervisor took {used} of {of} away (steal)"));
    }
    said
}

/// What explains a wait for a CPU, a line each: the quota, others, or that the run's own stages
/// filled the CPUs.
pub(super) fn lines(run: &Run) -> Vec<String> {
    let mut lines: Vec<String> =
        throttled(run).map(|(quota, share)| quota_words(quota, share)).into_iter().collect();
    if queued(run) >= QUEUED {
        lines.extend(others_words(run));
    }
    if lines.is_empty() && cpus_full(run) {
        lines.push(full_words(run));
    }
    lines
}

/// Whether the run itself filled all CPUs it may use, all but for the whole time.
pub(crate) fn cpus_full(run: &Run) -> bool {
    run.cpu_sum_ns() as f64 >= 0.85 * usable_cpus(run) * run.wall_ns as f64
}

/// `the 2 CPUs were full`.
pub(super) fn full_words(run: &Run) -> String {
    match usable_cpus(run) {
        1.0 => String::from("the one CPU was full"),
        cpus => format!("the {} were full", words::of_cpus(cpus)),
    }
}
