//! `allen-echo`: the turnaround of a packet, as Allen measured it: clock, send, clock, receive,
//! clock. It runs alone and with four copies of the test at once.
//!
//! - This file: datagrams over the loopback device, and between two network namespaces joined by a
//!   pair of virtual devices (`veth`).
//! - `icmp`: echo requests (`asker`) to hosts at user level behind a TUN device, with and without a
//!   transaction log, and to the kernel (`host`). `bare` is the least that such a host can be,
//!   `ledger` is its log, `weir` is the host that users have, and `watched` switches its log and
//!   profile. All of them run in a namespace of their own (`network`). [`goals`] has the bounds.
//! - `driver`: a station of weir's switch that sends packets to itself, in both divisions.
//!
//! Packets are numbered. A packet that is lost or comes twice is an error, noticed within two
//! seconds.

pub(crate) mod asker;
mod bare;
mod driver;
pub mod goals;
mod host;
mod icmp;
mod ledger;
pub(crate) mod network;
pub(crate) mod veth;
mod watched;
pub(crate) mod weir;

use crate::tools::background::{Background, endless};
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use crate::tools::{RATE_PER_S, latencies, open_round_trips};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The payload that ping sends by default.
const PAYLOAD_BYTES: usize = 56;
const LOST_AFTER: Duration = Duration::from_secs(2);

/// The quantities of a turnaround.
const COLUMNS: [Measure; 3] = [
    Measure::new("turnaround", Unit::Ns),
    Measure::new("send", Unit::Ns),
    Measure::new("receive", Unit::Ns),
];

/// Returns the suite.
pub fn suite() -> Suite {
    let plain = Case { standard: true, ..turnaround_case("lo", 1) };
    let mut one = group("turnaround", Sides::Two, vec![plain]);
    one.standard = vec![Placement::SameCpu];
    let more = vec![turnaround_case("lo", 4), self_case(), open_case()];
    let lo = Group { twin: false, ..group("lo", Sides::Two, more) };
    let veth = vec![turnaround_case("veth", 1)];
    let veth = Group { twin: false, processes: 12, ..group("veth", Sides::Two, veth) };
    let mut groups = vec![one, lo, veth];
    groups.extend(icmp::groups());
    groups.extend(driver::groups());
    Suite {
        name: "allen-echo",
        about: "How long a packet takes to go and come back (ping): through the kernel and through weir net.",
        source: "L. Allen (MIT), the packet driver's test and the ICMP echo",
        groups,
    }
}

fn params(device: &str, direction: &str, copies: u64) -> Params {
    Params {
        chunk_bytes: Some(PAYLOAD_BYTES as u64),
        device: Some(device.into()),
        parties: Some(copies),
        logging: Some("off".into()),
        ..moving("udp", direction)
    }
}

fn turnaround_case(device: &'static str, copies: u64) -> Case {
    let name = match copies {
        1 => format!("echo on {device}"),
        n => format!("echo on {device}, {n} copies at once"),
    };
    let made = case(name, params(device, "two-way", copies), Measure::TIME, move |site| {
        turnaround(site, device, copies)
    });
    Case {
        measures: COLUMNS.to_vec(),
        normalise: Normalise::OnOneCpu,
        standard: false,
        weight: 2.0,
        ..made
    }
}

/// A socket connected to another, and the number of its last packet.
struct NumberedSocket {
    socket: UdpSocket,
    number: u64,
    packet: [u8; PAYLOAD_BYTES],
}

impl NumberedSocket {
    fn new(socket: UdpSocket) -> Result<NumberedSocket, CaseError> {
        socket.set_read_timeout(Some(LOST_AFTER))?;
        Ok(NumberedSocket { socket, number: 0, packet: [0; PAYLOAD_BYTES] })
    }

    fn send(&mut self) -> Result<(), CaseError> {
        self.number += 1;
        self.packet[..8].copy_from_slice(&self.number.to_le_bytes());
        let sent = self.socket.send(&self.packet)?;
        if sent == PAYLOAD_BYTES {
            Ok(())
        } else {
            Err(CaseError::failed("a packet was truncated"))
        }
    }

    fn receive(&mut self) -> Result<(), CaseError> {
        let mut packet = [0; PAYLOAD_BYTES + 1];
        let got = self.socket.recv(&mut packet).map_err(|error| {
            CaseError::failed(format!("packet {} was lost: {error}", self.number))
        })?;
        if got != PAYLOAD_BYTES || packet[..8] != self.number.to_le_bytes() {
            return Err(CaseError::failed(format!(
                "received another packet instead of packet {}",
                self.number
            )));
        }
        Ok(())
    }
}

