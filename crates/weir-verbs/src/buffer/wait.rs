//! Waiting for input, output and the backlog at once.

use super::signals::Heard;
use crate::fault::Fault;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::{stdin, stdout};
use weir::{BacklogReader, BacklogWriter};

/// What is known of the four that can be waited for. What is not ready is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub input: bool,
    pub output: bool,
    /// The backlog takes bytes.
    pub room: bool,
    /// The backlog's next bytes are in memory.
    pub here: bool,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Want {
    pub input: bool,
    pub output: bool,
    pub room: bool,
    pub here: bool,
}

/// What `poll` says of each.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub input: PollFlags,
    pub output: PollFlags,
    pub room: PollFlags,
    pub here: PollFlags,
}

impl Want {
    pub fn anything(self) -> bool {
        self.input || self.output || self.room || self.here
    }
}

impl Ready {
    /// Takes over what was told of what was asked for.
    pub fn learn(&mut self, want: Want, told: Told) {
        for (wanted, ready, told) in [
            (want.input, &mut self.input, told.input),
            // Its errors are for `wait`'s caller.
            (want.output, &mut self.output, told.output & PollFlags::OUT),
            (want.room, &mut self.room, told.room),
            (want.here, &mut self.here, told.here),
        ] {
            if wanted {
                *ready = !told.is_empty();
            }
        }
    }
}

/// Waits for what is wanted, for errors of the output, for a signal, or until the time is over.
pub fn wait_for(
    want: Want,
    writer: Option<&mut BacklogWriter>,
    reader: &mut BacklogReader,
    heard: &Heard,
    timeout: Option<&Timespec>,
) -> Result<Told, Fault> {
    let cannot = |error: weir::Error| Fault::failed(error.to_string());
    let (input, output) = (stdin(), stdout());
    let events = if want.output { PollFlags::OUT } else { PollFlags::empty() };
    let mut asked = vec![
        PollFd::from_borrowed_fd(output, events),
        PollFd::from_borrowed_fd(heard.bell(), PollFlags::IN),
    ];
    // What is not wanted stays out: a hang-up is told whether it is asked for or not.
    if want.input {
        asked.push(PollFd::from_borrowed_fd(input, PollFlags::IN));
    }
    let writer = writer.filter(|_| want.room);
    let asks_room = writer.is_some();
    if let Some(writer) = writer {
        let room = writer.poll_descriptor().map_err(cannot)?;
        asked.push(PollFd::from_borrowed_fd(room, PollFlags::IN));
    }
    if want.here {
        let here = reader.poll_descriptor().map_err(cannot)?;
        asked.push(PollFd::from_borrowed_fd(here, PollFlags::IN));
    }
    match poll(&mut asked, timeout) {
        // A signal that was taken: the next look is soon enough.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(Fault::failed(format!("cannot wait: {error}"))),
    }
    let mut told = asked.iter().map(PollFd::revents);
    let mut next = |wanted: bool| {
        let flags = if wanted { told.next() } else { None };
        flags.unwrap_or(PollFlags::empty())
    };
    // In the order they were asked.
    let output = next(true);
    // The bell rings until the loop has looked at what came.
    let _ = next(true);
    let (input, room) = (next(want.input), next(asks_room));
    Ok(Told { input, output, room, here: next(want.here) })
}
