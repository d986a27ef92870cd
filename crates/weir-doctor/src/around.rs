//! Causes that took CPU time from the run: a quota, other processes, a hypervisor.

use crate::facts::{MemoryLimit, Quota, Run, Stage};
use alloc::vec::Vec;

/// A quota that throttled the run in fewer of its periods was not decisive.
const THROTTLED: f64 = 0.25;
/// Fewer periods than this are not evidence.
const ENOUGH_PERIODS: u64 = 3;
/// CPU use of other processes below this is not mentioned.
const MUCH_CPUS: f64 = 0.25;
/// Waiting for a CPU for less than this share of the run, all stages together, is not mentioned.
const QUEUED: f64 = 0.10;
/// Others are named where the stages waited for a CPU for this share of the run, all together,
const LOSS: f64 = 0.20;
/// and for this long: whoever has one host can do nothing about a smaller loss.
const LOSS_NS: u64 = 300_000_000;
/// Fewer idle CPUs than this count as none.
const NONE_IDLE: f64 = 0.25;

/// A cause that took CPU time from the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CpuCause {
    /// A quota of this many CPUs throttled the run in this share of the periods.
    Throttled {
        /// The quota.
        cpus: f64,
        /// The share of its periods.
        share: f64,
    },
    /// Other processes used this many CPUs.
    Others(f64),
    /// The hypervisor took this many CPUs away.
    Steal(f64),
    /// The run's own stages filled the CPUs it may use.
    Full,
}

/// Fewer page faults that read from a disk or swap are no reason.
const MANY_FAULTS: u64 = 100;
/// Fewer of them in a second neither. A disk with heads reads a hundred pages in a second, and a busy
/// host was seen to take 6 ms for one.
const OFTEN_FAULTS: f64 = 20.0;

/// Returns the quota that throttled the run repeatedly, if any, with the share of the periods.
pub(crate) fn throttled(run: &Run) -> Option<(&Quota, f64)> {
    throttles(run.quota.as_ref()?)
}

fn throttles(quota: &Quota) -> Option<(&Quota, f64)> {
    let share = quota.throttled_periods as f64 / quota.periods.max(1) as f64;
    (quota.periods >= ENOUGH_PERIODS && share >= THROTTLED).then_some((quota, share.min(1.0)))
}

/// Whether the quota of a stage's own control group withheld most of the time that it waited for a CPU.
pub(crate) fn throttled_alone(stage: &Stage) -> bool {
    let decisive = stage.quota.as_ref().and_then(|of| throttles(&of.quota));
    decisive.is_some_and(|(quota, _)| quota.throttled_ns >= stage.times.queue_ns / 2)
}

/// Pages for which a stage waited again and again, since they were not in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Pages {
    /// The limit of memory that had taken them away, if one was reached.
    pub limit: Option<MemoryLimit>,
    /// The number of its reads.
    pub faults: u64,
    /// The share of the run in which tasks of the host waited for memory, if it was large.
    pub pressure: Option<f64>,
    /// Whether the host read as many pages from swap.
    pub swapped: bool,
}

impl Pages {
    /// Whether memory was too small for them; else they were read for the first time.
    pub fn lacks_memory(&self) -> bool {
        self.limit.is_some() || self.swapped
    }
}

/// Less time in which tasks of the host waited for memory is not mentioned.
const PRESSURE: f64 = 0.10;

/// Returns the pages with whose reading a stage was mostly busy: it waits for the disk then or, at a limit
/// and where the disk is fast, computes in the kernel.
pub(crate) fn pages(run: &Run, stage: &Stage) -> Option<Pages> {
    let limits = [stage.memory_limit.as_ref(), run.memory_limit.as_ref()];
    let limit = limits.into_iter().flatten().find(|limit| limit.times_reached > 0).cloned();
    let faults = stage.major_faults.filter(|faults| *faults >= MANY_FAULTS)?;
    let often = faults as f64 >= OFTEN_FAULTS * stage.wall_ns as f64 / 1e9;
    // Without a limit the kernel may compute for something else.
    let in_kernel_ns = if limit.is_some() { stage.system_ns.min(stage.times.cpu_ns) } else { 0 };
    let most = (stage.times.disk_ns + in_kernel_ns) * 2 > stage.times.busy_ns();
    let pressure = run.host.memory_pressure.filter(|share| *share >= PRESSURE);
    let swapped = run.host.swapped_in_pages.is_some_and(|pages| pages >= faults);
    (often && most).then_some(Pages { limit, faults, pressure, swapped })
}

/// Whether the run had no CPU time left: then more work at once does not help.
pub(crate) fn is_short_of_cpu(run: &Run) -> bool {
    let none_idle = run.host.idle_cpus.is_some_and(|idle| idle < NONE_IDLE);
    throttled(run).is_some() || (none_idle && queued(run) >= QUEUED)
}

/// Whether other processes took CPU time for which the run waited.
pub(crate) fn is_crowded(run: &Run) -> bool {
    let others = run.host.others_cpus.unwrap_or(0.0) + run.host.steal_cpus.unwrap_or(0.0);
    others >= MUCH_CPUS && queued(run) >= QUEUED
}

/// Returns the time that all stages together waited for a CPU, as a share of the run. What the quota of
/// its own group withheld from a stage is not among it.
pub(crate) fn queued(run: &Run) -> f64 {
    run.share(queued_ns(run))
}

/// Returns the time that all stages together waited for a CPU, without what the quotas of their own
/// groups withheld.
pub(crate) fn queued_ns(run: &Run) -> u64 {
    let free = run.stages.iter().filter(|stage| !throttled_alone(stage));
    free.map(|stage| stage.times.queue_ns).sum()
}

/// Returns the CPU use of other processes and the hypervisor, if it was large.
fn others(run: &Run) -> impl Iterator<Item = CpuCause> {
    let much = |used: Option<f64>| used.filter(|used| *used >= MUCH_CPUS);
    let others = much(run.host.others_cpus).map(CpuCause::Others);
    others.into_iter().chain(much(run.host.steal_cpus).map(CpuCause::Steal))
}

/// Returns what others used of the CPUs, where the run lost so much by it that it is worth a word.
pub(crate) fn beside(run: &Run) -> Vec<CpuCause> {
    let worth = queued(run) >= LOSS && queued_ns(run) >= LOSS_NS;
    others(run).filter(|_| worth).collect()
}

/// Returns the cause of waits for a CPU: the quota, others, or the run's own stages, which filled
/// the CPUs.
pub(crate) fn explain(run: &Run) -> Vec<CpuCause> {
    let quota =
        throttled(run).map(|(quota, share)| CpuCause::Throttled { cpus: quota.cpus, share });
    let mut found: Vec<CpuCause> = quota.into_iter().collect();
    found.extend(beside(run));
    if found.is_empty() && cpus_full(run) {
        found.push(CpuCause::Full);
    }
    found
}

/// Whether the run itself filled all CPUs it may use for nearly the whole time.
pub(crate) fn cpus_full(run: &Run) -> bool {
    run.cpu_sum_ns() as f64 >= 0.85 * run.usable_cpus() * run.wall_ns as f64
}
