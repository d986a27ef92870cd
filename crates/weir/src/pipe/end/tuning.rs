//! Sizes that are asked for from outside, and what the writer takes up of them.

use super::End;
use crate::memory;
use crate::pipe::connection::Role;
use weir_policy::pipe::PipeShape;
use weir_ring::RingMemory;
use weir_ring::primitive::Ordering;

impl End {
    /// A wish was taken up.
    pub fn grant(&mut self, capacity: u64) {
        self.wishes.grant(capacity);
        self.say_wishes();
    }

    /// A writer says how large a capacity it takes up.
    pub(super) fn say_wishes(&self) {
        if self.role == Role::Writer {
            let tuning = &self.map.header().tuning;
            // Relaxed: for who asks; what is granted is decided here.
            tuning.most_bytes.store(self.wishes.most_bytes(), Ordering::Relaxed);
        }
    }

    /// Takes up sizes that were asked for from outside. Returned is a capacity that is wished and
    /// granted, and is not this one.
    pub fn take_up_tuning(&mut self) -> Option<u64> {
        let tuning = &self.map.header().tuning;
        // Acquire pairs with the release in `tune::ask`.
        let change = tuning.change.load(Ordering::Acquire);
        if change == self.tuning_seen {
            return None;
        }
        self.tuning_seen = change;
        let (segment, atomic, capacity) = (
            tuning.segment_bytes.load(Ordering::Relaxed),
            tuning.atomic_bytes.load(Ordering::Relaxed),
            tuning.capacity_bytes.load(Ordering::Relaxed),
        );
        let now = self.shape.capacity_bytes();
        let asked =
            PipeShape::new(memory::page_bytes(), capacity, Some(segment), Some(atomic)).ok()?;
        if asked.capacity_bytes() != now {
            let granted = asked.capacity_bytes() <= self.wishes.most_bytes();
            return granted.then_some(asked.capacity_bytes());
        }
        self.shape = asked;
        None
    }

    /// Whether the reader has gone over to this memory, where it followed another.
    pub fn is_followed(&self) -> bool {
        let header = self.map.header();
        // Relaxed: what was sent is ordered by the socket. A reader that says so too early misses
        // what is sent to it.
        self.map.extent().generation == 0 || header.reader_account.pid.load(Ordering::Relaxed) != 0
    }
}
