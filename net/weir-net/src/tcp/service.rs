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
/// How long a client of HTTP may take for the head of a request.
const HEAD_NS: u64 = 20_000_000_000;
/// Most connections of a host: half of those that there can be.
const MOST_OF_HOST: usize = 1024;
/// For so many connections there is room at the beginning of a turn, as far as others give way.
const SPARE: usize = 256;
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

/// A connection that has ended, or an answer over one that continues.
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
    /// When an answer by HTTP was last under way, or it began.
    answered_ns: u64,
    /// When it last owed no head of a request, or it began.
    head_ns: u64,
    http: HttpConnection,
    terminal: Option<TerminalConnection>,
}

/// Services on the ports of an endpoint.
pub struct TcpServer {
    endpoint: TcpEndpoint,
    served: ServedPorts,
}

/// Services on ports, and the connections that they serve.
struct ServedPorts {
    services: HashMap<u16, Service>,
    connections: HashMap<ConnectionId, Connection>,
    scratch: Vec<u8>,
    characters: Vec<u8>,
    log: Option<Log>,
}

impl std::fmt::Debug for TcpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpServer").field("services", &self.served.services).finish_non_exhaustive()
    }
}

impl TcpServer {
    /// Serves on an endpoint that listens on the ports of these services.
    pub fn new(endpoint: TcpEndpoint, services: HashMap<u16, Service>) -> TcpServer {
        TcpServer { endpoint, served: ServedPorts::new(services) }
    }

