//! One transfer of a server.

use super::super::board::{TransferReport, TransferState};
use super::super::files::FileSource;
use super::super::flow::TransferFlow;
use super::super::packet::{self, ErrorCode, TftpPacket};
use super::super::receiver::FileReceiver;
use super::super::sender::{FileSender, TransferTerms};
use super::super::side::{FileSide, Stopped};
use super::code_of;
use crate::error::{ErrorKind, Result};
use crate::jail::{PartFile, Refusal};
use crate::log::FlowChange;
use std::io;
use std::net::SocketAddr;

/// Whether a transfer continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferPhase {
    /// It continues.
    Runs,
    /// The file is complete, and the last acknowledgement may have to be sent again.
    Lingers,
    /// It is over.
    Ended,
}

/// The server's side of a transfer.
type ServerSide = FileSide<FileSource, PartFile>;

#[derive(Debug)]
pub struct Transfer {
    /// Its number among those that are shown.
    pub number: u64,
    name: String,
    size_bytes: Option<u64>,
    side: ServerSide,
    terms: TransferTerms,
    /// The port of ours that it has.
    pub local_port: u16,
    /// When the request came.
    pub begun_ns: u64,
    /// Whether anything came of the client since.
    pub was_heard: bool,
    /// Why it failed, and what the client is still to be told.
    failure: Option<String>,
    farewell: Option<ErrorCode>,
    /// Until when the last acknowledgement may be asked for again.
    lingers_until_ns: Option<u64>,
    over: bool,
    is_reported: bool,
}

impl Transfer {
    /// A transfer to the client.
    pub fn sending(
        name: &str,
        (file, size_bytes): (FileSource, u64),
        terms: TransferTerms,
        opening: Option<Vec<u8>>,
        local_port: u16,
        now_ns: u64,
    ) -> Transfer {
        let sender = Box::new(FileSender::new(terms, opening, now_ns));
        let size_bytes = Some(size_bytes);
        let side = FileSide::Sends(sender, file);
        Transfer::new(name, size_bytes, side, terms, local_port, now_ns)
    }

    /// A transfer from the client.
    pub fn receiving(
        name: &str,
        (file, size_bytes): (PartFile, Option<u64>),
        terms: TransferTerms,
        opening: Option<Vec<u8>>,
        local_port: u16,
        now_ns: u64,
    ) -> Transfer {
        let receiver = Box::new(FileReceiver::new(terms, opening, now_ns));
        let side = FileSide::Receives(receiver, file);
        Transfer::new(name, size_bytes, side, terms, local_port, now_ns)
    }

    fn new(
        name: &str,
        size_bytes: Option<u64>,
        side: ServerSide,
        terms: TransferTerms,
        local_port: u16,
        now_ns: u64,
    ) -> Transfer {
        Transfer {
            number: 0,
            name: name.to_owned(),
            size_bytes,
            side,
            terms,
            local_port,
            begun_ns: now_ns,
            was_heard: false,
            failure: None,
            farewell: None,
            lingers_until_ns: None,
            over: false,
            is_reported: false,
        }
    }

    /// Returns whether it continues.
    pub fn state(&self) -> TransferPhase {
        match (self.over, self.lingers_until_ns) {
            (true, _) => TransferPhase::Ended,
            (false, Some(_)) => TransferPhase::Lingers,
            (false, None) => TransferPhase::Runs,
        }
    }

    /// Whether a request of its client is its own once more: any while it continues, and while it
    /// lingers the one that it has come of.
    pub fn is_asked_again(&self, name: &str, writes: bool) -> bool {
        match self.state() {
            TransferPhase::Runs => true,
            TransferPhase::Lingers => writes && name == self.name,
            TransferPhase::Ended => false,
        }
    }

    /// Returns when something is due at the latest.
    pub fn deadline_ns(&self) -> u64 {
        self.lingers_until_ns.unwrap_or_else(|| self.side.deadline_ns())
    }

    /// Ends it. The client is told the code, if there is one.
    pub fn fail(&mut self, code: Option<ErrorCode>, why: &str) {
        if self.lingers_until_ns.is_some() {
            self.over = true;
        } else if self.failure.is_none() {
            self.failure = Some(why.to_owned());
            self.farewell = code;
            self.over = code.is_none();
        }
    }

    fn fail_of_file(&mut self, cause: &io::Error) {
        let refusal = Refusal::of(cause);
        let why = match refusal {
            Refusal::Trouble => cause.to_string(),
            refusal => refusal.as_str().to_owned(),
        };
        self.fail(Some(code_of(refusal)), &why);
    }

    /// Takes a packet of the client.
    pub fn take(&mut self, bytes: &[u8], now_ns: u64) {
        if self.failure.is_some() {
            return;
        }
        self.was_heard = true;
        let packet = TftpPacket::check(bytes);
        if let Some(TftpPacket::Error { code, text }) = packet {
            let text = String::from_utf8_lossy(text);
            return self.fail(None, &format!("the client ended it: {text} (error {code})"));
        }
        let misplaced = Err(Stopped::Misplaced);
        match packet.map_or(misplaced, |packet| self.side.take(&packet, now_ns)) {
            Ok(()) if self.side.is_done() => self.complete(now_ns),
            Ok(()) => {}
            Err(Stopped::File(cause)) => self.fail_of_file(&cause),
            Err(Stopped::Misplaced) => {
                self.fail(Some(ErrorCode::Illegal), "the client sent what has no place here");
            }
            Err(Stopped::TooLong) => {
                self.fail(Some(ErrorCode::Illegal), "a block is longer than was agreed on");
            }
        }
    }

