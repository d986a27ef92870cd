//! A client of TFTP: one transfer over any [`Datagrams`].

use super::burst::Burst;
use super::datagrams::{Datagrams, Inbound, blocks_in, blocks_in_default};
use super::flow::{Due, ResendTimer, TransferCounts, TransferFlow};
use super::packet::{self, ErrorCode, Mode, TftpOptions, TftpPacket, TftpRequest};
use super::receiver::{FileReceiver, Sink};
use super::sender::{FileSender, Source, TransferTerms};
use super::side::{FileSide, Stopped};
use super::waits::Waits;
use super::{DEFAULT_BLOCK_BYTES, Patience, log_flow};
use crate::elapsed::elapsed_ns;
use crate::error::{Error, ErrorKind, Result};
use crate::jail::Refusal;
use crate::log::{FlowChange, Log};
use crate::stalls::WaitedSide;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest single wait, so that an interrupt is seen.
const LOOK: Duration = Duration::from_millis(100);
/// Most packets that are sent before something is received.
const MOST_AT_ONCE: usize = 64;

/// What a client proposes.
#[derive(Clone, Copy, Debug)]
pub struct Proposal {
    /// How the bytes travel.
    pub mode: Mode,
    /// Bytes of a block.
    pub block_bytes: u16,
    /// Blocks of a window.
    pub window: u16,
    /// Seconds until a packet is sent again, where the server is to know of it.
    pub timeout_s: Option<u8>,
    /// Whether options are proposed at all; some old servers do not answer where they are.
    pub options: bool,
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Progress {
    /// The length of the file, where the other side said it.
    pub size_bytes: Option<u64>,
    /// Bytes of a block, as agreed on.
    pub block_bytes: u16,
    /// Blocks of a window, as agreed on.
    pub window: u16,
    /// What was counted.
    #[serde(flatten)]
    pub counts: TransferCounts,
    /// Which side was waited for.
    #[serde(flatten)]
    pub waits: Waits,
    /// The side that has its turn.
    pub waits_for: WaitedSide,
}

/// A client.
#[derive(Debug)]
pub struct Client<'a> {
    datagrams: &'a mut dyn Datagrams,
    server: SocketAddr,
    proposal: Proposal,
    log: Option<Log>,
}

impl<'a> Client<'a> {
    /// Will talk to this server.
    pub fn new(
        datagrams: &'a mut dyn Datagrams,
        server: SocketAddr,
        proposal: Proposal,
    ) -> Client<'a> {
        Client { datagrams, server, proposal, log: None }
    }

    /// Logs how transfers begin and end, and what happens to them, from now on.
    pub fn log_to(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// Fetches a file. Shows now and then how far it is.
    ///
    /// # Errors
    /// The server refuses or does not answer, or the file cannot be written.
    pub fn get(
        &mut self,
        name: &[u8],
        sink: &mut dyn Sink,
        stop: &AtomicBool,
        see: &mut dyn FnMut(&Progress),
    ) -> Result<Progress> {
        self.transfer(name, None, ClientFile::Received(sink), stop, see)
    }

    /// Sends a file of this length. Shows now and then how far it is.
    ///
    /// # Errors
    /// The server refuses or does not answer, or the file cannot be read.
    pub fn put(
        &mut self,
        name: &[u8],
        source: &mut dyn Source,
        size_bytes: u64,
        stop: &AtomicBool,
        see: &mut dyn FnMut(&Progress),
    ) -> Result<Progress> {
        self.transfer(name, Some(size_bytes), ClientFile::Sent(source), stop, see)
    }

    fn options(&self, written_bytes: Option<u64>) -> TftpOptions {
        let Proposal { mode, block_bytes, window, timeout_s, options } = self.proposal;
        if !options {
            return TftpOptions::default();
        }
        let room = match written_bytes {
            Some(_) => blocks_in_default(block_bytes),
            None => blocks_in(self.datagrams.receive_bytes(), block_bytes),
        };
        let window = window.min(room);
        TftpOptions {
            block_bytes: (block_bytes != DEFAULT_BLOCK_BYTES).then_some(block_bytes),
            timeout_s,
            size_bytes: (mode == Mode::Octet).then_some(written_bytes.unwrap_or(0)),
            window: (window > 1).then_some(window),
        }
    }

    fn transfer(
        &mut self,
        name: &[u8],
        written_bytes: Option<u64>,
        file: ClientFile<'_>,
        stop: &AtomicBool,
        see: &mut dyn FnMut(&Progress),
    ) -> Result<Progress> {
        let local_port = self.datagrams.open()?;
        let options = self.options(written_bytes);
        let writes = written_bytes.is_some();
        let request = TftpRequest { writes, name, mode: self.proposal.mode, options };
        let mut packet = Vec::new();
        if !packet::put_request(&mut packet, &request) {
            let object = format!("the name '{}'", String::from_utf8_lossy(name));
            let why = "it is empty or too long for a request";
            return Err(Error::new(ErrorKind::Invalid, "ask for", object, why));
        }
        let patience = self.proposal.timeout_s.map_or(Patience::default(), Patience::of_seconds);
        let mut running = Running {
            file: Some(file),
            side: None,
            proposed: options,
            mode: self.proposal.mode,
            patience,
            server: self.server,
            local_port,
            peer: None,
            request: packet,
            timer: ResendTimer::new(patience, 0),
            terms: None,
            size_bytes: written_bytes,
            failure: None,
            farewells: Vec::new(),
            begun: Instant::now(),
            burst: Burst::default(),
            log: self.log.clone(),
        };
        let ran = running.run(self.datagrams, stop, see);
        running.ended(ran.is_ok());
        self.datagrams.close(local_port);
        ran
    }
}

