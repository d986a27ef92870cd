//! What the kernel counts on a TCP connection (`TCP_INFO`).

use std::os::fd::{AsFd, AsRawFd};

/// Bytes kept of what the kernel gives; newer kernels give more.
pub const TCP_INFO_BYTES: usize = 256;

/// Returns the kernel's figures for a TCP socket, as many bytes as it has of them; `None` for other
/// sockets.
pub fn tcp_info(socket: impl AsFd) -> Option<([u8; TCP_INFO_BYTES], usize)> {
    let mut info = [0; TCP_INFO_BYTES];
    let mut length = TCP_INFO_BYTES as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `info` has `length` bytes, which the call may write; both live until it returns.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some((info, (length as usize).min(TCP_INFO_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_has_figures_and_another_socket_has_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("known")).expect("connected");
        let (info, length) = tcp_info(&near).expect("a connection");
        const ESTABLISHED: u8 = 1;
        assert!(length > 100 && info[0] == ESTABLISHED);
        assert_eq!(tcp_info(UnixStream::pair().expect("a pair").0), None);
    }
}
