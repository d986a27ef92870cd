//! `weir net tftp`: fetches or sends a file by TFTP, over the switch or the kernel's sockets.

use super::connect::{LOOK, write_some};
use super::switch::NamedSwitch;
use super::tftp_list::{self, BAR, local_of, proposal, remote_of};
use super::tftpd::summary;
use super::{asked, stop_flag};
use crate::args::{
    NetTftpCommand, NetTftpGetOptions, NetTftpPutOptions, NetTftpVerb, TransferOptions,
};
use crate::failed;
use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use weir_command::ends::BufferOutput;
use weir_command::fault::{Fault, print_message};
use weir_command::output::progress_bar;
use weir_measure::sys::spawn::output;
use weir_net::jail::{self, PartFile};
use weir_net::log::Log;
use weir_net::readiness::wait_for;
use weir_net::tftp::client::{Client, Progress};
use weir_net::tftp::datagrams::{Datagrams, Sockets, SwitchPorts};
use weir_net::tftp::files::FileSource;
use weir_net::tftp::receiver::Sink;
use weir_net::udp::UdpEndpoint;

pub fn tftp(command: &NetTftpCommand) -> Result<ExitCode, Fault> {
    let (host, transfer) = match &command.verb {
        NetTftpVerb::Get(options) => (&options.host, &options.transfer),
        NetTftpVerb::Put(options) => (&options.host, &options.transfer),
        NetTftpVerb::List(options) => return tftp_list::list(options),
    };
    let server = match transfer.socket {
        true => resolve(host, transfer.port)?,
        false => {
            let address: Ipv4Addr = host.parse().map_err(|_| {
                let why = "behind a switch there are addresses only; --socket resolves names";
                Fault::usage(format!("cannot use the host '{host}': {why}"))
            })?;
            SocketAddr::new(address.into(), transfer.port)
        }
    };
    if let Some(port) = transfer.daemon {
        return tftp_list::ask(command, transfer, port, server);
    }
    if transfer.socket {
        return run(command, transfer, &mut Sockets::client_of(server), server, None);
    }
    let switch = NamedSwitch::find(transfer.tun.as_deref())?;
    let bound = UdpEndpoint::bind(&switch.port, &switch.directory, &[], 1);
    let endpoint = switch.attached(bound)?;
    run(command, transfer, &mut SwitchPorts::new(endpoint, 0), server, switch.log())
}

/// Asks `getent` for the address of a name. getaddrinfo would load modules of the C library that the
/// machine has, which a static binary must not: they need not be of its version.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, Fault> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let cannot = |why: &str| Fault::failed(format!("cannot find the host '{host}': {why}"));
    if host.is_empty() || host.starts_with('-') || host.contains('\0') {
        return Err(cannot("that is not the name of a host"));
    }
    let answer = output(Command::new("getent").args(["ahosts", host]));
    let answer = answer.map_err(|error| {
        cannot(&format!("its address is asked of getent, which cannot be started: {error}"))
    })?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let words = text.lines().filter_map(|line| line.split_whitespace().next());
    let found = words.filter_map(|word| word.parse().ok());
    preferred(found.map(|address| SocketAddr::new(address, port)))
        .ok_or_else(|| cannot("no address is known for it"))
}

/// Chooses among the addresses of a host. A server mostly listens at those of version 4, as tftpd
/// does, while a name such as localhost often has one of version 6 first.
fn preferred(mut found: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let first = found.next()?;
    Some(if first.is_ipv4() { first } else { found.find(SocketAddr::is_ipv4).unwrap_or(first) })
}

