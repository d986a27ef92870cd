//! The packet switch: one process that owns the device, TUN or Ethernet, and only multiplexes.
//!
//! One thread takes packets of the device and messages of stations in turn (docs/adr/0010 says why,
//! and why there are two threads where ICMP is answered here). `incoming` checks the IP header,
//! reassembles fragments, finds the station and copies the packet into its ring. `requests` handles
//! the messages of stations. `outgoing` completes the header of their datagrams and hands them to
//! the `device` from the station's ring; on an Ethernet it asks for neighbours by ARP first. `inline` answers ICMP where no station has it. `acceptor`,
//! on a thread of its own, opens the ports of new stations, which may take time. `stations` holds
//! what each has, `statistics` reports the counters, and `journal` counts and writes the log.

mod acceptor;
mod device;
mod incoming;
mod inline;
mod journal;
mod outgoing;
mod payload;
mod requests;
mod segments;
mod settings;
mod stations;
mod statistics;
mod turns;

use crate::counts::SwitchCounts;
use crate::drop_reason::DropReason;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Log;
use crate::message::{Attached, Checksum, MOST_MESSAGE_BYTES};
pub use crate::outgoing::ms_since_midnight;
use crate::readiness::wait_for;
use crate::spans;
use acceptor::StationAcceptor;
use device::{Arrival, BUFFER_BYTES, Device, FRONT_BYTES};
use incoming::Incoming;
use journal::Journal;
use outgoing::Transmitter;
use requests::Requests;
use rustix::event::{PollFd, PollFlags};
use rustix::time::ClockId;
pub use settings::SwitchSettings;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use turns::{MOST_AT_ONCE, TurnLength};
use weir::{Lent, Port, PortOptions, Received, Timeout};

/// How often the switch yields to other threads on its CPU before it sleeps: a station there
/// answers within that time, and need not wake it.
const MOST_YIELDS: u32 = 2;
/// How often the switch checks for expired datagrams, and whether it is to end.
const TICK: Duration = Duration::from_millis(100);
/// State shared by the threads of a switch.
#[derive(Debug)]
struct SwitchState {
    settings: SwitchSettings,
    transmitter: Arc<Transmitter>,
    incoming: Mutex<Incoming>,
    /// Counts changes of the stations: what was looked up stays valid while this stays the same.
    generation: AtomicU64,
}

/// A running switch.
#[derive(Debug)]
pub struct Switch {
    shared: Arc<SwitchState>,
    port: Port,
    requests: Requests,
}

impl Switch {
    /// Creates the device and the port, and gives the kernel its address on the device; or takes the
    /// Ethernet device. Packets pass once [`Switch::run`] is called.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`]: another process has the device or is the switch of that name;
    /// [`ErrorKind::Denied`]: this user may not make devices; [`ErrorKind::NoDevice`]: there is no
    /// such Ethernet device; [`ErrorKind::Invalid`]: an address or
    /// a size; the kernel's.
    pub fn new(settings: SwitchSettings) -> Result<Switch> {
        settings.check()?;
        let options = PortOptions::new().most_message_bytes(MOST_MESSAGE_BYTES as u64);
        let port = Port::create(&settings.port, &options).map_err(|error| match error.kind() {
            weir::ErrorKind::Taken => {
                let object = format!("the switch of '{}'", settings.device);
                Error::new(ErrorKind::Taken, "start", object, error.to_string())
            }
            _ => error.into(),
        })?;
        let transmitter = Arc::new(Transmitter::new(&settings, Device::open(&settings)?));
        let shared = Arc::new(SwitchState {
            incoming: Mutex::new(Incoming::new(&settings, transmitter.clone())),
            transmitter,
            generation: AtomicU64::new(0),
            settings,
        });
        let requests = Requests::new(shared.clone(), StationAcceptor::start(shared.clone())?);
        Ok(Switch { shared, port, requests })
    }

    /// Starts logging. The log is created once the switch has its name, so a switch that is already
    /// running keeps its own log.
    pub fn log_to(&mut self, log: Log) {
        // Only the first log is used.
        let _ = self.shared.journal().log.set(log);
    }

