//! The device of a switch, TUN or Ethernet: opening it, reading it, and explaining its errors.

use super::SwitchSettings;
use crate::drop_reason::DropReason;
use crate::error::{Error, ErrorKind, Result};
use crate::message::Checksum;
use crate::spans;
use crate::sys::packet::PacketSocket;
use crate::sys::tun::{Tun, VNET_HEADER_BYTES};
use crate::wire::ethernet::{self, FrameHeader, MacAddress};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `struct virtio_net_hdr` says of a long packet: it is none, one of TCP over version 4, one of
/// UDP, and a bit beside (VIRTIO_NET_HDR_GSO_NONE, _TCPV4, _UDP_L4, _ECN); where the size of its
/// pieces lies.
const GSO_NONE: u8 = 0;
const GSO_TCP: u8 = 1;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;
const GSO_SIZE_AT: usize = 4;

/// Room before a packet for the headers of device and frame, or a message head; a multiple of 8.
pub const FRONT_BYTES: usize = 32;
/// A read longer than any packet reveals a packet that was cut.
pub const BUFFER_BYTES: usize = FRONT_BYTES + 65_536;
/// The most bytes before a packet on the way out.
pub const MOST_LINK_BYTES: usize = VNET_HEADER_BYTES + ethernet::HEADER_BYTES;

/// Where the packets of a switch come from and go to.
#[derive(Debug)]
pub struct Device {
    link: Link,
    name: String,
    /// Whether the kernel cuts long segments of TCP, and gives such.
    offloads: bool,
    /// Whether an Ethernet device was switched off, and nothing has come since.
    was_off: AtomicBool,
}

#[derive(Debug)]
enum Link {
    /// A device of the switch's own, whose other side is the kernel.
    Tun(Tun),
    /// An Ethernet device that was there.
    Ethernet(PacketSocket),
}

/// What was read, by its place in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A packet of IP, with room before it for a message head.
    Packet(Range<usize>, Checksum),
    /// A long segment of UDP, to be cut into datagrams of so many bytes of data.
    Long(Range<usize>, u16),
    /// A message of ARP.
    Arp(Range<usize>),
    /// What this host does not take.
    Refused(Range<usize>, DropReason),
}

impl Device {
    /// Creates a TUN device, and gives the kernel its address on it; or takes the Ethernet device.
    pub fn open(settings: &SwitchSettings) -> Result<Device> {
        let SwitchSettings { device, peer, prefix_bits, mtu, vnet_header, .. } = settings;
        let object = || format!("device '{device}'");
        let (link, offloads) = if let Some(peer) = peer {
            let opened = Tun::open(device, *vnet_header);
            let tun = opened.map_err(|cause| Error::of_device(device, cause))?;
            let configured = crate::sys::tun::configure(device, *peer, *prefix_bits, *mtu);
            configured.map_err(|cause| Error::os("configure", object(), cause))?;
            let offloads = tun.offload_segments();
            (Link::Tun(tun), offloads)
        } else {
            let opened = PacketSocket::open(device, *vnet_header);
            let socket = opened.map_err(|cause| Error::of_ethernet(device, cause))?;
            let most = socket.mtu();
            if most < usize::from(*mtu) {
                let why = format!("it takes packets of {most} bytes at most, and --mtu is {mtu}");
                return Err(Error::new(ErrorKind::Invalid, "use", object(), why));
            }
            let offloads = socket.has_vnet_header();
            (Link::Ethernet(socket), offloads)
        };
        let was_off = AtomicBool::new(false);
        Ok(Device { link, name: device.clone(), offloads, was_off })
    }

    /// Makes reads return at once when there is no packet.
    pub fn poll_reads(&self) -> Result<()> {
        let set = match &self.link {
            Link::Tun(tun) => tun.dont_wait(),
            Link::Ethernet(socket) => socket.dont_wait(),
        };
        set.map_err(|cause| Error::os("read from", self.object(), cause))
    }

    pub fn ethernet(&self) -> Option<MacAddress> {
        match &self.link {
            Link::Tun(_) => None,
            Link::Ethernet(socket) => Some(socket.address()),
        }
    }

    /// Whether the device puts a header before each packet.
    pub fn has_header(&self) -> bool {
        match &self.link {
            Link::Tun(tun) => tun.has_vnet_header(),
            Link::Ethernet(socket) => socket.has_vnet_header(),
        }
    }

    /// Whether it completes checksums of TCP, and cuts long segments.
    pub fn offloads(&self) -> bool {
        self.offloads
    }

