//! Datagrams of one length that cross the kernel as one: it cuts them out of one send
//! (`UDP_SEGMENT`), and gives them to a receiver in one piece (`UDP_GRO`, udp(7)).

use crate::sys::message::receive;
use libc::c_int;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use std::io;
use std::net::SocketAddr;

/// Most datagrams that every kernel with `UDP_SEGMENT` cuts out of one send.
pub const MOST_SEGMENTS: usize = 64;

/// Has each send on this UDP socket that is longer cut into datagrams of this length, the last of
/// which may be shorter. 0: no send is cut.
///
/// # Errors
/// It is no UDP socket, or the kernel is older than 4.18.
pub fn set_segment_bytes(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    set(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into())
}

/// Has this UDP socket give several datagrams of one length in one piece to [`receive_joined`].
///
/// # Errors
/// It is no UDP socket, or the kernel is older than 5.0.
pub fn receive_in_one_piece(socket: impl AsFd) -> io::Result<()> {
    set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Sets an option of a socket that is a number.
pub(crate) fn set(
    socket: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: c_int,
) -> io::Result<()> {
    // SAFETY: the address and the length are those of a number that outlives the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    weir_sys::check(set).map(drop)
}

/// What [`receive_joined`] has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The length of all of it.
    pub bytes: usize,
    /// The length of each datagram in it; the last may be shorter. At least 1.
    pub datagram_bytes: usize,
    /// The sender.
    pub from: SocketAddr,
}

/// Receives a datagram, or several of one length from one sender where the socket gives them in one
/// piece. What finds no room in `to` is lost.
pub fn receive_joined(socket: impl AsFd, to: &mut [u8]) -> io::Result<Joined> {
    let kinds = [(libc::SOL_UDP, libc::UDP_GRO)];
    // SAFETY: the kernel says the length of each datagram there, as a number (udp(7)).
    let received = unsafe { receive::<c_int>(socket.as_fd(), to, 0, &kinds) }?;
    let control = received.control.and_then(|bytes| usize::try_from(bytes).ok());
    let datagram_bytes = control.unwrap_or(received.bytes).max(1);
    let from = received.address.ok_or(io::ErrorKind::Unsupported)?;
    Ok(Joined { bytes: received.bytes, datagram_bytes, from })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    fn two_sockets(address: &str) -> [UdpSocket; 2] {
        [(), ()].map(|()| {
            let socket = UdpSocket::bind(address).expect("bound");
            socket.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
            socket
        })
    }

    #[test]
    fn a_long_send_arrives_as_datagrams_of_one_length() {
        let [from, to] = two_sockets("127.0.0.1:0");
        if set_segment_bytes(&from, 100).is_err() {
            eprintln!("SKIPPED: the kernel has no UDP_SEGMENT");
            return;
        }
        let bytes: Vec<u8> = (0..=255).collect();
        from.send_to(&bytes, to.local_addr().expect("bound")).expect("sent");
        set_segment_bytes(&from, 0).expect("set back");
        from.send_to(&bytes, to.local_addr().expect("bound")).expect("sent");
        let mut got = [0; 300];
        let mut next = || to.recv(&mut got).map(|bytes| got[..bytes].to_vec()).expect("received");
        assert_eq!([next(), next(), next()].concat(), bytes);
        assert_eq!(next(), bytes);
        let file = std::fs::File::open("/dev/null").expect("opened");
        assert!(set_segment_bytes(&file, 100).is_err());
        assert!(receive_in_one_piece(&file).is_err());
        assert!(receive_joined(&file, &mut got).is_err());
    }

    #[test]
    fn what_is_joined_says_how_long_each_datagram_is() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            if UdpSocket::bind(address).is_err() {
                eprintln!("SKIPPED: there is no {address}");
                continue;
            }
            let [from, to] = two_sockets(address);
            let (sender, at) = (from.local_addr().expect("bound"), to.local_addr().expect("bound"));
            let can = set_segment_bytes(&from, 100).and_then(|()| receive_in_one_piece(&to));
            if can.is_err() {
                eprintln!("SKIPPED: the kernel does not join datagrams");
                return;
            }
            let bytes: Vec<u8> = (0..=255).collect();
            from.send_to(&bytes, at).expect("sent");
            set_segment_bytes(&from, 0).expect("set back");
            for end in [200, 0] {
                from.send_to(&bytes[..end], at).expect("sent");
            }
            let mut got = [0; 300];
            let (mut joined, mut datagrams) = (Vec::new(), Vec::new());
            // A kernel may cut what was sent in one piece in the midst; the datagrams are the same.
            while datagrams.len() < 5 {
                let received = receive_joined(&to, &mut got).expect("received");
                assert_eq!(received.from, sender);
                match received.bytes {
                    0 => datagrams.push(Vec::new()),
                    bytes => {
                        let each = got[..bytes].chunks(received.datagram_bytes);
                        datagrams.extend(each.map(<[u8]>::to_vec));
                    }
                }
                joined.push(received.bytes);
            }
            let lengths: Vec<usize> = datagrams.iter().map(Vec::len).collect();
            assert_eq!(lengths, [100, 100, 56, 200, 0], "in pieces of {joined:?}");
            assert_eq!(datagrams.concat(), [&bytes[..], &bytes[..200]].concat());
        }
    }
}
