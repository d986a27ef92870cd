//! What is worth saying of how a stage ended.
//!
//! A stage that failed may have cut short what the stages after it read, so a reader of the report
//! must not miss it. But not every status above 0 is a failure: `grep` that matched nothing and
//! `diff` that found differences did their work. And a writer whose reader left dies of SIGPIPE,
//! which is how a pipeline ends early.

use crate::programs;

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this status (0 to 255).
    Code(i32),
    /// By a signal of this number.
    Signal(i32),
}

/// Processes that the kernel killed during a run because memory had run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryKills {
    /// In the control group of the run, where it has a limit of its own.
    pub group: Option<u64>,
    /// On the whole host.
    pub host: Option<u64>,
}

/// What is worth saying of how a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It was never started.
    NotStarted,
    /// The whole run was interrupted, as by Ctrl-C.
    Interrupted,
    /// A signal killed it; perhaps for want of memory.
    Killed(OutOfMemory),
    /// A shell says that SIGKILL killed what it ran; perhaps for want of memory.
    KilledInside(OutOfMemory),
    /// Its status is an answer and no failure.
    Answered(Answer),
    /// A command in it could not be executed.
    NotExecutable,
    /// A command in it was not found.
    NotFound,
    /// It failed.
    Failed,
}

impl Remark {
    /// Whether it is a failure; else it is only worth knowing.
    pub fn is_grave(self) -> bool {
        !matches!(self, Remark::Interrupted | Remark::Answered(_))
    }
}

/// Whether the kernel killed for want of memory meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// It did not, or it is not known.
    No,
    /// It killed so many processes of the run's control group.
    Group(u64),
    /// It killed so many on the host; whose they were is not known.
    Host(u64),
}

/// What a status above 0 stands for that is no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing matched.
    NoMatch,
    /// There were differences.
    Different,
    /// The condition is not true.
    False,
    /// The result is empty or 0.
    Empty,
    /// The time was over.
    TimeOver,
}

/// The signal of a writer whose reader left.
pub const SIGPIPE: i32 = 13;
const SIGKILL: i32 = 9;
/// A shell gives a command that a signal killed this plus the signal's number as its status.
const BY_SIGNAL: i32 = 128;

/// What to say of how a stage ended, of which a person typed `label`; nothing where it ended as it
/// should. `end` is none where it was never started. `interrupted`: the signal was sent to the whole run. `kills`: processes killed for want
/// of memory meanwhile.
pub fn remark(
    label: &str,
    end: Option<Ending>,
    interrupted: bool,
    kills: MemoryKills,
) -> Option<Remark> {
    let Some(end) = end else { return Some(Remark::NotStarted) };
    Some(match end {
        Ending::Code(0) | Ending::Signal(SIGPIPE) => return None,
        Ending::Code(code) if code == BY_SIGNAL + SIGPIPE => return None,
        // It does nothing else.
        Ending::Code(1) if programs::program_name(label) == Some("false") => return None,
        Ending::Signal(_) if interrupted => Remark::Interrupted,
        // The kernel kills by SIGKILL; who was meant it does not tell, only how many were killed.
        Ending::Signal(SIGKILL) => Remark::Killed(memory(kills)),
        Ending::Signal(_) => Remark::Killed(OutOfMemory::No),
        Ending::Code(code) => match meaning(label, code) {
            Some(answer) => Remark::Answered(answer),
            None if code == 126 => Remark::NotExecutable,
            None if code == 127 => Remark::NotFound,
            None if code == BY_SIGNAL + SIGKILL => Remark::KilledInside(memory(kills)),
            None => Remark::Failed,
        },
    })
}

fn memory(kills: MemoryKills) -> OutOfMemory {
    match (kills.group, kills.host) {
        (Some(n @ 1..), _) => OutOfMemory::Group(n),
        (_, Some(n @ 1..)) => OutOfMemory::Host(n),
        _ => OutOfMemory::No,
    }
}

