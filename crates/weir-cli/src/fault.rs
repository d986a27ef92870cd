//! Errors of the command itself: a sentence on stderr and an exit status of 1 or 2.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// What went wrong.
#[derive(Debug)]
pub struct Fault {
    usage: bool,
    text: String,
}

impl Fault {
    /// The command was used wrongly: exit status 2.
    pub fn usage(text: impl Into<String>) -> Fault {
        Fault { usage: true, text: text.into() }
    }

    /// Something could not be done: exit status 1.
    pub fn failed(text: impl Into<String>) -> Fault {
        Fault { usage: false, text: text.into() }
    }

    /// Prints it; nobody to read it is no further error.
    pub fn tell(&self) {
        tell(&self.text);
    }

    /// The exit status that goes with it.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(if self.usage { 2 } else { 1 })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Prints `weir: TEXT` on stderr, in one write so that lines of stages do not tear it.
pub fn tell(text: &str) {
    let line = format!("weir: {text}\n");
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
