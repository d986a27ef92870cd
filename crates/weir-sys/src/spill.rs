//! A file without a name, and engines that move memory to and from it.
//!
//! [`SpillFile`] is the file. An [`SpillEngine`] takes transfers by [`SpillEngine::start`] and
//! [`SpillEngine::submit`], and reports by [`SpillEngine::completed`] which are done. Its descriptor is
//! readable when some are. [`open`] chooses the best engine there is: io_uring, or threads.

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

/// The most pieces of a transfer.
pub const MOST_PIECES: usize = 16;
/// The most transfers that are under way at once.
pub const MOST_IN_FLIGHT: usize = 32;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferDirection {
    /// Memory is written to the file.
    ToDisk,
    /// Memory is filled from the file.
    FromDisk,
}

/// A piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPiece {
    /// Its address.
    pub start: *mut u8,
    /// Its length.
    pub bytes: usize,
}

/// An engine that moves memory to and from a spill file.
///
/// It continues short transfers until they are whole, and completes each transfer once. Dropping an
/// engine waits for the transfers that are under way. After that it touches no memory.
///
/// All calls should come from one thread that lasts: io_uring completes in the thread that submitted
/// a transfer, and may interrupt that thread's `epoll_wait` (`EINTR`) for it.
pub trait SpillEngine: Debug + Send {
    /// Prepares a transfer of `pieces` at `offset` of the file: whether it could. It cannot if too
    /// many transfers are in flight, with no piece or more than [`MOST_PIECES`], or in a forked
    /// child. Nothing moves before [`SpillEngine::submit`]. A write may wait here for some milliseconds,
    /// while blocks of the file are allocated ahead: ext4 waits for transfers in flight then.
    ///
    /// # Safety
    /// Until the transfer is completed or the engine dropped, the pieces stay mapped. For
    /// [`TransferDirection::FromDisk`] nobody else reads or writes them. For
    /// [`TransferDirection::ToDisk`] others may read them, and write them too: an engine passes
    /// their addresses to the kernel and reads none of them itself. Of what is written meanwhile the
    /// file has old bytes, new ones, or some of each, so it counts only once it is written again.
    unsafe fn start(
        &mut self,
        token: u64,
        to: TransferDirection,
        offset: u64,
        pieces: &[MemoryPiece],
    ) -> bool;

    /// Begins the transfers that were prepared.
    fn submit(&mut self);

    /// Calls `each` with the token and the outcome of every transfer that has completed.
    fn completed(&mut self, each: &mut dyn FnMut(u64, Result<(), Errno>));

    /// A descriptor that is readable when a transfer has completed. `None` in a forked child.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The transfers that are prepared or under way, and not completed.
    fn in_flight(&self) -> usize;

    /// The most transfers that can be in flight.
    fn most_in_flight(&self) -> usize {
        MOST_IN_FLIGHT
    }

    /// The name of the engine.
    fn name(&self) -> &'static str;
}

/// The choice of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The best that there is.
    #[default]
    Best,
    /// io_uring and nothing else.
    Uring,
    /// Threads.
    Threads,
}

impl EngineChoice {
    /// Parses a user's word: `uring`, `threads`, or nothing.
    ///
    /// # Errors
    /// `InvalidInput` for any other word.
    pub fn parse(word: &str) -> io::Result<EngineChoice> {
        match word {
            "" => Ok(EngineChoice::Best),
            "uring" => Ok(EngineChoice::Uring),
            "threads" => Ok(EngineChoice::Threads),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("engine '{word}' is neither uring nor threads"),
            )),
        }
    }
}

/// Makes an engine for a file. If it is not the best engine, also returns the reason.
///
/// # Errors
/// The chosen engine is not available, or no thread can be started.
pub fn open(
    file: SpillFile,
    wanted: EngineChoice,
) -> io::Result<(Box<dyn SpillEngine>, Option<String>)> {
    let file = Arc::new(file);
    let mut reason = None;
    if wanted != EngineChoice::Threads {
        match uring::Uring::new(Arc::clone(&file)) {
            Ok(engine) => return Ok((Box::new(engine), None)),
            Err(error) if wanted == EngineChoice::Uring => return Err(error),
            Err(error) => reason = Some(format!("no io_uring: {error}")),
        }
    }
    Ok((Box::new(threads::Threads::new(file)?), reason))
}

#[cfg(test)]
mod tests;
