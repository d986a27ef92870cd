//! A group of tasks that is accounted as one: a stage, or one process found in a script.

use super::births::Births;
use super::classify::Endpoints;
use super::peers::Peers;
use std::collections::BTreeMap;
use weir_doctor::facts::Io;
use weir_doctor::partition::Samples;
use weir_doctor::state::State;
use weir_sys::Pid;
use weir_sys::proc::Sched;

/// CPU time and bytes of processes that nobody has waited for, as last seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unreaped {
    /// Number of processes.
    pub processes: u64,
    /// Their CPU time.
    pub cpu_ns: u64,
    /// System part of it.
    pub system_ns: u64,
    /// What they read and wrote.
    pub io: Io,
}

impl Unreaped {
    /// Adds other processes.
    pub fn add(&mut self, other: Unreaped) {
        self.processes += other.processes;
        self.cpu_ns += other.cpu_ns;
        self.system_ns += other.system_ns;
        self.io = self.io.plus(other.io);
    }
}

/// What was seen of a group so far.
#[derive(Debug, Default)]
pub struct Group {
    /// The process it started with.
    pub root: Pid,
    /// The group whose process started it, if it was found and not given.
    pub parent: Option<usize>,
    /// Its input and output.
    pub ends: Endpoints,
    /// Samples of its state.
    pub samples: Samples,
    /// Most tasks it was seen to have at once.
    pub most_tasks: usize,
    /// Time in which it was seen with several tasks.
    pub several_ns: u64,
    /// State at the last look, `None` before the first.
    pub now: Option<State>,
    /// CPU and waiting time of its tasks that are gone, as last seen.
    pub gone: Sched,
    /// CPU time seen, by program name.
    pub programs: BTreeMap<String, u64>,
    /// Name of the program of the process it started with, when last seen.
    pub program: String,
    /// Arguments of that process.
    pub command: String,
    /// The program and the arguments it started with, as first seen: a shell often replaces itself
    /// by the last command of a script.
    pub first: (String, String),
    /// Locale of that process, unless C.
    pub locale: Option<String>,
    /// Peak memory of any one of its processes, as sampled.
    pub peak_rss_bytes: u64,
    /// Bytes and calls of the process it started with, when last seen.
    pub io: Option<Io>,
    /// Share of system time in the CPU time of that process, in parts of a thousand.
    pub system_permille: u64,
    /// What its processes used that nobody has waited for: the kernel's sums lack them.
    pub unreaped: Unreaped,
    /// Some of its processes may be such, or not.
    pub perhaps_unreaped: bool,
    /// The processes that it started, with all they started in turn; where each process is a
    /// group of its own, only those that this one started itself.
    pub births: Births,
    /// Whom it waited for on sockets.
    pub peers: Peers,
    /// How often it was found asleep after something else.
    pub times_asleep: u64,
    /// Some task's state could not be read.
    pub hidden: bool,
    /// Some task moved bytes by calls that the kernel does not count.
    pub uncounted: bool,
    /// It was stopped by job control.
    pub stopped: bool,
    /// It has ended: its tasks are looked at no more.
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

    /// CPU time that the kernel's sums of what was waited for lack.
    pub fn unreaped_ns(&self) -> u64 {
        self.unreaped.cpu_ns
    }

    /// Whether it was ever seen with several tasks.
    pub fn several(&self) -> bool {
        self.most_tasks > 1
    }

    /// The program that used most CPU in it, or else the one it started with.
    pub fn top_program(&self) -> &str {
        let top = self.programs.iter().max_by_key(|(_, cpu_ns)| **cpu_ns);
        top.filter(|(_, cpu_ns)| **cpu_ns > 0).map_or(&self.program, |(name, _)| name)
    }
}
