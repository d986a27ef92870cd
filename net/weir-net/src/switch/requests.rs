//! Handles requests of stations: to attach, to send, to read the counters.

use super::acceptor::StationAcceptor;
use super::journal::Journal;
use super::outgoing::SendResult;
use super::payload::Payload;
use super::{SwitchState, now_ns};
use crate::division::Division;
use crate::drop_reason::DropReason;
use crate::log::StationChange;
use crate::message::{self, FROM_STATION_BYTES, MessageHead, QUOTED_BYTES, from_station};
use crate::outgoing::Outgoing;
use crate::report::ServiceReport;
use crate::wire::ipv4::{MOST_HEADER_BYTES, protocol};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir::{Ending, Event, Lent, Received, WriterId};

/// Where a header of IP has its protocol.
const PROTOCOL_AT: usize = 9;

/// The station and protocol of the last send: allowed again until a station comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AllowedSend {
    generation: u64,
    writer: WriterId,
    protocol: u8,
}

/// The handler of stations' requests.
#[derive(Debug)]
pub struct Requests {
    shared: Arc<SwitchState>,
    acceptor: StationAcceptor,
    known: Option<AllowedSend>,
}

impl Requests {
    /// Creates it; requests to attach go to `acceptor`.
    pub fn new(shared: Arc<SwitchState>, acceptor: StationAcceptor) -> Requests {
        Requests { shared, acceptor, known: None }
    }

    fn journal(&self) -> &Journal {
        self.shared.journal()
    }

    /// Handles one request of a station.
    pub fn take(&mut self, received: Received, lent: &Lent<'_>) {
        if let Event::Closed(ending) = received.event {
            let left = self.shared.lock().stations.leave(received.writer);
            self.shared.changed();
            if let Some(left) = left {
                let change = match ending {
                    Ending::Closed => StationChange::Detached,
                    _ => StationChange::Died,
                };
                self.journal().log_station(change, left.identity.pid, &left.wants);
            }
            return;
        }
        let mut front = [0; FROM_STATION_BYTES];
        if lent.len() < front.len() {
            return self.journal().counts.drop(DropReason::BadMessage);
        }
        lent.copy_to(0, &mut front);
        let Some(front) = MessageHead::check(&front) else {
            return self.journal().counts.drop(DropReason::BadMessage);
        };
        if matches!(front.kind, from_station::SEND | from_station::FILLED) {
            return self.send_for(&front, received, lent);
        }
        let mut rest = vec![0; (lent.len() - FROM_STATION_BYTES).min(4096)];
        lent.copy_to(FROM_STATION_BYTES, &mut rest);
        match front.kind {
            from_station::ATTACH => {
                if !self.acceptor.attach(&mut self.shared.lock().stations, received, &rest) {
                    self.journal().counts.drop(DropReason::BadMessage);
                }
            }
            from_station::STATISTICS => {
                let text = self.shared.statistics();
                let mut incoming = self.shared.lock();
                for part in message::put_statistics(&text) {
                    incoming.stations.send_to(received.writer, &part);
                }
            }
            from_station::REPORT => {
                let report = ServiceReport::check(&rest);
                let mut incoming = self.shared.lock();
                let kept = report.map(|it| incoming.stations.keep_report(received.writer, it));
                if kept != Some(true) {
                    self.journal().counts.drop(DropReason::BadMessage);
                }
            }
            from_station::REDIRECT => self.redirect(received, &rest),
            from_station::ROUTES => self.announced(received, &rest),
            from_station::DROPPED => self.dropped(received, &rest),
            from_station::NOTICE => {
                let mut incoming = self.shared.lock();
                match message::notice(&rest) {
                    Some(notice)
                        if incoming.stations.has_whole(received.writer, protocol::ICMP) =>
                    {
                        incoming.stations.notice(&notice);
                    }
                    _ => self.journal().counts.drop(DropReason::BadMessage),
                }
            }
            _ => self.journal().counts.drop(DropReason::BadMessage),
        }
    }

