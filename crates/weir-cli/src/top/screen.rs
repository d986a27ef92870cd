//! The terminal as a whole screen, and its return to what it was, however the command ends.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::getppid;
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use signal_hook::consts::SIGSTOP;
use std::sync::{Mutex, Once};
use weir_command::fault::Fault;
use weir_measure::sys::Pid;
use weir_measure::sys::signals::{group_of, send, session_of};
use weir_sys::proc::identity;

/// The other screen, no cursor, no wrapping of long lines, reports of the mouse (xterm's ctlseqs).
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1000h\x1b[?1006h";
const LEAVE: &[u8] = b"\x1b[?1006l\x1b[?1000l\x1b[?7h\x1b[0m\x1b[?25h\x1b[?1049l";

/// The terminal in use, with its settings from before.
static IN_USE: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// A terminal that shows a whole screen. Dropping it sets the terminal back; so does a panic.
#[derive(Debug)]
pub struct Screen {
    terminal: OwnedFd,
}

impl Screen {
    /// Takes over a terminal.
    pub fn enter(terminal: OwnedFd) -> Result<Screen, Fault> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        let screen = Screen { terminal };
        screen.resume().map_err(Fault::cannot("use the terminal"))?;
        Ok(screen)
    }

    /// Takes the terminal over again.
    pub fn resume(&self) -> std::io::Result<()> {
        let before = tcgetattr(&self.terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        let again = self.terminal.try_clone()?;
        if let Ok(mut in_use) = IN_USE.lock() {
            // A terminal that is raw already is not what it was before.
            in_use.get_or_insert((again, before));
        }
        tcsetattr(&self.terminal, OptionalActions::Now, &raw)?;
        self.write(ENTER)
    }

    pub fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        write_all(self.terminal.as_fd(), bytes)
    }

    /// The size in columns and rows.
    pub fn size(&self) -> (usize, usize) {
        weir_command::terminal::size(&self.terminal)
    }

    /// Sets the terminal back and stops this process, with its whole group or alone, as Ctrl-Z does;
    /// then continues. Does nothing where no shell could continue it.
    pub fn stop(&self, whole_group: bool) -> std::io::Result<()> {
        if is_orphaned() {
            return Ok(());
        }
        restore();
        let whom = if whole_group { 0 } else { std::process::id() as i32 };
        send(whom, SIGSTOP)?;
        self.resume()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Sets the terminal back, once.
pub fn restore() {
    // Who holds the lock is about to take the terminal over, and panics no more.
    let Ok(mut in_use) = IN_USE.try_lock() else { return };
    if let Some((terminal, before)) = in_use.take() {
        let _ = write_all(terminal.as_fd(), LEAVE);
        // Reports of the mouse that were on their way are for nobody.
        let _ = tcflush(&terminal, QueueSelector::IFlush);
        let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
    }
}

fn write_all(terminal: BorrowedFd, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(terminal, bytes) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether no process of this session outside of the group waits for its leader: nobody would
/// continue it (POSIX: orphaned process group).
fn is_orphaned() -> bool {
    let Ok(group) = group_of(0) else { return true };
    // A leader outside of this PID namespace is hidden; its group has the parent of this process.
    let parent = identity(group).map_or_else(own_parent, |leader| leader.parent);
    if parent == 0 {
        return true;
    }
    let same_session =
        matches!((session_of(parent), session_of(0)), (Ok(one), Ok(own)) if one == own);
    !same_session || group_of(parent).is_ok_and(|its| its == group)
}

fn own_parent() -> Pid {
    getppid().map_or(0, |parent| parent.as_raw_nonzero().get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::LocalModes;

    #[test]
    fn a_panic_sets_the_terminal_back() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let open = || {
            rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("opened")
        };
        let terminal = open();
        let is_cooked = |terminal: &OwnedFd| {
            let modes = tcgetattr(terminal).expect("settings").local_modes;
            modes.contains(LocalModes::ICANON | LocalModes::ECHO)
        };
        assert!(is_cooked(&terminal));
        let screen = Screen::enter(open()).expect("entered");
        assert!(!is_cooked(&terminal));
        let before = is_cooked(&terminal);
        // The screen is not dropped: in the release a panic ends the process at once.
        let died = std::thread::spawn(|| panic!("for the test")).join();
        assert!(died.is_err() && !before && is_cooked(&terminal));
        let mut shown = [0; 1024];
        let n = rustix::io::read(&master, &mut shown).expect("what was written");
        assert_eq!(&shown[..n], [ENTER, LEAVE].concat());
        drop(screen);
    }
}
