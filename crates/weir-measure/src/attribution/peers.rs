//! Finding the other end of a socket for which a task waits.
//!
//! The socket is borrowed from its owner with `pidfd_getfd(2)` for one look, like the ends of
//! pipes. The kernel names the other end of a unix socket (`diag`). For other sockets the tables of
//! TCP and UDP in `/proc/PID/net` give the peer's socket if it is on this host. A walk over the
//! descriptors of accessible processes then finds its owners.

use super::diag::unix_peer;
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_peercred, socket_type};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketType, getpeername, getsockname,
};
use std::net::{IpAddr, SocketAddr as InetAddr};
use std::os::fd::OwnedFd;
use weir_doctor::facts::{Peer, PeerKind};
use weir_sys::Pid;
use weir_sys::proc::{
    Descriptor, borrow, descriptor, descriptors, identity, link, name, processes, sockets,
};

/// Most processes whose descriptors are searched for a socket.
const MOST_PROCESSES: usize = 4096;
/// Most bytes read of a table of connections.
const TABLE_BYTES: usize = 1 << 20;

/// Most processes that share a socket and are looked at.
pub const MOST_OWNERS: usize = 8;

/// What is at the other end of a socket.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its name.
    pub peer: Peer,
    /// The inode of the other end, if it is a socket of this host.
    pub inode: Option<u64>,
    /// The processes that have it open.
    pub owners: Vec<Pid>,
    /// Whether more have it open, which are not named because they only keep it, or are many.
    pub more: bool,
}

impl Found {
    /// A socket of this host, with the processes that have it open. Process `near` has the other
    /// end, and this one too where it made or inherited both: it is the peer only if nobody else is.
    fn here(
        near: (Pid, &OwnedFd),
        kind: PeerKind,
        address: Option<String>,
        inode: Option<u64>,
        owners_of: &dyn Fn(u64) -> Vec<Pid>,
    ) -> Found {
        let (near, socket) = near;
        let mut owners = match inode {
            // Connected to itself. This process has borrowed it, and has it open too.
            Some(inode) if rustix::fs::fstat(socket).is_ok_and(|it| it.st_ino == inode) => {
                vec![near]
            }
            inode => inode.map(owners_of).unwrap_or_default(),
        };
        if owners.iter().any(|pid| *pid != near) {
            owners.retain(|pid| *pid != near);
        }
        let all = owners.len();
        // A child that a server started works for this connection; its parent only keeps it open.
        let parents: Vec<Pid> =
            owners.iter().filter_map(|pid| Some(identity(*pid)?.parent)).collect();
        if owners.iter().any(|pid| !parents.contains(pid)) {
            owners.retain(|pid| !parents.contains(pid));
        }
        let program = owners.first().copied().and_then(name_of);
        let pid = owners.first().copied().filter(|_| program.is_some());
        let more = owners.len() < all || all + 1 >= MOST_OWNERS;
        Found { peer: Peer { kind, address, program, pid, ..Peer::default() }, inode, owners, more }
    }
}

impl From<Peer> for Found {
    fn from(peer: Peer) -> Found {
        Found { peer, ..Found::default() }
    }
}

/// Finds what is at the other end of the socket that process `pid` has as its descriptor `fd`.
pub fn find(pid: Pid, fd: i32) -> Found {
    match find_among(pid, fd, &owners_of) {
        // What it is once there is a connection is looked up then.
        found if found.peer.kind == PeerKind::Unknown => {
            let own = socket_of(pid, fd).and_then(|socket| asked(pid, &socket));
            let address = own.map(|row| row.remote.to_string());
            Peer { address, ..Peer::default() }.into()
        }
        found => found,
    }
}

/// Returns the socket of TCP that asked for a connection and has no answer yet; `None` for any other.
pub fn asked(pid: Pid, socket: &OwnedFd) -> Option<Row> {
    /// The state of such a socket (`TCP_SYN_SENT`).
    const ASKED: u8 = 2;
    let domain = socket_domain(socket).ok()?;
    let is_inet = domain == AddressFamily::INET || domain == AddressFamily::INET6;
    (is_inet && socket_type(socket) == Ok(SocketType::STREAM)).then_some(())?;
    let inode = Descriptor::of(socket)?.inode;
    rows(pid).into_iter().find(|row| row.inode == inode && row.state == ASKED)
}

/// Finds that, where `owners_of` knows which processes have the socket with an inode.
pub fn find_among(pid: Pid, fd: i32, owners_of: &dyn Fn(u64) -> Vec<Pid>) -> Found {
    borrow(pid, fd).and_then(|socket| of_socket(pid, &socket, owners_of)).unwrap_or_default()
}

