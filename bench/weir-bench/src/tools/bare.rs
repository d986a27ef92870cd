//! The lower bound for a record pipe: the loads and stores for records of a known length, without a
//! library.
//!
//! Two sides share a ring in which the next word is zero until a record is there. For each record
//! this code reads and writes what a record pipe reads and writes, on lines of the same kinds: the
//! bytes and the word that publishes them, the words about the other side's sleep and end, and two
//! counts on each side. The reader gives room back, as zeros, an eighth of the ring at a time. It
//! omits what makes a pipe a library: the checks of the process, of lengths, and of positions that
//! a hostile side may have written.

use super::futex::{sleep, wake};
use crate::engine::case::CaseError;
use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::sys::stores::wait_for_stores;
use rustix::time::Timespec;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;
use weir_sys::rests::wait_for_loads;

/// Numbers of the lines. One side writes each of them, except those of the sleep words.
const POSITION: usize = 0;
const READER_SLEEP: usize = 2;
const WRITER_SLEEP: usize = 4;
const WRITER_COUNTS: usize = 6;
const READER_COUNTS: usize = 8;
const RING: usize = 10 * LINE_BYTES;
/// Offsets in a sleep line: whether that side has closed, and who passes the fences.
const CLOSED: usize = 8;
const FENCES: usize = 16;

const RING_BYTES: usize = 1 << 20;
const WORD_BYTES: usize = 4;
const ZEROS: [u8; 4096] = [0; 4096];
/// Looks of the reader before it sleeps: some 40 us, with a rest after each.
const POLLS: u32 = 8_000;
/// A reader that sleeps looks again after this time, in case a wake-up was lost, and then after twice
/// as long each time, up to the most. Between batches it sleeps for long, and other cases have its
/// CPU: looking each millisecond made their round trips longer.
const NAP: Duration = Duration::from_millis(1);
const MOST_NAP: Duration = Duration::from_millis(100);

/// How the reader rests between two looks. Which is best depends on the CPU, and a lower bound is
/// that of the best one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    Fence,
    Pause,
    /// Until the last look has its value.
    Loads,
    /// Until the own stores are visible, once; then by pauses.
    Stores,
}

/// One direction, for records of `BYTES` bytes.
#[derive(Debug)]
pub struct Bare<const BYTES: usize> {
    shared: SharedPages,
    rest: Rest,
    /// The sender's state: where it writes, and up to where it knows the ring to be free.
    written: Cell<usize>,
    free: Cell<usize>,
    /// The receiver's state: where it reads, and up to where it has given room back.
    read: Cell<usize>,
    given_back: Cell<usize>,
}

impl<const BYTES: usize> Bare<BYTES> {
    /// The bytes of the ring that a record pipe uses for such a record. No record wraps around the
    /// end of the ring.
    const FOOTPRINT: usize = {
        assert!(BYTES == 4 || BYTES == 48 || BYTES == 64, "a record pipe takes as much");
        (WORD_BYTES + BYTES).next_power_of_two()
    };

    /// Makes a ring whose pages are already mapped.
    pub fn new(rest: Rest) -> Result<Bare<BYTES>, CaseError> {
        let shared = SharedPages::new(RING + RING_BYTES)?;
        for at in (RING..RING + RING_BYTES).step_by(ZEROS.len()) {
            shared.copy_in(at, &ZEROS);
        }
        let zero = || Cell::new(0);
        let (written, free) = (zero(), Cell::new(RING_BYTES));
        Ok(Bare { shared, rest, written, free, read: zero(), given_back: zero() })
    }

    #[inline(always)]
    pub fn send(&self, record: &[u8; BYTES]) -> Result<(), CaseError> {
        let (shared, written) = (&self.shared, self.written.get());
        while self.free.get() - written < Self::FOOTPRINT {
            // Acquire: the ring holds zeros up to that position.
            self.free.set(shared.word(POSITION).load(Ordering::Acquire) as usize + RING_BYTES);
        }
        let at = RING + written % RING_BYTES;
        shared.copy_in(at + WORD_BYTES, record);
        // Release: a reader that sees the word sees the record.
        shared.half_at(at).store(BYTES as u32 | 1 << 31, Ordering::Release);
        self.written.set(written + Self::FOOTPRINT);
        let sleep = READER_SLEEP * LINE_BYTES;
        if shared.word_at(sleep + CLOSED).load(Ordering::Acquire) != 0 {
            return Err(CaseError::failed("the other side has closed"));
        }
        self.count(WRITER_COUNTS);
        // There is no fence: a wake-up is seldom lost, and the reader then wakes after its timeout.
        let asleep = shared.half(READER_SLEEP);
        if shared.word_at(sleep + FENCES).load(Ordering::Acquire) != 0
            || asleep.load(Ordering::Relaxed) != 0
        {
            asleep.store(0, Ordering::Relaxed);
            wake(asleep, 1)?;
        }
        Ok(())
    }

