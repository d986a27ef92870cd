//! User datagrams to and from the ports of a station.
//!
//! The switch reassembles and fragments. This module checks and writes the UDP header, and tells the
//! sender of a datagram when ICMP reports that it could not be delivered.

use crate::error::{Error, ErrorKind, Result};
use crate::icmp::Notice;
use crate::log::{EventReason, FailureEvent, Log};
use crate::message::{Checksum, MOST_WANTS};
use crate::outgoing::Outgoing;
use crate::report::ServiceReport;
use crate::station::{Station, StationMessage};
use crate::wire::ipv4::{Datagram, protocol};
use crate::wire::udp::{self, MOST_PAYLOAD_BYTES, Malformed};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

/// A received message.
#[derive(Debug)]
pub enum UdpArrival<'a> {
    /// A user datagram, whose checksum is right or absent.
    Datagram {
        /// The port of ours that it is for.
        local_port: u16,
        /// Its sender.
        from: SocketAddrV4,
        /// Its payload.
        payload: &'a [u8],
    },
    /// An ICMP error about a datagram that this endpoint sent.
    Undelivered {
        /// The port of ours that it was sent from.
        local_port: u16,
        /// Where it was sent.
        to: SocketAddrV4,
        /// What was reported.
        notice: Notice,
    },
}

/// Counts of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct UdpCounts {
    /// Datagrams received and shown.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams dropped because their length is impossible.
    pub malformed: u64,
    /// Datagrams dropped because their checksum is wrong.
    pub bad_checksums: u64,
    /// ICMP errors about our datagrams.
    pub undelivered: u64,
}

/// Ports of this host, in a process attached to the switch.
#[derive(Debug)]
pub struct UdpEndpoint {
    station: Station,
    ports: Vec<u16>,
    log: Option<Log>,
    counts: UdpCounts,
}

impl UdpEndpoint {
    /// Attaches to the switch for the ports `named`, and for `dynamic` further ones of any number.
    ///
    /// # Errors
    /// Those of [`Station::attach`]; [`ErrorKind::Invalid`]: more than 64 ports, or port 0.
    pub fn bind(
        switch: &Path,
        directory: &Path,
        named: &[u16],
        dynamic: usize,
    ) -> Result<UdpEndpoint> {
        if named.contains(&0) || named.len() + dynamic > MOST_WANTS {
            let why = format!("an endpoint has 1 to {MOST_WANTS} ports, and none is 0");
            return Err(Error::new(ErrorKind::Invalid, "take", "these ports", why));
        }
        let bound = Station::attach_ports(switch, directory, protocol::UDP, named, dynamic);
        let (station, ports) = bound?;
        Ok(UdpEndpoint { station, ports, log: None, counts: UdpCounts::default() })
    }

    /// Writes dropped datagrams and reported errors to this log from now on.
    pub fn log_to(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// Returns the address of this host.
    pub fn address(&self) -> Ipv4Addr {
        self.station.attached().address
    }

    /// Returns the ports: those named, then the dynamic ones.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Returns what was counted so far.
    pub fn counts(&self) -> UdpCounts {
        self.counts
    }

    /// Tells the switch figures of this process's work, as [`Station::report`].
    pub fn report(&mut self, report: &ServiceReport) -> Result<()> {
        self.station.report(report)
    }

    /// Sends a datagram from one of our ports, waiting while the ring to the switch is full.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the payload is longer than 65,507 bytes, or the port is not ours;
    /// [`ErrorKind::NoSwitch`].
    pub fn send(&mut self, from: u16, to: SocketAddrV4, payload: &[u8]) -> Result<()> {
        let refuse = |why: String| {
            Err(Error::new(ErrorKind::Invalid, "send", format!("a datagram to {to}"), why))
        };
        if payload.len() > MOST_PAYLOAD_BYTES {
            return refuse(format!("{} bytes are more than {MOST_PAYLOAD_BYTES}", payload.len()));
        }
        if !self.ports.contains(&from) {
            return refuse(format!("port {from} is not one of this endpoint"));
        }
        let source = SocketAddrV4::new(self.station.attached().address, from);
        // Fits: the length was checked above.
        let header = udp::header(source, to, payload).unwrap_or_default();
        self.counts.sent += 1;
        let out = Outgoing::new(*to.ip(), protocol::UDP);
        self.station.send_with(|sender| sender.send_parts(&out, &header, payload))
    }

    /// Shows what has come. If there is nothing, waits up to this long for something. Returns how
    /// many messages were taken, those included that were dropped.
    pub fn receive_for(
        &mut self,
        time: Duration,
        mut see: impl FnMut(UdpArrival<'_>),
    ) -> Result<usize> {
        let UdpEndpoint { station, counts, log, .. } = self;
        let log = log.as_ref();
        station.receive_for(time, |_, arrival| match arrival {
            StationMessage::Packet { bytes, checksum } => {
                let Ok(datagram) = Datagram::check(bytes) else { return };
                take(&datagram, checksum, counts, log, &mut see);
            }
            StationMessage::Notice(notice) if notice.protocol == protocol::UDP => {
                counts.undelivered += 1;
                let to = SocketAddrV4::new(notice.remote, notice.remote_port);
                see(UdpArrival::Undelivered { local_port: notice.local_port, to, notice });
            }
            StationMessage::Notice(_) | StationMessage::Undeliverable { .. } => {}
        })
    }
}

/// Checks a datagram and shows it, or counts and logs why it is dropped.
fn take(
    datagram: &Datagram<'_>,
    checksum: Checksum,
    counts: &mut UdpCounts,
    log: Option<&Log>,
    see: &mut impl FnMut(UdpArrival<'_>),
) {
    let header = datagram.header();
    let (source, destination) = (header.source, header.destination);
    let checked = match checksum {
        Checksum::LeftOut => udp::UdpDatagram::check_length(datagram.payload()),
        Checksum::ToCheck => udp::UdpDatagram::check(source, destination, datagram.payload()),
    };
    match checked {
        Ok(user) => {
            counts.received += 1;
            see(UdpArrival::Datagram {
                local_port: user.destination_port(),
                from: SocketAddrV4::new(source, user.source_port()),
                payload: user.payload(),
            });
        }
        Err(why) => {
            let (counter, reason) = match why {
                Malformed::Checksum => (&mut counts.bad_checksums, EventReason::CHECKSUM),
                _ => (&mut counts.malformed, EventReason::MALFORMED),
            };
            *counter += 1;
            if let Some(log) = log {
                log.error(&FailureEvent {
                    reason,
                    protocol: protocol::UDP,
                    source,
                    target: destination,
                    value: 0,
                });
            }
        }
    }
}
