//! Processes by their names and by their words.

use weir_command::json;
use weir_sys::Pid;
use weir_sys::proc::{ancestors, processes, words};

/// The kernel keeps so much of a name.
const KEPT_BYTES: usize = 15;
/// Most bytes of a command line that are read.
const COMMAND_BYTES: usize = 16_384;

/// Returns the processes of this name but this one.
pub fn processes_called(name: &str) -> Vec<Pid> {
    let own = std::process::id() as Pid;
    // That may end within a character.
    let kept = String::from_utf8_lossy(&name.as_bytes()[..name.len().min(KEPT_BYTES)]);
    let has = |found: String| found == kept;
    let is = |pid: &Pid| *pid != own && json::command(*pid).is_some_and(has);
    processes().into_iter().filter(is).collect()
}

/// Returns the processes that have this text in their command lines, but this one and those above it,
/// which have it from who typed it.
pub fn processes_with(text: &str) -> Vec<Pid> {
    let own = std::process::id() as Pid;
    let above: Vec<Pid> = ancestors(own).collect();
    let is_other = |pid: &Pid| *pid != own && !above.contains(pid);
    let has = |pid: &Pid| is_other(pid) && command_line(*pid).contains(text);
    processes().into_iter().filter(has).collect()
}

/// Returns the process that wrappers run which have its words behind their own (`timeout 9 bash job.sh`),
/// if these are started one by the other: the first with the shortest command line.
pub fn wrapped(pids: &[Pid]) -> Option<Pid> {
    let mut chain: Vec<(usize, Pid)> = pids
        .iter()
        .map(|pid| (ancestors(*pid).filter(|above| pids.contains(above)).count(), *pid))
        .collect();
    chain.sort_unstable();
    // One at each depth is a chain.
    let is_chain = chain.iter().enumerate().all(|(depth, (above, _))| *above == depth);
    let pids = chain.into_iter().map(|(_, pid)| pid).filter(|_| is_chain);
    pids.min_by_key(|pid| command_line(*pid).len())
}

/// Returns the command line of a process; nothing for a thread of the kernel.
pub fn command_line(pid: Pid) -> String {
    words(pid, COMMAND_BYTES).join(" ")
}
