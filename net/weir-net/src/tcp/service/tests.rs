//! Services whose clients are slow, silent or many, without a network and without a clock.

use super::*;
use crate::tcp::{ConnectionFigures, Outlet, TcpCounts};
use std::collections::VecDeque;

const SECOND_NS: u64 = 1_000_000_000;
const HTTP: u16 = 80;
const ECHO: u16 = 7;
const TELNET: u16 = 23;
/// Connections that the stack has room for.
const MOST: usize = 2048;
const PEER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

#[derive(Default)]
struct Line {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    is_aborted: bool,
    is_closed: bool,
}

/// A stack that keeps what clients send until it is read, and what they get.
#[derive(Default)]
struct Lines {
    accepted: VecDeque<Accepted>,
    lines: HashMap<ConnectionId, Line>,
    next: u64,
}

impl Stack for Lines {
    fn listen(&mut self, _: u16) {}

    fn connect(&mut self, _: u16, _: SocketAddrV4, _: u64) -> Option<ConnectionId> {
        None
    }

    fn take(&mut self, _: &[u8], _: bool, _: u64, _: &mut dyn Outlet) {}

    fn poll(&mut self, _: u64, _: &mut dyn Outlet) {}

    fn delay_ns(&mut self, _: u64) -> Option<u64> {
        None
    }

    fn accept(&mut self) -> Option<Accepted> {
        self.accepted.pop_front()
    }

    fn phase(&self, id: ConnectionId) -> Phase {
        match self.lines.get(&id) {
            Some(line) if !line.is_aborted => {
                Phase::Open { receives: true, sends: !line.is_closed }
            }
            _ => Phase::Closed,
        }
    }

    fn is_over(&self, id: ConnectionId) -> bool {
        self.phase(id) == Phase::Closed
    }

    fn receive(&mut self, id: ConnectionId, see: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        let line = self.lines.get_mut(&id).expect("known");
        if line.incoming.is_empty() {
            return 0;
        }
        let taken = see(&line.incoming);
        line.incoming.drain(..taken);
        taken
    }

    fn send(&mut self, id: ConnectionId, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> usize {
        let mut room = vec![0; 4096];
        let filled = fill(&mut room);
        self.lines.get_mut(&id).expect("known").outgoing.extend_from_slice(&room[..filled]);
        filled
    }

    fn room_bytes(&self, _: ConnectionId) -> usize {
        4096
    }

    fn left_bytes(&self, _: ConnectionId) -> usize {
        0
    }

    fn close(&mut self, id: ConnectionId) {
        self.lines.get_mut(&id).expect("known").is_closed = true;
    }

    fn abort(&mut self, id: ConnectionId) {
        self.lines.get_mut(&id).expect("known").is_aborted = true;
    }

    fn forget(&mut self, id: ConnectionId) {
        self.lines.remove(&id);
    }

    fn free(&self) -> usize {
        MOST - self.lines.len()
    }

    fn counts(&self) -> TcpCounts {
        TcpCounts::default()
    }

    fn next_change(&mut self) -> Option<(u16, SocketAddrV4, FlowChange)> {
        None
    }

    fn each_connection(&self, _: &mut dyn FnMut(&ConnectionFigures)) {}
}

/// A server and its clients.
struct Bed {
    served: ServedPorts,
    lines: Lines,
    now_ns: u64,
    refused: usize,
    _directory: tempfile::TempDir,
}

impl Bed {
    fn new() -> Bed {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("f");
        std::fs::write(&file, b"contents").expect("written");
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(file, readable).expect("set");
        let jail = Jail::open(directory.path()).expect("opened");
        let telnet = TelnetService { command: "cat".into(), host: PEER };
        let services = HashMap::from([
            (HTTP, Service::Http(jail)),
            (ECHO, Service::Echo),
            (TELNET, Service::Telnet(telnet)),
        ]);
        let (served, lines) = (ServedPorts::new(services), Lines::default());
        Bed { served, lines, now_ns: 1, refused: 0, _directory: directory }
    }

    fn connect(&mut self, local_port: u16, host: Ipv4Addr) -> ConnectionId {
        let id = ConnectionId(self.lines.next);
        self.lines.next += 1;
        // As the real one, whose sockets are all taken.
        if self.lines.free() > 0 {
            let remote = SocketAddrV4::new(host, 1 + id.0 as u16);
            self.lines.lines.insert(id, Line::default());
            self.lines.accepted.push_back(Accepted { id, local_port, remote });
        }
        id
    }

    fn say(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(line) = self.lines.lines.get_mut(&id) {
            line.incoming.extend_from_slice(bytes);
        }
    }

    fn turn(&mut self) {
        let refused = &mut self.refused;
        self.served.turn(&mut self.lines, self.now_ns, &mut |event| {
            *refused += usize::from(matches!(event, ServiceEvent::Refused { .. }));
        });
    }

    fn wait(&mut self, seconds: u64) {
        self.now_ns += seconds * SECOND_NS;
        self.turn();
    }

    fn is_open(&self, id: ConnectionId) -> bool {
        self.lines.lines.get(&id).is_some_and(|line| !line.is_aborted)
    }

