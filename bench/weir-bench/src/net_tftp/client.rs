//! The clients that fetch a file: programs, as users run them.

use crate::engine::case::CaseError;
use crate::tools::program;
use crate::tools::served::run_for;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What is proposed to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub block_bytes: u16,
    pub window: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// `weir net tftp get`.
    Weir,
    /// curl, which knows no windows.
    Curl,
    Atftp,
}

impl ClientKind {
    pub fn title(self) -> &'static str {
        match self {
            ClientKind::Weir => "weir",
            ClientKind::Curl => "curl",
            ClientKind::Atftp => "atftp",
        }
    }

    /// Makes the command that fetches the file `name` to `to`, which it replaces.
    pub fn command(
        self,
        proposal: Proposal,
        host: &str,
        port: u16,
        name: &str,
        to: &Path,
    ) -> Result<Command, CaseError> {
        let Proposal { block_bytes, window } = proposal;
        let mut command = match self {
            ClientKind::Weir => Command::new(program::weir()?),
            ClientKind::Curl => Command::new(program::find("curl")?),
            ClientKind::Atftp => Command::new(program::find("atftp")?),
        };
        match self {
            ClientKind::Weir => {
                command.args(["net", "tftp", "get", "--socket", "--quiet"]);
                command.args(["--port", &port.to_string(), "--block", &block_bytes.to_string()]);
                command.args(["--window", &window.to_string(), host, name]).arg(to);
            }
            ClientKind::Curl => {
                command.args(["-s", "--tftp-blksize", &block_bytes.to_string(), "-o"]);
                command.arg(to).arg(format!("tftp://{host}:{port}/{name}"));
            }
            ClientKind::Atftp => {
                command.args(["--option", &format!("blksize {block_bytes}")]);
                command.args(["--option", &format!("windowsize {window}")]);
                command.args(["-g", "-r", name, "-l"]).arg(to);
                command.arg(host).arg(port.to_string());
            }
        }
        Ok(command)
    }
}

/// What a fetch gave.
#[derive(Debug)]
pub struct Fetched {
    pub took: Duration,
    /// Bytes that arrived; fewer than the file has where it failed or took too long.
    pub bytes: usize,
}

/// Fetches a file, within `limit`, and compares what arrived with it.
pub fn fetch(
    command: &mut Command,
    to: &Path,
    file: &[u8],
    limit: Duration,
) -> Result<Fetched, CaseError> {
    let (_, took) = run_for(command, limit)?;
    // A client may not have begun to write.
    let got = std::fs::read(to).unwrap_or_default();
    if !file.starts_with(&got) {
        return Err(CaseError::failed("other bytes arrived than the file has"));
    }
    // A file of the last time must not count again.
    let _ = std::fs::remove_file(to);
    Ok(Fetched { took, bytes: got.len() })
}
