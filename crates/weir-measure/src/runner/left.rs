//! What a stage leaves running: after its end, processes that it started may still have the pipe
//! behind it open, and the next stage waits for all of them.

use crate::cgroup::other_groups;
use weir_doctor::facts::LeftProcess;
use weir_sys::Pid;
use weir_sys::proc::{
    Descriptor, ProcContents, Stat, access, ancestors, descriptor, descriptors, processes, words,
};

/// A reader whose writer has left the pipe open is told of if it continues for this time, and for a
/// tenth of the run.
pub(super) const LEFT_NS: u64 = 100_000_000;
/// Most processes, and most descriptors of each, that are looked at.
const MOST_PROCESSES: usize = 256;
const MOST_DESCRIPTORS: usize = 256;
/// How often who has the pipe open is looked for.
const LOOKS: u32 = 3;

/// The processes that a stage left running when it ended.
#[derive(Debug, Default)]
pub(super) struct LeftBehind {
    /// Those that samples had met.
    sampled: Vec<Pid>,
    /// The arguments of the stage's first process: copies of it have the same.
    first: String,
    looks: u32,
    /// Whether it is known that the one that was found has ended.
    is_over: bool,
    /// The one that has the pipe open, once it was found; that which had it for longest, of several.
    pub process: Option<LeftProcess>,
}

impl LeftBehind {
    /// Creates an account of what a stage left whose first process had these arguments.
    pub fn new(sampled: Vec<Pid>, first: String) -> LeftBehind {
        LeftBehind { sampled, first, ..LeftBehind::default() }
    }

    /// Whether it is time to look for who has the pipe open: a while after the end, since just after it
    /// a process may not have become what it will be; and when the one that had it open has ended, since
    /// it was not the last one then.
    pub fn is_due(&mut self, since_ns: u64) -> bool {
        let ended =
            |process: &LeftProcess| Stat::of(process.pid).is_none_or(|stat| stat.has_ended());
        let has_ended = self.process.as_ref().map(ended);
        if has_ended == Some(true) && !self.is_over {
            (self.looks, self.is_over) = (0, true);
        }
        let is_open = has_ended != Some(false) && self.looks < LOOKS;
        is_open && since_ns >= LEFT_NS * (u64::from(self.looks) + 1)
    }

    /// Looks for who has the pipe open, also among these.
    pub fn sample(&mut self, others: Vec<Pid>, pipe: &Descriptor) {
        self.looks += 1;
        let mut pids: Vec<Pid> = self.sampled.iter().copied().chain(others).collect();
        pids.sort_by_key(|pid| *pid);
        pids.dedup();
        if let Some(found) = holder(&pids, pipe, &self.first) {
            (self.process, self.is_over) = (Some(found), false);
        }
    }
}

/// Whether a process was started by this one, or by one that was.
pub(super) fn is_below(pid: Pid) -> bool {
    let own = std::process::id() as Pid;
    ancestors(pid).any(|above| above == own)
}

/// Whether a process that has something of this run open was left running: it started while the run
/// lasted, and has nobody of the run above it.
pub(super) fn is_stray(pid: Pid) -> bool {
    let started = |pid: Pid| Stat::of(pid).map(|stat| stat.started_ticks);
    let is_new = started(pid) >= started(std::process::id() as Pid);
    // A service that was asked to start something is in a group of its own.
    is_new && !is_below(pid) && other_groups(pid).is_none()
}

/// Returns the strays among all processes.
pub(super) fn strays() -> Vec<Pid> {
    processes().into_iter().filter(|pid| is_stray(*pid)).collect()
}

/// Finds the process that has a pipe open for writing: one that runs a command of its own rather than
/// a copy of the shell that started it, which has that shell's arguments.
pub(super) fn holder(pids: &[Pid], pipe: &Descriptor, shell: &str) -> Option<LeftProcess> {
    let writes = |pid: &Pid| {
        let mut numbers = descriptors(*pid).into_iter().flatten().take(MOST_DESCRIPTORS);
        let is_it = |fd: i32| descriptor(*pid, fd).as_ref() == Some(pipe);
        numbers.any(|fd| is_it(fd) && access(*pid, fd).is_some_and(|(_, writes)| writes))
    };
    let command = |pid: Pid| words(pid, 4096).join(" ");
    let found = pids.iter().take(MOST_PROCESSES).filter(|pid| writes(pid));
    let mut found: Vec<(bool, LeftProcess)> = found
        .map(|pid| LeftProcess { pid: *pid, command: command(*pid) })
        .map(|process| (process.command == shell || process.command.is_empty(), process))
        .collect();
    // The first of those: what it started itself ends before it.
    found.sort_by_key(|(is_copy, _)| *is_copy);
    found.into_iter().next().map(|(_, process)| process)
}
