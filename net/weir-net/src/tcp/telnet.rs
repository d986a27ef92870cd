//! Telnet (RFC 854, RFC 855): what of a connection is data, and what is asked and answered about
//! options. No clock and no I/O.
//!
//! Options that are agreed on: binary transmission (RFC 856), echo by the server (RFC 857),
//! suppressed go-aheads (RFC 858), and the size of the window, from client to server (RFC 1073).
//! Whatever else the other side offers or asks for is declined. An answer is given only where
//! something changes, so that two sides cannot answer each other without end.

/// "Interpret as command", which begins each command.
const IAC: u8 = 255;
const DONT: u8 = 254;
const DO: u8 = 253;
const WONT: u8 = 252;
const WILL: u8 = 251;
/// Begin and end of a subnegotiation.
const SB: u8 = 250;
const SE: u8 = 240;
/// "Are you there", which is answered with a line.
const ARE_YOU_THERE: u8 = 246;
const INTERRUPT: u8 = 244;

const BINARY: u8 = 0;
const ECHO: u8 = 1;
const SUPPRESS_GO_AHEAD: u8 = 3;
const WINDOW_SIZE: u8 = 31;

/// Most bytes of a subnegotiation that are kept; the rest is passed over.
const MOST_SUBNEGOTIATION_BYTES: usize = 64;
/// Control-C, which a terminal takes for an interrupt.
const INTERRUPT_CHARACTER: u8 = 3;

/// Which end of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelnetRole {
    /// It has the terminal's user.
    Client,
    /// It has the program that the user works with.
    Server,
}

/// Size of a window, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    /// Characters of a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

/// Where the parser is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parse {
    Data,
    /// After a CR, whose next byte says whether a line ends.
    Return,
    Command,
    /// After WILL, WONT, DO or DONT.
    Option(u8),
    Subnegotiation,
    SubnegotiationCommand,
}

/// What is agreed on about an option, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OptionState {
    on: bool,
    /// We asked for it, and wait for the answer.
    asked: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub struct TelnetSession {
    role: TelnetRole,
    parse: Parse,
    /// Options that we have on, by number; and those that the other side has.
    ours: [OptionState; 32],
    theirs: [OptionState; 32],
    subnegotiation: Vec<u8>,
    window: Option<WindowSize>,
    window_is_new: bool,
    last_was_return: bool,
}

impl TelnetSession {
    /// Begins a session. Appends what the server asks for at the beginning to `reply`; a client asks
    /// for nothing by itself.
    pub fn new(role: TelnetRole, reply: &mut Vec<u8>) -> TelnetSession {
        let none = [OptionState::default(); 32];
        let mut session = TelnetSession {
            role,
            parse: Parse::Data,
            ours: none,
            theirs: none,
            subnegotiation: Vec::new(),
            window: None,
            window_is_new: false,
            last_was_return: false,
        };
        if role == TelnetRole::Server {
            session.offer(ECHO, reply);
            session.offer(SUPPRESS_GO_AHEAD, reply);
            session.ask(WINDOW_SIZE, reply);
        }
        session
    }

    /// Asks for binary transmission in both directions.
    pub fn ask_binary(&mut self, reply: &mut Vec<u8>) {
        self.offer(BINARY, reply);
        self.ask(BINARY, reply);
    }

    /// Sets the size of our window, for a server that asks for it.
    pub fn set_window(&mut self, size: WindowSize, reply: &mut Vec<u8>) {
        if self.window.replace(size) != Some(size) && self.ours[usize::from(WINDOW_SIZE)].on {
            put_window(size, reply);
        }
    }

    /// Returns the size of the client's window, if it has come since the last call.
    pub fn take_window(&mut self) -> Option<WindowSize> {
        std::mem::take(&mut self.window_is_new).then_some(self.window)?
    }

    /// Whether the other side echoes what is typed, so that this terminal must not.
    pub fn is_echoed(&self) -> bool {
        self.theirs[usize::from(ECHO)].on
    }

    fn offer(&mut self, option: u8, reply: &mut Vec<u8>) {
        self.ours[usize::from(option)].asked = true;
        reply.extend_from_slice(&[IAC, WILL, option]);
    }

    fn ask(&mut self, option: u8, reply: &mut Vec<u8>) {
        self.theirs[usize::from(option)].asked = true;
        reply.extend_from_slice(&[IAC, DO, option]);
    }

    /// Takes bytes that came. Appends the data among them to `data`, and answers to `reply`.
    pub fn take(&mut self, bytes: &[u8], data: &mut Vec<u8>, reply: &mut Vec<u8>) {
        for byte in bytes {
            self.take_byte(*byte, data, reply);
        }
    }

