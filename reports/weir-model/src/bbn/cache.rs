//! The buffer cache of V6 over one disk, with the rules that BBN changed.

use crate::disk::{Disk, Request};

/// What BBN changed, each rule by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Writes to pipes are always delayed.
    pub delay: bool,
    /// The reader cancels delayed writes of blocks that it has read.
    pub cancel: bool,
    /// A buffer is taken from the free list only if no write is delayed in it, as long as there is one.
    pub avoid_dirty: bool,
    /// Where a write is delayed in all free buffers, the one at the front is written and given away,
    /// and who comes meanwhile waits. Without this rule `getblk` starts the writes of all of them.
    pub one_at_a_time: bool,
    /// A cancelled buffer gives its block up, and a block that is begun at its start is not read
    /// first. Nothing documents this: see the notes of the experiment.
    pub detach: bool,
}

/// A buffer.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    /// The block it belongs to.
    pub block: Option<u64>,
    /// Somebody uses it, or the disk does.
    pub busy: bool,
    /// Its content is that of the block.
    pub done: bool,
    /// It must be written before it is given away.
    pub dirty: bool,
    /// Nobody waits for the disk: the end of the transfer frees it.
    pub is_async: bool,
    /// It is written so that it can be given away.
    leaves: bool,
}

/// What asking for a buffer comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// The buffer, busy now.
    Buffer(usize),
    /// Wait until this buffer is freed.
    Busy(usize),
    /// Wait until any buffer is freed.
    NoneFree,
    /// This dirty buffer has to be written first: it is busy now.
    Write(usize),
}

/// The cache.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// Free buffers, the one freed longest ago first.
    free: Vec<usize>,
    /// The disk.
    pub disk: Disk,
    rules: Rules,
}

impl Cache {
    /// Makes a cache of free buffers.
    pub fn new(count: usize, disk: Disk, rules: Rules) -> Cache {
        Cache { buffers: vec![Buffer::default(); count], free: (0..count).collect(), disk, rules }
    }

    /// Returns the buffer that holds a block.
    pub fn find(&self, block: u64) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.block == Some(block))
    }

    /// `getblk`: the buffer of a block.
    pub fn get(&mut self, block: u64) -> Got {
        if let Some(found) = self.find(block) {
            if self.buffers[found].busy {
                return Got::Busy(found);
            }
            self.take(found);
            return Got::Buffer(found);
        }
        let Some(&oldest) = self.free.first() else { return Got::NoneFree };
        let clean = self.free.iter().copied().find(|&free| !self.buffers[free].dirty);
        let chosen = if self.rules.avoid_dirty { clean.unwrap_or(oldest) } else { oldest };
        let is_dirty = self.buffers[chosen].dirty;
        if is_dirty && self.rules.one_at_a_time && self.buffers.iter().any(|of| of.leaves) {
            return Got::NoneFree;
        }
        self.take(chosen);
        if is_dirty {
            self.buffers[chosen].leaves = true;
            return Got::Write(chosen);
        }
        self.buffers[chosen] = Buffer { block: Some(block), busy: true, ..Buffer::default() };
        Got::Buffer(chosen)
    }

    fn take(&mut self, buffer: usize) {
        self.free.retain(|free| *free != buffer);
        self.buffers[buffer].busy = true;
    }

    /// `brelse`: the buffer is free again, the last of all.
    pub fn release(&mut self, buffer: usize) {
        let of = &mut self.buffers[buffer];
        (of.busy, of.is_async, of.leaves) = (false, false, false);
        self.free.push(buffer);
    }

    /// Starts a transfer of a busy buffer. Returns how long it takes if the disk was at rest.
    pub fn start(
        &mut self,
        now_ns: u64,
        buffer: usize,
        writes: bool,
        is_async: bool,
    ) -> Option<u64> {
        let of = &mut self.buffers[buffer];
        (of.is_async, of.done) = (is_async, writes);
        if writes {
            of.dirty = false;
        }
        let block = of.block.unwrap_or(0);
        self.disk.ask(now_ns, Request { block, tag: buffer, writes })
    }

    /// `bdfree`: cancels the delayed write of a block. Returns whether there was one.
    pub fn cancel(&mut self, block: u64) -> bool {
        let Some(found) = self.find(block) else { return false };
        let of = &mut self.buffers[found];
        if of.busy || !of.dirty {
            return false;
        }
        of.dirty = false;
        if self.rules.detach {
            *of = Buffer::default();
        }
        true
    }
}
