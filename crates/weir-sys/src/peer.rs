//! The process at the other end of a unix socket: its identity (`SO_PEERCRED`) and a descriptor of it
//! (`SO_PEERPIDFD`, Linux 6.5).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `include/uapi/asm-generic/socket.h`; libc does not have it yet.
const SO_PEERPIDFD: libc::c_int = 77;

/// Gets a descriptor of the process that connected or listened, readable once the process has died.
///
/// # Errors
/// `ENOPROTOOPT`: the kernel is older. `ESRCH`: the process is already gone. `EMFILE`.
pub fn pidfd(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut descriptor: libc::c_int = -1;
    // SAFETY: the option is an integer.
    match unsafe { get_option(socket, SO_PEERPIDFD, &mut descriptor) } {
        // Kernels before 6.15 say this of a process that was waited for.
        Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => {}
        got => drop(got?),
    }
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: the kernel has made this descriptor for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The identity of a process, from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The process, or 0 if it has no number in this process's pid namespace.
    pub pid: i32,
    /// Its user, or the kernel's overflow user if it has no number in this user namespace.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// The identity of the process that connected or listened.
pub fn credentials(socket: impl AsFd) -> io::Result<Credentials> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    // SAFETY: the option is a structure of this type.
    unsafe { get_option(socket, libc::SO_PEERCRED, &mut found) }?;
    Ok(Credentials { pid: found.pid, uid: found.uid, gid: found.gid })
}

/// Reads an option of a socket into `value`.
///
/// # Safety
/// The kernel fills values of this option with plain data that is valid for `T`.
unsafe fn get_option<T>(
    socket: impl AsFd,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<libc::c_int> {
    let (fd, mut bytes) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    let value = std::ptr::from_mut(value).cast();
    // SAFETY: both out-pointers are to live values, and the length is that of the first.
    crate::check(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, value, &raw mut bytes) })
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
