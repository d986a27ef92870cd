//! One stream of a pool: its blocks, its reader, and the reader's pace.

use super::BlockCounts;
use super::blocks::{BlockList, NONE};

pub const LEAST_AHEAD: u32 = 2;
pub const MOST_AHEAD: u32 = 16;

/// Blocks over which a reader's pace is averaged.
const MEMORY: u32 = 64;
/// A block that takes this many times the mean is a stall.
const STALL: u64 = 8;

#[derive(Debug, Default)]
pub struct PoolStream {
    pub open: bool,
    /// The age of the first block that can be its own. Older ones are of a stream that had its number.
    pub first_age: u64,
    /// The block that is read next.
    pub head: u32,
    /// The block that was appended last.
    pub tail: u32,
    /// The number of its blocks.
    pub count: u32,
    /// The number of its blocks that are in the file only.
    pub spilled: u32,
    /// Its blocks that are dirty, full and not looked at, in order.
    pub dirty: BlockList,
    /// The number of the next block.
    pub next_sequence: u32,
    /// Whether the writer waits for a frame.
    pub appending: bool,
    /// Whether the reader waits for the first block.
    pub wanting: bool,
    /// Whether the reader looks at the first block.
    pub reading: bool,
    /// Until when the first block, which was read back for the reader, stays for it; 0 if the reader
    /// has looked at it, or has none.
    pub ready_until_ns: u64,
    /// Mean time between two blocks read.
    pub gap_ns: u64,
    /// The number of blocks in that mean.
    pub learnt: u32,
    /// Whether the first block came when the reader had read everything.
    pub caught_up: bool,
    /// When the first block became the first.
    pub since_ns: u64,
    pub ahead: u32,
    pub counts: BlockCounts,
}

impl PoolStream {
    pub fn new(now_ns: u64, first_age: u64) -> PoolStream {
        let (head, tail) = (NONE, NONE);
        PoolStream {
            open: true,
            first_age,
            head,
            tail,
            since_ns: now_ns,
            ahead: LEAST_AHEAD,
            ..Self::default()
        }
    }

    pub fn holds(&self, block: u32) -> bool {
        self.reading && self.head == block
    }

    /// Adds the time of a block that was read to the mean of the last ones. Returns the stall, which
    /// is what is far beyond the mean, apart.
    pub fn learn(&mut self, now_ns: u64) -> u64 {
        let took_ns = now_ns.saturating_sub(self.since_ns);
        let gap_ns = took_ns.min(self.pace_ns(now_ns).saturating_mul(STALL));
        self.since_ns = now_ns;
        // A reader that waited for this block may be faster than its time shows.
        if core::mem::take(&mut self.caught_up) && self.learnt > 0 {
            return took_ns - gap_ns;
        }
        self.learnt = (self.learnt + 1).min(MEMORY);
        let (old_ns, weight) = (self.gap_ns, u64::from(self.learnt));
        self.gap_ns = (old_ns - old_ns / weight + gap_ns / weight).max(1);
        took_ns - gap_ns
    }

    /// Returns the reader's mean time for a block. A reader that has read none yet is expected to
    /// keep up with its writer.
    pub fn pace_ns(&self, now_ns: u64) -> u64 {
        match self.learnt {
            0 => now_ns.saturating_sub(self.since_ns) / u64::from(self.count.max(1)) + 1,
            _ => self.gap_ns,
        }
    }

    /// Whether the reader has had its block for so long that it stalls.
    pub fn stalls(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) > self.pace_ns(now_ns).saturating_mul(STALL)
    }
}

/// Stalls of all readers of a pool; they are too rare to be known for each reader.
#[derive(Debug, Default)]
pub struct Stalls {
    blocks: u64,
    count: u64,
    all_ns: u64,
}

impl Stalls {
    pub fn learn(&mut self, stalled_ns: u64) {
        self.blocks += 1;
        self.count += u64::from(stalled_ns > 0);
        self.all_ns = self.all_ns.saturating_add(stalled_ns);
        // The distant past counts less and less.
        if self.blocks >= 1 << 14 {
            self.blocks /= 2;
            self.count /= 2;
            self.all_ns /= 2;
        }
    }

    /// Returns the time lost to stalls, for each block.
    pub fn each_block_ns(&self) -> u64 {
        self.all_ns / self.blocks.max(1)
    }

    pub fn mean_ns(&self) -> u64 {
        self.all_ns / self.count.max(1)
    }
}
