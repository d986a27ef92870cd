//! The receive path: checks a packet of the device, reassembles it, and gives it to its station.

use super::inline::Inline;
use super::journal::Journal;
use super::outgoing::Transmitter;
use super::stations::{PutResult, Stations};
use super::{SwitchSettings, now_ns};
use crate::counts::SwitchCounts;
use crate::division::{self, Division, PacketRefusal};
use crate::drop_reason::DropReason;
use crate::icmp::Undeliverable;
use crate::message::{self, Checksum, QUOTED_BYTES, TO_STATION_BYTES, to_station};
use crate::reassembly::{Reassembled, Reassembly, Rejection};
use crate::spans;
use crate::wire::ipv4::{self, Checked, Datagram, protocol};
use crate::wire::{ports, udp};
use std::net::SocketAddrV4;
use std::ops::Range;
use std::sync::Arc;

/// The state of the receive path: the attached stations and the reassembly.
#[derive(Debug)]
pub struct Incoming {
    transmitter: Arc<Transmitter>,
    /// The attached stations.
    pub stations: Stations,
    pub(super) reassembly: Reassembly,
    inline: Option<Box<Inline>>,
    division: Division,
    /// Buffer in which a message is assembled.
    scratch: Vec<u8>,
}

impl Incoming {
    /// Creates it with no station attached.
    pub fn new(settings: &SwitchSettings, transmitter: Arc<Transmitter>) -> Incoming {
        let inline = settings.inline.map(|wanted| Inline::new(wanted, transmitter.clone()));
        Incoming {
            transmitter,
            stations: Stations::new(),
            reassembly: Reassembly::new(settings.limits),
            inline: inline.map(Box::new),
            division: settings.division,
            scratch: Vec::new(),
        }
    }

    fn journal(&self) -> &Journal {
        &self.transmitter.journal
    }

    /// Takes a packet of the device, which is at `packet` in the buffer, with room before it.
    /// Returns whether it is held until further fragments come: nobody has heard of it.
    pub fn take(&mut self, buffer: &mut [u8], packet: Range<usize>, checksum: Checksum) -> bool {
        let begin = packet.start;
        let packet = &buffer[packet];
        self.journal().log_in(packet);
        // A call for each packet, whoever checks the rest of its header.
        let span = spans::VERIFY.enter_at_last();
        if let Some((place, bytes)) = self.multiplex(packet) {
            drop(span);
            let _span = spans::DELIVER.enter_at_last();
            let message = &mut buffer[begin - TO_STATION_BYTES..begin + bytes];
            self.put(place, message, checksum, true);
            return false;
        }
        let admitted = division::admit(packet, self.transmitter.net);
        drop(span);
        let datagram = match admitted {
            Ok(datagram) => datagram,
            Err(refusal) => {
                self.drop_refused(refusal, packet);
                return false;
            }
        };
        if datagram.is_fragment() {
            return self.take_fragment(&datagram);
        }
        let (bytes, checked) = (datagram.bytes().len(), datagram.checked());
        self.deliver(&mut buffer[begin - TO_STATION_BYTES..begin + bytes], checked, checksum);
        false
    }

    /// Takes a fragment, and delivers its datagram if that is whole now. Returns as `take`.
    fn take_fragment(&mut self, fragment: &Datagram<'_>) -> bool {
        let now_ns = now_ns();
        // One that is late is counted and told before this begins another of its key.
        self.expire(now_ns);
        let reassembly = &mut self.reassembly;
        let taken = spans::REASSEMBLE.run(|| reassembly.take(fragment, now_ns));
        let (is_whole, dropped) = match taken {
            Reassembled::Whole(whole) => {
                self.scratch.clear();
                self.scratch.resize(TO_STATION_BYTES, 0);
                self.scratch.extend_from_slice(whole);
                (true, None)
            }
            Reassembled::Waiting => (false, None),
            Reassembled::Dropped(why) => (false, Some(why)),
        };
        for (why, beginning) in self.reassembly.evicted() {
            self.journal().drop_in(why.into(), beginning);
        }
        match dropped {
            // Its datagram gave way, and was told.
            None | Some(Rejection::SourceBudget | Rejection::WholeBudget) => {}
            Some(why) => self.journal().drop_in(why.into(), fragment.bytes()),
        }
        if !is_whole {
            return dropped.is_none();
        }
        SwitchCounts::add(&self.journal().counts.reassembled, 1);
        let mut message = std::mem::take(&mut self.scratch);
        self.deliver_new(&mut message, Checksum::ToCheck);
        self.scratch = message;
        false
    }

