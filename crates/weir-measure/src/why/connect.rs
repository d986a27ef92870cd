//! Connections that a process asked for and does not have yet.

use super::open::Host;
use crate::attribution::peers::{Row, asked, is_of_this_host, plain, rows};
use crate::bytes::half;
use crate::sys::memory::read_remote;
use std::net::{IpAddr, SocketAddr as InetAddr};
use weir_doctor::facts::{Peer, PeerKind};
use weir_doctor::why::Cause;
use weir_sys::Pid;
use weir_sys::proc::{Descriptor, borrow, seen_by, sockets};

/// Bytes of the longest address (`struct sockaddr_storage`).
const ADDRESS_BYTES: usize = 128;
/// Most bytes read of the table of unix sockets.
const TABLE_BYTES: usize = 1 << 20;
/// The state of a socket that listens (`TCP_LISTEN`).
const LISTENS: u8 = 10;
/// The flag of a unix socket that listens (`__SO_ACCEPTCON`).
const ACCEPTS: u64 = 1 << 16;

/// Returns the wait in `connect`, whose address is in memory.
pub fn call(host: &Host, pid: Pid, fd: i32, address: u64, length: u64) -> Cause {
    pending(host, pid, fd).unwrap_or_else(|| {
        let mut bytes = [0; ADDRESS_BYTES];
        let wanted = (length as usize).min(ADDRESS_BYTES);
        let got = read_remote(pid, address, &mut bytes[..wanted]).unwrap_or(0);
        in_memory(host, pid, &bytes[..got])
            .unwrap_or_else(|| unanswered(host, Peer::default(), None))
    })
}

/// Returns the wait for the connection of a TCP socket; `None` where it waits for none.
pub fn pending(host: &Host, pid: Pid, fd: i32) -> Option<Cause> {
    let own = asked(pid, &borrow(pid, fd)?)?;
    let all = rows(pid);
    let here = is_of_this_host(own.remote.ip(), own.local.ip());
    // One that has room takes every connection, so something else is in the way.
    let listener = listener(&all, &own).filter(|_| here);
    let kind = if here { PeerKind::Local } else { PeerKind::Remote };
    let peer = Peer { kind, address: Some(own.remote.to_string()), ..Peer::default() };
    Some(unanswered(host, peer, listener))
}

/// Returns the processes that listen for a connection of TCP of this host which has been made, but
/// which they have not taken: its other end is a socket of nobody yet.
pub fn untaken(host: &Host, pid: Pid, socket: &Descriptor) -> Vec<Pid> {
    /// States of such an end (`TCP_ESTABLISHED`, `TCP_CLOSE_WAIT`).
    const MADE: [u8; 2] = [1, 8];
    let all = rows(pid);
    let Some(own) = all.iter().find(|row| row.inode == socket.inode) else { return Vec::new() };
    let is_end = |row: &Row| {
        let is_other = (row.local, row.remote) == (own.remote, own.local);
        is_other && row.inode == 0 && MADE.contains(&row.state)
    };
    let listener = listener(&all, own).filter(|_| all.iter().any(is_end));
    listener.map(|inode| host.owners_of(inode)).unwrap_or_default()
}

/// Finds the socket that listens for a connection, and leaves some waiting.
fn listener(all: &[Row], own: &Row) -> Option<u64> {
    let listens = |row: &&Row| {
        let ip = row.local.ip();
        let for_it = ip == own.remote.ip() || ip.is_unspecified();
        row.state == LISTENS && for_it && row.local.port() == own.remote.port() && row.received > 0
    };
    all.iter().find(listens).map(|row| row.inode)
}

fn unanswered(host: &Host, peer: Peer, listener: Option<u64>) -> Cause {
    let listeners = listener.map(|inode| host.owners_of(inode)).unwrap_or_default();
    Cause::Connect { peer: Box::new(peer), listeners }
}

