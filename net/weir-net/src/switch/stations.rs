//! The attached stations, and which of them a datagram is for.

use crate::icmp::Notice;
use crate::message::{self, TO_STATION_BYTES, Want, to_station};
use crate::report::ServiceReport;
use crate::wire::ipv4::protocol;
use crate::wire::ports;
use std::collections::{HashMap, HashSet};
use weir::{ErrorKind, Identity, PortWriter, WriterId};

/// Most stations at the same time.
pub const MOST_STATIONS: usize = 256;

#[derive(Debug)]
pub struct AttachedStation {
    writer: PortWriter,
    /// Its number as a writer to the switch's port.
    pub id: WriterId,
    /// Its process and user.
    pub identity: Identity,
    /// The protocols and ports it receives.
    pub wants: Vec<Want>,
    /// Datagrams put into its ring.
    pub delivered: u64,
    /// Datagrams dropped because its ring was full.
    pub full: u64,
    /// What it told of its own work last.
    pub report: Option<ServiceReport>,
}

/// The result of delivering a datagram to a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutResult {
    /// It is in the station's ring.
    Done,
    /// The ring is full.
    Full,
    /// The station has ended.
    Gone,
}

/// The attached stations.
#[derive(Debug)]
pub struct Stations {
    stations: Vec<Option<AttachedStation>>,
    /// The station of each protocol, except for ports that others have.
    protocols: [Option<u16>; 256],
    ports: HashMap<(u8, u16), u16>,
    /// Writers to the switch's port that wait for the acceptor.
    expected: HashSet<WriterId>,
    /// The last sender: usually also the next.
    last: Option<(WriterId, u16)>,
}

impl Stations {
    /// Creates an empty set.
    pub fn new() -> Stations {
        Stations {
            stations: Vec::new(),
            protocols: [None; 256],
            ports: HashMap::new(),
            expected: HashSet::new(),
            last: None,
        }
    }

    /// Notes that a writer has asked to attach. Returns false if it has asked before.
    pub fn expect(&mut self, id: WriterId) -> bool {
        self.place(id).is_none() && self.expected.insert(id)
    }

    /// Attaches a station, unless it has left, or another has what it wants.
    ///
    /// # Errors
    /// The reason, and the way back to the station.
    pub fn enter(
        &mut self,
        id: WriterId,
        identity: Identity,
        wants: Vec<Want>,
        writer: PortWriter,
    ) -> Result<(), Box<(PortWriter, String)>> {
        if !self.expected.remove(&id) {
            return Err(Box::new((writer, String::from("it has left"))));
        }
        if let Some(why) = wants.iter().find_map(|want| self.taken(want)) {
            return Err(Box::new((writer, why)));
        }
        let free = self.stations.iter().position(Option::is_none);
        let place = free.unwrap_or(self.stations.len());
        if place >= MOST_STATIONS {
            let why = format!("there are {MOST_STATIONS} stations already");
            return Err(Box::new((writer, why)));
        }
        for want in &wants {
            match want.port {
                None => self.protocols[usize::from(want.protocol)] = Some(place as u16),
                Some(port) => {
                    self.ports.insert((want.protocol, port), place as u16);
                }
            }
        }
        let (delivered, full, report) = (0, 0, None);
        let station = AttachedStation { writer, id, identity, wants, delivered, full, report };
        match self.stations.get_mut(place) {
            Some(slot) => *slot = Some(station),
            None => self.stations.push(Some(station)),
        }
        Ok(())
    }

    fn taken(&self, want: &Want) -> Option<String> {
        let place = match want.port {
            None => self.protocols[usize::from(want.protocol)],
            Some(port) => self.ports.get(&(want.protocol, port)).copied(),
        };
        let pid = self.stations.get(usize::from(place?))?.as_ref()?.identity.pid;
        let what = match want.port {
            None => format!("protocol {}", want.protocol),
            Some(port) => format!("port {port} of protocol {}", want.protocol),
        };
        Some(format!("process {pid} has {what}"))
    }

