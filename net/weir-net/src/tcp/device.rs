//! Packets between smoltcp and a station. smoltcp reads a packet where the station holds it, and what
//! it sends goes to an [`Outlet`] at once, so that no packet waits here and none costs an allocation.

use super::flows::{Challenge, Ends, Flows};
use super::segment::{ACK, Segment};
use crate::message::Attached;
use crate::outgoing::DEFAULT_TTL;
use crate::wire::ipv4::{self, Datagram, Header, protocol, pseudo_sum};
use crate::wire::ports::{LEAST_TCP_BYTES, TCP_CHECKSUM_AT};
use smoltcp::iface::{Config, Interface};
use smoltcp::phy::{self, Checksum, ChecksumCapabilities, DeviceCapabilities, Medium, PacketMeta};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, TcpPacket, TcpRepr};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroUsize;

/// Longest segment, with its header, that a device cuts.
const MOST_SEGMENT_BYTES: NonZeroUsize = NonZeroUsize::new(65_535).unwrap();

/// Where packets go.
pub trait Outlet {
    /// Sends an IP datagram of `bytes`, which `fill` writes. Where `segment_bytes` is there, the
    /// device cuts it into segments that carry so many bytes.
    fn send(&mut self, bytes: usize, segment_bytes: Option<u16>, fill: &mut dyn FnMut(&mut [u8]));
}

/// An outlet for a device that sends nothing.
pub struct Nowhere;

impl Outlet for Nowhere {
    fn send(&mut self, _: usize, _: Option<u16>, _: &mut dyn FnMut(&mut [u8])) {}
}

#[derive(Clone, Copy, Debug)]
pub struct DeviceKind {
    /// Longest packet.
    pub mtu: u16,
    /// Whether it completes checksums and cuts long segments.
    pub offloads: bool,
}

impl From<&Attached> for DeviceKind {
    fn from(at: &Attached) -> DeviceKind {
        DeviceKind { mtu: at.mtu, offloads: at.offloads }
    }
}

impl DeviceKind {
    /// Returns the most data of a segment that is not cut.
    pub fn segment_bytes(&self) -> u16 {
        self.mtu.saturating_sub((ipv4::LEAST_HEADER_BYTES + LEAST_TCP_BYTES) as u16)
    }
}

/// The device that smoltcp sees, for one call: a packet that came, if one did, and the way out.
pub struct PacketDevice<'p> {
    /// What it is.
    pub kind: DeviceKind,
    /// The packet that came.
    pub incoming: Option<&'p [u8]>,
    /// The way out.
    pub outlet: &'p mut dyn Outlet,
    /// What the segments say.
    pub flows: &'p mut Flows,
}

/// Returns an interface of a host, whose random numbers follow from `seed`.
pub fn interface(at: &Attached, seed: u64, device: &mut PacketDevice<'_>) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut interface = Interface::new(config, device, Instant::ZERO);
    interface.update_ip_addrs(|addresses| {
        // There is room for one.
        let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(at.address), at.prefix_bits.min(32)));
    });
    let _ = interface.routes_mut().add_default_ipv4_route(at.peer);
    interface
}

/// Returns a time as smoltcp has it.
pub fn instant(now_ns: u64) -> Instant {
    Instant::from_micros(i64::try_from(now_ns / 1000).unwrap_or(i64::MAX))
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
    flows: &'a mut Flows,
    segment_bytes: Option<u16>,
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let TxToken { offloads, outlet, flows, segment_bytes } = self;
        let (mut f, mut result) = (Some(f), None);
        let mut fill = |packet: &mut [u8]| {
            let Some(f) = f.take() else { return };
            result = Some(f(packet));
            if offloads {
                put_pseudo_checksum(packet);
            }
            note_sent(flows, packet, segment_bytes);
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

/// Notes what a packet says that is sent.
fn note_sent(flows: &mut Flows, packet: &[u8], segment_bytes: Option<u16>) {
    let Ok(datagram) = Datagram::check(packet) else { return };
    let Some(segment) = Segment::of(datagram.payload()) else { return };
    let to = SocketAddrV4::new(datagram.header().destination, segment.destination);
    flows.sent(to, &segment, datagram.payload(), segment_bytes);
}

/// Writes the sum of the pseudo-header into the checksum of a segment, for a device that adds the
/// rest.
fn put_pseudo_checksum(packet: &mut [u8]) {
    let Ok(datagram) = Datagram::check(packet) else { return };
    let (header, begin) = (datagram.header(), datagram.header_bytes());
    let bytes = datagram.payload().len();
    let sum = !pseudo_sum(protocol::TCP, header.source, header.destination, bytes).finish();
    if let Some(to) = packet.get_mut(begin + TCP_CHECKSUM_AT..begin + TCP_CHECKSUM_AT + 2) {
        to.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Whether smoltcp takes a segment for one: its flags do not exclude each other, and its options
/// are whole.
pub fn makes_sense(datagram: &Datagram<'_>) -> bool {
    let header = datagram.header();
    let address = |of| IpAddress::Ipv4(of);
    let packet = TcpPacket::new_unchecked(datagram.payload());
    let unchecked = ChecksumCapabilities::ignored();
    TcpRepr::parse(&packet, &address(header.source), &address(header.destination), &unchecked)
        .is_ok()
}

/// Sends an acknowledgement that challenges the other side, past smoltcp.
pub fn acknowledge(
    address: Ipv4Addr,
    (port, remote): Ends,
    challenge: Challenge,
    kind: DeviceKind,
    outlet: &mut dyn Outlet,
) {
    let mut segment = [0; LEAST_TCP_BYTES];
    segment[..2].copy_from_slice(&port.to_be_bytes());
    segment[2..4].copy_from_slice(&remote.port().to_be_bytes());
    segment[4..8].copy_from_slice(&challenge.sequence.to_be_bytes());
    segment[8..12].copy_from_slice(&challenge.acknowledgement.to_be_bytes());
    (segment[12], segment[13]) = (((LEAST_TCP_BYTES / 4) << 4) as u8, ACK);
    segment[14..16].copy_from_slice(&challenge.window.to_be_bytes());
    let mut sum = pseudo_sum(protocol::TCP, address, *remote.ip(), segment.len());
    let checksum = if kind.offloads {
        // The device adds the rest.
        !sum.finish()
    } else {
        sum.add(&segment);
        sum.finish()
    };
    segment[TCP_CHECKSUM_AT..TCP_CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
    let total_bytes = ipv4::LEAST_HEADER_BYTES + segment.len();
    let header = Header {
        tos: 0,
        total_bytes: total_bytes as u16,
        id: 0,
        dont_fragment: false,
        more_fragments: false,
        offset_bytes: 0,
        ttl: DEFAULT_TTL,
        protocol: protocol::TCP,
        source: address,
        destination: *remote.ip(),
    };
    outlet.send(total_bytes, None, &mut |packet| {
        if let Some(bytes) = header.emit(&[], packet) {
            packet[bytes..].copy_from_slice(&segment);
        }
    });
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
            flows: self.flows,
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
