//! What a station tells the switch about its own work, for `weir net stat`: some figures of one
//! service, whose names both sides know, and of services over TCP some connections.

use crate::stalls::WaitedSide;
use crate::tcp::ConnectionFigures;
use std::net::{Ipv4Addr, SocketAddrV4};

/// A service that reports figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedService {
    /// A server of TFTP.
    Tftp,
    /// Services over TCP.
    Tcp,
}

/// Figures of a service of TFTP, in their order.
const TFTP: &[&str] = &[
    "transfers",
    "running",
    "failed",
    "bytes",
    "blocks",
    "blocks_again",
    "gaps",
    "timeouts",
    "this_side_ns",
    "network_ns",
    "other_side_ns",
    "this_side_stalls",
    "network_stalls",
    "other_side_stalls",
];
/// Figures of services over TCP, in their order.
const TCP: &[&str] = &[
    "connections",
    "running",
    "segments_in",
    "segments_out",
    "segments_again",
    "bad_segments",
    "half_open_dropped",
    "bytes_in",
    "bytes_out",
    "disbelieved",
    "this_side_ns",
    "network_ns",
    "other_side_ns",
    "this_side_stalls",
    "network_stalls",
    "other_side_stalls",
];
const MOST_FIGURES: usize = 16;
/// Most connections that a report has.
pub const MOST_CONNECTIONS: usize = 16;
/// Bytes of a connection in a message.
const CONNECTION_BYTES: usize = 32;

impl ReportedService {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            ReportedService::Tftp => "tftp",
            ReportedService::Tcp => "tcp",
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            ReportedService::Tftp => TFTP,
            ReportedService::Tcp => TCP,
        }
    }
}

/// The figures of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceReport {
    service: ReportedService,
    figures: [u64; MOST_FIGURES],
    connections: [Option<ConnectionFigures>; MOST_CONNECTIONS],
}

impl ServiceReport {
    /// Makes a report; figures beyond those that have names are left out.
    pub fn new(service: ReportedService, given: &[u64]) -> ServiceReport {
        let mut figures = [0; MOST_FIGURES];
        let count = service.names().len().min(given.len());
        figures[..count].copy_from_slice(&given[..count]);
        ServiceReport { service, figures, connections: [None; MOST_CONNECTIONS] }
    }

    /// Adds connections; those beyond [`MOST_CONNECTIONS`] are left out.
    #[must_use]
    pub fn with_connections(mut self, connections: &[ConnectionFigures]) -> ServiceReport {
        self.connections.iter_mut().zip(connections).for_each(|(to, from)| *to = Some(*from));
        self
    }

    /// Returns the connections.
    pub fn connections(&self) -> impl Iterator<Item = &ConnectionFigures> {
        self.connections.iter().flatten()
    }

    /// Returns the service.
    pub fn service(&self) -> ReportedService {
        self.service
    }

    /// Returns the figures with their names.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.service.names().iter().copied().zip(self.figures)
    }

    /// Encodes the body of the message: the number of the service, its figures, and connections.
    pub fn put(&self) -> Vec<u8> {
        let number = match self.service {
            ReportedService::Tftp => 1,
            ReportedService::Tcp => 2,
        };
        let mut bytes = vec![number];
        self.figures().for_each(|(_, figure)| bytes.extend_from_slice(&figure.to_le_bytes()));
        self.connections().for_each(|it| bytes.extend_from_slice(&put_connection(it)));
        bytes
    }

    /// Parses the body of the message; `None` if it is not valid.
    pub fn check(bytes: &[u8]) -> Option<ServiceReport> {
        let (number, rest) = bytes.split_first()?;
        let service = match number {
            1 => ReportedService::Tftp,
            2 => ReportedService::Tcp,
            _ => return None,
        };
        let (figures, rest) = rest.split_at_checked(8 * service.names().len())?;
        let figures = figures.as_chunks::<8>().0.iter().map(|figure| u64::from_le_bytes(*figure));
        let (connections, left) = rest.as_chunks::<CONNECTION_BYTES>();
        if !left.is_empty() || connections.len() > MOST_CONNECTIONS {
            return None;
        }
        let connections = connections.iter().map(connection).collect::<Option<Vec<_>>>()?;
        let figures: Vec<u64> = figures.collect();
        Some(ServiceReport::new(service, &figures).with_connections(&connections))
    }
}

