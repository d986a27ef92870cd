//! The packet switch: one process that owns the TUN device and only multiplexes.
//!
//! One thread takes packets of the device and messages of stations in turn (docs/adr/0010 says why,
//! and why two where ICMP is answered here). `incoming` checks the header of IP, puts fragments
//! together, finds the station and copies the packet into its ring; `outgoing` completes the header
//! of what a station sends and hands it to the device out of the station's ring. `doorman`, a
//! thread of its own, opens the ports of who wants to be attached, which may take its time.
//! `stations` says who has what, `statistics` what was counted, `journal` writes the log.

mod doorman;
mod incoming;
mod journal;
mod outgoing;
mod settings;
mod stations;
mod statistics;

use crate::counts::Counts;
use crate::drop_reason::DropReason;
use crate::error::{Error, ErrorKind, Result};
use crate::log::{Change, Log};
use crate::message::{self, Attached, Checksum, FROM_STATION_BYTES, Front, TO_STATION_BYTES};
use crate::message::{MOST_MESSAGE_BYTES, from_station};
use crate::net::Net;
use crate::routes::Routes;
use crate::spans;
use doorman::Doorman;
use incoming::Incoming;
pub use outgoing::ms_since_midnight;
use outgoing::{Payload, Sent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
pub use settings::Settings;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use weir::{Ending, Event, Lent, Port, PortOptions, Received, Timeout, WriterId};
use weir_sys::tun::{Tun, VNET_HEADER_BYTES};

/// Most packets that are read before stations are looked at.
const MOST_AT_ONCE: usize = 64;
/// How often the switch gives way to others on its CPU before it sleeps: a station there answers
/// within that, and needs not wake it.
const MOST_YIELDS: u32 = 2;
/// How often the switch looks after what waits, and whether it is to end.
const TICK: Duration = Duration::from_millis(100);
/// Room before a packet that was read, for the device's header or a station's.
const FRONT_BYTES: usize = 16;
/// A read that is longer than any packet shows one that was cut.
const BUFFER_BYTES: usize = FRONT_BYTES + 65_536;

/// What the threads of a switch share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    log: OnceLock<Log>,
    tun: Tun,
    counts: Counts,
    net: Net,
    routes: Mutex<Routes>,
    incoming: Mutex<Incoming>,
    /// Counts who comes and goes: what is known of stations is right while it stays.
    generation: AtomicU64,
    /// The number of the next datagram (RFC 791; unique as RFC 6864 asks, in the lower 16 bits).
    next_id: AtomicU32,
}

/// A switch that is up.
#[derive(Debug)]
pub struct Switch {
    shared: Arc<Shared>,
    port: Port,
    doorman: Doorman,
}

impl Switch {
    /// Makes the device and the port, and gives the kernel its address on the device. Packets are
    /// passed once [`Switch::run`] is called.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`]: another process has the device or is the switch of that name;
    /// [`ErrorKind::Denied`]: this user may not make devices; [`ErrorKind::Invalid`]: an address or
    /// a size; the kernel's.
    pub fn new(settings: Settings) -> Result<Switch> {
        settings.check()?;
        let options = PortOptions::new().most_message_bytes(MOST_MESSAGE_BYTES as u64);
        let port = Port::create(&settings.port, &options).map_err(|error| match error.kind() {
            weir::ErrorKind::Taken => {
                let object = format!("the switch of '{}'", settings.device);
                Error::new(ErrorKind::Taken, "start", object, error.to_string())
            }
            _ => error.into(),
        })?;
        let tun = settings.open_device()?;
        let Settings { address, prefix_bits, gateway, .. } = settings;
        let net = Net::new(address, prefix_bits);
        let shared = Arc::new(Shared {
            net,
            routes: Mutex::new(Routes::new(net, gateway)),
            incoming: Mutex::new(Incoming::new(&settings)),
            tun,
            counts: Counts::default(),
            generation: AtomicU64::new(0),
            next_id: AtomicU32::new(std::process::id().wrapping_mul(0x9e37)),
            log: OnceLock::new(),
            settings,
        });
        let doorman = Doorman::start(shared.clone())?;
        Ok(Switch { shared, port, doorman })
    }

