//! `net-tftp`: a file by TFTP over the kernel's sockets, from weir's server and from others, by the
//! programs that users have; and Allen's two figures, the rate of TFTP at 512-byte packets and the
//! echo's turnaround.
//!
//! All of a cell runs in a network namespace of its own, over its loopback device. Each transfer is a
//! fresh client. The file is in memory, is compared with what arrived, and is as long as fits into
//! some tenths of a second. [`goals`] has the bounds.

mod client;
pub mod goals;
mod server;

use crate::allen_echo::asker::Asker;
use crate::allen_echo::network::{MTU, PREFIX_BITS, Subnet};
use crate::allen_echo::weir::Weir;
use crate::tools::place::PortDirectory;
use crate::tools::prelude::*;
use crate::tools::program;
use crate::tools::served::ServerProcess;
use client::{ClientKind, Proposal, fetch};
use server::{ServerKind, TftpServer};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weir_net::sys::tun::{self, Tun};
use weir_policy::random::Random;

/// Block sizes: what every implementation has, what fits into a packet of Ethernet, and longer ones.
const BLOCKS: [u16; 4] = [512, 1428, 8192, 65_464];
/// Block sizes and windows that fit into the receive buffer of a socket.
const WINDOWS: [(u16, u16); 5] = [(512, 8), (512, 64), (1428, 8), (1428, 64), (8192, 8)];
/// Windows longer than that buffer.
const OVERLONG: [(u16, u16); 2] = [(8192, 64), (65_464, 8)];
/// Servers that are compared one block at a time, and with windows. The first is the baseline.
const SERVERS: [ServerKind; 5] = [
    ServerKind::Weir,
    ServerKind::TftpdHpa,
    ServerKind::Atftpd,
    ServerKind::RsTftpd,
    ServerKind::Dnsmasq,
];
const WINDOW_SERVERS: [ServerKind; 3] = [ServerKind::Weir, ServerKind::Atftpd, ServerKind::RsTftpd];
/// Clients that propose a block size, and those that propose windows too.
const CLIENTS: [ClientKind; 3] = [ClientKind::Weir, ClientKind::Curl, ClientKind::Atftp];
const WINDOW_CLIENTS: [ClientKind; 2] = [ClientKind::Weir, ClientKind::Atftp];
const NAME: &str = "file";
/// How long one transfer may take. What did not arrive by then counts as not arrived.
const LIMIT: Duration = Duration::from_secs(3);
/// Fresh processes of a group, each of which starts all servers.
const PROCESSES: u64 = 8;
/// The part of a cell's time that a case takes.
const WEIGHT: f64 = 6.0;
/// Where the file lies, if this is there: in memory.
const MEMORY: &str = "/dev/shm";

/// Returns the suite.
pub fn suite() -> Suite {
    let mut groups = vec![allen()];
    for client in CLIENTS {
        groups.extend(BLOCKS.map(|block_bytes| {
            compared_servers(client, Proposal { block_bytes, window: 1 }, &SERVERS)
        }));
    }
    for client in WINDOW_CLIENTS {
        let all = WINDOWS.into_iter().chain(OVERLONG);
        groups.extend(all.map(|(block_bytes, window)| {
            compared_servers(client, Proposal { block_bytes, window }, &WINDOW_SERVERS)
        }));
    }
    Suite {
        name: "net-tftp",
        about: "A file by TFTP: weir net tftpd beside other servers, by block size and window.",
        source: "L. Allen (MIT), TFTP at 512-byte packets",
        groups,
    }
}

/// The name of a case.
fn name(client: ClientKind, proposal: Proposal, server: ServerKind) -> String {
    format!("{}, from {}", task(client, proposal), server.title())
}

/// The name of a group: who fetches, and how.
fn task(client: ClientKind, Proposal { block_bytes, window }: Proposal) -> String {
    let windows = if window > 1 { format!(" x {window}") } else { String::new() };
    format!("{} tftp {block_bytes} B{windows}", client.title())
}