    /// Returns the length of that header in bytes.
    pub fn header_bytes(&self) -> usize {
        if self.has_header() { VNET_HEADER_BYTES } else { 0 }
    }

    /// Returns the length in bytes of the header of a frame, which begins behind that of the device.
    pub fn frame_header_bytes(&self) -> usize {
        match &self.link {
            Link::Tun(_) => 0,
            Link::Ethernet(_) => ethernet::HEADER_BYTES,
        }
    }

    /// Reads a packet into a buffer of [`BUFFER_BYTES`], if there is one.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Arrival>> {
        let from = FRONT_BYTES - self.header_bytes() - self.frame_header_bytes();
        let read = || rustix::io::read(self, &mut buffer[from..]);
        let end = match weir_profile::wait_at_last(&spans::TUN_READ, read) {
            Ok(bytes) => (from + bytes).max(FRONT_BYTES),
            Err(Errno::INTR | Errno::AGAIN) => return self.look_for_the_device(),
            Err(cause) => return self.take_failure(cause),
        };
        let packet = FRONT_BYTES..end;
        // struct virtio_net_hdr: bit 0 of the first byte is VIRTIO_NET_HDR_F_NEEDS_CSUM.
        let checksum = match self.has_header() && buffer[from] & 1 != 0 {
            true => Checksum::LeftOut,
            false => Checksum::ToCheck,
        };
        let Link::Ethernet(socket) = &self.link else {
            return Ok(Some(Arrival::Packet(packet, checksum)));
        };
        // Relaxed: a hint for this thread's next look.
        self.was_off.store(false, Ordering::Relaxed);
        let segments = if self.has_header() { buffer[from + 1] & !GSO_ECN } else { GSO_NONE };
        let frame = &buffer[FRONT_BYTES - ethernet::HEADER_BYTES..end];
        let Some(header) = FrameHeader::check(frame) else { return Ok(None) };
        let is_ours = header.destination == socket.address();
        Ok(match header.kind {
            // A device that takes everything hears what is for others.
            _ if !is_ours && !header.destination.is_group() => None,
            ethernet::ARP => Some(Arrival::Arp(packet)),
            _ if !is_ours => Some(Arrival::Refused(packet, DropReason::Broadcast)),
            _ => Some(match segments {
                GSO_NONE | GSO_TCP => Arrival::Packet(packet, checksum),
                GSO_UDP => {
                    let at = from + GSO_SIZE_AT;
                    Arrival::Long(packet, u16::from_ne_bytes([buffer[at], buffer[at + 1]]))
                }
                _ => Arrival::Refused(packet, DropReason::Segments),
            }),
        })
    }

    /// After an Ethernet device was switched off, no error tells that it was removed.
    fn look_for_the_device(&self) -> Result<Option<Arrival>> {
        // Relaxed: as in `receive`.
        match &self.link {
            Link::Ethernet(socket) if self.was_off.load(Ordering::Relaxed) => {
                if socket.is_there() {
                    Ok(None)
                } else {
                    Err(self.failure(Errno::NODEV))
                }
            }
            _ => Ok(None),
        }
    }

    fn take_failure(&self, cause: Errno) -> Result<Option<Arrival>> {
        match (&self.link, cause) {
            (Link::Ethernet(_), Errno::NETDOWN) => {
                // Relaxed: as in `receive`.
                self.was_off.store(true, Ordering::Relaxed);
                self.look_for_the_device()
            }
            // The kernel has no header for a kind of segments that it does not know
            // (packet_rcv_vnet in net/packet/af_packet.c).
            (Link::Ethernet(_), Errno::INVAL) => {
                Ok(Some(Arrival::Refused(FRONT_BYTES..FRONT_BYTES, DropReason::Segments)))
            }
            _ => Err(self.failure(cause)),
        }
    }

    fn object(&self) -> String {
        format!("device '{}'", self.name)
    }

    fn failure(&self, cause: Errno) -> Error {
        let object = self.object();
        match cause {
            // A read from a device that is being removed fails with EFAULT (tun_ring_recv in
            // drivers/net/tun.c).
            Errno::BADFD | Errno::IO | Errno::NODEV | Errno::FAULT => {
                Error::new(ErrorKind::NoDevice, "read from", object, "it is gone")
            }
            _ => Error::os("read from", object, cause),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.link {
            Link::Tun(tun) => tun.as_fd(),
            Link::Ethernet(socket) => socket.as_fd(),
        }
    }
}
