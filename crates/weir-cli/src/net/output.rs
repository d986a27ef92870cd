//! Standard output of what goes on for long: not buffered by line, and given up without a word once
//! nobody reads it.

use crate::fault::Fault;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use signal_hook::consts::SIGPIPE;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;
use weir_sys::signals::die_of;

/// Standard output.
#[derive(Debug)]
pub struct Output(File);

impl Output {
    /// A descriptor of its own: the standard library's output prints at every newline.
    pub fn new() -> Result<Output, Fault> {
        let own: OwnedFd = io::stdout().as_fd().try_clone_to_owned().map_err(unwritable)?;
        Ok(Output(own.into()))
    }

    /// Writes all of it. False when nobody reads it any more.
    pub fn write(&mut self, bytes: &[u8]) -> Result<bool, Fault> {
        match self.0.write_all(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            written => written.map(|()| true).map_err(unwritable),
        }
    }

    /// Waits that long; false, and at once, when nobody reads what would be written.
    pub fn wait(&self, time: Duration) -> Result<bool, Fault> {
        let mut asked = [PollFd::new(&self.0, PollFlags::empty())];
        // Fits: pauses are short.
        let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut asked, Some(&time)) {
            Err(rustix::io::Errno::INTR) => Ok(true),
            found => {
                found.map_err(|cause| unwritable(cause.into()))?;
                Ok(!asked[0].revents().contains(PollFlags::ERR))
            }
        }
    }

    /// Dies of SIGPIPE, as others in a pipeline do.
    pub fn die() -> ExitCode {
        // If it does not kill (it is blocked), the status says the same.
        let _ = die_of(SIGPIPE);
        ExitCode::from(128 + SIGPIPE as u8)
    }
}

fn unwritable(error: io::Error) -> Fault {
    Fault::failed(format!("cannot write to standard output: {error}"))
}
