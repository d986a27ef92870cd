//! Parsers of `stat` and `schedstat`.

/// The fields of `/proc/PID/stat` that weir uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// State letter: `R`, `S`, `D`, `T`, `Z`, ...
    pub state: u8,
    /// Parent process.
    pub parent: i32,
    /// CPU time of this process in clock ticks, user and system together, dead threads included.
    pub own_ticks: u64,
    /// System part of `own_ticks`.
    pub system_ticks: u64,
    /// CPU time in clock ticks of the descendants it waited for.
    pub waited_ticks: u64,
    /// System part of `waited_ticks`.
    pub waited_system_ticks: u64,
    /// Number of threads.
    pub threads: u64,
    /// When it started, in clock ticks since the machine started. This tells it from earlier and
    /// later processes with its number.
    pub started_ticks: u64,
}

impl Stat {
    /// Parses the contents of `/proc/PID/stat`.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        // The command name stands in parentheses and may hold any byte, `)` included.
        let after = text.iter().rposition(|&b| b == b')')? + 1;
        let rest = std::str::from_utf8(text.get(after..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Field 3 of proc(5) is fields[0] here.
        let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
        Some(Stat {
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            own_ticks: number(14)? + number(15)?,
            system_ticks: number(15)?,
            waited_ticks: number(16)? + number(17)?,
            waited_system_ticks: number(17)?,
            threads: number(20)?,
            started_ticks: number(22)?,
        })
    }
}

/// The contents of `/proc/PID/schedstat` (kernel: `proc_pid_schedstat`). The figures are exact, and
/// do not need a kernel that was built with scheduler statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sched {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time runnable and waiting for a CPU.
    pub queue_ns: u64,
    /// Number of times it was put on a CPU.
    pub slices: u64,
}

impl Sched {
    /// Parses the contents of `/proc/PID/schedstat`.
    pub fn parse(text: &[u8]) -> Option<Sched> {
        let text = std::str::from_utf8(text).ok()?;
        let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok());
        Some(Sched { cpu_ns: fields.next()??, queue_ns: fields.next()??, slices: fields.next()?? })
    }

    /// What was added since these earlier counters.
    pub fn since(self, before: Sched) -> Sched {
        Sched {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            queue_ns: self.queue_ns.saturating_sub(before.queue_ns),
            slices: self.slices.saturating_sub(before.slices),
        }
    }

    /// The sum of both.
    pub fn plus(self, other: Sched) -> Sched {
        Sched {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            queue_ns: self.queue_ns + other.queue_ns,
            slices: self.slices + other.slices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_may_hold_parentheses_and_spaces() {
        let line = b"12 (a) R (b) S 7 1 1 0 -1 0 1 2 3 4 10 20 30 40 20 0 5 0 99 0 0\n";
        let stat = Stat::parse(line).expect("a stat line");
        assert_eq!((stat.state, stat.parent), (b'S', 7));
        assert_eq!((stat.own_ticks, stat.waited_ticks, stat.threads), (30, 70, 5));
        assert_eq!((stat.system_ticks, stat.waited_system_ticks), (20, 40));
    }

    #[test]
    fn reads_the_kernel_s_own_files() {
        let mut buffer = [0; 4096];
        let text = crate::proc::read_small("/proc/thread-self/stat", &mut buffer).expect("stat");
        assert_eq!(Stat::parse(text).expect("parses").state, b'R');
        let text = crate::proc::read_small("/proc/self/schedstat", &mut buffer).expect("sched");
        assert!(Sched::parse(text).expect("parses").cpu_ns > 0);
    }

    #[test]
    fn nonsense_is_none() {
        assert_eq!(Stat::parse(b"12 no parentheses"), None);
        assert_eq!(Stat::parse(b""), None);
        assert_eq!(Sched::parse(b"1 2"), None);
    }
}
