//! A packet socket on an Ethernet device: frames as they come from the wire and go onto it, beside
//! the kernel (packet(7)).

use super::tun::{InterfaceRequest, ioctl, named};
use crate::wire::ethernet::{ARP, HEADER_BYTES, IPV4, MacAddress};
use libc::c_int;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::time::Duration;
use weir_sys::check;

/// Bytes of frames that wait to be read or sent: long segments of a window or two.
const BUFFER_BYTES: c_int = 4 << 20;
/// How long a read waits: whoever waits in it looks now and then whether the device is there.
const READ_TIME: Duration = Duration::from_millis(100);

/// An open packet socket. It takes frames of IP version 4 and of ARP that come from the wire.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    name: String,
    index: c_int,
    address: MacAddress,
    mtu: usize,
    vnet_header: bool,
}

impl PacketSocket {
    /// Opens one on the device `name` of this thread's network namespace. With `vnet_header` each
    /// frame has the header before it that [`super::tun::vnet_header`] makes.
    ///
    /// # Errors
    /// `EPERM`: this user may not. `ENODEV`: there is no such device. `Unsupported`: it is not an
    /// Ethernet device. `ENETDOWN`: it is switched off. `InvalidInput`: the name is not valid.
    pub fn open(name: &str, vnet_header: bool) -> io::Result<PacketSocket> {
        // Until it is bound, no frame comes.
        let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let ask = |what| -> io::Result<libc::ifreq> {
            let mut request = named(name)?;
            ioctl(socket.as_fd(), what, &mut request)?;
            Ok(request)
        };
        let hardware = ask(InterfaceRequest::GetHardware)?;
        // SAFETY: that request fills in this member.
        let hardware = unsafe { hardware.ifr_ifru.ifru_hwaddr };
        let address = MacAddress(std::array::from_fn(|at| hardware.sa_data[at].cast_unsigned()));
        if hardware.sa_family != libc::ARPHRD_ETHER || !address.is_device() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let flags = ask(InterfaceRequest::GetFlags)?;
        // SAFETY: as above.
        let flags = unsafe { flags.ifr_ifru.ifru_flags };
        if c_int::from(flags) & libc::IFF_UP == 0 {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        let index = ask(InterfaceRequest::GetIndex)?;
        // SAFETY: as above.
        let index = unsafe { index.ifr_ifru.ifru_ifindex };
        let mtu = ask(InterfaceRequest::GetMtu)?;
        // SAFETY: as above.
        let mtu = unsafe { mtu.ifr_ifru.ifru_mtu };
        filter(&socket)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER_BYTES)?;
        let has_header = || set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1).is_ok();
        let vnet_header = vnet_header && has_header();
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(READ_TIME))?;
        bind(&socket, index)?;
        let mtu = usize::try_from(mtu).unwrap_or(0);
        Ok(PacketSocket { socket, name: name.to_owned(), index, address, mtu, vnet_header })
    }

    /// The address of the device.
    pub fn address(&self) -> MacAddress {
        self.address
    }

    /// The longest packet in a frame of the device.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Whether each frame has a header before it.
    pub fn has_vnet_header(&self) -> bool {
        self.vnet_header
    }

    /// Whether the device is still there, switched on or off.
    pub fn is_there(&self) -> bool {
        let Ok(mut request) = named(&self.name) else { return false };
        let asked = ioctl(self.socket.as_fd(), InterfaceRequest::GetIndex, &mut request);
        // SAFETY: the request has filled in the number.
        asked.is_ok() && unsafe { request.ifr_ifru.ifru_ifindex } == self.index
    }

    /// From now on reading and writing do not wait.
    pub fn dont_wait(&self) -> io::Result<()> {
        Ok(rustix::fs::fcntl_setfl(&self.socket, OFlags::RDWR | OFlags::NONBLOCK)?)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn set(socket: &OwnedFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let bytes = size_of::<c_int>() as libc::socklen_t;
    let value: *const c_int = &value;
    // SAFETY: the value lives as long as the call, and has that length.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.cast(), bytes) })
        .map(drop)
}

/// Takes frames from the wire alone, of IP and ARP, and none of a virtual LAN, which look like others
/// once the kernel has taken their tag off.
fn filter(socket: &OwnedFd) -> io::Result<()> {
    const TAKE: u32 = u32::MAX;
    let load = (libc::BPF_LD | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let about = |what: c_int| (libc::SKF_AD_OFF + what).cast_unsigned();
    let word = load | libc::BPF_W as u16;
    let half = load | libc::BPF_H as u16;
    let mut program = [
        step(word, 0, 0, about(libc::SKF_AD_VLAN_TAG_PRESENT)),
        step(equal, 0, 6, 0),
        step(word, 0, 0, about(libc::SKF_AD_PKTTYPE)),
        step(equal, 4, 0, u32::from(libc::PACKET_OUTGOING)),
        step(half, 0, 0, (HEADER_BYTES - 2) as u32),
        step(equal, 1, 0, u32::from(IPV4)),
        step(equal, 0, 1, u32::from(ARP)),
        step(end, 0, 0, TAKE),
        step(end, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let bytes = size_of_val(&program) as libc::socklen_t;
    let (fd, address): (_, *const libc::sock_fprog) = (socket.as_raw_fd(), &program);
    // SAFETY: the program and its steps live as long as the call, and have these lengths.
    check(unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, address.cast(), bytes)
    })
    .map(drop)
}

fn bind(socket: &OwnedFd, index: c_int) -> io::Result<()> {
    // SAFETY: this structure holds numbers; all-zero bytes are a valid value.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    to.sll_ifindex = index;
    let to: *const libc::sockaddr_ll = &to;
    let bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives as long as the call, and has that length.
    check(unsafe { libc::bind(socket.as_raw_fd(), to.cast(), bytes) }).map(drop)
}
