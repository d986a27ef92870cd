//! The send path: completes the IP header, and fragments a datagram too long for the device.

use super::device::{Device, MOST_LINK_BYTES};
use super::journal::Journal;
use super::payload::Payload;
use super::{SwitchSettings, now_ns};
use crate::arp::{ArpSent, ArpTable, Route};
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
use crate::wire::ethernet::{self, FrameHeader, MacAddress};
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
    /// The neighbours on an Ethernet.
    arp: Option<Mutex<ArpTable>>,
    /// The id of the next datagram (RFC 791; unique as RFC 6864 asks, in the lower 16 bits).
    next_id: AtomicU32,
}

impl Transmitter {
    /// Creates it for the host that the settings describe.
    pub fn new(settings: &SwitchSettings, device: Device) -> Transmitter {
        let net = Net::new(settings.address, settings.prefix_bits);
        let arp = device.ethernet().map(|own| Mutex::new(ArpTable::new(net, own)));
        Transmitter {
            device,
            arp,
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

    /// Returns the neighbours, if the device is an Ethernet one.
    pub fn arp(&self) -> Option<MutexGuard<'_, ArpTable>> {
        self.arp.as_ref().map(|arp| arp.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells the wire our address, where there is one.
    pub fn announce(&self) {
        if let Some(arp) = self.arp() {
            self.send_arp(arp.announcement());
        }
    }

    /// Takes a message of ARP: answers it, and sends the packets that have waited for it.
    pub fn take_arp(&self, message: &[u8]) {
        let Some(mut arp) = self.arp() else { return };
        let outcome = arp.take(message, now_ns());
        // They leave within the lock, before others to the same neighbour.
        if let Some(answer) = outcome.answer {
            self.send_arp(answer);
        }
        let from = self.device.header_bytes();
        for mut frame in outcome.packets {
            let header = frame_header(arp.own(), outcome.at);
            frame[from..from + header.len()].copy_from_slice(&header);
            let write = || rustix::io::write(&self.device, &frame).map_err(Into::into);
            if let Err(why) = self.count_written(weir_profile::system(&spans::TUN_WRITE, write)) {
                self.journal.counts.drop(why);
            }
        }
    }

    /// Asks again for neighbours that have not answered, and drops what waited for them too long.
    pub fn expire(&self) {
        let Some(mut arp) = self.arp() else { return };
        let dropped = arp.tick(now_ns(), &mut |message| self.send_arp(message));
        self.drop_held(dropped);
    }

    /// Sends a message of ARP. One that the device refuses is lost, as on the wire.
    fn send_arp(&self, sent: ArpSent) {
        let source = sent.message.sender_at;
        let header = FrameHeader { destination: sent.to, source, kind: ethernet::ARP };
        let vnet = [0; VNET_HEADER_BYTES];
        let parts = [&vnet[..self.device.header_bytes()], &header.emit(), &sent.message.emit()];
        if let Err(cause) = rustix::io::write(&self.device, &parts.concat()) {
            self.journal.log_refusal(&cause.into());
        }
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
        let mut neighbour = header.destination;
        if !self.net.has(neighbour)
            && let NextHop::Gateway(gateway) = self.hop(neighbour).ok_or(DropReason::NoRoute)?
        {
            neighbour = gateway;
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
            self.put(neighbour, &device_header, head, payload, 0..bytes)?;
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
            self.put(neighbour, &none, head, payload, piece.payload)?;
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
        // It counts from the beginning of the frame.
        let ip_bytes = ip_bytes + self.device.frame_header_bytes() as u16;
        Ok(vnet_header(ip_bytes, TCP_CHECKSUM_AT as u16, ip_bytes + tcp_bytes, segment_bytes))
    }

    /// Writes one packet to a neighbour: a header, and a part of the payload from where it lies. On
    /// an Ethernet it is held where the neighbour's address is not known yet.
    fn put(
        &self,
        neighbour: Ipv4Addr,
        vnet: &[u8; VNET_HEADER_BYTES],
        header: impl FnOnce(&mut [u8]) -> Option<usize>,
        payload: &Payload<'_>,
        part: Range<usize>,
    ) -> Result<(), DropReason> {
        let mut head = [0; MOST_LINK_BYTES + MOST_HEADER_BYTES];
        let device_header = self.device.header_bytes();
        head[..device_header].copy_from_slice(&vnet[..device_header]);
        let link_bytes = device_header + self.device.frame_header_bytes();
        let emitted = header(&mut head[link_bytes..]).ok_or(DropReason::BadOptions)?;
        let head = &mut head[..link_bytes + emitted];
        if let Some(mut arp) = self.arp() {
            let own = arp.own();
            let frame = || {
                let mut frame = head.to_vec();
                frame.resize(head.len() + part.len(), 0);
                payload.copy_from(part.start, &mut frame[head.len()..]);
                frame
            };
            match arp.route(neighbour, now_ns(), frame, &mut |message| self.send_arp(message)) {
                Route::At(to) => {
                    head[device_header..link_bytes].copy_from_slice(&frame_header(own, to))
                }
                Route::Waits { dropped } => {
                    self.drop_held(dropped);
                    return Ok(());
                }
            }
        }
        let write = || payload.write_to(self.device.as_fd(), head, part);
        self.count_written(weir_profile::system(&spans::TUN_WRITE, write))
    }

    /// Counts a packet that was handed to the device, or was to be.
    fn count_written(&self, written: std::io::Result<usize>) -> Result<(), DropReason> {
        let counts = &self.journal.counts;
        match written {
            Ok(bytes) => {
                let link_bytes = self.device.header_bytes() + self.device.frame_header_bytes();
                SwitchCounts::add(&counts.sent_packets, 1);
                SwitchCounts::add(&counts.sent_bytes, bytes.saturating_sub(link_bytes) as u64);
                Ok(())
            }
            Err(cause) => {
                self.journal.log_refusal(&cause);
                Err(DropReason::Device)
            }
        }
    }

    fn drop_held(&self, packets: usize) {
        (0..packets).for_each(|_| self.journal.counts.drop(DropReason::NoNeighbour));
    }
}

/// The header of a frame with a packet of IP in it.
fn frame_header(source: MacAddress, destination: MacAddress) -> [u8; ethernet::HEADER_BYTES] {
    FrameHeader { destination, source, kind: ethernet::IPV4 }.emit()
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
