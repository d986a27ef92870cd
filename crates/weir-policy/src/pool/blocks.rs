//! Blocks, and the lists they are in. All are in one table that never grows beyond what memory and
//! file hold, so nothing is allocated once it is full.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// No block, frame or slot.
pub const NONE: u32 = u32::MAX;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// The last of its stream, being filled.
    Open,
    /// In memory only, full.
    Dirty,
    /// In memory only, and on the laundry list.
    Delayed,
    Writing,
    /// In memory and in the file: written, and not read since.
    Clean,
    /// In memory and in the file: read back for a reader that will come.
    Ahead,
    Reading,
    Spilled,
}

#[derive(Clone, Copy, Debug)]
pub struct PoolBlock {
    /// The number of blocks that were appended to the pool before.
    pub age: u64,
    pub sequence: u32,
    pub stream: u32,
    /// The block after it in its stream, or in the list of unused ones.
    pub next: u32,
    /// Its neighbours in the one list that it is in besides.
    after: u32,
    before: u32,
    /// Its frame, or [`NONE`].
    pub frame: u32,
    /// Its place in the file, or [`NONE`].
    pub slot: u32,
    pub state: BlockState,
    /// Whether it has left its stream, and only waits for its transfer to end.
    pub gone: bool,
}

/// A list of blocks; a block is in one list at most.
#[derive(Clone, Copy, Debug)]
pub struct BlockList {
    /// The first, or [`NONE`].
    pub first: u32,
    /// The last, or [`NONE`].
    pub last: u32,
    pub count: u32,
}

impl Default for BlockList {
    fn default() -> BlockList {
        BlockList { first: NONE, last: NONE, count: 0 }
    }
}

#[derive(Debug)]
pub struct Blocks {
    all: Vec<PoolBlock>,
    unused: u32,
    most: usize,
}

impl Blocks {
    /// Makes a table of at most this many blocks, if there is memory for it.
    pub fn new(most: u32) -> Result<Blocks, TryReserveError> {
        Ok(Blocks { all: reserved(most)?, unused: NONE, most: most as usize })
    }

    /// Makes a block, unless the table is full.
    pub fn make(&mut self, stream: u32, sequence: u32, age: u64, frame: u32) -> Option<u32> {
        let (next, slot, state, gone) = (NONE, NONE, BlockState::Open, false);
        let (after, before) = (NONE, NONE);
        let block =
            PoolBlock { age, sequence, stream, next, after, before, frame, slot, state, gone };
        if self.unused != NONE {
            let at = self.unused;
            self.unused = self.all[at as usize].next;
            self.all[at as usize] = block;
            return Some(at);
        }
        if self.all.len() == self.most {
            return None;
        }
        self.all.push(block);
        Some(self.all.len() as u32 - 1)
    }

    /// Takes a block out of the table; it is in no list and no stream.
    pub fn drop(&mut self, at: u32) {
        self.all[at as usize].next = self.unused;
        self.unused = at;
    }

    pub fn push(&mut self, list: &mut BlockList, at: u32) {
        self.insert(list, list.last, at);
    }

    /// Puts a block into a list, behind another, or first if that is [`NONE`].
    pub fn insert(&mut self, list: &mut BlockList, behind: u32, at: u32) {
        let after = if behind == NONE { list.first } else { self[behind].after };
        self.join(list, behind, at);
        self.join(list, at, after);
        list.count += 1;
    }

    pub fn unlink(&mut self, list: &mut BlockList, at: u32) {
        self.join(list, self[at].before, self[at].after);
        list.count -= 1;
    }

    /// Makes two blocks neighbours; [`NONE`] stands for the ends of the list.
    fn join(&mut self, list: &mut BlockList, before: u32, after: u32) {
        *(if before == NONE { &mut list.first } else { &mut self[before].after }) = after;
        *(if after == NONE { &mut list.last } else { &mut self[after].before }) = before;
    }

    /// Returns how many blocks from here on, at most `most`, are in the file only and in a row there.
    pub fn spilled_run(&self, first: u32, most: u32) -> u32 {
        let is_next_there = |at: u32, next: u32| {
            self[next].state == BlockState::Spilled && self[next].slot == self[at].slot + 1
        };
        let next = |at: u32| {
            let next = self[at].next;
            (next != NONE && is_next_there(at, next)).then_some(next)
        };
        follow(first, most, next).1
    }

    pub fn after(&self, at: u32) -> u32 {
        self[at].after
    }

    pub fn before(&self, at: u32) -> u32 {
        self[at].before
    }
}

/// Goes from a block to the next for at most `most` blocks. Returns the last, and how many they are.
pub fn follow(first: u32, most: u32, next: impl Fn(u32) -> Option<u32>) -> (u32, u32) {
    let (mut last, mut count) = (first, 1);
    while count < most
        && let Some(block) = next(last)
    {
        (last, count) = (block, count + 1);
    }
    (last, count)
}

/// Returns an empty vector for `most` items, which never allocates again, if there is memory for it.
pub fn reserved<T>(most: u32) -> Result<Vec<T>, TryReserveError> {
    let mut all = Vec::new();
    all.try_reserve_exact(most as usize)?;
    Ok(all)
}

impl core::ops::Index<u32> for Blocks {
    type Output = PoolBlock;

    fn index(&self, at: u32) -> &PoolBlock {
        &self.all[at as usize]
    }
}

impl core::ops::IndexMut<u32> for Blocks {
    fn index_mut(&mut self, at: u32) -> &mut PoolBlock {
        &mut self.all[at as usize]
    }
}
