//! What a process has used: CPU time, faults, switches (`getrusage(2)`, `/proc/PID/stat`).

use crate::Pid;

/// What this process, or the children it reaped, used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Faults that needed no I/O.
    pub minor_faults: u64,
    /// Faults that did.
    pub major_faults: u64,
    /// Times a CPU was given up.
    pub voluntary_switches: u64,
    /// Times a CPU was taken away.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Of this process, all its threads.
    pub fn of_self() -> Usage {
        get(libc::RUSAGE_SELF)
    }

    /// User and system time together.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Of the children it has reaped, and theirs.
    pub fn of_children() -> Usage {
        get(libc::RUSAGE_CHILDREN)
    }
}

fn get(who: libc::c_int) -> Usage {
    // SAFETY: `rusage` is plain integers, for which all-zero bytes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the out-pointer is to a live, writable local of the right type.
    if unsafe { libc::getrusage(who, &mut usage) } != 0 {
        return Usage::default();
    }
    Usage {
        user_ns: crate::wait::nanoseconds(usage.ru_utime),
        system_ns: crate::wait::nanoseconds(usage.ru_stime),
        minor_faults: usage.ru_minflt.max(0) as u64,
        major_faults: usage.ru_majflt.max(0) as u64,
        voluntary_switches: usage.ru_nvcsw.max(0) as u64,
        involuntary_switches: usage.ru_nivcsw.max(0) as u64,
    }
}

/// User and system time of another process, to a clock tick; `None` when it is gone.
pub fn of_process(pid: Pid) -> Option<(u64, u64)> {
    if !weir_sys::proc::is_own() {
        return None;
    }
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and parentheses: fields are counted from the last ')'.
    let fields = text.get(text.rfind(')')? + 1..)?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let mut next = || fields.next()?.parse::<u64>().ok().map(|ticks| ticks * tick_ns);
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_something() {
        let usage = Usage::of_self();
        assert!(usage.minor_faults > 0, "{usage:?}");
        assert!(of_process(std::process::id() as Pid).is_some());
        assert!(of_process(-1).is_none());
    }
}
