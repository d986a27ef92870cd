//! The competitor with many writers: one ring for all of them, under a robust mutex.
//!
//! A writer takes the mutex to reserve the place of its record, copies the record without it, and
//! commits by a store to the record's header. The reader takes no lock: it goes from header to
//! header as far as they are committed, and gives back all of that at once. Nobody calls the kernel
//! while nobody sleeps and the mutex is free. A writer that died while it held the mutex has
//! reserved nothing. If a writer died before its commit, the reader skips its place once it finds
//! that the process is gone.

use super::futex::{sleep, wake};
use crate::engine::case::CaseError;
use crate::sys::robust::RobustMutex;
use crate::sys::shared::{LINE_BYTES, SharedPages};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Numbers of the lines of words, each of which one side writes or nobody writes often; then the
/// records.
const TAIL: usize = 0;
const HEAD: usize = 2;
const ASLEEP: usize = 4;
const ROOM: usize = 6;
const WAITING: usize = 8;
const RECORDS: usize = 10 * LINE_BYTES;
/// After the tail, and also under the mutex: the head as a writer last saw it.
const KNOWN_HEAD: usize = TAIL * LINE_BYTES + 8;

const HEADER_BYTES: usize = 8;
/// The parts of a header: two flags, the process, the number of the writer, the bytes of the
/// record.
const COMMITTED: u64 = 1 << 63;
const SKIPPED: u64 = 1 << 62;
const PID_SHIFT: u32 = 40;
const WRITER_SHIFT: u32 = 24;
const LENGTH: u64 = (1 << WRITER_SHIFT) - 1;

/// Looks of a reader that finds nothing, before it sleeps.
const LOOKS: u32 = 200;
/// Number of writers woken at a time; the first ones would take the room of any others.
const WOKEN: u32 = 2;
/// A sleeper looks again after this time, because the process that should wake it may have died.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

#[derive(Debug)]
pub struct MutexRing {
    shared: SharedPages,
    mutex: RobustMutex,
    capacity: u64,
}

#[derive(Debug)]
pub struct MutexRingWriter<'r> {
    ring: &'r MutexRing,
    who: u64,
}

#[derive(Debug)]
pub struct MutexRingReader<'r> {
    ring: &'r MutexRing,
    head: u64,
}

impl MutexRing {
    /// Makes a ring of `capacity` bytes, a power of two.
    pub fn new(capacity: usize) -> Result<MutexRing, CaseError> {
        let shared = SharedPages::new(RECORDS + capacity)?;
        Ok(MutexRing { shared, mutex: RobustMutex::new()?, capacity: capacity as u64 })
    }

    /// Returns a writer's end for the calling process.
    pub fn writer(&self, number: u64) -> MutexRingWriter<'_> {
        let who = u64::from(std::process::id()) << PID_SHIFT | number << WRITER_SHIFT;
        MutexRingWriter { ring: self, who }
    }

    pub fn reader(&self) -> MutexRingReader<'_> {
        MutexRingReader { ring: self, head: 0 }
    }

    /// Returns where a position is in the memory.
    fn place(&self, position: u64) -> usize {
        RECORDS + (position & (self.capacity - 1)) as usize
    }

    fn header(&self, position: u64) -> &AtomicU64 {
        self.shared.word_at(self.place(position))
    }

    /// Returns the bytes before the end of the memory that stay unused because the record does not
    /// fit there.
    fn gap(&self, position: u64, bytes: u64) -> u64 {
        let left = self.capacity - (position & (self.capacity - 1));
        if left < bytes { left } else { 0 }
    }
}

/// Returns the bytes that a record occupies.
fn footprint(bytes: usize) -> u64 {
    (HEADER_BYTES + bytes.next_multiple_of(8)) as u64
}

