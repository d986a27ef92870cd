//! The other end of a unix socket, as the kernel's socket diagnosis names it (`sock_diag`,
//! `UNIX_DIAG_PEER`). `SO_PEERCRED` names whoever listened, which need not be who serves.

use crate::bytes::{half, word};
use crate::netlink::{HEADER_BYTES, KIND, REQUEST, attribute, open, receive, send};
use rustix::net::{SocketType, netlink};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_UNIX: u8 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
const ANSWER_BYTES: usize = 16;

/// Returns the inode of the socket at the other end of the unix socket with this inode, which must
/// be of this network namespace; `None` where the kernel does not tell.
pub fn unix_peer(inode: u64) -> Option<u64> {
    let inode = u32::try_from(inode).ok()?;
    let socket = open(SocketType::RAW, netlink::SOCK_DIAG, 0)?;
    send(&socket, SOCK_DIAG_BY_FAMILY, REQUEST, &question(inode))?;
    parse(&receive(&socket).ok()??, inode)
}

fn question(inode: u32) -> Vec<u8> {
    let mut text = vec![AF_UNIX, 0, 0, 0];
    text.extend(u32::MAX.to_ne_bytes());
    text.extend(inode.to_ne_bytes());
    text.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    // No cookie: the inode is enough.
    text.extend([0xff; 8]);
    text
}

fn parse(answer: &[u8], asked: u32) -> Option<u64> {
    if half(answer, KIND)? != SOCK_DIAG_BY_FAMILY || word(answer, HEADER_BYTES + 4)? != asked {
        return None;
    }
    let end = (word(answer, 0)? as usize).min(answer.len());
    let peer = attribute(answer.get(HEADER_BYTES + ANSWER_BYTES..end)?, UNIX_DIAG_PEER)?;
    word(peer, 0).map(u64::from).filter(|inode| *inode != 0)
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
