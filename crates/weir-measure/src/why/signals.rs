//! Waits for signals, of which the end of a child may be one.

use super::ends;
use crate::attribution::signals::{CHILD, bit, is_handled_alarm, that_end_a_wait};
use weir_doctor::why::Cause;
use weir_sys::Pid;
use weir_sys::proc::has_timers;

/// Signals that nobody waits for: those of a fault of the thread itself, and the two that the C
/// library keeps for its threads (glibc: `internal-signals.h`).
const ASIDE: u64 = bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGSEGV)
    | bit(32)
    | bit(33);

/// Returns the wait of a thread for a signal. One that only the end of a child lets continue waits
/// for its children, as a shell does whose `wait` is a loop around `sigsuspend` (dash).
pub fn any(pid: Pid, task: Pid, set: u64, most_ns: Option<u64>) -> Cause {
    let none = Cause::Signal { most_ns, children: Vec::new() };
    let Some(ends_wait) = that_end_a_wait(pid, task, set) else { return none };
    if ends_wait & CHILD == 0 {
        return none;
    }
    match ends::child(pid, libc::SYS_wait4, &[u64::MAX, 0, 0, 0, 0, 0]) {
        Cause::Child { children, looker: false } if children.is_empty() => none,
        wait if most_ns.is_none() && ends_wait & !ASIDE == CHILD => wait,
        Cause::Child { children, .. } => Cause::Signal { most_ns, children },
        _ => none,
    }
}

/// Returns the wait of the only thread of a process for a word in its own memory, which only a
/// handler of a signal can change: that of the end of a child does so in fish.
pub fn beside(pid: Pid, task: Pid) -> Option<Cause> {
    match any(pid, task, 0, None) {
        Cause::Signal { children, .. } if children.is_empty() => None,
        wait => Some(wait),
    }
}

/// Whether an alarm or a timer may let a thread of process `pid` continue, whatever it waits for.
pub fn may_alarm(pid: Pid, task: Pid) -> bool {
    is_handled_alarm(task) || has_timers(pid)
}
