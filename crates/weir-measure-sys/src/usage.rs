//! The resources that this process used: CPU time and switches (`getrusage(2)`).

/// Resources used so far by this process, or by the children it reaped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Returns the use of this process, all its threads.
    pub fn of_self() -> Usage {
        get(libc::RUSAGE_SELF)
    }

    /// Returns user and system time together.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Returns the use of the children it has reaped, and of theirs.
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
        involuntary_switches: usage.ru_nivcsw.max(0) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_something() {
        assert!(Usage::of_self().cpu_ns() > 0);
    }
}
