//! The blocks of a pool and what holds them: the streams they are in, frames of memory, and places
//! of the file.

use super::PoolSettings;
use super::blocks::{BlockState, NONE, PoolBlock};
use super::frames::FrameTable;
use super::slots::FileSlots;
use super::streams::Streams;
use super::transfers::Transfer;
use alloc::collections::TryReserveError;

#[derive(Debug)]
pub struct Stock {
    pub streams: Streams,
    pub frames: FrameTable,
    pub slots: FileSlots,
}

impl Stock {
    /// Makes no streams, and free frames and places, if there is memory for the tables.
    pub fn new(settings: PoolSettings) -> Result<Stock, TryReserveError> {
        Ok(Stock {
            streams: Streams::new(settings.frames.saturating_add(settings.slots))?,
            frames: FrameTable::new(settings.frames)?,
            slots: FileSlots::new(settings.slots)?,
        })
    }

    /// Takes a frame that is free, or whose block was written.
    pub fn take_frame(&mut self) -> Option<u32> {
        self.frames.take(&mut self.streams)
    }

    /// Appends an empty block for the writer that has waited longest. Returns its stream and its
    /// frame, or none if no frame can be had.
    pub fn append(&mut self, now_ns: u64) -> Option<(u32, u32)> {
        let frame = self.take_frame()?;
        let stream = self.streams.append(now_ns, frame);
        if stream.is_none() {
            // The table has room for all frames and slots: there cannot be more blocks.
            self.frames.give_back(frame);
        }
        Some((stream?, frame))
    }

    /// Takes a block out of the list of its state, except the laundry list.
    fn unlist(&mut self, block: u32) {
        let streams = &mut self.streams;
        match streams.blocks[block].state {
            BlockState::Dirty => streams.unlist_dirty(block),
            BlockState::Clean | BlockState::Ahead => self.frames.unlist(&mut streams.blocks, block),
            _ => {}
        }
    }

    /// Records that the reader looks at the first block, which is in memory. Returns its frame, and
    /// whether it is in the file as well.
    pub fn hold(&mut self, stream: u32) -> (u32, bool) {
        let head = self.streams[stream].head;
        self.unlist(head);
        let at = &mut self.streams[stream];
        (at.reading, at.ready_until_ns) = (true, 0);
        let block = &self.streams.blocks[head];
        (block.frame, matches!(block.state, BlockState::Clean | BlockState::Ahead))
    }

    /// Records that the reader does not look at the first block for now.
    pub fn release(&mut self, stream: u32) {
        let streams = &mut self.streams;
        if !core::mem::take(&mut streams[stream].reading) {
            return;
        }
        let head = streams[stream].head;
        match streams.blocks[head].state {
            BlockState::Dirty => streams.dirty_again(head),
            BlockState::Clean | BlockState::Ahead => self.frames.list(&mut streams.blocks, head),
            _ => {}
        }
    }

    /// Takes the first block, which is not on the laundry list, out of its stream.
    pub fn drop_head(&mut self, stream: u32) {
        let head = self.streams[stream].head;
        self.unlist(head);
        self.streams.pop_head(stream);
        let block = &mut self.streams.blocks[head];
        if matches!(block.state, BlockState::Writing | BlockState::Reading) {
            block.gone = true;
        } else {
            self.forget(head);
        }
    }

    /// Drops the last block, which nothing was put into, unless the reader looks at it.
    pub fn drop_open(&mut self, stream: u32) {
        let at = &self.streams[stream];
        let (head, last) = (at.head, at.tail);
        if last == NONE || self.streams.blocks[last].state != BlockState::Open || at.holds(last) {
            return;
        }
        if head == last {
            return self.drop_head(stream);
        }
        self.streams.pop_tail(stream);
        self.forget(last);
    }

    /// Frees the frame and the place in the file of a block that is in no stream and no list.
    fn forget(&mut self, block: u32) {
        let found = self.streams.blocks[block];
        if found.frame != NONE {
            self.frames.give_back(found.frame);
        }
        if found.slot != NONE {
            self.slots.give_back(found.slot);
        }
        self.streams.blocks.drop(block);
    }

    /// Gives frames to a run of blocks that are to be read back, as far as there are any. An urgent
    /// read takes any frame for its first block, even of blocks that others will want.
    pub fn read_back(&mut self, now_ns: u64, first: u32, count: u32, urgent: bool) -> Transfer {
        let mut transfer = Transfer::new(false, self.streams.blocks[first].slot, now_ns);
        let mut block = first;
        for read in 0..count {
            let mut frame = self.take_frame();
            if frame.is_none() && urgent && read == 0 {
                frame = self.frames.steal(&mut self.streams, now_ns);
            }
            let Some(frame) = frame else { break };
            self.streams.come_back(block, frame);
            transfer.push(block, frame);
            block = self.streams.blocks[block].next;
        }
        transfer
    }

    /// Handles a block that was written, or could not be.
    pub fn written(&mut self, block: u32, well: bool) {
        let PoolBlock { stream, gone, .. } = self.streams.blocks[block];
        self.streams.tally(block, |counts| match well {
            true => counts.spilled += 1,
            false => counts.cancelled += 1,
        });
        if gone {
            self.forget(block);
        } else if well {
            self.streams.blocks[block].state = BlockState::Clean;
            if !self.streams[stream].holds(block) {
                self.frames.list(&mut self.streams.blocks, block);
            }
        } else {
            let slot = core::mem::replace(&mut self.streams.blocks[block].slot, NONE);
            self.slots.give_back(slot);
            self.streams.dirty_again(block);
        }
    }

    /// Handles a block that was read back, or could not be. Returns its stream if the reader waited
    /// for it.
    pub fn came_back(&mut self, block: u32, well: bool) -> Option<u32> {
        let PoolBlock { stream, gone, .. } = self.streams.blocks[block];
        if well {
            self.streams.tally(block, |counts| counts.read_back += 1);
        }
        if gone {
            self.forget(block);
            return None;
        }
        if well {
            self.streams.blocks[block].state = BlockState::Ahead;
            self.frames.list(&mut self.streams.blocks, block);
        } else {
            let frame = self.streams.evict(block);
            self.frames.give_back(frame);
        }
        let waited = self.streams[stream].head == block && self.streams.end_want(stream);
        waited.then_some(stream)
    }
}
