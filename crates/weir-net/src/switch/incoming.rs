//! The way in: a packet of the device is checked, put together, and given to its station.

use super::outgoing::{Payload, Sent, ms_since_midnight};
use super::stations::{Delivery, Stations};
use super::{Settings, Shared, now_ns};
use crate::counts::Counts;
use crate::drop_reason::DropReason;
use crate::icmp::{Answers, Engine, Notice, Undeliverable};
use crate::message::{self, Checksum, TO_STATION_BYTES, to_station};
use crate::outgoing::Outgoing;
use crate::reassembly::{self, Reassembly, Taken, Why};
use crate::routes::Hop;
use crate::spans;
use crate::wire::ipv4::{Datagram, protocol};
use crate::wire::{options, ports, udp};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

/// As much of a datagram as is told of one that nobody takes: more than an error quotes.
const QUOTED_BYTES: usize = 576;

/// What the way in needs: who is attached, and what waits for fragments.
#[derive(Debug)]
pub struct Incoming {
    /// Who is attached.
    pub stations: Stations,
    pub(super) reassembly: Reassembly,
    /// What it had counted when it was last asked.
    seen: reassembly::Counts,
    inline: Option<Box<Inline>>,
    /// A message that is put together here.
    scratch: Vec<u8>,
}

/// ICMP within the switch.
#[derive(Debug)]
struct Inline {
    engine: Engine,
    ggp: bool,
    /// What it answers to ourselves.
    own: Vec<Vec<u8>>,
    /// What it has to tell stations.
    notices: Vec<Notice>,
}

impl Incoming {
    /// With nobody attached.
    pub fn new(settings: &Settings) -> Incoming {
        let inline = settings.inline.as_ref().map(|wanted| {
            let engine = Engine::new(*wanted);
            Box::new(Inline { engine, ggp: wanted.ggp, own: Vec::new(), notices: Vec::new() })
        });
        Incoming {
            stations: Stations::new(),
            reassembly: Reassembly::new(settings.limits),
            seen: reassembly::Counts::default(),
            inline,
            scratch: Vec::new(),
        }
    }

    /// Takes a packet of the device, which lies in `packet` of the buffer with room before it.
    pub fn take(
        &mut self,
        shared: &Shared,
        buffer: &mut [u8],
        packet: Range<usize>,
        checksum: Checksum,
    ) {
        let begin = packet.start;
        let packet = &buffer[packet];
        shared.log_in(packet);
        let admitted = spans::VERIFY.run(|| self.admit(shared, packet));
        let datagram = match admitted {
            Ok(datagram) => datagram,
            Err(why) => return shared.drop_in(why, packet),
        };
        if datagram.is_fragment() {
            let reassembly = &mut self.reassembly;
            let taken = spans::REASSEMBLE.run(|| reassembly.take(&datagram, now_ns()));
            let whole = match taken {
                Taken::Waiting => return,
                // Counted with all that gives way.
                Taken::Dropped(Why::SourceBudget | Why::WholeBudget) => return,
                Taken::Dropped(why) => return shared.drop_in(why.into(), packet),
                Taken::Whole(whole) => whole,
            };
            Counts::add(&shared.counts.reassembled, 1);
            let mut message = std::mem::take(&mut self.scratch);
            message.clear();
            message.resize(TO_STATION_BYTES, 0);
            message.extend_from_slice(whole);
            self.deliver(shared, &mut message, Checksum::ToCheck);
            self.scratch = message;
            return;
        }
        let bytes = datagram.bytes().len();
        self.deliver(shared, &mut buffer[begin - TO_STATION_BYTES..begin + bytes], checksum);
    }

    /// Takes a datagram that one of us sent to ourselves.
    pub fn take_own(&mut self, shared: &Shared, datagram: Vec<u8>) {
        let mut message = vec![0; TO_STATION_BYTES];
        message.extend_from_slice(&datagram);
        self.deliver(shared, &mut message, Checksum::ToCheck);
    }

