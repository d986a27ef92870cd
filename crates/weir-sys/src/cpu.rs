//! CPU time of another process.

use crate::Pid;

/// CPU time of another process to the nanosecond, all its threads with those that ended
/// (clock_getcpuclockid(3)); `None` when it is gone.
pub fn cpu_ns_of(pid: Pid) -> Option<u64> {
    // The clock's number holds the process id shifted: others come out as another process. The
    // kernel's own limit is PID_MAX_LIMIT (include/linux/threads.h).
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
        let before = cpu_ns_of(me).expect("mine");
        assert!(cpu_ns_of(me).expect("mine") > before, "it went on");
        assert_eq!([cpu_ns_of(i32::MAX), cpu_ns_of(0), cpu_ns_of(-me)], [None; 3]);
    }
}
