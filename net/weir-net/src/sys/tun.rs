//! A TUN device. The program reads the packets that the kernel sends to the device, and the kernel
//! receives the packets that the program writes (Linux Documentation/networking/tuntap.rst;
//! drivers/net/tun.c).

use libc::{c_int, ifreq};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::net::Ipv4Addr;
use weir_sys::check;

/// The longest name of a device in the kernel (IFNAMSIZ - 1).
pub const MOST_NAME_BYTES: usize = libc::IFNAMSIZ - 1;
/// Bytes of the header before each packet, if the device has one: `struct virtio_net_hdr`.
pub const VNET_HEADER_BYTES: usize = 10;

/// An open TUN device. Dropping this removes the device, unless it was made persistent.
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
    name: String,
    vnet_header: bool,
}

impl Tun {
    /// Makes the device `name` in the network namespace of this thread, or takes one that exists and
    /// that nobody has open. With `vnet_header`, if the kernel offers that, each packet has a header
    /// of [`VNET_HEADER_BYTES`] before it, and the kernel may leave checksums out.
    ///
    /// # Errors
    /// `EBUSY`: another process has it. `EPERM`: this user may not. `EINVAL`: a device of that name
    /// is not a TUN device. `ENOENT`: there is no /dev/net/tun. `InvalidInput`: the name is not
    /// valid.
    pub fn open(name: &str, vnet_header: bool) -> io::Result<Tun> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
        let mut features: c_int = 0;
        // SAFETY: this call stores a number of that type.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETFEATURES, &mut features) })?;
        let vnet_header = vnet_header && features & libc::IFF_VNET_HDR != 0;
        let mut request = named(name)?;
        let offered = if vnet_header { libc::IFF_VNET_HDR } else { 0 };
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | offered) as i16;
        ioctl(file.as_fd(), InterfaceRequest::Open, &mut request)?;
        if vnet_header {
            let offload = libc::c_ulong::from(libc::TUN_F_CSUM);
            // SAFETY: the argument is a value, not an address. The device also works without.
            unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, offload) };
        }
        Ok(Tun { file, name: name.to_owned(), vnet_header })
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether each packet has a header before it.
    pub fn has_vnet_header(&self) -> bool {
        self.vnet_header
    }

    /// Asks the kernel to take segments of TCP over IP version 4 longer than a packet, which it cuts,
    /// and to give such, with their checksum left out. Returns whether it does: the device must have
    /// a header before each packet.
    pub fn offload_segments(&self) -> bool {
        let offload = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4);
        // SAFETY: the argument is a value, not an address.
        let set = || unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD, offload) };
        self.vnet_header && set() == 0
    }

    /// From now on reading and writing do not wait.
    pub fn dont_wait(&self) -> io::Result<()> {
        Ok(rustix::fs::fcntl_setfl(&self.file, OFlags::RDWR | OFlags::NONBLOCK)?)
    }
}

/// The header before a packet whose checksum the kernel is to complete, and which it is to cut where
/// `segment_bytes` is not 0 (`struct virtio_net_hdr`).
///
/// The checksum begins after `ip_bytes`, and lies `checksum_at` bytes further. All headers of the
/// packet together have `header_bytes`, and a cut segment carries `segment_bytes` after them.
pub fn vnet_header(
    ip_bytes: u16,
    checksum_at: u16,
    header_bytes: u16,
    segment_bytes: u16,
) -> [u8; VNET_HEADER_BYTES] {
    // VIRTIO_NET_HDR_F_NEEDS_CSUM; VIRTIO_NET_HDR_GSO_NONE or VIRTIO_NET_HDR_GSO_TCPV4.
    let mut header = [0; VNET_HEADER_BYTES];
    (header[0], header[1]) = (1, u8::from(segment_bytes > 0));
    for (at, word) in [header_bytes, segment_bytes, ip_bytes, checksum_at].into_iter().enumerate() {
        header[2 + 2 * at..4 + 2 * at].copy_from_slice(&word.to_ne_bytes());
    }
    header
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Sets the address, net and largest packet of the kernel's side of a device, and switches it on.
///
/// # Errors
/// `EPERM`; `ENODEV`: no device has that name; `EINVAL`: a size is not valid.
pub fn configure(name: &str, address: Ipv4Addr, prefix_bits: u8, mtu: u16) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(prefix_bits)).unwrap_or(0));
    let mut request = named(name)?;
    request.ifr_ifru.ifru_addr = internet(address);
    ioctl(socket.as_fd(), InterfaceRequest::Address, &mut request)?;
    request.ifr_ifru.ifru_addr = internet(mask);
    ioctl(socket.as_fd(), InterfaceRequest::Mask, &mut request)?;
    request.ifr_ifru.ifru_mtu = c_int::from(mtu);
    ioctl(socket.as_fd(), InterfaceRequest::Mtu, &mut request)?;
    switch_on(name)
}

/// Switches a device on, such as the loopback device of a new namespace.
pub fn switch_on(name: &str) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = named(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    ioctl(socket.as_fd(), InterfaceRequest::Flags, &mut request)
}

/// A request about the device of a name.
pub(super) fn named(name: &str) -> io::Result<ifreq> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > MOST_NAME_BYTES || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: this structure holds integers and addresses; all-zero bytes are a valid value.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

fn internet(address: Ipv4Addr) -> libc::sockaddr {
    let mut made = libc::sockaddr { sa_family: libc::AF_INET as u16, sa_data: [0; 14] };
    // struct sockaddr_in: two bytes of port, then the address.
    for (to, from) in made.sa_data[2..6].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    made
}

/// The requests that read, and may write, a `struct ifreq`.
#[derive(Clone, Copy)]
pub(super) enum InterfaceRequest {
    Open,
    Address,
    Mask,
    Mtu,
    Flags,
    GetHardware,
    GetFlags,
    GetIndex,
    GetMtu,
}

pub(super) fn ioctl(fd: BorrowedFd, what: InterfaceRequest, request: &mut ifreq) -> io::Result<()> {
    let number = match what {
        InterfaceRequest::Open => libc::TUNSETIFF,
        InterfaceRequest::Address => libc::SIOCSIFADDR,
        InterfaceRequest::Mask => libc::SIOCSIFNETMASK,
        InterfaceRequest::Mtu => libc::SIOCSIFMTU,
        InterfaceRequest::Flags => libc::SIOCSIFFLAGS,
        InterfaceRequest::GetHardware => libc::SIOCGIFHWADDR,
        InterfaceRequest::GetFlags => libc::SIOCGIFFLAGS,
        InterfaceRequest::GetIndex => libc::SIOCGIFINDEX,
        InterfaceRequest::GetMtu => libc::SIOCGIFMTU,
    };
    let request: *mut ifreq = request;
    // SAFETY: each of these requests takes the address of a `struct ifreq`, which lives as long as
    // the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number, request) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_refused() {
        for name in ["", "a-name-of-16-byte", "nul\0"] {
            let error = named(name).map(drop).expect_err("no name");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }

    #[test]
    fn an_address_lies_where_the_kernel_looks() {
        let made = internet(Ipv4Addr::new(10, 9, 0, 255));
        assert_eq!(made.sa_data[2..6], [10, 9, 0, -1]);
    }
}