fn compared_servers(client: ClientKind, proposal: Proposal, servers: &[ServerKind]) -> Group {
    let cases = servers.iter().map(|server| transfer_case(client, proposal, *server)).collect();
    let made = compared(task(client, proposal), Sides::Two, cases);
    Group { standard: vec![Placement::SameCpu], processes: PROCESSES, twin: false, ..made }
}

fn transfer_case(client: ClientKind, proposal: Proposal, server: ServerKind) -> Case {
    let params = Params {
        chunk_bytes: Some(proposal.block_bytes.into()),
        window: Some(proposal.window.into()),
        device: Some("lo".into()),
        operation: Some(format!("fetched by {}", client.title())),
        ..moving(server.title(), "one-way")
    };
    let make = move |site: &Site| transfers(site, client, proposal, server);
    Case {
        standard: false,
        normalise: Normalise::OnOneCpu,
        size: BatchSize::Count(1),
        weight: WEIGHT,
        ..case(name(client, proposal, server), params, Measure::THROUGHPUT, make)
    }
}

/// Returns the length of the file for a proposal: some tenths of a second long.
fn file_bytes(Proposal { block_bytes, window }: Proposal) -> usize {
    match (block_bytes, window) {
        (..=512, 1) => 1 << 20,
        (..=1428, 1) => 4 << 20,
        (..=8192, _) => 16 << 20,
        (_, _) => 32 << 20,
    }
}

/// A file in a directory that is served, and room for what clients write.
#[derive(Debug)]
struct ServedFile {
    directory: PathBuf,
    bytes: Vec<u8>,
    /// Removes the directory.
    _place: PortDirectory,
}

impl ServedFile {
    fn new(length_bytes: usize) -> Result<ServedFile, CaseError> {
        let place = PortDirectory::below(Path::new(MEMORY)).or_else(|_| PortDirectory::new())?;
        let directory = place.directory().to_owned();
        let mut random = Random::new(20);
        let words = length_bytes.div_ceil(8);
        let mut bytes: Vec<u8> = (0..words).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        bytes.truncate(length_bytes);
        let made = ServedFile { directory, bytes, _place: place };
        // Servers send only what all users may read.
        let open = |path: &PathBuf, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        };
        open(&made.directory, 0o755)?;
        let file = made.directory.join(NAME);
        std::fs::write(&file, &made.bytes)?;
        open(&file, 0o644)?;
        Ok(made)
    }
}

fn transfers(site: &Site, client: ClientKind, proposal: Proposal, kind: ServerKind) -> MadeWork {
    // With the first one this process moves into its own namespace. in.tftpd does not start where
    // there are loopback addresses only.
    let subnet = Subnet::new()?;
    let device = Tun::open(&subnet.device(), false)
        .map_err(|error| CaseError::left_out(format!("cannot create a TUN device: {error}")))?;
    tun::configure(device.name(), subnet.here(), PREFIX_BITS, MTU)?;
    let file = ServedFile::new(file_bytes(proposal))?;
    let server = TftpServer::start(site, kind, &file.directory)?;
    let to = file.directory.join("fetched");
    let mut command = client.command(proposal, "127.0.0.1", server.port, NAME, &to)?;
    let may_stall = proposal.window > 1 && kind != ServerKind::Weir;
    work(move |count| {
        // The server, the address and the directory live as long as the work.
        let _running = (&server, &device, &file);
        let (mut elapsed_ns, mut bytes) = (0.0, 0);
        for _ in 0..count {
            let fetched = fetch(&mut command, &to, &file.bytes, LIMIT)?;
            if fetched.bytes < file.bytes.len() && !may_stall {
                return Err(CaseError::failed(format!(
                    "{} of {} bytes arrived",
                    fetched.bytes,
                    file.bytes.len()
                )));
            }
            elapsed_ns += fetched.took.as_nanos() as f64;
            bytes += fetched.bytes as u64;
        }
        Ok(Batch::throughput(elapsed_ns, bytes))
    })
}

/// The name of the case whose rate is beside Allen's.
pub const SWITCH_CASE: &str = "curl tftp 512 B, over weir net up";
/// The name of the case whose turnaround is beside Allen's.
pub const ECHO_CASE: &str = "echo through weir net up";