impl MutexRingWriter<'_> {
    /// Sends a record of at most an eighth of the ring; waits for room.
    #[inline]
    pub fn send(&mut self, record: &[u8]) -> Result<(), CaseError> {
        let ring = self.ring;
        let bytes = footprint(record.len());
        if bytes > ring.capacity / 8 {
            return Err(CaseError::failed("the record is too long for the ring"));
        }
        let header = self.who | record.len() as u64;
        let (begin, position) = loop {
            match self.reserve(bytes, header)? {
                Some(reserved) => break reserved,
                None => self.wait_for_room(bytes)?,
            }
        };
        ring.shared.copy_in(ring.place(position) + HEADER_BYTES, record);
        // Release: a reader that sees the commit sees the record.
        ring.header(position).store(header | COMMITTED, Ordering::Release);
        // Pairs with the fence of the reader before it sleeps: either the reader sees the commit,
        // or this writer sees the reader asleep.
        fence(Ordering::SeqCst);
        let asleep = ring.shared.half(ASLEEP);
        if asleep.load(Ordering::Relaxed) == 1 {
            // Wakes the reader only if it waits for this record; the reader stores its position
            // before it sleeps.
            let head = ring.shared.word(HEAD).load(Ordering::Relaxed);
            if (begin..=position).contains(&head) && asleep.swap(0, Ordering::Relaxed) == 1 {
                wake(asleep, 1)?;
            }
        }
        Ok(())
    }

    /// Reserves the next place if there is room. Returns where it begins, including the unused
    /// bytes, and where the record begins.
    fn reserve(&self, bytes: u64, header: u64) -> Result<Option<(u64, u64)>, CaseError> {
        let shared = &self.ring.shared;
        let _held = self.ring.mutex.lock()?;
        // Relaxed: only written under the mutex. A writer that died holding it has not moved the
        // tail.
        let tail = shared.word(TAIL).load(Ordering::Relaxed);
        let gap = self.ring.gap(tail, bytes);
        let after = tail + gap + bytes;
        let known = shared.word_at(KNOWN_HEAD);
        if after - known.load(Ordering::Relaxed) > self.ring.capacity {
            // Acquire: the reader does not read what it has given back.
            let head = shared.word(HEAD).load(Ordering::Acquire);
            known.store(head, Ordering::Relaxed);
            if after - head > self.ring.capacity {
                return Ok(None);
            }
        }
        if gap > 0 {
            let rest = gap - HEADER_BYTES as u64;
            self.ring.header(tail).store(COMMITTED | SKIPPED | rest, Ordering::Relaxed);
        }
        self.ring.header(tail + gap).store(header, Ordering::Relaxed);
        // Release: a reader that sees the tail sees the headers before it.
        shared.word(TAIL).store(after, Ordering::Release);
        Ok(Some((tail, tail + gap)))
    }

    #[cold]
    fn wait_for_room(&self, bytes: u64) -> Result<(), CaseError> {
        let shared = &self.ring.shared;
        let (room, waiting) = (shared.half(ROOM), shared.half(WAITING));
        waiting.fetch_add(1, Ordering::SeqCst);
        let seen = room.load(Ordering::SeqCst);
        // SeqCst pairs with the fence of the reader that gives room back.
        let head = shared.word(HEAD).load(Ordering::SeqCst);
        let tail = shared.word(TAIL).load(Ordering::SeqCst);
        let full = tail + self.ring.gap(tail, bytes) + bytes - head.min(tail) > self.ring.capacity;
        let slept = if full { sleep(room, seen, Some(&NAP)) } else { Ok(()) };
        waiting.fetch_sub(1, Ordering::SeqCst);
        slept
    }
}

