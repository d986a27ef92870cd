//! The engine of the ICMP and GGP daemon: a host's part of RFC 792, RFC 1122 3.2.2 and RFC 823.
//!
//! [`Engine`] has no clock and does no I/O: it takes datagrams, and hands messages to send, and what
//! it learnt, to [`Answers`], which also tells the time. It allocates its memory when it is created;
//! a datagram needs none. It runs in a process of its own, or inside the packet switch.
//!
//! It sends at most one answer to a datagram (two to a routing update that asks for ours), none to
//! a datagram that is not from one host to us, and none longer than the request: the reply to an
//! echo or a timestamp has as many bytes, an error at most 576.

mod counts;
mod errors;
mod gateways;
mod limit;
mod notices;
pub mod ping;

pub use counts::IcmpCounts;
pub use errors::Undeliverable;
pub use limit::{MOST_DESTINATIONS, TokenBucket, TokenRate};
pub use notices::{Notice, NoticeKind};

use crate::net::Net;
use crate::outgoing::Outgoing;
use crate::wire::ggp::Update;
use crate::wire::icmp::{Malformed, Message, Timestamp, TimestampRoom};
use crate::wire::ipv4::{self, Datagram, Header, protocol};
use crate::wire::options;
use gateways::Gateways;
use limit::RateLimits;
use std::net::Ipv4Addr;

/// The host's address, and what the engine answers.
#[derive(Clone, Copy, Debug)]
pub struct IcmpSettings {
    /// Our address.
    pub address: Ipv4Addr,
    /// Bits of the address that are our net's number.
    pub prefix_bits: u8,
    /// Whether to answer echo requests, as RFC 1122 3.2.2.6 demands.
    pub echo: bool,
    /// Whether to answer timestamp requests.
    pub timestamp: bool,
    /// Whether to answer information requests, which no host should any more (RFC 6918).
    pub information: bool,
    /// Whether to take part in GGP. If not, the switch reports the protocol as unreachable.
    pub ggp: bool,
    /// Whether datagrams from our own address are our own: the switch hands them back, and drops
    /// such datagrams from outside. If not, they are forged, and dropped.
    pub loopback: bool,
    /// The limit on errors, and on routing updates sent on request.
    pub errors: TokenRate,
    /// The limit on these for one destination.
    pub errors_to_one: TokenRate,
    /// The limit on replies to echo and timestamp requests, and to GGP echoes; `None`: no limit.
    pub replies: Option<TokenRate>,
}

impl IcmpSettings {
    /// Returns the defaults: echoes and timestamps answered without a limit, no GGP, no datagrams
    /// from ourselves, 1,000 errors a second and 50 at once, to one destination 10 and 6.
    pub const fn new(address: Ipv4Addr, prefix_bits: u8) -> IcmpSettings {
        IcmpSettings {
            address,
            prefix_bits,
            echo: true,
            timestamp: true,
            information: false,
            ggp: false,
            loopback: false,
            errors: TokenRate { per_s: 1000, burst: 50 },
            errors_to_one: TokenRate { per_s: 10, burst: 6 },
            replies: None,
        }
    }
}

