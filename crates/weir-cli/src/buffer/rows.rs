//! Rows of a terminal for several buffers, one row each, as in `a | weir buffer | b | weir buffer >
//! c`.
//!
//! A buffer claims a row by binding an abstract unix socket, so that the claim ends with its process.
//! The cursor rests in row 0. To draw, a buffer moves down to its row and back up in one write, which
//! the terminal does not interleave. The last buffer leaves the cursor below all rows.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with,
};
use rustix::stdio::stderr;
use std::time::Duration;

/// The number of rows. A buffer that finds no free row draws in row 0.
const MOST_ROWS: usize = 8;
/// How long an ending buffer waits for another one that is ending, and how often it looks.
const ENDING: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct TerminalRow {
    /// Holds the row while it is open; `None` if all rows were taken or sockets are unavailable.
    claim: Option<OwnedFd>,
    row: usize,
    /// The lowest row on the screen that any buffer was seen to hold.
    lowest: usize,
    terminal: String,
}

impl TerminalRow {
    /// Claims the first free row.
    pub fn claim() -> TerminalRow {
        let of = rustix::fs::fstat(stderr()).map_or(0, |stat| stat.st_rdev);
        let user = rustix::process::getuid().as_raw();
        let terminal = format!("weir-buffer-{user}-{of}");
        let claimed =
            (0..MOST_ROWS).find_map(|row| Some((row, take(&terminal, &row.to_string())?)));
        let (row, claim) = claimed.map_or((0, None), |(row, claim)| (row, Some(claim)));
        TerminalRow { claim, row, lowest: row, terminal }
    }

    /// The text that draws a line in this row and returns to row 0.
    pub fn draw(&mut self, line: &str) -> String {
        self.poll();
        let down = "\n".repeat(self.row);
        let up = match self.row {
            0 => String::new(),
            row => format!("\x1b[{row}A\r"),
        };
        format!("\r{down}\r{line}\x1b[K{up}")
    }

    /// The text that moves the cursor below all rows; nothing if other buffers still draw.
    pub fn leave(mut self) -> String {
        self.poll();
        let ends = (0..ENDING.as_millis() / LOOK.as_millis()).find_map(|_| {
            let alone = take(&self.terminal, "end");
            if alone.is_none() {
                // sleep: another buffer is ending right now, which takes some microseconds.
                std::thread::sleep(LOOK);
            }
            alone
        });
        self.claim = None;
        let others = (0..MOST_ROWS).any(|row| self.is_taken(row));
        drop(ends);
        if others { String::new() } else { "\n".repeat(self.lowest + 1) }
    }

    fn poll(&mut self) {
        let taken = (0..MOST_ROWS).rev().find(|row| self.is_taken(*row));
        self.lowest = self.lowest.max(taken.unwrap_or(0));
    }

    fn is_taken(&self, row: usize) -> bool {
        let Some((socket, address)) = address(&self.terminal, &row.to_string()) else {
            return false;
        };
        // A socket of another user gives another error, and its row is taken.
        !matches!(connect(&socket, &address), Err(Errno::CONNREFUSED))
    }
}

fn take(terminal: &str, what: &str) -> Option<OwnedFd> {
    let (socket, address) = address(terminal, what)?;
    bind(&socket, &address).ok().map(|()| socket)
}

fn address(terminal: &str, what: &str) -> Option<(OwnedFd, SocketAddrUnix)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).ok()?;
    let name = format!("{terminal}-{what}");
    Some((socket, SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(terminal: &str) -> TerminalRow {
        let claimed = (0..MOST_ROWS).find_map(|row| Some((row, take(terminal, &row.to_string())?)));
        let (row, claim) = claimed.expect("a row");
        TerminalRow { claim: Some(claim), row, lowest: row, terminal: terminal.into() }
    }

    #[test]
    fn buffers_share_a_terminal_and_the_last_leaves_it() {
        let terminal = format!("weir-test-{}", std::process::id());
        let [mut first, mut second] = [(); 2].map(|()| row(&terminal));
        assert_eq!((first.row, second.row), (0, 1));
        assert_eq!(first.draw("one"), "\r\rone\x1b[K");
        assert_eq!(second.draw("two"), "\r\n\rtwo\x1b[K\x1b[1A\r");
        assert_eq!(second.leave(), "", "the first still draws in row 0");
        assert_eq!(first.draw("one"), "\r\rone\x1b[K");
        assert_eq!(first.leave(), "\n\n", "below the second's line, too");
        let again = row(&terminal);
        assert_eq!(again.row, 0);
        assert_eq!(again.leave(), "\n");
    }
}
