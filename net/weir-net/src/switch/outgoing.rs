//! The send path: completes the IP header, and fragments a datagram too long for the device.

use super::device::Device;
use super::journal::Journal;
use super::payload::Payload;
use super::{SwitchSettings, now_ns};
use crate::counts::SwitchCounts;
use crate::division::{FilledHeader, HostFacts};
use crate::drop_reason::DropReason;
use crate::fragment::Pieces;
use crate::message::Checksum;
use crate::net::Net;
use crate::outgoing::{Offload, Outgoing};
use crate::routes::{NextHop, Routes};
use crate::spans;
use crate::sys::tun::{VNET_HEADER_BYTES, vnet_header};
use crate::wire::ipv4::{self, Header, LEAST_HEADER_BYTES, MOST_HEADER_BYTES};
use crate::wire::ports::{LEAST_TCP_BYTES, TCP_CHECKSUM_AT};
use rustix::fd::AsFd;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The result of sending a datagram.
pub enum SendResult {
    /// It is on its way, or was dropped and counted.
    Done,
    /// It is for this host itself.
    ToUs(Vec<u8>, Checksum),
}

/// Sends datagrams through the device, from our address.
#[derive(Debug)]
pub struct Transmitter {
    pub device: Device,
    pub journal: Journal,
    pub net: Net,
    mtu: usize,
    routes: Mutex<Routes>,
    /// The id of the next datagram (RFC 791; unique as RFC 6864 asks, in the lower 16 bits).
    next_id: AtomicU32,
}