    /// Where stations check headers: finds the station of a whole datagram to this host. Returns its
    /// place and the datagram's length. What has no station is for the switch to check.
    #[inline]
    fn multiplex(&self, packet: &[u8]) -> Option<(u16, usize)> {
        if self.division == Division::Later {
            return None;
        }
        let (header, header_bytes) = ipv4::shape_of(packet, packet.len())?;
        let bytes = usize::from(header.total_bytes);
        let is_ours = header.destination == self.transmitter.net.address;
        let payload = packet.get(header_bytes..bytes).filter(|_| is_ours)?;
        Some((self.stations.find(header.protocol, payload)?, bytes))
    }

    /// Drops a packet whose header is invalid, and lets ICMP report it where it does.
    #[cold]
    pub(super) fn drop_refused(&mut self, refusal: PacketRefusal, packet: &[u8]) {
        if let Some(undeliverable) = refusal.undeliverable {
            // A link may have padded it.
            let bytes = ipv4::shape_of(packet, packet.len())
                .map_or(packet.len(), |(header, _)| usize::from(header.total_bytes));
            self.nobody_takes(packet.get(..bytes).unwrap_or(packet), undeliverable);
        }
        self.journal().drop_in(refusal.reason, packet);
    }

    /// Takes a datagram that a station here sent to this host.
    pub fn take_own(&mut self, datagram: Vec<u8>, checksum: Checksum) {
        let mut message = vec![0; TO_STATION_BYTES];
        message.extend_from_slice(&datagram);
        self.deliver_new(&mut message, checksum);
    }

    /// Checks a datagram that did not arrive as it is: that was assembled, or made here.
    fn deliver_new(&mut self, message: &mut [u8], checksum: Checksum) {
        match Datagram::check(&message[TO_STATION_BYTES..]) {
            Ok(datagram) => {
                let checked = datagram.checked();
                self.deliver(message, checked, checksum);
            }
            Err(_) => self.journal().counts.drop(DropReason::HeaderChecksum),
        }
    }

    /// Gives a whole datagram, with room before it for the message head, to its station: one copy,
    /// into its ring. What no station has is answered here or refused.
    fn deliver(&mut self, message: &mut [u8], checked: Checked, checksum: Checksum) {
        let bytes = &mut message[TO_STATION_BYTES..];
        let datagram = checked.of(bytes);
        let place = self.stations.find(datagram.header().protocol, datagram.payload());
        let inline = self.inline.as_mut().filter(|_| place.is_none());
        if inline.is_some_and(|inline| inline.take(&datagram)) {
            self.pass_on();
            return SwitchCounts::add_alone(&self.journal().counts.delivered, 1);
        }
        // The search for the station is part of it, and so is what is refused.
        let _span = spans::DELIVER.enter_at_last();
        let Some(place) = place else {
            if checksum == Checksum::LeftOut {
                complete_checksum(bytes, checked);
            }
            return self.refuse(&checked.of(bytes));
        };
        self.put(place, message, checksum, false);
    }

    /// Puts a datagram into its station's ring; `unchecked`: the station is to check its header.
    fn put(&mut self, place: u16, message: &mut [u8], checksum: Checksum, unchecked: bool) {
        let left_out = u8::from(checksum == Checksum::LeftOut);
        message[..TO_STATION_BYTES].fill(0);
        message[..4].copy_from_slice(&[to_station::PACKET, 0, left_out, u8::from(unchecked)]);
        match self.stations.put(place, message) {
            PutResult::Done => SwitchCounts::add_alone(&self.journal().counts.delivered, 1),
            PutResult::Full => {
                self.journal().drop_in(DropReason::StationFull, &message[TO_STATION_BYTES..])
            }
            PutResult::Gone => {
                self.journal().drop_in(DropReason::StationGone, &message[TO_STATION_BYTES..])
            }
        }
    }

