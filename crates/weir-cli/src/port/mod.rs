//! `weir port`: many writers and one reader under a name, from the shell.
//!
//! [`read`] creates a port and prints its messages in the forms of [`form`]. [`write`] sends what it
//! reads. [`names`] lists, shows and removes ports. `mount` shows ports as files, where weir is built with
//! that.

mod end;
mod form;
#[cfg(feature = "mount")]
mod mount;
mod names;
mod read;
mod write;

use crate::args::{PortCommand, PortVerb};
use std::path::Path;
use std::process::ExitCode;
use weir::ErrorKind;
use weir_command::fault::Fault;

pub fn port(command: &PortCommand) -> Result<ExitCode, Fault> {
    match &command.verb {
        PortVerb::Read(options) => read::read(options),
        PortVerb::Write(options) => write::write(options),
        PortVerb::List(options) => names::list(options),
        PortVerb::Stat(options) => names::stat(options),
        #[cfg(feature = "mount")]
        PortVerb::Mount(options) => mount::mount(options),
        PortVerb::Remove(options) => names::remove(&options.name),
    }
}

/// Refuses an invalid name, so that a later `Invalid` is about something else.
fn check_name(name: &Path) -> Result<(), Fault> {
    weir::PortName::path_of(name).map(drop).map_err(asked)
}

/// Converts an error about what the user asked for: what is invalid is wrong usage.
pub fn asked(error: weir::Error) -> Fault {
    match error.kind() {
        ErrorKind::Invalid => Fault::usage(error.to_string()),
        _ => error.into(),
    }
}
