//! The blocks of one arena, and the channels whose lanes have one.

use weir_policy::arena::Arena;

/// An arena, and the channels whose lane has a block of it.
#[derive(Debug)]
pub struct LentBlocks {
    pub arena: Arena,
    /// Bytes of blocks that lanes have, when this was last asked.
    used: u64,
    lent: Vec<u32>,
    /// The place in `lent` of the channel whose block is looked at next, to take it back.
    next: usize,
}

impl LentBlocks {
    pub fn new(arena_bytes: u32) -> LentBlocks {
        LentBlocks { arena: Arena::new(arena_bytes), used: 0, lent: Vec::new(), next: 0 }
    }

    /// Whether more than half of the arena is free.
    pub fn are_mostly_free(&self) -> bool {
        self.arena.free_bytes() > self.arena.bytes() / 2
    }

    /// Adds a channel that had no block.
    pub fn add(&mut self, number: u32) {
        self.lent.push(number);
    }

    /// How many channels have a block.
    pub fn lent(&self) -> usize {
        self.lent.len()
    }

    /// The channel whose block is looked at next.
    pub fn candidate(&mut self) -> Option<u32> {
        self.next %= self.lent.len().max(1);
        self.lent.get(self.next).copied()
    }

    /// Goes on to the next channel.
    pub fn pass_over(&mut self) {
        self.next += 1;
    }

    /// Removes the channel that was looked at: it has no block any more.
    pub fn remove(&mut self) {
        self.lent.swap_remove(self.next);
    }

    /// By how many bytes the blocks that lanes have are more than when this was last asked. A negative
    /// number wraps.
    pub fn growth(&mut self) -> u64 {
        let used = u64::from(self.arena.bytes() - self.arena.free_bytes());
        used.wrapping_sub(std::mem::replace(&mut self.used, used))
    }

    /// The bytes of blocks that lanes had when [`LentBlocks::growth`] was last asked.
    pub fn used(&self) -> u64 {
        self.used
    }
}
