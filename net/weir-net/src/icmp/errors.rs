//! Sending ICMP errors: about which datagrams, to whom, how often, and how long.

use super::limit::ExceededLimit;
use super::{Answers, Engine};
use crate::outgoing::Outgoing;
use crate::wire::icmp::{self, Message, Quoted, unreachable};
use crate::wire::ipv4::{Header, LEAST_HEADER_BYTES, protocol};

/// Most bytes of an error with its IP header (RFC 1812 4.3.2.3).
const MOST_ERROR_BYTES: usize = 576;
/// Most bytes of a datagram that an error quotes: our header has no options.
const MOST_QUOTED_BYTES: usize = MOST_ERROR_BYTES - LEAST_HEADER_BYTES - icmp::HEADER_BYTES;

/// Precedence of errors: internetwork control (RFC 1812 4.3.2.5, as Linux has it).
const PRECEDENCE: u8 = 6 << 5;
/// The bits of a datagram's type of service that its error copies (RFC 1812 4.3.2.5): delay,
/// throughput, reliability. The two lowest bits belong to congestion control today (RFC 3168).
const TOS_BITS: u8 = 0x1c;

/// Why a datagram could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeliverable {
    /// No process has its protocol.
    Protocol,
    /// No process has its port.
    Port,
    /// The other fragments did not arrive in time; `datagram` must be the first (RFC 792 p. 6).
    ReassemblyTimeout,
    /// Its source route leads on from here, which this host does not support.
    SourceRoute,
    /// Its header cannot be understood.
    Parameter {
        /// The position of the wrong byte.
        pointer: u8,
    },
}

/// Why no error was sent.
enum Unsent {
    Malformed,
    Error,
    Fragment,
    Broadcast,
    NotOurs,
    Source,
    Rate,
    RateOfOne,
}

impl Engine {
    /// Sends an error about a received datagram that could not be delivered, if it may.
    ///
    /// `datagram` is its IP header and at least the first eight bytes of its payload, unchanged.
    /// The error quotes as much of it as makes 576 bytes. No error is sent about ICMP errors (or
    /// messages that might be errors), later fragments, datagrams not addressed to this host alone,
    /// datagrams not from one host (RFC 1122 3.2.2, RFC 1812 4.3.2.7), or beyond the rates.
    ///
    /// The error does not follow a datagram's source route back.
    pub fn undeliverable(
        &mut self,
        datagram: &[u8],
        why: Undeliverable,
        answers: &mut impl Answers,
    ) {
        let sent = Quoted::check(datagram)
            .map_err(|_| Unsent::Malformed)
            .and_then(|quoted| self.try_error(&quoted, why, answers));
        let counts = &mut self.counts;
        *match (sent, why) {
            (Ok(()), Undeliverable::Protocol) => &mut counts.sent_protocol,
            (Ok(()), Undeliverable::Port) => &mut counts.sent_port,
            (Ok(()), Undeliverable::ReassemblyTimeout) => &mut counts.sent_reassembly,
            (Ok(()), Undeliverable::SourceRoute) => &mut counts.sent_source_route,
            (Ok(()), Undeliverable::Parameter { .. }) => &mut counts.sent_parameter,
            (Err(Unsent::Malformed), _) => &mut counts.unsent_malformed,
            (Err(Unsent::Error), _) => &mut counts.unsent_error,
            (Err(Unsent::Fragment), _) => &mut counts.unsent_fragment,
            (Err(Unsent::Broadcast), _) => &mut counts.unsent_broadcast,
            (Err(Unsent::NotOurs), _) => &mut counts.unsent_not_ours,
            (Err(Unsent::Source), _) => &mut counts.unsent_source,
            (Err(Unsent::Rate), _) => &mut counts.unsent_rate,
            (Err(Unsent::RateOfOne), _) => &mut counts.unsent_rate_one,
        } += 1;
    }

    fn try_error(
        &mut self,
        quoted: &Quoted<'_>,
        why: Undeliverable,
        answers: &mut impl Answers,
    ) -> Result<(), Unsent> {
        self.may_be_sent(quoted)?;
        let Header { source: destination, tos, .. } = quoted.header();
        let tos = tos & TOS_BITS | PRECEDENCE;
        let quoted = quoted.cut(MOST_QUOTED_BYTES);
        let unreachable = |code| Message::Unreachable { code, mtu_bytes: 0, quoted };
        let message = match why {
            Undeliverable::Protocol => unreachable(unreachable::PROTOCOL),
            Undeliverable::Port => unreachable(unreachable::PORT),
            Undeliverable::SourceRoute => unreachable(unreachable::SOURCE_ROUTE_FAILED),
            Undeliverable::ReassemblyTimeout => {
                Message::TimeExceeded { code: icmp::REASSEMBLY_TIME_EXCEEDED, quoted }
            }
            Undeliverable::Parameter { pointer } => {
                Message::ParameterProblem { code: 0, pointer, quoted }
            }
        };
        self.errors.allows(destination, answers.now_ns()).map_err(|forbidden| match forbidden {
            ExceededLimit::All => Unsent::Rate,
            ExceededLimit::One => Unsent::RateOfOne,
        })?;
        let bytes = message.emit(&mut self.buffer).ok_or(Unsent::Malformed)?;
        let to = Outgoing { tos, ..Outgoing::new(destination, protocol::ICMP) };
        answers.send(to, &self.buffer[..bytes]);
        Ok(())
    }

    /// Whether an error about this datagram may be sent at all.
    fn may_be_sent(&self, quoted: &Quoted<'_>) -> Result<(), Unsent> {
        let Header { source, destination, offset_bytes, protocol: number, .. } = quoted.header();
        if self.net.is_many(destination) {
            return Err(Unsent::Broadcast);
        }
        if destination != self.settings.address {
            return Err(Unsent::NotOurs);
        }
        if !self.is_sound_source(source) {
            return Err(Unsent::Source);
        }
        if offset_bytes > 0 {
            return Err(Unsent::Fragment);
        }
        let is_error = number == protocol::ICMP
            && !quoted.payload().first().is_some_and(|kind| icmp::is_query(*kind));
        if is_error { Err(Unsent::Error) } else { Ok(()) }
    }
}
