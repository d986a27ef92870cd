//! `weir net tftpd`: serves a directory by TFTP, on the switch or on the kernel's sockets, and fetches
//! and sends files for local programs.

use super::switch::NamedSwitch;
use super::{asked, listener, stop_flag};
use crate::args::NetTftpdOptions;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use weir_command::fault::{Fault, print_message};
use weir_command::units;
use weir_net::icmp::{TokenBucket, TokenRate};
use weir_net::jail::Jail;
use weir_net::log::{EventReason, FailureEvent, Log};
use weir_net::names;
use weir_net::tftp::Patience;
use weir_net::tftp::datagrams::{Datagrams, Sockets, SwitchPorts};
use weir_net::tftp::local::TransferService;
use weir_net::tftp::server::{TftpServer, TransferReport, TransferRules};
use weir_net::tftp::waits::Waits;
use weir_net::udp::UdpEndpoint;
use weir_net::wire::ipv4::protocol;

/// Lines and events of the log about failures.
const FAILURE_LINES: TokenRate = TokenRate { per_s: 10, burst: 100 };
/// Ports for transfers: with the one for requests, as many as a station may have.
const TRANSFER_PORTS: usize = 63;

pub fn tftpd(options: &NetTftpdOptions) -> Result<ExitCode, Fault> {
    let stop = stop_flag()?;
    let jail = Jail::open(&options.directory).map_err(asked)?;
    let rules = TransferRules {
        writes: options.write || options.replace,
        replaces: options.replace,
        most_transfers: options.transfers.into(),
        most_of_a_host: options.per_host.into(),
        most_bytes: options.max_size,
        most_window: options.window,
        most_block_bytes: options.block,
        patience: Patience::of_seconds(options.timeout),
        bytes_per_s: options.rate,
    };
    let (place, port) = (options.directory.display(), options.port);
    if options.socket {
        let at = SocketAddr::new(options.bind, port);
        let sockets = Box::new(Sockets::listen(at).map_err(crate::failed)?);
        let server = TftpServer::new(sockets, port, jail, rules);
        let daemon = TftpDaemon { server, quiet: options.quiet, log: None, address: None };
        let make = |to| Ok(Box::new(Sockets::client_of(to)) as Box<dyn Datagrams>);
        let said = format!("tftpd serves '{place}' at {at}");
        return daemon.run(&stop, names::tftpd(None, port), make, &said);
    }
    let switch = NamedSwitch::find(options.tun.as_deref())?;
    let bind =
        |ports: &[u16], most| UdpEndpoint::bind(&switch.port, &switch.directory, ports, most);
    let mut endpoint = switch.attached(bind(&[port], TRANSFER_PORTS))?;
    let log = switch.log();
    log.iter().for_each(|log| endpoint.log_to(log.clone()));
    let _published = switch.publish("tftpd");
    let address = endpoint.address();
    let mut server = TftpServer::new(Box::new(SwitchPorts::new(endpoint, 1)), port, jail, rules);
    log.iter().for_each(|log| server.log_to(log.clone()));
    let daemon = TftpDaemon { server, quiet: options.quiet, log, address: Some(address) };
    let make = |_| Ok(Box::new(SwitchPorts::new(bind(&[], 1)?, 0)) as Box<dyn Datagrams>);
    let said = format!("tftpd serves '{place}' at {address}:{port}");
    daemon.run(&stop, names::tftpd(Some(&switch.tun), port), make, &said)
}

/// The server, and what it says about its transfers.
struct TftpDaemon {
    server: TftpServer,
    quiet: bool,
    /// The log of the switch, and this host's address there.
    log: Option<Log>,
    address: Option<Ipv4Addr>,
}

impl TftpDaemon {
    /// Serves, and takes requests of local programs at `path`, until `stop` is set.
    fn run<F: Fn(SocketAddr) -> weir_net::Result<Box<dyn Datagrams>> + Sync>(
        self,
        stop: &AtomicBool,
        path: weir_net::Result<PathBuf>,
        make: F,
        said: &str,
    ) -> Result<ExitCode, Fault> {
        let (board, log) = (self.server.board(), self.log.clone());
        let service = TransferService { board, log, stop, make };
        let listener = listener(path, "tftpd");
        print_message(said);
        service.run_beside(listener.as_ref(), || self.serve(stop))
    }

    fn serve(mut self, stop: &AtomicBool) -> Result<ExitCode, Fault> {
        let (mut completed, mut failed) = (0_u64, 0_u64);
        let begun = Instant::now();
        // Anybody can have requests refused: that fills no disk with lines.
        let mut lines = TokenBucket::new(FAILURE_LINES, 0);
        let (quiet, log, address) = (self.quiet, self.log.take(), self.address);
        self.server
            .run(stop, &mut |report| {
                let is_failure = report.failure.is_some();
                *(if is_failure { &mut failed } else { &mut completed }) += 1;
                let now_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                if is_failure && !lines.allows(now_ns) {
                    return;
                }
                if let (true, Some(log), Some(address)) = (is_failure, &log, address) {
                    log_failure(log, address, report);
                }
                if !quiet {
                    print_message(&line(report));
                }
            })
            .map_err(crate::failed)?;
        print_message(&format!(
            "tftpd ends: {completed} transfers completed, {failed} failed or refused"
        ));
        Ok(ExitCode::SUCCESS)
    }
}

fn log_failure(log: &Log, address: Ipv4Addr, report: &TransferReport) {
    if let SocketAddr::V4(client) = report.peer {
        log.error(&FailureEvent {
            reason: EventReason::TRANSFER,
            protocol: protocol::UDP,
            source: address,
            target: *client.ip(),
            value: 0,
        });
    }
}

/// How a transfer ended, on one line.
fn line(report: &TransferReport) -> String {
    let TransferReport { peer: client, name, failure, counts, waits, .. } = report;
    let (verb, to) = if report.receives { ("got", "from") } else { ("sent", "to") };
    let name: String = name.escape_debug().collect();
    match failure {
        // A transfer that was refused did not begin, and took no time.
        Some(why) if waits.total_ns == 0 => format!("refused '{name}' {to} {client}: {why}"),
        Some(why) => {
            let bytes = units::bytes(counts.bytes);
            format!("failed to finish '{name}' {to} {client} after {bytes}: {why}")
        }
        None => format!("{verb} '{name}' {to} {client}: {}", summary_of(report)),
    }
}

fn summary_of(report: &TransferReport) -> String {
    let TransferReport { block_bytes, window, counts, waits, .. } = report;
    let agreed = (*block_bytes, *window);
    summary(counts.bytes, agreed, counts.blocks_again, waits)
}

/// Figures of a transfer that has ended: how much, how long, and which side was waited for.
pub fn summary(bytes: u64, agreed: (u16, u16), again: u64, waits: &Waits) -> String {
    let (block_bytes, window) = agreed;
    let total_s = waits.total_ns as f64 / 1e9;
    let rate = units::rate(if total_s > 0.0 { bytes as f64 / total_s } else { 0.0 });
    let again = match again {
        0 => String::new(),
        again => format!(", {again} blocks again"),
    };
    let share =
        |ns: u64| units::percent((waits.total_ns > 0).then(|| ns as f64 / waits.total_ns as f64));
    format!(
        "{} in {} ({rate} MB/s), blocks of {block_bytes} in windows of {window}{again}; waited for this \
         side {}, the network {}, the other side {}",
        units::bytes(bytes),
        units::seconds(waits.total_ns),
        share(waits.ours_ns()),
        share(waits.network_ns),
        share(waits.other_ns),
    )
}
