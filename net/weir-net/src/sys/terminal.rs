//! A process with a terminal of its own: a pseudo-terminal whose other side this process has.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// The signals that a terminal sends, and that of children. A command must not inherit that they are
/// ignored, as in the background of a script: nothing would end it then.
const OF_TERMINALS: [i32; 7] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCHLD,
];

/// A child that has a terminal. Dropping it hangs up the terminal, and kills the child.
#[derive(Debug)]
pub struct Terminal {
    ours: OwnedFd,
    child: Child,
}

impl Terminal {
    /// Starts a command as the leader of a session with a new terminal, which is its standard input,
    /// output and error.
    ///
    /// # Errors
    /// There are no terminals left; the command cannot be started.
    pub fn start(mut command: Command) -> io::Result<Terminal> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
        rustix::fs::fcntl_setfl(&ours, OFlags::RDWR | OFlags::NONBLOCK)?;
        command.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs);
        let lead = || {
            for signal in OF_TERMINALS {
                // SAFETY: installing the default action runs no code of ours.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            rustix::process::setsid()?;
            Ok(rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?)
        };
        // SAFETY: the closure only makes the system calls sigaction(2), setsid(2) and ioctl(2), and
        // neither allocates nor takes a lock.
        let child = unsafe { command.pre_exec(lead) }.spawn()?;
        // The command holds the child's side of the terminal, which must end with the child.
        drop(command);
        Ok(Terminal { ours, child })
    }

    /// Sets the size of the terminal, in characters.
    pub fn set_size(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.ours, size)?)
    }
}

impl AsFd for Terminal {
    /// Our side of the terminal; reads and writes do not wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ours.as_fd()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn a_command_has_a_terminal_of_its_own_and_its_size() {
        let mut command = Command::new("/bin/sh");
        // The size is asked for once it is set: after a line has come.
        command.args(["-c", "read line; tty; stty size; echo $line"]);
        let terminal = Terminal::start(command).expect("started");
        terminal.set_size(91, 17).expect("set");
        rustix::io::write(&terminal, b"over\n").expect("written");
        let (mut said, mut buffer) = (Vec::new(), [0; 256]);
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        loop {
            let ready = poll(&mut [PollFd::new(&terminal, PollFlags::IN)], Some(&limit));
            assert!(ready.expect("waited") > 0, "nothing more comes after {said:?}");
            match rustix::io::read(&terminal, &mut buffer) {
                Ok(0) | Err(rustix::io::Errno::IO) => break,
                bytes => said.extend_from_slice(&buffer[..bytes.expect("read")]),
            }
        }
        let said = String::from_utf8(said).expect("text");
        assert!(said.contains("/dev/pts/") && said.contains("17 91\r\nover"), "{said}");
    }
}