/// Programs that say something by a status above 0 without having failed.
fn meaning(label: &str, code: i32) -> Option<Answer> {
    let (program, words) = programs::split(label)?;
    let program = match program {
        // `git grep` and `git diff` answer as grep and diff do.
        "git" => words.first().copied()?,
        program => program,
    };
    match (program, code) {
        (
            "grep" | "egrep" | "fgrep" | "zgrep" | "zegrep" | "zfgrep" | "bzgrep" | "xzgrep"
            | "zstdgrep" | "rg" | "ag" | "ack" | "ugrep" | "pgrep",
            1,
        ) => Some(Answer::NoMatch),
        ("diff" | "cmp" | "zdiff" | "zcmp" | "xzdiff" | "bzdiff" | "diff3" | "sdiff", 1) => {
            Some(Answer::Different)
        }
        ("test" | "[" | "[[", 1) => Some(Answer::False),
        ("expr", 1) => Some(Answer::Empty),
        // GNU timeout says by this that the time was over.
        ("timeout", 124) => Some(Answer::TimeOver),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(label: &str, end: Ending) -> Option<Remark> {
        remark(label, Some(end), false, MemoryKills::default())
    }

    #[test]
    fn what_ended_as_it_should_is_not_mentioned() {
        for end in [Ending::Code(0), Ending::Signal(13), Ending::Code(141)] {
            assert_eq!(of("yes", end), None, "{end:?}");
        }
        assert_eq!(of("/bin/false", Ending::Code(1)), None);
    }

    #[test]
    fn a_status_that_is_an_answer_does_not_cry_wolf() {
        for (label, code, answer) in [
            ("grep -c x", 1, Answer::NoMatch),
            ("LC_ALL=C /usr/bin/grep x", 1, Answer::NoMatch),
            ("diff a b", 1, Answer::Different),
            ("git grep x", 1, Answer::NoMatch),
            ("test -f x", 1, Answer::False),
            ("timeout 5 cat", 124, Answer::TimeOver),
        ] {
            let remark = of(label, Ending::Code(code)).expect("worth saying");
            assert_eq!(remark, Remark::Answered(answer), "{label}");
            assert!(!remark.is_grave(), "{label}");
        }
        for (label, code) in [("grep -c x", 2), ("sort", 1), ("git push", 1), ("", 1)] {
            assert_eq!(of(label, Ending::Code(code)), Some(Remark::Failed), "{label}");
            assert!(Remark::Failed.is_grave());
        }
    }

    #[test]
    fn what_one_signal_interrupted_was_not_killed() {
        let killed = Some(Remark::Killed(OutOfMemory::No));
        assert_eq!(of("sort -S 1G", Ending::Signal(9)), killed);
        let interrupted = remark("cat", Some(Ending::Signal(2)), true, MemoryKills::default());
        assert_eq!(interrupted, Some(Remark::Interrupted));
        assert!(!Remark::Interrupted.is_grave());
    }

    #[test]
    fn want_of_memory_is_named_only_where_the_kernel_counted_a_kill() {
        let with =
            |group, host, end| remark("(sort)", Some(end), false, MemoryKills { group, host });
        let killed = |cause| Some(Remark::Killed(cause));
        let by = Ending::Signal;
        assert_eq!(with(Some(1), Some(1), by(9)), killed(OutOfMemory::Group(1)));
        assert_eq!(with(Some(0), Some(2), by(9)), killed(OutOfMemory::Host(2)));
        assert_eq!(with(None, Some(2), by(9)), killed(OutOfMemory::Host(2)));
        assert_eq!(with(Some(0), Some(0), by(9)), killed(OutOfMemory::No));
        assert_eq!(with(Some(1), Some(1), by(11)), killed(OutOfMemory::No));
        let shell = with(Some(1), None, Ending::Code(137));
        assert_eq!(shell, Some(Remark::KilledInside(OutOfMemory::Group(1))));
    }

    #[test]
    fn what_was_not_found_is_said_so() {
        assert_eq!(of("(nosuch)", Ending::Code(127)), Some(Remark::NotFound));
        assert_eq!(remark("nosuch", None, false, MemoryKills::default()), Some(Remark::NotStarted));
    }
}
