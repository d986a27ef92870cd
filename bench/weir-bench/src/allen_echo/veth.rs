//! Two network namespaces joined by a pair of virtual devices.

use super::echo;
use super::network::{MTU, PREFIX_BITS, Subnet, alone};
use crate::engine::case::{CaseError, Site};
use crate::tools::peer::{Control, PeerProcess};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use weir_net::sys::tun;

const PORT: u16 = 7;

/// Returns the socket of this side and the other side, which echoes.
pub fn start(site: &Site) -> Result<(UdpSocket, PeerProcess), CaseError> {
    let subnet = Subnet::new()?;
    let open = |own: Ipv4Addr, other: Ipv4Addr| -> Result<UdpSocket, CaseError> {
        let socket = UdpSocket::bind(SocketAddr::from((own, PORT)))?;
        socket.connect(SocketAddr::from((other, PORT)))?;
        Ok(socket)
    };
    let prepare = || {
        address(subnet)?;
        open(subnet.there(), subnet.here())
    };
    let peer = join(site, subnet, prepare, |socket, control| control.serve(echo(&socket)))?;
    Ok((open(subnet.here(), subnet.there())?, peer))
}

/// Starts a side whose kernel answers by itself.
pub fn kernel(site: &Site, subnet: Subnet) -> Result<PeerProcess, CaseError> {
    join(site, subnet, || address(subnet), |(), _| wait())
}

/// Starts a side whose kernel has no address, for a host at user level on its device.
pub fn wire(site: &Site, subnet: Subnet) -> Result<PeerProcess, CaseError> {
    join(site, subnet, || Ok(tun::switch_on(&subnet.far_device())?), |(), _| wait())
}

fn wait() -> ! {
    loop {
        rustix::event::pause();
    }
}

/// Gives the kernel of the other side its address.
pub(crate) fn address(subnet: Subnet) -> Result<(), CaseError> {
    Ok(tun::configure(&subnet.far_device(), subnet.there(), PREFIX_BITS, MTU)?)
}

/// Starts the other side in its own namespace and connects it to this one. When this returns, the
/// other side has done `prepare`, which switches its device on; it continues with `serve`.
pub(crate) fn join<S>(
    site: &Site,
    subnet: Subnet,
    prepare: impl FnOnce() -> Result<S, CaseError>,
    serve: impl FnOnce(S, &Control) -> Result<(), CaseError>,
) -> Result<PeerProcess, CaseError> {
    let (near, far) = (subnet.device(), subnet.far_device());
    let (go, gone) = rustix::pipe::pipe()?;
    let (moved, has_moved) = rustix::pipe::pipe()?;
    let peer = PeerProcess::start(site, |control| {
        alone()?;
        rustix::io::write(&has_moved, b".")?;
        rustix::io::read(&go, &mut [0; 1])?;
        let prepared = prepare()?;
        rustix::io::write(&has_moved, b".")?;
        serve(prepared, control)
    })?;
    drop(has_moved);
    step(&moved, &peer)?;
    let pid = peer.pid().to_string();
    ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &pid])?;
    tun::configure(&near, subnet.here(), PREFIX_BITS, MTU)?;
    rustix::io::write(&gone, b".")?;
    step(&moved, &peer)?;
    Ok(peer)
}

/// Waits for the other side's next step; if it died, fails with its error.
fn step(moved: &rustix::fd::OwnedFd, peer: &PeerProcess) -> Result<(), CaseError> {
    match rustix::io::read(moved, &mut [0; 1])? {
        0 => peer.wait().map_err(|trouble| CaseError::left_out(trouble.text)),
        _ => Ok(()),
    }
}

fn ip(words: &[&str]) -> Result<(), CaseError> {
    let mut command = Command::new("ip");
    let ran = command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).output();
    let output = ran.map_err(|error| CaseError::left_out(format!("cannot run ip: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CaseError::left_out(format!("ip {}: {said}", words.join(" "))))
}