impl Transmitter {
    /// Creates it for the host that the settings describe.
    pub fn new(settings: &SwitchSettings, device: Device) -> Transmitter {
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

    /// Returns the next hop on the way to `destination`; none where there is no gateway.
    pub fn hop(&self, destination: Ipv4Addr) -> Option<NextHop> {
        self.routes().hop(destination, now_ns)
    }

    /// Applies a redirect, if it is valid.
    pub fn learn(&self, destination: Ipv4Addr, gateway: Ipv4Addr, from: Ipv4Addr) {
        let counts = &self.journal.counts;
        let learned = self.routes().redirect(destination, gateway, from, now_ns());
        let counter = if learned.is_ok() { &counts.redirects } else { &counts.redirects_refused };
        SwitchCounts::add(counter, 1);
    }

    /// Sends a datagram, or drops it and counts why.
    pub fn send(&self, out: &Outgoing<'_>, payload: &Payload<'_>) -> SendResult {
        self.finish(out, payload, |net| net.try_send(out, payload))
    }

    fn finish(
        &self,
        out: &Outgoing<'_>,
        payload: &Payload<'_>,
        send: impl FnOnce(&Self) -> Result<SendResult, DropReason>,
    ) -> SendResult {
        let span = spans::COMPLETE.enter();
        match send(self) {
            Ok(sent) => {
                span.end_at_last();
                sent
            }
            Err(why) => {
                self.journal.drop_out(why, self.net.address, out, payload);
                SendResult::Done
            }
        }
    }

    fn try_send(
        &self,
        out: &Outgoing<'_>,
        payload: &Payload<'_>,
    ) -> Result<SendResult, DropReason> {
        let bytes = payload.len();
        // Relaxed: only uniqueness matters.
        let next_id = |packets| self.next_id.fetch_add(packets, Ordering::Relaxed) as u16;
        let filled = FilledHeader::of(out, bytes, &self.host(), next_id)?;
        self.pass(&filled.header, filled.options(), None, out.offload, payload)
    }

    fn host(&self) -> HostFacts {
        HostFacts { net: self.net, mtu: self.mtu, offloads: self.device.offloads() }
    }

    /// Sends a datagram whose header the station has filled, or drops it and counts why. Of the
    /// header, the switch checks that its lengths agree, and that it claims neither another source
    /// nor another protocol than the station has.
    pub fn send_filled(
        &self,
        out: &Outgoing<'_>,
        head: &[u8],
        payload: &Payload<'_>,
    ) -> SendResult {
        self.finish(out, payload, |net| net.try_send_filled(out, head, payload))
    }

    fn try_send_filled(
        &self,
        out: &Outgoing<'_>,
        head: &[u8],
        payload: &Payload<'_>,
    ) -> Result<SendResult, DropReason> {
        let bytes = head.len() + payload.len();
        let (header, header_bytes) = ipv4::shape_of(head, bytes).ok_or(DropReason::BadMessage)?;
        if header_bytes != head.len() || usize::from(header.total_bytes) != bytes {
            return Err(DropReason::BadMessage);
        }
        if header.source != self.net.address {
            return Err(DropReason::Source);
        }
        if header.protocol != out.protocol {
            return Err(DropReason::NotItsProtocol);
        }
        match out.offload {
            Offload::None => {}
            _ if !self.device.offloads() => return Err(DropReason::BadMessage),
            Offload::Checksum if bytes > self.mtu => return Err(DropReason::TooBig),
            Offload::Checksum | Offload::Segments(_) => {}
        }
        self.pass(&header, &head[LEAST_HEADER_BYTES..], Some(head), out.offload, payload)
    }

    /// Passes a datagram on: to the device, in fragments if it is long, or to this host. `ready` is
    /// its header as its station filled it.
    fn pass(
        &self,
        header: &Header,
        options: &[u8],
        ready: Option<&[u8]>,
        offload: Offload,
        payload: &Payload<'_>,
    ) -> Result<SendResult, DropReason> {
        let own = self.net.address;
        if !self.net.has(header.destination) {
            self.hop(header.destination).ok_or(DropReason::NoRoute)?;
        }
        SwitchCounts::add(&self.journal.counts.sent, 1);
        self.journal.log_out(header, options, payload);
        if header.destination == own {
            let checksum = match offload {
                Offload::None => Checksum::ToCheck,
                Offload::Checksum | Offload::Segments(_) => Checksum::LeftOut,
            };
            return Ok(SendResult::ToUs(whole(header, options, payload)?, checksum));
        }
        let bytes = payload.len();
        if usize::from(header.total_bytes) <= self.mtu || offload != Offload::None {
            let device_header = self.device_header(offload, options.len(), payload)?;
            let head = |room: &mut [u8]| match ready {
                Some(ready) => copied(ready, room),
                None => header.emit(options, room),
            };
            self.put(&device_header, head, payload, 0..bytes)?;
            return Ok(SendResult::Done);
        }
        // Fragments of two stations must not be taken for those of one datagram. Relaxed: only
        // uniqueness matters.
        let id = match ready {
            Some(_) => self.next_id.fetch_add(1, Ordering::Relaxed) as u16,
            None => header.id,
        };
        for piece in Pieces::new(Header { id, ..*header }, options, bytes, self.mtu)
            .map_err(|_| DropReason::TooBig)?
        {
            let none = [0; VNET_HEADER_BYTES];
            let head = |room: &mut [u8]| piece.header.emit(&piece.options, room);
            self.put(&none, head, payload, piece.payload)?;
        }
        Ok(SendResult::Done)
    }

    /// Makes the device's header, which says what is left to it.
    fn device_header(
        &self,
        offload: Offload,
        options_bytes: usize,
        payload: &Payload<'_>,
    ) -> Result<[u8; VNET_HEADER_BYTES], DropReason> {
        let segment_bytes = match offload {
            Offload::None => return Ok([0; VNET_HEADER_BYTES]),
            Offload::Checksum => 0,
            Offload::Segments(bytes) => bytes,
        };
        let mut tcp = [0; LEAST_TCP_BYTES];
        if payload.len() < tcp.len() {
            return Err(DropReason::BadMessage);
        }
        payload.copy_to(&mut tcp);
        let tcp_bytes = u16::from(tcp[12] >> 4) * 4;
        let ip_bytes = (LEAST_HEADER_BYTES + options_bytes) as u16;
        // What carries no more than a segment is not cut.
        let data_bytes = payload.len().saturating_sub(usize::from(tcp_bytes));
        let segment_bytes = if data_bytes > usize::from(segment_bytes) { segment_bytes } else { 0 };
        let data_bytes = if segment_bytes > 0 { usize::from(segment_bytes) } else { data_bytes };
        if usize::from(ip_bytes + tcp_bytes) + data_bytes > self.mtu {
            return Err(DropReason::TooBig);
        }
        Ok(vnet_header(ip_bytes, TCP_CHECKSUM_AT as u16, ip_bytes + tcp_bytes, segment_bytes))
    }

    /// Writes one packet: a header, and a part of the payload from where it lies.
    fn put(
        &self,
        vnet: &[u8; VNET_HEADER_BYTES],
        header: impl FnOnce(&mut [u8]) -> Option<usize>,
        payload: &Payload<'_>,
        part: Range<usize>,
    ) -> Result<(), DropReason> {
        let mut head = [0; VNET_HEADER_BYTES + MOST_HEADER_BYTES];
        let device_header = self.device.header_bytes();
        head[..device_header].copy_from_slice(&vnet[..device_header]);
        let emitted = header(&mut head[device_header..]).ok_or(DropReason::BadOptions)?;
        let head = &head[..device_header + emitted];
        let counts = &self.journal.counts;
        let write = || payload.write_to(self.device.as_fd(), head, part);
        match weir_profile::system(&spans::TUN_WRITE, write) {
            Ok(bytes) => {
                SwitchCounts::add(&counts.sent_packets, 1);
                SwitchCounts::add(&counts.sent_bytes, (bytes - device_header) as u64);
                Ok(())
            }
            Err(cause) => {
                self.journal.log_refusal(&cause);
                Err(DropReason::Device)
            }
        }
    }
}

/// Copies a header that a station has filled.
fn copied(ready: &[u8], room: &mut [u8]) -> Option<usize> {
    room.get_mut(..ready.len())?.copy_from_slice(ready);
    Some(ready.len())
}

/// A whole datagram for this host itself.
fn whole(header: &Header, options: &[u8], payload: &Payload<'_>) -> Result<Vec<u8>, DropReason> {
    let mut bytes = vec![0; usize::from(header.total_bytes)];
    let emitted = header.emit(options, &mut bytes).ok_or(DropReason::BadOptions)?;
    payload.copy_to(&mut bytes[emitted..]);
    Ok(bytes)
}