/// The client's side of a transfer.
type ClientSide<'a> = FileSide<&'a mut dyn Source, &'a mut dyn Sink>;

/// The file of a client, before the server has said what holds.
enum ClientFile<'a> {
    Sent(&'a mut dyn Source),
    Received(&'a mut dyn Sink),
}

impl<'a> ClientFile<'a> {
    /// Begins the side that has the file, where the server has sent the first block or has not.
    fn begin(self, terms: TransferTerms, has_block: bool, now_ns: u64) -> ClientSide<'a> {
        match self {
            ClientFile::Sent(source) => {
                FileSide::Sends(Box::new(FileSender::new(terms, None, now_ns)), source)
            }
            ClientFile::Received(sink) => {
                let receiver = match has_block {
                    true => FileReceiver::of_first_block(terms, now_ns),
                    false => FileReceiver::new(terms, None, now_ns),
                };
                FileSide::Receives(Box::new(receiver), sink)
            }
        }
    }
}

struct Running<'a> {
    /// The file, until the server has said what holds. Then the side has it.
    file: Option<ClientFile<'a>>,
    side: Option<ClientSide<'a>>,
    proposed: TftpOptions,
    mode: Mode,
    patience: Patience,
    server: SocketAddr,
    local_port: u16,
    /// The address and port of the server's side, once it has answered.
    peer: Option<SocketAddr>,
    request: Vec<u8>,
    timer: ResendTimer,
    terms: Option<TransferTerms>,
    size_bytes: Option<u64>,
    failure: Option<Error>,
    /// Errors that are to be sent.
    farewells: Vec<(SocketAddr, ErrorCode, &'static str)>,
    begun: Instant,
    burst: Burst,
    log: Option<Log>,
}

