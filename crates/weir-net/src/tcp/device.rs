//! Packets between smoltcp and a station. smoltcp reads a packet where the station holds it, and what
//! it sends goes to an [`Outlet`] at once, so that no packet waits here and none costs an allocation.

use crate::wire::checksum::RunningSum;
use crate::wire::ipv4::{Datagram, protocol};
use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium, PacketMeta};
use smoltcp::time::Instant;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroUsize;

/// Longest segment, with its header, that a device cuts.
const MOST_SEGMENT_BYTES: NonZeroUsize = NonZeroUsize::new(65_535).unwrap();
/// Where the checksum lies in a header of TCP.
const CHECKSUM_AT: usize = 16;
/// Least bytes of a header of TCP.
const LEAST_HEADER_BYTES: usize = 20;

/// Where packets go.
pub trait Outlet {
    /// Sends an IP datagram of `bytes`, which `fill` writes. Where `segment_bytes` is there, the
    /// device cuts it into segments that carry so many bytes.
    fn send(&mut self, bytes: usize, segment_bytes: Option<u16>, fill: &mut dyn FnMut(&mut [u8]));
}

/// What is counted of a segment.
pub struct Segment {
    source: u16,
    destination: u16,
    sequence: u32,
    /// Bytes of data.
    pub data_bytes: u32,
    /// The flags.
    pub flags: u8,
}

impl Segment {
    /// Looks at the payload of an IP datagram.
    pub fn of(payload: &[u8]) -> Option<Segment> {
        let header = payload.first_chunk::<LEAST_HEADER_BYTES>()?;
        let header_bytes = usize::from(header[12] >> 4) * 4;
        let data_bytes = payload.len().checked_sub(header_bytes.max(LEAST_HEADER_BYTES))?;
        Some(Segment {
            source: u16::from_be_bytes([header[0], header[1]]),
            destination: u16::from_be_bytes([header[2], header[3]]),
            sequence: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            data_bytes: data_bytes as u32,
            flags: header[13],
        })
    }
}

/// Counts of segments that are sent, and the end of what was sent so far, by our port and the other
/// side.
#[derive(Debug, Default)]
pub struct SentSegments {
    /// Segments sent.
    pub segments: u64,
    /// Those with data that was sent before.
    pub again: u64,
    /// Bytes of data, copies included.
    pub bytes: u64,
    ends: HashMap<(u16, SocketAddrV4), u32>,
}

impl SentSegments {
    /// Forgets a connection.
    pub fn forget(&mut self, local_port: u16, remote: SocketAddrV4) {
        self.ends.remove(&(local_port, remote));
    }

    fn count(&mut self, packet: &[u8], segment_bytes: Option<u16>) {
        let Ok(datagram) = Datagram::check(packet) else { return };
        let Some(segment) = Segment::of(datagram.payload()) else { return };
        let size = u32::from(segment_bytes.unwrap_or(u16::MAX));
        let segments = u64::from(segment.data_bytes.div_ceil(size).max(1));
        self.segments += segments;
        self.bytes += u64::from(segment.data_bytes);
        if segment.data_bytes == 0 {
            return;
        }
        let to = SocketAddrV4::new(datagram.header().destination, segment.destination);
        let end = segment.sequence.wrapping_add(segment.data_bytes);
        let known = self.ends.entry((segment.source, to)).or_insert(segment.sequence);
        if segment.sequence.wrapping_sub(*known).cast_signed() < 0 {
            self.again += segments;
        }
        if end.wrapping_sub(*known).cast_signed() > 0 {
            *known = end;
        }
    }
}

/// What the device is.
#[derive(Clone, Copy, Debug)]
pub struct DeviceKind {
    /// Longest packet.
    pub mtu: u16,
    /// Whether it completes checksums and cuts long segments.
    pub offloads: bool,
}

/// The device that smoltcp sees, for one call: a packet that came, if one did, and the way out.
pub struct PacketDevice<'p> {
    /// What it is.
    pub kind: DeviceKind,
    /// The packet that came.
    pub incoming: Option<&'p [u8]>,
    /// The way out.
    pub outlet: &'p mut dyn Outlet,
    /// Counts of what is sent.
    pub sent: &'p mut SentSegments,
}

/// A packet that came.
pub struct RxToken<'a>(&'a [u8]);

impl phy::RxToken for RxToken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

/// Room for a packet to send.
pub struct TxToken<'a> {
    offloads: bool,
    outlet: &'a mut dyn Outlet,
    sent: &'a mut SentSegments,
    segment_bytes: Option<u16>,
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let TxToken { offloads, outlet, sent, segment_bytes } = self;
        let (mut f, mut result) = (Some(f), None);
        let mut fill = |packet: &mut [u8]| {
            let Some(f) = f.take() else { return };
            result = Some(f(packet));
            if offloads {
                put_pseudo_checksum(packet);
            }
            sent.count(packet, segment_bytes);
        };
        outlet.send(len, segment_bytes, &mut fill);
        match (result, f) {
            (Some(result), _) => result,
            // The outlet did not want it. smoltcp has to be given a packet all the same.
            (None, Some(f)) => f(&mut vec![0; len]),
            (None, None) => unreachable!("a packet that was written has a result"),
        }
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment_bytes = meta.segmentation_offload_size.map(std::num::NonZeroU16::get);
    }
}

/// Writes the sum of the pseudo-header into the checksum of a segment, for a device that adds the
/// rest.
fn put_pseudo_checksum(packet: &mut [u8]) {
    let Ok(datagram) = Datagram::check(packet) else { return };
    let (header, begin) = (datagram.header(), datagram.header_bytes());
    let sum = !pseudo_sum(header.source, header.destination, datagram.payload().len()).finish();
    if let Some(to) = packet.get_mut(begin + CHECKSUM_AT..begin + CHECKSUM_AT + 2) {
        to.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Returns the sum of the pseudo-header of a segment of this length (RFC 9293, 3.1).
pub fn pseudo_sum(source: Ipv4Addr, destination: Ipv4Addr, segment_bytes: usize) -> RunningSum {
    let mut sum = RunningSum::new();
    sum.add(&source.octets());
    sum.add(&destination.octets());
    sum.add_word(u16::from(protocol::TCP));
    // Fits: a datagram has at most 65,535 bytes.
    sum.add_word(segment_bytes as u16);
    sum
}

impl phy::Device for PacketDevice<'_> {
    type RxToken<'a>
        = RxToken<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = TxToken<'a>
    where
        Self: 'a;

    fn receive(&mut self, timestamp: Instant) -> Option<(RxToken<'_>, TxToken<'_>)> {
        let packet = self.incoming.take()?;
        self.transmit(timestamp).map(|way_out| (RxToken(packet), way_out))
    }

    fn transmit(&mut self, _timestamp: Instant) -> Option<TxToken<'_>> {
        Some(TxToken {
            offloads: self.kind.offloads,
            outlet: &mut *self.outlet,
            sent: self.sent,
            segment_bytes: None,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = usize::from(self.kind.mtu);
        // What comes was checked, or needs no check (`SmolStack::take`).
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.checksum.tcp = match self.kind.offloads {
            true => Checksum::None,
            false => Checksum::Tx,
        };
        capabilities.segmentation.tcpv4 = self.kind.offloads.then_some(MOST_SEGMENT_BYTES);
        capabilities
    }
}