fn put_connection(it: &ConnectionFigures) -> [u8; CONNECTION_BYTES] {
    let mut bytes = [0; CONNECTION_BYTES];
    bytes[..2].copy_from_slice(&it.local_port.to_le_bytes());
    bytes[2..4].copy_from_slice(&it.remote.port().to_le_bytes());
    bytes[4..8].copy_from_slice(&it.remote.ip().octets());
    bytes[8..16].copy_from_slice(&it.segments_again.to_le_bytes());
    bytes[16..20].copy_from_slice(&it.flight_bytes.to_le_bytes());
    bytes[20..24].copy_from_slice(&it.own_window_bytes.to_le_bytes());
    bytes[24..28].copy_from_slice(&it.other_window_bytes.to_le_bytes());
    bytes[28] = it.waits_for.map_or(0, |side| side as u8 + 1);
    bytes
}

fn connection(bytes: &[u8; CONNECTION_BYTES]) -> Option<ConnectionFigures> {
    let port = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let number = |at: usize| {
        let [a, b, c, d, ..] = bytes[at..] else { return 0 };
        u32::from_le_bytes([a, b, c, d])
    };
    let address = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
    Some(ConnectionFigures {
        local_port: port(0),
        remote: SocketAddrV4::new(address, port(2)),
        segments_again: u64::from(number(12)) << 32 | u64::from(number(8)),
        flight_bytes: number(16),
        own_window_bytes: number(20),
        other_window_bytes: number(24),
        waits_for: match bytes[28..] {
            [0, 0, 0, 0] => None,
            [number, 0, 0, 0] => Some(*WaitedSide::ALL.get(usize::from(number) - 1)?),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written_and_nothing_else_is() {
        for service in [ReportedService::Tftp, ReportedService::Tcp] {
            assert!(service.names().len() <= MOST_FIGURES);
            let given: Vec<u64> = (1..=20).map(|figure| figure << 40).collect();
            let report = ServiceReport::new(service, &given);
            let bytes = report.put();
            assert_eq!(ServiceReport::check(&bytes), Some(report));
            assert_eq!(ServiceReport::check(&bytes[..bytes.len() - 1]), None);
            assert_eq!(ServiceReport::check(&[bytes.as_slice(), &[0; 8]].concat()), None);
            let connection = ConnectionFigures {
                local_port: 7,
                remote: SocketAddrV4::new(Ipv4Addr::new(10, 9, 8, 7), 60_000),
                segments_again: 1 << 33,
                flight_bytes: 1 << 31,
                own_window_bytes: 2,
                other_window_bytes: 3,
                waits_for: Some(WaitedSide::Other),
            };
            let full = report.with_connections(&[connection; MOST_CONNECTIONS + 1]);
            assert_eq!(full.connections().count(), MOST_CONNECTIONS);
            let bytes = full.put();
            assert_eq!(ServiceReport::check(&bytes), Some(full));
            let one_more = [bytes.as_slice(), &bytes[bytes.len() - CONNECTION_BYTES..]].concat();
            assert_eq!(ServiceReport::check(&one_more), None);
            let mut nonsense = bytes;
            *nonsense.last_mut().expect("bytes") = 1;
            assert_eq!(ServiceReport::check(&nonsense), None);
        }
        assert_eq!(ServiceReport::check(&[]), None);
        assert_eq!(ServiceReport::check(&[3; 89]), None);
    }
}
