//! Finding the other end of a socket for which a task waits.
//!
//! The socket is borrowed from its owner with `pidfd_getfd(2)` for one look, like the ends of
//! pipes. A unix socket names its peer's process. For other sockets the tables of TCP connections
//! in `/proc/PID/net` give the peer's socket if it is on this host, and a walk over the descriptors
//! of accessible processes finds its owner.

use crate::proc::{Descriptor, borrow, descriptor};
use rustix::net::sockopt::{socket_acceptconn, socket_peercred};
use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use std::net::{IpAddr, SocketAddr as InetAddr};
use std::os::fd::OwnedFd;
use weir_doctor::facts::{Peer, PeerKind};
use weir_sys::Pid;
use weir_sys::proc::{processes, read_small};

/// Most sockets of a group that are tracked; time on others is not counted.
const MOST_SOCKETS: usize = 16;
/// Most processes whose descriptors are searched for a socket.
const MOST_PROCESSES: usize = 4096;
/// Most bytes read of a table of connections.
const TABLE_BYTES: usize = 1 << 20;

/// The sockets for which a group waited.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    known: Vec<(Descriptor, Peer)>,
}

impl Peers {
    /// Records that a task of process `pid` was found waiting for its socket `fd`, with
    /// `weight_ns`.
    pub fn note(&mut self, pid: Pid, fd: i32, weight_ns: u64) {
        let Some(socket) = descriptor(pid, fd) else { return };
        if let Some((_, peer)) = self.known.iter_mut().find(|(known, _)| *known == socket) {
            // A socket may have been unconnected when it was first seen.
            if matches!(peer.kind, PeerKind::Unknown) && peer.waited_ns < ASK_AGAIN_NS {
                *peer = Peer { waited_ns: peer.waited_ns, ..peer_of(pid, fd) };
            }
            peer.waited_ns += weight_ns;
        } else if self.known.len() < MOST_SOCKETS {
            let peer = Peer { waited_ns: weight_ns, ..peer_of(pid, fd) };
            self.known.push((socket, peer));
        }
    }

    /// Returns the peer with the longest wait. Sockets with the same peer count as one.
    pub fn longest<'a>(of: impl Iterator<Item = &'a Peers>) -> Option<Peer> {
        let mut merged: Vec<Peer> = Vec::new();
        for (_, peer) in of.flat_map(|peers| &peers.known) {
            let same = |other: &&mut Peer| {
                Peer { waited_ns: peer.waited_ns, ..(**other).clone() } == *peer
            };
            match merged.iter_mut().find(same) {
                Some(known) => known.waited_ns += peer.waited_ns,
                None => merged.push(peer.clone()),
            }
        }
        merged.into_iter().max_by_key(|peer| peer.waited_ns)
    }
}

/// While the wait is no longer than this, an unknown peer is looked up again.
const ASK_AGAIN_NS: u64 = 200_000_000;

fn peer_of(pid: Pid, fd: i32) -> Peer {
    borrow(pid, fd).and_then(|socket| of_socket(pid, &socket)).unwrap_or_default()
}

fn of_socket(pid: Pid, socket: &OwnedFd) -> Option<Peer> {
    let own = getsockname(socket).ok()?;
    if socket_acceptconn(socket).unwrap_or(false) {
        let address = text_of(&own);
        return Some(Peer { kind: PeerKind::Listening, address, ..Peer::default() });
    }
    if let Ok(own) = SocketAddrUnix::try_from(own.clone()) {
        let address = getpeername(socket).ok().flatten().and_then(|peer| text_of(&peer));
        let address = address.or_else(|| path_of(&own));
        let peer = socket_peercred(socket).ok().map(|peer| peer.pid.as_raw_nonzero().get());
        let program = peer.and_then(name_of);
        let pid = peer.filter(|_| program.is_some());
        return Some(Peer { kind: PeerKind::Unix, address, program, pid, ..Peer::default() });
    }
    let own = InetAddr::try_from(own).ok()?;
    let far = InetAddr::try_from(getpeername(socket).ok()??).ok()?;
    let (far, own) = (plain(far), plain(own));
    let address = Some(far.to_string());
    if !is_of_this_host(far.ip(), own.ip()) {
        return Some(Peer { kind: PeerKind::Remote, address, ..Peer::default() });
    }
    let owner = inode_of(pid, far, own).and_then(owner_of);
    let program = owner.and_then(name_of);
    let pid = owner.filter(|_| program.is_some());
    Some(Peer { kind: PeerKind::Local, address, program, pid, ..Peer::default() })
}

fn text_of(address: &SocketAddrAny) -> Option<String> {
    match InetAddr::try_from(address.clone()) {
        Ok(address) => Some(plain(address).to_string()),
        Err(_) => path_of(&SocketAddrUnix::try_from(address.clone()).ok()?),
    }
}