    /// Checks the header of a packet, and whether it is for us.
    fn admit<'a>(&mut self, shared: &Shared, packet: &'a [u8]) -> Result<Datagram<'a>, DropReason> {
        let datagram = Datagram::check(packet)?;
        let header = datagram.header();
        let own = shared.settings.address;
        let net = shared.net;
        if header.destination != own {
            let all = header.destination.is_multicast() || net.is_broadcast(header.destination);
            return Err(if all { DropReason::Broadcast } else { DropReason::NotForUs });
        }
        if header.source == own || !net.is_host(header.source) {
            return Err(DropReason::Source);
        }
        if !datagram.options().is_empty() {
            self.check_options(shared, &datagram)?;
        }
        Ok(datagram)
    }

    #[cold]
    fn check_options(
        &mut self,
        shared: &Shared,
        datagram: &Datagram<'_>,
    ) -> Result<(), DropReason> {
        let Err(problem) = options::verify(datagram.options()) else { return Ok(()) };
        let (why, undeliverable) = match problem.reason {
            options::Reason::SourceRoute => (DropReason::SourceRoute, Undeliverable::SourceRoute),
            _ => (DropReason::BadOptions, Undeliverable::Parameter { pointer: problem.pointer }),
        };
        self.nobody_takes(shared, datagram.bytes(), undeliverable);
        Err(why)
    }

    /// Gives a whole datagram, with room before it for what a station wants to know, to its
    /// station: one copy, into its ring.
    fn deliver(&mut self, shared: &Shared, message: &mut [u8], checksum: Checksum) {
        let _span = spans::DELIVER.enter();
        let (front, bytes) = message.split_at_mut(TO_STATION_BYTES);
        let Ok(datagram) = Datagram::check(bytes) else {
            // It was checked when it came: a header put together wrongly would be our fault.
            return shared.counts.drop(DropReason::HeaderChecksum);
        };
        let number = datagram.header().protocol;
        let payload = datagram.payload();
        let Some(place) = self.stations.find(number, payload) else {
            if self.answer_inline(shared, &datagram) {
                return Counts::add(&shared.counts.delivered, 1);
            }
            if checksum == Checksum::LeftOut {
                complete_checksum(bytes);
            }
            return self.refuse(shared, bytes);
        };
        front.fill(0);
        front[0] = to_station::PACKET;
        front[2] = u8::from(checksum == Checksum::LeftOut);
        match self.stations.put(place, message) {
            Delivery::Done => Counts::add(&shared.counts.delivered, 1),
            Delivery::Full => shared.drop_in(DropReason::StationFull, &message[TO_STATION_BYTES..]),
            Delivery::Gone => shared.drop_in(DropReason::StationGone, &message[TO_STATION_BYTES..]),
        }
    }

    /// A datagram of which nobody has the protocol, or the port.
    #[cold]
    fn refuse(&mut self, shared: &Shared, bytes: &[u8]) {
        let Ok(datagram) = Datagram::check(bytes) else { return };
        let (why, undeliverable) = match datagram.header().protocol {
            protocol::UDP => (DropReason::NoPort, Some(Undeliverable::Port)),
            // What is said of a port of TCP is TCP's own: a reset. Nobody has it.
            protocol::TCP => (DropReason::NoPort, None),
            protocol::ICMP => (DropReason::NoProtocol, None),
            _ => (DropReason::NoProtocol, Some(Undeliverable::Protocol)),
        };
        shared.drop_in(why, datagram.bytes());
        if let Some(undeliverable) = undeliverable {
            self.nobody_takes(shared, datagram.bytes(), undeliverable);
        }
    }

    /// Tells ICMP of a datagram that nobody takes.
    fn nobody_takes(&mut self, shared: &Shared, datagram: &[u8], why: Undeliverable) {
        let quoted = &datagram[..datagram.len().min(QUOTED_BYTES)];
        if let Some(inline) = &mut self.inline {
            let mut answers = Direct { shared, own: &mut inline.own, notices: &mut inline.notices };
            inline.engine.undeliverable(quoted, why, now_ns(), &mut answers);
            return self.answer_ourselves(shared);
        }
        let mut message = [0; TO_STATION_BYTES + QUOTED_BYTES];
        message[0] = to_station::UNDELIVERABLE;
        (message[1], message[4]) = message::put_why(why);
        message[TO_STATION_BYTES..TO_STATION_BYTES + quoted.len()].copy_from_slice(quoted);
        self.stations.tell_icmp(&message[..TO_STATION_BYTES + quoted.len()]);
    }

    /// ICMP within the switch: whether it took the datagram.
    fn answer_inline(&mut self, shared: &Shared, datagram: &Datagram<'_>) -> bool {
        let Some(inline) = &mut self.inline else { return false };
        let number = datagram.header().protocol;
        if number != protocol::ICMP && !(number == protocol::GGP && inline.ggp) {
            return false;
        }
        let mut answers = Direct { shared, own: &mut inline.own, notices: &mut inline.notices };
        let span = spans::ANSWER.enter();
        inline.engine.take(datagram, now_ns(), &mut answers);
        drop(span);
        self.answer_ourselves(shared);
        true
    }

    /// Passes on what ICMP within the switch has for stations, and what it answered to ourselves:
    /// answers are not answered.
    fn answer_ourselves(&mut self, shared: &Shared) {
        while let Some(notice) = self.inline.as_mut().and_then(|inline| inline.notices.pop()) {
            self.stations.notice(&notice);
        }
        while let Some(own) = self.inline.as_mut().and_then(|inline| inline.own.pop()) {
            self.take_own(shared, own);
        }
    }

    /// What ICMP within the switch has done, by name, where it is there.
    pub fn icmp_counts(&self) -> Vec<(&'static str, u64)> {
        self.inline.iter().flat_map(|inline| inline.engine.counts().keyed()).collect()
    }

    /// Counts the datagrams that have given way since the last time: it is others' fragments that
    /// make them, so no packet is at hand.
    pub fn count_evicted(&mut self, shared: &Shared) {
        let now = self.reassembly.counts();
        let before = std::mem::replace(&mut self.seen, now);
        shared.counts.drop_many(DropReason::Evicted, now.evicted_whole - before.evicted_whole);
        let of_source = now.evicted_source - before.evicted_source;
        shared.counts.drop_many(DropReason::EvictedOfSource, of_source);
    }

    /// Gives up datagrams of which fragments were missing for too long.
    pub fn expire(&mut self, shared: &Shared, now_ns: u64) {
        self.count_evicted(shared);
        let mut late = Vec::new();
        self.reassembly.expire(now_ns, |expired| {
            shared.drop_in(DropReason::Expired, expired.quote.unwrap_or_default());
            if let Some(quoted) = expired.quote {
                late.push(quoted.to_vec());
            }
        });
        for quoted in late {
            self.nobody_takes(shared, &quoted, Undeliverable::ReassemblyTimeout);
        }
    }
}

