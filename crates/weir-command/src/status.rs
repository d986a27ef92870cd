//! The exit status that a shell gives for a program that it started.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use weir_doctor::ending::Ending;

/// Returns the code to exit with in place of a program that ended with this status.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let died = status.signal().map(Ending::Signal);
    let ending = died.unwrap_or(Ending::Code(status.code().unwrap_or(1)));
    ExitCode::from(ending.shell_status() as u8)
}

/// Returns the code that shells exit with for a program that could not be started.
pub fn unstarted_code(error: &io::Error) -> ExitCode {
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}
