//! The CPU time of a whole process, as the kernel counts it: what a profile is held against.

use super::row::seconds;
use serde::Serialize;
use weir_sys::Pid;
use weir_sys::cpu::process_ns;
use weir_sys::proc::{Sched, Stat, read_small, tasks};

/// CPU time of a process, all its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// On a CPU: exact, threads that ended included (clock_getcpuclockid(3)).
    #[serde(rename = "cpu_s", serialize_with = "seconds")]
    pub total_ns: u64,
    /// In user mode, to a clock tick (`utime` of `/proc/PID/stat`).
    #[serde(rename = "user_s", serialize_with = "seconds")]
    pub user_ns: u64,
    /// In the kernel, to a clock tick (`stime` of `/proc/PID/stat`).
    #[serde(rename = "sys_s", serialize_with = "seconds")]
    pub system_ns: u64,
    /// Ready to run and without a CPU: of the threads there are (`/proc/PID/task/TID/schedstat`).
    #[serde(rename = "runq_s", serialize_with = "seconds")]
    pub queue_ns: u64,
}

impl Cpu {
    /// Of the process that has this number and began then (clock ticks since the machine did).
    /// `None` when it is gone, be it that nobody has reaped it yet.
    pub fn of(pid: Pid, started_ticks: u64) -> Option<Cpu> {
        let stat = stat(pid)?;
        if stat.started_ticks != started_ticks || matches!(stat.state, b'Z' | b'X') {
            return None;
        }
        let total_ns = process_ns(pid)?;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let mut queue_ns = 0;
        for task in tasks(pid) {
            let mut buffer = [0; 128];
            let text = read_small(&format!("/proc/{pid}/task/{task}/schedstat"), &mut buffer);
            // A thread that has just ended has none.
            queue_ns += text.ok().and_then(Sched::parse).map_or(0, |sched| sched.queue_ns);
        }
        Some(Cpu {
            total_ns,
            user_ns: stat.own_ticks.saturating_sub(stat.system_ticks) * tick_ns,
            system_ns: stat.system_ticks * tick_ns,
            queue_ns,
        })
    }

    /// What was used since `before`.
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu {
            total_ns: self.total_ns.saturating_sub(before.total_ns),
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            queue_ns: self.queue_ns.saturating_sub(before.queue_ns),
        }
    }

    /// Both together.
    pub fn plus(self, other: Cpu) -> Cpu {
        Cpu {
            total_ns: self.total_ns.saturating_add(other.total_ns),
            user_ns: self.user_ns.saturating_add(other.user_ns),
            system_ns: self.system_ns.saturating_add(other.system_ns),
            queue_ns: self.queue_ns.saturating_add(other.queue_ns),
        }
    }
}

/// When a process began, in clock ticks since the machine did; with its number that is its
/// identity.
pub fn started_ticks(pid: Pid) -> Option<u64> {
    Some(stat(pid)?.started_ticks)
}

fn stat(pid: Pid) -> Option<Stat> {
    let mut buffer = [0; 1024];
    Stat::parse(read_small(&format!("/proc/{pid}/stat"), &mut buffer).ok()?)
}
