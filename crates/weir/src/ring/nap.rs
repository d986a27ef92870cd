//! How an end falls asleep, so that no wake-up is lost and nobody asleep costs no system call.
//!
//! The sleeper says so, then looks once more, then sleeps as long as the word is as it said. The
//! other end acts, then asks whether anyone sleeps. Between the two steps of each stands a full
//! fence, so that at least one of them sees the other (Dekker): either the sleeper sees what was
//! done, or the other end sees that it sleeps.

use crate::primitive::{AtomicU32, Ordering, fence};

/// The end sleeps on the word.
pub const ASLEEP: u32 = 1;
/// The end waits in poll: its doorbell is to be rung.
pub const POLLING: u32 = 2;

/// Says that this end sleeps or polls. The caller looks once more before it does, and sleeps only
/// while the word is what is returned.
pub fn announce(word: &AtomicU32, how: u32) -> u32 {
    // Relaxed: ordered against the look that follows by the fence, which pairs with the fence in
    // `is_wanted`.
    let said = word.fetch_or(how, Ordering::Relaxed) | how;
    fence(Ordering::SeqCst);
    said
}

/// Takes back what was said.
pub fn retract(word: &AtomicU32, how: u32) {
    // Relaxed: a wake-up that comes too late finds nobody asleep, which does no harm.
    word.fetch_and(!how, Ordering::Relaxed);
}

/// Whether the other end said that it sleeps or polls. To be asked after what it waits for was
/// published.
pub fn is_wanted(word: &AtomicU32) -> bool {
    // Pairs with the fence in `announce`.
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0
}

/// Takes the duty to wake the other end: what it had said, 0 if nothing.
pub fn take(word: &AtomicU32) -> u32 {
    // Acquire pairs with the modification in `announce`: what the sleeper wants is seen.
    word.swap(0, Ordering::AcqRel)
}
