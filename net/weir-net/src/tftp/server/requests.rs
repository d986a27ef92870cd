//! Requests: they begin transfers, or are refused.

use super::super::board::TransferReport;
use super::super::datagrams::{blocks_in, blocks_in_default};
use super::super::files::FileSource;
use super::super::packet::{self, ErrorCode, TftpOptions, TftpPacket, TftpRequest};
use super::super::sender::TransferTerms;
use super::super::{DEFAULT_BLOCK_BYTES, Patience, log_flow};
use super::transfer::{Transfer, TransferPhase};
use super::{RequestPacket, TftpServer, TransferRules, code_of};
use crate::error::Result;
use crate::jail::Refusal;
use crate::log::FlowChange;
use std::net::SocketAddr;

impl TftpServer {
    /// Begins the transfer that was asked for, or refuses it.
    pub(super) fn begin(
        &mut self,
        asked: &RequestPacket,
        see: &mut dyn FnMut(&TransferReport),
    ) -> Result<()> {
        let from = asked.from;
        let request = match TftpPacket::check(&asked.packet) {
            Some(TftpPacket::Request(request)) => request,
            Some(TftpPacket::Error { .. }) => return Ok(()),
            _ => {
                let text = "this is not a request in octet or netascii";
                if let [0, kind @ 1..=2, rest @ ..] = &asked.packet[..] {
                    let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
                    self.note_refused(from, name, *kind == 2, text, see);
                }
                return self.refuse(self.port, from, ErrorCode::Illegal, text);
            }
        };
        let name = String::from_utf8_lossy(request.name).into_owned();
        let known = self.transfers.get(&from);
        if known.is_some_and(|known| known.is_asked_again(&name, request.writes)) {
            // The transfer will answer.
            return Ok(());
        }
        let made = self.has_room(from);
        match made.and_then(|gives_way| Ok((gives_way, self.transfer(&request, &name)?))) {
            Ok((gives_way, mut transfer)) => {
                if let Some(client) = gives_way {
                    self.give_up(client, see);
                }
                transfer.number = self.board.number();
                let report = transfer.report(from, self.now_ns());
                self.board.show(transfer.number, report);
                log_flow(self.log.as_ref(), transfer.began(), transfer.local_port, from);
                self.transfers.insert(from, transfer);
                Ok(())
            }
            Err((code, text)) => {
                self.refuse(self.port, from, code, &text)?;
                self.note_refused(from, request.name, request.writes, &text, see);
                Ok(())
            }
        }
    }

    fn note_refused(
        &self,
        from: SocketAddr,
        name: &[u8],
        writes: bool,
        why: &str,
        see: &mut dyn FnMut(&TransferReport),
    ) {
        let shown = &name[..name.len().min(packet::MOST_REQUEST_BYTES)];
        let name = String::from_utf8_lossy(shown).into_owned();
        let report = TransferReport::refused(from, name, writes, why.to_owned());
        self.board.refuse(&report);
        see(&report);
    }

    /// Ends the transfer of a client for another one. One that continues is told of and not shown:
    /// anybody can send requests, and these would push out the transfers.
    fn give_up(&mut self, client: SocketAddr, see: &mut dyn FnMut(&TransferReport)) {
        let now_ns = self.now_ns();
        let Some(transfer) = self.transfers.get_mut(&client) else { return };
        let phase = transfer.state();
        if phase != TransferPhase::Ended {
            transfer.fail(None, "it gave way to a newer request");
        }
        if phase == TransferPhase::Runs
            && let Some(report) = transfer.ended(client, now_ns)
        {
            let change = FlowChange::Failed { bytes: report.counts.bytes };
            log_flow(self.log.as_ref(), change, transfer.local_port, client);
            self.board.forget(transfer.number);
            self.board.refuse(&report);
            see(&report);
        }
        self.leave(client, see);
    }

    /// Finds which transfer gives way to one with this client. That is the client's last one,
    /// which is over. Where there are too many, it is the oldest that only lingers, else the oldest
    /// of whose client nothing was heard since its request.
    fn has_room(
        &self,
        from: SocketAddr,
    ) -> std::result::Result<Option<SocketAddr>, (ErrorCode, String)> {
        if self.transfers.contains_key(&from) {
            return Ok(Some(from));
        }
        let of_host = self.transfers.keys().filter(|client| client.ip() == from.ip());
        let is_crowded = of_host.count() >= self.rules.most_of_a_host;
        if !is_crowded && self.transfers.len() < self.rules.most_transfers {
            return Ok(None);
        }
        let runs = |transfer: &Transfer| transfer.state() == TransferPhase::Runs;
        let may_go = self.transfers.iter().filter(|(client, transfer)| {
            !(runs(transfer) && transfer.was_heard) && (!is_crowded || client.ip() == from.ip())
        });
        let first = may_go.min_by_key(|(_, transfer)| (runs(transfer), transfer.begun_ns));
        match first {
            Some((client, _)) => Ok(Some(*client)),
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
            return Ok(Transfer::receiving(
                name,
                (file, proposed),
                terms,
                opening,
                local_port,
                now_ns,
            ));
        }
        let (file, size) = self.jail.read(request.name).map_err(refused)?;
        // The length of a text in netascii is not known before it is sent.
        let is_known = request.mode == packet::Mode::Octet && request.options.size_bytes.is_some();
        let local_port = self.open_port()?;
        let (terms, accepted) = self.agree(request, is_known.then_some(size));
        let opening = opening(&accepted);
        Ok(Transfer::sending(
            name,
            (FileSource::new(file, size), size),
            terms,
            opening,
            local_port,
            now_ns,
        ))
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
        let rate_bytes = self.rate.map_or(usize::MAX, |rate| rate.most_bytes());
        let most = u16::try_from(rate_bytes).unwrap_or(u16::MAX).max(DEFAULT_BLOCK_BYTES);
        let most = most.min(rules.most_block_bytes);
        let block_bytes = proposed.block_bytes.map(|bytes| bytes.min(most));
        let bytes = block_bytes.unwrap_or(DEFAULT_BLOCK_BYTES);
        // A window that has no room in the receiver's buffer would lose its end each time.
        let room = match request.writes {
            true => blocks_in(self.datagrams.receive_bytes(), bytes),
            false => blocks_in_default(bytes),
        };
        let at_rate = u16::try_from(rate_bytes / usize::from(bytes)).unwrap_or(u16::MAX).max(1);
        let most = rules.most_window.min(room).min(at_rate);
        let window = proposed.window.map(|blocks| blocks.min(most));
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
