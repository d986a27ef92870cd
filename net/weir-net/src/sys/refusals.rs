//! What the kernel hears about datagrams that nobody took (`IP_RECVERR`, ip(7), and ipv6(7)).

use crate::sys::message::receive;
use crate::sys::segments::set;
use rustix::fd::AsFd;
use std::io;
use std::net::SocketAddr;

/// Keeps what the kernel hears about datagrams of this UDP socket, for [`next_error`]. While there
/// is some, the socket is ready to poll(2), and its next call fails with it.
///
/// # Errors
/// It is not a socket of IP.
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
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    let kinds = [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)];
    // SAFETY: the kernel says such an error there (ip(7)), which is all numbers.
    let received =
        unsafe { receive::<libc::sock_extended_err>(socket.as_fd(), &mut [], flags, &kinds) }?;
    let errno = received.control.map(|error| error.ee_errno);
    Ok(received.address.filter(|_| errno == Some(libc::ECONNREFUSED as u32)))
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
