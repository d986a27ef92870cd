//! Services over TCP: echo (RFC 862), discard (RFC 863), character generator (RFC 864), files by
//! HTTP, and terminals by Telnet.

use super::endpoint::TcpEndpoint;
pub use super::http::Answered;
use super::http::{HttpConnection, fill};
use super::terminal::TerminalConnection;
use super::{Accepted, ConnectionId, Phase, Stack};
use crate::error::Result;
use crate::jail::Jail;
use crate::log::{FlowChange, FlowEvent, Log};
use crate::readiness::wait_for;
use crate::wire::ipv4::protocol;
use rustix::event::{PollFd, PollFlags};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often an idle server checks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// The shortest time between two reports of figures.
const REPORT_NS: u64 = 100_000_000;
/// How long a connection may do nothing.
const IDLE_NS: u64 = 60_000_000_000;
/// How long nobody may type, and nothing may be shown, on a terminal.
const IDLE_TERMINAL_NS: u64 = 3_600_000_000_000;
/// Most terminals at a time.
const MOST_TERMINALS: usize = 16;
/// Most bytes of a connection before the others get a turn.
const TURN_BYTES: usize = 256 << 10;
/// Bytes of a line of characters, and how many lines there are before they begin again.
const LINE_BYTES: usize = 74;
const LINES: usize = 95;

/// What is done on a port.
#[derive(Debug)]
pub enum Service {
    /// Sends back what comes.
    Echo,
    /// Throws away what comes.
    Discard,
    /// Sends lines of characters.
    Chargen,
    /// Sends files below a directory.
    Http(Jail),
    /// Gives clients a terminal with a command, by Telnet.
    Telnet(TelnetService),
}

impl Service {
    /// Returns its name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Service::Echo => "echo",
            Service::Discard => "discard",
            Service::Chargen => "chargen",
            Service::Http(_) => "http",
            Service::Telnet(_) => "telnet",
        }
    }
}

/// What clients of Telnet are given.
#[derive(Clone, Debug)]
pub struct TelnetService {
    /// The command, for the shell.
    pub command: String,
    /// The only host whose clients are served: the other side of the device, which is this machine
    /// or the namespace where the device lies.
    pub host: Ipv4Addr,
}

/// A connection that has ended, or an answer over one that goes on.
#[derive(Debug)]
pub enum ServiceEvent {
    /// A file was asked for by HTTP.
    Answered(Answered),
    /// A connection was not served.
    Refused {
        /// The client.
        client: SocketAddrV4,
        /// Why not.
        why: String,
    },
    /// A connection is over.
    Ended {
        /// The client.
        client: SocketAddrV4,
        /// Which service it had.
        service: &'static str,
        /// Bytes that came.
        bytes_in: u64,
        /// Bytes that were given to TCP to be sent.
        bytes_out: u64,
    },
}

struct Connection {
    accepted: Accepted,
    bytes_in: u64,
    bytes_out: u64,
    active_ns: u64,
    http: HttpConnection,
    terminal: Option<TerminalConnection>,
}

/// Services on the ports of an endpoint.
pub struct TcpServer {
    endpoint: TcpEndpoint,
    services: HashMap<u16, Service>,
    connections: HashMap<ConnectionId, Connection>,
    scratch: Vec<u8>,
    characters: Vec<u8>,
    log: Option<Log>,
}

impl std::fmt::Debug for TcpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpServer").field("services", &self.services).finish_non_exhaustive()
    }
}

impl TcpServer {
    /// Serves on an endpoint that listens on the ports of these services.
    pub fn new(endpoint: TcpEndpoint, services: HashMap<u16, Service>) -> TcpServer {
        let characters = (0..LINES)
            .flat_map(|line| {
                let character = move |at| b' ' + ((line + at) % LINES) as u8;
                (0..LINE_BYTES - 2).map(character).chain(*b"\r\n")
            })
            .collect();
        let (connections, scratch) = (HashMap::new(), vec![0; 64 << 10]);
        TcpServer { endpoint, services, connections, scratch, characters, log: None }
    }

