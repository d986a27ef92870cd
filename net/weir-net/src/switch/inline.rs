//! ICMP and GGP answered within the switch, where no station has them.

use super::now_ns;
use super::outgoing::{SendResult, Transmitter};
use super::payload::Payload;
use crate::icmp::{Answers, Engine, IcmpCounts, IcmpSettings, Notice, Undeliverable};
use crate::log::FailureEvent;
use crate::outgoing::{Outgoing, ms_since_midnight};
use crate::routes::NextHop;
use crate::spans;
use crate::wire::ggp::Update;
use crate::wire::ipv4::{Datagram, protocol};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The ICMP engine within the switch.
#[derive(Debug)]
pub struct Inline {
    engine: Engine,
    ggp: bool,
    answers: DirectAnswers,
}

impl Inline {
    /// Creates it; its answers go through `transmitter`.
    pub fn new(settings: IcmpSettings, transmitter: Arc<Transmitter>) -> Inline {
        let (payload, own, notices) = (Vec::new(), Vec::new(), Vec::new());
        let answers = DirectAnswers { transmitter, payload, own, notices };
        Inline { engine: Engine::new(settings), ggp: settings.ggp, answers }
    }

    /// Takes a datagram if its protocol is answered here, directly after its header was checked.
    pub fn take(&mut self, datagram: &Datagram<'_>) -> bool {
        let number = datagram.header().protocol;
        if number != protocol::ICMP && !(number == protocol::GGP && self.ggp) {
            return false;
        }
        if let Some(log) = self.answers.transmitter.journal.log.get() {
            log.foreign_request(datagram);
        }
        let span = spans::ANSWER.enter_at_last();
        self.engine.take(datagram, &mut self.answers);
        // Hardly anything is done behind an answer.
        span.end_at_last();
        true
    }

    /// Sends an error about an undeliverable datagram.
    pub fn undeliverable(&mut self, quoted: &[u8], why: Undeliverable) {
        self.engine.undeliverable(quoted, why, &mut self.answers);
    }

    /// Takes the notices for stations.
    pub fn next_notice(&mut self) -> Option<Notice> {
        self.answers.notices.pop()
    }

    /// Takes the answers that are for this host itself.
    pub fn next_own(&mut self) -> Option<Vec<u8>> {
        self.answers.own.pop()
    }

    pub fn counts(&self) -> &IcmpCounts {
        self.engine.counts()
    }
}

/// Sends answers to the device at once.
#[derive(Debug)]
struct DirectAnswers {
    transmitter: Arc<Transmitter>,
    /// Room in which an answer is put together.
    payload: Vec<u8>,
    own: Vec<Vec<u8>>,
    notices: Vec<Notice>,
}

impl Answers for DirectAnswers {
    fn send_parts(&mut self, to: Outgoing<'_>, front: &[u8], rest: &[u8]) {
        self.payload.clear();
        self.payload.extend_from_slice(front);
        self.payload.extend_from_slice(rest);
        if let SendResult::ToUs(datagram, _) =
            self.transmitter.send(&to, &Payload::Private(&self.payload))
        {
            self.own.push(datagram);
        }
    }

    fn gateway_of(&mut self, destination: Ipv4Addr) -> Option<Ipv4Addr> {
        match self.transmitter.hop(destination) {
            Some(NextHop::Gateway(gateway)) => Some(gateway),
            _ => None,
        }
    }

    fn redirect(&mut self, destination: Ipv4Addr, gateway: Ipv4Addr) {
        if let Some(from) = self.gateway_of(destination) {
            self.transmitter.learn(destination, gateway, from);
        }
    }

    fn announce(&mut self, gateway: Ipv4Addr, update: &Update<'_>) {
        self.transmitter.routes().announce(gateway, update, now_ns());
    }

    fn now_ns(&mut self) -> u64 {
        now_ns()
    }

    fn ms_since_midnight_ut(&mut self) -> u32 {
        ms_since_midnight()
    }

    fn notice(&mut self, notice: Notice) {
        if let Some(log) = self.transmitter.journal.log.get() {
            log.error(&FailureEvent::of_notice(&notice));
        }
        self.notices.push(notice);
    }
}
