//! `weir port`: many writers, one reader, a name, from the shell.
//!
//! [`read`] makes a port and prints what comes, in the forms of [`form`]; [`write`] sends what it
//! reads; [`names`] lists, shows and removes.

mod form;
mod names;
mod read;
mod write;

use crate::args::{PortCommand, PortVerb};
use crate::fault::Fault;
use std::path::Path;
use std::process::ExitCode;
use weir::ErrorKind;

pub fn port(command: &PortCommand) -> Result<ExitCode, Fault> {
    match &command.verb {
        PortVerb::Read(options) => read::read(options),
        PortVerb::Write(options) => write::write(options),
        PortVerb::List(options) => names::list(options),
        PortVerb::Stat(options) => names::stat(options),
        PortVerb::Remove(options) => names::remove(&options.name),
    }
}

/// Refuses what cannot be a name, so that a later `Invalid` is about something else.
fn check_name(name: &Path) -> Result<(), Fault> {
    weir::PortName::path_of(name).map(drop).map_err(asked)
}

/// An error of what was asked for: what cannot be is wrong usage.
pub fn asked(error: weir::Error) -> Fault {
    match error.kind() {
        ErrorKind::Invalid => Fault::usage(error.to_string()),
        _ => failed(error),
    }
}

fn failed(error: weir::Error) -> Fault {
    Fault::failed(error.to_string())
}
