//! The thread that moves bytes from a full ring to the backlog.

use super::{DrainEnds, DrainedRing};
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Until, futex};
use crate::pipe::end::drain;
use crate::pipe::stream::Reader;
use crate::pool::core::Backlog;
use std::sync::{Arc, MutexGuard};
use weir_ring::RingMemory;
use weir_ring::layout::AccountLine;
use weir_ring::primitive::Ordering;

/// The number that stands for an error without one: EIO.
const UNKNOWN: i32 = rustix::io::Errno::IO.raw_os_error();
/// One pass moves this many times the ring's capacity before the reader may have the ring.
const ROUNDS: u64 = 4;

/// How a pass over the ring ended.
enum PassEnd {
    /// The ring is empty.
    Empty,
    /// The ring may hold more, but the reader gets a turn first.
    More,
    /// The pool has no room.
    Full,
    /// There will never be more to do.
    Over,
}

/// Writes the backlog's counts into the account of its reader.
pub fn update_account(reader: &mut Reader, counts: [u64; 4]) {
    let Ok((end, _)) = reader.parts() else { return };
    count_backlog(end.account_line(), counts);
}

/// Writes the counts of a backlog into an account.
pub fn count_backlog(line: &AccountLine, counts: [u64; 4]) {
    let words = [&line.delayed, &line.cancelled, &line.spilled, &line.read_back];
    // Relaxed: counts.
    words.iter().zip(counts).for_each(|(word, count)| word.store(count, Ordering::Relaxed));
}

/// Drains the ring whenever it is full, until the reader or the writer is dropped.
pub fn run(ring: &Arc<DrainedRing>) {
    weir_sys::signals::block_all();
    let mut troubles = 0;
    while !ring.stops() {
        if sleep(ring).is_err() {
            return;
        }
        loop {
            let mut sides = ring.lock();
            let passed = pass(ring, &mut sides, &mut troubles);
            let shared = leave(ring, sides);
            match passed {
                Ok(PassEnd::Empty) => break,
                Ok(PassEnd::More) => std::thread::yield_now(),
                Ok(PassEnd::Full) => _ = shared.writer.sleep(Until::Ever),
                // The reader will find the same error in the ring.
                Ok(PassEnd::Over) | Err(_) => return,
            }
        }
    }
}

/// Releases the ring. A reader that found it in use waits for the backlog. It is woken to look
/// again, because the backlog may be empty.
fn leave(ring: &DrainedRing, sides: MutexGuard<'_, DrainEnds>) -> Arc<Backlog> {
    let shared = sides.backlog.shared();
    drop(sides);
    if ring.kept_one_out() {
        shared.reader.wake();
    }
    shared
}

/// Sleeps until the ring is full.
fn sleep(ring: &Arc<DrainedRing>) -> Result<()> {
    let mut sides = ring.lock();
    let parts = sides.reader.parts().map(|(end, _)| (end.map.clone(), end.shape.segment_bytes()));
    leave(ring, sides);
    let (map, segment_bytes) = parts?;
    let header = map.header();
    let line = &header.reader_sleep;
    drain::announce(line);
    let is_full = drain::fill(header).saturating_add(segment_bytes) > map.extent().ring_bytes;
    // The writer of a new memory does not know of this thread yet, so the move there is immediate.
    let slept = match is_full || drain::has_moved(header) {
        true => Ok(()),
        false => futex::wait_any(&[drain::asleep(line), (&ring.stops, 0)], None),
    };
    drain::rise(line);
    slept.map_err(|cause| Error::os("wait for", "a pipe to be full", cause))
}

/// Moves bytes from the ring to the backlog, as far as there is room.
fn pass(ring: &Arc<DrainedRing>, sides: &mut DrainEnds, troubles: &mut u32) -> Result<PassEnd> {
    let mut left = ROUNDS * sides.reader.parts()?.0.shape.capacity_bytes();
    loop {
        if left == 0 {
            return Ok(PassEnd::More);
        }
        if ring.stops() {
            return Ok(PassEnd::Over);
        }
        let space = match sides.backlog.reserve() {
            Ok(space) => space,
            Err(error) => return refused(sides, &error, troubles),
        };
        match sides.reader.try_read(space) {
            Ok(0) => return Ok(PassEnd::Over),
            Ok(bytes) => {
                sides.backlog.commit(bytes);
                left = left.saturating_sub(bytes as u64);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                update_account(&mut sides.reader, sides.backlog.counts());
                return Ok(PassEnd::Empty);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Handles a backlog without room. If that is because spilling fails, the writer is told.
fn refused(sides: &mut DrainEnds, error: &Error, troubles: &mut u32) -> Result<PassEnd> {
    match error.kind() {
        ErrorKind::WouldBlock => Ok(PassEnd::Full),
        ErrorKind::Os => {
            *troubles = troubles.wrapping_add(1).max(1);
            let (end, _) = sides.reader.parts()?;
            drain::say_trouble(end.header(), *troubles, error.os_code().unwrap_or(UNKNOWN));
            end.wake_other(|_| true);
            Ok(PassEnd::Full)
        }
        _ => Ok(PassEnd::Over),
    }
}