    /// Logs from now on. The log is made once the switch has its name, so that one which is up
    /// already keeps its own.
    pub fn log_to(&mut self, log: Log) {
        // A second log is not taken.
        let _ = self.shared.log.set(log);
    }

    /// Passes packets until `stop` is set or the device is gone.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`]: the device is gone; the kernel's.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        match self.shared.settings.inline {
            None => self.run_in_turn(stop),
            Some(_) => self.run_apart(stop),
        }
    }

    /// One thread for packets and stations: where stations answer.
    fn run_in_turn(&mut self, stop: &AtomicBool) -> Result<()> {
        let Switch { shared, port, doorman } = self;
        let unwaited = shared.tun.set_waiting(false);
        unwaited.map_err(|cause| Error::os("read from", shared.object(), cause))?;
        let mut packet = vec![0; BUFFER_BYTES];
        let mut message = vec![0; MOST_MESSAGE_BYTES];
        let mut known = None;
        let mut see = |received: Received, lent: Lent<'_>| {
            shared.take_message(doorman, &mut known, received, &lent);
        };
        let mut ticks = Ticks { looked_ns: now_ns() };
        let mut in_vain = 0;
        // Relaxed: it only says that it is over.
        while !stop.load(Ordering::Relaxed) {
            let came = shared.receive(&mut packet)?;
            let took = spans::TAKE.run(|| look(port, &mut message, &mut see))?;
            ticks.look_after(shared);
            if came + took > 0 {
                in_vain = 0;
                continue;
            }
            in_vain += 1;
            if in_vain <= MOST_YIELDS {
                weir_profile::wait(&spans::GIVE_WAY, rustix::thread::sched_yield);
                continue;
            }
            in_vain = 0;
            match port.lend_each_timeout(&mut message, Timeout::Now, &mut see) {
                Err(error) if error.kind() == weir::ErrorKind::WouldBlock => {
                    sleep(&shared.tun, port)?;
                }
                got => drop(got?),
            }
        }
        Ok(())
    }

    /// A thread for packets, which it mostly answers itself, and this one for stations: each waits
    /// for one thing. The first is left to its read in the end: the process is expected to end.
    fn run_apart(&mut self, stop: &AtomicBool) -> Result<()> {
        let Switch { shared, port, doorman } = self;
        let (failure, failed) = std::sync::mpsc::channel();
        let receiving = shared.clone();
        let reading = std::thread::Builder::new().name("receive".into()).spawn(move || {
            let mut packet = vec![0; BUFFER_BYTES];
            loop {
                if let Err(error) = receiving.receive_one(&mut packet) {
                    // Nobody hears it where the switch is over.
                    return drop(failure.send(error));
                }
            }
        });
        reading.map_err(|cause| Error::os("start", "a thread", cause))?;
        let mut message = vec![0; MOST_MESSAGE_BYTES];
        let mut known = None;
        let mut see = |received: Received, lent: Lent<'_>| {
            shared.take_message(doorman, &mut known, received, &lent);
        };
        let mut ticks = Ticks { looked_ns: now_ns() };
        // Relaxed: it only says that it is over.
        while !stop.load(Ordering::Relaxed) {
            let waited = weir_profile::wait(&spans::SLEEP, || port.wait_timeout(TICK));
            let got = waited.and_then(|()| spans::TAKE.run(|| look(port, &mut message, &mut see)));
            match got {
                Err(error) if error.kind() != weir::ErrorKind::TimedOut => return Err(error.into()),
                _ => {}
            }
            ticks.look_after(shared);
            if let Ok(error) = failed.try_recv() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Looks at the switch from another thread while it runs.
    pub fn watch(&self) -> Watch {
        Watch { shared: self.shared.clone() }
    }

    /// What was counted so far, as JSON: `weir.net.stat/1`.
    pub fn statistics(&self) -> String {
        self.shared.statistics()
    }
}

/// Who sent last and what, while nobody came or went since: then it is allowed again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    generation: u64,
    writer: WriterId,
    protocol: u8,
}