    /// Removes a writer that has left the switch's port; returns the station it was.
    pub fn leave(&mut self, id: WriterId) -> Option<AttachedStation> {
        self.expected.remove(&id);
        let place = self.place(id)?;
        self.remove(place)
    }

    fn remove(&mut self, place: u16) -> Option<AttachedStation> {
        let left = self.stations[usize::from(place)].take();
        self.last = None;
        self.release(place);
        left
    }

    /// Lets others have the protocols and ports of a station.
    fn release(&mut self, place: u16) {
        self.ports.retain(|_, owner| *owner != place);
        for owner in &mut self.protocols {
            if *owner == Some(place) {
                *owner = None;
            }
        }
    }

    #[inline]
    fn place(&mut self, id: WriterId) -> Option<u16> {
        if let Some((last, place)) = self.last
            && last == id
        {
            return Some(place);
        }
        let found =
            |station: &Option<AttachedStation>| station.as_ref().is_some_and(|s| s.id == id);
        let place = self.stations.iter().position(found)? as u16;
        self.last = Some((id, place));
        Some(place)
    }

    /// Whether a writer is attached and may send a protocol: one that it receives.
    #[inline]
    pub fn may_send(&mut self, id: WriterId, protocol: u8) -> bool {
        let Some(place) = self.place(id) else { return false };
        let station = self.stations[usize::from(place)].as_ref();
        station.is_some_and(|s| s.wants.iter().any(|want| want.protocol == protocol))
    }

    /// Whether a station has a whole protocol.
    pub fn has_protocol(&self, protocol: u8) -> bool {
        self.protocols[usize::from(protocol)].is_some()
    }

    pub fn has_whole(&mut self, id: WriterId, protocol: u8) -> bool {
        let owner = self.protocols[usize::from(protocol)];
        owner.is_some() && self.place(id) == owner
    }

    /// Finds the station for a datagram by its protocol and the beginning of its payload.
    #[inline]
    pub fn find(&self, protocol: u8, payload: &[u8]) -> Option<u16> {
        if !self.ports.is_empty()
            && let Some(port) = local_port(protocol, payload)
            && let Some(place) = self.ports.get(&(protocol, port))
        {
            return Some(*place);
        }
        self.protocols[usize::from(protocol)]
    }

    /// Puts a message into a station's ring.
    #[inline]
    pub fn put(&mut self, place: u16, message: &[u8]) -> PutResult {
        let Some(station) = &mut self.stations[usize::from(place)] else { return PutResult::Gone };
        match station.writer.try_send(message) {
            Ok(()) => {
                station.delivered += 1;
                PutResult::Done
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                station.full += 1;
                PutResult::Full
            }
            Err(_) => {
                // It stays a station until it has left the switch's port: what it sent goes out.
                self.release(place);
                PutResult::Gone
            }
        }
    }

    /// Keeps what a station told of its own work. Returns false if it is not attached.
    pub fn keep_report(&mut self, id: WriterId, report: ServiceReport) -> bool {
        let place = self.place(id);
        let station = place.and_then(|place| self.stations[usize::from(place)].as_mut());
        station.map(|station| station.report = Some(report)).is_some()
    }

    /// Sends a message to a station, if it has room.
    pub fn send_to(&mut self, id: WriterId, message: &[u8]) {
        let place = self.place(id);
        self.try_send_to(place, message);
    }

    fn try_send_to(&mut self, place: Option<u16>, message: &[u8]) {
        let station = place.and_then(|place| self.stations[usize::from(place)].as_mut());
        if let Some(station) = station {
            let _ = station.writer.try_send(message);
        }
    }

    /// Sends a message to the station for ICMP, if there is one and it has room.
    pub fn send_to_icmp(&mut self, message: &[u8]) {
        self.try_send_to(self.protocols[usize::from(protocol::ICMP)], message);
    }

