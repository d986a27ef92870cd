//! The other end of a unix socket, as the kernel's socket diagnosis names it (`sock_diag`,
//! `UNIX_DIAG_PEER`). `SO_PEERCRED` names whoever listened, which need not be who serves.

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_UNIX: u8 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
const HEADER_BYTES: usize = 16;
const ANSWER_BYTES: usize = 16;

/// Returns the inode of the socket at the other end of the unix socket with this inode, which must
/// be of this network namespace; `None` where the kernel does not tell.
pub fn unix_peer(inode: u64) -> Option<u64> {
    let inode = u32::try_from(inode).ok()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = Some(netlink::SOCK_DIAG);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol).ok()?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &question(inode), SendFlags::empty(), &kernel).ok()?;
    let mut buffer = [0_u8; 1024];
    // The kernel answers before sendto(2) returns.
    let (_, length) = recv(&socket, &mut buffer[..], RecvFlags::empty()).ok()?;
    parse(buffer.get(..length)?, inode)
}

fn question(inode: u32) -> Vec<u8> {
    let mut text = Vec::with_capacity(HEADER_BYTES + 24);
    text.extend(40_u32.to_ne_bytes());
    text.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    text.extend(NLM_F_REQUEST.to_ne_bytes());
    text.extend([0; 8]);
    text.extend([AF_UNIX, 0, 0, 0]);
    text.extend(u32::MAX.to_ne_bytes());
    text.extend(inode.to_ne_bytes());
    text.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    // No cookie: the inode is enough.
    text.extend([0xff; 8]);
    text
}

fn parse(answer: &[u8], asked: u32) -> Option<u64> {
    let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    if half(4)? != SOCK_DIAG_BY_FAMILY || word(HEADER_BYTES + 4)? != asked {
        return None;
    }
    let end = (word(0)? as usize).min(answer.len());
    let mut at = HEADER_BYTES + ANSWER_BYTES;
    while at + 4 <= end {
        let length = usize::from(half(at)?);
        if half(at + 2)? == UNIX_DIAG_PEER {
            return word(at + 4).map(u64::from).filter(|inode| *inode != 0);
        }
        at += length.max(4).next_multiple_of(4);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_two_ends_of_a_pair_name_each_other() {
        let (near, far) = UnixStream::pair().expect("a pair");
        let inode = |socket: &UnixStream| rustix::fs::fstat(socket).expect("known").st_ino;
        assert_eq!(unix_peer(inode(&near)), Some(inode(&far)));
        assert_eq!(unix_peer(inode(&far)), Some(inode(&near)));
        assert_eq!(unix_peer(1), None);
        assert_eq!(unix_peer(u64::MAX), None);
    }

    #[test]
    fn an_answer_cut_short_is_none() {
        let mut answer = vec![0; 40];
        answer[..4].copy_from_slice(&40_u32.to_ne_bytes());
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[20..24].copy_from_slice(&77_u32.to_ne_bytes());
        answer[32..34].copy_from_slice(&8_u16.to_ne_bytes());
        answer[34..36].copy_from_slice(&UNIX_DIAG_PEER.to_ne_bytes());
        answer[36..40].copy_from_slice(&78_u32.to_ne_bytes());
        assert_eq!(parse(&answer, 77), Some(78));
        assert_eq!(parse(&answer, 76), None);
        (0..answer.len()).for_each(|most| assert_eq!(parse(&answer[..most], 77), None));
        answer[34] = 9;
        assert_eq!(parse(&answer, 77), None);
    }
}
