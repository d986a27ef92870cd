//! `net-tcp`: bytes over TCP from the kernel to a host at user level behind a TUN device, and back:
//! weir's and plain smoltcp (`plain`). And Allen's question, what TCP at user level costs on a net: the
//! kernel of another namespace over a pair of virtual devices, with and without segmentation by the
//! device, and weir's on such a pair.
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
    /// weir's on the same pair of devices as the kernel's, beside it.
    WeirOnVeth,
}

/// Behind a TUN device.
const HOSTS: [HostKind; 3] = [HostKind::PlainSmoltcp, HostKind::Weir, HostKind::WeirWithoutOffload];
/// On a net: what TCP at user level costs beside the kernel's.
const ON_A_NET: [HostKind; 3] =
    [HostKind::Kernel, HostKind::WeirOnVeth, HostKind::KernelWithoutOffload];

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
            HostKind::WeirOnVeth => "weir on veth",
        }
    }

    fn device(self) -> &'static str {
        match self {
            HostKind::Kernel | HostKind::KernelWithoutOffload | HostKind::WeirOnVeth => "veth",
            _ => "tun",
        }
    }
}

/// Returns the suite.
pub fn suite() -> Suite {
    let directions = [Direction::In, Direction::Out].into_iter();
    let groups = directions.flat_map(|direction| {
        [("tcp", HOSTS), ("tcp on a net", ON_A_NET)].map(|(title, hosts)| {
            let cases = hosts.map(|host| stream_case(host, direction)).into();
            let made = compared(format!("{title}, {}", way(direction)), Sides::Two, cases);
            Group { processes: PROCESSES, twin: false, ..made }
        })
    });
    Suite {
        name: "net-tcp",
        about: "Bytes over TCP at MTU 1500, to and from weir's host, plain smoltcp and the kernel.",
        source: "L. Allen (MIT), the packet driver and what ran on it",
        groups: groups.collect(),
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

/// Returns the kernel's case and weir's on a net, in each direction.
pub fn on_a_net() -> [[String; 2]; 2] {
    let of = |direction| [HostKind::Kernel, HostKind::WeirOnVeth].map(|host| name(host, direction));
    [Direction::In, Direction::Out].map(of)
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
    OnVeth { _serve: ServerProcess, _switch: Weir, _wire: PeerProcess },
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
            let serve = serve(site, &switch)?;
            Ok(RunningHost::Weir { _serve: serve, _switch: switch })
        }
        HostKind::WeirOnVeth => {
            let wire = veth::wire(site, subnet)?;
            let switch = Weir::start_on(site, subnet, &wire, &["--icmpd"])?;
            let serve = serve(site, &switch)?;
            Ok(RunningHost::OnVeth { _serve: serve, _switch: switch, _wire: wire })
        }
        HostKind::Kernel | HostKind::KernelWithoutOffload => {
            let offloads = kind == HostKind::Kernel;
            let there = subnet.there();
            let far = subnet.far_device();
            let listen = move || -> Result<[TcpListener; 2], CaseError> {
                veth::address(subnet)?;
                if !offloads {
                    stop_offload(&far)?;
                }
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
            if !offloads {
                stop_offload(&subnet.device())?;
            }
            Ok(RunningHost::Peer { _peer: peer })
        }
    }
}

/// Starts the services of a host of weir's.
fn serve(site: &Site, switch: &Weir) -> Result<ServerProcess, CaseError> {
    let mut command = Command::new(program::weir()?);
    command.args(["net", "serve", "--discard", "--chargen", "--quiet"]);
    command.args(["--tun", switch.device()]);
    command.env("XDG_RUNTIME_DIR", switch.runtime_directory());
    ServerProcess::start(site, &mut command, || true)
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

/// Switches segmentation and checksums by a device off: a pair is made with both.
fn stop_offload(device: &str) -> Result<(), CaseError> {
    let mut command = Command::new(program::find("ethtool")?);
    command.args(["-K", device]);
    for feature in ["tso", "gso", "gro", "tx", "rx"] {
        command.args([feature, "off"]);
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
