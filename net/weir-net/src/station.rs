//! A process attached to the switch: it receives the packets of its protocol or port, and sends.

use crate::division::{self, Division, HeaderFiller, HostFacts, PacketRefusal};
use crate::error::{Error, ErrorKind, Result};
use crate::icmp::{Notice, Undeliverable};
use crate::message::{
    self, AttachRequest, Attached, Checksum, FROM_STATION_BYTES, MOST_FILLED_HEAD_BYTES,
    MOST_MESSAGE_BYTES, MOST_SEND_HEAD_BYTES, QUOTED_BYTES, TO_STATION_BYTES, Want, from_station,
    to_station,
};
use crate::net::Net;
use crate::outgoing::Outgoing;
use crate::report::ServiceReport;
use crate::spans;
use crate::wire::ggp::Update;
use crate::wire::ipv4::protocol;
use rustix::fd::BorrowedFd;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir::{Event, Port, PortOptions, PortWriter, PortWriterOptions, Timeout};

/// Schema name of the statistics.
pub const STATISTICS_SCHEMA: &str = "weir.net.stat/1";
/// How the names of stations' ports begin.
pub(crate) const STATION: &str = "station-";
/// How long attaching may take.
const ATTACH_TIME: Duration = Duration::from_secs(5);
/// The first of the ports that are for anybody's short use (RFC 6335, 6).
const FIRST_DYNAMIC_PORT: u16 = 49_152;
/// How often other dynamic ports are tried when one is taken.
const MOST_TRIES: usize = 8;
/// Most bytes of the statistics: more has no room in the ring to a station.
const MOST_STATISTICS_BYTES: usize = 1 << 20;
/// Capacity for datagrams that the switch has not sent yet; none is ever split in it.
const RING_BYTES: u64 = 1 << 20;

/// A received message.
#[derive(Debug)]
pub enum StationMessage<'a> {
    /// A whole datagram with its IP header, which the switch has checked.
    Packet {
        /// Its bytes.
        bytes: &'a [u8],
        /// The state of its checksum above IP.
        checksum: Checksum,
    },
    /// For the ICMP station: an undeliverable datagram, or its beginning.
    Undeliverable {
        /// Its bytes.
        bytes: &'a [u8],
        /// Why it is undeliverable.
        why: Undeliverable,
    },
    /// An ICMP error about a datagram that this station sent.
    Notice(Notice),
}

/// An attached process. Dropping it detaches it.
#[derive(Debug)]
pub struct Station {
    port: Port,
    writer: PortWriter,
    attached: Attached,
    /// Fills and checks headers, where stations do that.
    headers: Option<HeaderFiller>,
    is_icmp: bool,
    buffer: Vec<u8>,
    message: Vec<u8>,
}

impl Station {
    /// Attaches to the switch whose port is `switch`, for these protocols and ports. Its own port
    /// is created in `directory`.
    ///
    /// # Errors
    /// [`ErrorKind::NoSwitch`]: no switch is there; [`ErrorKind::Refused`]: another station has
    /// what is wanted, or there are too many; [`ErrorKind::TimedOut`]: the switch does not answer.
    pub fn attach(switch: &Path, directory: &Path, wants: &[Want]) -> Result<Station> {
        // A process of another pid namespace may have the same number, and the same directory.
        let number = fastrand::u32(..);
        let path = directory.join(format!("{STATION}{}-{number}", std::process::id()));
        let ring = PortWriterOptions::new().capacity_bytes(RING_BYTES);
        // Connects first: that tells whether there is a switch.
        let writer = PortWriter::connect(switch, &ring)?;
        let options = PortOptions::new().most_message_bytes(MOST_MESSAGE_BYTES as u64);
        let port = Port::create(&path, &options)?;
        let mut station = Station {
            port,
            writer,
            attached: Attached {
                address: Ipv4Addr::UNSPECIFIED,
                peer: Ipv4Addr::UNSPECIFIED,
                prefix_bits: 0,
                mtu: 0,
                offloads: false,
                division: Division::Later,
            },
            headers: None,
            is_icmp: wants.contains(&Want { protocol: protocol::ICMP, port: None }),
            buffer: vec![0; MOST_MESSAGE_BYTES],
            message: Vec::new(),
        };
        station.ask(wants.to_vec(), path)?;
        if station.attached.division == Division::Allen {
            let seed = std::process::id().wrapping_add(number);
            let Attached { address, prefix_bits, mtu, offloads, .. } = station.attached;
            let net = Net::new(address, prefix_bits);
            let host = HostFacts { net, mtu: usize::from(mtu), offloads };
            station.headers = Some(HeaderFiller::new(host, seed));
        }
        Ok(station)
    }

