//! How an end falls asleep, so that no wake-up is lost and nobody asleep costs no system call.
//!
//! The sleeper says so, then looks once more, then sleeps as long as the word is as it said. The
//! other end acts, then asks whether anyone sleeps. Between the two steps of each stands a full
//! fence, so that at least one of them sees the other (Dekker): either the sleeper sees what was
//! done, or the other end sees that it sleeps.

use super::layout::SleepLine;
use crate::primitive::{AtomicU32, Ordering, fence};
use std::sync::atomic::compiler_fence;

/// The end sleeps on the word.
pub const ASLEEP: u32 = 1;
/// The end waits in poll: its doorbell is to be rung.
pub const POLLING: u32 = 2;
/// The ring is one of many with one reader, who does not look at it: a bit is to be set on the
/// board.
pub const COLD: u32 = 4;

/// Says that this end sleeps or polls. The caller looks once more before it does, and sleeps only
/// while the word is what is returned.
#[inline]
pub fn announce(word: &AtomicU32, how: u32) -> u32 {
    // Relaxed: ordered against the look that follows by the fence, which pairs with the fence in
    // `is_wanted`.
    let said = word.fetch_or(how, Ordering::Relaxed) | how;
    fence(Ordering::SeqCst);
    said
}

/// Takes back what was said.
#[inline]
pub fn retract(word: &AtomicU32, how: u32) {
    // Relaxed: a wake-up that comes too late finds nobody asleep, which does no harm.
    word.fetch_and(!how, Ordering::Relaxed);
}

/// Whether the other end said that it sleeps or polls. To be asked after what it waits for was
/// published.
#[inline]
pub fn is_wanted(word: &AtomicU32) -> bool {
    // Pairs with the fence in `announce`.
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0
}

/// As [`is_wanted`], but without a fence while the sleeper passes a barrier on all CPUs before it
/// sleeps, if that reaches this process.
///
/// What was published is before that barrier, and then seen by the sleeper's last look; or it is
/// after it, and then this sees what the sleeper said before the barrier: that it sleeps, and that
/// the fence is this end's again.
#[inline]
pub fn is_wanted_lightly(sleep: &SleepLine, reached: bool) -> bool {
    // The compiler must not move what was published beyond the loads, nor a load before the other.
    compiler_fence(Ordering::SeqCst);
    // Acquire pairs with the release in `End::moved`: whoever sees it sees what was said before.
    if !reached || sleep.sleeper_fences.load(Ordering::Acquire) != 1 {
        return is_wanted(&sleep.word);
    }
    compiler_fence(Ordering::SeqCst);
    sleep.word.load(Ordering::Relaxed) != 0
}

/// Takes the duty to wake the other end: what it had said, 0 if nothing.
#[inline]
pub fn take(word: &AtomicU32) -> u32 {
    // Acquire pairs with the modification in `announce`: what the sleeper wants is seen.
    word.swap(0, Ordering::AcqRel)
}
