//! The signals that let a thread continue.

use crate::bytes::long;
use crate::sys::memory::read_remote;
use weir_sys::Pid;
use weir_sys::proc::{ProcContents, Status, children, tasks};

/// The signal of the end of a child, as a bit.
pub const CHILD: u64 = bit(libc::SIGCHLD);
/// The signal of `alarm` and `setitimer`.
const ALARM: u64 = bit(libc::SIGALRM);
/// Who has handlers for these too has one for each signal that would end it, as bash at a terminal:
/// that for an alarm shows nothing then.
const ALL_THAT_END: u64 = bit(libc::SIGVTALRM) | bit(libc::SIGXCPU);

/// Returns a signal as a bit of a set.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Returns the signals, as bits, that end a wait for signals: those for which the thread has a
/// handler and that it does not keep back at present, and those of the set at this address of the
/// memory of process `pid` (0: none).
pub fn that_end_a_wait(pid: Pid, task: Pid, set: u64) -> Option<u64> {
    let caught = caught(task)?;
    let mut bytes = [0; 8];
    let got = if set == 0 { bytes.len() } else { read_remote(pid, set, &mut bytes).unwrap_or(0) };
    Some(caught | long(&bytes[..got], 0)?)
}

/// Whether process `pid`, whose one thread waits for signals, may wait for a child: it has one, and
/// the end of one ends the wait. So do shells whose `wait` is a loop around `sigsuspend`.
pub fn may_be_for_a_child(pid: Pid, set: u64) -> bool {
    let ends = || that_end_a_wait(pid, pid, set).is_some_and(|signals| signals & CHILD != 0);
    tasks(pid).len() == 1 && ends() && !children(pid).is_empty()
}

/// Whether a thread has a handler for an alarm that may come. Whether one is set is not shown.
pub fn is_handled_alarm(task: Pid) -> bool {
    caught(task).is_some_and(|caught| caught & ALARM != 0 && caught & ALL_THAT_END != ALL_THAT_END)
}

fn caught(task: Pid) -> Option<u64> {
    Status::of(task)?.handled_signals()
}
