//! `net-tcp`: bytes over TCP from the kernel to a host at user level behind a TUN device, and back:
//! weir's, plain smoltcp (`plain`), and for scale the kernel of another namespace over a pair of
//! virtual devices, with and without segmentation by the device.
//!
//! All of a cell runs in a network namespace of its own, with packets as on Ethernet. Each batch is a
//! connection: "in" sends 32 MiB to a service that throws them away, and ends when that has closed the
//! connection, so that all have arrived; "out" reads as many that a service generates.

mod plain;

use crate::allen_echo::goals::Goal;
use crate::allen_echo::network::{MTU, PREFIX_BITS, Subnet};
use crate::allen_echo::veth;
use crate::allen_echo::weir::Weir;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use crate::tools::program;
use crate::tools::served::ServerProcess;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_net::sys::tun::{self, Tun};

/// Bytes of a batch, and of one call.
const BATCH_BYTES: usize = 32 << 20;
const CALL_BYTES: usize = 128 << 10;
/// Bytes of the buffers of a connection at user level, in plain smoltcp as in weir.
const BUFFER_BYTES: usize = weir_net::tcp::smol::BUFFER_BYTES;
const DISCARD: u16 = 9;
const CHARGEN: u16 = 19;
/// After this long without any byte a transfer has failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Fresh processes of a group, each of which starts all hosts.
const PROCESSES: u64 = 12;
const WEIGHT: f64 = 6.0;
/// The least of weir's rate beside plain smoltcp's.
const LEAST: f64 = 2.0;

/// Who is at the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostKind {
    PlainSmoltcp,
    Weir,
    /// weir's with a device that leaves neither checksums nor segments to anybody.
    WeirWithoutOffload,
    Kernel,
    KernelWithoutOffload,
}

const HOSTS: [HostKind; 5] = [
    HostKind::PlainSmoltcp,
    HostKind::Weir,
    HostKind::WeirWithoutOffload,
    HostKind::Kernel,
    HostKind::KernelWithoutOffload,
];

/// Where the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

impl HostKind {
    fn title(self) -> &'static str {
        match self {
            HostKind::PlainSmoltcp => "plain smoltcp",
            HostKind::Weir => "weir",
            HostKind::WeirWithoutOffload => "weir without offload",
            HostKind::Kernel => "the kernel on veth",
            HostKind::KernelWithoutOffload => "the kernel on veth without offload",
        }
    }

    fn device(self) -> &'static str {
        match self {
            HostKind::Kernel | HostKind::KernelWithoutOffload => "veth",
            _ => "tun",
        }
    }
}

/// Returns the suite.
pub fn suite() -> Suite {
    let groups = [Direction::In, Direction::Out].map(|direction| {
        let cases = HOSTS.map(|host| stream_case(host, direction)).into();
        let made = compared(format!("tcp, {}", way(direction)), Sides::Two, cases);
        Group { processes: PROCESSES, twin: false, ..made }
    });
    Suite {
        name: "net-tcp",
        about: "Bytes over TCP at MTU 1500, to and from weir's host, plain smoltcp and the kernel.",
        source: "L. Allen (MIT), the packet driver and what ran on it",
        groups: groups.into(),
    }
}

/// Returns the bounds.
pub fn goals() -> Vec<Goal> {
    let of = |direction| Goal {
        a: name(HostKind::PlainSmoltcp, direction),
        b: name(HostKind::Weir, direction),
        bound: LEAST,
        is_most: false,
    };
    vec![of(Direction::In), of(Direction::Out)]
}

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "in",
        Direction::Out => "out",
    }
}

fn name(host: HostKind, direction: Direction) -> String {
    format!("tcp, {}, {}", host.title(), way(direction))
}

fn stream_case(host: HostKind, direction: Direction) -> Case {
    let params = Params {
        chunk_bytes: Some(CALL_BYTES as u64),
        device: Some(host.device().into()),
        operation: Some(way(direction).into()),
        ..moving(host.title(), "one-way")
    };
    let make = move |site: &Site| stream(site, host, direction);
    Case {
        standard: false,
        normalise: Normalise::OnOneCpu,
        size: BatchSize::Count(1),
        weight: WEIGHT,
        ..case(name(host, direction), params, Measure::THROUGHPUT, make)
    }
}

/// What a host consists of; dropping it ends it.
enum RunningHost {
    Peer { _peer: PeerProcess },
    Weir { _serve: ServerProcess, _switch: Weir },
}

fn stream(site: &Site, kind: HostKind, direction: Direction) -> MadeWork {
    let subnet = Subnet::new()?;
    let host = start(site, kind, subnet)?;
    let there = subnet.there();
    wait_for(SocketAddr::from((there, DISCARD)))?;
    let mut buffer = vec![b'w'; CALL_BYTES];
    work(move |count| {
        let _running = &host;
        let begun = Instant::now();
        for _ in 0..count {
            match direction {
                Direction::In => send_all(there, &buffer)?,
                Direction::Out => receive_all(there, &mut buffer)?,
            }
        }
        Ok(Batch::throughput(elapsed_ns(begun), count * BATCH_BYTES as u64))
    })
}