    /// Passes packets until `stop` is set or the device is gone.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`]: the device is gone; the kernel's.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        self.shared.transmitter.announce();
        match self.shared.settings.inline {
            None => self.run_in_turn(stop),
            Some(_) => self.run_apart(stop),
        }
    }

    /// Runs with one thread for packets and stations: where stations answer.
    fn run_in_turn(&mut self, stop: &AtomicBool) -> Result<()> {
        let Switch { shared, port, requests } = self;
        shared.transmitter.device.poll_reads()?;
        let mut packet = vec![0; BUFFER_BYTES];
        let mut message = vec![0; MOST_MESSAGE_BYTES];
        let mut see = |received: Received, lent: Lent<'_>| requests.take(received, &lent);
        let mut ticks = ExpiryTimer { checked_ns: now_ns() };
        let mut in_vain = 0;
        let mut turns = TurnLength::default();
        let mut is_answer_due = false;
        // Relaxed: it only signals the end.
        while !stop.load(Ordering::Relaxed) {
            // A station that has just had the CPU for a packet has answered: that comes first.
            let is_station_first = std::mem::take(&mut is_answer_due);
            let came = match is_station_first {
                true => 0,
                false => turns.read(|| shared.receive_one(&mut packet))?,
            };
            let took = take_messages(port, &mut message, &mut see)?;
            ticks.drop_expired(shared);
            if came > 0 || took > 0 {
                in_vain = 0;
            }
            if took > 0 || came == MOST_AT_ONCE || is_station_first {
                continue;
            }
            // No station has sent anything. If packets came, their stations need a CPU now.
            is_answer_due = came > 0;
            in_vain += 1;
            if in_vain <= MOST_YIELDS {
                weir_profile::wait_at_last(&spans::GIVE_WAY, rustix::thread::sched_yield);
                continue;
            }
            in_vain = 0;
            match port.lend_each_timeout(&mut message, Timeout::Now, &mut see) {
                Err(error) if error.kind() == weir::ErrorKind::WouldBlock => {
                    sleep(&shared.transmitter.device, port)?;
                }
                got => drop(got?),
            }
        }
        Ok(())
    }

    /// Runs a thread for packets, which it mostly answers itself, and this one for stations; each
    /// waits for one thing. The packet thread stays in its read at the end: the process is expected
    /// to exit.
    fn run_apart(&mut self, stop: &AtomicBool) -> Result<()> {
        let Switch { shared, port, requests } = self;
        let (failure, failed) = std::sync::mpsc::channel();
        let receiving = shared.clone();
        let reading = std::thread::Builder::new().name("receive".into()).spawn(move || {
            let mut packet = vec![0; BUFFER_BYTES];
            loop {
                if let Err(error) = receiving.receive_one(&mut packet) {
                    // The receiver is gone if the switch has ended.
                    return drop(failure.send(error));
                }
            }
        });
        reading.map_err(|cause| Error::os("start", "a thread", cause))?;
        let mut message = vec![0; MOST_MESSAGE_BYTES];
        let mut see = |received: Received, lent: Lent<'_>| requests.take(received, &lent);
        let mut ticks = ExpiryTimer { checked_ns: now_ns() };
        // Relaxed: it only signals the end.
        while !stop.load(Ordering::Relaxed) {
            let waited = weir_profile::wait(&spans::SLEEP, || port.wait_timeout(TICK));
            let got = waited.and_then(|()| take_messages(port, &mut message, &mut see));
            match got {
                Err(error) if error.kind() != weir::ErrorKind::TimedOut => return Err(error.into()),
                _ => {}
            }
            ticks.drop_expired(shared);
            if let Ok(error) = failed.try_recv() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns a handle to look at the switch from another thread while it runs.
    pub fn watch(&self) -> SwitchHandle {
        SwitchHandle { shared: self.shared.clone() }
    }
}

/// A handle to a running switch.
#[derive(Debug)]
pub struct SwitchHandle {
    shared: Arc<SwitchState>,
}

impl SwitchHandle {
    /// Whether a station has a whole protocol.
    pub fn has_station_for(&self, protocol: u8) -> bool {
        self.shared.lock().stations.has_protocol(protocol)
    }
}

/// The time of the last check for expired datagrams.
struct ExpiryTimer {
    checked_ns: u64,
}

impl ExpiryTimer {
    /// Drops expired datagrams, at intervals.
    fn drop_expired(&mut self, shared: &SwitchState) {
        let now_ns = now_ns();
        if now_ns.saturating_sub(self.checked_ns) >= TICK.as_nanos() as u64 {
            self.checked_ns = now_ns;
            shared.lock().expire(now_ns);
            shared.transmitter.expire();
            weir_profile::charge_now();
        }
    }
}

/// Takes the messages of stations that are there; returns how many. The port's descriptor stays as
/// it is. A look that finds nothing is not counted in a profile: it would cost as much as it takes.
fn take_messages(
    port: &mut Port,
    message: &mut [u8],
    see: &mut impl FnMut(Received, Lent<'_>),
) -> weir::Result<usize> {
    if !port.is_ready()? {
        return Ok(0);
    }
    let span = spans::TAKE.enter_at_last();
    let seen = port.lend_each_timeout(message, Timeout::Now, see);
    // Hardly anything is done behind the last message.
    span.end_at_last();
    match seen {
        // Only part of a message was there, or an event that is not shown.
        Err(error) if error.kind() == weir::ErrorKind::WouldBlock => Ok(0),
        seen => seen,
    }
}

/// Sleeps until a packet or a station's message arrives, for one tick at most.
fn sleep(device: &Device, port: &mut Port) -> Result<()> {
    let bell = port.poll_descriptor()?;
    let mut asked =
        [PollFd::new(device, PollFlags::IN), PollFd::from_borrowed_fd(bell, PollFlags::IN)];
    weir_profile::wait(&spans::SLEEP, || wait_for(&mut asked, Some(TICK), "packets"))?;
    Ok(())
}

/// A cheap monotonic time, accurate to some milliseconds: for time limits.
pub(crate) fn now_ns() -> u64 {
    weir_sys::cpu::now_ns(ClockId::MonotonicCoarse)
}

impl SwitchState {
    fn lock(&self) -> MutexGuard<'_, Incoming> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> &Journal {
        &self.transmitter.journal
    }

    /// Notes that a station came or went.
    fn changed(&self) {
        // Release: a thread that sees the count sees the change.
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn attached(&self) -> Attached {
        let SwitchSettings { address, peer, prefix_bits, mtu, division, .. } = self.settings;
        let peer = peer.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let offloads = self.transmitter.device.offloads();
        Attached { address, peer, prefix_bits, mtu, offloads, division }
    }

    /// Takes one packet of the device, if there is one. Returns what [`Incoming::take`] does.
    fn receive_one(&self, buffer: &mut [u8]) -> Result<Option<bool>> {
        let (packet, checksum) = match self.transmitter.device.receive(buffer)? {
            None => return Ok(None),
            Some(Arrival::Packet(packet, checksum)) => (packet, checksum),
            Some(Arrival::Long(packet, segment_bytes)) => {
                self.receive_long(&buffer[packet], segment_bytes);
                return Ok(Some(false));
            }
            Some(Arrival::Arp(message)) => {
                self.transmitter.take_arp(&buffer[message]);
                return Ok(Some(false));
            }
            Some(Arrival::Refused(packet, why)) => {
                self.journal().drop_in(why, &buffer[packet]);
                return Ok(Some(false));
            }
        };
        let mut incoming = self.lock();
        let counts = &self.journal().counts;
        // Only here, within the lock.
        SwitchCounts::add_alone(&counts.received, 1);
        SwitchCounts::add_alone(&counts.received_bytes, packet.len() as u64);
        Ok(Some(incoming.take(buffer, packet, checksum)))
    }

    /// Takes what the kernel of this machine has not cut into datagrams.
    #[cold]
    fn receive_long(&self, packet: &[u8], segment_bytes: u16) {
        let (mut incoming, mut room) = (self.lock(), Vec::new());
        let counts = &self.journal().counts;
        let is_cut = segments::cut(packet, segment_bytes, FRONT_BYTES, &mut room, |room, at| {
            SwitchCounts::add_alone(&counts.received, 1);
            SwitchCounts::add_alone(&counts.received_bytes, at.len() as u64);
            incoming.take(room, at, Checksum::LeftOut);
        });
        if !is_cut {
            self.journal().drop_in(DropReason::Segments, packet);
        }
    }
}
