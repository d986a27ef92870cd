//! ICMP and GGP within the switch, where no station has them.

use super::now_ns;
use super::outgoing::{Sent, Transmitter, ms_since_midnight};
use super::payload::Payload;
use crate::icmp::{Answers, Counts, Engine, Notice, Settings, Undeliverable};
use crate::outgoing::Outgoing;
use crate::routes::Hop;
use crate::spans;
use crate::wire::ipv4::{Datagram, protocol};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// ICMP within the switch.
#[derive(Debug)]
pub struct Inline {
    engine: Engine,
    ggp: bool,
    answers: Direct,
}

impl Inline {
    /// Answers through `transmitter`.
    pub fn new(settings: Settings, transmitter: Arc<Transmitter>) -> Inline {
        let answers = Direct { transmitter, own: Vec::new(), notices: Vec::new() };
        Inline { engine: Engine::new(settings), ggp: settings.ggp, answers }
    }

    /// Takes a datagram, if it is of a protocol that is answered here.
    pub fn take(&mut self, datagram: &Datagram<'_>) -> bool {
        let number = datagram.header().protocol;
        if number != protocol::ICMP && !(number == protocol::GGP && self.ggp) {
            return false;
        }
        let _span = spans::ANSWER.enter();
        self.engine.take(datagram, now_ns(), &mut self.answers);
        true
    }

    /// Sends an error about a datagram that nobody takes.
    pub fn undeliverable(&mut self, quoted: &[u8], why: Undeliverable) {
        self.engine.undeliverable(quoted, why, now_ns(), &mut self.answers);
    }

    /// What it has to tell a station.
    pub fn next_notice(&mut self) -> Option<Notice> {
        self.answers.notices.pop()
    }

    /// What it answered to ourselves.
    pub fn next_own(&mut self) -> Option<Vec<u8>> {
        self.answers.own.pop()
    }

    /// What it has done.
    pub fn counts(&self) -> &Counts {
        self.engine.counts()
    }
}

/// Answers that go to the device at once.
#[derive(Debug)]
struct Direct {
    transmitter: Arc<Transmitter>,
    own: Vec<Vec<u8>>,
    notices: Vec<Notice>,
}

impl Answers for Direct {
    fn send(&mut self, to: Outgoing<'_>, payload: &[u8]) {
        if let Sent::ToUs(datagram) = self.transmitter.send(&to, &Payload::Private(payload)) {
            self.own.push(datagram);
        }
    }

    fn gateway_of(&mut self, destination: Ipv4Addr) -> Option<Ipv4Addr> {
        match self.transmitter.hop(destination) {
            Some(Hop::Gateway(gateway)) => Some(gateway),
            _ => None,
        }
    }

    fn redirect(&mut self, destination: Ipv4Addr, gateway: Ipv4Addr) {
        if let Some(from) = self.gateway_of(destination) {
            self.transmitter.learn(destination, gateway, from);
        }
    }

    fn ms_since_midnight_ut(&mut self) -> u32 {
        ms_since_midnight()
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}
