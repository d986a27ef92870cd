//! Sleeping on a word of shared memory until it changes.

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The kernel's form of a time span.
pub fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Sleeps as long as the word is `expected`, for at most `time` where one is given (a timer costs a
/// sixth of a sleep, a short one more than the sleep). Whether it was woken; a sleep may also end
/// for no reason.
pub fn wait(word: &AtomicU32, expected: u32, time: Option<Duration>) -> bool {
    let time = time.map(timespec);
    let ended = futex::wait(word, Flags::empty(), expected, time.as_ref());
    !matches!(ended, Err(Errno::TIMEDOUT | Errno::INTR | Errno::AGAIN))
}

/// Wakes so many that sleep on the word.
pub fn wake(word: &AtomicU32, count: u32) {
    // It fails only for an address that is no memory, which a reference cannot be.
    let _ = futex::wake(word, Flags::empty(), count);
}
