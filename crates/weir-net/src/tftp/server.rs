//! A server of TFTP: one thread for all transfers, over any [`Datagrams`].
//!
//! `transfer` is one transfer: its file, and one of the two directions.

mod transfer;

use super::datagrams::{Datagrams, Inbound, blocks_in, blocks_in_default};
use super::packet::{self, ErrorCode, TftpOptions, TftpPacket, TftpRequest};
use super::sender::{TransferCounts, TransferTerms};
use super::waits::Waits;
use super::{DEFAULT_BLOCK_BYTES, Patience};
use crate::error::Result;
use crate::jail::{Jail, Refusal};
use crate::report::{ReportedService, ServiceReport};
use crate::spans;
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use transfer::{State, Transfer};

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
        }
    }
}

/// How a transfer ended.
#[derive(Clone, Debug, Serialize)]
pub struct TransferReport {
    /// The client.
    pub client: SocketAddr,
    /// The name that it asked for; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Whether the client wrote.
    pub writes: bool,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// Bytes of a block, and blocks of a window.
    pub block_bytes: u16,
    /// Blocks of a window.
    pub window: u16,
    /// What was counted.
    #[serde(flatten)]
    pub counts: TransferCounts,
    /// Which side was waited for.
    #[serde(flatten)]
    pub waits: Waits,
}

/// A request that has come.
struct Asked {
    from: SocketAddr,
    packet: Vec<u8>,
}

/// A server.
#[derive(Debug)]
pub struct TftpServer<D> {
    datagrams: D,
    /// The port where requests come.
    port: u16,
    jail: Jail,
    rules: TransferRules,
    transfers: HashMap<SocketAddr, Transfer>,
    begun: Instant,
    packet: Vec<u8>,
}

/// Figures of all transfers that have ended, and when they were told.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    ended: u64,
    failed: u64,
    counts: TransferCounts,
    waits: Waits,
    told: Option<(ServiceReport, u64)>,
}

impl Totals {
    fn add(&mut self, report: &TransferReport) {
        let TransferReport { counts, waits, .. } = report;
        self.ended += 1;
        self.failed += u64::from(report.failure.is_some());
        self.counts.bytes += counts.bytes;
        self.counts.blocks += counts.blocks;
        self.counts.blocks_again += counts.blocks_again;
        self.counts.gaps += counts.gaps;
        self.counts.timeouts += counts.timeouts;
        self.waits.total_ns += waits.total_ns;
        self.waits.network_ns += waits.network_ns;
        self.waits.other_ns += waits.other_ns;
    }

    fn report(&self, running: usize) -> ServiceReport {
        let Totals { ended, failed, counts, waits, .. } = self;
        let figures = [
            ended + running as u64,
            running as u64,
            *failed,
            counts.bytes,
            counts.blocks,
            counts.blocks_again,
            counts.gaps,
            counts.timeouts,
            waits.ours_ns(),
            waits.network_ns,
            waits.other_ns,
        ];
        ServiceReport::new(ReportedService::Tftp, &figures)
    }
}

impl<D: Datagrams> TftpServer<D> {
    /// Serves the files of a directory; requests come at `port`.
    pub fn new(datagrams: D, port: u16, jail: Jail, rules: TransferRules) -> TftpServer<D> {
        let (transfers, packet) = (HashMap::new(), Vec::new());
        TftpServer { datagrams, port, jail, rules, transfers, begun: Instant::now(), packet }
    }