/// Allen's figures on one host: TFTP at 512 bytes, and an echo, both through the switch.
fn allen() -> Group {
    let params = |operation: &str, bytes: u64| Params {
        chunk_bytes: Some(bytes),
        window: Some(1),
        device: Some("tun".into()),
        operation: Some(operation.into()),
        ..moving("weir", "two-way")
    };
    let fetched = Case {
        standard: false,
        normalise: Normalise::OnOneCpu,
        size: BatchSize::Count(1),
        weight: WEIGHT,
        ..case(SWITCH_CASE, params("fetched by curl", 512), Measure::THROUGHPUT, switch_transfers)
    };
    let echo = Case {
        standard: false,
        normalise: Normalise::OnOneCpu,
        weight: WEIGHT,
        measures: vec![Measure::new("turnaround", Unit::Ns)],
        ..case(ECHO_CASE, params("echo", 56), Measure::TIME, echoes)
    };
    let made = group("Allen's two figures", Sides::Two, vec![fetched, echo]);
    Group { standard: vec![Placement::SameCpu], processes: PROCESSES, twin: false, ..made }
}

/// Fetches a file from a server at user level, which has the switch's address.
fn switch_transfers(site: &Site) -> MadeWork {
    let subnet = Subnet::new()?;
    let weir = Weir::start(site, subnet, true)?;
    let proposal = Proposal { block_bytes: 512, window: 1 };
    let file = ServedFile::new(file_bytes(proposal))?;
    let mut command = Command::new(program::weir()?);
    command.args(["net", "tftpd", "--quiet", "--tun", &subnet.device()]).arg(&file.directory);
    command.env("XDG_RUNTIME_DIR", weir.runtime_directory());
    let profile = weir.runtime_directory().join("weir/net").join(subnet.device());
    // A server that serves has published its profile.
    let is_up = || {
        let entries = std::fs::read_dir(&profile).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name());
        names.any(|name| name.as_encoded_bytes().starts_with(b"profile.tftpd"))
    };
    let server = ServerProcess::start(site, &mut command, is_up)?;
    let (host, to) = (subnet.there().to_string(), file.directory.join("fetched"));
    let mut command = ClientKind::Curl.command(proposal, &host, 69, NAME, &to)?;
    work(move |count| {
        let _running = (&server, &weir, &file);
        let (mut elapsed_ns, mut bytes) = (0.0, 0);
        for _ in 0..count {
            let fetched = fetch(&mut command, &to, &file.bytes, LIMIT)?;
            if fetched.bytes < file.bytes.len() {
                return Err(CaseError::failed("the file did not arrive whole"));
            }
            elapsed_ns += fetched.took.as_nanos() as f64;
            bytes += fetched.bytes as u64;
        }
        Ok(Batch::throughput(elapsed_ns, bytes))
    })
}

/// Asks for echoes, one after the other, with ICMP in the switch.
fn echoes(site: &Site) -> MadeWork {
    let subnet = Subnet::new()?;
    let weir = Weir::start(site, subnet, false)?;
    let mut asker = Asker::new(subnet.there(), 1)?;
    work(move |count| {
        let _running = &weir;
        let took = asker.turnarounds(count)?;
        let turnaround = took.batch(count).values[0];
        Ok(Batch { values: vec![turnaround], ..took.batch(count) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Megabytes of memory stayed in use for each cell that was killed.
    #[test]
    fn what_a_killed_process_left_in_memory_is_removed() {
        let left = Path::new(MEMORY).join(format!(".weir-bench-left-{}", std::process::id()));
        if std::fs::create_dir(&left).is_err() {
            eprintln!("SKIPPED: there is no {MEMORY}");
            return;
        }
        drop(ServedFile::new(1).expect("made"));
        assert!(!left.exists());
    }

    #[test]
    fn the_file_has_no_part_that_looks_like_another() {
        let file = ServedFile::new(10_001).expect("made");
        assert_eq!(file.bytes.len(), 10_001);
        assert_ne!(file.bytes[..512], file.bytes[512..1024]);
        let directory = file.directory.clone();
        assert_eq!(std::fs::read(directory.join(NAME)).expect("read"), file.bytes);
        drop(file);
        assert!(!directory.exists());
    }
}
