//! Whose blocks give way.

use super::blocks::{NONE, State};
use super::stream::Stream;
use super::{Pool, Rule};

impl Pool {
    /// Puts a run of blocks on the laundry list, by the rule: how many.
    pub(super) fn choose(&mut self, now_ns: u64) -> u32 {
        let Some(stream) = self.victim(now_ns) else { return 0 };
        let dirty = self.streams[stream as usize].dirty;
        let (first, count) = match self.settings.rule {
            Rule::LongestDrain | Rule::LongestBacklog => self.run_before(dirty.last),
            Rule::OldestFirst | Rule::WriteThrough | Rule::Bbn => self.run_behind(dirty.first),
        };
        let mut block = first;
        for _ in 0..count {
            let next = self.blocks[block].next;
            self.delay(block);
            block = next;
        }
        count
    }

    fn victim(&self, now_ns: u64) -> Option<u32> {
        let dirty = self.streams.iter().enumerate().filter(|(_, stream)| stream.dirty.count > 0);
        let oldest = |first: u32| core::cmp::Reverse(self.blocks[first].age);
        let found = match self.settings.rule {
            Rule::LongestDrain => dirty.max_by_key(|(_, stream)| self.drain_ns(now_ns, stream)),
            Rule::LongestBacklog => dirty.max_by_key(|(_, stream)| {
                u128::from(self.distance(stream.head, stream.dirty.last))
            }),
            Rule::OldestFirst | Rule::WriteThrough | Rule::Bbn => {
                dirty.max_by_key(|(_, stream)| oldest(stream.dirty.first))
            }
        };
        found.map(|(at, _)| at as u32)
    }

    /// When the last dirty block of a stream is expected to be read: the blocks before it at the
    /// reader's pace, with the stalls that readers of this pool have, and what is left of this one.
    fn drain_ns(&self, now_ns: u64, stream: &Stream) -> u128 {
        let blocks = self.distance(stream.head, stream.dirty.last);
        let each_ns = stream.pace_ns(now_ns) + self.stalls.each_block_ns();
        let stall_ns = if stream.stalls(now_ns) { self.stalls.mean_ns() } else { 0 };
        u128::from(blocks) * u128::from(each_ns) + u128::from(stall_ns)
    }

    /// Blocks that are read before this one is done.
    fn distance(&self, head: u32, block: u32) -> u32 {
        self.blocks[block].sequence.wrapping_sub(self.blocks[head].sequence) + 1
    }

    /// The run of dirty blocks in a row that ends here, at most a cluster: its first, its length.
    fn run_before(&self, last: u32) -> (u32, u32) {
        let (mut first, mut count) = (last, 1);
        while count < self.cluster {
            let before = self.blocks.before(first);
            if before == NONE || self.blocks[before].next != first {
                break;
            }
            (first, count) = (before, count + 1);
        }
        (first, count)
    }

    /// The run of dirty blocks in a row that begins here, at most a cluster.
    fn run_behind(&self, first: u32) -> (u32, u32) {
        let (mut last, mut count) = (first, 1);
        while count < self.cluster {
            let after = self.blocks.after(last);
            if after == NONE || self.blocks[last].next != after {
                break;
            }
            (last, count) = (after, count + 1);
        }
        (first, count)
    }

    /// Puts a dirty block on the laundry list.
    fn delay(&mut self, block: u32) {
        let stream = self.blocks[block].stream;
        let of = &mut self.streams[stream as usize];
        self.blocks.unlink(&mut of.dirty, block);
        self.blocks[block].state = State::Delayed;
        self.blocks.push(&mut self.laundry, block);
        of.counts.delayed += 1;
        self.counts.delayed += 1;
    }

    /// Puts a block back among the dirty ones of its stream, in its place.
    pub(super) fn dirty_again(&mut self, block: u32) {
        self.blocks[block].state = State::Dirty;
        let at = self.blocks[block].stream as usize;
        if self.streams[at].holds(block) {
            return;
        }
        let sequence = self.blocks[block].sequence;
        let mut dirty = self.streams[at].dirty;
        // Numbers wrap, so they are compared by their difference.
        let is_later = |other: u32| self.blocks[other].sequence.wrapping_sub(sequence) as i32 > 0;
        // It belongs near one of the two ends: a reader comes from the front, writers add behind.
        let is_first = dirty.first != NONE && is_later(dirty.first);
        let mut behind = if is_first { NONE } else { dirty.last };
        while behind != NONE && is_later(behind) {
            behind = self.blocks.before(behind);
        }
        self.blocks.insert(&mut dirty, behind, block);
        self.streams[at].dirty = dirty;
    }
}
