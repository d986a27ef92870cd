//! Requests that a daemon serves: those of local programs, and those of other hosts.

use super::format;
use super::packet::{Packet, Transport};
use crate::wire::ipv4::{Datagram, protocol};
use crate::wire::{ggp, icmp};
use serde::Serialize;
use std::net::Ipv4Addr;

/// Who asks a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Asker {
    /// A local program, by a channel of its own: the daemon sends the request for it.
    Local {
        /// Its process, by its own account.
        pid: u32,
    },
    /// A host, by a datagram: the daemon answers.
    Foreign {
        /// Its address.
        source: Ipv4Addr,
    },
}

/// A request that a daemon serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RequestEvent {
    /// Who asks.
    #[serde(flatten)]
    pub asker: Asker,
    /// The host that is asked.
    pub target: Ipv4Addr,
    /// Protocol number.
    #[serde(flatten, serialize_with = "format::put_protocol")]
    pub protocol: u8,
    /// What is asked for.
    #[serde(flatten, serialize_with = "format::put_message")]
    pub transport: Transport,
    /// Bytes of the request, without an IP header.
    pub length_bytes: u16,
}

impl RequestEvent {
    /// Makes it of a message of ICMP or GGP, which may be anything.
    pub fn new(asker: Asker, target: Ipv4Addr, protocol: u8, message: &[u8]) -> RequestEvent {
        let transport = Transport::of_payload(protocol, 0, message);
        let length_bytes = u16::try_from(message.len()).unwrap_or(u16::MAX);
        RequestEvent { asker, target, protocol, transport, length_bytes }
    }

    /// Makes it of a datagram of ICMP or GGP that asks for something, whether or not that is
    /// answered.
    pub fn of_datagram(datagram: &Datagram<'_>) -> Option<RequestEvent> {
        let (header, payload) = (datagram.header(), datagram.payload());
        let is_request = match (header.protocol, payload) {
            (protocol::ICMP, [kind, ..]) => icmp::kind::REQUESTS.contains(kind),
            (protocol::GGP, [kind, ..]) => *kind == ggp::kind::ECHO || asks_for_update(payload),
            _ => false,
        };
        let asker = Asker::Foreign { source: header.source };
        is_request.then(|| RequestEvent::new(asker, header.destination, header.protocol, payload))
    }

    /// Returns it in the form of a packet, whose source is the process of a local program.
    #[inline]
    pub(crate) fn as_packet(&self) -> Packet {
        let RequestEvent { asker, target, protocol, transport, length_bytes } = *self;
        let source = match asker {
            Asker::Local { pid } => Ipv4Addr::from_bits(pid),
            Asker::Foreign { source } => source,
        };
        Packet { source, target, protocol, transport, length_bytes }
    }

    /// Reads what [`RequestEvent::as_packet`] returned.
    pub(crate) fn of_packet(packet: Packet, is_local: bool) -> RequestEvent {
        let Packet { source, target, protocol, transport, length_bytes } = packet;
        let asker = match is_local {
            true => Asker::Local { pid: source.to_bits() },
            false => Asker::Foreign { source },
        };
        RequestEvent { asker, target, protocol, transport, length_bytes }
    }
}

fn asks_for_update(payload: &[u8]) -> bool {
    matches!(ggp::Message::check(payload), Ok(ggp::Message::RoutingUpdate(it)) if it.need_update())
}
