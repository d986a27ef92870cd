//! Transfers between frames and file that are under way.

use super::MOST_CLUSTER;
use super::blocks::NONE;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// One transfer: some frames, and places in a row in the file.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// To the file, or from it.
    pub writes: bool,
    /// The first place in the file.
    pub slot: u32,
    /// When it was begun.
    pub begun_ns: u64,
    count: u32,
    frames: [u32; MOST_CLUSTER as usize],
    blocks: [u32; MOST_CLUSTER as usize],
}

impl Transfer {
    /// A transfer of nothing yet.
    pub(super) fn new(writes: bool, slot: u32, begun_ns: u64) -> Transfer {
        let none = [NONE; MOST_CLUSTER as usize];
        Transfer { writes, slot, begun_ns, count: 0, frames: none, blocks: none }
    }

    /// Adds a block.
    pub(super) fn push(&mut self, block: u32, frame: u32) {
        self.frames[self.count as usize] = frame;
        self.blocks[self.count as usize] = block;
        self.count += 1;
    }

    /// The frames, in the order of the file.
    pub fn frames(&self) -> &[u32] {
        &self.frames[..self.count as usize]
    }

    /// The blocks in them.
    pub(super) fn blocks(&self) -> &[u32] {
        &self.blocks[..self.count as usize]
    }
}

/// All transfers under way.
#[derive(Debug)]
pub struct Transfers {
    all: Vec<Transfer>,
    unused: Vec<u32>,
}

impl Transfers {
    /// At most so many at once, if there is memory for them.
    pub fn new(most: u32) -> Result<Transfers, TryReserveError> {
        let (mut all, mut unused) = (Vec::new(), Vec::new());
        all.try_reserve_exact(most as usize)?;
        all.resize(most as usize, Transfer::new(false, 0, 0));
        unused.try_reserve_exact(most as usize)?;
        unused.extend((0..most).rev());
        Ok(Transfers { all, unused })
    }

    /// Whether one more can be begun.
    pub fn has_room(&self) -> bool {
        !self.unused.is_empty()
    }

    /// How many are under way.
    pub fn under_way(&self) -> u32 {
        (self.all.len() - self.unused.len()) as u32
    }

    /// Begins one: its number.
    pub fn begin(&mut self, transfer: Transfer) -> Option<u32> {
        let at = self.unused.pop()?;
        self.all[at as usize] = transfer;
        Some(at)
    }

    /// One that is under way.
    pub fn get(&self, at: u32) -> &Transfer {
        &self.all[at as usize]
    }

    /// Ends one. None if there is no such transfer.
    pub fn end(&mut self, at: u32) -> Option<Transfer> {
        if at as usize >= self.all.len() || self.unused.contains(&at) {
            return None;
        }
        self.unused.push(at);
        Some(self.all[at as usize])
    }
}
