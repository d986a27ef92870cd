//! The time-stamp counter, the monotonic clock, and the CPU time of this thread and of other
//! processes.

use crate::Pid;
use rustix::time::{ClockId, clock_gettime};

/// Reads the CPU's time-stamp counter. `None` where this does not know how, or there is none.
#[inline(always)]
pub fn counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reading the counter changes nothing. Where the system forbids it (PR_SET_TSC of
    // prctl(2)), the process is killed, as by a library's look at it.
    return Some(unsafe { std::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The CPU time that this thread has used. It stands still while the thread is stopped or waits.
pub fn thread_ns() -> u64 {
    now_ns(ClockId::ThreadCPUTime)
}

/// The time by the monotonic clock, which all processes share and the kernel's events bear.
#[inline]
pub fn monotonic_ns() -> u64 {
    now_ns(ClockId::Monotonic)
}

/// The time by a clock of the kernel.
#[inline]
pub fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Converts clock ticks, by which the kernel counts much of what processes use.
pub fn ticks_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// The CPU time of another process to the nanosecond, of all its threads including those that ended
/// (clock_getcpuclockid(3)). `None` if it is gone.
pub fn process_ns(pid: Pid) -> Option<u64> {
    // The number of a clock holds the process id, shifted: one above the kernel's PID_MAX_LIMIT
    // (include/linux/threads.h) would name another process.
    if !(1..=1 << 22).contains(&pid) {
        return None;
    }
    let mut clock = 0;
    // SAFETY: the out-pointer is to a live, writable local of the right type.
    if unsafe { libc::clock_getcpuclockid(pid, &mut clock) } != 0 {
        return None;
    }
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    if unsafe { libc::clock_gettime(clock, &mut used) } != 0 {
        return None;
    }
    Some(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_something() {
        let me = std::process::id() as Pid;
        let before = process_ns(me).expect("mine");
        assert!(process_ns(me).expect("mine") > before, "it went on");
        assert_eq!([process_ns(i32::MAX), process_ns(0), process_ns(-me)], [None; 3]);
    }
}