impl MutexRingReader<'_> {
    /// Waits for a record, copies all that are there through `buffer`, and shows each with the
    /// number of its writer. Returns how many.
    pub fn receive_each(
        &mut self,
        buffer: &mut [u8],
        mut see: impl FnMut(usize, &[u8]),
    ) -> Result<u64, CaseError> {
        loop {
            for _ in 0..LOOKS {
                let count = self.take(buffer, &mut see)?;
                if count > 0 {
                    return Ok(count);
                }
                spin_loop();
            }
            self.sleep()?;
        }
    }

    /// Takes the committed records, at most an eighth of the ring.
    fn take(
        &mut self,
        buffer: &mut [u8],
        see: &mut impl FnMut(usize, &[u8]),
    ) -> Result<u64, CaseError> {
        let (ring, begun) = (self.ring, self.head);
        // Acquire: the headers before the tail.
        let tail = ring.shared.word(TAIL).load(Ordering::Acquire);
        let most = begun + ring.capacity / 8;
        let mut count = 0;
        while self.head < tail.min(most) {
            // Acquire: the record behind it.
            let header = ring.header(self.head).load(Ordering::Acquire);
            if header & COMMITTED == 0 {
                break;
            }
            let length = (header & LENGTH) as usize;
            if header & SKIPPED == 0 {
                let record = buffer.get_mut(..length);
                let record = record.ok_or_else(|| CaseError::failed("a record is too long"))?;
                ring.shared.copy_out(ring.place(self.head) + HEADER_BYTES, record);
                see((header >> WRITER_SHIFT & 0xffff) as usize, record);
                count += 1;
            }
            self.head += footprint(length);
        }
        if self.head > begun {
            self.give_back(tail)?;
        }
        Ok(count)
    }

    /// Gives the room of what was read back to the writers, and wakes some once half of the ring is
    /// free.
    fn give_back(&self, tail: u64) -> Result<(), CaseError> {
        let shared = &self.ring.shared;
        shared.word(HEAD).store(self.head, Ordering::Release);
        // Pairs with the writer that counts itself and then loads the head.
        fence(Ordering::SeqCst);
        let waiting = shared.half(WAITING).load(Ordering::Relaxed) > 0;
        if waiting && tail - self.head <= self.ring.capacity / 2 {
            let room = shared.half(ROOM);
            room.fetch_add(1, Ordering::SeqCst);
            wake(room, WOKEN)?;
        }
        Ok(())
    }

    #[cold]
    fn sleep(&mut self) -> Result<(), CaseError> {
        let asleep = self.ring.shared.half(ASLEEP);
        asleep.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.is_something_there() {
            sleep(asleep, 1, Some(&NAP))?;
        }
        asleep.store(0, Ordering::Relaxed);
        self.skip_the_dead();
        Ok(())
    }

    fn is_something_there(&self) -> bool {
        let tail = self.ring.shared.word(TAIL).load(Ordering::Acquire);
        self.head < tail && self.ring.header(self.head).load(Ordering::Acquire) & COMMITTED != 0
    }

    /// Skips the place at the head if its writer died before the commit.
    fn skip_the_dead(&self) {
        let tail = self.ring.shared.word(TAIL).load(Ordering::Acquire);
        if self.head >= tail {
            return;
        }
        let word = self.ring.header(self.head);
        let header = word.load(Ordering::Acquire);
        let pid = (header >> PID_SHIFT & 0x3f_ffff) as i32;
        let gone = rustix::process::Pid::from_raw(pid)
            .is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH));
        if header & COMMITTED == 0 && gone {
            // The writer may have committed before it died.
            let skipped = header | COMMITTED | SKIPPED;
            let _ = word.compare_exchange(header, skipped, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(reader: &mut MutexRingReader, buffer: &mut [u8]) -> Vec<(usize, Vec<u8>)> {
        let mut seen = Vec::new();
        let see = |writer: usize, record: &[u8]| seen.push((writer, record.to_vec()));
        reader.receive_each(buffer, see).expect("received");
        seen
    }

    #[test]
    fn records_come_whole_and_in_order_where_the_memory_ends_too() {
        let ring = MutexRing::new(1 << 10).expect("made");
        let (mut one, mut other) = (ring.writer(1), ring.writer(2));
        let (mut reader, mut buffer) = (ring.reader(), [0; 120]);
        for round in 0..500_usize {
            let (long, short) = (vec![round as u8; round % 113], [round as u8; 3]);
            one.send(&long).expect("sent");
            other.send(&short).expect("sent");
            let mut seen = Vec::new();
            while seen.len() < 2 {
                seen.extend(take(&mut reader, &mut buffer));
            }
            assert_eq!(seen, [(1, long), (2, short.to_vec())]);
        }
        assert!(one.send(&[0; 200]).is_err(), "too long");
    }

    #[test]
    fn the_place_of_a_writer_that_died_is_skipped() {
        let ring = MutexRing::new(1 << 10).expect("made");
        let mut child = std::process::Command::new("true").spawn().expect("started");
        let (dead, who) = (child.id(), 7 << WRITER_SHIFT);
        child.wait().expect("reaped");
        let dead = MutexRingWriter { ring: &ring, who: u64::from(dead) << PID_SHIFT | who };
        dead.reserve(footprint(40), dead.who | 40).expect("locked").expect("room");
        ring.writer(3).send(b"alive").expect("sent");
        let seen = take(&mut ring.reader(), &mut [0; 64]);
        assert_eq!(seen, [(3, b"alive".to_vec())]);
    }
}