/// Reads the address of a call.
fn in_memory(host: &Host, pid: Pid, bytes: &[u8]) -> Option<Cause> {
    let family = i32::from(half(bytes, 0)?);
    if family == libc::AF_UNIX {
        return unix(host, pid, &bytes[2..]);
    }
    let address = plain(inet(family, bytes)?);
    let kind = if address.ip().is_loopback() { PeerKind::Local } else { PeerKind::Remote };
    let peer = Peer { kind, address: Some(address.to_string()), ..Peer::default() };
    Some(unanswered(host, peer, None))
}

/// Reads an address of IPv4 (`struct sockaddr_in`) or IPv6 (`struct sockaddr_in6`).
fn inet(family: i32, bytes: &[u8]) -> Option<InetAddr> {
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip = match family {
        libc::AF_INET => IpAddr::from(*bytes.get(4..)?.first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*bytes.get(8..)?.first_chunk::<16>()?),
        _ => return None,
    };
    Some(InetAddr::new(ip, port))
}

/// Returns the wait for a listener on a unix socket, by the name that is in the address.
fn unix(host: &Host, pid: Pid, name: &[u8]) -> Option<Cause> {
    let text = match name.strip_prefix(&[0]) {
        Some(abstracted) => format!("@{}", String::from_utf8_lossy(abstracted)),
        None => {
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            String::from_utf8_lossy(&name[..end]).into_owned()
        }
    };
    let found = listeners(&sockets(pid, "unix", TABLE_BYTES)?, &text);
    // Several sockets were bound to a name that was removed in between.
    let inode = match found.as_slice() {
        [one] => Some(*one),
        _ => None,
    };
    let peer = Peer { kind: PeerKind::Unix, address: Some(text.clone()), ..Peer::default() };
    let mut cause = unanswered(host, peer, inode);
    if let Cause::Connect { listeners, .. } = &mut cause {
        listeners.retain(|other| text.starts_with('@') || is_same_file(pid, *other, &text));
    }
    Some(cause)
}

/// Whether two processes see the same file under a name.
fn is_same_file(one: Pid, other: Pid, name: &str) -> bool {
    let file = |pid: Pid| rustix::fs::stat(seen_by(pid, name)?).ok();
    match (file(one), file(other)) {
        (Some(one), Some(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

/// Searches the text of `/proc/net/unix` for the sockets that listen under a name.
fn listeners(table: &str, name: &str) -> Vec<u64> {
    let entry = |line: &str| {
        // Num RefCount Protocol Flags Type St Inode Path
        let mut fields = line.split_ascii_whitespace();
        let flags = u64::from_str_radix(fields.nth(3)?, 16).ok()?;
        let inode = fields.nth(2)?.parse().ok()?;
        let path = line.split_once(&format!(" {inode} "))?.1;
        (flags & ACCEPTS != 0 && path == name).then_some(inode)
    };
    table.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_found_by_its_name() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 4711 /run/a b\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 4712 @x\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 4713 @x\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 4714\nnonsense\n";
        assert_eq!(listeners(table, "/run/a b"), [4711]);
        assert_eq!(listeners(table, "@x"), [4712], "not who is connected");
        assert_eq!(listeners(table, "/run/a"), [] as [u64; 0]);
    }

    #[test]
    fn an_address_cut_short_is_none() {
        let mut bytes = vec![0; 28];
        bytes[2..4].copy_from_slice(&443_u16.to_be_bytes());
        bytes[4..8].copy_from_slice(&[192, 0, 2, 7]);
        let read = |family, bytes: &[u8]| inet(family, bytes).map(|address| address.to_string());
        assert_eq!(read(libc::AF_INET, &bytes).as_deref(), Some("192.0.2.7:443"));
        bytes[8..12].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        assert_eq!(read(libc::AF_INET6, &bytes).as_deref(), Some("[2001:db8::]:443"));
        assert_eq!(read(libc::AF_INET, &bytes[..7]), None);
        assert_eq!(read(libc::AF_INET6, &bytes[..23]), None);
        assert_eq!(read(libc::AF_NETLINK, &bytes), None);
    }
}
