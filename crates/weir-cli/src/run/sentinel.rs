//! Distinguishes a signal to this process alone from one to its whole process group.
//!
//! The sentinel is a child in the same group that blocks all signals of interest. A signal to the
//! group becomes pending there too, so this process asks the sentinel when it has got one.
//!
//! The kernel signals the processes of a group one after the other, in no promised order, and holds
//! its lock on all processes meanwhile. setpgid(2) takes the same lock for writing. A call of it
//! therefore returns only after every process of the group has its signal.

use rustix::process::{Pid, setpgid};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use weir_measure::sys::fork::{self, Child};
use weir_measure::sys::signals::{block, take_pending};

/// The child, and the socket over which this process asks it.
pub struct Sentinel {
    socket: UnixStream,
    _child: Child,
}

/// The longest wait for an answer. A stopped child does not answer.
const ANSWER: Duration = Duration::from_millis(500);

impl Sentinel {
    /// Starts the child. This process may have one thread only.
    pub fn start(signals: &'static [i32]) -> io::Result<Sentinel> {
        let (mut socket, mut theirs) = UnixStream::pair()?;
        socket.set_read_timeout(Some(ANSWER))?;
        let child = fork::child(move || u8::from(attend(signals, &mut theirs).is_err()))?;
        // Its first byte says that it blocks the signals.
        socket.read_exact(&mut [0])?;
        Ok(Sentinel { socket, _child: child })
    }

    /// Returns whether the group got this signal since the last call.
    pub fn got(&mut self, signal: i32) -> bool {
        let mut answer = [0];
        // Waits until the kernel has signalled the whole group, and changes nothing: no process has
        // this id (setpgid takes the lock of all tasks before it looks).
        let nobody = Pid::from_raw(i32::MAX);
        let _ = setpgid(nobody, nobody);
        let asked = self.socket.write_all(&[signal as u8]);
        asked.and_then(|()| self.socket.read_exact(&mut answer)).is_ok() && answer == [1]
    }
}

fn attend(signals: &[i32], socket: &mut UnixStream) -> io::Result<()> {
    for signal in signals {
        block(*signal)?;
    }
    socket.write_all(&[0])?;
    let mut asked = [0];
    loop {
        socket.read_exact(&mut asked)?;
        socket.write_all(&[u8::from(take_pending(i32::from(asked[0])))])?;
    }
}