/// Actions that the engine asks of its owner.
pub trait Answers {
    /// Sends this datagram, whose payload is in two parts: each is only lent, and can be copied to
    /// where the device takes it from.
    fn send_parts(&mut self, to: Outgoing<'_>, front: &[u8], rest: &[u8]);

    /// Sends this datagram; `payload` is only lent.
    fn send(&mut self, to: Outgoing<'_>, payload: &[u8]) {
        self.send_parts(to, payload, &[]);
    }

    /// Returns the gateway in use for `destination`; `None` where there is none, as on our own net.
    fn gateway_of(&mut self, destination: Ipv4Addr) -> Option<Ipv4Addr>;

    /// Uses `gateway` for `destination` from now on: an address on our net that is not ours, named
    /// by the gateway used so far.
    fn redirect(&mut self, destination: Ipv4Addr, gateway: Ipv4Addr);

    /// Uses `gateway`, a neighbour, for the nets of its update from now on, in place of those that it
    /// announced before.
    fn announce(&mut self, gateway: Ipv4Addr, update: &Update<'_>);

    /// Returns the time of a monotonic clock; only what is limited calls it, since reading a clock
    /// costs time.
    fn now_ns(&mut self) -> u64;

    /// Returns milliseconds since midnight UT; only a timestamp request calls it. A host that
    /// does not know them sets the highest bit of another time (RFC 792 p. 16).
    fn ms_since_midnight_ut(&mut self) -> u32;

    /// Notifies the process whose datagram it was.
    fn notice(&mut self, notice: Notice);
}

/// The protocol engine and its state.
#[derive(Debug)]
pub struct Engine {
    settings: IcmpSettings,
    net: Net,
    errors: RateLimits,
    replies: Option<TokenBucket>,
    gateways: Option<Gateways>,
    counts: IcmpCounts,
    /// Buffer for answers, as long as the longest datagram.
    buffer: Box<[u8]>,
}

impl Engine {
    /// Creates an engine without any state.
    pub fn new(settings: IcmpSettings) -> Engine {
        Engine {
            net: Net::new(settings.address, settings.prefix_bits),
            errors: RateLimits::new(settings.errors, settings.errors_to_one),
            replies: settings.replies.map(|rate| TokenBucket::new(rate, 0)),
            gateways: settings.ggp.then(|| Gateways::new(settings.address)),
            counts: IcmpCounts::default(),
            buffer: vec![0; ipv4::MOST_BYTES].into_boxed_slice(),
            settings,
        }
    }

    /// Returns its counts.
    pub fn counts(&self) -> &IcmpCounts {
        &self.counts
    }

    /// Takes a whole datagram of protocol ICMP or GGP that is addressed to us.
    pub fn take(&mut self, datagram: &Datagram<'_>, answers: &mut impl Answers) {
        self.counts.taken += 1;
        let header = datagram.header();
        let counts = &mut self.counts;
        if header.protocol != protocol::ICMP
            && !(header.protocol == protocol::GGP && self.gateways.is_some())
        {
            return counts.dropped_protocol += 1;
        }
        if datagram.is_fragment() {
            return counts.dropped_fragment += 1;
        }
        if header.destination != self.settings.address {
            if self.net.is_many(header.destination) {
                return counts.dropped_broadcast += 1;
            }
            return counts.dropped_not_ours += 1;
        }
        if !self.is_sound_source(header.source) {
            return self.counts.dropped_source += 1;
        }
        match header.protocol {
            protocol::GGP => self.take_ggp(&header, datagram.payload(), answers),
            _ => self.take_icmp(&header, datagram, answers),
        }
    }

    /// Whether the sender of such a datagram may be answered, and believed.
    fn is_sound_source(&self, source: Ipv4Addr) -> bool {
        self.net.is_host(source) && (source != self.settings.address || self.settings.loopback)
    }

    fn take_icmp(&mut self, header: &Header, datagram: &Datagram<'_>, answers: &mut impl Answers) {
        let message = match Message::check(datagram.payload()) {
            Ok(message) => message,
            Err(Malformed::Checksum) => return self.counts.dropped_checksum += 1,
            Err(_) => return self.counts.dropped_malformed += 1,
        };
        match message {
            Message::Echo(_) if !self.settings.echo => self.counts.dropped_off += 1,
            Message::Echo(echo) => {
                if self.reply(header, datagram, &Message::EchoReply(echo), answers) {
                    self.counts.echoes_answered += 1;
                }
            }
            Message::Timestamp(_) if !self.settings.timestamp => self.counts.dropped_off += 1,
            Message::Timestamp(asked) => {
                // Receiving and sending happen at the same time here.
                let now_ms = answers.ms_since_midnight_ut();
                let times = Timestamp { receive_ms: now_ms, transmit_ms: now_ms, ..asked };
                let reply = Message::TimestampReply(times);
                if self.reply(header, datagram, &reply, answers) {
                    self.counts.timestamps_answered += 1;
                }
            }
            Message::Information { .. } if !self.settings.information => {
                self.counts.dropped_off += 1;
            }
            Message::Information { id, sequence } => {
                let reply = Message::InformationReply { id, sequence };
                if self.reply(header, datagram, &reply, answers) {
                    self.counts.information_answered += 1;
                }
            }
            Message::EchoReply(_)
            | Message::TimestampReply(_)
            | Message::InformationReply { .. } => self.counts.stray_replies += 1,
            Message::SourceQuench { .. } => self.counts.source_quenches_ignored += 1,
            Message::Redirect { code, gateway, quoted } => {
                self.take_redirect(header.source, code, gateway, &quoted, answers);
            }
            Message::Unreachable { .. }
            | Message::TimeExceeded { .. }
            | Message::ParameterProblem { .. } => self.take_error(header.source, &message, answers),
            Message::Other { .. } => self.counts.dropped_unknown += 1,
        }
    }

    /// Sends the answer to a request: to its source, with its type of service, and with its record
    /// of route and timestamps (RFC 1122 3.2.2.6, 3.2.2.8). Returns whether it was sent.
    fn reply(
        &mut self,
        header: &Header,
        datagram: &Datagram<'_>,
        reply: &Message<'_>,
        answers: &mut impl Answers,
    ) -> bool {
        if self.replies.as_mut().is_some_and(|replies| !replies.allows(answers.now_ns())) {
            self.counts.dropped_rate += 1;
            return false;
        }
        let mut times = TimestampRoom::default();
        // It is no longer than the request, which fitted a datagram. The data of an echo stay where
        // the request has them.
        let Some((head, rest)) = reply.parts(&mut times) else {
            self.counts.dropped_malformed += 1;
            return false;
        };
        let mut options = [0; ipv4::MOST_OPTION_BYTES];
        let option_bytes = options::for_reply(datagram.options(), &mut options);
        let to = Outgoing {
            tos: header.tos,
            options: options.get(..option_bytes).unwrap_or_default(),
            ..Outgoing::new(header.source, protocol::ICMP)
        };
        answers.send_parts(to, &head, rest);
        true
    }
}