    /// Handles a redirect that the ICMP station has received.
    fn redirect(&self, received: Received, rest: &[u8]) {
        if rest.len() != 12
            || !self.shared.lock().stations.has_whole(received.writer, protocol::ICMP)
        {
            return self.journal().counts.drop(DropReason::BadMessage);
        }
        let [destination, gateway, from] =
            [&rest[..4], &rest[4..8], &rest[8..]].map(message::address);
        self.shared.transmitter.learn(destination, gateway, from);
    }

    /// Handles what a gateway announced to the GGP station.
    fn announced(&self, received: Received, rest: &[u8]) {
        let is_its = self.shared.lock().stations.has_whole(received.writer, protocol::GGP);
        let accepted = message::routes(rest).filter(|_| is_its).is_some_and(|(gateway, update)| {
            self.shared.transmitter.routes().announce(gateway, &update, now_ns())
        });
        if !accepted {
            self.journal().counts.drop(DropReason::BadMessage);
        }
    }

    /// Drops a datagram whose header a station has checked.
    fn dropped(&self, received: Received, rest: &[u8]) {
        let mut incoming = self.shared.lock();
        let refusal = message::dropped(rest).filter(|(_, quoted)| {
            let number = quoted.get(PROTOCOL_AT).copied().unwrap_or_default();
            quoted.len() <= QUOTED_BYTES
                && self.shared.settings.division == Division::Allen
                && incoming.stations.may_send(received.writer, number)
        });
        match refusal {
            Some((refusal, quoted)) => incoming.drop_refused(refusal, quoted),
            None => self.journal().counts.drop(DropReason::BadMessage),
        }
    }

    fn send_for(&mut self, front: &MessageHead, received: Received, lent: &Lent<'_>) {
        // Acquire: pairs with the Release in `changed`, which counts after the change.
        let generation = self.shared.generation.load(Ordering::Acquire);
        let (writer, protocol) = (received.writer, front.out.protocol);
        let wanted = AllowedSend { generation, writer, protocol };
        if self.known != Some(wanted) {
            if !self.shared.lock().stations.may_send(writer, protocol) {
                return self.journal().counts.drop(DropReason::NotItsProtocol);
            }
            self.known = Some(wanted);
        }
        if front.kind == from_station::FILLED {
            return self.send_filled(front, lent);
        }
        let mut options = [0; 40];
        let options = &mut options[..front.options_bytes];
        let offset = FROM_STATION_BYTES + options.len();
        if lent.len() < offset {
            return self.journal().counts.drop(DropReason::BadMessage);
        }
        lent.copy_to(FROM_STATION_BYTES, options);
        let out = Outgoing { options, ..front.out };
        let payload = Payload::Ring { lent, offset };
        if let SendResult::ToUs(datagram, checksum) = self.shared.transmitter.send(&out, &payload) {
            self.shared.lock().take_own(datagram, checksum);
        }
    }

    /// Sends a datagram whose header its station has filled.
    fn send_filled(&self, front: &MessageHead, lent: &Lent<'_>) {
        let mut room = [0; MOST_HEADER_BYTES];
        let there = (lent.len() - FROM_STATION_BYTES).min(room.len());
        // Copied before it is checked: the station may change what is in its ring.
        lent.copy_to(FROM_STATION_BYTES, &mut room[..there]);
        let head_bytes = usize::from(room[0] & 0xf) * 4;
        let is_allowed = self.shared.settings.division == Division::Allen;
        let Some(head) = room[..there].get(..head_bytes).filter(|_| is_allowed) else {
            return self.journal().counts.drop(DropReason::BadMessage);
        };
        let payload = Payload::Ring { lent, offset: FROM_STATION_BYTES + head_bytes };
        let sent = self.shared.transmitter.send_filled(&front.out, head, &payload);
        if let SendResult::ToUs(datagram, checksum) = sent {
            self.shared.lock().take_own(datagram, checksum);
        }
    }
}