    fn take_byte(&mut self, byte: u8, data: &mut Vec<u8>, reply: &mut Vec<u8>) {
        match (self.parse, byte) {
            (Parse::Data | Parse::Return, IAC) => self.parse = Parse::Command,
            (Parse::Return, 0) => self.parse = Parse::Data,
            // A user's line ends with CR LF; a program reads CR, as from a keyboard.
            (Parse::Return, b'\n') if self.role == TelnetRole::Server => self.parse = Parse::Data,
            (Parse::Data | Parse::Return, _) => {
                let is_binary = self.theirs[usize::from(BINARY)].on;
                let is_return = byte == b'\r' && !is_binary;
                self.parse = if is_return { Parse::Return } else { Parse::Data };
                data.push(byte);
            }
            (Parse::Command, WILL | WONT | DO | DONT) => self.parse = Parse::Option(byte),
            (Parse::Command, SB) => {
                self.subnegotiation.clear();
                self.parse = Parse::Subnegotiation;
            }
            (Parse::Command, _) => {
                self.parse = Parse::Data;
                match byte {
                    IAC => data.push(IAC),
                    ARE_YOU_THERE => reply.extend_from_slice(b"\r\n[yes]\r\n"),
                    INTERRUPT if self.role == TelnetRole::Server => data.push(INTERRUPT_CHARACTER),
                    // Go-aheads, marks and no-operations need nothing.
                    _ => {}
                }
            }
            (Parse::Option(verb), option) => {
                self.parse = Parse::Data;
                self.negotiate(verb, option, reply);
            }
            (Parse::Subnegotiation, IAC) => self.parse = Parse::SubnegotiationCommand,
            (Parse::SubnegotiationCommand, SE) => {
                self.parse = Parse::Data;
                self.end_subnegotiation();
            }
            (Parse::Subnegotiation | Parse::SubnegotiationCommand, _) => {
                self.parse = Parse::Subnegotiation;
                if self.subnegotiation.len() < MOST_SUBNEGOTIATION_BYTES {
                    self.subnegotiation.push(byte);
                }
            }
        }
    }

    /// Takes a verb about an option, and answers it where something changes.
    fn negotiate(&mut self, verb: u8, option: u8, reply: &mut Vec<u8>) {
        let (is_ours, on) = match verb {
            DO => (true, true),
            DONT => (true, false),
            WILL => (false, true),
            _ => (false, false),
        };
        let agreed = on && self.agrees(is_ours, option);
        let (yes, no) = if is_ours { (WILL, WONT) } else { (DO, DONT) };
        let states = if is_ours { &mut self.ours } else { &mut self.theirs };
        let Some(state) = states.get_mut(usize::from(option)) else {
            // It is off, and stays off: only an offer or a request is answered.
            if on {
                reply.extend_from_slice(&[IAC, no, option]);
            }
            return;
        };
        let was_asked = std::mem::take(&mut state.asked);
        let changes = state.on != agreed;
        state.on = agreed;
        if !was_asked && (changes || on != agreed) {
            reply.extend_from_slice(&[IAC, if agreed { yes } else { no }, option]);
        }
        if is_ours
            && agreed
            && changes
            && option == WINDOW_SIZE
            && let Some(size) = self.window
        {
            put_window(size, reply);
        }
    }

    /// Whether we agree to an option, ours or theirs.
    fn agrees(&self, is_ours: bool, option: u8) -> bool {
        match option {
            BINARY | SUPPRESS_GO_AHEAD => true,
            ECHO => is_ours == (self.role == TelnetRole::Server),
            WINDOW_SIZE => is_ours == (self.role == TelnetRole::Client),
            _ => false,
        }
    }

    fn end_subnegotiation(&mut self) {
        let [WINDOW_SIZE, size @ ..] = &self.subnegotiation[..] else { return };
        let Ok([a, b, c, d]) = <[u8; 4]>::try_from(size) else { return };
        if self.role == TelnetRole::Server {
            let (columns, rows) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            self.window = Some(WindowSize { columns, rows });
            self.window_is_new = true;
        }
    }

    /// Appends data to send to `to`, as it travels: command bytes doubled, and where binary
    /// transmission is not agreed on, CR followed by LF or NUL. A client's LF ends a line.
    pub fn put(&mut self, data: &[u8], to: &mut Vec<u8>) {
        let is_binary = self.ours[usize::from(BINARY)].on;
        for byte in data {
            if std::mem::take(&mut self.last_was_return) && *byte != b'\n' {
                to.push(0);
            }
            match *byte {
                IAC => to.extend_from_slice(&[IAC, IAC]),
                b'\n' if !is_binary && self.role == TelnetRole::Client => {
                    if to.last() != Some(&b'\r') {
                        to.push(b'\r');
                    }
                    to.push(b'\n');
                }
                byte => {
                    to.push(byte);
                    self.last_was_return = byte == b'\r' && !is_binary;
                }
            }
        }
        // What follows a CR is known only with the next byte. A user waits for an answer now.
        if std::mem::take(&mut self.last_was_return) {
            to.push(0);
        }
    }
}

