//! The servers of TFTP that are compared: weir's, and those of others that are installed.

use crate::engine::case::{CaseError, Site};
use crate::tools::program;
use crate::tools::served::ServerProcess;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port for a server.
const FIRST_PORT: u16 = 20_000;
/// The port of dnsmasq, which cannot have another.
const DNSMASQ_PORT: u16 = 69;
/// A column of /proc/net/udp: the local address and port.
const LOCAL_COLUMN: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// `weir net tftpd --socket`.
    Weir,
    /// in.tftpd of tftp-hpa, which knows no windows.
    TftpdHpa,
    Atftpd,
    /// dnsmasq, which knows no windows, and limits blocks to what fits into a packet of the device.
    Dnsmasq,
    /// tftpd of the crate tftpd (rs-tftpd).
    RsTftpd,
}

impl ServerKind {
    pub fn title(self) -> &'static str {
        match self {
            ServerKind::Weir => "weir",
            ServerKind::TftpdHpa => "tftpd-hpa",
            ServerKind::Atftpd => "atftpd",
            ServerKind::Dnsmasq => "dnsmasq",
            ServerKind::RsTftpd => "rs-tftpd",
        }
    }

    /// Makes the command that serves a directory at a port.
    fn command(self, directory: &Path, port: u16) -> Result<Command, CaseError> {
        let found = |name: &str| program::find(name).map(Command::new);
        let mut command = match self {
            ServerKind::Weir => Command::new(program::weir()?),
            ServerKind::TftpdHpa => found("in.tftpd")?,
            ServerKind::Atftpd => found("atftpd")?,
            ServerKind::Dnsmasq => found("dnsmasq")?,
            ServerKind::RsTftpd => found("tftpd")?,
        };
        let shown = directory.display();
        let words = match self {
            ServerKind::Weir => {
                format!("net tftpd --socket --quiet --bind 127.0.0.1 --port {port} {shown}")
            }
            ServerKind::TftpdHpa => {
                format!("--listen --foreground --address 127.0.0.1:{port} --user root -s {shown}")
            }
            ServerKind::Atftpd => format!(
                "--daemon --no-fork --port {port} --bind-address 127.0.0.1 --user root \
                 --group root --verbose=0 --logfile /dev/null {shown}"
            ),
            ServerKind::Dnsmasq => format!(
                "--keep-in-foreground --port=0 --enable-tftp --tftp-root={shown} --conf-file=/dev/null \
                 --user=root --pid-file --listen-address=127.0.0.1 --bind-interfaces"
            ),
            ServerKind::RsTftpd => format!("-i 127.0.0.1 -p {port} -d {shown} -r"),
        };
        command.args(words.split_whitespace());
        Ok(command)
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct TftpServer {
    _process: ServerProcess,
    pub port: u16,
}

impl TftpServer {
    /// Starts a server of a directory at the loopback address of this namespace.
    pub fn start(site: &Site, kind: ServerKind, directory: &Path) -> Result<TftpServer, CaseError> {
        static NEXT: AtomicU16 = AtomicU16::new(FIRST_PORT);
        let port = match kind {
            ServerKind::Dnsmasq => DNSMASQ_PORT,
            // Relaxed: the numbers only have to differ.
            _ => NEXT.fetch_add(1, Ordering::Relaxed),
        };
        let mut command = kind.command(directory, port)?;
        let process = ServerProcess::start(site, &mut command, || has_socket(port))?;
        Ok(TftpServer { _process: process, port })
    }
}

/// Whether a socket of UDP in this namespace has the port.
fn has_socket(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/self/net/udp").unwrap_or_default();
    let wanted = format!(":{port:04X}");
    let mut locals = sockets.lines().filter_map(|line| line.split_whitespace().nth(LOCAL_COLUMN));
    locals.any(|local| local.ends_with(&wanted))
}