    /// Attaches as [`Station::attach`] for the ports `named` of a protocol, and for `dynamic` further
    /// ones of any number. Returns all of them, in this order.
    pub fn attach_ports(
        switch: &Path,
        directory: &Path,
        protocol: u8,
        named: &[u16],
        dynamic: usize,
    ) -> Result<(Station, Vec<u16>)> {
        let mut tries = if dynamic == 0 { 1 } else { MOST_TRIES };
        loop {
            let mut ports = named.to_vec();
            while ports.len() < named.len() + dynamic {
                let port = fastrand::u16(FIRST_DYNAMIC_PORT..);
                if !ports.contains(&port) {
                    ports.push(port);
                }
            }
            let want = |port: &u16| Want { protocol, port: Some(*port) };
            let wants: Vec<Want> = ports.iter().map(want).collect();
            tries -= 1;
            match Station::attach(switch, directory, &wants) {
                Err(error) if error.kind() == ErrorKind::Refused && tries > 0 => {}
                station => return Ok((station?, ports)),
            }
        }
    }

    fn ask(&mut self, wants: Vec<Want>, path: PathBuf) -> Result<()> {
        self.writer.send(&AttachRequest { wants, path }.put())?;
        let until = Instant::now() + ATTACH_TIME;
        loop {
            let bytes = self.next_control(until, "attach to")?;
            match self.buffer[0] {
                to_station::ATTACHED => {
                    let attached = Attached::check(&self.buffer[TO_STATION_BYTES..bytes]);
                    self.attached = attached.ok_or_else(nonsense)?;
                    return Ok(());
                }
                to_station::REFUSED => {
                    let why = String::from_utf8_lossy(&self.buffer[TO_STATION_BYTES..bytes]);
                    let (object, why) = ("the switch", why.into_owned());
                    return Err(Error::new(ErrorKind::Refused, "attach to", object, why));
                }
                _ => {}
            }
        }
    }

