//! Tells a signal to this process alone from one to its whole process group.
//!
//! The sentinel is a child in the same group that holds all signals of interest back. A signal to
//! the group waits there too. The kernel signals the newest process of a group first, so it waits
//! there before this process can have handled its own.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use weir_measure_sys::fork::{self, Child};
use weir_measure_sys::signals::{block, take_pending};

/// The child and the socket over which it is asked.
pub struct Sentinel {
    socket: UnixStream,
    _child: Child,
}

/// How long an answer may take. A child that is stopped does not answer.
const ANSWER: Duration = Duration::from_millis(500);

impl Sentinel {
    /// Starts the child. This process may have one thread only.
    pub fn start(signals: &'static [i32]) -> io::Result<Sentinel> {
        let (mut socket, mut theirs) = UnixStream::pair()?;
        socket.set_read_timeout(Some(ANSWER))?;
        let child = fork::child(move || match attend(signals, &mut theirs) {
            Ok(()) => 0,
            Err(_) => 1,
        })?;
        // Its first byte says that it holds the signals back.
        socket.read_exact(&mut [0])?;
        Ok(Sentinel { socket, _child: child })
    }

    /// Whether the group got this signal since the last time it was asked.
    pub fn got(&mut self, signal: i32) -> bool {
        let mut answer = [0];
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
