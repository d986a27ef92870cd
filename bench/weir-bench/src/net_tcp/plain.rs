//! smoltcp over a TUN device as its own device for TUN does it: a buffer for each packet, a system
//! call for each segment, and every checksum by the CPU.

use crate::engine::case::CaseError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;
use weir_net::sys::tun::Tun;

/// Sockets that listen on each port: transfers follow one another, and the last one may linger.
const LISTENING: usize = 8;
/// How long to sleep where nothing is due.
const LONGEST: Duration = Duration::from_millis(100);

struct PlainDevice<'a> {
    tun: &'a Tun,
    mtu: usize,
}

struct RxToken(Vec<u8>);
struct TxToken<'a>(&'a Tun);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        // What the device does not take is lost, as on any network.
        let _ = rustix::io::write(self.0, &packet);
        result
    }
}

impl phy::Device for PlainDevice<'_> {
    type RxToken<'a>
        = RxToken
    where
        Self: 'a;
    type TxToken<'a>
        = TxToken<'a>
    where
        Self: 'a;

    fn receive(&mut self, _timestamp: Instant) -> Option<(RxToken, TxToken<'_>)> {
        let mut packet = vec![0; self.mtu];
        let bytes = rustix::io::read(self.tun, &mut packet).ok()?;
        packet.truncate(bytes);
        Some((RxToken(packet), TxToken(self.tun)))
    }

    fn transmit(&mut self, _timestamp: Instant) -> Option<TxToken<'_>> {
        Some(TxToken(self.tun))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// Serves discard and chargen at an address of a device, until it fails.
pub fn serve(
    tun: &Tun,
    address: Ipv4Addr,
    mtu: u16,
    buffer_bytes: usize,
    ports: (u16, u16),
) -> Result<Infallible, CaseError> {
    tun.dont_wait()?;
    let mut device = PlainDevice { tun, mtu: usize::from(mtu) };
    let mut interface =
        Interface::new(Config::new(HardwareAddress::Ip), &mut device, Instant::now());
    interface.update_ip_addrs(|addresses| {
        // There is room for one.
        let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(address), super::PREFIX_BITS));
    });
    let mut sockets = SocketSet::new(Vec::new());
    let listeners: Vec<(SocketHandle, u16)> = [ports.0, ports.1]
        .into_iter()
        .flat_map(|port| std::iter::repeat_n(port, LISTENING))
        .map(|port| {
            let buffer = || SocketBuffer::new(vec![0; buffer_bytes]);
            let mut socket = Socket::new(buffer(), buffer());
            socket.set_nagle_enabled(false);
            socket.set_ack_delay(None);
            (sockets.add(socket), port)
        })
        .collect();
    loop {
        interface.poll(Instant::now(), &mut device, &mut sockets);
        for (handle, port) in &listeners {
            serve_one(sockets.get_mut::<Socket<'_>>(*handle), *port, *port == ports.1)?;
        }
        interface.poll(Instant::now(), &mut device, &mut sockets);
        let delay = interface.poll_delay(Instant::now(), &sockets);
        let delay = delay.map_or(LONGEST, |delay| LONGEST.min(delay.into()));
        let limit = Timespec::try_from(delay).unwrap_or_default();
        match poll(&mut [PollFd::new(tun, PollFlags::IN)], Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

/// Takes what has come on a connection, sends if it generates, and listens again after its end.
fn serve_one(socket: &mut Socket<'_>, port: u16, generates: bool) -> Result<(), CaseError> {
    if !socket.is_open() {
        let listens = socket.listen(port);
        return listens.map_err(|error| CaseError::failed(format!("cannot listen: {error}")));
    }
    while socket.can_recv() {
        let seen = socket.recv(|bytes| (bytes.len(), ()));
        seen.map_err(|error| CaseError::failed(format!("cannot receive: {error}")))?;
    }
    while generates && socket.can_send() {
        // The bytes of the buffer are sent as they are.
        let sent = socket.send(|room| (room.len(), ()));
        sent.map_err(|error| CaseError::failed(format!("cannot send: {error}")))?;
    }
    if socket.may_send() && !socket.may_recv() {
        socket.close();
    }
    Ok(())
}
