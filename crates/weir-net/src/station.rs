//! A process that attaches to the switch: it gets the packets of its protocol or port, and sends.

use crate::error::{Error, ErrorKind, Result};
use crate::icmp::{Notice, Undeliverable};
use crate::message::{
    self, Attached, Checksum, MOST_MESSAGE_BYTES, Request, TO_STATION_BYTES, Want, from_station,
    to_station,
};
use crate::outgoing::Outgoing;
use crate::spans;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir::{Event, Port, PortOptions, PortWriter, PortWriterOptions, Timeout};

/// What the statistics of a switch call themselves.
pub const STATISTICS_SCHEMA: &str = "weir.net.stat/2";
/// How long attaching may take.
const ATTACH_TIME: Duration = Duration::from_secs(5);
/// Room for what the switch has not sent yet; a datagram is never split in it.
const RING_BYTES: u64 = 1 << 20;

/// What came.
#[derive(Debug)]
pub enum Arrival<'a> {
    /// A datagram, whole, with its IP header, which the switch has checked.
    Packet {
        /// Its bytes.
        bytes: &'a [u8],
        /// What is known of its checksum above IP.
        checksum: Checksum,
    },
    /// Of the station for ICMP: a datagram that nobody takes, or its beginning.
    Undeliverable {
        /// Its bytes.
        bytes: &'a [u8],
        /// Why.
        why: Undeliverable,
    },
    /// An ICMP error about something this station sent.
    Notice(Notice),
}

/// An attached process. Dropping it detaches it.
#[derive(Debug)]
pub struct Station {
    port: Port,
    writer: PortWriter,
    attached: Attached,
    buffer: Vec<u8>,
    message: Vec<u8>,
}

