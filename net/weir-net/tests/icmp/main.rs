//! What the ICMP and GGP engine promises: parsers, answers, errors, redirects, limits, ping.

#[path = "../datagrams/mod.rs"]
mod datagrams;
mod echo;
mod errors;
mod gateways;
mod ggp_wire;
mod hostile;
mod limits;
mod packets;
mod ping;
mod received;
mod wire;

use datagrams::datagram;
use std::net::Ipv4Addr;
use weir_net::icmp::{Answers, Engine, IcmpCounts, IcmpSettings, Notice, Undeliverable};
use weir_net::outgoing::Outgoing;
use weir_net::routes::AnnouncedRoutes;
use weir_net::wire::ggp::Update;
use weir_net::wire::icmp::Message;
use weir_net::wire::ipv4::{Datagram, Header, protocol};

/// Our address, as the captured packets have it.
const US: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// A neighbour.
const PEER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// A host on another net.
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const PREFIX_BITS: u8 = 24;
const SECOND_NS: u64 = 1_000_000_000;
/// 23:12:03.127 UT.
const MIDNIGHT_MS: u32 = 83_523_127;

/// A datagram that was sent.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    destination: Ipv4Addr,
    protocol: u8,
    tos: u8,
    ttl: u8,
    options: Vec<u8>,
    payload: Vec<u8>,
}

/// Keeps what the engine reports.
#[derive(Debug, Default)]
struct Heard {
    sent: Vec<Sent>,
    redirects: Vec<(Ipv4Addr, Ipv4Addr)>,
    notices: Vec<Notice>,
    announced: AnnouncedRoutes,
    /// What it answers.
    gateway: Option<Ipv4Addr>,
    now_ns: u64,
}

impl Answers for Heard {
    fn send_parts(&mut self, to: Outgoing<'_>, front: &[u8], rest: &[u8]) {
        assert!(!to.dont_fragment, "our answers may be fragmented");
        self.sent.push(Sent {
            destination: to.destination,
            protocol: to.protocol,
            tos: to.tos,
            ttl: to.ttl,
            options: to.options.to_vec(),
            payload: [front, rest].concat(),
        });
    }

    fn gateway_of(&mut self, _: Ipv4Addr) -> Option<Ipv4Addr> {
        self.gateway
    }

    fn redirect(&mut self, destination: Ipv4Addr, gateway: Ipv4Addr) {
        self.redirects.push((destination, gateway));
    }

    fn announce(&mut self, gateway: Ipv4Addr, update: &Update<'_>) {
        self.announced.announce(gateway, update, 0);
    }

    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn ms_since_midnight_ut(&mut self) -> u32 {
        MIDNIGHT_MS
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

/// An engine with an observer.
#[derive(Debug)]
struct World {
    engine: Engine,
    heard: Heard,
}

impl World {
    fn new(settings: IcmpSettings) -> World {
        World { engine: Engine::new(settings), heard: Heard::default() }
    }

    /// Gives the engine a datagram, which must be valid.
    fn take(&mut self, bytes: &[u8]) {
        let datagram = Datagram::check(bytes).expect("a datagram");
        self.engine.take(&datagram, &mut self.heard);
    }

    fn undeliverable(&mut self, bytes: &[u8], why: Undeliverable) {
        self.engine.undeliverable(bytes, why, &mut self.heard);
    }

    /// What was sent since the last call: one datagram at most.
    fn answer(&mut self) -> Option<Sent> {
        assert!(self.heard.sent.len() <= 1, "more than one answer: {:?}", self.heard.sent);
        self.heard.sent.pop()
    }

    fn counts(&self) -> IcmpCounts {
        *self.engine.counts()
    }

    /// Nothing was said, and this is what was counted, but for how many were taken.
    #[track_caller]
    fn expect_silence(&self, counts: IcmpCounts) {
        assert!(self.heard.sent.is_empty(), "{:?}", self.heard.sent);
        assert!(self.heard.redirects.is_empty() && self.heard.notices.is_empty());
        assert_eq!(IcmpCounts { taken: 0, ..self.counts() }, counts);
    }
}

impl Default for World {
    fn default() -> World {
        World::new(IcmpSettings::new(US, PREFIX_BITS))
    }
}

/// The header of an ICMP datagram from the peer to us.
fn header() -> Header {
    datagrams::header(77, protocol::ICMP, PEER, US)
}

/// The bytes of a message.
fn message(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 65_535];
    let written = message.emit(&mut bytes).expect("it can be written");
    bytes.truncate(written);
    bytes
}

/// The beginning of a UDP datagram from us to a distant host, port 5353 to 69.
fn ours() -> Vec<u8> {
    let ports = [0x14, 0xe9, 0, 69, 0, 12, 0, 0, 1, 2, 3, 4];
    let header = Header { protocol: protocol::UDP, source: US, destination: FAR, ..header() };
    datagram(header, &[], &ports)
}
