//! Sleeping on a word of shared memory until it changes.

use rustix::io::Errno;
use rustix::thread::futex::{
    self, ClockId, Flags, Timespec, Wait, WaitFlags, WaitPtr, WaitvFlags, waitv,
};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A time as the kernel takes it: the longest that it knows, if it is longer.
pub fn timespec(time: Duration) -> Timespec {
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Sleeps while the word is `expected`, for at most `time` if given (a timer costs a sixth of a
/// sleep, a short one more than the sleep). Returns whether it was woken. A sleep may also end
/// without a reason.
pub fn wait(word: &AtomicU32, expected: u32, time: Option<Duration>) -> bool {
    let time = time.map(timespec);
    let ended = futex::wait(word, Flags::empty(), expected, time.as_ref());
    !matches!(ended, Err(Errno::TIMEDOUT | Errno::INTR | Errno::AGAIN))
}

/// The kernel does not let this process sleep on several words: it is older than Linux 5.16, or a
/// filter forbids it.
static IS_ONE_AT_A_TIME: AtomicBool = AtomicBool::new(false);
/// The first and the longest pause between two looks at the other words in that case.
const FIRST_SLICE: Duration = Duration::from_micros(500);
/// The most words of one futex_waitv(2) (`FUTEX_WAITV_MAX`).
const MOST_WORDS: usize = 128;
const LONGEST_SLICE: Duration = Duration::from_millis(10);

/// Sleeps while every word is as expected, for at most `time` if given. A sleep may also end
/// without a reason.
pub fn wait_any(words: &[(&AtomicU32, u32)], time: Option<Duration>) -> rustix::io::Result<()> {
    if let [(word, expected)] = words {
        wait(word, *expected, time);
        return Ok(());
    }
    // Relaxed: a thread that misses the store tries the call itself.
    if (1..=MOST_WORDS).contains(&words.len()) && !IS_ONE_AT_A_TIME.load(Ordering::Relaxed) {
        match wait_on_all(words, time) {
            Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {
                IS_ONE_AT_A_TIME.store(true, Ordering::Relaxed)
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => return Ok(()),
            Err(cause) => return Err(cause),
        }
    }
    wait_in_slices(words, time);
    Ok(())
}

fn wait_on_all(words: &[(&AtomicU32, u32)], time: Option<Duration>) -> rustix::io::Result<usize> {
    let waits: Vec<Wait> = words
        .iter()
        .map(|(word, expected)| {
            let mut wait = Wait::new();
            wait.val = (*expected).into();
            wait.uaddr = WaitPtr::new(word.as_ptr().cast());
            wait.flags = WaitFlags::SIZE_U32;
            wait
        })
        .collect();
    // futex_waitv(2) takes an absolute time.
    let time = time.map(|time| {
        let now = rustix::time::clock_gettime(ClockId::Monotonic);
        timespec(Duration::new(now.tv_sec as u64, now.tv_nsec as u32).saturating_add(time))
    });
    waitv(&waits, WaitvFlags::empty(), time.as_ref(), ClockId::Monotonic)
}

/// Sleeps on the first word, and looks at the others in growing intervals.
fn wait_in_slices(words: &[(&AtomicU32, u32)], time: Option<Duration>) {
    let (begun, mut slice) = (Instant::now(), FIRST_SLICE);
    // Relaxed: the caller loads what has changed again, with the ordering it needs.
    while words.iter().all(|(word, expected)| word.load(Ordering::Relaxed) == *expected) {
        let left = time.map_or(slice, |time| time.saturating_sub(begun.elapsed()).min(slice));
        if left.is_zero() {
            return;
        }
        match words.first() {
            Some((word, expected)) if wait(word, *expected, Some(left)) => return,
            Some(_) => {}
            None => std::thread::sleep(left),
        }
        slice = (slice * 2).min(LONGEST_SLICE);
    }
}

/// Wakes at most `count` of the threads that sleep on the word.
pub fn wake(word: &AtomicU32, count: u32) {
    // The call fails only for an invalid address, and a reference is valid.
    let _ = futex::wake(word, Flags::empty(), count);
}