impl Running<'_> {
    fn now_ns(&self) -> u64 {
        elapsed_ns(self.begun)
    }

    fn progress(&self) -> Progress {
        let unknown = (TransferCounts::default(), Waits::default(), WaitedSide::Other);
        let now_ns = self.now_ns();
        let standing = |flow: &TransferFlow| (flow.counts(), flow.waits(now_ns), flow.waits_for());
        let flow = self.side.as_ref().map(FileSide::flow);
        let (counts, waits, waits_for) = flow.map_or(unknown, standing);
        let (block_bytes, window) =
            self.terms.map_or((DEFAULT_BLOCK_BYTES, 1), |terms| (terms.block_bytes, terms.window));
        Progress { size_bytes: self.size_bytes, block_bytes, window, counts, waits, waits_for }
    }

    fn log(&self, change: FlowChange) {
        log_flow(self.log.as_ref(), change, self.local_port, self.peer.unwrap_or(self.server));
    }

    /// Logs how it ended.
    fn ended(&self, is_whole: bool) {
        let bytes = self.progress().counts.bytes;
        self.log(match is_whole {
            true => FlowChange::Ended { bytes },
            false => FlowChange::Failed { bytes },
        });
    }

    fn fail(&mut self, kind: ErrorKind, why: impl Into<String>) {
        let object = self.server.to_string();
        self.failure.get_or_insert_with(|| Error::new(kind, "transfer with", object, why));
    }

    fn run(
        &mut self,
        datagrams: &mut dyn Datagrams,
        stop: &AtomicBool,
        see: &mut dyn FnMut(&Progress),
    ) -> Result<Progress> {
        let mut packet = self.request.clone();
        datagrams.send(self.local_port, self.server, &packet)?;
        loop {
            let more = self.transmit(datagrams)?;
            for (to, code, text) in std::mem::take(&mut self.farewells) {
                packet::put_error(&mut packet, code, text);
                datagrams.send(self.local_port, to, &packet)?;
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            see(&self.progress());
            if self.side.as_ref().is_some_and(FileSide::is_done) {
                return Ok(self.progress());
            }
            // Relaxed: it only signals the end.
            if stop.load(Ordering::Relaxed) {
                self.end(ErrorCode::Other, "interrupted");
                self.fail(ErrorKind::TimedOut, "it was interrupted");
                continue;
            }
            let due_ns = match &self.side {
                Some(side) => side.deadline_ns(),
                None => self.timer.deadline_ns(),
            };
            let left = Duration::from_nanos(due_ns.saturating_sub(self.now_ns()));
            let time = if more { Duration::ZERO } else { left.min(LOOK) };
            datagrams.receive(time, &mut |inbound| {
                self.take(inbound);
                !self.side.as_ref().is_some_and(FileSide::is_due)
            })?;
        }
    }

    /// Sends what is due. Returns whether there may be more.
    fn transmit(&mut self, datagrams: &mut dyn Datagrams) -> Result<bool> {
        let now_ns = self.now_ns();
        let (Some(peer), Some(side)) = (self.peer, &mut self.side) else {
            match self.timer.due(now_ns) {
                Due::Nothing => {}
                Due::Again => datagrams.send(self.local_port, self.server, &self.request)?,
                Due::GiveUp => self.fail(ErrorKind::TimedOut, "it does not answer"),
            }
            return Ok(false);
        };
        if !side.expire(now_ns) {
            self.end(ErrorCode::Other, "no answer");
            self.fail(ErrorKind::TimedOut, "it does not answer any more");
            return Ok(false);
        }
        while let Some(change) = side.flow_mut().change() {
            log_flow(self.log.as_ref(), change, self.local_port, peer);
        }
        let (mut due_ns, mut more) = (0, true);
        for _ in 0..MOST_AT_ONCE {
            let now_ns = elapsed_ns(self.begun);
            match side.transmit(now_ns, self.burst.space()) {
                Ok(true) => {
                    due_ns = now_ns;
                    datagrams.send_in(self.local_port, peer, &mut self.burst)?;
                }
                Ok(false) => {
                    more = false;
                    break;
                }
                Err(cause) => {
                    self.stop_of_file(cause);
                    more = false;
                    break;
                }
            }
        }
        datagrams.send_burst(self.local_port, peer, &mut self.burst)?;
        let (begun_ns, now_ns) = (now_ns, self.now_ns());
        if let Some(side) = &mut self.side {
            side.flow_mut().sent(due_ns, now_ns);
            side.flow_mut().held(now_ns.saturating_sub(begun_ns));
        }
        Ok(more)
    }

    fn end(&mut self, code: ErrorCode, text: &'static str) {
        if let Some(peer) = self.peer {
            self.farewells.push((peer, code, text));
        }
    }

    fn stop_of_file(&mut self, cause: io::Error) {
        let code = match Refusal::of(&cause) {
            Refusal::Full => ErrorCode::DiskFull,
            _ => ErrorCode::Other,
        };
        self.end(code, "the client cannot use its file");
        self.failure.get_or_insert_with(|| Error::os("use", "the file", cause));
    }

    fn take(&mut self, inbound: Inbound<'_>) {
        let (local_port, from, payload) = match inbound {
            Inbound::Datagram { local_port, from, payload } => (local_port, from, payload),
            Inbound::Undelivered { local_port, to } => {
                // Errors go to strangers too, whose ports may be closed.
                if local_port == self.local_port && to == self.peer.unwrap_or(self.server) {
                    self.fail(ErrorKind::Refused, "nobody is there");
                }
                return;
            }
        };
        // The server's side has a port of its own; until it is known, any port of the host is.
        let is_peer = self.peer.map_or(from.ip() == self.server.ip(), |peer| peer == from);
        if local_port != self.local_port || self.failure.is_some() {
            return;
        }
        if !is_peer {
            if !payload.starts_with(&[0, 5]) {
                self.farewells.push((from, ErrorCode::UnknownId, "no transfer has this port"));
            }
            return;
        }
        let now_ns = self.now_ns();
        let packet = TftpPacket::check(payload);
        if let Some(TftpPacket::Error { code, text }) = packet {
            let text = String::from_utf8_lossy(text);
            let why = match text.is_empty() {
                true => format!("it refuses with error {code}"),
                false => format!("it says: {text} (error {code})"),
            };
            return self.fail(ErrorKind::Refused, why);
        }
        let taken = match (packet, &mut self.side) {
            (Some(TftpPacket::OptionAck(_)), Some(side)) => {
                side.options_again();
                Ok(())
            }
            (Some(packet), Some(side)) => side.take(&packet, now_ns),
            (Some(packet), None) => self.first(&packet, from, now_ns),
            (None, _) => Err(Stopped::Misplaced),
        };
        let took_ns = self.now_ns().saturating_sub(now_ns);
        if let Some(side) = &mut self.side {
            // The time that our file takes is not a silence of the other side.
            side.flow_mut().held(took_ns);
        }
        match taken {
            Ok(()) => {}
            Err(Stopped::File(cause)) => self.stop_of_file(cause),
            Err(Stopped::Misplaced | Stopped::TooLong) => {
                self.end(ErrorCode::Illegal, "this has no place here");
                self.fail(ErrorKind::Corrupt, "it sent what has no place in the transfer");
            }
        }
    }

    /// Takes the first answer, which says what holds.
    fn first(
        &mut self,
        packet: &TftpPacket<'_>,
        from: SocketAddr,
        now_ns: u64,
    ) -> std::result::Result<(), Stopped> {
        let is_put = self.size_bytes.is_some();
        let options = match packet {
            TftpPacket::OptionAck(options) => *options,
            TftpPacket::Ack { block: 0 } if is_put => TftpOptions::default(),
            TftpPacket::Data { .. } if !is_put => TftpOptions::default(),
            _ => return Err(Stopped::Misplaced),
        };
        self.peer = Some(from);
        let proposed = self.proposed;
        let block_bytes = options.block_bytes.unwrap_or(DEFAULT_BLOCK_BYTES);
        let window = options.window.unwrap_or(1);
        // A server may accept less than was proposed, never more (RFC 2348, RFC 7440).
        let most_bytes = proposed.block_bytes.unwrap_or(DEFAULT_BLOCK_BYTES);
        if (options.block_bytes.is_some() && block_bytes > most_bytes)
            || window > proposed.window.unwrap_or(1)
        {
            self.end(ErrorCode::Options, "more than was proposed");
            self.fail(ErrorKind::Corrupt, "it accepts more than was proposed");
            return Ok(());
        }
        let terms = TransferTerms { mode: self.mode, block_bytes, window, patience: self.patience };
        self.terms = Some(terms);
        self.log(FlowChange::Began { block_bytes, window });
        self.size_bytes = self.size_bytes.or(options.size_bytes);
        let Some(file) = self.file.take() else { return Ok(()) };
        let has_block = matches!(packet, TftpPacket::Data { .. });
        let side = self.side.insert(file.begin(terms, has_block, now_ns));
        if let (FileSide::Receives(receiver, _), Mode::Octet) = (&mut *side, self.mode) {
            receiver.announce(options.size_bytes.unwrap_or(0));
        }
        if has_block { side.take(packet, now_ns) } else { Ok(()) }
    }
}