    /// Returns the ports.
    pub fn datagrams(&self) -> &D {
        &self.datagrams
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Serves until `stop` is set. Shows how each transfer ended.
    ///
    /// # Errors
    /// Datagrams cannot come or go any more.
    pub fn run(&mut self, stop: &AtomicBool, mut see: impl FnMut(&TransferReport)) -> Result<()> {
        let mut totals = Totals::default();
        // Relaxed: it only signals the end.
        while !stop.load(Ordering::Relaxed) {
            let mut report = |report: &TransferReport| {
                totals.add(report);
                see(report);
            };
            let more = self.transmit_all(&mut report)?;
            let time = if more { Duration::ZERO } else { self.idle_time() };
            let asked = self.take_all(time)?;
            for asked in asked {
                self.begin(&asked, &mut report)?;
            }
            self.tell(&mut totals)?;
        }
        Ok(())
    }

    /// Tells the figures where they are shown, if they have changed, now and then.
    fn tell(&mut self, totals: &mut Totals) -> Result<()> {
        let report = totals.report(self.transfers.len());
        let now_ns = self.now_ns();
        let is_due = totals.told.is_none_or(|(told, told_ns)| {
            told != report && now_ns.saturating_sub(told_ns) >= REPORT_NS
        });
        if is_due {
            totals.told = Some((report, now_ns));
            self.datagrams.report(&report)?;
        }
        Ok(())
    }

    /// Returns how long nothing is due.
    fn idle_time(&self) -> Duration {
        let now_ns = self.now_ns();
        let due_ns = self.transfers.values().map(Transfer::deadline_ns).min();
        let left = due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        left.map_or(LOOK, |left| left.min(LOOK))
    }

    /// Takes what has come. Returns the requests.
    fn take_all(&mut self, time: Duration) -> Result<Vec<Asked>> {
        let (mut asked, mut strangers) = (Vec::new(), Vec::new());
        let TftpServer { datagrams, port, transfers, begun, .. } = self;
        datagrams.receive(time, &mut |inbound| {
            let _span = spans::TFTP.enter();
            let now_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            match inbound {
                Inbound::Datagram { local_port, from, payload } if local_port == *port => {
                    // The client of a running transfer has asked again: the transfer will answer.
                    if !transfers.contains_key(&from) && asked.len() < MOST_REQUESTS {
                        asked.push(Asked { from, packet: payload.to_vec() });
                    }
                }
                Inbound::Datagram { local_port, from, payload } => {
                    let known = transfers.get_mut(&from);
                    match known.filter(|transfer| transfer.local_port == local_port) {
                        Some(transfer) => transfer.take(payload, now_ns),
                        // An error is never answered.
                        None if !payload.starts_with(&[0, 5]) => strangers.push((local_port, from)),
                        None => {}
                    }
                }
                Inbound::Undelivered { local_port, to } => {
                    let known = to.and_then(|to| transfers.get_mut(&to));
                    let known = known.filter(|transfer| transfer.local_port == local_port);
                    if let Some(transfer) = known {
                        transfer.fail(None, "the client is not there any more");
                    }
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
    fn transmit_all(&mut self, report: &mut impl FnMut(&TransferReport)) -> Result<bool> {
        let (mut more, mut ended) = (false, Vec::new());
        let begun = self.begun;
        let TftpServer { datagrams, transfers, packet, .. } = self;
        for (client, transfer) in transfers.iter_mut() {
            for sent in 0..=MOST_AT_ONCE {
                let now_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                if sent == 0 {
                    transfer.expire(now_ns);
                }
                let has_packet = spans::TFTP.run(|| transfer.transmit(now_ns, packet));
                if !has_packet {
                    break;
                }
                if let Err(error) = datagrams.send(transfer.local_port, *client, packet) {
                    if error.kind() == crate::ErrorKind::NoSwitch {
                        return Err(error);
                    }
                    transfer.fail(None, &error.to_string());
                }
                more |= sent == MOST_AT_ONCE;
            }
            match transfer.state() {
                State::Runs => {}
                State::Lingers => transfer.report_once(*client, self.begun, report),
                State::Ended => {
                    transfer.report_once(*client, self.begun, report);
                    ended.push(*client);
                }
            }
        }
        for client in ended {
            if let Some(transfer) = self.transfers.remove(&client) {
                self.datagrams.close(transfer.local_port);
            }
        }
        Ok(more)
    }

    /// Begins the transfer that was asked for, or refuses it.
    fn begin(&mut self, asked: &Asked, report: &mut impl FnMut(&TransferReport)) -> Result<()> {
        let from = asked.from;
        let request = match TftpPacket::check(&asked.packet) {
            Some(TftpPacket::Request(request)) => request,
            Some(TftpPacket::Error { .. }) => return Ok(()),
            _ => {
                let text = "this is no request in octet or netascii";
                return self.refuse(self.port, from, ErrorCode::Illegal, text);
            }
        };
        if self.transfers.contains_key(&from) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(request.name).into_owned();
        let refused = self.has_room(from).and_then(|()| self.transfer(&request, &name));
        match refused {
            Ok(transfer) => {
                self.transfers.insert(from, transfer);
                Ok(())
            }
            Err((code, text)) => {
                self.refuse(self.port, from, code, &text)?;
                report(&TransferReport {
                    client: from,
                    name,
                    writes: request.writes,
                    failure: Some(text),
                    block_bytes: DEFAULT_BLOCK_BYTES,
                    window: 1,
                    counts: TransferCounts::default(),
                    waits: Waits::default(),
                });
                Ok(())
            }
        }
    }

    /// Makes room for a transfer with this client. Where there are too many, the oldest goes of whose
    /// client nothing was heard since its request.
    fn has_room(&mut self, from: SocketAddr) -> std::result::Result<(), (ErrorCode, String)> {
        let of_host = self.transfers.keys().filter(|client| client.ip() == from.ip());
        let is_crowded = of_host.count() >= self.rules.most_of_a_host;
        if !is_crowded && self.transfers.len() < self.rules.most_transfers {
            return Ok(());
        }
        let silent = self.transfers.iter().filter(|(client, transfer)| {
            !transfer.was_heard && (!is_crowded || client.ip() == from.ip())
        });
        let oldest = silent.min_by_key(|(_, transfer)| transfer.begun_ns).map(|(at, _)| *at);
        match oldest.and_then(|client| self.transfers.remove(&client)) {
            Some(transfer) => {
                self.datagrams.close(transfer.local_port);
                Ok(())
            }
            None => Err((ErrorCode::Other, String::from("too many transfers at a time"))),
        }
    }

    fn transfer(
        &mut self,
        request: &TftpRequest<'_>,
        name: &str,
    ) -> std::result::Result<Transfer, (ErrorCode, String)> {
        let refused = |refusal: Refusal| (code_of(refusal), refusal.as_str().to_owned());
        let TransferRules { writes, replaces, most_bytes, .. } = self.rules;
        if request.writes && !writes {
            return Err((ErrorCode::Access, String::from("this server is read-only")));
        }
        let proposed = request.options.size_bytes.filter(|_| request.writes);
        if proposed.is_some_and(|size| size > most_bytes) {
            return Err((ErrorCode::DiskFull, format!("a file has at most {most_bytes} bytes")));
        }
        let now_ns = self.now_ns();
        if request.writes {
            let file = self.jail.create(request.name, replaces, most_bytes).map_err(refused)?;
            let local_port = self.open_port()?;
            let (terms, accepted) = self.agree(request, proposed);
            let opening = opening(&accepted);
            return Ok(Transfer::receiving(name, file, terms, opening, local_port, now_ns));
        }
        let (file, size) = self.jail.read(request.name).map_err(refused)?;
        // The length of a text in netascii is not known before it is sent.
        let is_known = request.mode == packet::Mode::Octet && request.options.size_bytes.is_some();
        let local_port = self.open_port()?;
        let (terms, accepted) = self.agree(request, is_known.then_some(size));
        let opening = opening(&accepted);
        Ok(Transfer::sending(name, file, terms, opening, local_port, now_ns))
    }

    fn open_port(&mut self) -> std::result::Result<u16, (ErrorCode, String)> {
        let busy = |_| (ErrorCode::Other, String::from("the server has no port left"));
        self.datagrams.open().map_err(busy)
    }

    /// Decides on the client's options: what holds, and what is acknowledged.
    fn agree(
        &self,
        request: &TftpRequest<'_>,
        size_bytes: Option<u64>,
    ) -> (TransferTerms, TftpOptions) {
        let (proposed, rules) = (&request.options, &self.rules);
        let block_bytes = proposed.block_bytes.map(|bytes| bytes.min(rules.most_block_bytes));
        let bytes = block_bytes.unwrap_or(DEFAULT_BLOCK_BYTES);
        // A window that has no room in the receiver's buffer would lose its end each time.
        let room = match request.writes {
            true => blocks_in(self.datagrams.receive_bytes(), bytes),
            false => blocks_in_default(bytes),
        };
        let window = proposed.window.map(|blocks| blocks.min(rules.most_window).min(room));
        let terms = TransferTerms {
            mode: request.mode,
            block_bytes: bytes,
            window: window.unwrap_or(1),
            patience: proposed.timeout_s.map_or(rules.patience, Patience::of_seconds),
        };
        let timeout_s = proposed.timeout_s;
        (terms, TftpOptions { block_bytes, timeout_s, size_bytes, window })
    }
}

/// Writes the acknowledgement of options, if there are any.
fn opening(accepted: &TftpOptions) -> Option<Vec<u8>> {
    let mut packet = Vec::new();
    packet::put_option_ack(&mut packet, accepted);
    (!accepted.is_empty()).then_some(packet)
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
