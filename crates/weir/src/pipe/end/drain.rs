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

/// The reader's last report of [`publish_spill_failure`]: its number, and the error number.
fn trouble(header: &PipeHeader) -> (u32, u32) {
    // Acquire: pairs with the Release in `publish_spill_failure`.
    let word = header.reader_sleep.trouble.load(Ordering::Acquire);
    ((word >> 32) as u32, word as u32)
}

/// Reports that the reader cannot spill. `number` counts the reports, `fault` is the error number.
pub fn publish_spill_failure(header: &PipeHeader, number: u32, fault: i32) {
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

/// Whether the pipe continues in another memory.
pub fn has_moved(header: &PipeHeader) -> bool {
    // Acquire: pairs with the Release in `Writer::resize`: all that was published before is seen.
    header.writer.moved.load(Ordering::Acquire) != 0
}

/// Takes the announcement back.
pub fn withdraw(line: &SleepLine) {
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

/// Whether the reader whose line this is has a thread that drains.
pub fn has_thread(line: &SleepLine) -> bool {
    // Relaxed: a reader that has just become elastic is noticed the next time.
    line.drain.load(Ordering::Relaxed) != NO_DRAIN
}

/// Has a ring drained, which its writer found full, if the reader whose line this is has a thread
/// that drains.
pub fn request_drain(line: &SleepLine) {
    if !has_thread(line) {
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
#[derive(Clone, Copy, Debug, Default)]
pub struct SpillReports {
    seen: u32,
}

impl SpillReports {
    /// Whether the last report is new to the writer. Only its number counts: a word that changed
    /// otherwise would be something to do for a call that then finds nothing.
    pub fn has_new_one(&self, header: &PipeHeader) -> bool {
        self.is_new(trouble(header).0)
    }

    fn is_new(&self, number: u32) -> bool {
        number != 0 && number != self.seen
    }

    /// Returns the error of the last report, if it is new to the writer. The report is not trusted:
    /// an impossible one is [`Corrupt`].
    pub fn new_one(
        &mut self,
        header: &PipeHeader,
    ) -> Option<std::result::Result<io::Error, Corrupt>> {
        let (number, fault) = trouble(header);
        if !self.is_new(number) {
            return None;
        }
        self.seen = number;
        Some(match (1..=MOST_ERRNO).contains(&fault) {
            true => Ok(io::Error::from_raw_os_error(fault as i32)),
            false => Err(Corrupt("the error number of its reader")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that waited was told of any other word, also of one that is not a report: a reader
    /// that continued changing it kept a call from its end. A report that came after the writer had
    /// looked for one, and before it kept the word to compare with, was never told.
    #[test]
    fn a_report_is_new_by_its_number_until_it_is_taken() {
        let (header, mut reports) = (PipeHeader::default(), SpillReports::default());
        assert!(!reports.has_new_one(&header) && reports.new_one(&header).is_none());
        for (number, fault) in [(1, 28), (2, 5), (u32::MAX, 28)] {
            publish_spill_failure(&header, number, fault);
            assert!(reports.has_new_one(&header));
            let error = reports.new_one(&header).expect("new").expect("a number of an error");
            assert_eq!(error.raw_os_error(), Some(fault));
            for (number, fault) in [(number, fault), (number, 1), (0, fault), (0, 0)] {
                publish_spill_failure(&header, number, fault);
                assert!(!reports.has_new_one(&header), "{number} {fault}");
                assert!(reports.new_one(&header).is_none());
            }
        }
        publish_spill_failure(&header, 3, 4096);
        assert!(
            reports.has_new_one(&header)
                && reports.new_one(&header).is_some_and(|one| one.is_err())
        );
    }
}
