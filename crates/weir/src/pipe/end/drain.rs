//! The protocol between a writer and an elastic reader.
//!
//! A thread in the reader's process drains a full ring. It sleeps on a word of the ring: it
//! announces that and looks once more whether the ring is full. A writer that finds no room looks
//! for the announcement. Each side has a full fence between its two steps (Dekker).

use crate::park::futex;
use std::io;
use weir_ring::Corrupt;
use weir_ring::layout::{DRAIN_ASLEEP, DRAIN_AWAKE, NO_DRAIN, PipeHeader, SleepLine};
use weir_ring::primitive::{AtomicU32, Ordering, fence};

/// The largest error number.
const MOST_ERRNO: u32 = 4095;

/// The reader's last report of [`say_trouble`].
pub fn trouble(header: &PipeHeader) -> u64 {
    // Acquire: pairs with the Release in `say_trouble`.
    header.reader_sleep.trouble.load(Ordering::Acquire)
}

/// Reports that the reader cannot spill. `number` counts the reports, `fault` is the error number.
pub fn say_trouble(header: &PipeHeader, number: u32, fault: i32) {
    let word = u64::from(number) << 32 | u64::from(fault.unsigned_abs());
    // Release: pairs with the Acquire in `trouble`.
    header.reader_sleep.trouble.store(word, Ordering::Release);
}

/// The bytes in a ring, by the positions of both ends.
pub fn fill(header: &PipeHeader) -> u64 {
    // Acquire, both: the ring did have this fill at some time.
    let read = header.reader.position.load(Ordering::Acquire);
    header.writer.position.load(Ordering::Acquire).wrapping_sub(read)
}

/// Announces that the draining thread sleeps. It looks at the fill after that.
pub fn announce(line: &SleepLine) {
    // Relaxed: the fence, which pairs with the one in `say_full`, orders it before that look.
    line.drain.store(DRAIN_ASLEEP, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// The word that the draining thread sleeps on, and its expected value.
pub fn asleep(line: &SleepLine) -> (&AtomicU32, u32) {
    (&line.drain, DRAIN_ASLEEP)
}

/// Whether the pipe goes on in another memory.
pub fn has_moved(header: &PipeHeader) -> bool {
    // Acquire: pairs with the Release in `Writer::resize`: all that was published before is seen.
    header.writer.moved.load(Ordering::Acquire) != 0
}

/// Takes the announcement back.
pub fn rise(line: &SleepLine) {
    // Relaxed: a writer that still sees the announcement wakes nobody, which does no harm.
    line.drain.store(DRAIN_AWAKE, Ordering::Relaxed);
}

/// Wakes the draining thread if it sleeps.
pub fn wake(line: &SleepLine) {
    // Pairs with the fence in `announce`: that thread sees what was done before, or is woken here.
    fence(Ordering::SeqCst);
    line.drain.store(DRAIN_AWAKE, Ordering::Relaxed);
    // Done whatever the word was: a hostile writer may have overwritten it.
    futex::wake(&line.drain, u32::MAX);
}

/// Has a ring drained, which its writer found full, if the reader whose line this is has a thread
/// that drains.
pub fn say_full(line: &SleepLine) {
    // Relaxed: a reader that has just become elastic is noticed the next time.
    if line.drain.load(Ordering::Relaxed) == NO_DRAIN {
        return;
    }
    // Pairs with the fence in `announce`: the draining thread sees what was published, or this
    // sees that it sleeps.
    fence(Ordering::SeqCst);
    if line.drain.load(Ordering::Relaxed) == DRAIN_ASLEEP {
        wake(line);
    }
}

/// The reports of a reader that cannot spill, of which the writer has seen some.
#[derive(Debug, Default)]
pub struct SpillReports {
    seen: u32,
}

impl SpillReports {
    /// Returns the error of the last report, if it is new to the writer. The report is not trusted:
    /// an impossible one is [`Corrupt`].
    pub fn new_one(
        &mut self,
        header: &PipeHeader,
    ) -> Option<std::result::Result<io::Error, Corrupt>> {
        let word = trouble(header);
        let (number, fault) = ((word >> 32) as u32, word as u32);
        if number == 0 || std::mem::replace(&mut self.seen, number) == number {
            return None;
        }
        Some(match (1..=MOST_ERRNO).contains(&fault) {
            true => Ok(io::Error::from_raw_os_error(fault as i32)),
            false => Err(Corrupt("the error number of its reader")),
        })
    }
}
