//! Sizes that another process asks for, and which of them an end adopts.

use super::End;
use crate::memory;
use crate::pipe::options::Resolved;
use weir_policy::pipe::{CapacityWishes, PipeShape};
use weir_ring::layout::PipeHeader;
use weir_ring::primitive::Ordering;

/// The requests that an end has seen, and the capacities that a writer grants.
#[derive(Debug)]
pub struct Tuning {
    seen: u32,
    wishes: CapacityWishes,
}

impl Tuning {
    pub fn new(resolved: &Resolved) -> Tuning {
        let capacity = resolved.shape.capacity_bytes();
        let wishes = CapacityWishes::new(capacity, resolved.usual_bytes, resolved.most_bytes);
        Tuning { seen: 0, wishes }
    }

    /// Begins anew in another memory.
    pub fn forget_seen(&mut self) {
        self.seen = 0;
    }

    pub fn grant(&mut self, header: &PipeHeader, capacity: u64) {
        self.wishes.grant(capacity);
        self.publish_wishes(header);
    }

    /// Publishes the largest capacity that a writer adopts.
    pub fn publish_wishes(&self, header: &PipeHeader) {
        // Relaxed: a hint for those who ask. The writer decides.
        header.tuning.most_bytes.store(self.wishes.most_bytes(), Ordering::Relaxed);
    }

    /// Adopts the segment and the atomic bound that were asked for. Returns them with another
    /// capacity instead, if one was asked for that the writer may adopt.
    pub fn take_up(&mut self, header: &PipeHeader, shape: &mut PipeShape) -> Option<PipeShape> {
        let tuning = &header.tuning;
        // Acquire: pairs with the Release in `tune::ask`.
        let change = tuning.change.load(Ordering::Acquire);
        if change == self.seen {
            return None;
        }
        self.seen = change;
        let (segment, atomic, capacity) = (
            tuning.segment_bytes.load(Ordering::Relaxed),
            tuning.atomic_bytes.load(Ordering::Relaxed),
            tuning.capacity_bytes.load(Ordering::Relaxed),
        );
        let asked =
            PipeShape::new(memory::page_bytes(), capacity, Some(segment), Some(atomic)).ok()?;
        if asked.capacity_bytes() != shape.capacity_bytes() {
            let granted = asked.capacity_bytes() <= self.wishes.most_bytes();
            return granted.then_some(asked);
        }
        *shape = asked;
        None
    }
}

impl End {
    /// Adopts what was asked for, or set by a writer, if that waits: a reader goes by it.
    #[inline]
    pub fn adopt_writer_settings(&mut self) {
        // Acquire: pairs with the Release in `sleep::announce`: what it has set before is seen.
        if self.header().writer_sleep.word.load(Ordering::Acquire) != 0 {
            let _ = self.take_up_tuning();
        }
    }
}
