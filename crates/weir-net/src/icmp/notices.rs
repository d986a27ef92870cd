//! Errors and redirects that are received: which are believed, and whom they concern.

use super::{Answers, Engine};
use crate::wire::icmp::{self, Message, Quoted};
use crate::wire::ipv4::{Header, protocol};
use crate::wire::ports;
use std::net::Ipv4Addr;

/// What became of a datagram of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// It could not be delivered.
    Unreachable,
    /// It was given up, by a gateway or in reassembly.
    TimeExceeded,
    /// Its header was not understood.
    ParameterProblem,
}

/// What a process is told about a datagram that it sent.
///
/// It is a hint and no proof: anybody who can guess addresses and ports can send it (RFC 5927).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Notice {
    /// What became of it.
    pub trouble: Trouble,
    /// The code of the ICMP message: why.
    pub code: u8,
    /// Who says so: the other host, or a gateway.
    pub from: Ipv4Addr,
    /// The protocol of the datagram, see [`crate::wire::ipv4::protocol`].
    pub protocol: u8,
    /// The port that it was sent from (UDP, TCP), the identifier of an ICMP request; of other
    /// protocols 0.
    pub local_port: u16,
    /// Whom it was for.
    pub remote: Ipv4Addr,
    /// The port that it was for (UDP, TCP), the sequence of an ICMP request; of other protocols 0.
    pub remote_port: u16,
    /// What the next hop takes at most, in bytes, where the datagram was too long and the gateway
    /// said so; else 0.
    pub mtu_bytes: u16,
    /// The byte of the header that was not understood; else 0.
    pub pointer: u8,
    /// The first bytes of its payload, by which TCP can see that it sent it; zeroes after its end.
    pub first: [u8; 8],
}

impl Engine {
    /// A redirect (RFC 1122 3.2.2.2): believed of the gateway used, about a datagram of ours, to a
    /// neighbour.
    pub(super) fn take_redirect(
        &mut self,
        source: Ipv4Addr,
        code: u8,
        gateway: Ipv4Addr,
        quoted: &Quoted<'_>,
        answers: &mut impl Answers,
    ) {
        let counts = &mut self.counts;
        if code > 1 {
            return counts.redirects_service += 1;
        }
        let Header { source: sender, destination, .. } = quoted.header();
        if sender != self.settings.address || !self.net.is_host(destination) {
            return counts.redirects_not_ours += 1;
        }
        if gateway == self.settings.address || !self.net.has(gateway) || !self.net.is_host(gateway)
        {
            return counts.redirects_gateway += 1;
        }
        if answers.gateway_of(destination) != Some(source) {
            return counts.redirects_sender += 1;
        }
        if gateway == source {
            return counts.redirects_known += 1;
        }
        counts.redirects_taken += 1;
        answers.redirect(destination, gateway);
    }

    /// An error about a datagram: for the process that sent it, if we did.
    pub(super) fn take_error(
        &mut self,
        source: Ipv4Addr,
        message: &Message<'_>,
        answers: &mut impl Answers,
    ) {
        let (trouble, code, mtu_bytes, pointer, quoted) = match *message {
            Message::Unreachable { code, mtu_bytes, quoted } => {
                (Trouble::Unreachable, code, mtu_bytes, 0, quoted)
            }
            Message::TimeExceeded { code, quoted } => (Trouble::TimeExceeded, code, 0, 0, quoted),
            Message::ParameterProblem { code, pointer, quoted } => {
                (Trouble::ParameterProblem, code, 0, pointer, quoted)
            }
            _ => return self.counts.dropped_unknown += 1,
        };
        let Header { source: sender, destination: remote, protocol, .. } = quoted.header();
        if sender != self.settings.address || remote.is_unspecified() {
            return self.counts.errors_not_ours += 1;
        }
        let Some((local_port, remote_port)) = both_ports(&quoted) else {
            return self.counts.errors_nobodys += 1;
        };
        let mut first = [0; 8];
        let there = quoted.payload().len().min(first.len());
        first[..there].copy_from_slice(&quoted.payload()[..there]);
        self.counts.notices_given += 1;
        answers.notice(Notice {
            trouble,
            code,
            from: source,
            protocol,
            local_port,
            remote,
            remote_port,
            mtu_bytes,
            pointer,
            first,
        });
    }
}

/// What tells the processes of its protocol apart, ours and theirs; `None` where no process waits
/// for it: a fragment in which it is not, an ICMP message that is no request, a payload that has
/// none.
fn both_ports(quoted: &Quoted<'_>) -> Option<(u16, u16)> {
    let header = quoted.header();
    if header.offset_bytes > 0 {
        return None;
    }
    let payload = quoted.payload();
    match (header.protocol, payload) {
        (protocol::UDP | protocol::TCP, _) => {
            ports::of(header.protocol, payload).map(|ports| (ports.source, ports.destination))
        }
        (protocol::ICMP, [icmp::kind::ECHO | icmp::kind::TIMESTAMP, _, _, _, a, b, c, d, ..]) => {
            Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
        }
        (protocol::ICMP, _) => None,
        _ => Some((0, 0)),
    }
}
