//! Blocks, and the lists they are in. All of them lie in one table that never grows beyond what
//! memory and file hold, so that nothing is allocated once it is full.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// No block, frame or slot.
pub const NONE: u32 = u32::MAX;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The last of its stream, being filled.
    Open,
    /// In memory only.
    Dirty,
    /// In memory only, and on the laundry list.
    Delayed,
    /// In memory, being written.
    Writing,
    /// In memory and in the file: written, and not read since.
    Clean,
    /// In memory and in the file: read back, for a reader that will come.
    Ahead,
    /// In the file, being read back.
    Reading,
    /// In the file only.
    Spilled,
}

/// One block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Counts appends to the pool.
    pub age: u64,
    /// Counts blocks of the stream.
    pub sequence: u32,
    /// Whose it is.
    pub stream: u32,
    /// The block after it in its stream, or in the list of unused ones.
    pub next: u32,
    /// Its neighbours in the one list it is in besides.
    after: u32,
    before: u32,
    /// Its frame.
    pub frame: u32,
    /// Its place in the file.
    pub slot: u32,
    /// Where it is.
    pub state: State,
    /// It is no longer in its stream, and only waits for its transfer to end.
    pub gone: bool,
}

/// A list of blocks that are in no other.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// The first, or [`NONE`].
    pub first: u32,
    /// The last, or [`NONE`].
    pub last: u32,
    /// How many there are.
    pub count: u32,
}

impl List {
    /// An empty list.
    pub const fn new() -> List {
        List { first: NONE, last: NONE, count: 0 }
    }
}

/// The table of all blocks.
#[derive(Debug)]
pub struct Blocks {
    all: Vec<Block>,
    unused: u32,
    most: usize,
}

impl Blocks {
    /// A table of at most so many blocks, if there is memory for it.
    pub fn new(most: usize) -> Result<Blocks, TryReserveError> {
        let mut all = Vec::new();
        all.try_reserve_exact(most)?;
        Ok(Blocks { all, unused: NONE, most })
    }

    /// A new block, unless the table is full.
    pub fn make(&mut self, stream: u32, sequence: u32, age: u64, frame: u32) -> Option<u32> {
        let (next, slot, state, gone) = (NONE, NONE, State::Open, false);
        let (after, before) = (NONE, NONE);
        let block = Block { age, sequence, stream, next, after, before, frame, slot, state, gone };
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

    /// Puts a block behind the last of a list.
    pub fn push(&mut self, list: &mut List, at: u32) {
        self.insert(list, list.last, at);
    }

    /// Puts a block into a list, behind another, or first if that is [`NONE`].
    pub fn insert(&mut self, list: &mut List, behind: u32, at: u32) {
        let after = if behind == NONE { list.first } else { self[behind].after };
        (self[at].before, self[at].after) = (behind, after);
        if behind == NONE {
            list.first = at
        } else {
            self[behind].after = at
        }
        if after == NONE {
            list.last = at
        } else {
            self[after].before = at
        }
        list.count += 1;
    }

    /// Takes a block out of the list it is in.
    pub fn unlink(&mut self, list: &mut List, at: u32) {
        let (before, after) = (self[at].before, self[at].after);
        if before == NONE {
            list.first = after
        } else {
            self[before].after = after
        }
        if after == NONE {
            list.last = before
        } else {
            self[after].before = before
        }
        list.count -= 1;
    }

    /// Blocks in a row from here that lie in a row in the file only, at most so many.
    pub fn spilled_run(&self, first: u32, most: u32) -> u32 {
        let (mut block, mut count) = (first, 1);
        while count < most {
            let next = self[block].next;
            let follows = next != NONE
                && self[next].state == State::Spilled
                && self[next].slot == self[block].slot + 1;
            if !follows {
                break;
            }
            (block, count) = (next, count + 1);
        }
        count
    }

    /// The block after this one in its list.
    pub fn after(&self, at: u32) -> u32 {
        self[at].after
    }

    /// The block before this one in its list.
    pub fn before(&self, at: u32) -> u32 {
        self[at].before
    }
}

impl core::ops::Index<u32> for Blocks {
    type Output = Block;

    fn index(&self, at: u32) -> &Block {
        &self.all[at as usize]
    }
}

impl core::ops::IndexMut<u32> for Blocks {
    fn index_mut(&mut self, at: u32) -> &mut Block {
        &mut self.all[at as usize]
    }
}
