//! Two TUN devices with an impairment each way, and the loop between them.

use super::{Impairment, ImpairmentCounts, Settings};
use crate::{Error, ErrorKind, Result};
use fastrand::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use serde::Serialize;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Instant;
use weir_sys::namespace::enter_network;
use weir_sys::tun::{self, Tun};

/// Longest packet there is (RFC 791).
const MOST_PACKET_BYTES: usize = 65_535;
/// Packets read from one device before it is looked what is due, and what the other has.
const BATCH: usize = 64;
const SECOND_NS: u64 = 1_000_000_000;

/// Where an end of the relay is: a TUN device that is made for it, and goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The network namespace, as a file (`/run/netns/NAME`, `/proc/PID/ns/net`); without one, that
    /// of this process.
    pub namespace: Option<PathBuf>,
    /// Name of the device.
    pub device: String,
    /// Address of the kernel's side of it.
    pub address: Ipv4Addr,
    /// Bits of the address that name its network, at most 32.
    pub prefix_bits: u8,
}

/// What was done to packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// By the impairment.
    #[serde(flatten)]
    pub impairment: ImpairmentCounts,
    /// Copies that left and the kernel did not take: a corrupted version, a device that is down.
    #[serde(rename = "packets_refused")]
    pub refused: u64,
}

/// One direction: what is read from a device is impaired and written to the other.
#[derive(Debug)]
struct Direction {
    impairment: Impairment,
    refused: u64,
}

/// Two devices and what passes between them.
#[derive(Debug)]
pub struct Relay {
    /// Left and right.
    devices: [Tun; 2],
    /// From left to right, and from right to left.
    directions: [Direction; 2],
    begun: Instant,
    buffer: Vec<u8>,
}

impl Relay {
    /// Makes both devices and switches them on, for packets of at most `mtu` bytes. To the right
    /// packets are impaired from the seed of `settings`, to the left from one that follows from it.
    ///
    /// # Errors
    /// The namespace cannot be entered, the device is another's, this user may not.
    pub fn open(left: &Place, right: &Place, mtu: u16, settings: Settings) -> Result<Relay> {
        let devices = [open(left, mtu)?, open(right, mtu)?];
        let back = Settings { seed: Rng::with_seed(settings.seed).u64(..), ..settings };
        let direction = |settings| Direction { impairment: Impairment::new(settings), refused: 0 };
        Ok(Relay {
            devices,
            directions: [direction(settings), direction(back)],
            begun: Instant::now(),
            buffer: vec![0; MOST_PACKET_BYTES],
        })
    }

    /// What was done so far: to the right, to the left.
    pub fn counts(&self) -> [Counts; 2] {
        [0, 1].map(|at: usize| {
            let Direction { impairment, refused } = &self.directions[at];
            Counts { impairment: impairment.counts(), refused: *refused }
        })
    }

