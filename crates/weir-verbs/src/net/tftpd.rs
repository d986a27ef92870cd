//! `weir net tftpd`: serves a directory by TFTP, on the switch or on the kernel's sockets.

use super::{asked, device, not_attached, publish, stop_flag, switch_of};
use crate::args::NetTftpdOptions;
use crate::fault::{Fault, tell};
use crate::units;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use weir_net::icmp::{TokenBucket, TokenRate};
use weir_net::jail::Jail;
use weir_net::log::{EventReason, FailureEvent, Log};
use weir_net::names;
use weir_net::tftp::Patience;
use weir_net::tftp::datagrams::{Datagrams, Sockets, SwitchPorts};
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
    };
    let place = options.directory.display();
    if options.socket {
        let sockets = Sockets::listen(SocketAddr::new(options.bind, options.port))?;
        let server = TftpServer::new(sockets, options.port, jail, rules);
        tell(&format!("tftpd serves '{place}' at {}", SocketAddr::new(options.bind, options.port)));
        return serve(server, &stop, options.quiet, |_| {});
    }
    let tun = device(options.tun.as_deref())?;
    let (switch, directory) = switch_of(&tun)?;
    let bound = UdpEndpoint::bind(&switch, &directory, &[options.port], TRANSFER_PORTS);
    let mut endpoint = bound.map_err(|error| not_attached(&tun, error))?;
    // The switch creates the log. Without one, nothing is logged.
    let log = Log::open(directory.join(names::LOG)).ok();
    log.iter().for_each(|log| endpoint.log_to(log.clone()));
    let _published = publish(&tun, "tftpd")?;
    let address = endpoint.address();
    let server = TftpServer::new(SwitchPorts::new(endpoint, 1), options.port, jail, rules);
    tell(&format!("tftpd serves '{place}' at {address}:{}", options.port));
    serve(server, &stop, options.quiet, |report| {
        if let (Some(log), SocketAddr::V4(client)) = (&log, report.client) {
            log.error(&FailureEvent {
                reason: EventReason::TRANSFER,
                protocol: protocol::UDP,
                source: address,
                target: *client.ip(),
                value: 0,
            });
        }
    })
}

fn serve<D: Datagrams>(
    mut server: TftpServer<D>,
    stop: &AtomicBool,
    quiet: bool,
    failed_one: impl Fn(&TransferReport),
) -> Result<ExitCode, Fault> {
    let (mut completed, mut failed) = (0_u64, 0_u64);
    let begun = Instant::now();
    // Anybody can have requests refused: that fills no disk with lines.
    let mut lines = TokenBucket::new(FAILURE_LINES, 0);
    server.run(stop, |report| {
        let is_failure = report.failure.is_some();
        *(if is_failure { &mut failed } else { &mut completed }) += 1;
        let now_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if is_failure && !lines.allows(now_ns) {
            return;
        }
        if is_failure {
            failed_one(report);
        }
        if !quiet {
            tell(&line(report));
        }
    })?;
    tell(&format!("tftpd ends: {completed} transfers completed, {failed} failed or refused"));
    Ok(ExitCode::SUCCESS)
}

/// How a transfer ended, on one line.
fn line(report: &TransferReport) -> String {
    let TransferReport { client, name, failure, counts, .. } = report;
    let (verb, to) = if report.writes { ("got", "from") } else { ("sent", "to") };
    let name: String = name.escape_debug().collect();
    match failure {
        Some(why) if counts.blocks == 0 => format!("refused '{name}' {to} {client}: {why}"),
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
