//! Receiving one message with its sender and one control message (recvmsg(2)).

use libc::c_int;
use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Words of memory for the control message: its head, and an error with an address, the longest.
const CONTROL_WORDS: usize = 16;

/// What [`receive`] has received.
pub struct Received<T> {
    pub bytes: usize,
    /// The address that the kernel says, if it is one of IP.
    pub address: Option<SocketAddr>,
    /// What it says in the control message.
    pub control: Option<T>,
}

/// Receives a message, and what the first control message of one of these levels and types says.
///
/// # Safety
/// Behind the head of a control message of these kinds the kernel writes a `T`, for which all bytes
/// are valid.
pub unsafe fn receive<T>(
    socket: BorrowedFd<'_>,
    to: &mut [u8],
    flags: c_int,
    kinds: &[(c_int, c_int)],
) -> io::Result<Received<T>> {
    // SAFETY: all of it is numbers, for which zero is a value.
    let mut from: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: as above; null pointers are values too.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_name = (&raw mut from).cast();
    head.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    (head.msg_iov, head.msg_iovlen) = (&raw mut part, 1);
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = size_of_val(&control) as _;
    // SAFETY: each address in the head is that of memory of the length beside it, which nothing
    // else uses until the call returns.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut head, flags) };
    let bytes = weir_sys::check(received)?.unsigned_abs();
    // SAFETY: recvmsg has filled the head in, and its control memory lives; the caller promises the
    // rest.
    let control = unsafe { control_message(&head, kinds) };
    Ok(Received { bytes, address: address(&from), control })
}

/// Finds what the kernel says in the first control message of one of these kinds.
///
/// # Safety
/// recvmsg(2) has filled in the head, and its control memory lives. The rest is as for [`receive`].
unsafe fn control_message<T>(head: &libc::msghdr, kinds: &[(c_int, c_int)]) -> Option<T> {
    // SAFETY: as the caller promises.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(head) };
    while !at.is_null() {
        // SAFETY: the two functions return null, or the address of a whole head in that memory.
        let found = unsafe { *at };
        if kinds.contains(&(found.cmsg_level, found.cmsg_type)) {
            // SAFETY: it is a whole head, as above.
            let data = unsafe { libc::CMSG_DATA(at) }.cast::<T>();
            // SAFETY: the kernel has written a `T` there, as the caller promises.
            return Some(unsafe { data.read_unaligned() });
        }
        // SAFETY: as above.
        at = unsafe { libc::CMSG_NXTHDR(head, at) };
    }
    None
}

/// The address that the kernel has filled in, if it is one of IP.
fn address(from: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match c_int::from(from.ss_family) {
        libc::AF_INET => {
            // SAFETY: a storage is as long and as aligned as any address, and all values are valid.
            let v4 = unsafe { &*(&raw const *from).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *from).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