    /// Handles a datagram whose protocol or port no station has.
    #[cold]
    fn refuse(&mut self, datagram: &Datagram<'_>) {
        let (why, undeliverable) = match datagram.header().protocol {
            protocol::UDP => (DropReason::NoPort, Some(Undeliverable::Port)),
            // A closed TCP port is answered by TCP itself, with a reset. No station has TCP here.
            protocol::TCP => (DropReason::NoPort, None),
            protocol::ICMP => (DropReason::NoProtocol, None),
            _ => (DropReason::NoProtocol, Some(Undeliverable::Protocol)),
        };
        self.journal().drop_in(why, datagram.bytes());
        if let Some(undeliverable) = undeliverable {
            self.nobody_takes(datagram.bytes(), undeliverable);
        }
    }

    /// Passes an undeliverable datagram to ICMP.
    fn nobody_takes(&mut self, datagram: &[u8], why: Undeliverable) {
        let quoted = &datagram[..datagram.len().min(QUOTED_BYTES)];
        if let Some(inline) = &mut self.inline {
            inline.undeliverable(quoted, why);
            return self.pass_on();
        }
        let mut message = [0; TO_STATION_BYTES + QUOTED_BYTES];
        message[0] = to_station::UNDELIVERABLE;
        (message[1], message[4]) = message::put_why(why);
        message[TO_STATION_BYTES..TO_STATION_BYTES + quoted.len()].copy_from_slice(quoted);
        self.stations.send_to_icmp(&message[..TO_STATION_BYTES + quoted.len()]);
    }

    /// Passes on the notices that ICMP in the switch has for stations, and its answers to this host
    /// itself; answers are not answered.
    fn pass_on(&mut self) {
        while let Some(notice) = self.inline.as_mut().and_then(|inline| inline.next_notice()) {
            self.stations.notice(&notice);
        }
        while let Some(own) = self.inline.as_mut().and_then(|inline| inline.next_own()) {
            self.take_own(own, Checksum::ToCheck);
        }
    }

    /// Returns the counts of ICMP in the switch by name, where ICMP is answered here.
    pub fn icmp_counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = self.inline.iter().flat_map(|inline| inline.counts().each());
        all.map(|(key, _, count)| (key, count))
    }

    /// Drops datagrams whose fragments did not all arrive in time.
    pub fn expire(&mut self, now_ns: u64) {
        let mut late = Vec::new();
        self.reassembly.expire(now_ns, |expired| {
            self.transmitter.journal.drop_in(DropReason::Expired, expired.beginning);
            if let Some(quoted) = expired.quote {
                late.push(quoted.to_vec());
            }
        });
        for quoted in late {
            self.nobody_takes(&quoted, Undeliverable::ReassemblyTimeout);
        }
    }
}

/// Fills in the UDP checksum that this machine's kernel left out, so that an error quotes the
/// datagram as it would have been sent (RFC 1122, 3.2.2).
#[cold]
fn complete_checksum(bytes: &mut [u8], checked: Checked) {
    let datagram = checked.of(bytes);
    let (header, at) = (datagram.header(), datagram.header_bytes());
    let payload = datagram.payload();
    let ports = ports::of(header.protocol, payload).filter(|_| header.protocol == protocol::UDP);
    let Some(ports) = ports.filter(|_| payload.len() >= udp::HEADER_BYTES) else { return };
    if usize::from(u16::from_be_bytes([payload[4], payload[5]])) == payload.len() {
        let source = SocketAddrV4::new(header.source, ports.source);
        let destination = SocketAddrV4::new(header.destination, ports.destination);
        let end = usize::from(header.total_bytes);
        let _ = udp::emit_header(source, destination, &mut bytes[at..end]);
    }
}
