//! Received errors and redirects: which are accepted, and which process they concern.

use super::{Answers, Engine};
use crate::wire::ggp;
use crate::wire::icmp::{self, Message, Quoted, unreachable};
use crate::wire::ipv4::{Header, protocol};
use crate::wire::ports;
use std::net::Ipv4Addr;

/// What happened to a datagram of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    /// It could not be delivered.
    Unreachable,
    /// A gateway or reassembly gave it up.
    TimeExceeded,
    /// Its header was not understood.
    ParameterProblem,
}

/// What a process learns about a datagram that it sent.
///
/// A notice is a hint and no proof: anybody who can guess addresses and ports can send it (RFC
/// 5927).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Notice {
    /// What happened to the datagram.
    pub trouble: NoticeKind,
    /// The code of the ICMP message: the reason.
    pub code: u8,
    /// Who reports it: the other host, or a gateway.
    pub from: Ipv4Addr,
    /// The protocol of the datagram, see [`crate::wire::ipv4::protocol`].
    pub protocol: u8,
    /// The source port (UDP, TCP), or the identifier of an ICMP request or of a GGP echo of weir; 0 for other protocols.
    pub local_port: u16,
    /// The destination.
    pub remote: Ipv4Addr,
    /// The destination port (UDP, TCP), or the sequence number of such a request; else 0.
    pub remote_port: u16,
    /// The next hop's MTU in bytes, if the datagram was too long and the gateway stated it; else 0.
    pub mtu_bytes: u16,
    /// The byte of the header that was not understood; else 0.
    pub pointer: u8,
    /// The first bytes of its payload, by which TCP recognises its segment; zeroes after its end.
    pub first: [u8; 8],
}

impl Notice {
    /// Whether nobody is there to get such a datagram: no process has its port or its protocol.
    /// Other errors say that one datagram was lost, or may pass (RFC 1122 4.2.3.9).
    pub(crate) fn means_nobody_listens(&self) -> bool {
        self.trouble == NoticeKind::Unreachable
            && matches!(self.code, unreachable::PROTOCOL | unreachable::PORT)
    }
}

impl Engine {
    /// Handles a redirect (RFC 1122 3.2.2.2): accepted from the gateway in use, about a datagram of
    /// this host, to a neighbour.
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

    /// Handles an error about a datagram, for the process that sent it, if this host did.
    pub(super) fn take_error(
        &mut self,
        source: Ipv4Addr,
        message: &Message<'_>,
        answers: &mut impl Answers,
    ) {
        let (trouble, code, mtu_bytes, pointer, quoted) = match *message {
            Message::Unreachable { code, mtu_bytes, quoted } => {
                (NoticeKind::Unreachable, code, mtu_bytes, 0, quoted)
            }
            Message::TimeExceeded { code, quoted } => {
                (NoticeKind::TimeExceeded, code, 0, 0, quoted)
            }
            Message::ParameterProblem { code, pointer, quoted } => {
                (NoticeKind::ParameterProblem, code, 0, pointer, quoted)
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

/// Returns the ports (or ICMP identifier and sequence), ours and theirs, that identify the process
/// of a protocol; `None` where no process waits for it: a later fragment, an ICMP message that is
/// no request, a payload without them.
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
        (protocol::GGP, _) => Some(ggp::echo_ids(payload).unwrap_or((0, 0))),
        _ => Some((0, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time exceeded about one lost fragment once ended a transfer that continued.
    #[test]
    fn only_a_port_or_a_protocol_that_nobody_has_is_the_end() {
        let kinds =
            [NoticeKind::Unreachable, NoticeKind::TimeExceeded, NoticeKind::ParameterProblem];
        let notice = |trouble, code| Notice {
            trouble,
            code,
            from: Ipv4Addr::LOCALHOST,
            protocol: protocol::UDP,
            local_port: 69,
            remote: Ipv4Addr::LOCALHOST,
            remote_port: 4000,
            mtu_bytes: 0,
            pointer: 0,
            first: [0; 8],
        };
        for (trouble, code) in kinds.into_iter().flat_map(|kind| (0..=15).map(move |at| (kind, at)))
        {
            let is_end = trouble == NoticeKind::Unreachable && (code == 2 || code == 3);
            assert_eq!(notice(trouble, code).means_nobody_listens(), is_end, "{trouble:?} {code}");
        }
    }
}
