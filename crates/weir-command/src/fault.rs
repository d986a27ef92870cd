//! Errors of the command itself: a sentence on stderr and an exit status of 1 or 2.

use rustix::io::Errno;
use signal_hook::consts::SIGPIPE;
use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use weir_measure::sys::signals::die_of;
use weir_policy::text::printable_lines;

/// An error of the command.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    status: u8,
    text: String,
}

/// The status that a shell reports for a command that died of SIGINT.
pub const INTERRUPTED: u8 = 130;

impl Fault {
    /// The command was used wrongly: exit status 2.
    pub fn usage(text: impl Into<String>) -> Fault {
        Fault { status: 2, text: text.into() }
    }

    /// Something could not be done: exit status 1.
    pub fn failed(text: impl Into<String>) -> Fault {
        Fault { status: 1, text: text.into() }
    }

    /// The user interrupted the command: exit status 130.
    pub fn interrupted() -> Fault {
        Fault { status: INTERRUPTED, text: String::from("interrupted") }
    }

    /// Turns an error into `cannot WHAT: error`, exit status 1.
    pub fn cannot<E: Display>(what: &str) -> impl Fn(E) -> Fault + '_ {
        move |error| Fault::failed(format!("cannot {what}: {error}"))
    }

    /// A file, or standard input if it is `None`, cannot be read: exit status 1.
    pub fn unreadable(file: Option<&Path>, why: impl Display) -> Fault {
        let name = file.map(|path| format!("'{}'", path.display()));
        Fault::cannot(&format!("read {}", name.as_deref().unwrap_or("standard input")))(why)
    }

    /// A file, or standard output if it is `None`, cannot be written: exit status 1.
    pub fn unwritable(file: Option<&Path>, why: impl Display) -> Fault {
        let name = file.map(|path| format!("'{}'", path.display()));
        Fault::cannot(&format!("write {}", name.as_deref().unwrap_or("to standard output")))(why)
    }

    /// The reader of the output has left: the command prints nothing and dies of SIGPIPE.
    pub fn reader_gone() -> Fault {
        Fault { status: 128 + SIGPIPE as u8, text: String::new() }
    }

    /// Prints the error and ends the command: gives the exit status, or dies of SIGPIPE.
    pub fn end(&self) -> ExitCode {
        if self.text.is_empty() {
            return die(SIGPIPE);
        }
        self.print_message();
        ExitCode::from(self.status)
    }

    /// Prints the error. If nobody reads standard error, that is not a further error.
    pub fn print_message(&self) {
        print_message(&self.text);
    }
}

impl From<weir::Error> for Fault {
    fn from(error: weir::Error) -> Fault {
        Fault::failed(error.to_string())
    }
}

/// Says why `/proc` has no such process. That of another user, or of another namespace, may be hidden.
pub fn missing(pid: i32) -> &'static str {
    let asked = rustix::process::Pid::from_raw(pid).map(rustix::process::test_kill_process);
    match asked {
        _ if !has_proc() => "/proc is not mounted",
        Some(Ok(()) | Err(Errno::PERM)) => "/proc does not show it",
        _ => "it does not exist",
    }
}

/// Returns whether processes can be seen at all.
pub fn has_proc() -> bool {
    weir_sys::proc::is_mounted()
}

/// Dies of a signal.
pub fn die(signal: i32) -> ExitCode {
    // If the signal is blocked, the exit status says the same.
    let _ = die_of(signal);
    ExitCode::from(128 + signal as u8)
}

/// Warning of a build that measures too slow a weir.
pub const UNOPTIMIZED: &str = "this build is not optimized: figures of weir's own mechanisms are too \
    slow (for true ones: cargo build --release)";

/// Prints `weir: TEXT` on stderr, in one write, so that lines of stages do not mix with it. The text
/// may hold names and reports of others: no character of it acts on the terminal.
pub fn print_message(text: &str) {
    let line = format!("weir: {}\n", printable_lines(text));
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
