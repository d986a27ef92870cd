//! The bytes that the writer sends and the reader checks, and the times for both.
//!
//! Bytes come in chunks. Each begins with its number; the rest is a fixed sequence. A reader checks
//! every number, and every byte of every 64th chunk, wherever its reads begin.

use crate::engine::case::CaseError;
use rustix::io::retry_on_intr;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;
use std::time::Duration;
use weir_policy::random::Random;

pub const CHUNK_BYTES: usize = 128 << 10;
pub const READ_BYTES: usize = 64 << 10;
/// One chunk in this many is compared in full.
const CHECKED_EVERY: u64 = 64;
const NUMBER_BYTES: usize = 8;

/// Makes the chunks, or checks them.
#[derive(Debug)]
pub struct Sequence {
    chunk: Vec<u8>,
    position: u64,
}

impl Sequence {
    pub fn new() -> Sequence {
        let mut random = Random::new(CHUNK_BYTES as u64);
        let words = (0..CHUNK_BYTES / NUMBER_BYTES).map(|_| random.next_u64());
        Sequence { chunk: words.flat_map(u64::to_le_bytes).collect(), position: 0 }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn next_chunk(&mut self) -> &[u8] {
        let number = self.position / CHUNK_BYTES as u64;
        self.chunk[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        self.position += CHUNK_BYTES as u64;
        &self.chunk
    }

    pub fn check(&mut self, mut bytes: &[u8]) -> Result<(), CaseError> {
        while !bytes.is_empty() {
            let number = self.position / CHUNK_BYTES as u64;
            let from = (self.position % CHUNK_BYTES as u64) as usize;
            let (part, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - from));
            let head = number.to_le_bytes();
            let head = head.get(from..).unwrap_or_default();
            let (numbered, plain) = part.split_at(part.len().min(head.len()));
            let plain_from = from + numbered.len();
            let looked_at = number.is_multiple_of(CHECKED_EVERY);
            if *numbered != head[..numbered.len()]
                || looked_at && *plain != self.chunk[plain_from..][..plain.len()]
            {
                return Err(CaseError::failed(format!("wrong bytes in chunk {number}")));
            }
            self.position += part.len() as u64;
            bytes = rest;
        }
        Ok(())
    }
}

/// The writer's bursts, which it writes at stated times as fast as it can. The first one comes at
/// once.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    pub count: u64,
    pub chunks: u64,
    /// Time from one burst to the next, unless a burst takes longer.
    pub every_ns: u64,
}

impl Bursts {
    pub fn bytes(&self) -> u64 {
        self.count * self.chunks * CHUNK_BYTES as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    AtOnce,
    /// A number of bytes at regular times, plus what it is behind with.
    Paced {
        bytes: u64,
        /// From one time to the next.
        every_ns: u64,
    },
    AfterAll,
}

impl Taking {
    /// Returns how many bytes may be taken before the next of the times; `after_ns` counts from the
    /// first byte.
    pub fn allowance(self, after_ns: u64) -> u64 {
        match self {
            Taking::AtOnce | Taking::AfterAll => u64::MAX,
            Taking::Paced { bytes, every_ns } => (after_ns / every_ns + 1) * bytes,
        }
    }

    /// Returns the next of the times, counted from the first byte, after `taken` bytes.
    pub fn next_ns(self, taken: u64) -> u64 {
        match self {
            Taking::AtOnce | Taking::AfterAll => 0,
            Taking::Paced { bytes, every_ns } => taken / bytes * every_ns,
        }
    }
}

/// Sleeps until `ns` on the monotonic clock; returns at once if that is past.
pub fn sleep_until(ns: u64) -> Result<(), CaseError> {
    let until = Timespec::try_from(Duration::from_nanos(ns)).unwrap_or_default();
    Ok(retry_on_intr(|| clock_nanosleep_absolute(ClockId::Monotonic, &until))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_checked_wherever_reads_begin() {
        let mut sent = Sequence::new();
        let bytes: Vec<u8> = (0..66).flat_map(|_| sent.next_chunk().to_vec()).collect();
        assert_eq!(sent.position(), bytes.len() as u64);
        for step in [3, READ_BYTES, CHUNK_BYTES, CHUNK_BYTES + 5, 1 << 20] {
            let mut seen = Sequence::new();
            bytes.chunks(step).for_each(|part| seen.check(part).expect("as sent"));
            assert_eq!(seen.position(), sent.position());
        }
        for (wrong, what) in [
            (CHUNK_BYTES - 1, "the end of a chunk that is looked at"),
            (CHUNK_BYTES, "a number"),
            (64 * CHUNK_BYTES + 9, "the 64th chunk"),
        ] {
            let mut torn = bytes.clone();
            torn[wrong] ^= 1;
            assert!(Sequence::new().check(&torn).is_err(), "{what}");
        }
        let lost = [&bytes[..CHUNK_BYTES], &bytes[2 * CHUNK_BYTES..]].concat();
        assert!(Sequence::new().check(&lost).is_err(), "a chunk is missing");
    }

    #[test]
    fn a_paced_reader_takes_so_much_a_time_and_catches_up() {
        let paced = Taking::Paced { bytes: 1_000, every_ns: 10 };
        assert_eq!(
            (paced.allowance(0), paced.allowance(9), paced.allowance(35)),
            (1000, 1000, 4000)
        );
        // All of the first time is taken: on to the second. Behind: that time is past already.
        assert_eq!((paced.next_ns(1_000), paced.next_ns(2_999)), (10, 20));
        for taken in [1_000, 2_000, 64_000] {
            assert_eq!(paced.allowance(paced.next_ns(taken)), taken + 1_000);
        }
    }
}
