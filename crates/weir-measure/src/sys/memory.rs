//! Reading a few bytes of another process with `process_vm_readv(2)`.
//!
//! This needs the same permission as `/proc/PID/syscall` (`PTRACE_MODE_ATTACH`). The process is not
//! stopped, so the bytes may change during the read. Callers treat them as a hint.

use crate::sys::{Pid, check};
use std::io;

/// Fills `buffer` from `address` in the memory of `pid`: how many bytes were there.
///
/// # Errors
/// `EPERM` without permission, `ESRCH` when the process is gone, `EFAULT` for a bad address.
pub fn read_remote(pid: Pid, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote =
        libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: `local` spans exactly `buffer`, which is borrowed mutably for the whole call. Only
    // the kernel dereferences the remote address, and it checks it.
    let got = check(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) })?;
    Ok(got as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_memory_and_refuses_a_bad_address() {
        let source = *b"plumbing";
        let mut copy = [0_u8; 8];
        let pid = std::process::id() as Pid;
        let n = read_remote(pid, source.as_ptr() as u64, &mut copy).expect("own memory");
        assert_eq!((n, copy), (8, source));
        assert!(read_remote(pid, 8, &mut copy).is_err());
    }
}
