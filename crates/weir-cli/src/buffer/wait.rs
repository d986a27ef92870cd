//! Waiting for input, output and the backlog at once.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::{stdin, stdout};
use weir::{BacklogReader, BacklogWriter};
use weir_command::fault::Fault;
use weir_command::signals::CaughtSignals;

/// A value for each of the four things that the loop can wait for: whether it is ready, whether it
/// is wanted, or what `poll` reported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Each<T> {
    pub input: T,
    pub output: T,
    /// The backlog takes bytes.
    pub room: T,
    /// The backlog's next bytes are in memory.
    pub here: T,
}

impl Each<bool> {
    pub fn any(self) -> bool {
        self.input || self.output || self.room || self.here
    }

    /// Updates what is ready by what `poll` reported about what was wanted.
    pub fn learn(&mut self, want: Each<bool>, told: Each<PollFlags>) {
        for (wanted, ready, told) in [
            (want.input, &mut self.input, told.input),
            // The caller of `wait_for` handles its errors.
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

/// Makes the descriptors that [`wait_for`] polls. Where the kernel has none left, a buffer fails here,
/// before it has read a byte.
pub fn make_pollable(writer: &mut BacklogWriter, reader: &mut BacklogReader) -> weir::Result<()> {
    writer.poll_descriptor()?;
    reader.poll_descriptor().map(drop)
}

/// Waits for what is wanted, an error of the output, a signal, or the timeout.
pub fn wait_for(
    want: Each<bool>,
    writer: Option<&mut BacklogWriter>,
    reader: &mut BacklogReader,
    heard: &CaughtSignals,
    timeout: Option<&Timespec>,
) -> Result<Each<PollFlags>, Fault> {
    let (input, output) = (stdin(), stdout());
    let events = if want.output { PollFlags::OUT } else { PollFlags::empty() };
    let mut asked = vec![
        PollFd::from_borrowed_fd(output, events),
        PollFd::from_borrowed_fd(heard.bell(), PollFlags::IN),
    ];
    // What is not wanted stays out: poll reports a hang-up whether it was asked for or not.
    if want.input {
        asked.push(PollFd::from_borrowed_fd(input, PollFlags::IN));
    }
    let writer = writer.filter(|_| want.room);
    let asks_room = writer.is_some();
    if let Some(writer) = writer {
        let room = writer.poll_descriptor()?;
        asked.push(PollFd::from_borrowed_fd(room, PollFlags::IN));
    }
    if want.here {
        let here = reader.poll_descriptor()?;
        asked.push(PollFd::from_borrowed_fd(here, PollFlags::IN));
    }
    match poll(&mut asked, timeout) {
        // A signal was handled. The next call sees the rest.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(Fault::cannot("wait")(error)),
    }
    let mut told = asked.iter().map(PollFd::revents);
    let mut next = |wanted: bool| {
        let flags = if wanted { told.next() } else { None };
        flags.unwrap_or(PollFlags::empty())
    };
    // In the order they were asked.
    let output = next(true);
    // The loop looks at the signals itself.
    let _ = next(true);
    let (input, room) = (next(want.input), next(asks_room));
    Ok(Each { input, output, room, here: next(want.here) })
}