    /// Receives the next message of at least a head, before `until`.
    fn next_control(&mut self, until: Instant, operation: &'static str) -> Result<usize> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let received = match self.port.receive_timeout(&mut self.buffer, left) {
                Ok(received) => received,
                Err(error) if error.kind() == weir::ErrorKind::TimedOut => {
                    let why = "it does not answer";
                    return Err(Error::new(ErrorKind::TimedOut, operation, "the switch", why));
                }
                Err(error) => return Err(error.into()),
            };
            match received.event {
                Event::Message { bytes } if bytes >= TO_STATION_BYTES => return Ok(bytes),
                Event::Closed(_) => return Err(switch_ended()),
                _ => {}
            }
        }
    }

    /// Returns our address, and what else the switch sent on attaching.
    pub fn attached(&self) -> Attached {
        self.attached
    }

    /// Shows received messages; returns how many. If there are none, waits up to this long for one.
    pub fn receive_for(
        &mut self,
        time: Duration,
        mut see: impl FnMut(&mut Sender<'_>, StationMessage<'_>),
    ) -> Result<usize> {
        self.receive_dyn(time, &mut see)
    }

    /// [`Station::receive_for`], compiled once for all callers: the path is long.
    fn receive_dyn(
        &mut self,
        time: Duration,
        see: &mut dyn FnMut(&mut Sender<'_>, StationMessage<'_>),
    ) -> Result<usize> {
        let Station { port, writer, headers, is_icmp, buffer, message, .. } = self;
        let headers = headers.as_mut();
        let mut sender = Sender { writer, headers, is_icmp: *is_icmp, message, failure: None };
        let mut gone = false;
        // The wait ends where the first message is shown.
        let mut waiting = Some(weir_profile::begin_wait_at_last(&spans::RING_WAIT));
        let mut taking = None;
        let show = |received: weir::Received, bytes: &[u8]| {
            if waiting.take().is_some() {
                taking = Some(spans::TAKE.enter_at_last());
            }
            gone |= matches!(received.event, Event::Closed(_));
            let shown = match sender.admit(bytes) {
                Ok(()) => arrival(bytes),
                Err(refusal) => refusal.undeliverable.filter(|_| *is_icmp).map(|why| {
                    let bytes = &bytes[TO_STATION_BYTES..];
                    StationMessage::Undeliverable { bytes, why }
                }),
            };
            if let Some(shown) = shown {
                see(&mut sender, shown);
            }
        };
        let timeout = if time.is_zero() { Timeout::Now } else { Timeout::from(time) };
        let got = port.receive_each_timeout(buffer, timeout, show);
        drop(waiting);
        if let Some(taking) = taking {
            // Hardly anything is done behind the last message.
            taking.end_at_last();
        }
        if let Some(error) = sender.failure {
            return Err(error.into());
        }
        match got {
            _ if gone => Err(switch_ended()),
            Ok(count) => Ok(count),
            // Nothing has arrived, or only part of a message.
            Err(error) => match error.kind() {
                weir::ErrorKind::TimedOut | weir::ErrorKind::WouldBlock => Ok(0),
                _ => Err(error.into()),
            },
        }
    }

    /// Sends a datagram, waiting while the ring to the switch is full.
    pub fn send(&mut self, out: &Outgoing<'_>, payload: &[u8]) -> Result<()> {
        self.send_with(|sender| sender.send(out, payload))
    }

    /// Lends the sending side, for as many datagrams as `send` sends.
    pub fn send_with(&mut self, send: impl FnOnce(&mut Sender<'_>)) -> Result<()> {
        let Station { writer, headers, is_icmp, message, .. } = self;
        let headers = headers.as_mut();
        let mut sender = Sender { writer, headers, is_icmp: *is_icmp, message, failure: None };
        send(&mut sender);
        sender.failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Tells the switch figures of this station's own work, which `weir net stat` shows.
    pub fn report(&mut self, report: &ServiceReport) -> Result<()> {
        self.message.clear();
        self.message.extend_from_slice(&message::front(from_station::REPORT));
        self.message.extend_from_slice(&report.put());
        Ok(self.writer.send(&self.message)?)
    }

    /// Returns a descriptor for poll. It is readable when a message may have come, and stays so until
    /// [`Station::receive_for`] with no time has returned 0.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        Ok(self.port.poll_descriptor()?)
    }

    /// Returns the switch's counters as JSON: [`STATISTICS_SCHEMA`].
    ///
    /// # Errors
    /// [`ErrorKind::NoSwitch`]; [`ErrorKind::TimedOut`].
    pub fn statistics(&mut self) -> Result<String> {
        self.writer.send(&message::front(from_station::STATISTICS))?;
        let until = Instant::now() + ATTACH_TIME;
        let mut text = Vec::new();
        while text.len() <= MOST_STATISTICS_BYTES {
            let bytes = self.next_control(until, "ask")?;
            if self.buffer[0] == to_station::STATISTICS {
                text.extend_from_slice(&self.buffer[TO_STATION_BYTES..bytes]);
                if self.buffer[1] == 0 {
                    return String::from_utf8(text).map_err(|_| nonsense());
                }
            }
        }
        Err(nonsense())
    }
}

/// The sending side of a station, usable while a received message is shown.
#[derive(Debug)]
pub struct Sender<'a> {
    writer: &'a mut PortWriter,
    headers: Option<&'a mut HeaderFiller>,
    is_icmp: bool,
    message: &'a mut Vec<u8>,
    failure: Option<weir::Error>,
}

