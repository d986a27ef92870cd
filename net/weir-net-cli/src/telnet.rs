//! Telnet between a connection and a terminal, for `weir net telnet`.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::IsTerminal;
use weir_net::tcp::telnet::{TelnetRole, TelnetSession, WindowSize};

/// ^], which ends the command on a terminal that sends each character at once.
const QUIT: u8 = 0x1d;

/// Telnet between a connection and the standard input and output.
pub struct TelnetTalk {
    session: TelnetSession,
    /// What is to be asked for at the beginning.
    opening: Vec<u8>,
    /// The terminal as it was, where it sends each character at once.
    raw: Option<RawTerminal>,
    is_terminal: bool,
    data: Vec<u8>,
    /// The user wants to end.
    pub is_quit: bool,
}

impl TelnetTalk {
    /// Begins to talk; `is_binary` asks for binary transmission.
    pub fn new(is_binary: bool) -> TelnetTalk {
        let mut opening = Vec::new();
        let mut session = TelnetSession::new(TelnetRole::Client, &mut opening);
        if is_binary {
            session.ask_binary(&mut opening);
        }
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if let Ok(size) = tcgetwinsize(rustix::stdio::stdout())
            && is_terminal
        {
            let size = WindowSize { columns: size.ws_col, rows: size.ws_row };
            session.set_window(size, &mut opening);
        }
        let (raw, data, is_quit) = (None, Vec::new(), false);
        TelnetTalk { session, opening, raw, is_terminal, data, is_quit }
    }

    /// Whether the terminal sends each character at once, so that one of them ends the command.
    pub fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    /// Takes bytes that came; returns the data among them. What is to be answered is appended to
    /// `reply`.
    pub fn take(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> &[u8] {
        reply.append(&mut self.opening);
        self.data.clear();
        self.session.take(bytes, &mut self.data, reply);
        // Where the other side echoes, this terminal must not.
        if self.is_terminal && self.session.is_echoed() != self.raw.is_some() {
            self.raw = if self.session.is_echoed() { RawTerminal::set() } else { None };
        }
        &self.data
    }

    /// Appends input to `to`, as it travels.
    pub fn put(&mut self, input: &[u8], to: &mut Vec<u8>) {
        to.append(&mut self.opening);
        let typed = match input.iter().position(|byte| *byte == QUIT) {
            Some(at) if self.raw.is_some() => {
                self.is_quit = true;
                &input[..at]
            }
            _ => input,
        };
        self.session.put(typed, to);
    }
}

/// A terminal that sends each character at once. Dropping this sets it back.
struct RawTerminal(Termios);

impl RawTerminal {
    fn set() -> Option<RawTerminal> {
        let before = tcgetattr(rustix::stdio::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(RawTerminal(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.0);
    }
}
