//! The CPU time and context switches of this process (`getrusage(2)`).

/// Resources that this process, or the children it reaped, have used so far.
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
    /// The use of this process, with all its threads.
    pub fn of_self() -> Usage {
        get(libc::RUSAGE_SELF)
    }

    /// The use of this thread.
    pub fn of_thread() -> Usage {
        get(libc::RUSAGE_THREAD)
    }

    /// User and system time together.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// The use of the children that this process has reaped, and of the children they reaped.
    pub fn of_children() -> Usage {
        get(libc::RUSAGE_CHILDREN)
    }
}

fn get(who: libc::c_int) -> Usage {
    // SAFETY: `rusage` holds plain integers; all-zero bytes are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the out-pointer is to a live, writable local of the right type.
    if unsafe { libc::getrusage(who, &mut usage) } != 0 {
        return Usage::default();
    }
    Usage {
        user_ns: crate::sys::wait::nanoseconds(usage.ru_utime),
        system_ns: crate::sys::wait::nanoseconds(usage.ru_stime),
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