impl Sender<'_> {
    /// Sends a datagram. The call that shows messages reports a failure.
    pub fn send(&mut self, out: &Outgoing<'_>, payload: &[u8]) {
        self.send_parts(out, &[], payload);
    }

    /// Sends a datagram whose payload is in two parts, such as a header and the user's bytes. Each
    /// is copied once, into the ring to the switch, which hands it to the device from there.
    pub fn send_parts(&mut self, out: &Outgoing<'_>, front: &[u8], rest: &[u8]) {
        if let Some(headers) = &mut self.headers {
            let mut head = [0; MOST_FILLED_HEAD_BYTES];
            let room = message::put_filled_head(out, &mut head);
            let span = spans::COMPLETE.enter();
            let filled = headers.put(out, front.len() + rest.len(), room);
            drop(span);
            if let Some(header_bytes) = filled {
                let head = &head[..FROM_STATION_BYTES + header_bytes];
                // It follows directly on the header.
                let _span = spans::SEND.enter_at_last();
                return self.put_parts(&[head, front, rest]);
            }
        }
        let mut head = [0; MOST_SEND_HEAD_BYTES];
        let head_bytes = message::put_send_head(out, &mut head);
        let _span = spans::SEND.enter();
        self.put_parts(&[&head[..head_bytes], front, rest]);
    }

    fn put_parts(&mut self, parts: &[&[u8]]) {
        if let Err(error) = self.writer.send_parts(parts) {
            self.failure.get_or_insert(error);
        }
    }

    /// Checks the header of a received datagram, if that is left to this station. Tells the switch
    /// of one that is dropped, which counts it.
    fn admit(&mut self, bytes: &[u8]) -> std::result::Result<(), PacketRefusal> {
        let Some((front, bytes)) = bytes.split_first_chunk::<TO_STATION_BYTES>() else {
            return Ok(());
        };
        let (Some(headers), [to_station::PACKET, _, _, 1, ..]) = (&self.headers, front) else {
            return Ok(());
        };
        let span = spans::VERIFY.enter_at_last();
        let admitted = division::admit(bytes, headers.host.net);
        drop(span);
        let Err(refusal) = admitted else { return Ok(()) };
        let quoted = &bytes[..bytes.len().min(QUOTED_BYTES)];
        message::put_dropped(self.message, &refusal, self.is_icmp, quoted);
        self.put();
        Err(refusal)
    }

    /// Reports a redirect by `from` to the switch.
    pub fn redirect(&mut self, destination: Ipv4Addr, gateway: Ipv4Addr, from: Ipv4Addr) {
        *self.message = message::put_redirect(destination, gateway, from);
        self.put();
    }

    /// Tells the switch which nets a gateway announced.
    pub fn announce(&mut self, gateway: Ipv4Addr, update: &Update<'_>) {
        *self.message = message::put_routes(gateway, update);
        self.put();
    }

    /// Passes a notice on to the station that the ICMP error is about.
    pub fn notice(&mut self, notice: &Notice) {
        self.message.clear();
        self.message.extend_from_slice(&message::front(from_station::NOTICE));
        self.message.extend_from_slice(&message::put_notice(notice));
        self.put();
    }

    fn put(&mut self) {
        if let Err(error) = spans::SEND.run(|| self.writer.send(self.message)) {
            self.failure.get_or_insert(error);
        }
    }
}

/// Writes a datagram or notice over what `to` holds, as a switch tells it.
pub(crate) fn put_arrival(arrived: &StationMessage<'_>, to: &mut Vec<u8>) {
    let mut front = [0; TO_STATION_BYTES];
    to.clear();
    match arrived {
        StationMessage::Packet { bytes, checksum } => {
            (front[0], front[2]) = (to_station::PACKET, u8::from(*checksum == Checksum::LeftOut));
            to.extend_from_slice(&front);
            to.extend_from_slice(bytes);
        }
        StationMessage::Undeliverable { bytes, why } => {
            (front[1], front[4]) = message::put_why(*why);
            front[0] = to_station::UNDELIVERABLE;
            to.extend_from_slice(&front);
            to.extend_from_slice(bytes);
        }
        StationMessage::Notice(notice) => {
            front[0] = to_station::NOTICE;
            to.extend_from_slice(&front);
            to.extend_from_slice(&message::put_notice(notice));
        }
    }
}

/// Reads what a switch tells; `None` if it is nothing of these.
pub(crate) fn arrival(bytes: &[u8]) -> Option<StationMessage<'_>> {
    let (front, bytes) = bytes.split_first_chunk::<TO_STATION_BYTES>()?;
    match front[0] {
        to_station::PACKET => {
            let checksum = if front[2] == 1 { Checksum::LeftOut } else { Checksum::ToCheck };
            Some(StationMessage::Packet { bytes, checksum })
        }
        to_station::UNDELIVERABLE => {
            let why = message::why(front[1], front[4])?;
            Some(StationMessage::Undeliverable { bytes, why })
        }
        to_station::NOTICE => message::notice(bytes).map(StationMessage::Notice),
        _ => None,
    }
}

fn switch_ended() -> Error {
    Error::new(ErrorKind::NoSwitch, "go on", "without the switch", "it has closed or died")
}

fn nonsense() -> Error {
    Error::new(ErrorKind::Corrupt, "understand", "the switch", "its answer is malformed")
}
