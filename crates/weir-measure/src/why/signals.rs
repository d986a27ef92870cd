//! Waits for signals, of which the end of a child may be one.

use super::ends;
use crate::bytes::long;
use crate::proc::field;
use weir_doctor::why::Cause;
use weir_measure_sys::memory::read_remote;
use weir_sys::Pid;

/// The signal of the end of a child, as a bit.
const CHILD: u64 = bit(libc::SIGCHLD);
/// Signals that nobody waits for: those of a fault of the thread itself, and the two that the C
/// library keeps for its threads (glibc: `internal-signals.h`).
const ASIDE: u64 = bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGSEGV)
    | bit(32)
    | bit(33);

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Returns the wait of a thread for a signal. One that only the end of a child lets go on waits for
/// its children, as a shell does whose `wait` is a loop around `sigsuspend` (dash).
pub fn any(pid: Pid, task: Pid, number: i64, args: &[u64; 6], most_ns: Option<u64>) -> Cause {
    let none = Cause::Signal { most_ns, children: Vec::new() };
    let Some(mut ends_wait) = caught(task) else { return none };
    if number == libc::SYS_rt_sigtimedwait {
        let mut set = [0; 8];
        let got = read_remote(pid, args[0], &mut set).unwrap_or(0);
        let Some(set) = long(&set[..got], 0) else { return none };
        ends_wait |= set;
    }
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
    match any(pid, task, libc::SYS_rt_sigsuspend, &[0; 6], None) {
        Cause::Signal { children, .. } if children.is_empty() => None,
        wait => Some(wait),
    }
}

/// Returns the signals for which a thread has a handler and that it does not keep back at present.
fn caught(task: Pid) -> Option<u64> {
    ends::status(task, |text| {
        let set = |name: &str| u64::from_str_radix(field(text, name)?, 16).ok();
        Some(set("SigCgt")? & !set("SigBlk")?)
    })
}
