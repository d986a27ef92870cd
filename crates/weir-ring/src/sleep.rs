//! How an end falls asleep: no wake-up is lost, and a record that wakes nobody costs no system call.
//!
//! The sleeper announces its sleep, looks once more, and sleeps as long as the word is as it was
//! announced. The other end acts, and then asks whether anyone sleeps. Between the two steps of
//! each stands a full fence, so at least one sees the other (Dekker): the sleeper sees what was
//! done, or the other end sees that it sleeps.

use super::layout::SleepLine;
use crate::primitive::{AtomicU32, Ordering, fence};
use std::sync::atomic::compiler_fence;

/// The end sleeps on the word.
pub const ASLEEP: u32 = 1;
/// The end waits in poll: its doorbell is to be rung.
pub const POLLING: u32 = 2;
/// The ring is one of many with one reader, which does not look at it: whoever writes sets a bit on
/// the board.
pub const COLD: u32 = 4;

/// Announces that this end sleeps or polls. The caller then looks once more, and sleeps only while
/// the word is what this returns.
#[inline]
pub fn announce(word: &AtomicU32, how: u32) -> u32 {
    // Release pairs with the Acquire in `is_wanted`, `is_wanted_lightly` and `take`: what the
    // sleeper wants is seen. The fence orders it before the look that follows, and pairs with the
    // fence in `is_wanted`.
    let said = word.fetch_or(how, Ordering::Release) | how;
    fence(Ordering::SeqCst);
    said
}

/// Takes an announcement back.
#[inline]
pub fn retract(word: &AtomicU32, how: u32) {
    // Relaxed: a wake-up that comes late finds nobody asleep, which does no harm.
    word.fetch_and(!how, Ordering::Relaxed);
}

/// Whether the other end announced that it sleeps or polls. The caller has published before.
#[inline]
pub fn is_wanted(word: &AtomicU32) -> bool {
    // Pairs with the fence in `announce`.
    fence(Ordering::SeqCst);
    // Acquire: see `announce`.
    word.load(Ordering::Acquire) != 0
}

/// Whether the other end sleeps, like [`is_wanted`], but without a fence while the sleeper passes a
/// barrier on all CPUs before it sleeps and that barrier reaches this process.
///
/// If something was published before the barrier, the sleeper's last look finds it. If it was
/// published after the barrier, this sees what the sleeper announced before: that it sleeps, and
/// that the fence is this end's again.
#[inline]
pub fn is_wanted_lightly(sleep: &SleepLine, reached: bool) -> bool {
    // The compiler must move neither the loads before the publishing, nor one before the other.
    compiler_fence(Ordering::SeqCst);
    // Acquire pairs with the release of the sleeper that takes the fences: an older announcement is
    // seen too.
    if !reached || sleep.sleeper_fences.load(Ordering::Acquire) != 1 {
        return is_wanted(&sleep.word);
    }
    compiler_fence(Ordering::SeqCst);
    // Acquire: see `announce`.
    sleep.word.load(Ordering::Acquire) != 0
}

/// Takes the duty to wake the other end. Returns what that had announced, 0 for nothing.
#[inline]
pub fn take(word: &AtomicU32) -> u32 {
    // Acquire: see `announce`.
    word.swap(0, Ordering::Acquire)
}
