//! Namespaces of this process, and of one of its threads.

use crate::check;
use std::io;

/// Moves this process, which must have one thread, into a new network namespace. That has nothing
/// but a loopback device that is down.
///
/// # Errors
/// `EPERM` without privilege.
pub fn new_network() -> io::Result<()> {
    // SAFETY: unshare(2) takes flags; CLONE_NEWNET changes which network this thread sees and no
    // memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves this process, which must have one thread, into the network namespace of the file at `path`,
/// such as `/run/netns/NAME` or `/proc/PID/ns/net`.
///
/// # Errors
/// `EPERM` without privilege; `EINVAL`: the file is not a network namespace; those of open(2).
pub fn enter_network(path: &std::path::Path) -> io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    let file = std::fs::File::open(path)?;
    let kind = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(rustix::fd::AsFd::as_fd(&file), kind)?)
}

/// Gives this thread, and the threads it starts, a new mount namespace. What is mounted there is not
/// visible elsewhere.
///
/// # Errors
/// `EPERM` without privilege.
pub fn new_mounts() -> io::Result<()> {
    // SAFETY: unshare(2) takes flags; CLONE_NEWNS changes which mounts this thread sees and no
    // memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    use rustix::mount::{MountPropagationFlags, mount_change};
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change("/", private)?)
}
