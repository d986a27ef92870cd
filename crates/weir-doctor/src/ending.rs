//! Remarks on how a stage ended.
//!
//! A failed stage may have cut short the input of the stages after it, so a reader of the report
//! must notice it. But not every status above 0 is a failure: `grep` without a match and `diff`
//! with differences did their work. And a writer whose reader left dies of SIGPIPE, which is how a
//! pipeline ends early.

use crate::programs;
pub use crate::programs::StatusMeaning;

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this status (0 to 255).
    Code(i32),
    /// By a signal of this number.
    Signal(i32),
}

impl Ending {
    /// Returns the status that a shell has for it.
    pub fn shell_status(self) -> i32 {
        match self {
            Ending::Code(code) => code,
            Ending::Signal(signal) => BY_SIGNAL + signal,
        }
    }

    /// Whether it is that of a writer whose reader had left.
    pub fn is_broken_pipe(self) -> bool {
        self.shell_status() == BY_SIGNAL + SIGPIPE
    }
}

/// Processes that the kernel killed during a run because memory had run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryKills {
    /// In the control group of the run, if that has a limit of its own.
    pub group: Option<u64>,
    /// On the whole host.
    pub host: Option<u64>,
}

/// A remark on how a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It was not started.
    NotStarted,
    /// The whole run was interrupted, as by Ctrl-C.
    Interrupted,
    /// A signal killed it; perhaps because memory ran out.
    Killed(OutOfMemory),
    /// A shell reports that SIGKILL killed a command in it; perhaps because memory ran out.
    KilledInside(OutOfMemory),
    /// Its status is an answer, not a failure.
    Answered(StatusMeaning),
    /// A command in it could not be executed.
    NotExecutable,
    /// A command in it was not found.
    NotFound,
    /// It failed.
    Failed,
    /// It was cut off, since the stage after it had what it wanted, and `pipefail` makes that the status
    /// of the run.
    CutOff,
}

impl Remark {
    /// Whether it is a failure, and not just worth knowing.
    pub fn is_grave(self) -> bool {
        !matches!(self, Remark::Interrupted | Remark::Answered(_) | Remark::CutOff)
    }
}

/// Returns what a status says that is an answer of a command, and not a failure.
pub fn answer(label: &str, ending: Ending) -> Option<StatusMeaning> {
    match remark(label, Some(ending), false, MemoryKills::default())? {
        Remark::Answered(answer) => Some(answer),
        _ => None,
    }
}

/// Whether the kernel killed processes during the run because memory had run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// None, or unknown.
    No,
    /// This many processes of the run's control group.
    Group(u64),
    /// This many on the host, of unknown owners.
    Host(u64),
}

/// The signal that a writer gets when its reader has left.
pub(crate) const SIGPIPE: i32 = 13;
/// The signal that the kernel kills by when memory has run out.
pub(crate) const SIGKILL: i32 = 9;
/// A shell reports a command that a signal killed by this status plus the signal's number.
pub(crate) const BY_SIGNAL: i32 = 128;

/// Returns the remark on how the stage typed as `label` ended; none if it ended normally. `end` is
/// none where it was never started, `interrupted` means that the signal was sent to the whole run,
/// and `kills` counts processes killed meanwhile because memory had run out.
pub fn remark(
    label: &str,
    end: Option<Ending>,
    interrupted: bool,
    kills: MemoryKills,
) -> Option<Remark> {
    let Some(end) = end else { return Some(Remark::NotStarted) };
    Some(match end {
        Ending::Code(0) => return None,
        end if end.is_broken_pipe() => return None,
        // It does nothing else.
        Ending::Code(1) if programs::program_name(label) == Some("false") => return None,
        Ending::Signal(_) if interrupted => Remark::Interrupted,
        // The kernel kills by SIGKILL. It reports how many processes it killed, not which.
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

/// Returns the meaning of a status above 0 for programs that answer by it without a failure.
fn meaning(label: &str, code: i32) -> Option<StatusMeaning> {
    let (program, words) = programs::split(label)?;
    let program = match program {
        // `git grep` and `git diff` answer as grep and diff do.
        "git" => words.first().copied()?,
        program => program,
    };
    programs::answer(program, code)
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
            ("grep -c x", 1, StatusMeaning::NoMatch),
            ("LC_ALL=C /usr/bin/grep x", 1, StatusMeaning::NoMatch),
            ("diff a b", 1, StatusMeaning::Different),
            ("git grep x", 1, StatusMeaning::NoMatch),
            ("test -f x", 1, StatusMeaning::False),
            ("timeout 5 cat", 124, StatusMeaning::TimeOver),
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
    fn what_was_not_found_is_reported_so() {
        assert_eq!(of("(nosuch)", Ending::Code(127)), Some(Remark::NotFound));
        assert_eq!(remark("nosuch", None, false, MemoryKills::default()), Some(Remark::NotStarted));
    }
}
