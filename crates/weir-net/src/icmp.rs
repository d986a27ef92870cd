//! What the ICMP and GGP daemon answers: a host's part of RFC 792, RFC 1122 3.2.2 and RFC 823.
//!
//! [`Engine`] has no clock and does no I/O: it is given datagrams and the time, and hands what is
//! to be sent, and what it learnt, to [`Answers`]. Its memory is taken when it is made; a datagram
//! takes none. It runs in a process of its own, or inside the packet switch.
//!
//! It answers a datagram by one at most (a routing update that asks for ours: two), never about
//! what is not from one host to us, and never longer than asked: an echo or a timestamp is answered
//! by as many bytes, an error has 576 at most.

mod counts;
mod errors;
mod gateways;
mod limit;
mod notices;
pub mod ping;

pub use counts::Counts;
pub use errors::Undeliverable;
pub use gateways::{MOST_GATEWAYS, Route};
pub use limit::{MOST_DESTINATIONS, Rate};
pub use notices::{Notice, Trouble};

use crate::net::Net;
use crate::outgoing::Outgoing;
use crate::wire::icmp::{Malformed, Message, Timestamp};
use crate::wire::ipv4::{self, Datagram, Header, protocol};
use crate::wire::options;
use gateways::Gateways;
use limit::{Bucket, Limits};
use std::net::Ipv4Addr;

/// Where the host is, and what it answers.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Our address.
    pub address: Ipv4Addr,
    /// Bits of it that are our net's.
    pub prefix_bits: u8,
    /// Echo requests are answered, as RFC 1122 3.2.2.6 wants it.
    pub echo: bool,
    /// Timestamp requests are answered.
    pub timestamp: bool,
    /// GGP is spoken. Where not, it is for the switch to say that the protocol is unreachable.
    pub ggp: bool,
    /// Datagrams from our own address come from ourselves: the switch hands them back, and takes
    /// none such from outside. Where it does not they are forged, and dropped.
    pub loopback: bool,
    /// Errors sent, and routing updates sent because somebody asked.
    pub errors: Rate,
    /// The same, to one destination.
    pub errors_to_one: Rate,
    /// Answers to echo and timestamp requests, and to GGP echoes; `None`: without a limit.
    pub replies: Option<Rate>,
}

impl Settings {
    /// What is usual: echoes and timestamps answered without a limit, no GGP, no datagrams from
    /// ourselves, 1,000 errors a second and 50 at once, to one destination 10 and 6.
    pub const fn new(address: Ipv4Addr, prefix_bits: u8) -> Settings {
        Settings {
            address,
            prefix_bits,
            echo: true,
            timestamp: true,
            ggp: false,
            loopback: false,
            errors: Rate { per_s: 1000, burst: 50 },
            errors_to_one: Rate { per_s: 10, burst: 6 },
            replies: None,
        }
    }
}

/// Whom the engine tells what is to be done.
pub trait Answers {
    /// Send this. `payload` is only lent.
    fn send(&mut self, to: Outgoing<'_>, payload: &[u8]);

    /// Which gateway is used at present for `destination`; `None` where none is, as on our own net.
    fn gateway_of(&mut self, destination: Ipv4Addr) -> Option<Ipv4Addr>;

    /// Use `gateway` for `destination` from now on: an address on our net that is not ours, the
    /// word of the gateway used till now.
    fn redirect(&mut self, destination: Ipv4Addr, gateway: Ipv4Addr);

    /// Milliseconds since midnight UT: only a timestamp asks, since a clock costs something. A host
    /// that does not know them sets the highest bit of some other time (RFC 792 p. 16).
    fn ms_since_midnight_ut(&mut self) -> u32;

    /// Tell the process whose datagram it was.
    fn notice(&mut self, notice: Notice);
}

/// The protocol, and all it remembers.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    net: Net,
    errors: Limits,
    replies: Option<Bucket>,
    gateways: Option<Gateways>,
    counts: Counts,
    /// Where answers are put together: as long as a datagram can be.
    buffer: Box<[u8]>,
}

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new(settings: Settings) -> Engine {
        Engine {
            net: Net::new(settings.address, settings.prefix_bits),
            errors: Limits::new(settings.errors, settings.errors_to_one),
            replies: settings.replies.map(|rate| Bucket::new(rate, 0)),
            gateways: settings.ggp.then(|| Gateways::new(settings.address)),
            counts: Counts::default(),
            buffer: vec![0; ipv4::MOST_BYTES].into_boxed_slice(),
            settings,
        }
    }

    /// What was done with what came.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The nets that gateways said they reach, as they said it last. Nothing where GGP is off.
    pub fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        self.gateways.iter().flat_map(Gateways::routes)
    }

    /// Takes a whole datagram of protocol ICMP or GGP that came for us.
    ///
    /// `now_ns` is of a clock that only goes forward.
    pub fn take(&mut self, datagram: &Datagram<'_>, now_ns: u64, answers: &mut impl Answers) {
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
            protocol::GGP => self.take_ggp(&header, datagram.payload(), now_ns, answers),
            _ => self.take_icmp(&header, datagram, now_ns, answers),
        }
    }

    /// Whether who sent a datagram from there may be answered, and believed.
    fn is_sound_source(&self, source: Ipv4Addr) -> bool {
        self.net.is_host(source) && (source != self.settings.address || self.settings.loopback)
    }

    fn take_icmp(
        &mut self,
        header: &Header,
        datagram: &Datagram<'_>,
        now_ns: u64,
        answers: &mut impl Answers,
    ) {
        let message = match Message::check(datagram.payload()) {
            Ok(message) => message,
            Err(Malformed::Checksum) => return self.counts.dropped_checksum += 1,
            Err(_) => return self.counts.dropped_malformed += 1,
        };
        match message {
            Message::Echo(_) if !self.settings.echo => self.counts.dropped_off += 1,
            Message::Echo(echo) => {
                if self.reply(header, datagram, &Message::EchoReply(echo), now_ns, answers) {
                    self.counts.echoes_answered += 1;
                }
            }
            Message::Timestamp(_) if !self.settings.timestamp => self.counts.dropped_off += 1,
            Message::Timestamp(asked) => {
                // Nothing takes time between receiving and sending here.
                let now_ms = answers.ms_since_midnight_ut();
                let times = Timestamp { receive_ms: now_ms, transmit_ms: now_ms, ..asked };
                let reply = Message::TimestampReply(times);
                if self.reply(header, datagram, &reply, now_ns, answers) {
                    self.counts.timestamps_answered += 1;
                }
            }
            Message::EchoReply(_) | Message::TimestampReply(_) => self.counts.stray_replies += 1,
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

    /// Sends the answer to a request: back to its source, in the type of service it came with, with
    /// its record of route and timestamps (RFC 1122 3.2.2.6, 3.2.2.8). Whether it was sent.
    fn reply(
        &mut self,
        header: &Header,
        datagram: &Datagram<'_>,
        reply: &Message<'_>,
        now_ns: u64,
        answers: &mut impl Answers,
    ) -> bool {
        if self.replies.as_mut().is_some_and(|replies| !replies.allows(now_ns)) {
            self.counts.dropped_rate += 1;
            return false;
        }
        // It is as long as the request was, or shorter, and that was in a datagram.
        let Some(bytes) = reply.emit(&mut self.buffer) else {
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
        answers.send(to, &self.buffer[..bytes]);
        true
    }
}