    /// Passes packets until there is something to read from `stop`. What waits then is dropped.
    ///
    /// # Errors
    /// `NoDevice` when a device was removed.
    pub fn run(&mut self, stop: BorrowedFd) -> Result<()> {
        loop {
            self.deliver()?;
            let [left, right] = &self.devices;
            let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut polled = [readable(left.as_fd()), readable(right.as_fd()), readable(stop)];
            match poll(&mut polled, self.patience().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::os("wait for", "packets", error)),
            }
            let [from_left, from_right, stopped] =
                polled.map(|polled| !polled.revents().is_empty());
            if stopped {
                return Ok(());
            }
            for (at, something) in [from_left, from_right].into_iter().enumerate() {
                if something {
                    self.take(at)?;
                }
            }
        }
    }

    /// Writes what is due, both ways.
    fn deliver(&mut self) -> Result<()> {
        let now_ns = nanoseconds(self.begun);
        for (at, direction) in self.directions.iter_mut().enumerate() {
            let device = &self.devices[1 - at];
            while let Some(packet) = direction.impairment.due(now_ns) {
                match rustix::io::write(device, packet) {
                    Ok(_) => {}
                    Err(Errno::BADFD) => return Err(gone(device)),
                    Err(_) => direction.refused += 1,
                }
            }
        }
        Ok(())
    }

    /// Reads what a device has, and no more than a batch.
    fn take(&mut self, at: usize) -> Result<()> {
        let device = &self.devices[at];
        for _ in 0..BATCH {
            match rustix::io::read(device, &mut self.buffer) {
                Ok(bytes) => {
                    let now_ns = nanoseconds(self.begun);
                    self.directions[at].impairment.take(&self.buffer[..bytes], now_ns);
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // The last two are seen while it goes (drivers/net/tun.c).
                Err(Errno::BADFD | Errno::FAULT | Errno::IO) => return Err(gone(device)),
                Err(error) => return Err(Error::os("read from", quoted(device.name()), error)),
            }
        }
        Ok(())
    }

    /// How long to wait at most.
    fn patience(&self) -> Option<Timespec> {
        let due = self.directions.iter().filter_map(|each| each.impairment.next_due_ns());
        let left_ns = due.min()?.saturating_sub(nanoseconds(self.begun));
        let (seconds, rest) = (left_ns / SECOND_NS, left_ns % SECOND_NS);
        // Both are far below the largest that their types hold.
        Some(Timespec { tv_sec: seconds as i64, tv_nsec: rest as i64 })
    }
}

/// Makes the device of an end, on a thread of its own: a namespace is entered by a thread for good.
fn open(place: &Place, mtu: u16) -> Result<Tun> {
    let bytes = place.device.len();
    if bytes == 0 || bytes > tun::MOST_NAME_BYTES || place.prefix_bits > 32 {
        let why =
            format!("a device name has 1 to {} bytes, a prefix 0 to 32 bits", tun::MOST_NAME_BYTES);
        return Err(Error::new(ErrorKind::Invalid, "open", quoted(&place.device), why));
    }
    let on_thread = || -> Result<Tun> {
        if let Some(path) = &place.namespace {
            let object = format!("network namespace {}", quoted(&path.display().to_string()));
            enter_network(path).map_err(|error| Error::os("enter", object, error))?;
        }
        let cannot = |error| refused(&place.device, error);
        let device = Tun::open(&place.device, false).map_err(cannot)?;
        let named = || format!("TUN device {}", quoted(&place.device));
        let cannot = |error| Error::os("configure", named(), error);
        device.set_waiting(false).map_err(cannot)?;
        tun::configure(&place.device, place.address, place.prefix_bits, mtu).map_err(cannot)?;
        Ok(device)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("entering".into());
        let thread = thread.spawn_scoped(scope, on_thread);
        let thread = thread.map_err(|error| Error::os("start", "a thread", error))?;
        thread.join().unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Os, "open", quoted(&place.device), "its thread panicked"))
        })
    })
}

/// Why a device was refused, in words where the kernel's number says little.
fn refused(device: &str, error: io::Error) -> Error {
    let why = |kind, reason| Error::new(kind, "open", format!("TUN device '{device}'"), reason);
    match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => why(ErrorKind::Taken, "another process has it"),
        Some(Errno::INVAL) => why(ErrorKind::Invalid, "a device of that name is not a TUN device"),
        Some(Errno::NOENT) => why(ErrorKind::NoDevice, "there is no /dev/net/tun"),
        Some(Errno::PERM) => why(ErrorKind::Denied, "that needs CAP_NET_ADMIN (root)"),
        _ => Error::os("open", format!("TUN device '{device}'"), error),
    }
}

fn gone(device: &Tun) -> Error {
    Error::new(ErrorKind::NoDevice, "use", quoted(device.name()), "the device was removed")
}

fn quoted(name: &str) -> String {
    format!("'{name}'")
}

/// Since then; it takes 584 years to overflow.
fn nanoseconds(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}
