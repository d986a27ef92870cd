//! A server of TFTP: one thread for all transfers, over any [`Datagrams`].
//!
//! `transfer` is one transfer: its file, and one of the two directions. `requests` begins transfers or
//! refuses them, and `rate` limits their rate.

mod rate;
mod requests;
mod transfer;

pub use super::board::{TransferBoard, TransferReport, TransferState};
use super::burst::Burst;
use super::datagrams::{Datagrams, Inbound};
use super::packet::{self, ErrorCode};
use super::{Patience, log_flow};
use crate::elapsed::elapsed_ns;
use crate::error::Result;
use crate::jail::{Jail, Refusal};
use crate::log::{FlowChange, Log};
use crate::report::ServiceReport;
use crate::spans;
use rate::RateLimit;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use transfer::{Transfer, TransferPhase};

/// Most packets of one transfer before the others get a turn.
const MOST_AT_ONCE: usize = 64;
/// How often an idle server checks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// The shortest time between two reports of figures.
const REPORT_NS: u64 = 100_000_000;
/// Most requests that wait while the server takes other packets.
const MOST_REQUESTS: usize = 64;

/// What a server allows.
#[derive(Clone, Copy, Debug)]
pub struct TransferRules {
    /// Whether clients may write files that are not there.
    pub writes: bool,
    /// Whether they may replace files that are there.
    pub replaces: bool,
    /// Most transfers at a time.
    pub most_transfers: usize,
    /// Most transfers at a time with one host.
    pub most_of_a_host: usize,
    /// Longest file that clients may write.
    pub most_bytes: u64,
    /// Longest window that is agreed on, in blocks.
    pub most_window: u16,
    /// Longest block that is agreed on.
    pub most_block_bytes: u16,
    /// How long to wait, where the client proposes nothing.
    pub patience: Patience,
    /// Most bytes a second, those sent and those that come, of all transfers together.
    pub bytes_per_s: Option<u64>,
}

impl Default for TransferRules {
    fn default() -> Self {
        TransferRules {
            writes: false,
            replaces: false,
            most_transfers: 256,
            most_of_a_host: 64,
            most_bytes: 1 << 30,
            most_window: u16::MAX,
            most_block_bytes: 65_464,
            patience: Patience::default(),
            bytes_per_s: None,
        }
    }
}

/// A request that has come.
struct RequestPacket {
    from: SocketAddr,
    packet: Vec<u8>,
}

/// A server.
#[derive(Debug)]
pub struct TftpServer {
    datagrams: Box<dyn Datagrams>,
    /// The port where requests come.
    port: u16,
    jail: Jail,
    rules: TransferRules,
    transfers: HashMap<SocketAddr, Transfer>,
    begun: Instant,
    packet: Vec<u8>,
    burst: Burst,
    board: TransferBoard,
    log: Option<Log>,
    rate: Option<RateLimit>,
    reported: Option<(ServiceReport, u64)>,
}

impl TftpServer {
    /// Serves the files of a directory; requests come at `port`.
    pub fn new(
        datagrams: Box<dyn Datagrams>,
        port: u16,
        jail: Jail,
        rules: TransferRules,
    ) -> TftpServer {
        TftpServer {
            datagrams,
            port,
            jail,
            rules,
            transfers: HashMap::new(),
            begun: Instant::now(),
            packet: Vec::new(),
            burst: Burst::default(),
            board: TransferBoard::default(),
            log: None,
            rate: rules.bytes_per_s.map(RateLimit::new),
            reported: None,
        }
    }

