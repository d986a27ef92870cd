//! What the kernel hears about datagrams that nobody took (`IP_RECVERR`, ip(7), and ipv6(7)).

use crate::segments::{address, set};
use libc::c_int;
use rustix::fd::{AsFd, AsRawFd};
use std::io;
use std::net::SocketAddr;

/// Words of memory for the control message of an error: its head, the error, and an address.
const CONTROL_WORDS: usize = 16;

/// Keeps what the kernel hears about datagrams of this UDP socket, for [`next_error`]. While there
/// is some, the socket is ready to poll(2), and its next call fails with it.
///
/// # Errors
/// It is no socket of IP.
pub fn keep_errors(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    // A socket of version 6 may send to addresses of version 4.
    let six = set(socket, libc::SOL_IPV6, libc::IPV6_RECVERR, 1);
    set(socket, libc::SOL_IP, libc::IP_RECVERR, 1).or(six)
}

/// Takes the next error. Returns where its datagram was sent, if nobody has that port; `None` for
/// other errors.
///
/// # Errors
/// `EAGAIN`: there is none; those of recvmsg(2).
pub fn next_error(socket: impl AsFd) -> io::Result<Option<SocketAddr>> {
    // SAFETY: all of it is numbers, for which zero is a value.
    let mut to: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: as above; null pointers are values too.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_name = (&raw mut to).cast();
    head.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: each address in the head is that of memory of the length beside it, which nothing
    // else uses until the call returns.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut head, flags) };
    weir_sys::check(received)?;
    Ok(address(&to).filter(|_| error(&head) == Some(libc::ECONNREFUSED as u32)))
}

/// The error that the kernel says in a control message.
fn error(head: &libc::msghdr) -> Option<u32> {
    // SAFETY: the head is one that recvmsg has filled in, and its control memory still lives.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(head) };
    while !at.is_null() {
        // SAFETY: the two functions return null, or the address of a whole head in that memory.
        let found = unsafe { *at };
        let kind = (found.cmsg_level, found.cmsg_type);
        const KINDS: [(c_int, c_int); 2] =
            [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)];
        if KINDS.contains(&kind) {
            // SAFETY: it is a whole head, as above.
            let data = unsafe { libc::CMSG_DATA(at) }.cast::<libc::sock_extended_err>();
            // SAFETY: the kernel writes an error behind the head of a message of this kind.
            let said = unsafe { data.read_unaligned() };
            return Some(said.ee_errno);
        }
        // SAFETY: as above.
        at = unsafe { libc::CMSG_NXTHDR(head, at) };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn a_port_that_nobody_has_is_told_with_its_address() {
        for here in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(from) = UdpSocket::bind(here) else {
                eprintln!("SKIPPED: there is no {here}");
                continue;
            };
            keep_errors(&from).expect("kept");
            from.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
            let closed = UdpSocket::bind(here).and_then(|gone| gone.local_addr()).expect("closed");
            from.send_to(b"x", closed).expect("sent");
            let refused = from.recv(&mut [0]).expect_err("refused");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            assert_eq!(next_error(&from).expect("an error"), Some(closed));
            let none = next_error(&from).expect_err("it was the only one");
            assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        }
        let file = std::fs::File::open("/dev/null").expect("opened");
        assert!(keep_errors(&file).is_err());
        assert!(next_error(&file).is_err());
    }
}