/// Returns a function that sends back the next packet each time it is called.
fn echo(socket: &UdpSocket) -> impl FnMut() -> Result<(), CaseError> {
    let mut packet = [0; PAYLOAD_BYTES + 1];
    move || {
        let got = socket.recv(&mut packet)?;
        socket.send(&packet[..got])?;
        Ok(())
    }
}

/// The total time of a number of turnarounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    /// From before the send to after the receive.
    whole_ns: u128,
    /// The send alone.
    send_ns: u128,
}

impl Took {
    /// Makes `count` turnarounds one after the other, each by a send and a receive.
    fn of<A>(
        asker: &mut A,
        count: u64,
        send: fn(&mut A) -> Result<(), CaseError>,
        mut receive: impl FnMut(&mut A) -> Result<(), CaseError>,
    ) -> Result<Took, CaseError> {
        let mut took = Took::default();
        for _ in 0..count {
            let begun = Instant::now();
            send(asker)?;
            let sent = Instant::now();
            receive(asker)?;
            took.whole_ns += begun.elapsed().as_nanos();
            took.send_ns += (sent - begun).as_nanos();
        }
        Ok(took)
    }

    /// Returns the means of `count` turnarounds.
    pub(crate) fn batch(self, count: u64) -> Batch {
        let each = |sum: u128| sum as f64 / count as f64;
        let receive_ns = self.whole_ns - self.send_ns;
        let values = vec![each(self.whole_ns), each(self.send_ns), each(receive_ns)];
        Batch { elapsed_ns: self.whole_ns as f64, values }
    }
}

/// Returns two sockets connected to each other.
fn joined() -> Result<(UdpSocket, UdpSocket), CaseError> {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (a, b) = (UdpSocket::bind(local)?, UdpSocket::bind(local)?);
    a.connect(b.local_addr()?)?;
    b.connect(a.local_addr()?)?;
    Ok((a, b))
}

fn turnaround(site: &Site, device: &str, copies: u64) -> MadeWork {
    let (own, mut peer) = match device {
        "veth" => veth::start(site)?,
        _ => {
            let (own, other) = joined()?;
            (own, PeerProcess::start(site, |control| control.serve(echo(&other)))?)
        }
    };
    let mut line = NumberedSocket::new(own)?;
    let others = self::copies(site, copies - 1)?;
    work(move |count| {
        let _running = others.run()?;
        peer.more(count);
        let took = Took::of(&mut line, count, NumberedSocket::send, NumberedSocket::receive)?;
        peer.wait()?;
        Ok(took.batch(count))
    })
}

/// Sends packets to a socket of this process, without any switch.
fn self_case() -> Case {
    let made = case("echo to self on lo", params("lo", "self", 1), Measure::TIME, |_| {
        let (a, b) = joined()?;
        let (mut line, other) = (NumberedSocket::new(a)?, b);
        work(move |count| {
            let mut packet = [0; PAYLOAD_BYTES];
            let took = Took::of(&mut line, count, NumberedSocket::send, |line| {
                other.recv(&mut packet)?;
                other.send(&packet)?;
                line.receive()
            })?;
            Ok(took.batch(count))
        })
    });
    Case { measures: COLUMNS.to_vec(), normalise: Normalise::OnOneCpu, standard: false, ..made }
}

/// Sends packets at a stated rate; latencies count from the intended starts.
fn open_case() -> Case {
    let params = Params { rate_per_s: Some(RATE_PER_S), ..params("lo", "two-way", 1) };
    let name = format!("echo on lo, open loop at {RATE_PER_S}/s");
    let made = case(name, params, Measure::TIME, |site| {
        let (own, other) = joined()?;
        let peer = PeerProcess::start(site, |control| control.serve(echo(&other)))?;
        let mut line = NumberedSocket::new(own)?;
        open_round_trips(site, peer, move || {
            line.send()?;
            line.receive()
        })
    });
    latencies(made)
}

/// Starts further copies of the test: pairs of an echo and an asker.
fn copies(site: &Site, count: u64) -> Result<Background, CaseError> {
    let mut children = Vec::new();
    for _ in 0..count {
        let (a, b) = joined()?;
        let mut line = NumberedSocket::new(a)?;
        // A copy may be stopped for longer than a packet is allowed to take.
        line.socket.set_read_timeout(None)?;
        children.push(endless(|| site.go_there(), echo(&b))?);
        let trip = || line.send().and_then(|()| line.receive());
        children.push(endless(|| site.go_here(), trip)?);
    }
    Background::new(children)
}
