//! The way out: the header of IP is completed here, and a datagram too long for the device is cut.

use super::{Shared, now_ns};
use crate::counts::Counts;
use crate::drop_reason::DropReason;
use crate::fragment::Pieces;
use crate::outgoing::Outgoing;
use crate::spans;
use crate::wire::ipv4::{Header, LEAST_HEADER_BYTES, MOST_BYTES, MOST_HEADER_BYTES};
use crate::wire::options;
use rustix::fd::AsFd;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::Ordering;
use weir::Lent;
use weir_sys::tun::VNET_HEADER_BYTES;

/// What a datagram carries: private bytes, or those of a message in its station's ring.
pub enum Payload<'a> {
    /// Private.
    Private(&'a [u8]),
    /// In the ring, from `offset` on.
    Ring {
        /// The message.
        lent: &'a Lent<'a>,
        /// Where the payload begins in it.
        offset: usize,
    },
}

/// What became of a datagram.
pub enum Sent {
    /// It is on its way, or was dropped and counted.
    Done,
    /// It is for ourselves.
    ToUs(Vec<u8>),
}

impl Payload<'_> {
    /// Its length.
    pub fn len(&self) -> usize {
        match self {
            Payload::Private(bytes) => bytes.len(),
            Payload::Ring { lent, offset } => lent.len() - offset,
        }
    }

    /// Copies the beginning out.
    pub fn copy_to(&self, to: &mut [u8]) {
        match self {
            Payload::Private(bytes) => to.copy_from_slice(&bytes[..to.len()]),
            Payload::Ring { lent, offset } => lent.copy_to(*offset, to),
        }
    }

    fn write_to(
        &self,
        shared: &Shared,
        head: &[u8],
        part: std::ops::Range<usize>,
    ) -> std::io::Result<usize> {
        let fd = shared.tun.as_fd();
        match self {
            Payload::Private(bytes) => {
                let parts =
                    [std::io::IoSlice::new(head), std::io::IoSlice::new(&bytes[part.clone()])];
                Ok(rustix::io::writev(fd, &parts)?)
            }
            Payload::Ring { lent, offset } => {
                lent.write_to(fd, head, offset + part.start, part.len())
            }
        }
    }
}

/// Milliseconds since midnight, universal time, as ICMP and IP count them (RFC 792, page 17).
pub fn ms_since_midnight() -> u32 {
    let now = clock_gettime(ClockId::Realtime);
    let of_day = now.tv_sec.rem_euclid(86_400) as u32;
    of_day * 1000 + (now.tv_nsec / 1_000_000) as u32
}

impl Shared {
    /// Sends a datagram, or drops it and counts why.
    pub fn send(&self, out: &Outgoing<'_>, payload: &Payload<'_>) -> Sent {
        let _span = spans::COMPLETE.enter();
        match self.try_send(out, payload) {
            Ok(sent) => sent,
            Err(why) => {
                self.drop_out(why, out, payload);
                Sent::Done
            }
        }
    }

    fn try_send(&self, out: &Outgoing<'_>, payload: &Payload<'_>) -> Result<Sent, DropReason> {
        let own = self.settings.address;
        if !self.net.is_host(out.destination) {
            return Err(DropReason::Destination);
        }
        if !self.net.has(out.destination) {
            self.routes().hop(out.destination, now_ns).ok_or(DropReason::NoRoute)?;
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
        Counts::add(&self.counts.sent, 1);
        self.log_out(&header, options, payload);
        if out.destination == own {
            return Ok(Sent::ToUs(whole(&header, options, payload)?));
        }
        if total_bytes <= usize::from(self.settings.mtu) {
            self.put(&header, options, payload, 0..bytes)?;
            return Ok(Sent::Done);
        }
        let mtu = usize::from(self.settings.mtu);
        for piece in Pieces::new(header, options, bytes, mtu).map_err(|_| DropReason::TooBig)? {
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
        part: std::ops::Range<usize>,
    ) -> Result<(), DropReason> {
        let mut head = [0; VNET_HEADER_BYTES + MOST_HEADER_BYTES];
        let device_header = if self.tun.has_vnet_header() { VNET_HEADER_BYTES } else { 0 };
        let emitted =
            header.emit(options, &mut head[device_header..]).ok_or(DropReason::BadOptions)?;
        let head = &head[..device_header + emitted];
        match weir_profile::system(&spans::TUN_WRITE, || payload.write_to(self, head, part)) {
            Ok(bytes) => {
                Counts::add(&self.counts.sent_packets, 1);
                Counts::add(&self.counts.sent_bytes, (bytes - device_header) as u64);
                Ok(())
            }
            Err(cause) => {
                self.log_refusal(&cause);
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
