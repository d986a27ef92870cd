//! Requests of `weir net tftp` to a `weir net tftpd` that runs: a transfer, and its list of transfers.

use super::switch::NamedSwitch;
use super::tftpd::summary;
use super::{asked, stop_flag};
use crate::args::{
    NetTftpCommand, NetTftpGetOptions, NetTftpListOptions, NetTftpPutOptions, NetTftpVerb,
    TransferMode, TransferOptions,
};
use crate::failed;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_command::fault::{Fault, print_message};
use weir_command::output::{Outlet, progress_bar};
use weir_net::names;
use weir_net::tftp::client::Proposal;
use weir_net::tftp::local::{LocalDaemon, LocalRequest};
use weir_net::tftp::packet::Mode;
use weir_net::tftp::waits::Waits;

/// Name of the list's schema.
const SCHEMA: &str = "weir.net.tftp.list/1";

/// Template of the progress: bytes, rate, and the side that is waited for.
pub const BAR: &str = "{bar:24} {bytes:>10}  {bytes_per_sec}  {msg}";

/// What the options propose to the server.
pub fn proposal(transfer: &TransferOptions) -> Proposal {
    Proposal {
        mode: match transfer.mode {
            TransferMode::Octet => Mode::Octet,
            TransferMode::Netascii => Mode::Netascii,
        },
        block_bytes: transfer.block,
        window: transfer.window,
        timeout_s: transfer.timeout,
        options: !transfer.no_options,
    }
}

/// Returns the file that is to be written: the one that was named, or the last part of the name there.
pub fn local_of(options: &NetTftpGetOptions) -> Result<PathBuf, Fault> {
    let named = || {
        let name = Path::new(&options.remote).file_name().map(PathBuf::from);
        name.ok_or_else(|| Fault::usage("cannot name the file here: name it as well"))
    };
    options.local.clone().map_or_else(named, Ok)
}

/// Returns the name of the file that is sent: the one that was named, or the last part of the path.
pub fn remote_of(options: &NetTftpPutOptions) -> OsString {
    let own = || options.local.file_name().map(ToOwned::to_owned).unwrap_or_default();
    options.remote.clone().unwrap_or_else(own)
}

/// Finds where a tftpd takes requests.
fn place(socket: bool, tun: Option<&str>, port: u16) -> Result<PathBuf, Fault> {
    if socket {
        return names::tftpd(None, port).map_err(asked);
    }
    let switch = NamedSwitch::find(tun)?;
    names::tftpd(Some(&switch.tun), port).map_err(asked)
}

/// Has the tftpd at `port` fetch or send a file.
pub fn ask(
    command: &NetTftpCommand,
    transfer: &TransferOptions,
    port: u16,
    server: SocketAddr,
) -> Result<ExitCode, Fault> {
    let (fetches, remote, local) = match &command.verb {
        NetTftpVerb::Get(options) => (true, options.remote.clone(), local_of(options)?),
        NetTftpVerb::Put(options) => (false, remote_of(options), options.local.clone()),
        NetTftpVerb::List(options) => return list(options),
    };
    if fetches && local.as_os_str() == "-" {
        return Err(Fault::usage("tftpd cannot write to this standard output: name a file"));
    }
    let local = std::path::absolute(&local).map_err(Fault::cannot("find this directory"))?;
    let (remote, proposal) = (remote.as_bytes(), proposal(transfer));
    let request = LocalRequest { server, proposal, fetches, remote, local: &local };
    let stop = stop_flag()?;
    let daemon = LocalDaemon::connect(&place(transfer.socket, transfer.tun.as_deref(), port)?)
        .map_err(failed)?;
    let bar = progress_bar(!transfer.quiet, 0, BAR);
    let ended = daemon.transfer(&request, &stop, &mut |row| {
        let number = |name: &str| row[name].as_u64();
        let moved = number("bytes").unwrap_or(0);
        bar.set_length(number("size_bytes").unwrap_or(moved));
        bar.set_position(moved);
        bar.set_message(format!("waits for {}", row["waits_for"].as_str().unwrap_or("?")));
    });
    bar.finish_and_clear();
    let ended = ended.map_err(failed)?;
    if let Some(why) = ended["failure"].as_str() {
        return Err(Fault::failed(why.to_owned()));
    }
    if !transfer.quiet {
        print_message(&figures(&ended));
    }
    Ok(ExitCode::SUCCESS)
}

/// Figures of a transfer, from its row.
fn figures(row: &Value) -> String {
    let number = |name: &str| row[name].as_u64().unwrap_or(0);
    let small = |name: &str| u16::try_from(number(name)).unwrap_or(u16::MAX);
    let waits = Waits {
        total_ns: number("total_ns"),
        network_ns: number("network_ns"),
        other_ns: number("other_ns"),
        ..Waits::default()
    };
    let agreed = (small("block_bytes"), small("window"));
    summary(number("bytes"), agreed, number("blocks_again"), &waits)
}

/// Shows the transfers of a tftpd.
pub fn list(options: &NetTftpListOptions) -> Result<ExitCode, Fault> {
    let mut outlet = Outlet::open(&options.json)?;
    let place = place(options.socket, options.tun.as_deref(), options.port)?;
    let rows = LocalDaemon::connect(&place).map_err(failed)?.transfers().map_err(failed)?;
    let text = || match rows.is_empty() {
        true => String::from("no transfer yet\n"),
        false => rows.iter().map(|row| format!("{}\n", line(row))).collect(),
    };
    outlet.write_report(SCHEMA, || json!({ "transfers": rows }), text)?;
    Ok(ExitCode::SUCCESS)
}

/// The transfers of all tftpds behind the switch on `tun`. One that does not answer has none.
pub fn behind(tun: &str) -> Vec<Value> {
    let ask = |path: &PathBuf| LocalDaemon::connect(path as &Path).and_then(LocalDaemon::transfers);
    names::tftpds(tun).iter().flat_map(|path| ask(path).unwrap_or_default()).collect()
}

/// How a transfer stands, on one line.
pub fn line(row: &Value) -> String {
    let number = |name: &str| row[name].as_u64().unwrap_or(0);
    let text = |name: &str| row[name].as_str().unwrap_or("?");
    let asker = row["pid"].as_u64().map_or(String::new(), |pid| format!(" for process {pid}"));
    let (verb, to) = match row["receives"].as_bool() {
        Some(true) => ("receives", "from"),
        _ => ("sends", "to"),
    };
    let name: String = text("name").escape_debug().collect();
    let mut line = format!("{} {verb} '{name}' {to} {}{asker}: ", text("state"), text("peer"));
    let failure = row["failure"].as_str();
    line += failure.unwrap_or_default();
    if number("total_ns") > 0 {
        line += if failure.is_some() { "; " } else { "" };
        line += &figures(row);
    }
    let stalls: Vec<String> = [
        ("this_side_stalls", "this side"),
        ("network_stalls", "the network"),
        ("other_side_stalls", "the other side"),
    ]
    .into_iter()
    .filter(|(name, _)| number(name) > 0)
    .map(|(name, side)| format!("{} by {side}", number(name)))
    .collect();
    if !stalls.is_empty() {
        line += &format!("; stalls: {}", stalls.join(", "));
    }
    if let Some(side) = row["waits_for"].as_str() {
        line += &format!("; waits for {side} now");
    }
    line
}
