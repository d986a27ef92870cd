//! A connection of Telnet whose client works with a command on a terminal.

use super::http::{Served, fill};
use super::telnet::{TelnetRole, TelnetSession};
use super::{ConnectionId, Stack};
use crate::sys::terminal::Terminal;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::process::Command;

/// Most bytes that wait in each direction. Where so many wait, no more are read.
const MOST_WAITING_BYTES: usize = 64 << 10;
/// Bytes that are read at once. Each takes two at most on its way to the client.
const READ_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub struct TerminalConnection {
    terminal: Terminal,
    session: TelnetSession,
    to_terminal: Vec<u8>,
    to_client: Vec<u8>,
    /// The command has ended, or has closed its terminal.
    has_ended: bool,
}

impl TerminalConnection {
    /// Starts a command of the shell on a new terminal.
    ///
    /// # Errors
    /// There are no terminals left; there is no shell.
    pub fn start(command: &str) -> std::io::Result<TerminalConnection> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).env("TERM", "dumb");
        let terminal = Terminal::start(shell)?;
        let mut to_client = Vec::new();
        let session = TelnetSession::new(TelnetRole::Server, &mut to_client);
        Ok(TerminalConnection {
            terminal,
            session,
            to_terminal: Vec::new(),
            to_client,
            has_ended: false,
        })
    }

    /// Returns the terminal, where output of the command can be taken. Otherwise nothing is to be
    /// waited for there.
    pub fn waits_for_output(&self) -> Option<BorrowedFd<'_>> {
        (!self.has_ended && self.to_client.len() < MOST_WAITING_BYTES)
            .then(|| self.terminal.as_fd())
    }

    /// Whether the command has ended, and all of its output is in the stack.
    pub fn is_over(&self) -> bool {
        self.has_ended && self.to_client.is_empty()
    }

    /// Takes what came on either side, and passes it on.
    pub fn serve(&mut self, stack: &mut impl Stack, id: ConnectionId) -> Served {
        let bytes_in = self.take_of_client(stack, id);
        self.take_of_terminal();
        let mut bytes_out = 0;
        while bytes_out < self.to_client.len() {
            let sent = stack.send(id, &mut |to| fill(to, &self.to_client[bytes_out..]));
            if sent == 0 {
                break;
            }
            bytes_out += sent;
        }
        self.to_client.drain(..bytes_out);
        Served { bytes_in, bytes_out }
    }

    fn take_of_client(&mut self, stack: &mut impl Stack, id: ConnectionId) -> usize {
        let TerminalConnection { session, to_terminal, to_client, .. } = self;
        let mut total = 0;
        // A client that asks much and reads nothing waits for itself.
        while to_terminal.len() < MOST_WAITING_BYTES && to_client.len() < MOST_WAITING_BYTES {
            let bytes = stack.receive(id, &mut |bytes| {
                let bytes = &bytes[..bytes.len().min(READ_BYTES)];
                session.take(bytes, to_terminal, to_client);
                bytes.len()
            });
            if bytes == 0 {
                break;
            }
            total += bytes;
        }
        if let Some(size) = session.take_window() {
            // A terminal without a size works too.
            let _ = self.terminal.set_size(size.columns, size.rows);
        }
        while !self.to_terminal.is_empty() {
            match rustix::io::write(&self.terminal, &self.to_terminal) {
                Ok(bytes) => drop(self.to_terminal.drain(..bytes)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // Nobody reads it any more.
                Err(_) => self.to_terminal.clear(),
            }
        }
        total
    }

    fn take_of_terminal(&mut self) {
        let mut buffer = [0; READ_BYTES];
        while !self.has_ended && self.to_client.len() < MOST_WAITING_BYTES {
            match rustix::io::read(&self.terminal, &mut buffer) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // The last process that had the terminal has closed it.
                Ok(0) | Err(_) => self.has_ended = true,
                Ok(bytes) => self.session.put(&buffer[..bytes], &mut self.to_client),
            }
        }
    }
}