/// Whether a descriptor of process `pid` is a socket to which others connect.
pub fn accepts(pid: Pid, fd: i32) -> bool {
    socket_of(pid, fd).is_some_and(|socket| socket_acceptconn(socket).unwrap_or(false))
}

/// Returns the port or the name of a socket of process `pid`, which the connections that it accepts share.
pub fn place(pid: Pid, fd: i32) -> Option<String> {
    let own = getsockname(socket_of(pid, fd)?).ok()?;
    match InetAddr::try_from(own.clone()) {
        Ok(address) => Some(address.port().to_string()),
        Err(_) => path_of(&SocketAddrUnix::try_from(own).ok()?),
    }
}

/// Borrows a socket. To close any other borrowed file may ask its server, which may not answer.
fn socket_of(pid: Pid, fd: i32) -> Option<OwnedFd> {
    descriptor(pid, fd).filter(Descriptor::is_socket)?;
    borrow(pid, fd)
}

/// Whether process `pid` has the socket with this inode open.
pub fn holds(pid: Pid, inode: u64) -> bool {
    let target = format!("socket:[{inode}]");
    let is_it = |fd| link(pid, fd).is_some_and(|link| link.as_os_str() == target.as_str());
    descriptors(pid).is_some_and(|mut all| all.any(is_it))
}

fn of_socket(pid: Pid, socket: &OwnedFd, owners_of: &dyn Fn(u64) -> Vec<Pid>) -> Option<Found> {
    let own = getsockname(socket).ok()?;
    if socket_acceptconn(socket).unwrap_or(false) {
        let address = text_of(&own);
        return Some(Peer { kind: PeerKind::Listening, address, ..Peer::default() }.into());
    }
    if let Ok(own) = SocketAddrUnix::try_from(own.clone()) {
        return Some(of_unix(pid, socket, &own, owners_of));
    }
    let own = InetAddr::try_from(own).ok()?;
    let far = InetAddr::try_from(getpeername(socket).ok()??).ok()?;
    let (far, own) = (plain(far), plain(own));
    let address = Some(far.to_string());
    if !is_of_this_host(far.ip(), own.ip()) {
        return Some(Peer { kind: PeerKind::Remote, address, ..Peer::default() }.into());
    }
    let inode = match socket_type(socket) {
        Ok(SocketType::DGRAM) => receiver_of(&rows_in(pid, ["udp", "udp6"]), far, own),
        _ => inode_of(&rows(pid), far, own),
    };
    Some(Found::here((pid, socket), PeerKind::Local, address, inode, owners_of))
}

fn of_unix(
    near: Pid,
    socket: &OwnedFd,
    own: &SocketAddrUnix,
    owners_of: &dyn Fn(u64) -> Vec<Pid>,
) -> Found {
    let address = getpeername(socket).ok().flatten().and_then(|peer| text_of(&peer));
    let address = address.or_else(|| path_of(own));
    let inode = rustix::fs::fstat(socket).ok().and_then(|stat| unix_peer(stat.st_ino));
    let mut found = Found::here((near, socket), PeerKind::Unix, address, inode, owners_of);
    if found.peer.pid.is_none() {
        // Hidden, or not accepted yet: then whoever listens is known, and no more.
        let peer = socket_peercred(socket).ok().map(|peer| peer.pid.as_raw_nonzero().get());
        found.peer.program = peer.and_then(name_of);
        found.peer.pid = peer.filter(|_| found.peer.program.is_some());
    }
    found
}

fn text_of(address: &SocketAddrAny) -> Option<String> {
    match InetAddr::try_from(address.clone()) {
        Ok(address) => Some(plain(address).to_string()),
        Err(_) => path_of(&SocketAddrUnix::try_from(address.clone()).ok()?),
    }
}

fn path_of(address: &SocketAddrUnix) -> Option<String> {
    // The sockets of a pair have an empty name.
    let name = address.abstract_name().filter(|name| !name.is_empty());
    let abstract_name = || Some(format!("@{}", String::from_utf8_lossy(name?)));
    let path = address.path().map(|path| path.to_string_lossy().into_owned());
    path.filter(|path| !path.is_empty()).or_else(abstract_name)
}

