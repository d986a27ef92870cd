//! Which frames of memory are free, and which could be had because their block is in the file too.

use super::blocks::{Blocks, List, NONE, State};
use super::streams::Streams;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// The frames of a pool.
#[derive(Debug)]
pub struct Frames {
    all: u32,
    free: Vec<u32>,
    /// Blocks that were written and not read since.
    clean: List,
    /// Blocks that were read back, for a reader that will come.
    ahead: List,
    most_used: u32,
}

impl Frames {
    /// So many frames, all free, if there is memory to keep account of them.
    pub fn new(all: u32) -> Result<Frames, TryReserveError> {
        // The frame that is handed out first is 0, and the last to come back is the next to go:
        // what is still in the caches.
        let mut free = Vec::new();
        free.try_reserve_exact(all as usize)?;
        free.extend((0..all).rev());
        Ok(Frames { all, free, clean: List::new(), ahead: List::new(), most_used: 0 })
    }

    /// Frames in use.
    pub fn used(&self) -> u32 {
        self.all - self.free.len() as u32
    }

    /// Most that ever were.
    pub fn most_used(&self) -> u32 {
        self.most_used
    }

    /// Frames that can be had at once.
    pub fn available(&self) -> u32 {
        self.free.len() as u32 + self.clean.count
    }

    /// A frame that is free, or whose block was written.
    pub fn take(&mut self, streams: &mut Streams) -> Option<u32> {
        // What was written last is read last.
        let last = self.clean.last;
        let frame = self.free.pop().or_else(|| evict(streams, &mut self.clean, last));
        self.most_used = self.most_used.max(self.used());
        frame
    }

    /// The frame of the block that was read back and has waited longest.
    pub fn steal(&mut self, streams: &mut Streams) -> Option<u32> {
        let first = self.ahead.first;
        evict(streams, &mut self.ahead, first)
    }

    /// A frame is free again.
    pub fn give_back(&mut self, frame: u32) {
        self.free.push(frame);
    }

    /// The frame of this block, which is in the file, can be had.
    pub fn list(&mut self, blocks: &mut Blocks, block: u32) {
        let state = blocks[block].state;
        blocks.push(self.list_of(state), block);
    }

    /// It cannot any more.
    pub fn unlist(&mut self, blocks: &mut Blocks, block: u32) {
        let state = blocks[block].state;
        blocks.unlink(self.list_of(state), block);
    }

    fn list_of(&mut self, state: State) -> &mut List {
        if state == State::Ahead { &mut self.ahead } else { &mut self.clean }
    }
}

fn evict(streams: &mut Streams, list: &mut List, block: u32) -> Option<u32> {
    (block != NONE).then(|| {
        streams.blocks.unlink(list, block);
        streams.evict(block)
    })
}
