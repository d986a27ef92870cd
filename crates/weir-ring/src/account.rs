//! What each end counts about itself.

use crate::layout::AccountLine;
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// The account of one end at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// The process the end is in; 0 before it was opened.
    pub pid: u32,
    /// Bytes moved.
    pub bytes: u64,
    /// Records moved; of a stream, calls that moved something.
    pub records: u64,
    /// Times the end could not go on.
    pub waits: u64,
    /// Of these, ended by spinning.
    pub spun: u64,
    /// Times it slept.
    pub slept: u64,
    /// Time asleep, in nanoseconds.
    pub slept_ns: u64,
    /// Wake-ups it gave the other end.
    pub wakes_given: u64,
    /// Wake-ups it was given while it slept.
    pub wakes_taken: u64,
    /// Largest fill of the ring it saw, in bytes.
    pub largest_fill_bytes: u64,
    /// Of an elastic reader: bytes of its backlog that were chosen to be spilled.
    pub delayed_bytes: u64,
    /// Of these, never written, since their reader came first or memory came free.
    pub cancelled_bytes: u64,
    /// Of these, written to the file.
    pub spilled_bytes: u64,
    /// Read back from it.
    pub read_back_bytes: u64,
}

impl Account {
    /// As it lies in the memory.
    #[inline]
    pub fn read(line: &AccountLine) -> Account {
        // Relaxed: each count is a value it had; they are not of one moment.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Account {
            pid: line.pid.load(Ordering::Relaxed),
            bytes: load(&line.bytes),
            records: load(&line.records),
            waits: load(&line.waits),
            spun: load(&line.spun),
            slept: load(&line.slept),
            slept_ns: load(&line.slept_ns),
            wakes_given: load(&line.wakes_given),
            wakes_taken: load(&line.wakes_taken),
            largest_fill_bytes: load(&line.largest_fill),
            delayed_bytes: load(&line.delayed),
            cancelled_bytes: load(&line.cancelled),
            spilled_bytes: load(&line.spilled),
            read_back_bytes: load(&line.read_back),
        }
    }
}

impl Account {
    /// Goes on counting in another memory.
    #[inline]
    pub fn write(&self, line: &AccountLine) {
        let words = [
            (&line.bytes, self.bytes),
            (&line.records, self.records),
            (&line.waits, self.waits),
            (&line.spun, self.spun),
            (&line.slept, self.slept),
            (&line.slept_ns, self.slept_ns),
            (&line.wakes_given, self.wakes_given),
            (&line.wakes_taken, self.wakes_taken),
            (&line.largest_fill, self.largest_fill_bytes),
            (&line.delayed, self.delayed_bytes),
            (&line.cancelled, self.cancelled_bytes),
            (&line.spilled, self.spilled_bytes),
            (&line.read_back, self.read_back_bytes),
        ];
        words.iter().for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
    }
}

/// What an owner or a peer of an mpx counts; written by it alone, read by anyone.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct ParticipantLine {
    /// The process it is in.
    pub pid: AtomicU32,
    /// Bytes of all the arenas it disposes of: as many as the other sides chose to allow.
    pub arena_bytes: AtomicU64,
    /// Of these, bytes of blocks that lanes have.
    pub arena_used: AtomicU64,
    /// Peers that are connected.
    pub peers: AtomicU64,
    /// Channels that have a place in the table: also those that are being opened or closed.
    pub channels: AtomicU64,
    /// Records received or moved: data, marks and numbers.
    pub records_in: AtomicU64,
    /// Bytes of data in these.
    pub bytes_in: AtomicU64,
    /// Records sent or moved.
    pub records_out: AtomicU64,
    /// Bytes of data in these.
    pub bytes_out: AtomicU64,
    /// Sends that were not taken whole.
    pub blocked: AtomicU64,
    /// Times a call found nothing and waited.
    pub waits: AtomicU64,
    /// Of these, ended by spinning.
    pub spun: AtomicU64,
    /// Times asleep.
    pub slept: AtomicU64,
    /// Time asleep.
    pub slept_ns: AtomicU64,
    /// Wake-ups given.
    pub wakes_given: AtomicU64,
    /// Wake-ups taken.
    pub wakes_taken: AtomicU64,
    /// The inode of the mpx's socket, by which its participants belong together.
    pub socket_inode: AtomicU64,
    /// And its device.
    pub socket_device: AtomicU64,
}

/// Adds to a count this end alone writes.
#[inline]
pub fn add(word: &AtomicU64, amount: u64) {
    // A load and a store, no locked addition: nobody else writes it.
    word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Counts a sleep.
#[inline]
pub fn slept(line: &AccountLine, ns: u64, woken: bool) {
    add(&line.slept, 1);
    add(&line.slept_ns, ns);
    add(&line.wakes_taken, u64::from(woken));
}

/// Raises a count that is a maximum.
#[inline]
pub fn raise(word: &AtomicU64, value: u64) {
    if value > word.load(Ordering::Relaxed) {
        word.store(value, Ordering::Relaxed);
    }
}