/// Converts an IPv4 address written as IPv6 (`::ffff:127.0.0.1`).
pub fn plain(address: InetAddr) -> InetAddr {
    InetAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether a peer's address is this host's: a loopback address, or the socket's own address.
pub fn is_of_this_host(far: IpAddr, own: IpAddr) -> bool {
    far.is_loopback() || far == own
}

/// A socket in the tables of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its own address.
    pub local: InetAddr,
    /// The address of the other end.
    pub remote: InetAddr,
    /// Its state (kernel: `tcp_states.h`).
    pub state: u8,
    /// Bytes that it received and nobody read; of one that listens, connections that nobody took.
    pub received: u64,
    /// Its inode.
    pub inode: u64,
}

impl Row {
    fn parse(line: &str) -> Option<Row> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let address = |n: usize| fields.get(n).and_then(|text| parse_address(text));
        Some(Row {
            local: address(1)?,
            remote: address(2)?,
            state: u8::from_str_radix(fields.get(3)?, 16).ok()?,
            received: u64::from_str_radix(fields.get(4)?.split_once(':')?.1, 16).ok()?,
            inode: fields.get(9)?.parse().ok()?,
        })
    }
}

/// Returns the sockets of TCP in the network namespace of process `pid`.
pub fn rows(pid: Pid) -> Vec<Row> {
    rows_in(pid, ["tcp", "tcp6"])
}

fn rows_in(pid: Pid, tables: [&str; 2]) -> Vec<Row> {
    let rows = |table: &str| {
        let text = sockets(pid, table, TABLE_BYTES).unwrap_or_default();
        text.lines().skip(1).filter_map(Row::parse).collect::<Vec<_>>()
    };
    tables.into_iter().flat_map(rows).collect()
}

/// Finds the inode of the socket with own address `far` and peer `own`.
fn inode_of(rows: &[Row], far: InetAddr, own: InetAddr) -> Option<u64> {
    let found = rows.iter().find(|row| (row.local, row.remote) == (far, own));
    found.map(|row| row.inode).filter(|inode| *inode != 0)
}

/// Finds the inode of the socket of UDP that gets what `own` sends to `far`, as the kernel chooses
/// it: one that is connected to `own` before one that takes from all, and one bound to that very
/// address before one bound to all. `None` where several are alike: which of them gets a datagram
/// is told by no table.
fn receiver_of(rows: &[Row], far: InetAddr, own: InetAddr) -> Option<u64> {
    let fit = |row: &Row| {
        // One of IPv6 that is bound to all addresses need not take those of IPv4.
        let to_all = row.local.ip().is_unspecified() && row.local.is_ipv4() == far.is_ipv4();
        let takes = row.local.port() == far.port() && (row.local.ip() == far.ip() || to_all);
        let from_all = row.remote.ip().is_unspecified() && row.remote.port() == 0;
        (takes && (row.remote == own || from_all)).then_some((!from_all, !to_all))
    };
    let best = rows.iter().filter_map(fit).max()?;
    let mut all = rows.iter().filter(|row| fit(row) == Some(best));
    let found = all.next().filter(|_| all.next().is_none());
    found.map(|row| row.inode).filter(|inode| *inode != 0)
}

/// Formats an address as in those tables: words of 32 bits in the host's order, then the port.
fn parse_address(text: &str) -> Option<InetAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    if address.len() % 8 != 0 {
        return None;
    }
    let words: Option<Vec<[u8; 4]>> = address
        .as_bytes()
        .chunks(8)
        .map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok())
        .map(|word| word.map(u32::to_ne_bytes))
        .collect();
    let bytes = words?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(plain(InetAddr::new(ip, port)))
}

/// Finds the processes that have the socket with this inode, among the accessible ones.
pub fn owners_of(inode: u64) -> Vec<Pid> {
    let all = processes().into_iter().take(MOST_PROCESSES);
    all.filter(|pid| holds(*pid, inode)).take(MOST_OWNERS).collect()
}

