//! The process at the other end of a unix socket: who it is (`SO_PEERCRED`), and as a descriptor
//! (`SO_PEERPIDFD`, Linux 6.5).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `include/uapi/asm-generic/socket.h`; not in libc yet.
const SO_PEERPIDFD: libc::c_int = 77;

/// A descriptor of the process that connected or listened, readable once it has died.
///
/// # Errors
/// `ENOPROTOOPT` on older kernels, `ESRCH` when the process is gone already, `EMFILE`.
pub fn pidfd(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut descriptor: libc::c_int = -1;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both out-pointers are to live locals, the length is that of the first.
    let got = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut descriptor).cast(),
            &raw mut bytes,
        )
    };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: the kernel has made this descriptor for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Who connected or listened, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The process; 0 where it has no number in this process's pid namespace.
    pub pid: i32,
    /// Its user; the kernel's overflow user where it has no number in this user namespace.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Who connected or listened.
///
/// # Errors
/// Those of getsockopt(2).
pub fn credentials(socket: impl AsFd) -> io::Result<Credentials> {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: both out-pointers are to live locals, the length is that of the first.
    let got = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut bytes,
        )
    };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Credentials { pid: who.pid, uid: who.uid, gid: who.gid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::os::unix::net::UnixStream;

    #[test]
    fn names_a_living_process() {
        let (ours, _theirs) = UnixStream::pair().expect("sockets");
        let who = credentials(&ours).expect("known");
        assert_eq!(who.pid, std::process::id() as i32);
        assert_eq!(who.uid, rustix::process::geteuid().as_raw());
        let pidfd = pidfd(&ours).expect("this process");
        let mut asked = [PollFd::new(&pidfd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&mut asked, Some(&now)).expect("polled"), 0, "it lives");
    }
}
