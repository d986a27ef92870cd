//! What a station tells the switch about its own work, for `weir net stat`: some figures of one
//! service, whose names both sides know.

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
];
/// Most figures of a service.
const MOST_FIGURES: usize = 16;

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
}

impl ServiceReport {
    /// Makes a report; figures beyond those that have names are left out.
    pub fn new(service: ReportedService, given: &[u64]) -> ServiceReport {
        let mut figures = [0; MOST_FIGURES];
        let count = service.names().len().min(given.len());
        figures[..count].copy_from_slice(&given[..count]);
        ServiceReport { service, figures }
    }

    /// Returns the service.
    pub fn service(&self) -> ReportedService {
        self.service
    }

    /// Returns the figures with their names.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.service.names().iter().copied().zip(self.figures)
    }

    /// Encodes the body of the message: the number of the service, and its figures.
    pub fn put(&self) -> Vec<u8> {
        let number = match self.service {
            ReportedService::Tftp => 1,
            ReportedService::Tcp => 2,
        };
        let mut bytes = vec![number];
        self.figures().for_each(|(_, figure)| bytes.extend_from_slice(&figure.to_le_bytes()));
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
        let (figures, left) = rest.as_chunks::<8>();
        if !left.is_empty() || figures.len() != service.names().len() {
            return None;
        }
        let figures: Vec<u64> = figures.iter().map(|figure| u64::from_le_bytes(*figure)).collect();
        Some(ServiceReport::new(service, &figures))
    }
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
        }
        assert_eq!(ServiceReport::check(&[]), None);
        assert_eq!(ServiceReport::check(&[3; 89]), None);
    }
}
