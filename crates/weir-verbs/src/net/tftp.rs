//! `weir net tftp`: fetches or sends a file by TFTP, over the switch or the kernel's sockets.

use super::tftpd::summary;
use super::{asked, device, not_attached, stop_flag, switch_of};
use crate::args::{
    NetTftpCommand, NetTftpGetOptions, NetTftpPutOptions, NetTftpVerb, TransferMode,
    TransferOptions,
};
use crate::fault::{Fault, tell};
use crate::output::progress_bar;
use indicatif::ProgressBar;
use rustix::fd::AsFd;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_net::jail::{Jail, PartFile};
use weir_net::tftp::client::{Client, Progress, Proposal};
use weir_net::tftp::datagrams::{Datagrams, Sockets, SwitchPorts};
use weir_net::tftp::packet::Mode;
use weir_net::tftp::receiver::Sink;
use weir_net::udp::UdpEndpoint;

/// Template of the progress: bytes, rate, and the side that is waited for.
const BAR: &str = "{bar:24} {bytes:>10}  {bytes_per_sec}  {msg}";

pub fn tftp(command: &NetTftpCommand) -> Result<ExitCode, Fault> {
    let (host, transfer) = match &command.verb {
        NetTftpVerb::Get(options) => (&options.host, &options.transfer),
        NetTftpVerb::Put(options) => (&options.host, &options.transfer),
    };
    if transfer.socket {
        let server = resolve(host, transfer.port)?;
        let own = match server {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED),
        };
        return run(command, transfer, Sockets::client(own), server);
    }
    let address: Ipv4Addr = host.parse().map_err(|_| {
        let why = "behind a switch there are addresses only; --socket resolves names";
        Fault::usage(format!("cannot use the host '{host}': {why}"))
    })?;
    let tun = device(transfer.tun.as_deref())?;
    let (switch, directory) = switch_of(&tun)?;
    let bound = UdpEndpoint::bind(&switch, &directory, &[], 1);
    let endpoint = bound.map_err(|error| not_attached(&tun, error))?;
    let server = SocketAddr::new(address.into(), transfer.port);
    run(command, transfer, SwitchPorts::new(endpoint, 0), server)
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, Fault> {
    let found = (host, port).to_socket_addrs();
    let mut found = found.map_err(Fault::cannot(&format!("find the host '{host}'")))?;
    let none = || Fault::failed(format!("cannot find the host '{host}': it has no address"));
    found.next().ok_or_else(none)
}

fn run<D: Datagrams>(
    command: &NetTftpCommand,
    transfer: &TransferOptions,
    datagrams: D,
    server: SocketAddr,
) -> Result<ExitCode, Fault> {
    let proposal = Proposal {
        mode: match transfer.mode {
            TransferMode::Octet => Mode::Octet,
            TransferMode::Netascii => Mode::Netascii,
        },
        block_bytes: transfer.block,
        window: transfer.window,
        timeout_s: transfer.timeout,
        options: !transfer.no_options,
    };
    let client = Client::new(datagrams, server, proposal);
    let bar = progress_bar(!transfer.quiet, 0, BAR);
    let done = match &command.verb {
        NetTftpVerb::Get(options) => get(client, options, &bar),
        NetTftpVerb::Put(options) => put(client, options, &bar),
    };
    bar.finish_and_clear();
    let done = done?;
    if !transfer.quiet {
        let Progress { block_bytes, window, counts, waits, .. } = &done;
        tell(&summary(counts.bytes, (*block_bytes, *window), counts.blocks_again, waits));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(bar: &ProgressBar, progress: &Progress) {
    if bar.is_hidden() {
        return;
    }
    bar.set_length(progress.size_bytes.unwrap_or(progress.counts.bytes));
    bar.set_position(progress.counts.bytes);
    bar.set_message(format!("waits most for {}", progress.waits.longest()));
}

/// What is fetched: a file that gets its name when it is complete, or standard output.
enum Fetched {
    File(PartFile),
    Output(File),
}

impl Sink for Fetched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Fetched::File(file) => file.write(bytes),
            Fetched::Output(output) => output.write_all(bytes),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Fetched::File(file) => file.finish(),
            Fetched::Output(_) => Ok(()),
        }
    }
}

fn get<D: Datagrams>(
    mut client: Client<D>,
    options: &NetTftpGetOptions,
    bar: &ProgressBar,
) -> Result<Progress, Fault> {
    let stop = stop_flag()?;
    let named = || {
        let name = Path::new(&options.remote).file_name().map(PathBuf::from);
        name.ok_or_else(|| Fault::usage("cannot name the file here: name it as well"))
    };
    let local = options.local.clone().map_or_else(named, Ok)?;
    let mut sink = if local.as_os_str() == "-" {
        let own = io::stdout().as_fd().try_clone_to_owned();
        Fetched::Output(own.map_err(|error| Fault::unwritable(None, error))?.into())
    } else {
        Fetched::File(new_file(&local)?)
    };
    let name = options.remote.as_bytes();
    client.get(name, &mut sink, &stop, |progress| show(bar, progress)).map_err(asked)
}

/// Begins a file that gets its name when it is complete.
fn new_file(local: &Path) -> Result<PartFile, Fault> {
    let parent = local.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = local.file_name().unwrap_or_default();
    let jail = Jail::open(parent.unwrap_or(Path::new("."))).map_err(asked)?;
    let created = jail.create(name.as_bytes(), true, u64::MAX);
    created.map_err(|refusal| Fault::unwritable(Some(local), refusal.as_str()))
}

fn put<D: Datagrams>(
    mut client: Client<D>,
    options: &NetTftpPutOptions,
    bar: &ProgressBar,
) -> Result<Progress, Fault> {
    let stop = stop_flag()?;
    let unreadable = |error: io::Error| Fault::unreadable(Some(&options.local), error);
    let mut file = File::open(&options.local).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(Fault::unreadable(Some(&options.local), "it is not a plain file"));
    }
    let own = options.local.file_name().map(ToOwned::to_owned).unwrap_or_default();
    let name = options.remote.clone().unwrap_or(own);
    let see = |progress: &Progress| show(bar, progress);
    client.put(name.as_bytes(), &mut file, found.len(), &stop, see).map_err(asked)
}
