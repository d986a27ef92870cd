//! What a wait over several things needs of each of them.

use super::futex;
use crate::error::Result;
use rustix::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weir_ring::notify::{Delivery, Recipient};

/// An object that one wait over several can wait for. It follows its own protocol, so that what
/// happens between looking and sleeping is seen.
pub trait Source: Send {
    /// Whether there is as much as is wanted: room, say.
    fn is_ready(&mut self, wanted: u64) -> Result<bool>;

    /// Says that it is about to be slept on, and looks once more. `None`, and nothing said, if there
    /// is something; otherwise what to expect of its word.
    fn announce(&mut self, wanted: u64) -> Result<Option<u32>>;

    /// Takes back what [`Source::announce`] said.
    fn retract(&mut self);

    /// The words to sleep on, and what to expect of each.
    fn words<'w>(&'w self, said: u32, words: &mut Vec<(&'w AtomicU32, u32)>);

    /// How many words those are.
    fn word_count(&self) -> usize {
        1
    }

    /// The descriptor that becomes readable, of one that is not slept on by a word.
    fn descriptor(&mut self) -> Result<Option<BorrowedFd<'_>>> {
        Ok(None)
    }

    /// The most it may sleep.
    fn most_sleep(&self) -> Option<Duration> {
        None
    }

    /// What is to be done after a sleep of that length.
    fn after_sleep(&mut self, slept: Duration) -> Result<()> {
        let _ = slept;
        Ok(())
    }
}

/// How often descriptors of a wait became ready: what the wait sleeps on meanwhile.
#[derive(Debug, Default)]
pub struct Rung(pub AtomicU32);

impl Recipient for Rung {
    fn note(&self) {
        // Release pairs with the acquire of the wait: the descriptor is ready.
        self.0.fetch_add(1, Ordering::Release);
    }

    fn wake(&self) -> Delivery {
        // No other process has the word: a sleep that begins later sees that it has changed.
        futex::wake(&self.0, u32::MAX);
        Delivery::Yes
    }
}