fn name_of(pid: Pid) -> Option<String> {
    name(pid).filter(|name| !name.trim().is_empty())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::{Duration, Instant};

    fn me() -> Pid {
        std::process::id() as Pid
    }

    fn peer_of(pid: Pid, fd: i32) -> Peer {
        find(pid, fd).peer
    }

    /// Waits until something holds: a process that another test starts has all sockets of this one open
    /// until it becomes its program.
    pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what} in half a minute");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_connection_is_found_in_the_kernel_s_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:A426 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1 0 100 0 0 10 0\n   \
            1: 0100007F:A426 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n";
        let rows: Vec<Row> = table.lines().filter_map(Row::parse).collect();
        let address = |text: &str| text.parse::<InetAddr>().expect("an address");
        let (far, own) = (address("127.0.0.1:42022"), address("127.0.0.1:50000"));
        if cfg!(target_endian = "little") {
            assert_eq!(inode_of(&rows, far, own), Some(4711));
            assert_eq!((rows[0].state, rows[0].inode), (10, 41));
            let mapped = parse_address("0000000000000000FFFF00000100007F:A426");
            assert_eq!(mapped, Some(far));
        }
        assert_eq!(inode_of(&rows, own, far), None);
        for nonsense in ["", "x", "0100007F", "0100007F:x", "01:1", "\u{e9}\u{e9}\u{e9}\u{e9}:1"] {
            assert_eq!(parse_address(nonsense), None);
        }
    }

    #[test]
    fn the_peer_of_a_tcp_connection_on_this_host_is_a_process() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let near = TcpStream::connect(address).expect("connected");
        let (_far, _) = listener.accept().expect("accepted");
        until("its process is known", || {
            let peer = peer_of(me(), near.as_raw_fd());
            assert_eq!(peer.kind, PeerKind::Local);
            assert_eq!(peer.address, Some(address.to_string()));
            peer.pid == Some(me())
        });
        assert_eq!(peer_of(me(), listener.as_raw_fd()).kind, PeerKind::Listening);
    }

    #[test]
    fn the_peer_of_a_connected_udp_socket_is_who_gets_what_it_sends() {
        let bound = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (near, far) = (bound(), bound());
        let address = far.local_addr().expect("its address");
        near.connect(address).expect("connected");
        until("its process is known", || {
            let peer = peer_of(me(), near.as_raw_fd());
            assert_eq!(peer.address, Some(address.to_string()));
            (peer.kind, peer.pid) == (PeerKind::Local, Some(me()))
        });
        drop(far);
        until("nobody gets it", || peer_of(me(), near.as_raw_fd()).pid.is_none());
    }

    #[test]
    fn of_several_udp_sockets_the_one_that_the_kernel_chooses_is_the_peer() {
        let address = |text: &str| text.parse::<InetAddr>().expect("an address");
        let row = |local, remote, inode| Row {
            local: address(local),
            remote: address(remote),
            state: 7,
            received: 0,
            inode,
        };
        let (far, own) = (address("127.0.0.1:53"), address("127.0.0.1:5000"));
        let of = |rows: &[Row]| receiver_of(rows, far, own);
        let mut rows = vec![
            row("127.0.0.1:54", "0.0.0.0:0", 1),
            row("127.0.0.2:53", "0.0.0.0:0", 2),
            row("127.0.0.1:53", "127.0.0.1:5001", 3),
            row("[::]:53", "[::]:0", 4),
        ];
        assert_eq!(of(&rows), None);
        rows.push(row("0.0.0.0:53", "0.0.0.0:0", 5));
        assert_eq!(of(&rows), Some(5));
        rows.push(row("127.0.0.1:53", "0.0.0.0:0", 6));
        assert_eq!(of(&rows), Some(6));
        rows.push(row("127.0.0.1:53", "0.0.0.0:0", 7));
        assert_eq!(of(&rows), None, "one of two that share the address");
        rows.push(row("127.0.0.1:53", "127.0.0.1:5000", 8));
        assert_eq!(of(&rows), Some(8));
    }

    #[test]
    fn the_peer_of_a_unix_socket_is_who_has_it_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).expect("a listener");
        let near = UnixStream::connect(&path).expect("connected");
        // Not accepted: who listens is known.
        until("who listens is known", || {
            let found = find(me(), near.as_raw_fd());
            assert_eq!(found.owners, [] as [Pid; 0]);
            (found.peer.kind, found.peer.pid) == (PeerKind::Unix, Some(me()))
        });
        // Another process has the other end, as a server's child has.
        let (far, _) = listener.accept().expect("accepted");
        let far = std::process::Stdio::from(OwnedFd::from(far));
        let mut child = std::process::Command::new("sleep").arg("60").stdin(far).spawn();
        let child = child.as_mut().expect("sleep");
        until("its process is known", || {
            let found = find(me(), near.as_raw_fd());
            assert_eq!(found.peer.address.as_deref(), path.to_str());
            found.owners == [child.id() as Pid] && found.peer.pid == Some(child.id() as Pid)
        });
        child.kill().expect("killed");
        child.wait().expect("waited");
    }

    #[test]
    fn what_is_no_socket_or_not_there_has_no_peer() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(peer_of(me(), reader.as_raw_fd()), Peer::default());
        assert_eq!(peer_of(me(), 9_999), Peer::default());
    }
}
