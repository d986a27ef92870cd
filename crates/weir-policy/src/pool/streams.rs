//! The streams of a pool and the blocks in them: their order, their states and counts, and whose
//! writers and readers wait.

use super::BlockCounts;
use super::blocks::{BlockState, Blocks, NONE};
use super::stream::{MOST_AHEAD, PoolStream, Stalls};
use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

#[derive(Debug)]
pub struct Streams {
    pub blocks: Blocks,
    pub counts: BlockCounts,
    all: Vec<PoolStream>,
    /// Streams whose writers wait for a frame, in the order of their requests.
    appending: VecDeque<u32>,
    /// The number of streams whose readers wait.
    wanting: u32,
    stalls: Stalls,
    age: u64,
}

impl Streams {
    /// Makes no streams, with at most this many blocks, if there is memory for them.
    pub fn new(most_blocks: u32) -> Result<Streams, TryReserveError> {
        let (blocks, counts) = (Blocks::new(most_blocks)?, BlockCounts::default());
        let (all, appending, stalls) = (Vec::new(), VecDeque::new(), Stalls::default());
        Ok(Streams { blocks, counts, all, appending, wanting: 0, stalls, age: 0 })
    }

    /// Opens a stream and returns its number. Numbers of closed streams are used again.
    pub fn open(&mut self, now_ns: u64) -> u32 {
        let fresh = PoolStream::new(now_ns, self.age);
        if let Some(at) = self.all.iter().position(|stream| !stream.open) {
            self.all[at] = fresh;
            return at as u32;
        }
        self.all.push(fresh);
        self.appending.reserve(self.all.len() - self.appending.len());
        self.all.len() as u32 - 1
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &PoolStream)> {
        (0..).zip(&self.all)
    }

    pub fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// Counts something about a block, for all streams and for its own, which it may have left.
    pub fn tally(&mut self, block: u32, count: impl Fn(&mut BlockCounts)) {
        count(&mut self.counts);
        let block = &self.blocks[block];
        let of = &mut self.all[block.stream as usize];
        if block.age >= of.first_age {
            count(&mut of.counts);
        }
    }

    /// Queues a writer that wants a frame. Returns whether it is new: it does not wait already, and
    /// its stream is open.
    pub fn ask(&mut self, stream: u32) -> bool {
        let at = &mut self.all[stream as usize];
        let is_new = at.open && !at.appending;
        if is_new {
            at.appending = true;
            self.appending.push_back(stream);
        }
        is_new
    }

    /// Takes back a writer's wish for a frame.
    pub fn end_ask(&mut self, stream: u32) {
        if core::mem::take(&mut self.all[stream as usize].appending) {
            self.appending.retain(|waiting| *waiting != stream);
        }
    }

    pub fn writers_wait(&self) -> bool {
        !self.appending.is_empty()
    }

    /// Records that a reader waits for the first block, and did not before.
    pub fn want(&mut self, stream: u32) {
        let at = &mut self.all[stream as usize];
        at.wanting = true;
        // The reader came before its block, so more must be read ahead.
        at.ahead = (at.ahead * 2).min(MOST_AHEAD);
        self.wanting += 1;
    }

    /// Ends a reader's wait for the first block. Returns whether it waited.
    pub fn end_want(&mut self, stream: u32) -> bool {
        let waited = core::mem::take(&mut self.all[stream as usize].wanting);
        self.wanting -= u32::from(waited);
        waited
    }

    pub fn readers_wait(&self) -> bool {
        self.wanting > 0
    }

    /// Appends an empty block in this frame to the stream whose writer has waited longest, and
    /// returns the stream. None if no writer waits, or there can be no more blocks.
    pub fn append(&mut self, now_ns: u64, frame: u32) -> Option<u32> {
        let stream = *self.appending.front()?;
        let at = &mut self.all[stream as usize];
        let block = self.blocks.make(stream, at.next_sequence, self.age, frame)?;
        self.age += 1;
        at.appending = false;
        self.appending.pop_front();
        at.next_sequence = at.next_sequence.wrapping_add(1);
        if at.tail == NONE {
            at.head = block;
            at.since_ns = now_ns;
            at.caught_up = true;
        } else {
            self.blocks[at.tail].next = block;
        }
        at.tail = block;
        at.count += 1;
        self.tally(block, |counts| counts.appended += 1);
        Some(stream)
    }

