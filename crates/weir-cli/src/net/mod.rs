//! `weir net`: a packet switch at user level, and what attaches to it.
//!
//! [`log`] prints and follows the log that they share, and [`cost`] measures what logging costs;
//! [`profile`] counts and times what they do; [`output`] is standard output of what goes on for
//! long.

mod cost;
mod log;
mod output;
mod profile;

use crate::args::{NetCommand, NetVerb};
use crate::fault::Fault;
use std::process::ExitCode;
use weir_net::{Error, ErrorKind};

/// Carries out the verb.
pub fn net(command: &NetCommand) -> Result<ExitCode, Fault> {
    match &command.verb {
        NetVerb::Log(options) => log::log(options),
        NetVerb::Profile(options) => profile::profile(options),
    }
}

/// An error of what was asked for: what cannot be is wrong usage.
fn asked(error: Error) -> Fault {
    match error.kind() {
        ErrorKind::Invalid => Fault::usage(error.to_string()),
        _ => failed(error),
    }
}

fn failed(error: Error) -> Fault {
    Fault::failed(error.to_string())
}
