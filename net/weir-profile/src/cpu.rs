//! The CPU time of a whole process as the kernel counts it, with which a profile is compared.

use super::row::seconds;
use serde::Serialize;
use weir_sys::Pid;
use weir_sys::cpu::{process_ns, ticks_ns};
use weir_sys::proc::{ProcContents, ProcDir, Sched, Stat, tasks};

/// CPU time of all threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// CPU time: exact, including threads that have ended (clock_getcpuclockid(3)).
    #[serde(rename = "cpu_s", serialize_with = "seconds")]
    pub total_ns: u64,
    /// In user mode, to a clock tick (`utime` of `/proc/PID/stat`).
    #[serde(rename = "user_s", serialize_with = "seconds")]
    pub user_ns: u64,
    /// In the kernel, to a clock tick (`stime` of `/proc/PID/stat`).
    #[serde(rename = "sys_s", serialize_with = "seconds")]
    pub system_ns: u64,
    /// Time ready to run without a CPU: of existing threads only (`/proc/PID/task/TID/schedstat`).
    #[serde(rename = "runq_s", serialize_with = "seconds")]
    pub queue_ns: u64,
}

impl Cpu {
    /// Reads it for the process with this id and start time (clock ticks since boot). `None` when
    /// it has ended, even if nobody has reaped it yet.
    pub fn of(pid: Pid, started_ticks: u64) -> Option<Cpu> {
        let stat = Stat::of(pid).filter(|stat| stat.is_still(started_ticks))?;
        let total_ns = process_ns(pid)?;
        let mut queue_ns = 0;
        for task in tasks(pid) {
            // A thread that has just ended has no file.
            queue_ns += sched_of(pid, task).map_or(0, |sched| sched.queue_ns);
        }
        Some(Cpu {
            total_ns,
            user_ns: ticks_ns(stat.own_ticks.saturating_sub(stat.system_ticks)),
            system_ns: ticks_ns(stat.system_ticks),
            queue_ns,
        })
    }

    /// Returns what was used since `before`.
    pub fn since(self, before: Cpu) -> Cpu {
        self.with(before, u64::saturating_sub)
    }

    /// Returns the sums of both.
    pub fn plus(self, other: Cpu) -> Cpu {
        self.with(other, u64::saturating_add)
    }

    fn with(self, other: Cpu, of_both: fn(u64, u64) -> u64) -> Cpu {
        Cpu {
            total_ns: of_both(self.total_ns, other.total_ns),
            user_ns: of_both(self.user_ns, other.user_ns),
            system_ns: of_both(self.system_ns, other.system_ns),
            queue_ns: of_both(self.queue_ns, other.queue_ns),
        }
    }
}

fn sched_of(pid: Pid, task: Pid) -> Option<Sched> {
    Sched::of(ProcDir::Thread(pid, task))
}

/// Returns the CPU time of a thread of a process. A thread that runs may have used more by then, up
/// to a clock tick.
pub fn task_ns(pid: Pid, task: u64) -> Option<u64> {
    Some(sched_of(pid, Pid::try_from(task).ok()?)?.cpu_ns)
}

/// Returns the start time of a process in clock ticks since boot, which with its id identifies it.
pub fn started_ticks(pid: Pid) -> Option<u64> {
    Some(Stat::of(pid)?.started_ticks)
}
