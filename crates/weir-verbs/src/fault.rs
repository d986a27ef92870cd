//! Errors of the command itself: a sentence on stderr and an exit status of 1 or 2.

use std::io::Write;
use std::process::ExitCode;
use weir_policy::text::printable_lines;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    status: u8,
    text: String,
}

/// What a shell shows of a command that died of SIGINT.
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

    /// Someone asked to stop: exit status 130.
    pub fn interrupted() -> Fault {
        Fault { status: INTERRUPTED, text: String::from("interrupted") }
    }

    /// Prints it; nobody to read it is no further error.
    pub fn tell(&self) {
        tell(&self.text);
    }

    /// The exit status that goes with it.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}

/// Prints `weir: TEXT` on stderr, in one write so that lines of stages do not tear it. Names and
/// reports of others stand in what is said: nothing in it makes the terminal do anything.
pub fn tell(text: &str) {
    let line = format!("weir: {}\n", printable_lines(text));
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