    /// Passes a notice to the station that the ICMP error is about.
    pub fn notice(&mut self, notice: &Notice) {
        let owner = self.ports.get(&(notice.protocol, notice.local_port)).copied();
        let owner = owner.or(self.protocols[usize::from(notice.protocol)]);
        let icmp = self.protocols[usize::from(protocol::ICMP)];
        let mut message = [0; TO_STATION_BYTES + message::NOTICE_BYTES];
        message[0] = to_station::NOTICE;
        message[TO_STATION_BYTES..].copy_from_slice(&message::put_notice(notice));
        self.try_send_to(owner.filter(|place| Some(*place) != icmp), &message);
    }

    /// Iterates over all of them.
    pub fn iter(&self) -> impl Iterator<Item = &AttachedStation> {
        self.stations.iter().flatten()
    }
}

/// Returns the port that a datagram is for: the destination port of UDP and TCP, the identifier of
/// ICMP replies (RFC 792: "the identifier and sequence number may be used by the echo sender"), and
/// of replies to GGP echoes, which repeat it.
fn local_port(number: u8, payload: &[u8]) -> Option<u16> {
    match payload {
        [0 | 14 | 16, _, _, _, high, low, ..] if number == protocol::ICMP => {
            Some(u16::from_be_bytes([*high, *low]))
        }
        [0, _, _, _, high, low, _, _, ..] if number == protocol::GGP => {
            Some(u16::from_be_bytes([*high, *low]))
        }
        _ => Some(ports::of(number, payload)?.destination),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_the_receiver() {
        let udp = [0, 7, 0, 9, 0, 8, 0, 0];
        assert_eq!(local_port(protocol::UDP, &udp), Some(9));
        assert_eq!(local_port(protocol::TCP, &udp), Some(9));
        assert_eq!(local_port(protocol::ICMP, &[0, 0, 0, 0, 1, 2, 0, 0]), Some(258));
        assert_eq!(local_port(protocol::ICMP, &[8, 0, 0, 0, 1, 2, 0, 0]), None, "a request");
        assert_eq!(local_port(protocol::UDP, &[0, 7, 0]), None);
        assert_eq!(local_port(protocol::GGP, &[0, 0, 0, 0, 1, 2, 0, 0]), Some(258));
        assert_eq!(local_port(protocol::GGP, &[0, 0, 0, 0, 1, 2, 0]), None, "too short");
        assert_eq!(local_port(protocol::GGP, &[8, 0, 0, 0, 1, 2, 0, 0]), None, "a request");
    }

    /// A packet for a station that had just died made the switch forget it: what it had sent was
    /// dropped, and nothing said that it died.
    #[test]
    fn a_station_that_takes_nothing_any_more_is_one_until_it_has_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let (switch, own) = (directory.path().join("switch"), directory.path().join("own"));
        let (options, to) = (weir::PortOptions::new(), weir::PortWriterOptions::new());
        let mut port = weir::Port::create(&switch, &options).expect("made");
        let mut sending = PortWriter::connect(&switch, &to).expect("opened");
        sending.send(b"to be attached").expect("sent");
        let received = port.receive(&mut [0; 64]).expect("received");
        let (id, identity) = (received.writer, received.identity);
        let station = weir::Port::create(&own, &options).expect("made");
        let writer = PortWriter::connect(&own, &to).expect("opened");
        let mut stations = Stations::new();
        assert!(stations.expect(id));
        let want = Want { protocol: protocol::UDP, port: Some(9) };
        stations.enter(id, identity, vec![want], writer).expect("entered");
        let udp = [0, 7, 0, 9, 0, 8, 0, 0];
        let place = stations.find(protocol::UDP, &udp).expect("it has the port");
        drop(station);
        while stations.put(place, &udp) == PutResult::Done {
            std::thread::yield_now();
        }
        assert_eq!(stations.find(protocol::UDP, &udp), None, "the next one may have it");
        assert_eq!(stations.put(place, &udp), PutResult::Gone);
        assert!(stations.may_send(id, protocol::UDP), "what it sent before goes out");
        assert_eq!(stations.leave(id).expect("it is one yet").wants, [want]);
        assert!(!stations.may_send(id, protocol::UDP));
    }
}