/// A look at a switch that runs.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
}

impl Watch {
    /// Whether a station has all of a protocol.
    pub fn has_station_for(&self, protocol: u8) -> bool {
        self.shared.lock().stations.has_protocol(protocol)
    }
}

/// When the switch last looked after what waits.
struct Ticks {
    looked_ns: u64,
}

impl Ticks {
    /// Gives up what has waited for too long, now and then.
    fn look_after(&mut self, shared: &Shared) {
        let now_ns = now_ns();
        if now_ns.saturating_sub(self.looked_ns) >= TICK.as_nanos() as u64 {
            self.looked_ns = now_ns;
            shared.lock().expire(shared, now_ns);
        }
    }
}

/// Sleeps until there is a packet, or a station has something, for a tick at most.
/// Takes what there is of stations' messages: how many. The descriptor of the port stays as it is.
fn look(
    port: &mut Port,
    message: &mut [u8],
    see: &mut impl FnMut(Received, Lent<'_>),
) -> weir::Result<usize> {
    if !port.is_ready()? {
        return Ok(0);
    }
    match port.lend_each_timeout(message, Timeout::Now, see) {
        // Part of a message was there, or something else that is not shown.
        Err(error) if error.kind() == weir::ErrorKind::WouldBlock => Ok(0),
        seen => seen,
    }
}

fn sleep(tun: &Tun, port: &mut Port) -> Result<()> {
    let bell = port.poll_descriptor()?;
    let limit = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
    let mut asked =
        [PollFd::new(tun, PollFlags::IN), PollFd::from_borrowed_fd(bell, PollFlags::IN)];
    match weir_profile::wait(&spans::SLEEP, || poll(&mut asked, Some(&limit))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(cause) => Err(Error::os("wait for", "packets", cause)),
    }
}

/// A monotonic time that costs little and is right to some milliseconds: for limits.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Incoming> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody came or went.
    fn changed(&self) {
        // Release: who sees the count sees the change.
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn attached(&self) -> Attached {
        let Settings { address, peer, prefix_bits, mtu, .. } = self.settings;
        Attached { address, peer, prefix_bits, mtu }
    }

    /// Takes what the device has, some packets at most: how many.
    fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        for count in 0..MOST_AT_ONCE {
            if !self.receive_one(buffer)? {
                return Ok(count);
            }
        }
        Ok(MOST_AT_ONCE)
    }

    /// Takes a packet of the device. Whether there was one.
    fn receive_one(&self, buffer: &mut [u8]) -> Result<bool> {
        let device_header = if self.tun.has_vnet_header() { VNET_HEADER_BYTES } else { 0 };
        let from = FRONT_BYTES - device_header;
        let read = || rustix::io::read(&self.tun, &mut buffer[from..]);
        let bytes = match weir_profile::wait(&spans::TUN_READ, read) {
            Ok(bytes) => bytes,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(false),
            Err(cause) => return Err(self.failure(cause)),
        };
        let checksum = match device_header {
            0 => Checksum::ToCheck,
            // The first byte of struct virtio_net_hdr: bit 0 is VIRTIO_NET_HDR_F_NEEDS_CSUM.
            _ if buffer[from] & 1 != 0 => Checksum::LeftOut,
            _ => Checksum::ToCheck,
        };
        let packet = FRONT_BYTES..(from + bytes).max(FRONT_BYTES);
        Counts::add(&self.counts.received, 1);
        Counts::add(&self.counts.received_bytes, packet.len() as u64);
        self.lock().take(self, buffer, packet, checksum);
        Ok(true)
    }

    /// What errors are about.
    fn object(&self) -> String {
        format!("device '{}'", self.settings.device)
    }

    fn failure(&self, cause: Errno) -> Error {
        let object = self.object();
        match cause {
            // EFAULT is what a read gets of a device that goes (tun_ring_recv in
            // drivers/net/tun.c).
            Errno::BADFD | Errno::IO | Errno::NODEV | Errno::FAULT => {
                Error::new(ErrorKind::NoDevice, "read from", object, "it is gone")
            }
            _ => Error::os("read from", object, cause),
        }
    }

    /// Carries out what a station wants.
    fn take_message(
        &self,
        doorman: &Doorman,
        known: &mut Option<Known>,
        received: Received,
        lent: &Lent<'_>,
    ) {
        if let Event::Closed(ending) = received.event {
            let left = self.lock().stations.leave(received.writer);
            self.changed();
            if let Some(left) = left {
                let change = match ending {
                    Ending::Closed => Change::Detached,
                    _ => Change::Died,
                };
                self.log_station(change, left.identity.pid, &left.wants);
            }
            return;
        }
        let mut front = [0; FROM_STATION_BYTES];
        if lent.len() < front.len() {
            return self.counts.drop(DropReason::BadMessage);
        }
        lent.copy_to(0, &mut front);
        let Some(front) = Front::check(&front) else {
            return self.counts.drop(DropReason::BadMessage);
        };
        if front.kind == from_station::SEND {
            return self.send_for(&front, known, received, lent);
        }
        let mut rest = vec![0; (lent.len() - FROM_STATION_BYTES).min(4096)];
        lent.copy_to(FROM_STATION_BYTES, &mut rest);
        match front.kind {
            from_station::ATTACH => doorman.attach(self, received, &rest),
            from_station::STATISTICS => {
                let mut text = vec![0; TO_STATION_BYTES];
                text[0] = message::to_station::STATISTICS;
                text.extend_from_slice(self.statistics().as_bytes());
                self.lock().stations.tell(received.writer, &text);
            }
            from_station::REDIRECT => self.redirect(received, &rest),
            from_station::NOTICE => {
                let mut incoming = self.lock();
                match message::notice(&rest) {
                    Some(notice) if incoming.stations.has_icmp(received.writer) => {
                        incoming.stations.notice(&notice);
                    }
                    _ => self.counts.drop(DropReason::BadMessage),
                }
            }
            _ => self.counts.drop(DropReason::BadMessage),
        }
    }

    /// What the ICMP station has heard of a better gateway.
    fn redirect(&self, received: Received, rest: &[u8]) {
        if rest.len() != 12 || !self.lock().stations.has_icmp(received.writer) {
            return self.counts.drop(DropReason::BadMessage);
        }
        let [destination, gateway, from] =
            [&rest[..4], &rest[4..8], &rest[8..]].map(message::address);
        self.learn(destination, gateway, from);
    }

    fn learn(&self, destination: Ipv4Addr, gateway: Ipv4Addr, from: Ipv4Addr) {
        let learned = self.routes().redirect(destination, gateway, from, now_ns());
        let counter = match learned {
            Ok(()) => &self.counts.redirects,
            Err(_) => &self.counts.redirects_refused,
        };
        Counts::add(counter, 1);
    }

    /// Sends what a station wants to send.
    fn send_for(
        &self,
        front: &Front,
        known: &mut Option<Known>,
        received: Received,
        lent: &Lent<'_>,
    ) {
        // Acquire: as it was counted by `changed`, after the change.
        let generation = self.generation.load(Ordering::Acquire);
        let wanted = Known { generation, writer: received.writer, protocol: front.protocol };
        if *known != Some(wanted) {
            if !self.lock().stations.may_send(received.writer, front.protocol) {
                return self.counts.drop(DropReason::NotItsProtocol);
            }
            *known = Some(wanted);
        }
        let mut options = [0; 40];
        let options = &mut options[..front.options_bytes];
        let offset = FROM_STATION_BYTES + options.len();
        if lent.len() < offset {
            return self.counts.drop(DropReason::BadMessage);
        }
        lent.copy_to(FROM_STATION_BYTES, options);
        let out = crate::outgoing::Outgoing {
            destination: front.destination,
            protocol: front.protocol,
            tos: front.tos,
            ttl: front.ttl,
            dont_fragment: front.dont_fragment,
            options,
        };
        let payload = Payload::Ring { lent, offset };
        if let Sent::ToUs(datagram) = self.send(&out, &payload) {
            self.lock().take_own(self, datagram);
        }
    }
}
