//! Who has which blocks of an arena: a buddy allocator of blocks of 4 to 64 KiB.
//!
//! A block of each size is at a multiple of its size. Two free neighbours, of which the first lies
//! at a multiple of twice their size, become one of the next size at once (Knowlton 1965).

use alloc::collections::BTreeSet;

/// Bytes of the smallest block.
pub const SMALLEST_BYTES: u32 = 4 << 10;
/// Bytes of the largest block.
pub const LARGEST_BYTES: u32 = 64 << 10;
/// Sizes of blocks: 4, 8, 16, 32 and 64 KiB.
const ORDERS: usize = 5;

/// The free blocks of an arena.
#[derive(Clone, Debug)]
pub struct Arena {
    /// Where the free blocks of each size lie, in bytes; the lowest is taken first.
    free: [BTreeSet<u32>; ORDERS],
    arena_bytes: u32,
    free_bytes: u32,
}

/// Returns the bytes of the smallest block that holds `bytes`, or of the largest if none does.
pub fn block_for(bytes: usize) -> u32 {
    let bytes = bytes.clamp(SMALLEST_BYTES as usize, LARGEST_BYTES as usize);
    bytes.next_power_of_two() as u32
}

fn order_of(block_bytes: u32) -> usize {
    assert!(
        block_bytes.is_power_of_two() && (SMALLEST_BYTES..=LARGEST_BYTES).contains(&block_bytes),
        "no size of a block"
    );
    (block_bytes / SMALLEST_BYTES).trailing_zeros() as usize
}

impl Arena {
    /// Makes an arena that is all free. What is beyond the last whole block of 64 KiB is left out.
    pub fn new(arena_bytes: u32) -> Arena {
        let arena_bytes = arena_bytes - arena_bytes % LARGEST_BYTES;
        let mut free = [const { BTreeSet::new() }; ORDERS];
        free[ORDERS - 1] = BTreeSet::from_iter((0..arena_bytes).step_by(LARGEST_BYTES as usize));
        Arena { free, arena_bytes, free_bytes: arena_bytes }
    }

    /// Takes a block of this size, and returns where it lies.
    ///
    /// # Panics
    /// The size is not a power of two from 4 to 64 KiB.
    pub fn take(&mut self, block_bytes: u32) -> Option<u32> {
        let wanted = order_of(block_bytes);
        let found = (wanted..ORDERS).find(|order| !self.free[*order].is_empty())?;
        let offset = self.free[found].pop_first()?;
        // The upper halves that are cut off are each free by themselves.
        for order in wanted..found {
            self.free[order].insert(offset + (SMALLEST_BYTES << order));
        }
        self.free_bytes -= block_bytes;
        Some(offset)
    }

    /// Takes a block of this size, or of the next smaller size that is free and not below `least_bytes`.
    /// Returns where it lies, and its bytes. Both sizes are powers of two of at least 4 KiB; no block is
    /// larger than 64 KiB.
    pub fn take_down_to(&mut self, most_bytes: u32, least_bytes: u32) -> Option<(u32, u32)> {
        let halves = core::iter::successors(Some(most_bytes), |bytes| Some(bytes / 2));
        halves
            .take_while(|bytes| *bytes >= least_bytes)
            .skip_while(|bytes| *bytes > LARGEST_BYTES)
            .find_map(|bytes| self.take(bytes).map(|offset| (offset, bytes)))
    }

    /// Gives back a block that was taken.
    ///
    /// # Panics
    /// The block was not taken.
    pub fn give(&mut self, offset: u32, block_bytes: u32) {
        let mut order = order_of(block_bytes);
        let inside = offset.checked_add(block_bytes).is_some_and(|end| end <= self.arena_bytes);
        assert!(inside && offset.is_multiple_of(block_bytes), "no place of a block");
        self.free_bytes += block_bytes;
        let mut offset = offset;
        while order < ORDERS - 1 && self.free[order].remove(&(offset ^ (SMALLEST_BYTES << order))) {
            offset &= !(SMALLEST_BYTES << order);
            order += 1;
        }
        assert!(self.free[order].insert(offset), "a block given back twice");
        assert!(self.free_bytes <= self.arena_bytes, "more given back than was taken");
    }

    /// Returns the bytes that are free, in blocks of any size.
    pub fn free_bytes(&self) -> u32 {
        self.free_bytes
    }

    /// Returns the bytes of the arena.
    pub fn bytes(&self) -> u32 {
        self.arena_bytes
    }
}

#[cfg(test)]
mod tests;
