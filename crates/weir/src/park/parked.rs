//! One sleep on one word, by the protocol of [`weir_ring::sleep`].

use super::futex;
use std::time::{Duration, Instant};
use weir_ring::inbox::{Inbox, Sleeper};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::sleep;

/// An announced sleep on a word. Dropping it takes the announcement back.
pub struct Parked<'a, S: Sleeper + ?Sized> {
    word: &'a AtomicU32,
    said: u32,
    news: &'a Inbox<S>,
}

/// How a sleep went.
#[derive(Clone, Copy, Debug)]
pub struct Slept {
    /// Nanoseconds.
    pub ns: u64,
    /// Whether a wake-up ended it.
    pub woken: bool,
}

impl Slept {
    /// A sleep on these words, each with its expected value, that has ended just now. Whoever wakes the
    /// sleeper changes one of them.
    pub fn since(begun: Instant, words: &[(&AtomicU32, u32)]) -> Slept {
        let ns = begun.elapsed().as_nanos() as u64;
        // Relaxed: it is only counted.
        let woken = words.iter().any(|(word, said)| word.load(Ordering::Relaxed) != *said);
        Slept { ns, woken }
    }
}

impl<'a, S: Sleeper + ?Sized> Parked<'a, S> {
    /// Announces that the caller sleeps on `word`. The caller looks once more before it sleeps.
    /// Through `news` other threads of this process report what is not in shared memory.
    pub fn announce(word: &'a AtomicU32, news: &'a Inbox<S>) -> Parked<'a, S> {
        Parked { word, said: sleep::announce(word, sleep::ASLEEP), news }
    }

    /// Sleeps for at most `most`, or not at all if there is news.
    pub fn sleep(self, most: Option<Duration>) -> Slept {
        let begun = Instant::now();
        // From here on a thread with news wakes this sleeper until it has heard.
        let woken = self.news.falls_asleep() && futex::wait(self.word, self.said, most);
        Slept { ns: begun.elapsed().as_nanos() as u64, woken }
    }

    /// Leaves the announcement standing, for a sleep on several words. Returns the value to expect
    /// of the word, or `None` if there is news. [`Parked::retract`] takes the announcement back.
    pub fn leave(self) -> Option<u32> {
        let said = self.news.falls_asleep().then_some(self.said)?;
        std::mem::forget(self);
        Some(said)
    }

    /// Takes back an announcement that was left standing.
    pub fn retract(word: &AtomicU32, news: &Inbox<S>) {
        news.wakes_up();
        sleep::retract(word, sleep::ASLEEP);
    }
}

impl<S: Sleeper + ?Sized> Drop for Parked<'_, S> {
    fn drop(&mut self) {
        Parked::retract(self.word, self.news);
    }
}
