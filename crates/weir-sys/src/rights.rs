//! Messages that bring descriptors (recvmsg(2)).
//!
//! rustix leaves a descriptor open and returns it to nobody if it is of a kind that it does not
//! know: that of the sender's process, which comes with each message of a socket that was set so
//! (`SO_PASSPIDFD`, Linux 6.5). Whoever holds a copy of the socket can set it so.

use crate::check;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::io;

/// The most descriptors that a message can bring.
pub const MOST_RIGHTS: usize = 253;
/// `include/linux/socket.h`; libc does not have it yet.
const SCM_PIDFD: libc::c_int = 4;
/// Bytes of the head of a part, and of the parts that may come beside the descriptors: who sends,
/// and the descriptor of that process.
const HEAD_BYTES: usize = size_of::<libc::cmsghdr>();
const BESIDE_BYTES: usize = 2 * HEAD_BYTES + 24;
const MOST_WORDS: usize = (BESIDE_BYTES + HEAD_BYTES + MOST_RIGHTS * 4).div_ceil(8);

/// Receives a message into `text`, and calls `each` with every descriptor that it brings. There is
/// room for `most` of them, and sometimes for some more. Returns the length of the message, and
/// whether it brought what there was no room for. Allocates nothing.
pub fn receive(
    socket: BorrowedFd,
    text: &mut [u8],
    flags: libc::c_int,
    most: usize,
    each: &mut dyn FnMut(OwnedFd),
) -> io::Result<(usize, bool)> {
    // Words, so that heads are aligned.
    let mut space = [0_u64; MOST_WORDS];
    let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    // SAFETY: integers, and pointers that may be null.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = space.as_mut_ptr().cast();
    message.msg_controllen = (BESIDE_BYTES + HEAD_BYTES + most * 4).min(size_of_val(&space));
    let flags = flags | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message points to the live `text` and `space`, with lengths that they have.
    let bytes = check(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) })?;
    // SAFETY: the kernel has written whole parts into `space`, and their length into the message.
    let mut head = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !head.is_null() {
        // SAFETY: a head that the kernel wrote, aligned as `space` is.
        let about = unsafe { head.read() };
        // SAFETY: as above; what follows the head.
        let data = unsafe { libc::CMSG_DATA(head) }.cast::<RawFd>();
        let is_of_files = [libc::SCM_RIGHTS, SCM_PIDFD].contains(&about.cmsg_type)
            && about.cmsg_level == libc::SOL_SOCKET;
        let count = if is_of_files { about.cmsg_len.saturating_sub(HEAD_BYTES) / 4 } else { 0 };
        for at in 0..count {
            // SAFETY: inside of the part, whose bytes are so many numbers.
            let number = unsafe { data.wrapping_add(at).read() };
            // A process that is gone has an error in place of a descriptor.
            if number < 0 {
                continue;
            }
            // SAFETY: the kernel has just made it for this caller.
            let file = unsafe { OwnedFd::from_raw_fd(number) };
            if about.cmsg_type == libc::SCM_RIGHTS {
                each(file);
            }
        }
        // SAFETY: as for the first head.
        head = unsafe { libc::CMSG_NXTHDR(&raw const message, head) };
    }
    Ok((bytes as usize, message.msg_flags & libc::MSG_CTRUNC != 0))
}

/// Makes a peek at a socket see its first message (`SO_PEEK_OFF`), as it does at first.
pub fn peek_from_the_first(socket: BorrowedFd) {
    let first: libc::c_int = -1;
    let (value, bytes) = (&raw const first, size_of_val(&first) as libc::socklen_t);
    let (fd, level, option) = (socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEEK_OFF);
    // SAFETY: the value is a live integer, and the length is its. A socket that cannot be set so
    // has not been set otherwise.
    unsafe { libc::setsockopt(fd, level, option, value.cast(), bytes) };
}
