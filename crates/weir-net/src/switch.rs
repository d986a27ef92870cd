//! The packet switch: one process that owns the TUN device and only multiplexes.
//!
//! One thread takes packets of the device and messages of stations in turn (docs/adr/0010 says why,
//! and why two where ICMP is answered here). `incoming` checks the header of IP, puts fragments
//! together, finds the station and copies the packet into its ring; `requests` takes what stations
//! send; `outgoing` completes the header of their datagrams and hands them to the `device` out of
//! the station's ring; `inline` is ICMP where no station has it. `acceptor`, a thread of its own,
//! opens the ports of who wants to be attached, which may take its time. `stations` says who has
//! what, `statistics` what was counted, `journal` counts and writes the log.

mod acceptor;
mod device;
mod incoming;
mod inline;
mod journal;
mod outgoing;
mod payload;
mod requests;
mod settings;
mod stations;
mod statistics;

use crate::counts::Counts;
use crate::error::{Error, ErrorKind, Result};
use crate::log::Log;
use crate::message::{Attached, MOST_MESSAGE_BYTES};
use crate::spans;
use acceptor::Acceptor;
use device::{BUFFER_BYTES, Device};
use incoming::Incoming;
use journal::Journal;
use outgoing::Transmitter;
pub use outgoing::ms_since_midnight;
use requests::Requests;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
pub use settings::Settings;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir::{Lent, Port, PortOptions, Received, Timeout};

/// Most packets that are read before stations are looked at.
const MOST_AT_ONCE: usize = 64;
/// How often the switch gives way to others on its CPU before it sleeps: a station there answers
/// within that, and needs not wake it.
const MOST_YIELDS: u32 = 2;
/// How often the switch looks after what waits, and whether it is to end.
const TICK: Duration = Duration::from_millis(100);
/// What the threads of a switch share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    transmitter: Arc<Transmitter>,
    incoming: Mutex<Incoming>,
    /// Counts who comes and goes: what is known of stations is right while it stays.
    generation: AtomicU64,
}

/// A switch that is up.
#[derive(Debug)]
pub struct Switch {
    shared: Arc<Shared>,
    port: Port,
    requests: Requests,
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
        let transmitter = Arc::new(Transmitter::new(&settings, Device::open(&settings)?));
        let shared = Arc::new(Shared {
            incoming: Mutex::new(Incoming::new(&settings, transmitter.clone())),
            transmitter,
            generation: AtomicU64::new(0),
            settings,
        });
        let requests = Requests::new(shared.clone(), Acceptor::start(shared.clone())?);
        Ok(Switch { shared, port, requests })
    }

    /// Logs from now on. The log is made once the switch has its name, so that one which is up
    /// already keeps its own.
    pub fn log_to(&mut self, log: Log) {
        // A second log is not taken.
        let _ = self.shared.journal().log.set(log);
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
        let Switch { shared, port, requests } = self;
        shared.transmitter.device.poll_reads()?;
        let mut packet = vec![0; BUFFER_BYTES];
        let mut message = vec![0; MOST_MESSAGE_BYTES];
        let mut see = |received: Received, lent: Lent<'_>| requests.take(received, &lent);
        let mut ticks = Ticks { looked_ns: now_ns() };
        let mut in_vain = 0;
        // Relaxed: it only says that it is over.
        while !stop.load(Ordering::Relaxed) {
            let came = shared.receive(&mut packet)?;
            let span = spans::TAKE.enter_next();
            let took = look(port, &mut message, &mut see)?;
            drop(span);
            ticks.look_after(shared);
            if came + took > 0 {
                in_vain = 0;
                continue;
            }
            in_vain += 1;
            if in_vain <= MOST_YIELDS {
                weir_profile::wait_next(&spans::GIVE_WAY, rustix::thread::sched_yield);
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

    /// A thread for packets, which it mostly answers itself, and this one for stations: each waits
    /// for one thing. The first is left to its read in the end: the process is expected to end.
    fn run_apart(&mut self, stop: &AtomicBool) -> Result<()> {
        let Switch { shared, port, requests } = self;
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
        let mut see = |received: Received, lent: Lent<'_>| requests.take(received, &lent);
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
            shared.lock().expire(now_ns);
            weir_profile::look();
        }
    }
}

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

/// Sleeps until there is a packet, or a station has something, for a tick at most.
fn sleep(device: &Device, port: &mut Port) -> Result<()> {
    let bell = port.poll_descriptor()?;
    let limit = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
    let mut asked =
        [PollFd::new(device, PollFlags::IN), PollFd::from_borrowed_fd(bell, PollFlags::IN)];
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

    fn journal(&self) -> &Journal {
        &self.transmitter.journal
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
        let Some((packet, checksum)) = self.transmitter.device.receive(buffer)? else {
            return Ok(false);
        };
        let counts = &self.journal().counts;
        Counts::add(&counts.received, 1);
        Counts::add(&counts.received_bytes, packet.len() as u64);
        self.lock().take(buffer, packet, checksum);
        Ok(true)
    }
}
