//! The TUN device of a switch: creating it, reading it, and explaining its errors.

use super::SwitchSettings;
use crate::error::{Error, ErrorKind, Result};
use crate::message::Checksum;
use crate::spans;
use crate::sys::tun::{Tun, VNET_HEADER_BYTES};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::ops::Range;

/// Room before a packet for the device's header or a message head.
const FRONT_BYTES: usize = 16;
/// A read longer than any packet reveals a packet that was cut.
pub const BUFFER_BYTES: usize = FRONT_BYTES + 65_536;

/// A TUN device.
#[derive(Debug)]
pub struct Device {
    tun: Tun,
    name: String,
    /// Whether the kernel cuts long segments of TCP, and gives such.
    offloads: bool,
}

impl Device {
    /// Creates the device, and gives the kernel its address on it.
    pub fn open(settings: &SwitchSettings) -> Result<Device> {
        let SwitchSettings { device, peer, prefix_bits, mtu, vnet_header, .. } = settings;
        let opened = Tun::open(device, *vnet_header);
        let tun = opened.map_err(|cause| Error::of_device(device, cause))?;
        let configured = crate::sys::tun::configure(device, *peer, *prefix_bits, *mtu);
        let object = || format!("device '{device}'");
        configured.map_err(|cause| Error::os("configure", object(), cause))?;
        let offloads = tun.offload_segments();
        Ok(Device { tun, name: device.clone(), offloads })
    }

    /// Makes reads return at once when there is no packet.
    pub fn poll_reads(&self) -> Result<()> {
        self.tun.dont_wait().map_err(|cause| Error::os("read from", self.object(), cause))
    }

    /// Whether the device puts a header before each packet.
    pub fn has_header(&self) -> bool {
        self.tun.has_vnet_header()
    }

    /// Whether it completes checksums of TCP, and cuts long segments.
    pub fn offloads(&self) -> bool {
        self.offloads
    }

    /// Returns the length of that header in bytes.
    pub fn header_bytes(&self) -> usize {
        if self.has_header() { VNET_HEADER_BYTES } else { 0 }
    }

    /// Reads a packet, if there is one. Returns where in the buffer of [`BUFFER_BYTES`] it lies,
    /// with room before it for a message head.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<(Range<usize>, Checksum)>> {
        let from = FRONT_BYTES - self.header_bytes();
        let read = || rustix::io::read(&self.tun, &mut buffer[from..]);
        let bytes = match weir_profile::wait_at_last(&spans::TUN_READ, read) {
            Ok(bytes) => bytes,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(None),
            Err(cause) => return Err(self.failure(cause)),
        };
        // The first byte of struct virtio_net_hdr: bit 0 is VIRTIO_NET_HDR_F_NEEDS_CSUM.
        let checksum = match self.has_header() && buffer[from] & 1 != 0 {
            true => Checksum::LeftOut,
            false => Checksum::ToCheck,
        };
        Ok(Some((FRONT_BYTES..(from + bytes).max(FRONT_BYTES), checksum)))
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
        self.tun.as_fd()
    }
}
