//! Errors that are sent: about what, to whom, how often, and how long they are.

use super::limit::Forbidden;
use super::{Answers, Engine};
use crate::outgoing::Outgoing;
use crate::wire::icmp::{self, Message, Quoted, unreachable};
use crate::wire::ipv4::{Header, LEAST_HEADER_BYTES, protocol};

/// Bytes of an error with its IP header, at most (RFC 1812 4.3.2.3).
const MOST_ERROR_BYTES: usize = 576;
/// Bytes of a datagram that an error quotes, at most: our header has no options.
const MOST_QUOTED_BYTES: usize = MOST_ERROR_BYTES - LEAST_HEADER_BYTES - icmp::HEADER_BYTES;

/// Precedence of errors: internetwork control (RFC 1812 4.3.2.5, as Linux has it).
const PRECEDENCE: u8 = 6 << 5;
/// What errors take over of a datagram's type of service (RFC 1812 4.3.2.5): delay, throughput,
/// reliability. The two lowest bits belong to congestion today (RFC 3168), not to us.
const TOS_BITS: u8 = 0x1c;

/// Why a datagram could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeliverable {
    /// Nobody has its protocol.
    Protocol,
    /// Nobody has its port.
    Port,
    /// The other fragments did not come in time; what there is must be the first (RFC 792 p. 6).
    ReassemblyTimeout,
    /// The way that it demands goes on from here, which we do not do.
    SourceRoute,
    /// Its header cannot be understood.
    Parameter {
        /// Which byte of it.
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
    /// Sends an error about a datagram that came and could not be delivered, if it may.
    ///
    /// `datagram` is its IP header and at least the first eight bytes of its payload, as received:
    /// unchanged. As much of it is quoted as makes 576 bytes. Nothing is sent about ICMP errors (or
    /// what might be), later fragments, what was not for us alone, and what is not from one host
    /// (RFC 1122 3.2.2, RFC 1812 4.3.2.7), nor beyond the rates.
    ///
    /// The way that a datagram demanded (a source route) is not turned round for the error.
    pub fn undeliverable(
        &mut self,
        datagram: &[u8],
        why: Undeliverable,
        now_ns: u64,
        answers: &mut impl Answers,
    ) {
        let sent = Quoted::check(datagram)
            .map_err(|_| Unsent::Malformed)
            .and_then(|quoted| self.try_error(&quoted, why, now_ns, answers));
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
        now_ns: u64,
        answers: &mut impl Answers,
    ) -> Result<(), Unsent> {
        self.may_be_told(quoted)?;
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
        self.errors.allows(destination, now_ns).map_err(|forbidden| match forbidden {
            Forbidden::All => Unsent::Rate,
            Forbidden::One => Unsent::RateOfOne,
        })?;
        let bytes = message.emit(&mut self.buffer).ok_or(Unsent::Malformed)?;
        let to = Outgoing { tos, ..Outgoing::new(destination, protocol::ICMP) };
        answers.send(to, &self.buffer[..bytes]);
        Ok(())
    }

    /// Whether an error about this datagram may be sent at all.
    fn may_be_told(&self, quoted: &Quoted<'_>) -> Result<(), Unsent> {
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
