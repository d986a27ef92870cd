//! A file without a name, and engines that move memory to and from it.
//!
//! [`SpillFile`] is the file. An [`Engine`] is handed transfers by [`Engine::start`] and
//! [`Engine::submit`], and says by [`Engine::completed`] which are done; its descriptor is readable
//! when some are. [`open`] finds the best that there is: io_uring, or threads.

mod bell;
mod file;
mod job;
mod threads;
mod uring;

pub use file::SpillFile;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// Pieces a transfer has at most.
pub const MOST_PIECES: usize = 16;
/// Transfers that are under way at once.
pub const MOST_IN_FLIGHT: usize = 32;

/// Which way a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Memory is written to the file.
    ToDisk,
    /// Memory is filled from the file.
    FromDisk,
}

/// A piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Where it begins.
    pub start: *mut u8,
    /// How long it is.
    pub bytes: usize,
}

/// What moves memory to and from a spill file.
///
/// Short transfers are continued until they are whole. A transfer that was started is completed
/// once. Dropping an engine waits for what is under way: when it is gone, no memory is touched.
///
/// All calls should come from one thread that lasts: io_uring completes in the thread that handed
/// a transfer over, and may interrupt its `epoll_wait` (`EINTR`) for that.
pub trait Engine: Debug + Send {
    /// Prepares a transfer of `pieces` at `offset` of the file, false if it can't be taken: too
    /// many are in flight, or it has no piece or more than [`MOST_PIECES`], or this is a forked
    /// child. Nothing moves before [`Engine::submit`]. A write may wait here for some milliseconds:
    /// now and then ground is taken ahead, for which ext4 waits for what is in flight.
    ///
    /// # Safety
    /// Until the transfer is completed or the engine dropped, the pieces are memory that nobody
    /// writes, and that for [`Direction::FromDisk`] nobody reads either.
    unsafe fn start(&mut self, token: u64, to: Direction, offset: u64, pieces: &[Piece]) -> bool;

    /// Hands over what was started.
    fn submit(&mut self);

    /// Calls `each` with the token and the outcome of every transfer that is done by now.
    fn completed(&mut self, each: &mut dyn FnMut(u64, Result<(), Errno>));

    /// Readable when something is completed; none in a forked child.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Transfers that are started and not completed.
    fn in_flight(&self) -> usize;

    /// How many of them there may be.
    fn most_in_flight(&self) -> usize {
        MOST_IN_FLIGHT
    }

    /// What it is called.
    fn name(&self) -> &'static str;
}

/// Which engine is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// The best that there is.
    #[default]
    Best,
    /// io_uring and nothing else.
    Uring,
    /// Threads.
    Threads,
}

impl Wanted {
    /// As a person says it: `uring`, `threads`, or nothing.
    ///
    /// # Errors
    /// `InvalidInput` for any other word.
    pub fn parse(word: &str) -> io::Result<Wanted> {
        match word {
            "" => Ok(Wanted::Best),
            "uring" => Ok(Wanted::Uring),
            "threads" => Ok(Wanted::Threads),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("engine '{word}' is neither uring nor threads"),
            )),
        }
    }
}

/// An engine for a file, and why it is that one where it isn't the best there might be.
///
/// # Errors
/// The engine wanted is not to be had, or no thread can be started.
pub fn open(file: SpillFile, wanted: Wanted) -> io::Result<(Box<dyn Engine>, Option<String>)> {
    let file = Arc::new(file);
    let mut reason = None;
    if wanted != Wanted::Threads {
        match uring::Uring::new(Arc::clone(&file)) {
            Ok(engine) => return Ok((Box::new(engine), None)),
            Err(error) if wanted == Wanted::Uring => return Err(error),
            Err(error) => reason = Some(format!("no io_uring: {error}")),
        }
    }
    Ok((Box::new(threads::Threads::new(file)?), reason))
}

#[cfg(test)]
mod tests;
