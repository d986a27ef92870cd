//! Two network namespaces joined by a pair of virtual devices.
//!
//! Both sides move into namespaces of their own, so that nothing of the host's network is touched,
//! and all of it is gone with the processes, however they end.

use super::echo;
use crate::tools::peer::Peer;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use weir_measure::bench::case::{Site, Trouble};
use weir_sys::namespace;

const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 7;

/// The socket of this side, and the other side, which echoes.
pub fn start(site: &Site) -> Result<(UdpSocket, Peer), Trouble> {
    alone()?;
    let (go, gone) = rustix::pipe::pipe()?;
    let (moved, has_moved) = rustix::pipe::pipe()?;
    let peer = Peer::start(site, |control| {
        alone()?;
        rustix::io::write(&has_moved, b".")?;
        rustix::io::read(&go, &mut [0; 1])?;
        ip(&["addr", "add", "10.77.0.2/24", "dev", "weir1"])?;
        ip(&["link", "set", "weir1", "up"])?;
        let socket = UdpSocket::bind(SocketAddr::from((THERE, PORT)))?;
        socket.connect(SocketAddr::from((HERE, PORT)))?;
        rustix::io::write(&has_moved, b".")?;
        let mut done = 0;
        echo(&socket, || {
            done += 1;
            control.report(done)
        })
    })?;
    drop(has_moved);
    step(&moved, &peer)?;
    let pid = peer.pid().to_string();
    let made =
        ip(&["link", "add", "weir0", "type", "veth", "peer", "name", "weir1", "netns", &pid]);
    made?;
    ip(&["addr", "add", "10.77.0.1/24", "dev", "weir0"])?;
    ip(&["link", "set", "weir0", "up"])?;
    rustix::io::write(&gone, b".")?;
    step(&moved, &peer)?;
    let socket = UdpSocket::bind(SocketAddr::from((HERE, PORT)))?;
    socket.connect(SocketAddr::from((THERE, PORT)))?;
    Ok((socket, peer))
}

fn alone() -> Result<(), Trouble> {
    namespace::new_network().map_err(|error| {
        Trouble::left_out(format!("cannot make a network namespace: {error} (root may)"))
    })
}

/// Waits for the other side's next step; if it died, what it said.
fn step(moved: &rustix::fd::OwnedFd, peer: &Peer) -> Result<(), Trouble> {
    match rustix::io::read(moved, &mut [0; 1])? {
        0 => peer.wait().map_err(|trouble| Trouble::left_out(trouble.text)),
        _ => Ok(()),
    }
}

fn ip(words: &[&str]) -> Result<(), Trouble> {
    let mut command = Command::new("ip");
    let ran = command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).output();
    let output = ran.map_err(|error| Trouble::left_out(format!("cannot run ip: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Trouble::left_out(format!("ip {}: {said}", words.join(" "))))
}
