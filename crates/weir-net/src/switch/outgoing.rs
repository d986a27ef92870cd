//! The way out: the header of IP is completed here, and a datagram too long for the device is cut.

use super::device::Device;
use super::journal::Journal;
use super::payload::Payload;
use super::{Settings, now_ns};
use crate::counts::Counts;
use crate::drop_reason::DropReason;
use crate::fragment::Pieces;
use crate::net::Net;
use crate::outgoing::Outgoing;
use crate::routes::{Hop, Routes};
use crate::spans;
use crate::wire::ipv4::{Header, LEAST_HEADER_BYTES, MOST_BYTES, MOST_HEADER_BYTES};
use crate::wire::options;
use rustix::fd::AsFd;
use rustix::time::{ClockId, clock_gettime};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_sys::tun::VNET_HEADER_BYTES;

/// What became of a datagram.
pub enum Sent {
    /// It is on its way, or was dropped and counted.
    Done,
    /// It is for ourselves.
    ToUs(Vec<u8>),
}

/// Milliseconds since midnight, universal time, as ICMP and IP count them (RFC 792, page 17).
pub fn ms_since_midnight() -> u32 {
    let now = clock_gettime(ClockId::Realtime);
    let of_day = now.tv_sec.rem_euclid(86_400) as u32;
    of_day * 1000 + (now.tv_nsec / 1_000_000) as u32
}

/// Sends datagrams through the device, from our address.
#[derive(Debug)]
pub struct Transmitter {
    pub device: Device,
    pub journal: Journal,
    pub net: Net,
    mtu: usize,
    routes: Mutex<Routes>,
    /// The number of the next datagram (RFC 791; unique as RFC 6864 asks, in the lower 16 bits).
    next_id: AtomicU32,
}

impl Transmitter {
    /// For the host that the settings describe.
    pub fn new(settings: &Settings, device: Device) -> Transmitter {
        let net = Net::new(settings.address, settings.prefix_bits);
        Transmitter {
            device,
            journal: Journal::default(),
            net,
            mtu: usize::from(settings.mtu),
            routes: Mutex::new(Routes::new(net, settings.gateway)),
            next_id: AtomicU32::new(std::process::id().wrapping_mul(0x9e37)),
        }
    }

    pub fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next stop on the way to `destination`; none where there is no gateway.
    pub fn hop(&self, destination: Ipv4Addr) -> Option<Hop> {
        self.routes().hop(destination, now_ns)
    }

    /// Takes a redirect, if it counts.
    pub fn learn(&self, destination: Ipv4Addr, gateway: Ipv4Addr, from: Ipv4Addr) {
        let counts = &self.journal.counts;
        let learned = self.routes().redirect(destination, gateway, from, now_ns());
        let counter = if learned.is_ok() { &counts.redirects } else { &counts.redirects_refused };
        Counts::add(counter, 1);
    }

    /// Sends a datagram, or drops it and counts why.
    pub fn send(&self, out: &Outgoing<'_>, payload: &Payload<'_>) -> Sent {
        let _span = spans::COMPLETE.enter();
        match self.try_send(out, payload) {
            Ok(sent) => sent,
            Err(why) => {
                self.journal.drop_out(why, self.net.address, out, payload);
                Sent::Done
            }
        }
    }

    fn try_send(&self, out: &Outgoing<'_>, payload: &Payload<'_>) -> Result<Sent, DropReason> {
        let own = self.net.address;
        if !self.net.is_host(out.destination) {
            return Err(DropReason::Destination);
        }
        if !self.net.has(out.destination) {
            self.hop(out.destination).ok_or(DropReason::NoRoute)?;
        }
        let mut room = [0; MOST_HEADER_BYTES - LEAST_HEADER_BYTES];
        let padded = out.options.len().next_multiple_of(4);
        let options = room.get_mut(..padded).ok_or(DropReason::BadOptions)?;
        if padded > 0 {
            options[..out.options.len()].copy_from_slice(out.options);
            options::verify(options).map_err(|_| DropReason::BadOptions)?;
            options::update(options, own, ms_since_midnight())
                .map_err(|_| DropReason::BadOptions)?;
        }
        let bytes = payload.len();
        let total_bytes = LEAST_HEADER_BYTES + padded + bytes;
        if total_bytes > MOST_BYTES {
            return Err(DropReason::TooBig);
        }
        let header = Header {
            tos: out.tos,
            total_bytes: total_bytes as u16,
            // Relaxed: only that no two are alike matters.
            id: self.next_id.fetch_add(1, Ordering::Relaxed) as u16,
            dont_fragment: out.dont_fragment,
            more_fragments: false,
            offset_bytes: 0,
            ttl: out.ttl,
            protocol: out.protocol,
            source: own,
            destination: out.destination,
        };
        Counts::add(&self.journal.counts.sent, 1);
        self.journal.log_out(&header, options, payload);
        if out.destination == own {
            return Ok(Sent::ToUs(whole(&header, options, payload)?));
        }
        if total_bytes <= self.mtu {
            self.put(&header, options, payload, 0..bytes)?;
            return Ok(Sent::Done);
        }
        for piece in
            Pieces::new(header, options, bytes, self.mtu).map_err(|_| DropReason::TooBig)?
        {
            self.put(&piece.header, &piece.options, payload, piece.payload)?;
        }
        Ok(Sent::Done)
    }

    /// Writes one packet: a header of ours, and a part of the payload from where it lies.
    fn put(
        &self,
        header: &Header,
        options: &[u8],
        payload: &Payload<'_>,
        part: Range<usize>,
    ) -> Result<(), DropReason> {
        let mut head = [0; VNET_HEADER_BYTES + MOST_HEADER_BYTES];
        let device_header = self.device.header_bytes();
        let emitted =
            header.emit(options, &mut head[device_header..]).ok_or(DropReason::BadOptions)?;
        let head = &head[..device_header + emitted];
        let counts = &self.journal.counts;
        let write = || payload.write_to(self.device.as_fd(), head, part);
        match weir_profile::system(&spans::TUN_WRITE, write) {
            Ok(bytes) => {
                Counts::add(&counts.sent_packets, 1);
                Counts::add(&counts.sent_bytes, (bytes - device_header) as u64);
                Ok(())
            }
            Err(cause) => {
                self.journal.log_refusal(&cause);
                Err(DropReason::Device)
            }
        }
    }
}

/// A datagram in one piece, for ourselves.
fn whole(header: &Header, options: &[u8], payload: &Payload<'_>) -> Result<Vec<u8>, DropReason> {
    let mut bytes = vec![0; usize::from(header.total_bytes)];
    let emitted = header.emit(options, &mut bytes).ok_or(DropReason::BadOptions)?;
    payload.copy_to(&mut bytes[emitted..]);
    Ok(bytes)
}