    /// Notes that the file is complete.
    fn complete(&mut self, now_ns: u64) {
        match self.side {
            FileSide::Sends(..) => self.over = true,
            // The client sends the last block again if our acknowledgement is lost.
            FileSide::Receives(..) => {
                let linger_ns = 3 * self.terms.patience.resend_ns;
                self.lingers_until_ns.get_or_insert(now_ns + linger_ns);
            }
        }
    }

    /// Notes the time.
    pub fn expire(&mut self, now_ns: u64) {
        if let Some(until_ns) = self.lingers_until_ns {
            self.over |= now_ns >= until_ns;
            return;
        }
        if !self.side.expire(now_ns) {
            self.fail(Some(ErrorCode::Other), "the other side does not answer");
        }
    }

    /// Writes the next packet for the client over what `to` holds. Returns `false` where there is
    /// none.
    pub fn transmit(&mut self, now_ns: u64, to: &mut Vec<u8>) -> bool {
        if self.over {
            return false;
        }
        if self.failure.is_none() {
            match self.side.transmit(now_ns, to) {
                Ok(has_packet) => return has_packet,
                Err(cause) => self.fail_of_file(&cause),
            }
        }
        self.over = true;
        let (code, why) = (self.farewell.take(), self.failure.as_deref().unwrap_or_default());
        if let Some(code) = code {
            packet::put_error(to, code, why);
        }
        code.is_some()
    }

    /// Notes whether its packets were sent. What cannot be sent at all ends it.
    ///
    /// # Errors
    /// No datagram can be sent any more.
    pub fn note(&mut self, sent: Result<()>) -> Result<()> {
        match sent {
            Err(error) if error.kind() == ErrorKind::NoSwitch => return Err(error),
            Err(error) => self.fail(None, &error.to_string()),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Returns how it continues.
    pub fn flow(&self) -> &TransferFlow {
        self.side.flow()
    }

    /// Returns how it continues, to note what happens.
    pub fn flow_mut(&mut self) -> &mut TransferFlow {
        self.side.flow_mut()
    }

    /// Whether there is something to send, now or after a pause.
    pub fn is_due(&self) -> bool {
        self.side.is_due()
    }

    /// Returns what the two sides agreed on, for a log.
    pub fn began(&self) -> FlowChange {
        let TransferTerms { block_bytes, window, .. } = self.terms;
        FlowChange::Began { block_bytes, window }
    }

    /// Returns how it ended, the first time after its end.
    pub fn ended(&mut self, client: SocketAddr, now_ns: u64) -> Option<TransferReport> {
        let is_new =
            self.state() != TransferPhase::Runs && !std::mem::replace(&mut self.is_reported, true);
        is_new.then(|| self.report(client, now_ns))
    }

    /// Returns how it stands.
    pub fn report(&self, client: SocketAddr, now_ns: u64) -> TransferReport {
        let flow = self.flow();
        let state = match (self.state(), &self.failure) {
            (TransferPhase::Runs, _) => TransferState::Running,
            (_, None) => TransferState::Completed,
            (_, Some(_)) => TransferState::Failed,
        };
        TransferReport {
            state,
            pid: None,
            peer: client,
            name: self.name.clone(),
            receives: matches!(self.side, FileSide::Receives(..)),
            failure: self.failure.clone(),
            size_bytes: self.size_bytes,
            block_bytes: self.terms.block_bytes,
            window: self.terms.window,
            waits_for: (state == TransferState::Running).then(|| flow.waits_for()),
            counts: flow.counts(),
            waits: flow.waits(now_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Patience;
    use super::super::super::packet::Mode;
    use super::*;

    /// What came after its end once completed the file, while the line said that it had failed.
    #[test]
    fn what_comes_after_the_end_of_a_transfer_is_not_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sent");
        let client = "10.9.0.1:4000".parse().expect("an address");
        let terms = TransferTerms {
            mode: Mode::Octet,
            block_bytes: 512,
            window: 1,
            patience: Patience::default(),
        };
        let begun = || {
            let file = crate::jail::new_file(&path).expect("made");
            Transfer::receiving("sent", (file, None), terms, None, 50_000, 0)
        };
        let (error, long) =
            (&b"\0\x05\0\0enough\0"[..], &[&b"\0\x03\0\x01"[..], &[1; 513]].concat());
        for end in [error, long] {
            let mut transfer = begun();
            transfer.take(end, 1);
            transfer.take(b"\0\x03\0\x01the last block", 2);
            transfer.transmit(3, &mut Vec::new());
            let report = transfer.ended(client, 4).expect("it has ended");
            assert_eq!(report.state, TransferState::Failed, "{:?}", report.failure);
            drop(transfer);
            assert!(!path.exists(), "{:?}", report.failure);
        }
        let mut transfer = begun();
        transfer.take(b"\0\x03\0\x01the last block", 2);
        drop(transfer);
        assert_eq!(std::fs::read(&path).expect("there"), b"the last block");
    }
}
