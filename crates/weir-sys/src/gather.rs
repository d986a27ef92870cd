//! One write of two pieces of memory. The second may be shared with another process.

use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;

/// Writes `head`, and then `tail_bytes` at `tail`, by one writev(2): how many bytes were written.
///
/// # Safety
/// `tail_bytes` at `tail` are mapped and can be read for as long as the call lasts. Others may write
/// there meanwhile; the kernel copies what it finds.
pub unsafe fn write_two(
    fd: BorrowedFd,
    head: &[u8],
    tail: *const u8,
    tail_bytes: usize,
) -> io::Result<usize> {
    let parts = [
        libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() },
        libc::iovec { iov_base: tail.cast_mut().cast(), iov_len: tail_bytes },
    ];
    // SAFETY: both parts are readable, the first as a slice, the second as the caller promises;
    // writev only reads them.
    let written = crate::check(unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr(), 2) })?;
    Ok(written as usize)
}
