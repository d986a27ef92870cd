//! A group of tasks accounted together: a stage, or one process found in a script.

use super::births::Births;
use super::classify::Endpoints;
use super::files::Files;
use super::outside::Peers;
use super::process::Unreaped;
use std::collections::BTreeMap;
use weir_doctor::facts::Io;
use weir_doctor::partition::Samples;
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::proc::Sched;

/// The sums over a group so far.
#[derive(Debug, Default)]
pub struct Group {
    /// The process it started with.
    pub root: Pid,
    /// The group that started it, if it was found and not given.
    pub parent: Option<usize>,
    /// Its input and output.
    pub ends: Endpoints,
    /// Samples of its state.
    pub samples: Samples,
    /// Most tasks seen at the same time.
    pub most_tasks: usize,
    /// Time in which it had several tasks.
    pub several_ns: u64,
    /// State at the last look, `None` before the first.
    pub now: Option<TaskState>,
    /// CPU and waiting time of its ended tasks, as of the last look.
    pub gone: Sched,
    /// CPU time sampled, by program name.
    pub programs: BTreeMap<String, u64>,
    /// Last known name of the first process's program.
    pub program: String,
    /// Arguments of that process.
    pub command: String,
    /// The program and the arguments of the first process when first seen: a shell often replaces
    /// itself by the last command of a script.
    pub first: (String, String),
    /// Locale of that process, unless C.
    pub locale: Option<String>,
    /// Peak memory of any one of its processes, sampled.
    pub peak_rss_bytes: u64,
    /// Last known bytes and calls of the first process.
    pub io: Option<Io>,
    /// Share of system time in the CPU time of that process, in parts of a thousand.
    pub system_permille: u64,
    /// What those of its processes used for which nobody has waited: the kernel's sums lack it.
    pub unreaped: Unreaped,
    /// Whether some of its processes may be among these, which is unknown.
    pub perhaps_unreaped: bool,
    /// The processes that it started, with their descendants. Where each process is a group of its
    /// own, only those that this one started itself.
    pub births: Births,
    /// The peers for which it waited on sockets.
    pub peers: Peers,
    /// The files and devices for which it waited.
    pub files: Files,
    /// How often it was found asleep after another state.
    pub times_asleep: u64,
    /// Whether some task's state could not be read.
    pub hidden: bool,
    /// Whether some task moved bytes by calls that the kernel does not count.
    pub uncounted: bool,
    /// Whether some program of it can do so, `None` where no program's file could be read.
    pub may_splice: Option<bool>,
    /// How far its processes came in the files that they read.
    pub position_bytes: u64,
    /// Whether it was stopped by job control.
    pub stopped: bool,
    /// Whether it has ended: its tasks are no longer sampled.
    pub ended: bool,
    /// When it was first seen.
    pub first_ns: u64,
    /// When it was last seen.
    pub last_ns: u64,
}

impl Group {
    /// A group that starts with process `root` at `now_ns`.
    pub fn new(root: Pid, ends: Endpoints, now_ns: u64) -> Group {
        Group { root, ends, first_ns: now_ns, last_ns: now_ns, ..Group::default() }
    }

    /// Returns the CPU time that the kernel's sums for reaped processes lack.
    pub fn unreaped_ns(&self) -> u64 {
        self.unreaped.cpu_ns
    }

    /// Whether it was ever seen with several tasks.
    pub fn several(&self) -> bool {
        self.most_tasks > 1
    }

    /// Returns the program that used most CPU in it, or else its first one.
    pub fn top_program(&self) -> &str {
        let top = self.programs.iter().max_by_key(|(_, cpu_ns)| **cpu_ns);
        top.filter(|(_, cpu_ns)| **cpu_ns > 0).map_or(&self.program, |(name, _)| name)
    }
}
