//! What a writer tells a reader that is elastic, and hears of it.
//!
//! A ring that is full is drained by a thread in the reader's process. That sleeps on a word of the
//! ring's own: it says that it does, and looks once more whether the ring is full; a writer that
//! finds no room asks after that. Between the two steps of each stands a full fence (Dekker).

use super::End;
use crate::error::{Error, ErrorKind};
use crate::park::futex;
use weir_ring::layout::{DRAIN_ASLEEP, DRAIN_AWAKE, NO_DRAIN, PipeHeader};
use weir_ring::primitive::{AtomicU32, Ordering, fence};

/// Largest number of an error.
const MOST_ERRNO: u32 = 4095;

/// The reader's trouble as it stands.
pub fn trouble(header: &PipeHeader) -> u64 {
    // Acquire pairs with the release in `say_trouble`.
    header.reader_sleep.trouble.load(Ordering::Acquire)
}

/// The reader says that it can't spill. Returned is the number of the trouble.
pub fn say_trouble(header: &PipeHeader, number: u32, fault: i32) {
    let word = u64::from(number) << 32 | u64::from(fault.unsigned_abs());
    // Release pairs with the acquire in `trouble`.
    header.reader_sleep.trouble.store(word, Ordering::Release);
}

/// Bytes in a ring, as both ends say.
pub fn fill(header: &PipeHeader) -> u64 {
    // Acquire, both: the fill is none that there was not at some time.
    let read = header.reader.position.load(Ordering::Acquire);
    header.writer.position.load(Ordering::Acquire).wrapping_sub(read)
}

/// The thread that drains the ring says that it sleeps. It looks at the fill then.
pub fn announce(header: &PipeHeader) {
    // Relaxed: ordered against the look that follows by the fence, which pairs with `say_full`.
    header.reader_sleep.drain.store(DRAIN_ASLEEP, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// What it sleeps on until a writer finds the ring full.
pub fn asleep(header: &PipeHeader) -> (&AtomicU32, u32) {
    (&header.reader_sleep.drain, DRAIN_ASLEEP)
}

/// Whether the pipe goes on in another memory.
pub fn has_moved(header: &PipeHeader) -> bool {
    // Acquire pairs with the release in `Writer::resize`.
    header.writer.moved.load(Ordering::Acquire) != 0
}

/// It does not sleep any more.
pub fn rise(header: &PipeHeader) {
    // Relaxed: whoever saw that it slept wakes nobody, which does no harm.
    header.reader_sleep.drain.store(DRAIN_AWAKE, Ordering::Relaxed);
}

/// It is to look again, if it sleeps.
pub fn wake(header: &PipeHeader) {
    // Pairs with the fence in `announce`: what was done before is seen there, or this wakes it.
    fence(Ordering::SeqCst);
    header.reader_sleep.drain.store(DRAIN_AWAKE, Ordering::Relaxed);
    // Whatever the word was: a hostile writer may have written over it.
    futex::wake(&header.reader_sleep.drain, u32::MAX);
}

impl End {
    /// The writer finds no room: if the reader is elastic, its ring is drained now.
    pub fn say_full(&self) {
        let sleep = &self.header().reader_sleep;
        // Relaxed: a reader that becomes elastic now is seen the next time.
        if sleep.drain.load(Ordering::Relaxed) == NO_DRAIN {
            return;
        }
        // Pairs with the fence in `announce`: what was published is seen there, or this sees that
        // it sleeps.
        fence(Ordering::SeqCst);
        if sleep.drain.load(Ordering::Relaxed) == DRAIN_ASLEEP {
            wake(self.header());
        }
    }

    /// The reader's trouble as it stands.
    pub fn trouble(&self) -> u64 {
        trouble(self.header())
    }

    /// That the reader can't spill, if this end was not yet told. The reader may say anything.
    pub fn new_trouble(&mut self) -> Option<Error> {
        let word = self.trouble();
        let (number, fault) = ((word >> 32) as u32, word as u32);
        if number == 0 || std::mem::replace(&mut self.trouble_seen, number) == number {
            return None;
        }
        if !(1..=MOST_ERRNO).contains(&fault) {
            return Some(self.error(ErrorKind::Corrupt, "the reader's trouble is invalid"));
        }
        let cause = std::io::Error::from_raw_os_error(fault as i32);
        Some(Error::os("spill", "the backlog of the pipe", cause))
    }
}
