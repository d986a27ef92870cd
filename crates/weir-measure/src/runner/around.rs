//! The surroundings of a run: what other processes do with the CPUs, the quota, and the limit of memory.

use crate::confines::{GroupMemory, own_memory, reached_between};
use crate::host_cpu::{HostCpu, pressure_us};
use crate::machine;
use crate::oom;
use crate::quota::{self, EachLimits, GroupQuota};
use weir_doctor::ending::MemoryKills;
use weir_doctor::facts::{Host, Run};
use weir_sys::Pid;
use weir_sys::proc::{HostFile, number};

/// The kernel counts in ticks of 10 ms, which is too coarse for runs shorter than this.
const SHORTEST_NS: u64 = 200_000_000;

/// The counters before the run.
#[derive(Debug)]
pub(super) struct RunSurroundings {
    cpus: Option<HostCpu>,
    limits: Vec<GroupQuota>,
    memory: Vec<GroupMemory>,
    /// The host's memory: microseconds in which some task waited for it, and pages read from swap.
    pressure: (Option<u64>, Option<u64>),
    /// Processes killed because memory had run out.
    kills: MemoryKills,
    /// The quotas of each process, where these ran already.
    each: Option<EachLimits>,
}

impl RunSurroundings {
    pub fn sample() -> RunSurroundings {
        let (limits, vmstat) = (quota::limits(), HostFile::VmStat.read());
        RunSurroundings {
            cpus: HostCpu::read_beside(&machine::allowed_cpus(), limits.clone()),
            limits,
            memory: own_memory(),
            pressure: pressure(&vmstat),
            kills: oom::kills(&vmstat),
            each: None,
        }
    }

    /// Looks at the surroundings of processes that run already.
    pub fn of(pids: impl Iterator<Item = Pid>) -> RunSurroundings {
        RunSurroundings { each: Some(EachLimits::of(pids)), ..RunSurroundings::sample() }
    }

    /// Sets what happened since. `unreaped_ns` of CPU time also belongs to the run, although nobody
    /// has waited for the processes that used it. `busiest`: the one that wanted the CPUs most, of
    /// those that ran already.
    pub fn set(&self, run: &mut Run, unreaped_ns: u64, busiest: Option<Pid>) {
        let mask = machine::allowed_cpus().len().max(1) as f64;
        let smallest = quota::smallest(&self.limits).unwrap_or(f64::INFINITY);
        run.cpus = mask.min(smallest).max(0.01);
        let vmstat = HostFile::VmStat.read();
        run.memory_kills = oom::kills_since(self.kills, &vmstat);
        let limits = quota::again(&self.limits);
        run.host = self.host(run.wall_ns, unreaped_ns, limits.clone(), &vmstat);
        let Some(each) = &self.each else {
            run.quota = quota::between(&self.limits, &limits);
            run.memory_limit = reached_between(&self.memory, &own_memory());
            return;
        };
        let limits = busiest.map_or_else(Vec::new, |pid| each.limits(pid));
        run.quota = quota::between(&limits, &quota::again(&limits));
        // Nobody tells what of the CPU time that others used was theirs, nor whether this process's
        // limit of memory is theirs.
        run.host.others_cpus = None;
    }

    fn host(&self, wall_ns: u64, unreaped_ns: u64, limits: Vec<GroupQuota>, vmstat: &str) -> Host {
        let allowed = machine::allowed_cpus();
        let mut host = Host {
            online_cpus: machine::online_cpus(),
            cpus: allowed.len() as u32,
            aes: machine::has_aes(),
            ..Host::default()
        };
        let now = HostCpu::read_beside(&allowed, limits);
        let used = self.cpus.as_ref().zip(now).and_then(|(then, now)| now.since(then));
        if let Some(used) = used.filter(|_| wall_ns >= SHORTEST_NS) {
            let unreaped = unreaped_ns as f64 / 1e9 / used.wall_s;
            host.others_cpus = Some((used.others_cpus - unreaped).max(0.0));
            host.idle_cpus = Some(used.idle_cpus);
            host.steal_cpus = Some(used.steal_cpus);
        }
        let (waited_us, swapped) = pressure(vmstat);
        let waited_us = waited_us.zip(self.pressure.0).map(|(now, then)| now.saturating_sub(then));
        let share = |us: u64| (us as f64 * 1e3 / wall_ns.max(1) as f64).min(1.0);
        host.memory_pressure = waited_us.map(share);
        let swapped = swapped.zip(self.pressure.1);
        host.swapped_in_pages = swapped.map(|(now, then)| now.saturating_sub(then));
        host
    }
}

/// Returns the microseconds in which some task of the host waited for memory, and the pages that were read
/// from swap, since the host was started.
fn pressure(vmstat: &str) -> (Option<u64>, Option<u64>) {
    (pressure_us(HostFile::MemoryPressure), number(vmstat, "pswpin"))
}
