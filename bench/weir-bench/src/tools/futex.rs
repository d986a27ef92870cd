//! Futexes in shared memory.

use crate::engine::case::CaseError;
use rustix::io::Errno;
use rustix::thread::futex::{Flags, Timespec, wait};
use std::sync::atomic::AtomicU32;

/// Sleeps while the word has the value `while_it_is`, for `at_most` this long. May return early:
/// the caller checks what it waits for.
pub fn sleep(
    word: &AtomicU32,
    while_it_is: u32,
    at_most: Option<&Timespec>,
) -> Result<(), CaseError> {
    match wait(word, Flags::empty(), while_it_is, at_most) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Wakes up to `count` of those who sleep on the word.
pub fn wake(word: &AtomicU32, count: u32) -> Result<(), CaseError> {
    rustix::thread::futex::wake(word, Flags::empty(), count)?;
    Ok(())
}