    /// Whether a client of this host gets the file at once.
    fn serves(&mut self, host: Ipv4Addr) -> bool {
        let id = self.connect(HTTP, host);
        self.say(id, b"GET /f HTTP/1.0\r\n\r\n");
        self.turn();
        let line = self.lines.lines.get(&id);
        line.is_some_and(|line| line.outgoing.ends_with(b"contents"))
    }

    fn slow(&mut self, host: Ipv4Addr) -> ConnectionId {
        let id = self.connect(HTTP, host);
        self.say(id, b"GET /f HTTP/1.0\r\nX: ");
        id
    }
}

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 1, number)
}

/// Each byte of a head gave its client a minute more.
#[test]
fn a_client_has_twenty_seconds_for_the_head_of_a_request() {
    let mut bed = Bed::new();
    let (slow, silent) = (bed.slow(PEER), bed.connect(HTTP, PEER));
    let lasting = bed.connect(HTTP, PEER);
    bed.turn();
    bed.say(lasting, b"GET /f HTTP/1.1\r\n\r\n");
    bed.turn();
    for _ in 0..3 {
        bed.wait(6);
        bed.say(slow, b"x");
    }
    assert!(bed.is_open(slow) && bed.is_open(silent));
    bed.wait(3);
    assert!(!bed.is_open(slow) && !bed.is_open(silent));
    // One that has had its answer may wait for a minute, and then has as long for the next head.
    bed.wait(30);
    assert!(bed.is_open(lasting));
    bed.say(lasting, b"GET /f");
    bed.wait(19);
    assert!(bed.is_open(lasting));
    bed.say(lasting, b" HTTP/1.1\r\n\r\n");
    bed.wait(2);
    assert!(bed.is_open(lasting));
    bed.say(lasting, b"GET");
    bed.wait(0);
    bed.wait(20);
    assert!(!bed.is_open(lasting));
    // Nor is one kept by what it sends behind its last request.
    let over = bed.connect(HTTP, PEER);
    bed.say(over, b"GET /f HTTP/1.0\r\n\r\n");
    bed.turn();
    for _ in 0..4 {
        bed.say(over, b"x");
        bed.wait(20);
    }
    assert!(!bed.is_open(over));
}

/// 2,048 clients with half a head each kept all others out.
#[test]
fn slow_clients_of_http_keep_nobody_out() {
    for hosts in [1, 2, 5] {
        let mut bed = Bed::new();
        for number in 0..2 * MOST {
            let slow = bed.slow(host((number % hosts) as u8));
            if number % 64 == 0 {
                bed.turn();
                assert!(bed.is_open(slow), "{number} of {hosts} hosts");
                assert!(bed.serves(host(99)), "another host, after {number} of {hosts}");
                assert!(bed.serves(host(0)), "the same host, after {number} of {hosts}");
            }
        }
        assert_eq!(bed.refused, 0);
        assert!(bed.served.connections.len() <= MOST - SPARE + 1);
        let of_host = bed.served.connections.values();
        let of_host = of_host.filter(|one| *one.accepted.remote.ip() == host(0)).count();
        assert!(of_host <= MOST_OF_HOST, "{of_host} of one host");
    }
}

/// Those who wait for nothing but their own close, or for their next request, were as many.
#[test]
fn clients_that_have_been_answered_keep_nobody_out() {
    for version in ["1.0", "1.1"] {
        let mut bed = Bed::new();
        for number in 0..2 * MOST {
            let id = bed.connect(HTTP, host((number % 7) as u8));
            bed.say(id, format!("GET /f HTTP/{version}\r\n\r\n").as_bytes());
            if number % 64 == 0 {
                bed.turn();
                let line = bed.lines.lines.get(&id);
                assert!(line.is_some_and(|line| line.outgoing.ends_with(b"contents")), "{number}");
            }
        }
    }
}

#[test]
fn one_host_takes_half_of_all_connections_at_most() {
    let mut bed = Bed::new();
    let echoes: Vec<_> = (0..MOST).map(|_| bed.connect(ECHO, host(1))).collect();
    bed.turn();
    assert_eq!(echoes.iter().filter(|id| bed.is_open(**id)).count(), MOST_OF_HOST);
    assert_eq!(bed.refused, MOST - MOST_OF_HOST);
    assert!(bed.serves(host(2)));
    assert!(!bed.serves(host(1)), "nothing of it gives way");
}

#[test]
fn clients_of_telnet_that_do_nothing_keep_nobody_out_of_the_other_services() {
    let mut bed = Bed::new();
    let typists: Vec<_> = (0..MOST_TERMINALS + 4).map(|_| bed.connect(TELNET, PEER)).collect();
    for _ in 0..100 {
        bed.connect(TELNET, host(1));
    }
    bed.turn();
    let open = typists.iter().filter(|id| bed.is_open(**id)).count();
    assert_eq!((open, bed.refused), (MOST_TERMINALS, 104));
    assert!(bed.serves(PEER) && bed.serves(host(1)));
    bed.wait(3500);
    assert_eq!(typists.iter().filter(|id| bed.is_open(**id)).count(), MOST_TERMINALS);
    bed.wait(200);
    assert_eq!(typists.iter().filter(|id| bed.is_open(**id)).count(), 0);
}