    /// Makes the last block full.
    pub fn seal(&mut self, stream: u32) {
        let at = &mut self.all[stream as usize];
        let block = at.tail;
        if block == NONE || self.blocks[block].state != BlockState::Open {
            return;
        }
        self.blocks[block].state = BlockState::Dirty;
        // A block that the reader looks at is in no list.
        if !at.holds(block) {
            self.blocks.push(&mut at.dirty, block);
        }
    }

    /// Takes a block out of its stream's list of dirty ones.
    pub fn unlist_dirty(&mut self, block: u32) {
        let stream = self.blocks[block].stream;
        self.blocks.unlink(&mut self.all[stream as usize].dirty, block);
    }

    /// Puts a block back among the dirty ones of its stream, at its place.
    pub fn dirty_again(&mut self, block: u32) {
        self.blocks[block].state = BlockState::Dirty;
        let at = &mut self.all[self.blocks[block].stream as usize];
        if at.holds(block) {
            return;
        }
        let (blocks, sequence) = (&self.blocks, self.blocks[block].sequence);
        // Numbers wrap, so they are compared by their difference.
        let is_later = |other: u32| blocks[other].sequence.wrapping_sub(sequence) as i32 > 0;
        // It belongs near one of the ends: a reader comes from the front, writers add behind.
        let is_first = at.dirty.first != NONE && is_later(at.dirty.first);
        let mut behind = if is_first { NONE } else { at.dirty.last };
        while behind != NONE && is_later(behind) {
            behind = blocks.before(behind);
        }
        self.blocks.insert(&mut at.dirty, behind, block);
    }

    /// Takes the frame of a block that is in the file.
    pub fn evict(&mut self, block: u32) -> u32 {
        let of = &mut self.blocks[block];
        of.state = BlockState::Spilled;
        let at = &mut self.all[of.stream as usize];
        at.spilled += 1;
        if at.head == block {
            at.ready_until_ns = 0;
        }
        core::mem::replace(&mut of.frame, NONE)
    }

    /// Whether a block that was read back still waits for its reader, who is to have it.
    pub fn stays(&self, now_ns: u64, block: u32) -> bool {
        let of = &self.all[self.blocks[block].stream as usize];
        of.head == block && now_ns < of.ready_until_ns
    }

    /// Returns when the first of the blocks that wait for their readers can be had by others.
    pub fn first_ready_until_ns(&self) -> Option<u64> {
        self.all.iter().map(|of| of.ready_until_ns).filter(|until_ns| *until_ns > 0).min()
    }

    /// Gives a block that is being read back this frame.
    pub fn come_back(&mut self, block: u32, frame: u32) {
        let of = &mut self.blocks[block];
        (of.frame, of.state) = (frame, BlockState::Reading);
        self.all[of.stream as usize].spilled -= 1;
    }

    pub fn pop_head(&mut self, stream: u32) {
        let at = &mut self.all[stream as usize];
        let head = at.head;
        at.spilled -= u32::from(self.blocks[head].state == BlockState::Spilled);
        at.head = self.blocks[head].next;
        at.ready_until_ns = 0;
        at.count -= 1;
        if at.head == NONE {
            at.tail = NONE;
        }
        self.tally(head, |counts| counts.consumed += 1);
    }

    /// Takes the last of several blocks out of its stream. Blocks know only their successors, but
    /// this happens once in the life of a stream.
    pub fn pop_tail(&mut self, stream: u32) {
        let at = &mut self.all[stream as usize];
        let (mut before, last) = (at.head, at.tail);
        while self.blocks[before].next != last {
            before = self.blocks[before].next;
        }
        self.blocks[before].next = NONE;
        at.tail = before;
        at.count -= 1;
        self.tally(last, |counts| counts.consumed += 1);
    }

    /// Learns the reader's pace and its stalls from a block that was read.
    pub fn learn(&mut self, now_ns: u64, stream: u32) {
        let stalled_ns = self.all[stream as usize].learn(now_ns);
        self.stalls.learn(stalled_ns);
    }
}

impl Index<u32> for Streams {
    type Output = PoolStream;

    fn index(&self, at: u32) -> &PoolStream {
        &self.all[at as usize]
    }
}

impl IndexMut<u32> for Streams {
    fn index_mut(&mut self, at: u32) -> &mut PoolStream {
        &mut self.all[at as usize]
    }
}