    /// Logs how transfers begin and end, and what happens to them, from now on.
    pub fn log_to(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// Returns what is shown of the transfers.
    pub fn board(&self) -> TransferBoard {
        self.board.clone()
    }

    fn now_ns(&self) -> u64 {
        elapsed_ns(self.begun)
    }

    /// Serves until `stop` is set. Shows how each transfer ended.
    ///
    /// # Errors
    /// Datagrams cannot come or go any more.
    pub fn run(&mut self, stop: &AtomicBool, see: &mut dyn FnMut(&TransferReport)) -> Result<()> {
        // Relaxed: it only signals the end.
        while !stop.load(Ordering::Relaxed) {
            let more = self.transmit_all(see)?;
            let time = if more { Duration::ZERO } else { self.idle_time() };
            let asked = self.take_all(time)?;
            for asked in asked {
                self.begin(&asked, see)?;
            }
            self.report()?;
        }
        Ok(())
    }

    /// Shows how the transfers stand, and tells the sums where they are shown, now and then.
    fn report(&mut self) -> Result<()> {
        let now_ns = self.now_ns();
        if self
            .reported
            .is_some_and(|(_, reported_ns)| now_ns.saturating_sub(reported_ns) < REPORT_NS)
        {
            return Ok(());
        }
        for (client, transfer) in &self.transfers {
            if transfer.state() == TransferPhase::Runs {
                self.board.show(transfer.number, transfer.report(*client, now_ns));
            }
        }
        let sums = self.board.sums();
        let is_new = self.reported.is_none_or(|(reported, _)| reported != sums);
        self.reported = Some((sums, now_ns));
        if is_new { self.datagrams.report(&sums) } else { Ok(()) }
    }

    /// Returns how long nothing is due.
    fn idle_time(&mut self) -> Duration {
        let now_ns = self.now_ns();
        let held_ns = self.rate.as_mut().and_then(|rate| rate.held_until_ns(now_ns));
        let due_ns = || self.transfers.values().map(Transfer::deadline_ns).min();
        let due_ns = held_ns.or_else(due_ns);
        let left = due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        left.map_or(LOOK, |left| left.min(LOOK))
    }

    /// Takes what has come. Returns the requests.
    fn take_all(&mut self, time: Duration) -> Result<Vec<RequestPacket>> {
        let (mut asked, mut strangers) = (Vec::new(), Vec::new());
        let TftpServer { datagrams, port, transfers, begun, rate, .. } = self;
        datagrams.receive(time, &mut |inbound| {
            let _span = spans::TFTP.enter();
            let now_ns = elapsed_ns(*begun);
            match inbound {
                Inbound::Datagram { local_port, from, payload } if local_port == *port => {
                    if asked.len() < MOST_REQUESTS {
                        asked.push(RequestPacket { from, packet: payload.to_vec() });
                    }
                    true
                }
                Inbound::Datagram { local_port, from, payload } => {
                    let known = transfers.get_mut(&from);
                    match known.filter(|transfer| transfer.local_port == local_port) {
                        Some(transfer) => {
                            if let Some(rate) = rate {
                                rate.spend(payload.len(), now_ns);
                            }
                            transfer.take(payload, now_ns);
                            !transfer.is_due()
                        }
                        None => {
                            // An error is never answered.
                            if !payload.starts_with(&[0, 5]) {
                                strangers.push((local_port, from));
                            }
                            true
                        }
                    }
                }
                Inbound::Undelivered { local_port, to } => {
                    let known = transfers.get_mut(&to);
                    let known = known.filter(|transfer| transfer.local_port == local_port);
                    if let Some(transfer) = known {
                        transfer.fail(None, "the client is not there any more");
                    }
                    true
                }
            }
        })?;
        for (local_port, from) in strangers {
            self.refuse(local_port, from, ErrorCode::UnknownId, "no transfer has this port")?;
        }
        Ok(asked)
    }

    fn refuse(&mut self, from: u16, to: SocketAddr, code: ErrorCode, text: &str) -> Result<()> {
        packet::put_error(&mut self.packet, code, text);
        self.datagrams.send(from, to, &self.packet)
    }

    /// Sends what is due. Returns whether there may be more to send at once.
    fn transmit_all(&mut self, see: &mut dyn FnMut(&TransferReport)) -> Result<bool> {
        let (mut more, mut over) = (false, Vec::new());
        let (begun, mut held_ns, mut due_ns, mut most_at_once) = (self.begun, 0, 0, MOST_AT_ONCE);
        let time_ns = || elapsed_ns(begun);
        if let Some(rate) = &mut self.rate {
            let now_ns = time_ns();
            if rate.held_until_ns(now_ns).is_some() {
                return Ok(false);
            }
            // Each transfer sends one packet, and then all wait until that is within the rate.
            (held_ns, most_at_once) = (rate.was_held_ns(now_ns), 1);
        }
        let TftpServer { datagrams, transfers, burst, log, rate, .. } = self;
        for (client, transfer) in transfers.iter_mut() {
            transfer.flow_mut().held(held_ns);
            transfer.expire(time_ns());
            for sent in 1..=most_at_once {
                let now_ns = time_ns();
                let packet = burst.space();
                if !spans::TFTP.run(|| transfer.transmit(now_ns, packet)) {
                    break;
                }
                if let Some(rate) = rate {
                    rate.spend(packet.len(), now_ns);
                }
                due_ns = now_ns;
                let sent_in = datagrams.send_in(transfer.local_port, *client, burst);
                transfer.note(sent_in)?;
                more |= sent == most_at_once;
            }
            transfer.note(datagrams.send_burst(transfer.local_port, *client, burst))?;
            transfer.flow_mut().sent(due_ns, time_ns());
            while let Some(change) = transfer.flow_mut().change() {
                log_flow(log.as_ref(), change, transfer.local_port, *client);
            }
            if transfer.state() != TransferPhase::Runs {
                over.push(*client);
            }
        }
        for client in over {
            self.leave(client, see);
        }
        Ok(more)
    }

    /// Shows how a transfer ended, once, and removes it unless it lingers.
    fn leave(&mut self, client: SocketAddr, see: &mut dyn FnMut(&TransferReport)) {
        let now_ns = self.now_ns();
        let Some(transfer) = self.transfers.get_mut(&client) else { return };
        if let Some(report) = transfer.ended(client, now_ns) {
            let bytes = report.counts.bytes;
            let change = match report.state {
                TransferState::Failed => FlowChange::Failed { bytes },
                _ => FlowChange::Ended { bytes },
            };
            log_flow(self.log.as_ref(), change, transfer.local_port, client);
            self.board.end(transfer.number, report.clone());
            see(&report);
        }
        if transfer.state() == TransferPhase::Ended {
            self.datagrams.close(transfer.local_port);
            self.transfers.remove(&client);
        }
    }
}

fn code_of(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::NotFound => ErrorCode::NotFound,
        Refusal::Access => ErrorCode::Access,
        Refusal::Exists => ErrorCode::Exists,
        Refusal::Full => ErrorCode::DiskFull,
        Refusal::Trouble => ErrorCode::Other,
    }
}
