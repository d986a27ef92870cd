//! Processes by their names.

use weir_command::json;
use weir_sys::Pid;
use weir_sys::proc::processes;

/// The kernel keeps so much of a name.
const KEPT_BYTES: usize = 15;

/// Returns the processes of this name but this one.
pub fn processes_called(name: &str) -> Vec<Pid> {
    let own = std::process::id() as Pid;
    // That may end within a character.
    let kept = String::from_utf8_lossy(&name.as_bytes()[..name.len().min(KEPT_BYTES)]);
    let has = |found: String| found == kept;
    let is = |pid: &Pid| *pid != own && json::command(*pid).is_some_and(has);
    processes().into_iter().filter(is).collect()
}