fn run(
    command: &NetTftpCommand,
    transfer: &TransferOptions,
    datagrams: &mut dyn Datagrams,
    server: SocketAddr,
    log: Option<Log>,
) -> Result<ExitCode, Fault> {
    let mut client = Client::new(datagrams, server, proposal(transfer));
    log.into_iter().for_each(|log| client.log_to(log));
    let bar = progress_bar(!transfer.quiet, 0, BAR);
    let done = match &command.verb {
        NetTftpVerb::Get(options) => get(client, options, &bar),
        NetTftpVerb::Put(options) => put(client, options, &bar),
        NetTftpVerb::List(_) => return Ok(ExitCode::SUCCESS),
    };
    bar.finish_and_clear();
    let done = done?;
    if !transfer.quiet {
        let Progress { block_bytes, window, counts, waits, .. } = &done;
        print_message(&summary(counts.bytes, (*block_bytes, *window), counts.blocks_again, waits));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(bar: &ProgressBar, progress: &Progress) {
    if bar.is_hidden() {
        return;
    }
    bar.set_length(progress.size_bytes.unwrap_or(progress.counts.bytes));
    bar.set_position(progress.counts.bytes);
    bar.set_message(format!("waits most for {}", progress.waits.longest().as_str()));
}

/// What is fetched: a file that gets its name when it is complete, or standard output.
enum Fetched {
    File(PartFile),
    Output(BufferOutput),
}

/// Where it goes, and why that could not be written. The client of TFTP does not know its name.
struct Destination<'a> {
    to: Fetched,
    path: Option<PathBuf>,
    failure: Option<Fault>,
    stop: &'a AtomicBool,
}

impl Destination<'_> {
    fn note(&mut self, done: io::Result<()>) -> io::Result<()> {
        done.inspect_err(|cause| {
            self.failure = Some(match (&self.path, cause.kind()) {
                (None, io::ErrorKind::BrokenPipe) => Fault::reader_gone(),
                (path, _) => Fault::unwritable(path.as_deref(), cause),
            });
        })
    }
}

impl Sink for Destination<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let done = match &mut self.to {
            Fetched::File(file) => file.write(bytes),
            Fetched::Output(output) => write_all(output, bytes, self.stop),
        };
        self.note(done)
    }

    fn finish(&mut self) -> io::Result<()> {
        let done = match &mut self.to {
            Fetched::File(file) => file.finish(),
            Fetched::Output(_) => Ok(()),
        };
        self.note(done)
    }
}

/// Writes all bytes, unless `stop` is set while nobody takes them.
fn write_all(output: &mut BufferOutput, mut bytes: &[u8], stop: &AtomicBool) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = write_some(output, bytes)?;
        bytes = &bytes[written..];
        // Relaxed: it only signals the end.
        if written == 0 && stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("it was interrupted"));
        }
        if written == 0 {
            let mut asked = [PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::OUT)];
            wait_for(&mut asked, Some(LOOK), "output").map_err(io::Error::other)?;
        }
    }
    Ok(())
}

fn get(
    mut client: Client<'_>,
    options: &NetTftpGetOptions,
    bar: &ProgressBar,
) -> Result<Progress, Fault> {
    let stop = stop_flag()?;
    let local = local_of(options)?;
    let (to, path) = if local.as_os_str() == "-" {
        (Fetched::Output(BufferOutput::new(None)?), None)
    } else {
        (Fetched::File(jail::new_file(&local).map_err(asked)?), Some(local))
    };
    let mut destination = Destination { to, path, failure: None, stop: &stop };
    let name = options.remote.as_bytes();
    let got = client.get(name, &mut destination, &stop, &mut |progress| show(bar, progress));
    got.map_err(|error| destination.failure.take().unwrap_or_else(|| asked(error)))
}

fn put(
    mut client: Client<'_>,
    options: &NetTftpPutOptions,
    bar: &ProgressBar,
) -> Result<Progress, Fault> {
    let stop = stop_flag()?;
    let (file, size_bytes) = jail::plain_file(&options.local).map_err(failed)?;
    let mut file = FileSource::new(file, size_bytes);
    let name = remote_of(options);
    let see = &mut |progress: &Progress| show(bar, progress);
    client.put(name.as_bytes(), &mut file, size_bytes, &stop, see).map_err(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the help got no answer of tftpd where localhost is ::1 first.
    #[test]
    fn an_address_of_version_4_is_preferred() {
        let of = |found: &[&str]| {
            let found = found.iter().map(|at| at.parse().expect("an address"));
            preferred(found).map(|at: SocketAddr| at.to_string())
        };
        let (four, six) = ("127.0.0.1:69", "[::1]:69");
        assert_eq!(of(&[six, four, "127.0.0.2:69"]), Some(four.into()));
        assert_eq!(of(&[four, six]), Some(four.into()));
        assert_eq!(of(&[six]), Some(six.into()));
        assert_eq!(of(&[]), None);
    }
}