fn put_window(size: WindowSize, reply: &mut Vec<u8>) {
    reply.extend_from_slice(&[IAC, SB, WINDOW_SIZE]);
    for byte in [size.columns.to_be_bytes(), size.rows.to_be_bytes()].concat() {
        reply.push(byte);
        if byte == IAC {
            reply.push(IAC);
        }
    }
    reply.extend_from_slice(&[IAC, SE]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> TelnetSession {
        TelnetSession::new(TelnetRole::Server, &mut Vec::new())
    }

    fn taken(session: &mut TelnetSession, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut data, mut reply) = (Vec::new(), Vec::new());
        session.take(bytes, &mut data, &mut reply);
        (data, reply)
    }

    #[test]
    fn commands_are_no_data_however_they_are_cut() {
        let bytes = b"a\xff\xfb\x1fb\xff\xffc\r\nd\r\0e\xff\xfa\x1f\0\x50\0\x18\xff\xf0f";
        let whole = taken(&mut server(), bytes).0;
        assert_eq!(whole, b"ab\xffc\rd\ref");
        for cut in 0..bytes.len() {
            let mut session = server();
            let mut data = taken(&mut session, &bytes[..cut]).0;
            data.extend(taken(&mut session, &bytes[cut..]).0);
            assert_eq!(data, whole, "cut at {cut}");
            assert_eq!(session.take_window(), Some(WindowSize { columns: 80, rows: 24 }));
            assert_eq!(session.take_window(), None);
        }
    }

    #[test]
    fn what_is_not_known_is_declined_once_and_no_answer_is_answered() {
        let mut session = server();
        // DO 99, WILL 24, DO 200.
        let asked = b"\xff\xfd\x63\xff\xfb\x18\xff\xfd\xc8";
        assert_eq!(taken(&mut session, asked).1, b"\xff\xfc\x63\xff\xfe\x18\xff\xfc\xc8");
        // WONT and DONT of what is off change nothing.
        assert_eq!(taken(&mut session, b"\xff\xfc\x18\xff\xfe\x63").1, b"");
        // Answers to what was asked: DO ECHO, DO SGA, WILL NAWS.
        assert_eq!(taken(&mut session, b"\xff\xfd\x01\xff\xfd\x03\xff\xfb\x1f").1, b"");
        // The same again is not a change.
        assert_eq!(taken(&mut session, b"\xff\xfd\x01").1, b"");
        // A client that echoes is declined; one that wants no echo is told so.
        assert_eq!(taken(&mut session, b"\xff\xfb\x01").1, b"\xff\xfe\x01");
        assert_eq!(taken(&mut session, b"\xff\xfe\x01").1, b"\xff\xfc\x01");
    }

    #[test]
    fn client_and_server_agree_and_fall_silent() {
        let mut to_client = Vec::new();
        let mut server = TelnetSession::new(TelnetRole::Server, &mut to_client);
        let mut to_server = Vec::new();
        let mut client = TelnetSession::new(TelnetRole::Client, &mut to_server);
        client.set_window(WindowSize { columns: 255, rows: 50 }, &mut to_server);
        client.ask_binary(&mut to_server);
        let mut rounds = 0;
        while !to_client.is_empty() || !to_server.is_empty() {
            let reply = taken(&mut client, &std::mem::take(&mut to_client)).1;
            to_client = taken(&mut server, &std::mem::take(&mut to_server)).1;
            to_server = reply;
            rounds += 1;
            assert!(rounds < 10, "they do not fall silent");
        }
        assert!(client.is_echoed() && !server.is_echoed());
        assert_eq!(server.take_window(), Some(WindowSize { columns: 255, rows: 50 }));
        let all: Vec<u8> = (0..=255).collect();
        let mut sent = Vec::new();
        client.put(&all, &mut sent);
        assert_eq!(taken(&mut server, &sent).0, all, "binary");
    }

    #[test]
    fn lines_end_as_the_network_terminal_has_them() {
        let mut client = TelnetSession::new(TelnetRole::Client, &mut Vec::new());
        let mut sent = Vec::new();
        client.put(b"ls\nx\ry\xff", &mut sent);
        assert_eq!(sent, b"ls\r\nx\r\0y\xff\xff");
        let mut sent = Vec::new();
        let mut session = server();
        session.put(b"a\r\nb\r", &mut sent);
        assert_eq!(sent, b"a\r\nb\r\0");
    }

    #[test]
    fn any_bytes_are_taken() {
        let mut rng = fastrand::Rng::with_seed(854);
        for role in [TelnetRole::Client, TelnetRole::Server] {
            let mut session = TelnetSession::new(role, &mut Vec::new());
            for _ in 0..2_000 {
                let bytes: Vec<u8> = (0..rng.usize(0..40))
                    .map(|_| if rng.bool() { rng.u8(239..) } else { rng.u8(..) })
                    .collect();
                let (data, reply) = taken(&mut session, &bytes);
                assert!(data.len() <= bytes.len());
                // A short command asks for a longer answer at most once in its length.
                assert!(reply.len() <= 9 * bytes.len() + 9, "{bytes:?}: {reply:?}");
            }
        }
    }
}