    /// Logs from now on when connections begin, end, fail, send again and stall.
    pub fn log_to(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &TcpEndpoint {
        &self.endpoint
    }

    /// Returns how many connections there are.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Serves until `stop` is set. Shows what happened.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoSwitch`]: the switch has ended.
    pub fn run(&mut self, stop: &AtomicBool, mut see: impl FnMut(&ServiceEvent)) -> Result<()> {
        let (mut more, mut told) = (false, None);
        // Relaxed: it only signals the end.
        while !stop.load(Ordering::Relaxed) {
            let most = if more { Duration::ZERO } else { LOOK };
            let time = self.endpoint.idle_time(most);
            self.wait_for(time)?;
            let now_ns = self.endpoint.now_ns();
            while let Some((port, remote, change)) = self.endpoint.stack().next_change() {
                log_change(self.log.as_ref(), port, remote, change);
            }
            while let Some(accepted) = self.endpoint.stack().accept() {
                self.admit(accepted, now_ns, &mut see);
            }
            more = self.serve_all(now_ns, &mut see);
            self.endpoint.poll()?;
            let state = (self.endpoint.counts(), self.connections.len());
            let is_due = told.is_none_or(|(told, told_ns)| {
                told != state && now_ns.saturating_sub(told_ns) >= REPORT_NS
            });
            if is_due {
                told = Some((state, now_ns));
                self.endpoint.report(self.connections.len())?;
            }
        }
        Ok(())
    }

    /// Waits for something to do, up to this long, and takes what has come by TCP.
    fn wait_for(&mut self, time: Duration) -> Result<()> {
        let TcpServer { endpoint, connections, .. } = self;
        let terminals = connections.values().filter_map(|connection| connection.terminal.as_ref());
        let outputs: Vec<_> = terminals.filter_map(TerminalConnection::waits_for_output).collect();
        if outputs.is_empty() {
            return endpoint.run_for(time);
        }
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut polled = vec![readable(endpoint.poll_descriptor()?)];
        polled.extend(outputs.into_iter().map(readable));
        wait_for(&mut polled, Some(time), "packets and terminals")?;
        endpoint.run_for(Duration::ZERO)
    }

    /// Begins to serve a connection.
    fn admit(&mut self, accepted: Accepted, now_ns: u64, see: &mut impl FnMut(&ServiceEvent)) {
        let terminal = match self.services.get(&accepted.local_port) {
            Some(Service::Telnet(telnet)) => match self.open_terminal(telnet, accepted) {
                Ok(terminal) => Some(terminal),
                Err(why) => {
                    let stack = self.endpoint.stack();
                    stack.abort(accepted.id);
                    stack.forget(accepted.id);
                    return see(&ServiceEvent::Refused { client: accepted.remote, why });
                }
            },
            _ => None,
        };
        let http = HttpConnection::default();
        let (bytes_in, bytes_out, active_ns) = (0, 0, now_ns);
        let fresh = Connection { accepted, bytes_in, bytes_out, active_ns, http, terminal };
        self.connections.insert(accepted.id, fresh);
    }

    fn open_terminal(
        &self,
        telnet: &TelnetService,
        accepted: Accepted,
    ) -> std::result::Result<TerminalConnection, String> {
        if *accepted.remote.ip() != telnet.host {
            return Err(format!("only {} is served", telnet.host));
        }
        let terminals = self.connections.values().filter(|other| other.terminal.is_some());
        if terminals.count() >= MOST_TERMINALS {
            return Err(format!("{MOST_TERMINALS} terminals are open already"));
        }
        TerminalConnection::start(&telnet.command).map_err(|error| error.to_string())
    }

    /// Gives each connection a turn. Returns whether one of them has more to do at once.
    fn serve_all(&mut self, now_ns: u64, see: &mut impl FnMut(&ServiceEvent)) -> bool {
        let TcpServer { endpoint, services, connections, scratch, characters, log } = self;
        let stack = endpoint.stack();
        let mut more = false;
        connections.retain(|id, connection| {
            let service = services.get(&connection.accepted.local_port);
            let moved = service.map_or(0, |service| match service {
                Service::Echo => echo(stack, connection, scratch),
                Service::Discard => discard(stack, connection),
                Service::Chargen => {
                    discard(stack, connection) + generate(stack, connection, characters)
                }
                Service::Telnet(_) => serve_terminal(stack, connection),
                Service::Http(jail) => serve_files(stack, connection, jail, see),
            });
            if moved > 0 {
                connection.active_ns = now_ns;
            }
            more |= moved >= TURN_BYTES;
            let idle_ns = if connection.terminal.is_some() { IDLE_TERMINAL_NS } else { IDLE_NS };
            let is_idle = now_ns.saturating_sub(connection.active_ns) >= idle_ns;
            // What came before a reset is still served, unless nobody takes it.
            if is_idle || (moved == 0 && stack.is_over(*id)) {
                stack.abort(*id);
            }
            let mut phase = stack.phase(*id);
            // The last bytes of a client came in this turn: the next one, at once, ends this.
            more |= matches!(phase, Phase::Open { receives: false, .. }) && moved > 0;
            if matches!(phase, Phase::Open { receives: false, sends: true }) && moved == 0 {
                // The client has sent its last, and everything for it is in the stack.
                if service.is_none_or(|service| !matches!(service, Service::Http(_)))
                    || connection.http.is_idle()
                {
                    stack.close(*id);
                    phase = stack.phase(*id);
                }
            }
            let is_over = matches!(phase, Phase::Closed | Phase::Finished)
                || phase == Phase::Open { receives: false, sends: false };
            if is_over {
                stack.forget(*id);
                // One that is over and has not sent its last was reset, or given up.
                let has_failed = phase == Phase::Closed;
                log_end(log.as_ref(), connection, has_failed);
                see(&connection.ended(service));
            }
            !is_over
        });
        more
    }
}

impl Connection {
    /// Describes how it ended, for those who watch the server.
    fn ended(&self, service: Option<&Service>) -> ServiceEvent {
        ServiceEvent::Ended {
            client: self.accepted.remote,
            service: service.map_or("none", Service::as_str),
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
        }
    }
}

fn log_end(log: Option<&Log>, connection: &Connection, has_failed: bool) {
    let Connection { accepted, bytes_in, bytes_out, .. } = connection;
    let bytes = bytes_in + bytes_out;
    let change = match has_failed {
        true => FlowChange::Failed { bytes },
        false => FlowChange::Ended { bytes },
    };
    log_change(log, accepted.local_port, accepted.remote, change);
}

fn log_change(log: Option<&Log>, port: u16, remote: SocketAddrV4, change: FlowChange) {
    let Some(log) = log else { return };
    let (remote, remote_port) = (*remote.ip(), remote.port());
    log.flow(&FlowEvent { change, protocol: protocol::TCP, port, remote, remote_port });
}

/// Passes bytes between a client and its terminal, and closes what is over.
fn serve_terminal(stack: &mut impl Stack, connection: &mut Connection) -> usize {
    let Connection { accepted, bytes_in, bytes_out, terminal, .. } = connection;
    let Some(terminal) = terminal else { return 0 };
    let served = terminal.serve(stack, accepted.id);
    if terminal.is_over() {
        stack.close(accepted.id);
    }
    *bytes_in += served.bytes_in as u64;
    *bytes_out += served.bytes_out as u64;
    served.bytes_in + served.bytes_out
}

/// Answers a client's requests by HTTP.
fn serve_files(
    stack: &mut impl Stack,
    connection: &mut Connection,
    jail: &Jail,
    see: &mut impl FnMut(&ServiceEvent),
) -> usize {
    let Connection { accepted, bytes_in, bytes_out, http, .. } = connection;
    let mut told = |answered| see(&ServiceEvent::Answered(answered));
    let served = http.serve(stack, accepted.id, jail, accepted.remote, &mut told);
    *bytes_in += served.bytes_in as u64;
    *bytes_out += served.bytes_out as u64;
    served.bytes_in + served.bytes_out
}

fn echo(stack: &mut impl Stack, connection: &mut Connection, scratch: &mut [u8]) -> usize {
    let id = connection.accepted.id;
    let mut total = 0;
    while total < TURN_BYTES {
        let room = stack.room_bytes(id).min(scratch.len());
        let mut taken = 0;
        while taken < room {
            let bytes = stack.receive(id, &mut |bytes| {
                let bytes = &bytes[..bytes.len().min(room - taken)];
                scratch[taken..taken + bytes.len()].copy_from_slice(bytes);
                bytes.len()
            });
            if bytes == 0 {
                break;
            }
            taken += bytes;
        }
        let mut sent = 0;
        while sent < taken {
            let bytes = stack.send(id, &mut |to| fill(to, &scratch[sent..taken]));
            if bytes == 0 {
                break;
            }
            sent += bytes;
        }
        connection.bytes_in += taken as u64;
        connection.bytes_out += sent as u64;
        total += taken;
        if taken == 0 {
            break;
        }
    }
    total
}

fn discard(stack: &mut impl Stack, connection: &mut Connection) -> usize {
    let mut total = 0;
    loop {
        let bytes = stack.receive(connection.accepted.id, &mut <[u8]>::len);
        total += bytes;
        if bytes == 0 || total >= TURN_BYTES {
            connection.bytes_in += total as u64;
            return total;
        }
    }
}

fn generate(stack: &mut impl Stack, connection: &mut Connection, characters: &[u8]) -> usize {
    let mut total = 0;
    while total < TURN_BYTES {
        let at = (connection.bytes_out % characters.len() as u64) as usize;
        let bytes = stack.send(connection.accepted.id, &mut |to| fill(to, &characters[at..]));
        if bytes == 0 {
            break;
        }
        connection.bytes_out += bytes as u64;
        total += bytes;
    }
    total
}
