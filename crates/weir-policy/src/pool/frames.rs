//! Which frames of memory are free, and which come free at once because their block is in the file.

use super::blocks::{BlockList, BlockState, Blocks, NONE, reserved};
use super::streams::Streams;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

#[derive(Debug)]
pub struct FrameTable {
    all: u32,
    free: Vec<u32>,
    /// Blocks that were written and not read since.
    clean: BlockList,
    /// Blocks that were read back for a reader that will come.
    ahead: BlockList,
    most_used: u32,
}

impl FrameTable {
    /// Makes this many free frames, if there is memory for the table.
    pub fn new(all: u32) -> Result<FrameTable, TryReserveError> {
        // Frame 0 goes out first. After that, the last to come back goes out first: it is still in
        // the caches.
        let mut free = reserved(all)?;
        free.extend((0..all).rev());
        Ok(FrameTable {
            all,
            free,
            clean: BlockList::default(),
            ahead: BlockList::default(),
            most_used: 0,
        })
    }

    pub fn used(&self) -> u32 {
        self.all - self.free.len() as u32
    }

    pub fn most_used(&self) -> u32 {
        self.most_used
    }

    /// Returns the number of frames that can be had at once.
    pub fn available(&self) -> u32 {
        self.free.len() as u32 + self.clean.count
    }

    /// Takes a frame that is free, or whose block was written.
    pub fn take(&mut self, streams: &mut Streams) -> Option<u32> {
        // The block that was written last is read last.
        let last = self.clean.last;
        let frame = self.free.pop().or_else(|| evict(streams, &mut self.clean, last));
        self.most_used = self.most_used.max(self.used());
        frame
    }

    /// Takes the frame of the block that was read back and has waited longest, unless its reader is
    /// about to come.
    pub fn steal(&mut self, streams: &mut Streams, now_ns: u64) -> Option<u32> {
        let mut block = self.ahead.first;
        while block != NONE && streams.stays(now_ns, block) {
            block = streams.blocks.after(block);
        }
        evict(streams, &mut self.ahead, block)
    }

    pub fn give_back(&mut self, frame: u32) {
        self.free.push(frame);
    }

    /// Lists the frame of a block that is in the file: it can be had.
    pub fn list(&mut self, blocks: &mut Blocks, block: u32) {
        let state = blocks[block].state;
        blocks.push(self.list_of(state), block);
    }

    pub fn unlist(&mut self, blocks: &mut Blocks, block: u32) {
        let state = blocks[block].state;
        blocks.unlink(self.list_of(state), block);
    }

    fn list_of(&mut self, state: BlockState) -> &mut BlockList {
        if state == BlockState::Ahead { &mut self.ahead } else { &mut self.clean }
    }
}

fn evict(streams: &mut Streams, list: &mut BlockList, block: u32) -> Option<u32> {
    (block != NONE).then(|| {
        streams.blocks.unlink(list, block);
        streams.evict(block)
    })
}
