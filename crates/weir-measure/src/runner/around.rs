//! The surroundings of a run: what other processes do with the CPUs, the quota, and the limit of memory.

use crate::confines::{GroupMemory, own_memory, reached_between};
use crate::host_cpu::HostCpu;
use crate::machine;
use crate::quota::{self, GroupQuota};
use weir_doctor::facts::{Host, Run};

/// The kernel counts in ticks of 10 ms, which is too coarse for runs shorter than this.
const SHORTEST_NS: u64 = 200_000_000;

/// The counters before the run.
#[derive(Debug)]
pub(super) struct RunSurroundings {
    cpus: Option<HostCpu>,
    limits: Vec<GroupQuota>,
    memory: Vec<GroupMemory>,
}

impl RunSurroundings {
    pub fn look() -> RunSurroundings {
        RunSurroundings {
            cpus: HostCpu::read(&machine::allowed_cpus()),
            limits: quota::limits(),
            memory: own_memory(),
        }
    }

    /// Sets what happened since, in a run and its groups; `unreaped_ns` of CPU time also belongs to
    /// the run, although nobody has waited for the processes that used it.
    pub fn set(&self, run: &mut Run, unreaped_ns: u64) {
        run.host = self.host(run.wall_ns, unreaped_ns);
        run.quota = quota::between(&self.limits, &quota::limits());
        run.memory_limit = reached_between(&self.memory, &own_memory());
        for group in &mut run.groups {
            (group.run.host, group.run.quota) = (run.host, run.quota);
            group.run.memory_limit.clone_from(&run.memory_limit);
        }
    }

    fn host(&self, wall_ns: u64, unreaped_ns: u64) -> Host {
        let allowed = machine::allowed_cpus();
        let mut host = Host {
            online_cpus: machine::online_cpus(),
            cpus: allowed.len() as u32,
            aes: machine::has_aes(),
            ..Host::default()
        };
        let now = HostCpu::read(&allowed);
        let used = self.cpus.as_ref().zip(now).and_then(|(then, now)| now.since(then));
        if let Some(used) = used.filter(|_| wall_ns >= SHORTEST_NS) {
            let unreaped = unreaped_ns as f64 / 1e9 / used.wall_s;
            host.others_cpus = Some((used.others_cpus - unreaped).max(0.0));
            host.idle_cpus = Some(used.idle_cpus);
            host.steal_cpus = Some(used.steal_cpus);
        }
        host
    }
}
