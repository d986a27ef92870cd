//! The command `weir-net`, the verb `net` of `weir`: a packet switch at user level, and what attaches
//! to it.
//!
//! [`up`] runs the switch and [`icmpd`] the daemon that answers. [`ping`] sends requests, [`stat`]
//! shows the counters of the switch, [`log`] prints and follows their common log, and [`cost`] measures
//! what logging costs. [`profile`] shows where CPU time goes. [`relay`] impairs packets on purpose.
//! [`tftpd`] and [`mod@tftp`] move files by TFTP; [`serve`] and [`connect`] have TCP and, by [`mod@telnet`], Telnet.
//! [`switch`] finds the switch for all of them.

#![forbid(unsafe_code)]

mod args;
mod connect;
mod cost;
mod icmpd;
mod log;
mod netns;
mod ping;
mod profile;
mod relay;
mod serve;
mod stat;
mod switch;
mod telnet;
mod tftp;
mod tftp_list;
mod tftpd;
mod up;

use crate::args::{NetCommand, NetVerb};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir::Listener;
use weir_command::fault::{Fault, print_message};
use weir_command::product::{Verb, run};
use weir_command::signals::{self, Again};
use weir_net::{Error, ErrorKind};

fn main() -> ExitCode {
    run("weir-net", &[Verb::new("net", act)])
}

fn act(command: &NetCommand) -> Result<ExitCode, Fault> {
    // A limit of file sizes ends a transfer, not the daemon.
    signals::survive_size_limit();
    match &command.verb {
        NetVerb::Up(options) => up::up(options),
        NetVerb::Icmpd(options) => icmpd::icmpd(options),
        NetVerb::Ping(options) => ping::ping(options),
        NetVerb::Stat(options) => stat::stat(options),
        NetVerb::Log(options) => log::log(options),
        NetVerb::Profile(options) => profile::profile(options),
        NetVerb::Relay(options) => relay::relay(options),
        NetVerb::Tftpd(options) => tftpd::tftpd(options),
        NetVerb::Tftp(command) => tftp::tftp(command),
        NetVerb::Serve(options) => serve::serve(options),
        NetVerb::Connect(options) => connect::connect(options),
        NetVerb::Telnet(options) => connect::telnet(options),
    }
}

/// A flag that INT, TERM and HUP set, however often they come.
fn stop_flag() -> Result<Arc<AtomicBool>, Fault> {
    signals::stop_flag(Again::AsFirst)
}

/// Publishes the profile of this process for `weir net profile`. A process continues without, and
/// says so.
fn publish(tun: &str, who: &str) -> Option<weir_profile::Published> {
    let path = weir_net::names::profile(tun, who, std::process::id());
    let path =
        path.inspect_err(|error| print_message(&format!("{who} has no profile: {error}"))).ok()?;
    let published = weir_profile::publish(&path, who);
    let why = |error: &_| {
        print_message(&format!("{who} has no profile at '{}': {error}", path.display()))
    };
    published.inspect_err(why).ok()
}

/// Listens for requests of local programs. A daemon continues without, and says so.
fn listener(path: weir_net::Result<PathBuf>, who: &str) -> Option<Listener> {
    let listening = path.map_err(|error| error.to_string());
    let bind = |path: PathBuf| Listener::bind(path).map_err(|error| error.to_string());
    let listening = listening.and_then(bind);
    if let Err(why) = &listening {
        print_message(&format!("{who} takes no requests of local programs: {why}"));
    }
    listening.ok()
}

/// Converts an error about what the user asked for: what is invalid is wrong usage.
fn asked(error: Error) -> Fault {
    match error.kind() {
        ErrorKind::Invalid => Fault::usage(error.to_string()),
        _ => failed(error),
    }
}

/// Converts an error of the network: what could not be done.
fn failed(error: Error) -> Fault {
    Fault::failed(error.to_string())
}
