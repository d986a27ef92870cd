//! Namespaces of this process.

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
