//! Two TUN devices, the impairments between them, and the loop that moves the packets.

use super::{Impairment, ImpairmentCounts, Impairments};
use crate::elapsed::elapsed_ns;
use crate::readiness::wait_for;
use crate::sys::tun::{self, Tun};
use crate::{Error, ErrorKind, Result};
use fastrand::Rng;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use serde::Serialize;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_sys::namespace::enter_network;

/// Longest possible packet (RFC 791).
const MOST_PACKET_BYTES: usize = 65_535;
/// Packets read from one device before the loop checks which are due and what the other has.
const BATCH: usize = 64;

/// Where an end of the relay lies: a TUN device that is created for it and removed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayEnd {
    /// The network namespace, as a file (`/run/netns/NAME`, `/proc/PID/ns/net`); by default that of
    /// this process.
    pub namespace: Option<PathBuf>,
    /// Name of the device.
    pub device: String,
    /// Address of the kernel's side of it.
    pub address: Ipv4Addr,
    /// Bits of the address that name its network, at most 32.
    pub prefix_bits: u8,
}

/// The counts of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectionCounts {
    /// By the impairment.
    #[serde(flatten)]
    pub impairment: ImpairmentCounts,
    /// Copies that left and that the kernel refused: a corrupted version field, a device that is
    /// down.
    #[serde(rename = "packets_refused")]
    pub refused: u64,
}

/// One direction: packets are read from one device, impaired, and written to the other.
#[derive(Debug)]
struct RelayDirection {
    impairment: Impairment,
    refused: u64,
}

/// Two devices, and the impairments between them.
#[derive(Debug)]
pub struct Relay {
    /// Left and right.
    devices: [Tun; 2],
    /// From left to right, and from right to left.
    directions: [RelayDirection; 2],
    begun: Instant,
    buffer: Vec<u8>,
}

impl Relay {
    /// Creates both devices and switches them on, for packets of at most `mtu` bytes. Packets to
    /// the right are impaired from the seed of `settings`, packets to the left from a seed derived
    /// from it.
    ///
    /// # Errors
    /// The namespace cannot be entered, the device belongs to another process, or this user may
    /// not.
    pub fn open(
        left: &RelayEnd,
        right: &RelayEnd,
        mtu: u16,
        settings: Impairments,
    ) -> Result<Relay> {
        let devices = [open(left, mtu)?, open(right, mtu)?];
        let back = Impairments { seed: Rng::with_seed(settings.seed).u64(..), ..settings };
        let direction =
            |settings| RelayDirection { impairment: Impairment::new(settings), refused: 0 };
        Ok(Relay {
            devices,
            directions: [direction(settings), direction(back)],
            begun: Instant::now(),
            buffer: vec![0; MOST_PACKET_BYTES],
        })
    }

    /// Returns the counts so far: to the right, to the left.
    pub fn counts(&self) -> [DirectionCounts; 2] {
        [0, 1].map(|at: usize| {
            let RelayDirection { impairment, refused } = &self.directions[at];
            DirectionCounts { impairment: impairment.counts(), refused: *refused }
        })
    }

    /// Passes packets until `stop` becomes readable. Pending packets are dropped then.
    ///
    /// # Errors
    /// `NoDevice` when a device was removed.
    pub fn run(&mut self, stop: BorrowedFd) -> Result<()> {
        loop {
            self.deliver()?;
            let [left, right] = &self.devices;
            let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut polled = [readable(left.as_fd()), readable(right.as_fd()), readable(stop)];
            wait_for(&mut polled, self.patience(), "packets")?;
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

    /// Writes the packets that are due, both ways.
    fn deliver(&mut self) -> Result<()> {
        let now_ns = elapsed_ns(self.begun);
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

    /// Reads packets of a device, at most one batch.
    fn take(&mut self, at: usize) -> Result<()> {
        let device = &self.devices[at];
        for _ in 0..BATCH {
            match rustix::io::read(device, &mut self.buffer) {
                Ok(bytes) => {
                    let now_ns = elapsed_ns(self.begun);
                    self.directions[at].impairment.take(&self.buffer[..bytes], now_ns);
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // A device that is being removed fails with the last two (drivers/net/tun.c).
                Err(Errno::BADFD | Errno::FAULT | Errno::IO) => return Err(gone(device)),
                Err(error) => return Err(Error::os("read from", quoted(device.name()), error)),
            }
        }
        Ok(())
    }

    /// Returns how long to wait at most.
    fn patience(&self) -> Option<Duration> {
        let due = self.directions.iter().filter_map(|each| each.impairment.next_due_ns());
        let left_ns = due.min()?.saturating_sub(elapsed_ns(self.begun));
        Some(Duration::from_nanos(left_ns))
    }
}

/// Creates the device of an end on a thread of its own: entering a namespace lasts for the thread's
/// life.
fn open(place: &RelayEnd, mtu: u16) -> Result<Tun> {
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
        let cannot = |error| Error::of_device(&place.device, error);
        let device = Tun::open(&place.device, false).map_err(cannot)?;
        let named = || format!("device {}", quoted(&place.device));
        let cannot = |error| Error::os("configure", named(), error);
        device.dont_wait().map_err(cannot)?;
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

fn gone(device: &Tun) -> Error {
    Error::new(ErrorKind::NoDevice, "use", quoted(device.name()), "the device was removed")
}

fn quoted(name: &str) -> String {
    format!("'{name}'")
}
