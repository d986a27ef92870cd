//! Datagrams of one length that the kernel cuts out of one send (`UDP_SEGMENT`, udp(7)).

use libc::c_int;
use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// Most datagrams that every kernel with `UDP_SEGMENT` cuts out of one send.
pub const MOST_SEGMENTS: usize = 64;

/// Has each send on this UDP socket that is longer cut into datagrams of this length, the last of which
/// may be shorter. 0: no send is cut.
///
/// # Errors
/// It is no UDP socket, or the kernel is older than 4.18.
pub fn set_segment_bytes(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    let value = c_int::from(bytes);
    // SAFETY: the address and the length are those of a number that outlives the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_long_send_arrives_as_datagrams_of_one_length() {
        let [from, to] = [(), ()].map(|()| UdpSocket::bind("127.0.0.1:0").expect("bound"));
        to.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("set");
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
    }
}
