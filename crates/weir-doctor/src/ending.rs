//! What is worth saying of how a stage ended.
//!
//! A stage that failed may have cut short what the stages after it read, so a reader of the report
//! must not miss it. But not every status above 0 is a failure: `grep` that matched nothing and
//! `diff` that found differences did their work. And a writer whose reader left dies of SIGPIPE,
//! which is how a pipeline ends early.

use crate::advice::programs;
use crate::words;
use alloc::format;
use alloc::string::String;

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// With this status.
    Code(i32),
    /// By a signal: its number and its name.
    Signal(i32, &'a str),
    /// It was never started, for this reason.
    NotStarted(&'a str),
}

/// One stage and its end.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Position of the stage; none of a script run whole.
    pub position: Option<usize>,
    /// What a person typed for it.
    pub label: &'a str,
    /// Whether no stage comes after it.
    pub last: bool,
    /// How it ended.
    pub end: End<'a>,
    /// Whether the signal was sent to the whole run, as Ctrl-C is.
    pub interrupted: bool,
    /// Processes that the kernel killed meanwhile for want of memory, if it can be known.
    pub memory_kills: Option<MemoryKills>,
}

/// Processes that the kernel killed during a run because memory had run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryKills {
    /// In the control group of the run, where it has a limit of its own.
    pub group: Option<u64>,
    /// On the whole host.
    pub host: Option<u64>,
}

/// What is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Whether it is a failure; else it is only worth knowing.
    pub grave: bool,
    /// The sentence.
    pub text: String,
}

const SIGPIPE: i32 = 13;
const SIGKILL: i32 = 9;
/// A shell gives a command that a signal killed this plus the signal's number as its status.
const BY_SIGNAL: i32 = 128;

/// What to say of how a stage ended; nothing where it ended as it should. Of stages that one signal
/// interrupted it is the same, to be said once.
pub fn remark(ended: &Ended) -> Option<Remark> {
    let name = match ended.position {
        Some(position) => words::stage(position, ended.label),
        None => String::from(ended.label),
    };
    let grave = |text: String| Some(Remark { grave: true, text });
    let mild = |text: String| Some(Remark { grave: false, text });
    let cut_short = if ended.last {
        "its output is incomplete"
    } else {
        "what follows it had incomplete input"
    };
    match ended.end {
        End::Code(0) | End::Signal(SIGPIPE, _) => None,
        End::Code(code) if code == BY_SIGNAL + SIGPIPE => None,
        // It does nothing else.
        End::Code(1) if programs::program_name(ended.label) == Some("false") => None,
        End::NotStarted(reason) => grave(format!("{name} was not started: {reason}")),
        End::Signal(_, signal) if ended.interrupted => {
            mild(format!("interrupted by {signal}: the figures are those until then"))
        }
        End::Signal(number, signal) => {
            let cause = memory(number, ended.memory_kills);
            grave(format!("{name} was killed by {signal}{cause}: {cut_short}"))
        }
        End::Code(code) => match meaning(ended.label, code) {
            Some(meaning) => mild(format!("{name} ended with status {code}: {meaning}")),
            None => grave(failed(&name, code, ended)),
        },
    }
}

fn failed(name: &str, code: i32, ended: &Ended) -> String {
    let after = if ended.last { "its output" } else { "what follows it" };
    match code {
        126 => format!("{name} failed with status 126: a command in it could not be executed"),
        127 => format!("{name} failed with status 127: a command in it was not found"),
        // What ran under a shell and was killed there.
        code if code == BY_SIGNAL + SIGKILL => {
            let cause = memory(SIGKILL, ended.memory_kills);
            format!("{name} failed with status {code}, which stands for SIGKILL{cause}")
        }
        _ if ended.last => format!("{name} failed with status {code}"),
        _ => format!("{name} failed with status {code}: {after} may have had incomplete input"),
    }
}

/// The kernel kills by SIGKILL; who was meant it does not tell, only how many were killed.
fn memory(signal: i32, kills: Option<MemoryKills>) -> String {
    let kills = kills.filter(|_| signal == SIGKILL).unwrap_or_default();
    let processes = |n: u64| match n {
        1 => String::from("1 process"),
        n => format!("{n} processes"),
    };
    match (kills.group, kills.host) {
        (Some(n @ 1..), _) => format!(
            " (out of memory: the kernel killed {} of this control group meanwhile)",
            processes(n)
        ),
        (_, Some(n @ 1..)) => format!(
            " (perhaps out of memory: the kernel killed {} on this host meanwhile)",
            processes(n)
        ),
        _ => String::new(),
    }
}

