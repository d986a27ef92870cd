//! Whether a reader stores to the lines that it has read, so that the writer gets them at once.

use crate::pipe::options::Dirties;

/// The rule of an end, and what it says of the ring that the end uses now.
#[derive(Debug)]
pub struct Dirtying {
    rule: Dirties,
    /// What the rule says while the other end runs on another CPU.
    in_ring: bool,
    now: bool,
}

impl Dirtying {
    pub fn new(rule: Dirties) -> Dirtying {
        Dirtying { rule, in_ring: false, now: false }
    }

    /// Decides for a ring of this size.
    pub fn enter(&mut self, ring_bytes: u64, shares_cpu: bool) {
        self.in_ring = self.rule.in_ring(ring_bytes);
        self.shares_cpu(shares_cpu);
    }

    /// Notes whether the other end runs on the same CPU, where lines stay where they are.
    #[inline]
    pub fn shares_cpu(&mut self, shares_cpu: bool) {
        self.now = self.in_ring && !shares_cpu;
    }

    /// Whether the end stores to the lines, as of its last wait.
    #[inline(always)]
    pub fn now(&self) -> bool {
        self.now
    }
}
