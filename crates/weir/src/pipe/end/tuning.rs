//! Sizes that another process asks for, and which of them the writer adopts.

use super::End;
use crate::memory;
use crate::pipe::connection::Role;
use weir_policy::pipe::PipeShape;
use weir_ring::RingMemory;
use weir_ring::primitive::Ordering;

impl End {
    pub fn grant(&mut self, capacity: u64) {
        self.wishes.grant(capacity);
        self.say_wishes();
    }

    /// Publishes the largest capacity that a writer adopts.
    pub(super) fn say_wishes(&self) {
        if self.role == Role::Writer {
            let tuning = &self.map.header().tuning;
            // Relaxed: a hint for those who ask. The writer decides.
            tuning.most_bytes.store(self.wishes.most_bytes(), Ordering::Relaxed);
        }
    }

    /// Adopts the segment and the atomic bound that were asked for. Returns another capacity, if
    /// one was asked for that the writer may adopt.
    pub fn take_up_tuning(&mut self) -> Option<u64> {
        let tuning = &self.map.header().tuning;
        // Acquire: pairs with the Release in `tune::ask`.
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

    /// Whether the reader uses this memory, if it is not the pipe's first.
    pub fn is_followed(&self) -> bool {
        let header = self.map.header();
        // Relaxed: the socket orders what was sent. A reader that claims this too early only misses
        // the memory that is sent to it.
        self.map.extent().generation == 0 || header.reader_account.pid.load(Ordering::Relaxed) != 0
    }
}