/// Programs that say something by a status above 0 without having failed.
fn meaning(label: &str, code: i32) -> Option<&'static str> {
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
        ) => Some("nothing matched"),
        ("diff" | "cmp" | "zdiff" | "zcmp" | "xzdiff" | "bzdiff" | "diff3" | "sdiff", 1) => {
            Some("there were differences")
        }
        ("test" | "[" | "[[", 1) => Some("the condition is not true"),
        ("expr", 1) => Some("the result is empty or 0"),
        // GNU timeout says by this that the time was over.
        ("timeout", 124) => Some("the time was over"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended<'a>(label: &'a str, end: End<'a>) -> Ended<'a> {
        Ended { position: Some(0), label, last: false, end, interrupted: false, memory_kills: None }
    }

    fn text(ended: &Ended) -> (bool, String) {
        remark(ended).map(|remark| (remark.grave, remark.text)).unwrap_or_default()
    }

    #[test]
    fn what_ended_as_it_should_is_not_mentioned() {
        for end in [End::Code(0), End::Signal(13, "SIGPIPE"), End::Code(141)] {
            assert_eq!(remark(&ended("yes", end)), None, "{end:?}");
        }
        assert_eq!(remark(&ended("/bin/false", End::Code(1))), None);
    }

    #[test]
    fn a_status_that_is_an_answer_does_not_cry_wolf() {
        for (label, code) in [
            ("grep -c x", 1),
            ("LC_ALL=C /usr/bin/grep x", 1),
            ("diff a b", 1),
            ("git grep x", 1),
            ("test -f x", 1),
            ("timeout 5 cat", 124),
        ] {
            let (grave, said) = text(&ended(label, End::Code(code)));
            assert!(!grave && said.contains("ended with status"), "{label}: {said}");
        }
        for (label, code) in [("grep -c x", 2), ("sort", 1), ("git push", 1), ("", 1)] {
            assert!(text(&ended(label, End::Code(code))).0, "{label}");
        }
    }

    #[test]
    fn a_killed_stage_is_a_failure_and_names_who_read_too_little() {
        let killed = ended("sort -S 1G", End::Signal(9, "SIGKILL"));
        let said = "1 sort -S 1G was killed by SIGKILL: what follows it had incomplete input";
        assert_eq!(text(&killed), (true, String::from(said)));
        let last = Ended { last: true, ..killed };
        assert!(text(&last).1.ends_with("its output is incomplete"));
        let ours = Ended { interrupted: true, ..ended("cat", End::Signal(2, "SIGINT")) };
        let said = "interrupted by SIGINT: the figures are those until then";
        assert_eq!(text(&ours), (false, String::from(said)));
    }

    #[test]
    fn want_of_memory_is_named_only_where_the_kernel_counted_a_kill() {
        let with = |group, host, number, name| {
            let kills = Some(MemoryKills { group, host });
            text(&Ended { memory_kills: kills, ..ended("sort", End::Signal(number, name)) }).1
        };
        assert!(with(Some(1), Some(1), 9, "SIGKILL").contains("killed 1 process of this control"));
        assert!(with(Some(0), Some(2), 9, "SIGKILL").contains("perhaps out of memory: the kernel"));
        assert!(with(None, Some(2), 9, "SIGKILL").contains("2 processes on this host"));
        assert!(!with(Some(0), Some(0), 9, "SIGKILL").contains("memory"));
        assert!(!with(Some(1), Some(1), 11, "SIGSEGV").contains("memory"));
        let shell = Ended {
            memory_kills: Some(MemoryKills { group: Some(1), host: None }),
            ..ended("(sort)", End::Code(137))
        };
        assert!(text(&shell).1.contains("stands for SIGKILL (out of memory"));
    }

    #[test]
    fn what_was_not_found_is_said_so() {
        assert!(text(&ended("(nosuch)", End::Code(127))).1.contains("was not found"));
        let said = text(&ended("nosuch", End::NotStarted("command not found")));
        assert_eq!(said, (true, String::from("1 nosuch was not started: command not found")));
    }
}
