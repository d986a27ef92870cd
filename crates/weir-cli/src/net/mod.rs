//! `weir net`: a packet switch at user level, and what attaches to it.
//!
//! [`log`] prints and follows the log that they share.

mod log;

use crate::args::{NetCommand, NetVerb};
use crate::fault::Fault;
use std::process::ExitCode;
use weir_net::{Error, ErrorKind};

/// Carries out the verb.
pub fn net(command: &NetCommand) -> Result<ExitCode, Fault> {
    match &command.verb {
        NetVerb::Log(options) => log::log(options),
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
