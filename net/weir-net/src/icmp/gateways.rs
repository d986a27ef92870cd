//! A host's part of GGP (RFC 823 4.4): updates of gateways, which the routing keeps
//! ([`crate::routes`]), and our own updates.
//!
//! Everything that needs a clock is left out. Gateways are not polled by echoes: one counts as up
//! as soon as it is heard (Appendix C, "a Routing Update message is received", a). Our update is
//! sent to a gateway that asks for it, not to all until they acknowledge it.

use super::{Answers, Engine};
use crate::outgoing::Outgoing;
use crate::routes::MOST_ANNOUNCERS;
use crate::wire::ggp::{self, Message, Network};
use crate::wire::ipv4::{Header, protocol};
use std::net::Ipv4Addr;

/// A gateway that sent an update, or an unused entry.
#[derive(Clone, Copy, Debug)]
struct Gateway {
    /// Its address; 0.0.0.0 for an unused entry, which no source is.
    address: Ipv4Addr,
    /// Sequence of the last update that was accepted ("R" in RFC 823).
    received: u16,
    /// How many updates had been accepted in total when its last one was: the smallest is the
    /// oldest.
    received_at: u64,
}

/// The gateways heard from.
#[derive(Debug)]
pub struct Gateways {
    /// Our net, which we reach at distance 0.
    network: Option<Network>,
    /// Sequence of our update ("N" in RFC 823). Its content never changes.
    sequence: u16,
    received_at: u64,
    gateways: [Gateway; MOST_ANNOUNCERS],
}

impl Gateways {
    /// Creates it without gateways, for a host at `address`.
    pub fn new(address: Ipv4Addr) -> Gateways {
        let unused = Gateway { address: Ipv4Addr::UNSPECIFIED, received: 0, received_at: 0 };
        let gateways = [unused; MOST_ANNOUNCERS];
        Gateways { network: Network::of(address), sequence: 1, received_at: 0, gateways }
    }

    /// Accepts an update, or refuses it with the sequence of the last accepted one.
    ///
    /// A gateway's update replaces its previous one. A repeated update is accepted again (RFC 823
    /// 4.4.3: S - R is not below zero): its acknowledgement was lost.
    fn accept(&mut self, from: Ipv4Addr, sequence: u16) -> Result<(), u16> {
        let known = self.gateways.iter().position(|gateway| gateway.address == from);
        let gateway = &mut self.gateways[known.unwrap_or_else(|| self.oldest())];
        if known.is_some() && is_before(sequence, gateway.received) {
            return Err(gateway.received);
        }
        self.received_at += 1;
        gateway.received_at = self.received_at;
        (gateway.address, gateway.received) = (from, sequence);
        Ok(())
    }

    /// Returns the entry that was not heard for longest; an unused one first.
    fn oldest(&self) -> usize {
        let places = self.gateways.iter().enumerate();
        places.min_by_key(|(_, gateway)| gateway.received_at).map_or(0, |(index, _)| index)
    }

    /// Handles a gateway's refusal of our update: it had accepted one of this sequence before.
    /// Returns whether our sequence advanced, so that the update must be sent again.
    fn refused(&mut self, from: Ipv4Addr, sequence: u16) -> bool {
        let is_known = self.gateways.iter().any(|gateway| gateway.address == from);
        let is_behind = is_known && is_before(self.sequence, sequence);
        if is_behind {
            self.sequence = sequence.wrapping_add(1);
        }
        is_behind
    }
}

/// Whether one sequence precedes another: their difference is below zero in 16 bits that wrap.
fn is_before(sequence: u16, other: u16) -> bool {
    (sequence.wrapping_sub(other) as i16) < 0
}

impl Engine {
    /// Takes a GGP message from a valid source; GGP is switched on.
    pub(super) fn take_ggp(&mut self, header: &Header, payload: &[u8], answers: &mut impl Answers) {
        let Some(gateways) = self.gateways.as_mut() else {
            return self.counts.dropped_protocol += 1;
        };
        // Gateways are neighbours on a net (RFC 823 4.4.2).
        if !self.net.has(header.source) {
            return self.counts.dropped_source += 1;
        }
        let message = match Message::check(payload) {
            Ok(message) => message,
            Err(ggp::Malformed::Kind) => return self.counts.dropped_unknown += 1,
            Err(_) => return self.counts.dropped_malformed += 1,
        };
        match message {
            Message::Echo { rest } => {
                if self.replies.as_mut().is_some_and(|replies| !replies.allows(answers.now_ns())) {
                    return self.counts.dropped_rate += 1;
                }
                self.counts.ggp_echoes_answered += 1;
                self.send_ggp(header.source, &Message::EchoReply { rest }, answers);
            }
            Message::RoutingUpdate(update) => {
                let answer = match gateways.accept(header.source, update.sequence()) {
                    Ok(()) => Message::Acknowledgement { sequence: update.sequence() },
                    Err(sequence) => Message::NegativeAcknowledgement { sequence },
                };
                let is_accepted = matches!(answer, Message::Acknowledgement { .. });
                self.send_ggp(header.source, &answer, answers);
                if !is_accepted {
                    return self.counts.ggp_updates_refused += 1;
                }
                self.counts.ggp_updates_accepted += 1;
                // What this host may have said to itself is not a gateway's.
                if header.source != self.settings.address {
                    answers.announce(header.source, &update);
                }
                if update.need_update() {
                    self.send_update(header.source, answers);
                }
            }
            Message::NegativeAcknowledgement { sequence } => {
                if !gateways.refused(header.source, sequence) {
                    return self.counts.ggp_acknowledgements += 1;
                }
                self.counts.ggp_resynchronised += 1;
                self.send_update(header.source, answers);
            }
            Message::Acknowledgement { .. } => self.counts.ggp_acknowledgements += 1,
            Message::EchoReply { .. } => self.counts.stray_replies += 1,
            Message::InterfaceStatus => self.counts.ggp_ignored += 1,
        }
    }

    /// Sends a short message, of type of service 0 (RFC 823, Appendix A).
    fn send_ggp(&mut self, to: Ipv4Addr, message: &Message<'_>, answers: &mut impl Answers) {
        if let Some(bytes) = message.emit(&mut self.buffer) {
            answers.send(Outgoing::new(to, protocol::GGP), &self.buffer[..bytes]);
        }
    }

    /// Sends our update: as a host we reach our own net and no other. The rate of errors limits it.
    fn send_update(&mut self, to: Ipv4Addr, answers: &mut impl Answers) {
        let Some(gateways) = self.gateways.as_ref() else {
            return;
        };
        if self.errors.allows(to, answers.now_ns()).is_err() {
            return self.counts.ggp_updates_rate += 1;
        }
        let group = gateways.network.as_slice();
        let groups = [(0, group)];
        let groups = &groups[..group.len()];
        if let Some(bytes) = ggp::emit_update(gateways.sequence, false, groups, &mut self.buffer) {
            self.counts.ggp_updates_sent += 1;
            answers.send(Outgoing::new(to, protocol::GGP), &self.buffer[..bytes]);
        }
    }
}