/// Fills in the checksum of UDP that the kernel of this machine left out: who hears of the datagram
/// in an error gets it as it would have been sent (RFC 1122, 3.2.2).
#[cold]
fn complete_checksum(bytes: &mut [u8]) {
    let Ok(datagram) = Datagram::check(bytes) else { return };
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

/// Answers of ICMP within the switch: they go to the device at once.
struct Direct<'a> {
    shared: &'a Shared,
    own: &'a mut Vec<Vec<u8>>,
    notices: &'a mut Vec<Notice>,
}

impl Answers for Direct<'_> {
    fn send(&mut self, to: Outgoing<'_>, payload: &[u8]) {
        if let Sent::ToUs(datagram) = self.shared.send(&to, &Payload::Private(payload)) {
            self.own.push(datagram);
        }
    }

    fn gateway_of(&mut self, destination: Ipv4Addr) -> Option<Ipv4Addr> {
        match self.shared.routes().hop(destination, now_ns) {
            Some(Hop::Gateway(gateway)) => Some(gateway),
            _ => None,
        }
    }

    fn redirect(&mut self, destination: Ipv4Addr, gateway: Ipv4Addr) {
        if let Some(from) = self.gateway_of(destination) {
            self.shared.learn(destination, gateway, from);
        }
    }

    fn ms_since_midnight_ut(&mut self) -> u32 {
        ms_since_midnight()
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}