impl Station {
    /// Attaches to the switch whose port is `switch`, for these protocols and ports. Its own port
    /// is made in `directory`.
    ///
    /// # Errors
    /// [`ErrorKind::NoSwitch`]: nobody is there; [`ErrorKind::Refused`]: another station has what
    /// is wanted, or there are too many; [`ErrorKind::TimedOut`]: the switch does not answer.
    pub fn attach(switch: &Path, directory: &Path, wants: &[Want]) -> Result<Station> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only that no two are alike matters.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("station-{}-{number}", std::process::id()));
        let ring = PortWriterOptions::new().capacity_bytes(RING_BYTES);
        // First of all: whether there is a switch.
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
            },
            buffer: vec![0; MOST_MESSAGE_BYTES],
            message: Vec::new(),
        };
        station.ask(wants.to_vec(), path)?;
        Ok(station)
    }

    fn ask(&mut self, wants: Vec<Want>, path: PathBuf) -> Result<()> {
        self.writer.send(&Request { wants, path }.put())?;
        let until = Instant::now() + ATTACH_TIME;
        loop {
            let bytes = self.next_control(until, "attach to")?;
            match self.buffer[0] {
                to_station::ATTACHED => {
                    let said = Attached::check(&self.buffer[TO_STATION_BYTES..bytes]);
                    self.attached = said.ok_or_else(nonsense)?;
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

    /// The next message, of at least a front, before `until`.
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
                Event::Closed(_) => return Err(switch_gone()),
                _ => {}
            }
        }
    }

    /// Our address, and what else the switch said.
    pub fn attached(&self) -> Attached {
        self.attached
    }

    /// Shows what came: how much it was. Where nothing is there it waits for something, that long
    /// at most, and shows none.
    ///
    /// # Errors
    /// [`ErrorKind::NoSwitch`]: the switch is gone.
    pub fn receive_for(
        &mut self,
        time: Duration,
        mut see: impl FnMut(&mut Sender<'_>, Arrival<'_>),
    ) -> Result<usize> {
        let Station { port, writer, buffer, message, .. } = self;
        let mut sender = Sender { writer, message, failure: None };
        let mut gone = false;
        let show = |received: weir::Received, bytes: &[u8]| {
            gone |= matches!(received.event, Event::Closed(_));
            if let Some(arrival) = arrival(bytes) {
                see(&mut sender, arrival);
            }
        };
        // While a profile is taken the wait is a call of its own, told from the rest.
        let got = match weir_profile::is_on() {
            true => {
                weir_profile::wait(&spans::RING_WAIT, || port.wait_timeout(time)).and_then(|()| {
                    let _span = spans::TAKE.enter_next();
                    port.receive_each_timeout(buffer, Timeout::Now, show)
                })
            }
            false => port.receive_each_timeout(buffer, time, show),
        };
        if let Some(error) = sender.failure {
            return Err(error.into());
        }
        match got {
            _ if gone => Err(switch_gone()),
            Ok(count) => Ok(count),
            // Nothing came, or only part of a message.
            Err(error) => match error.kind() {
                weir::ErrorKind::TimedOut | weir::ErrorKind::WouldBlock => Ok(0),
                _ => Err(error.into()),
            },
        }
    }

    /// Sends a datagram, waiting while the ring to the switch is full.
    ///
    /// # Errors
    /// [`ErrorKind::NoSwitch`]: the switch is gone.
    pub fn send(&mut self, out: &Outgoing<'_>, payload: &[u8]) -> Result<()> {
        let mut sender =
            Sender { writer: &mut self.writer, message: &mut self.message, failure: None };
        sender.send(out, payload);
        sender.failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// What the switch has counted, as JSON: [`STATISTICS_SCHEMA`].
    ///
    /// # Errors
    /// [`ErrorKind::NoSwitch`]; [`ErrorKind::TimedOut`].
    pub fn statistics(&mut self) -> Result<String> {
        self.writer.send(&message::front(from_station::STATISTICS))?;
        let until = Instant::now() + ATTACH_TIME;
        loop {
            let bytes = self.next_control(until, "ask")?;
            if self.buffer[0] == to_station::STATISTICS {
                let text = self.buffer[TO_STATION_BYTES..bytes].to_vec();
                return String::from_utf8(text).map_err(|_| nonsense());
            }
        }
    }
}

/// The way out of a station, also while it looks at what came.
#[derive(Debug)]
pub struct Sender<'a> {
    writer: &'a mut PortWriter,
    message: &'a mut Vec<u8>,
    failure: Option<weir::Error>,
}

impl Sender<'_> {
    /// Sends a datagram. That it failed is said by the call that shows what came.
    pub fn send(&mut self, out: &Outgoing<'_>, payload: &[u8]) {
        message::put_send(self.message, out, payload);
        self.put();
    }

    /// Tells the switch of a better gateway, as `from` said.
    pub fn redirect(&mut self, destination: Ipv4Addr, gateway: Ipv4Addr, from: Ipv4Addr) {
        *self.message = message::put_redirect(destination, gateway, from);
        self.put();
    }

    /// Has the switch tell the station that an ICMP error is about.
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

fn arrival(bytes: &[u8]) -> Option<Arrival<'_>> {
    let (front, bytes) = bytes.split_first_chunk::<TO_STATION_BYTES>()?;
    match front[0] {
        to_station::PACKET => {
            let checksum = if front[2] == 1 { Checksum::LeftOut } else { Checksum::ToCheck };
            Some(Arrival::Packet { bytes, checksum })
        }
        to_station::UNDELIVERABLE => {
            let why = message::why(front[1], front[4])?;
            Some(Arrival::Undeliverable { bytes, why })
        }
        to_station::NOTICE => message::notice(bytes).map(Arrival::Notice),
        _ => None,
    }
}

fn switch_gone() -> Error {
    Error::new(ErrorKind::NoSwitch, "go on", "without the switch", "it has closed or died")
}

fn nonsense() -> Error {
    Error::new(ErrorKind::Corrupt, "understand", "the switch", "its answer is none")
}
