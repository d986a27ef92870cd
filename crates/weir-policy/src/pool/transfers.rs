//! Transfers under way between frames and file.

use super::MOST_CLUSTER;
use super::blocks::{NONE, reserved};
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// One transfer: frames, and places in a row in the file.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Whether it writes to the file, or reads from it.
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
    pub(super) fn new(writes: bool, slot: u32, begun_ns: u64) -> Transfer {
        let none = [NONE; MOST_CLUSTER as usize];
        Transfer { writes, slot, begun_ns, count: 0, frames: none, blocks: none }
    }

    pub(super) fn push(&mut self, block: u32, frame: u32) {
        self.frames[self.count as usize] = frame;
        self.blocks[self.count as usize] = block;
        self.count += 1;
    }

    /// Returns the frames, in the order of the file.
    pub fn frames(&self) -> &[u32] {
        &self.frames[..self.count as usize]
    }

    pub(super) fn blocks(&self) -> &[u32] {
        &self.blocks[..self.count as usize]
    }
}

#[derive(Debug)]
pub struct OpenTransfers {
    all: Vec<Transfer>,
    unused: Vec<u32>,
}

impl OpenTransfers {
    /// Makes room for this many, if there is memory for them.
    pub fn new(most: u32) -> Result<OpenTransfers, TryReserveError> {
        let (mut all, mut unused) = (reserved(most)?, reserved(most)?);
        all.resize(most as usize, Transfer::new(false, 0, 0));
        unused.extend((0..most).rev());
        Ok(OpenTransfers { all, unused })
    }

    pub fn has_room(&self) -> bool {
        !self.unused.is_empty()
    }

    pub fn under_way(&self) -> u32 {
        (self.all.len() - self.unused.len()) as u32
    }

    pub fn begin(&mut self, transfer: Transfer) -> Option<u32> {
        let at = self.unused.pop()?;
        self.all[at as usize] = transfer;
        Some(at)
    }

    pub fn get(&self, at: u32) -> &Transfer {
        &self.all[at as usize]
    }

    /// Ends a transfer. None if there is no such transfer.
    pub fn end(&mut self, at: u32) -> Option<Transfer> {
        if at as usize >= self.all.len() || self.unused.contains(&at) {
            return None;
        }
        self.unused.push(at);
        Some(self.all[at as usize])
    }
}