fn start(site: &Site, kind: HostKind, subnet: Subnet) -> Result<RunningHost, CaseError> {
    match kind {
        HostKind::PlainSmoltcp => {
            let device = Tun::open(&subnet.device(), false).map_err(|error| {
                CaseError::left_out(format!("cannot create a TUN device: {error}"))
            })?;
            tun::configure(device.name(), subnet.here(), PREFIX_BITS, MTU)?;
            let there = subnet.there();
            let peer = PeerProcess::start(site, |_| {
                match plain::serve(&device, there, MTU, BUFFER_BYTES, (DISCARD, CHARGEN))? {}
            })?;
            Ok(RunningHost::Peer { _peer: peer })
        }
        HostKind::Weir | HostKind::WeirWithoutOffload => {
            let options: &[&str] = match kind {
                HostKind::Weir => &["--icmpd"],
                _ => &["--icmpd", "--no-vnet-header"],
            };
            let switch = Weir::start_with(site, subnet, options)?;
            let mut command = Command::new(program::weir()?);
            command.args(["net", "serve", "--discard", "--chargen", "--quiet"]);
            command.args(["--tun", &subnet.device()]);
            command.env("XDG_RUNTIME_DIR", switch.runtime_directory());
            let serve = ServerProcess::start(site, &mut command, || true)?;
            Ok(RunningHost::Weir { _serve: serve, _switch: switch })
        }
        HostKind::Kernel | HostKind::KernelWithoutOffload => {
            let offloads = kind == HostKind::Kernel;
            let there = subnet.there();
            let far = subnet.far_device();
            let listen = move || -> Result<[TcpListener; 2], CaseError> {
                offload(&far, offloads)?;
                let listen = |port| TcpListener::bind(SocketAddr::from((there, port)));
                Ok([listen(DISCARD)?, listen(CHARGEN)?])
            };
            let peer = veth::join(site, subnet, listen, |[discard, chargen], _| {
                std::thread::scope(|scope| {
                    scope.spawn(|| each(&discard, |mut stream| drop(drain(&mut stream))));
                    each(&chargen, |mut stream| {
                        let bytes = vec![b'w'; CALL_BYTES];
                        // The other side closes when it has enough.
                        while stream.write_all(&bytes).is_ok() {}
                    });
                });
                Ok(())
            })?;
            offload(&subnet.device(), offloads)?;
            Ok(RunningHost::Peer { _peer: peer })
        }
    }
}

/// Serves connections one after the other.
fn each(listener: &TcpListener, serve: impl FnMut(TcpStream)) {
    listener.incoming().flatten().for_each(serve);
}

/// Reads to the end.
fn drain(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; CALL_BYTES];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Switches segmentation and checksums by a device on or off.
fn offload(device: &str, on: bool) -> Result<(), CaseError> {
    let on = if on { "on" } else { "off" };
    let mut command = Command::new(program::find("ethtool")?);
    command.args(["-K", device]);
    for feature in ["tso", "gso", "gro", "tx", "rx"] {
        command.args([feature, on]);
    }
    let ran = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output =
        ran.map_err(|error| CaseError::left_out(format!("cannot run ethtool: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(CaseError::left_out(format!("ethtool -K {device}: {said}")))
        }
    }
}

/// Waits until a service takes connections.
fn wait_for(to: SocketAddr) -> Result<(), CaseError> {
    let until = Instant::now() + 2 * PATIENCE;
    loop {
        match TcpStream::connect_timeout(&to, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > until => {
                return Err(CaseError::failed(format!("{to} takes no connection: {error}")));
            }
            // It may not listen yet.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn connect(there: Ipv4Addr, port: u16) -> Result<TcpStream, CaseError> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((there, port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends a batch; returns when the other side has received all and closed the connection.
fn send_all(there: Ipv4Addr, bytes: &[u8]) -> Result<(), CaseError> {
    let mut stream = connect(there, DISCARD)?;
    for _ in 0..BATCH_BYTES / bytes.len() {
        stream.write_all(bytes)?;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(drain(&mut stream)?)
}

/// Receives a batch.
fn receive_all(there: Ipv4Addr, buffer: &mut [u8]) -> Result<(), CaseError> {
    let mut stream = connect(there, CHARGEN)?;
    let mut left = BATCH_BYTES;
    while left > 0 {
        let most = left.min(buffer.len());
        match stream.read(&mut buffer[..most])? {
            0 => return Err(CaseError::failed("the connection ended early")),
            bytes => left -= bytes,
        }
    }
    Ok(())
}