    /// Receives a record, waiting for it.
    #[inline(always)]
    pub fn receive(&self, record: &mut [u8; BYTES]) -> Result<(), CaseError> {
        let (shared, read) = (&self.shared, self.read.get());
        let at = RING + read % RING_BYTES;
        // Acquire: the record behind it.
        let is_there = || shared.half_at(at).load(Ordering::Acquire) != 0;
        if !is_there() {
            self.add(READER_COUNTS, 2, 1);
            let came = match self.rest {
                Rest::Fence => poll(is_there, || fence(Ordering::SeqCst)),
                Rest::Loads => poll(is_there, wait_for_loads),
                Rest::Pause => poll(is_there, std::hint::spin_loop),
                Rest::Stores => {
                    wait_for_stores();
                    poll(is_there, std::hint::spin_loop)
                }
            };
            if !came {
                self.sleep_until(is_there)?;
            }
            self.add(READER_COUNTS, 3, 1);
        }
        shared.copy_out(at + WORD_BYTES, record);
        self.read.set(read + Self::FOOTPRINT);
        self.count(READER_COUNTS);
        let waits = shared.half(WRITER_SLEEP).load(Ordering::Relaxed) != 0;
        if waits || self.read.get() - self.given_back.get() >= RING_BYTES / 8 {
            self.give_back();
        }
        Ok(())
    }

    #[cold]
    fn sleep_until(&self, is_there: impl Fn() -> bool) -> Result<(), CaseError> {
        let asleep = self.shared.half(READER_SLEEP);
        let mut naps = naps();
        while !is_there() {
            asleep.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if !is_there() {
                sleep(asleep, 1, naps.next().as_ref())?;
            }
            asleep.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives back the room of what was read, as zeros.
    fn give_back(&self) {
        let mut at = self.given_back.get();
        while at < self.read.get() {
            let place = at % RING_BYTES;
            let bytes = (self.read.get() - at).min(ZEROS.len()).min(RING_BYTES - place);
            self.shared.copy_in(RING + place, &ZEROS[..bytes]);
            at += bytes;
        }
        self.given_back.set(at);
        // Release: the zeros are visible first.
        self.shared.word(POSITION).store(self.read.get() as u64, Ordering::Release);
    }

    /// Counts a record and its bytes.
    #[inline]
    fn count(&self, line: usize) {
        self.add(line, 0, BYTES as u64);
        self.add(line, 1, 1);
    }

    #[inline]
    fn add(&self, line: usize, word: usize, more: u64) {
        let count: &AtomicU64 = self.shared.word_at(line * LINE_BYTES + word * 8);
        // Relaxed: this side alone writes it.
        count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}

/// The most that a reader sleeps each time, if nobody wakes it.
fn naps() -> impl Iterator<Item = Timespec> {
    let naps = std::iter::successors(Some(NAP), |nap| Some(MOST_NAP.min(2 * *nap)));
    naps.map(|nap| Timespec::try_from(nap).unwrap_or_default())
}

/// Looks until something is there, and rests after each look: whether it came in time.
#[inline]
fn poll(is_there: impl Fn() -> bool, rest: impl Fn()) -> bool {
    for _ in 0..POLLS {
        if is_there() {
            return true;
        }
        rest();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_left_alone_wakes_seldom() {
        let slept_ns: i64 = naps().take(20).map(|nap| nap.tv_nsec).sum();
        assert!(slept_ns > 1_000_000_000, "20 naps took {slept_ns} ns");
    }

    #[test]
    fn records_come_as_they_were_sent_for_some_laps_of_the_ring() {
        for rest in [Rest::Fence, Rest::Pause, Rest::Loads, Rest::Stores] {
            let ring = Bare::<64>::new(rest).expect("made");
            for round in 0..5 * RING_BYTES / 64 {
                let record = [round as u8; 64];
                ring.send(&record).expect("sent");
                let mut came = [0; 64];
                ring.receive(&mut came).expect("received");
                assert_eq!(came, record);
            }
        }
    }
}
