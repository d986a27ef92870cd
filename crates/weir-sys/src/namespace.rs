//! Namespaces of this process, and of one of its threads.

use std::io;

/// Moves this process, which must have one thread, into a network namespace of its own: it has
/// nothing but a loopback device that is down.
///
/// # Errors
/// `EPERM` without privilege.
pub fn new_network() -> io::Result<()> {
    // SAFETY: unshare(2) takes flags; CLONE_NEWNET changes which network this thread sees and no
    // memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Moves this process, which must have one thread, into the network namespace that the file at
/// `path` stands for, such as `/run/netns/NAME` or `/proc/PID/ns/net`.
///
/// # Errors
/// `EPERM` without privilege; `EINVAL`: the file is no network namespace; those of open(2).
pub fn enter_network(path: &std::path::Path) -> io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    let file = std::fs::File::open(path)?;
    let kind = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(rustix::fd::AsFd::as_fd(&file), kind)?)
}

/// Gives this thread, and those it starts, a mount namespace of its own: what is mounted there is
/// seen nowhere else.
///
/// # Errors
/// `EPERM` without privilege.
pub fn new_mounts() -> io::Result<()> {
    // SAFETY: unshare(2) takes flags; CLONE_NEWNS changes which mounts this thread sees and no
    // memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    use rustix::mount::{MountPropagationFlags, mount_change};
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change("/", private)?)
}
