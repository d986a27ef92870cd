//! Scheduling classes.

use std::io;

/// Lets this process run only when a CPU has nothing else to do (`SCHED_IDLE`).
pub fn run_only_when_idle() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live local of the right type.
    crate::sys::check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) })
        .map(drop)
}
