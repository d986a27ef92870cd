//! What each end counts.

use crate::layout::{AccountLine, WaitCounts};
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// The counts of one end at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// The process the end is in; 0 before it was opened.
    pub pid: u32,
    /// Bytes moved.
    pub bytes: u64,
    /// Records moved; of a stream, calls that moved something.
    pub records: u64,
    /// Times the end could not continue.
    pub waits: u64,
    /// Waits that ended while the end still spun.
    pub spun: u64,
    /// Times it slept.
    pub slept: u64,
    /// Time asleep, in nanoseconds.
    pub slept_ns: u64,
    /// Wake-ups it gave to the other end.
    pub wakes_given: u64,
    /// Wake-ups it got while it slept.
    pub wakes_taken: u64,
    /// Largest fill of the ring it saw, in bytes: the reader of a stream, or the writer of records when
    /// it had no room. 0 at the other end.
    pub largest_fill_bytes: u64,
    /// Counted by an elastic reader: bytes of its backlog that were chosen to be spilled.
    pub delayed_bytes: u64,
    /// Delayed bytes that were never written, because their reader came first or memory came free.
    pub cancelled_bytes: u64,
    /// Delayed bytes that were written to the file.
    pub spilled_bytes: u64,
    /// Read back from it.
    pub read_back_bytes: u64,
}

impl Account {
    /// The counts, each with its word in shared memory.
    fn counts<'a>(&'a mut self, line: &'a AccountLine) -> [(&'a AtomicU64, &'a mut u64); 13] {
        let waiting = &line.waiting;
        [
            (&line.bytes, &mut self.bytes),
            (&line.records, &mut self.records),
            (&waiting.waits, &mut self.waits),
            (&waiting.spun, &mut self.spun),
            (&waiting.slept, &mut self.slept),
            (&waiting.slept_ns, &mut self.slept_ns),
            (&waiting.wakes_given, &mut self.wakes_given),
            (&waiting.wakes_taken, &mut self.wakes_taken),
            (&line.largest_fill, &mut self.largest_fill_bytes),
            (&line.delayed, &mut self.delayed_bytes),
            (&line.cancelled, &mut self.cancelled_bytes),
            (&line.spilled, &mut self.spilled_bytes),
            (&line.read_back, &mut self.read_back_bytes),
        ]
    }

    /// Reads an account from shared memory.
    pub fn read(line: &AccountLine) -> Account {
        // Relaxed: each count had its value at some moment, not all at the same.
        let pid = line.pid.load(Ordering::Relaxed);
        let mut account = Account { pid, ..Account::default() };
        for (word, count) in account.counts(line) {
            *count = word.load(Ordering::Relaxed);
        }
        account
    }

    /// Writes the counts into another memory, to continue there.
    pub fn write(&self, line: &AccountLine) {
        let mut copy = *self;
        for (word, count) in copy.counts(line) {
            word.store(*count, Ordering::Relaxed);
        }
    }
}

/// What an owner or a peer of an mpx counts. It alone writes this; anyone may read it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct ParticipantLine {
    /// The process it is in.
    pub pid: AtomicU32,
    /// Bytes of all arenas that it allocates from: as many as the other sides chose to allow.
    pub arena_bytes: AtomicU64,
    /// Bytes of those blocks of the arenas that lanes use.
    pub arena_used: AtomicU64,
    /// Peers that are connected.
    pub peers: AtomicU64,
    /// Channels that have an entry in the table, including those being opened or closed.
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
    /// How it waited.
    pub waiting: WaitCounts,
    /// The inode of the mpx's socket, by which its participants belong together.
    pub socket_inode: AtomicU64,
    /// And its device.
    pub socket_device: AtomicU64,
    /// Bytes of backlogs in a pool that were chosen to be written to its file.
    pub delayed: AtomicU64,
    /// Those of them that were never written.
    pub cancelled: AtomicU64,
    /// Those of them that were written.
    pub spilled: AtomicU64,
    /// Bytes that were read back from the file.
    pub read_back: AtomicU64,
}

impl ParticipantLine {
    /// Counts a record that was sent, and the bytes of data in it.
    #[inline(always)]
    pub fn count_sent(&self, bytes: usize) {
        add(&self.records_out, 1);
        add(&self.bytes_out, bytes as u64);
    }
}

impl WaitCounts {
    /// Counts a sleep.
    pub fn count_sleep(&self, ns: u64, woken: bool) {
        add(&self.slept, 1);
        add(&self.slept_ns, ns);
        add(&self.wakes_taken, woken.into());
    }

    /// Adds these counts to others, and counts from zero again. Both belong to one process.
    pub fn move_to(&self, others: &WaitCounts) {
        for (word, other) in self.words().into_iter().zip(others.words()) {
            // Relaxed: a count.
            add(other, word.swap(0, Ordering::Relaxed));
        }
    }

    fn words(&self) -> [&AtomicU64; 6] {
        [&self.waits, &self.spun, &self.slept, &self.slept_ns, &self.wakes_given, &self.wakes_taken]
    }
}

/// Adds to a count that only this end writes.
#[inline]
pub fn add(word: &AtomicU64, amount: u64) {
    // A load and a store rather than a locked addition: nobody else writes it.
    word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Raises a count that is a maximum.
#[inline]
pub fn raise(word: &AtomicU64, value: u64) {
    if value > word.load(Ordering::Relaxed) {
        word.store(value, Ordering::Relaxed);
    }
}
