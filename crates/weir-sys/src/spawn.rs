//! Starting a child some of whose standard descriptors stay closed.
//!
//! The standard library always gives a child descriptors 0 to 2. A shell that was itself started
//! with one of them closed hands on the closed one, and programs then fail with `EBADF` where a
//! stand-in `/dev/null` would swallow their output in silence.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts `command`, closing in the child those of descriptors 0, 1, 2 whose entry is true.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn spawn_with_closed(command: &mut Command, closed: [bool; 3]) -> io::Result<Child> {
    if closed.contains(&true) {
        let close_them = move || {
            for (fd, _) in closed.iter().enumerate().filter(|(_, closed)| **closed) {
                // SAFETY: close(2) takes any number; the descriptor belongs to the child alone
                // and nothing in it uses it between here and exec.
                unsafe { libc::close(fd as libc::c_int) };
            }
            Ok(())
        };
        // SAFETY: the closure calls only close(2), which is async-signal-safe, and neither
        // allocates nor takes a lock.
        unsafe { command.pre_exec(close_them) };
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_descriptor_is_really_closed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo lost 2>/dev/null"]);
        let status = spawn_with_closed(&mut command, [false, true, false]).expect("sh").wait();
        assert!(!status.expect("waited").success(), "writing to a closed descriptor succeeded");
    }
}
