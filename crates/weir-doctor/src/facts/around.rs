//! The surroundings of a run: the host's CPUs, the quota, the processes it started, its peers.

use super::Evidence;
use alloc::string::String;
use alloc::vec::Vec;

/// What the CPUs that the run may use did meanwhile: averages over the run, in CPUs.
///
/// Measured by the kernel's clock ticks, so a figure is good to about 10 ms of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Host {
    /// CPUs of the host that are online.
    pub online_cpus: u32,
    /// CPUs that the run may use by its affinity mask; the following figures are sums over these.
    pub cpus: u32,
    /// Used by processes outside the run. `None` where `/proc/stat` cannot be read, and for runs
    /// too short to measure.
    pub others_cpus: Option<f64>,
    /// Idle, waiting for disks included.
    pub idle_cpus: Option<f64>,
    /// Taken away by the hypervisor for other virtual machines.
    pub steal_cpus: Option<f64>,
    /// The share of the run in which some task of the host waited for memory that had been taken away
    /// (`/proc/pressure/memory`), where the kernel counts it.
    pub memory_pressure: Option<f64>,
    /// Pages of memory that were read from swap meanwhile, on the whole host.
    pub swapped_in_pages: Option<u64>,
    /// Whether the CPUs have instructions for the cipher AES.
    pub aes: bool,
}

/// A program outside the run that used CPUs meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbour {
    /// Its name.
    pub program: String,
    /// The CPUs that its processes used, with those of the children that they waited for.
    pub cpus: f64,
}

/// A limit that a control group sets on the run's CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quota {
    /// CPUs that the limit allows, possibly a fraction.
    pub cpus: f64,
    /// Periods (of usually 100 ms) that passed during the run.
    pub periods: u64,
    /// Periods in which the group used up its quota and was throttled.
    pub throttled_periods: u64,
    /// Time that it was throttled during the run, summed over the CPUs.
    pub throttled_ns: u64,
}

/// The quota of a control group that a stage is in and the run is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupQuota {
    /// The group's name.
    pub group: String,
    /// Its quota, as long as the stage was in it.
    pub quota: Quota,
}

/// A control group's limit of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The group's name; empty for the topmost one that is seen here.
    pub group: String,
    /// The limit.
    pub limit_bytes: u64,
    /// How often it was reached meanwhile: then the kernel took pages away from the group.
    pub times_reached: u64,
}

/// Processes that a stage, or a run, started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Started {
    /// Their number.
    pub processes: u64,
    /// If `processes` is only a lower bound, the likely number: an estimate that may be wrong by
    /// several times. Else equal to `processes`.
    pub likely_processes: u64,
    /// How the number is known: exact, estimated or a lower bound.
    pub evidence: Evidence,
    /// Mean time from start to end of one process; sampled. An upper bound where their number is a
    /// lower bound. Of many, the longest of each program is left out.
    pub mean_life_ns: u64,
    /// Time in which at least one of them lived, as a share of the wall time of the stage or run;
    /// sampled.
    pub wall_share: f64,
    /// The programs they ran, the most frequent first, at most [`Started::MOST_PROGRAMS`].
    pub programs: Vec<Program>,
}

impl Started {
    /// Most programs that are named, the most frequent first.
    pub fn frequent(&self) -> impl Iterator<Item = &str> {
        /// A program is not named if fewer than one in this many processes ran it.
        const OFTEN: u64 = 10;
        let often = |program: &&Program| OFTEN * program.processes >= self.processes;
        self.programs.iter().filter(often).map(|program| program.name.as_str())
    }

    /// The number of programs that are distinguished.
    pub const MOST_PROGRAMS: usize = 8;

    /// Returns the most likely lifetime of one of them.
    pub fn likely_life_ns(&self) -> u64 {
        self.mean_life_ns.saturating_mul(self.processes) / self.likely_processes.max(1)
    }
}

/// A program among those that a stage started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its name, as the kernel truncates it (15 bytes).
    pub name: String,
    /// About how many of the processes ran it.
    pub processes: u64,
    /// Its share of the summed lifetimes of all the processes started; sampled.
    pub share: f64,
}
