//! Parsers of `stat` and `schedstat`.

use super::ProcContents;
use crate::Pid;
use std::str::{FromStr, SplitAsciiWhitespace};

/// The flag of a thread of the kernel (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The fields of `/proc/PID/stat` that weir uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// State letter: `R`, `S`, `D`, `T`, `Z`, ...
    pub state: u8,
    /// Parent process.
    pub parent: Pid,
    /// Whether another process group than its own has its terminal.
    pub in_background: bool,
    /// Its session; 0 where that is of another pid namespace.
    pub session: Pid,
    /// Flags of the kernel (`PF_*`).
    pub flags: u64,
    /// Minor page faults of the children that it waited for: they change with every such child.
    pub waited_faults: u64,
    /// Page faults for which the page had to be read from a disk or from swap.
    pub major_faults: u64,
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
    /// The CPU on which it ran last.
    pub cpu: Option<usize>,
    /// The status with which it ended, or in which it is stopped, as waitpid(2) has it. The kernel
    /// shows 0 to those who may not inspect it.
    pub exit_status: Option<i32>,
}

impl Stat {
    /// Whether it has ended, even if nobody has waited for it yet.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Whether it is the process that started at this time, and has not ended.
    pub fn is_still(&self, started_ticks: u64) -> bool {
        self.started_ticks == started_ticks && !self.has_ended()
    }

    /// Whether it is a thread of the kernel.
    pub fn is_of_kernel(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }
}

impl ProcContents for Stat {
    const FILE: &str = "stat";

    fn parse(text: &[u8]) -> Option<Stat> {
        // The command name is in parentheses and may hold any byte, `)` included.
        let after = text.iter().rposition(|&b| b == b')')? + 1;
        let rest = std::str::from_utf8(text.get(after..)?).ok()?;
        let mut fields = Fields { rest: rest.split_ascii_whitespace(), next: 3 };
        let state = u8::try_from(fields.take::<char>(3)?).ok()?;
        let parent = fields.take(4)?;
        let (group, session) = (fields.take::<Pid>(5)?, fields.take(6)?);
        let (terminal, front) = (fields.take::<i32>(7)?, fields.take::<Pid>(8)?);
        let (flags, waited_faults, major_faults) =
            (fields.take(9)?, fields.take(11)?, fields.take(12)?);
        let (user_ticks, system_ticks) = (fields.take::<u64>(14)?, fields.take(15)?);
        let (waited_user_ticks, waited_system_ticks) = (fields.take::<u64>(16)?, fields.take(17)?);
        Some(Stat {
            state,
            parent,
            in_background: terminal != 0 && front != group,
            session,
            flags,
            waited_faults,
            major_faults,
            own_ticks: user_ticks + system_ticks,
            system_ticks,
            waited_ticks: waited_user_ticks + waited_system_ticks,
            waited_system_ticks,
            threads: fields.take(20)?,
            started_ticks: fields.take(22)?,
            cpu: fields.take(39),
            exit_status: fields.take(52),
        })
    }
}

/// The fields behind the name, which are taken in their order: this needs no list of them.
struct Fields<'t> {
    rest: SplitAsciiWhitespace<'t>,
    /// The number that proc(5) gives the next one.
    next: usize,
}

impl Fields<'_> {
    /// Parses the field with this number, and skips those before it.
    fn take<T: FromStr>(&mut self, number: usize) -> Option<T> {
        let skipped = number - self.next;
        self.next = number + 1;
        self.rest.nth(skipped)?.parse().ok()
    }
}

/// When a thread ran last, from `/proc/PID/sched`: by the clock of the CPU on which it ran, in
/// nanoseconds. That clock is known from a thread that runs on the same CPU; the time that the
/// hypervisor took is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRun(pub u64);

impl ProcContents for LastRun {
    const FILE: &str = "sched";

    fn parse(text: &[u8]) -> Option<LastRun> {
        // What did not fit is cut, perhaps within a character.
        let text = String::from_utf8_lossy(text);
        let line = text.lines().find(|line| line.starts_with("se.exec_start"))?;
        let ms: f64 = line.rsplit(':').next()?.trim().parse().ok()?;
        (ms > 0.0).then_some(LastRun((ms * 1e6) as u64))
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

impl ProcContents for Sched {
    const FILE: &str = "schedstat";

    fn parse(text: &[u8]) -> Option<Sched> {
        let text = std::str::from_utf8(text).ok()?;
        let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok());
        Some(Sched { cpu_ns: fields.next()??, queue_ns: fields.next()??, slices: fields.next()?? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::ProcDir;

    #[test]
    fn a_command_name_may_hold_parentheses_and_spaces() {
        let line = b"12 (a) R (b) S 7 1 1 0 -1 0 1 2 3 4 10 20 30 40 20 0 5 0 99 0 0\n";
        let stat = Stat::parse(line).expect("a stat line");
        assert_eq!((stat.state, stat.parent, stat.session), (b'S', 7, 1));
        assert_eq!((stat.own_ticks, stat.waited_ticks, stat.threads), (30, 70, 5));
        assert_eq!((stat.system_ticks, stat.waited_system_ticks), (20, 40));
        assert_eq!((stat.flags, stat.waited_faults, stat.started_ticks), (0, 2, 99));
        assert_eq!((stat.cpu, stat.exit_status), (None, None), "the line ends before them");
    }

    #[test]
    fn the_last_fields_are_taken_by_their_numbers() {
        let numbers = (5..=52).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        let stat = Stat::parse(format!("1 (x) S 4 {numbers}\n").as_bytes()).expect("a stat line");
        assert_eq!((stat.parent, stat.flags), (4, 9));
        assert_eq!((stat.waited_faults, stat.major_faults), (11, 12));
        assert_eq!((stat.own_ticks, stat.waited_ticks), (14 + 15, 16 + 17));
        assert_eq!((stat.threads, stat.started_ticks), (20, 22));
        assert_eq!((stat.cpu, stat.exit_status), (Some(39), Some(52)));
    }

    #[test]
    fn a_process_is_known_by_its_start_until_it_ends() {
        let me = Stat::of(std::process::id() as Pid).expect("this process");
        assert_eq!(Stat::of(ProcDir::This).map(|own| own.started_ticks), Some(me.started_ticks));
        assert!(me.is_still(me.started_ticks) && !me.is_still(me.started_ticks + 1));
        assert!(!me.has_ended() && !me.is_of_kernel());
        let ended = Stat { state: b'Z', ..me };
        assert!(ended.has_ended() && !ended.is_still(ended.started_ticks));
        assert_eq!(Stat::of(0), None);
    }

    #[test]
    fn reads_the_kernel_s_own_files() {
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        let stat = Stat::of(ProcDir::ThreadOfThis(me)).expect("stat");
        assert!(stat.state == b'R' && stat.cpu.is_some() && stat.exit_status.is_some());
        assert!(Sched::of(ProcDir::This).expect("sched").cpu_ns > 0);
    }

    #[test]
    fn nonsense_is_none() {
        assert_eq!(Stat::parse(b"12 no parentheses"), None);
        assert_eq!(Stat::parse(b""), None);
        assert_eq!(Sched::parse(b"1 2"), None);
    }
}
