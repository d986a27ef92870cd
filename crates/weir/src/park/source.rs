//! What a wait over several things needs from each of them.

use super::parked::Slept;
use super::ready::wait_ready;
use super::{Until, futex};
use crate::error::{Error, Result};
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir_ring::notify::{Delivery, Recipient};

/// Something that a wait over several things can wait for. Each source follows its own protocol, so
/// that nothing is missed between the last look and the sleep.
pub trait WaitSource: Send {
    /// Whether there is as much (room, say) as is wanted.
    fn is_ready(&mut self, wanted: u64) -> Result<bool>;

    /// Announces the sleep and looks once more. Returns the value to expect of the word, or `None`,
    /// with the announcement taken back, if the source is ready. A source with a descriptor does that
    /// whenever [`WaitSource::is_ready`] finds nothing.
    fn announce(&mut self, wanted: u64) -> Result<Option<u32>> {
        Ok((!self.is_ready(wanted)?).then_some(0))
    }

    /// Takes back the announcement.
    fn retract(&mut self) {}

    /// Adds the words to sleep on, each with its expected value.
    fn words<'w>(&'w self, said: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
        let _ = (said, words);
    }

    /// How many words [`WaitSource::words`] adds.
    fn word_count(&self) -> usize {
        1
    }

    /// The descriptor that becomes readable, if the source has one in place of a word.
    fn descriptor(&mut self) -> Result<Option<BorrowedFd<'_>>> {
        Ok(None)
    }

    /// The longest sleep.
    fn most_sleep(&self) -> Option<Duration> {
        None
    }

    /// Counts a wait in the account of the source, if it keeps one.
    fn count_wait(&self) {}

    /// Called after a sleep: counts it, and does what is due then.
    fn after_sleep(&mut self, slept: Slept) -> Result<()> {
        let _ = slept;
        Ok(())
    }
}

/// Sleeps until a source may be ready, for at most as long as the source and `until` allow. Returns
/// how it slept; `None` if the source was ready.
pub fn sleep_on(source: &mut dyn WaitSource, until: Until) -> Result<Option<Slept>> {
    let most = source.most_sleep();
    let Some(said) = source.announce(0)? else { return Ok(None) };
    let (begun, most) = (Instant::now(), until.at_most(most));
    let (ended, slept) = if let Some(descriptor) = source.descriptor()? {
        let came = wait_ready(descriptor, PollFlags::IN, most);
        let ns = begun.elapsed().as_nanos() as u64;
        (came.map(drop), Slept { ns, woken: came == Ok(true) })
    } else {
        let mut words = Vec::new();
        source.words(said, &mut words);
        let ended = futex::wait_any(&words, most);
        (ended, Slept::since(begun, &words))
    };
    source.retract();
    source.after_sleep(slept)?;
    ended.map_err(|cause| Error::os("wait for", "several things", cause))?;
    Ok(Some(slept))
}

/// Counts how often descriptors of a wait became ready. The wait sleeps on this word.
#[derive(Debug, Default)]
pub struct Rung(pub AtomicU32);

impl Recipient for Rung {
    fn note(&self) {
        // Release: pairs with the Acquire in `Wait::sleep_unless_ready`.
        self.0.fetch_add(1, Ordering::Release);
    }

    fn wake(&self) -> Delivery {
        // The word is private to this process, and a later sleep sees that it has changed.
        futex::wake(&self.0, u32::MAX);
        Delivery::Yes
    }
}