    /// Logs from now on when connections begin, end, fail, send again and stall.
    pub fn log_to(&mut self, log: Log) {
        self.served.log = Some(log);
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &TcpEndpoint {
        &self.endpoint
    }

    /// Returns how many connections there are.
    pub fn connections(&self) -> usize {
        self.served.connections.len()
    }

    /// Serves until `stop` is set. Shows what happened.
    pub fn run(&mut self, stop: &AtomicBool, mut see: impl FnMut(&ServiceEvent)) -> Result<()> {
        let (mut more, mut reported) = (false, None);
        // Relaxed: it only signals the end.
        while !stop.load(Ordering::Relaxed) {
            let most = if more { Duration::ZERO } else { LOOK };
            let time = self.endpoint.idle_time(most);
            self.wait_for(time)?;
            let now_ns = self.endpoint.now_ns();
            more = self.served.turn(self.endpoint.stack(), now_ns, &mut see);
            self.endpoint.poll()?;
            let state = (self.endpoint.counts(), self.connections());
            let is_due = reported.is_none_or(|(reported, reported_ns)| {
                reported != state && now_ns.saturating_sub(reported_ns) >= REPORT_NS
            });
            if is_due {
                reported = Some((state, now_ns));
                self.endpoint.report(self.connections())?;
            }
        }
        Ok(())
    }

    /// Waits for something to do, up to this long, and takes what has come by TCP.
    fn wait_for(&mut self, time: Duration) -> Result<()> {
        let TcpServer { endpoint, served } = self;
        let connections = served.connections.values();
        let terminals = connections.filter_map(|connection| connection.terminal.as_ref());
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
}

impl ServedPorts {
    fn new(services: HashMap<u16, Service>) -> ServedPorts {
        let characters = (0..LINES)
            .flat_map(|line| {
                let character = move |at| b' ' + ((line + at) % LINES) as u8;
                (0..LINE_BYTES - 2).map(character).chain(*b"\r\n")
            })
            .collect();
        let (connections, scratch) = (HashMap::new(), vec![0; 64 << 10]);
        ServedPorts { services, connections, scratch, characters, log: None }
    }

    /// Takes new connections in, and gives each a turn. Returns whether one of them has more to do at
    /// once.
    fn turn(
        &mut self,
        stack: &mut impl Stack,
        now_ns: u64,
        see: &mut impl FnMut(&ServiceEvent),
    ) -> bool {
        while let Some((port, remote, change)) = stack.next_change() {
            log_change(self.log.as_ref(), port, remote, change);
        }
        while let Some(accepted) = stack.accept() {
            self.admit(stack, accepted, now_ns, see);
        }
        self.serve_all(stack, now_ns, see)
    }

    /// Begins to serve a connection.
    fn admit(
        &mut self,
        stack: &mut impl Stack,
        accepted: Accepted,
        now_ns: u64,
        see: &mut impl FnMut(&ServiceEvent),
    ) {
        let terminal = self.make_room(stack, accepted, see).and_then(|()| {
            match self.services.get(&accepted.local_port) {
                Some(Service::Telnet(telnet)) => self.open_terminal(telnet, accepted).map(Some),
                _ => Ok(None),
            }
        });
        let terminal = match terminal {
            Ok(terminal) => terminal,
            Err(why) => {
                stack.abort(accepted.id);
                stack.forget(accepted.id);
                return see(&ServiceEvent::Refused { client: accepted.remote, why });
            }
        };
        let fresh = Connection {
            accepted,
            bytes_in: 0,
            bytes_out: 0,
            active_ns: now_ns,
            answered_ns: now_ns,
            head_ns: now_ns,
            http: HttpConnection::default(),
            terminal,
        };
        self.connections.insert(accepted.id, fresh);
    }

    /// Makes room for a connection, where its host has as many as it may, or few are left for all.
    fn make_room(
        &mut self,
        stack: &mut impl Stack,
        accepted: Accepted,
        see: &mut impl FnMut(&ServiceEvent),
    ) -> std::result::Result<(), String> {
        let host = accepted.remote.ip();
        let of_host = self.connections.values().filter(|other| other.accepted.remote.ip() == host);
        if of_host.count() >= MOST_OF_HOST && !self.give_way(stack, Some(host), see) {
            return Err(format!("{host} has {MOST_OF_HOST} connections already"));
        }
        if stack.free() < SPARE {
            self.give_way(stack, None, see);
        }
        Ok(())
    }

    /// Ends the connection of HTTP, of this host if one is given, to which we have owed no answer
    /// for longest: whether there was one.
    fn give_way(
        &mut self,
        stack: &mut impl Stack,
        host: Option<&Ipv4Addr>,
        see: &mut impl FnMut(&ServiceEvent),
    ) -> bool {
        let ServedPorts { services, connections, log, .. } = self;
        let oldest = connections.iter().filter(|(id, other)| {
            let service = services.get(&other.accepted.local_port);
            host.is_none_or(|host| other.accepted.remote.ip() == host)
                && matches!(service, Some(Service::Http(_)))
                && other.http.is_idle()
                && stack.left_bytes(**id) == 0
        });
        let oldest = oldest.min_by_key(|(id, other)| (other.answered_ns, id.0)).map(|(id, _)| *id);
        let Some(old) = oldest.and_then(|id| connections.remove(&id)) else { return false };
        stack.abort(old.accepted.id);
        stack.forget(old.accepted.id);
        log_end(log.as_ref(), &old, true);
        see(&old.ended(services.get(&old.accepted.local_port)));
        true
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
    fn serve_all(
        &mut self,
        stack: &mut impl Stack,
        now_ns: u64,
        see: &mut impl FnMut(&ServiceEvent),
    ) -> bool {
        let ServedPorts { services, connections, scratch, characters, log } = self;
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
            let is_http = matches!(service, Some(Service::Http(_)));
            let is_idle = connection.is_idle(is_http, now_ns);
            // What came before a reset is still served, unless nobody takes it.
            if is_idle || (moved == 0 && stack.is_over(*id)) {
                stack.abort(*id);
            }
            let mut phase = stack.phase(*id);
            // The last bytes of a client came in this turn: the next one, at once, ends this.
            more |= matches!(phase, Phase::Open { receives: false, .. }) && moved > 0;
            if matches!(phase, Phase::Open { receives: false, sends: true }) && moved == 0 {
                // The client has sent its last, and everything for it is in the stack.
                if !is_http || connection.http.is_idle() {
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
    /// Whether it has done nothing for too long, or owes the head of a request for too long. To be
    /// called in each turn.
    fn is_idle(&mut self, is_http: bool, now_ns: u64) -> bool {
        let idle_ns = if self.terminal.is_some() { IDLE_TERMINAL_NS } else { IDLE_NS };
        let is_for = |since_ns: u64, most_ns| now_ns.saturating_sub(since_ns) >= most_ns;
        if !self.http.is_idle() {
            self.answered_ns = now_ns;
        }
        if !self.http.owes_head() {
            self.head_ns = now_ns;
        }
        is_for(self.active_ns, idle_ns) || is_http && is_for(self.head_ns, HEAD_NS)
    }

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
    let mut reported = |answered| see(&ServiceEvent::Answered(answered));
    let served = http.serve(stack, accepted.id, jail, accepted.remote, &mut reported);
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

#[cfg(test)]
mod tests;
