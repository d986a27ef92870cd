//! The switch that a verb goes to, and what each verb that attaches to it needs.

use super::{asked, publish};
use std::path::PathBuf;
use weir_command::fault::Fault;
use weir_net::log::Log;
use weir_net::{Error, ErrorKind, names};
use weir_profile::Published;

/// The default device, if several switches or none are up.
const USUAL: &str = "weir0";

/// A switch that was found by its device.
pub struct NamedSwitch {
    /// The device.
    pub tun: String,
    /// The switch's port.
    pub port: PathBuf,
    /// The directory of its stations.
    pub directory: PathBuf,
}

impl NamedSwitch {
    /// Finds the switch of the device that was named, or else the only one that is up.
    pub fn find(named: Option<&str>) -> Result<NamedSwitch, Fault> {
        let tun = device(named)?;
        let directory = names::find(&tun).map_err(|error| not_attached(&tun, error))?;
        Ok(NamedSwitch { tun, port: directory.join("switch"), directory })
    }

    /// Returns what has attached to it. If it is not up, the error names the device.
    pub fn attached<T>(&self, attached: weir_net::Result<T>) -> Result<T, Fault> {
        attached.map_err(|error| not_attached(&self.tun, error))
    }

    /// Opens its log. The switch creates it; without one, nothing is logged.
    pub fn log(&self) -> Option<Log> {
        Log::open(self.directory.join(names::LOG)).ok()
    }

    /// Publishes the profile of this process, which attached as `who`.
    pub fn publish(&self, who: &str) -> Option<Published> {
        publish(&self.tun, who)
    }
}

/// Chooses the device of the switch: the one that was named, or else the only one that is up.
pub fn device(named: Option<&str>) -> Result<String, Fault> {
    if let Some(name) = named {
        names::check(name).map_err(asked)?;
        return Ok(name.to_owned());
    }
    let mut up = names::up().map_err(asked)?;
    match up.len() {
        1 => Ok(up.remove(0)),
        0 => Ok(USUAL.to_owned()),
        _ if up.iter().any(|name| name == USUAL) => Ok(USUAL.to_owned()),
        _ => {
            let up = up.join(", ");
            Err(Fault::usage(format!("several switches are up ({up}): name one with --tun")))
        }
    }
}

/// Which switches are up, for the end of a message that one is not.
pub fn those_up() -> String {
    match names::up() {
        Ok(up) if !up.is_empty() => format!(" (up: {})", up.join(", ")),
        _ => String::from(" (none is up; weir net up starts one)"),
    }
}

fn not_attached(tun: &str, error: Error) -> Fault {
    match error.kind() {
        ErrorKind::NoSwitch => {
            let up = those_up();
            Fault::failed(format!("cannot attach to the switch of '{tun}': it is not up{up}"))
        }
        _ => asked(error),
    }
}