fn path_of(address: &SocketAddrUnix) -> Option<String> {
    let abstract_name = || Some(format!("@{}", String::from_utf8_lossy(address.abstract_name()?)));
    let path = address.path().map(|path| path.to_string_lossy().into_owned());
    path.filter(|path| !path.is_empty()).or_else(abstract_name)
}

/// Converts an IPv4 address written as IPv6 (`::ffff:127.0.0.1`).
fn plain(address: InetAddr) -> InetAddr {
    InetAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether a peer's address is this host's: a loopback address, or the socket's own address.
fn is_of_this_host(far: IpAddr, own: IpAddr) -> bool {
    far.is_loopback() || far == own
}

/// Finds the inode of the socket with own address `far` and peer `own` in the tables of the network
/// namespace of process `pid`.
fn inode_of(pid: Pid, far: InetAddr, own: InetAddr) -> Option<u64> {
    let mut buffer = vec![0; TABLE_BYTES];
    ["tcp", "tcp6"].into_iter().find_map(|table| {
        let text = read_whole(&format!("/proc/{pid}/net/{table}"), &mut buffer)?;
        find_connection(&String::from_utf8_lossy(text), far, own)
    })
}

fn read_whole<'b>(path: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    use std::io::Read;
    let file = std::fs::File::open(path).ok()?;
    let (mut file, mut filled) = (file.take(buffer.len() as u64), 0);
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]).ok()? {
            0 => break,
            n => filled += n,
        }
    }
    Some(&buffer[..filled])
}

/// Searches the text of `/proc/net/tcp` or `tcp6` for a connection.
fn find_connection(table: &str, local: InetAddr, remote: InetAddr) -> Option<u64> {
    let mut lines = table.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let address = |n: usize| fields.get(n).and_then(|text| parse_address(text));
        Some((address(1)?, address(2)?, fields.get(9)?.parse::<u64>().ok()?))
    });
    let found = lines.find_map(|line| line.filter(|(l, r, _)| (*l, *r) == (local, remote)));
    found.map(|(.., inode)| inode).filter(|inode| *inode != 0)
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

/// Finds the process that has the socket with this inode, among the accessible ones.
fn owner_of(inode: u64) -> Option<Pid> {
    let target = format!("socket:[{inode}]");
    let has = |pid: &Pid| {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        let mut entries = entries.flatten();
        entries.any(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == target.as_str())
        })
    };
    processes().into_iter().take(MOST_PROCESSES).find(has)
}

fn name_of(pid: Pid) -> Option<String> {
    let mut buffer = [0; 64];
    let text = read_small(&format!("/proc/{pid}/comm"), &mut buffer).ok()?;
    Some(String::from_utf8_lossy(text).trim_end().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn me() -> Pid {
        std::process::id() as Pid
    }

    #[test]
    fn a_connection_is_found_in_the_kernel_s_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:A426 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1 0 100 0 0 10 0\n   \
            1: 0100007F:A426 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n";
        let address = |text: &str| text.parse::<InetAddr>().expect("an address");
        let (far, own) = (address("127.0.0.1:42022"), address("127.0.0.1:50000"));
        if cfg!(target_endian = "little") {
            assert_eq!(find_connection(table, far, own), Some(4711));
            let mapped = parse_address("0000000000000000FFFF00000100007F:A426");
            assert_eq!(mapped, Some(far));
        }
        assert_eq!(find_connection(table, own, far), None);
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
        let peer = peer_of(me(), near.as_raw_fd());
        assert_eq!(peer.kind, PeerKind::Local);
        assert_eq!(peer.address, Some(address.to_string()));
        assert_eq!(peer.pid, Some(me()), "{peer:?}");
        assert_eq!(peer_of(me(), listener.as_raw_fd()).kind, PeerKind::Listening);
    }

    #[test]
    fn the_peer_of_a_unix_socket_is_a_process() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        let _listener = UnixListener::bind(&path).expect("a listener");
        let near = UnixStream::connect(&path).expect("connected");
        let mut peers = Peers::default();
        peers.note(me(), near.as_raw_fd(), 5);
        peers.note(me(), near.as_raw_fd(), 6);
        let peer = Peers::longest([&peers].into_iter()).expect("a peer");
        assert_eq!((peer.kind, peer.waited_ns, peer.pid), (PeerKind::Unix, 11, Some(me())));
        assert_eq!(peer.address.as_deref(), path.to_str());
        assert!(peer.program.is_some());
    }

    #[test]
    fn what_is_no_socket_or_not_there_has_no_peer() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(peer_of(me(), reader.as_raw_fd()), Peer::default());
        assert_eq!(peer_of(me(), 9_999), Peer::default());
        assert_eq!(Peers::longest([].into_iter()), None);
    }
}
