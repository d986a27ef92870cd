//! The reader's side: what it finds in memory, what is read back for it, and when.

use super::blocks::{NONE, State};
use super::stream::{LEAST_AHEAD, MOST_AHEAD};
use super::transfers::Transfer;
use super::{Action, Pool, Rule};

impl Pool {
    /// The reader wants the first block.
    pub(super) fn want(&mut self, now_ns: u64, stream: u32) {
        let at = stream as usize;
        let head = self.streams[at].head;
        if head == NONE || self.streams[at].reading || self.streams[at].wanting {
            return;
        }
        if matches!(self.blocks[head].state, State::Spilled | State::Reading) {
            // It came before its block: more is to be read ahead.
            self.streams[at].ahead = (self.streams[at].ahead * 2).min(MOST_AHEAD);
            self.streams[at].wanting = true;
            self.waiting_readers += 1;
        } else {
            self.show(stream);
        }
        self.read_ahead(now_ns, stream);
    }

    /// The first block is in memory: it is the reader's.
    fn show(&mut self, stream: u32) {
        let at = stream as usize;
        let head = self.streams[at].head;
        match self.blocks[head].state {
            State::Delayed if self.settings.rule != Rule::WriteThrough => self.cancel_run(head),
            _ => {}
        }
        match self.blocks[head].state {
            State::Dirty => self.blocks.unlink(&mut self.streams[at].dirty, head),
            State::Clean => self.blocks.unlink(&mut self.clean, head),
            State::Ahead => self.blocks.unlink(&mut self.ahead, head),
            State::Open | State::Delayed | State::Writing | State::Reading | State::Spilled => {}
        }
        self.streams[at].reading = true;
        let frame = self.blocks[head].frame;
        let in_file = matches!(self.blocks[head].state, State::Clean | State::Ahead);
        self.actions.push_back(Action::Show { stream, frame, in_file });
    }

    /// A reader has come to a run that is to be written: none of it is.
    fn cancel_run(&mut self, first: u32) {
        let mut block = first;
        for _ in 0..self.cluster {
            if block == NONE || self.blocks[block].state != State::Delayed {
                return;
            }
            let next = self.blocks[block].next;
            self.cancel(block);
            block = next;
        }
    }

    /// The reader does not look at the first block for now.
    pub(super) fn release(&mut self, stream: u32) {
        let at = stream as usize;
        if !core::mem::take(&mut self.streams[at].reading) {
            return;
        }
        let head = self.streams[at].head;
        match self.blocks[head].state {
            State::Dirty => self.dirty_again(head),
            State::Clean => self.blocks.push(&mut self.clean, head),
            State::Ahead => self.blocks.push(&mut self.ahead, head),
            State::Open | State::Delayed | State::Writing | State::Reading | State::Spilled => {}
        }
    }

    /// The first block was read to its end.
    pub(super) fn consumed(&mut self, now_ns: u64, stream: u32) {
        if self.streams[stream as usize].head == NONE {
            return;
        }
        self.drop_head(stream);
        let stalled_ns = self.streams[stream as usize].learn(now_ns);
        self.stalls.learn(stalled_ns);
        if self.streams[stream as usize].spilled == 0 {
            self.streams[stream as usize].ahead = LEAST_AHEAD;
        }
        self.read_ahead(now_ns, stream);
    }

    /// Takes the first block out of its stream, whatever is being done with it.
    pub(super) fn drop_head(&mut self, stream: u32) {
        let at = stream as usize;
        let head = self.streams[at].head;
        self.release(stream);
        let block = self.blocks[head];
        let mut kept = false;
        match block.state {
            State::Open => {}
            State::Dirty => self.blocks.unlink(&mut self.streams[at].dirty, head),
            State::Delayed => {
                self.cancel(head);
                self.blocks.unlink(&mut self.streams[at].dirty, head);
            }
            State::Clean => self.blocks.unlink(&mut self.clean, head),
            State::Ahead => self.blocks.unlink(&mut self.ahead, head),
            State::Writing | State::Reading => kept = true,
            State::Spilled => self.streams[at].spilled -= 1,
        }
        let stream = &mut self.streams[at];
        stream.head = block.next;
        stream.count -= 1;
        stream.counts.consumed += 1;
        self.counts.consumed += 1;
        if stream.head == NONE {
            stream.tail = NONE;
        }
        if kept {
            self.blocks[head].gone = true;
            return;
        }
        if block.frame != NONE {
            self.free.push(block.frame);
        }
        if block.slot != NONE {
            self.slots.give_back(block.slot);
        }
        self.blocks.drop(head);
    }

    /// Begins to read back what the reader of a stream will soon want.
    fn read_ahead(&mut self, now_ns: u64, stream: u32) {
        let at = stream as usize;
        let mut left = self.streams[at].ahead * self.cluster;
        let mut block = self.streams[at].head;
        while left > 0 && block != NONE && self.streams[at].spilled > 0 {
            if self.blocks[block].state != State::Spilled {
                (block, left) = (self.blocks[block].next, left - 1);
                continue;
            }
            let count = self.spilled_run(block).min(left.max(1));
            let urgent = self.streams[at].wanting && block == self.streams[at].head;
            match self.read_back(now_ns, block, count, urgent) {
                0 => return,
                read => {
                    (0..read).for_each(|_| block = self.blocks[block].next);
                    left = left.saturating_sub(read);
                }
            }
        }
    }

    /// Blocks in a row from here that lie in a row in the file, at most a cluster.
    fn spilled_run(&self, first: u32) -> u32 {
        let (mut block, mut count) = (first, 1);
        while count < self.cluster {
            let next = self.blocks[block].next;
            let follows = next != NONE
                && self.blocks[next].state == State::Spilled
                && self.blocks[next].slot == self.blocks[block].slot + 1;
            if !follows {
                break;
            }
            (block, count) = (next, count + 1);
        }
        count
    }

    /// Begins to read blocks in a row: how many. What is urgent takes what frames there are, also
    /// those of blocks that others will want; the rest waits until all of the run has frames.
    fn read_back(&mut self, now_ns: u64, first: u32, count: u32, urgent: bool) -> u32 {
        if !self.transfers.has_room() || (!urgent && self.available() < count) {
            return 0;
        }
        let mut transfer = Transfer::new(false, self.blocks[first].slot, now_ns);
        let mut block = first;
        let mut read = 0;
        while read < count {
            let stolen = |pool: &mut Pool| (urgent && read == 0).then(|| pool.steal()).flatten();
            let Some(frame) = self.take_frame().or_else(|| stolen(self)) else { break };
            self.blocks[block].frame = frame;
            self.blocks[block].state = State::Reading;
            let of = self.blocks[block].stream as usize;
            self.streams[of].spilled -= 1;
            transfer.push(block, frame);
            (block, read) = (self.blocks[block].next, read + 1);
        }
        if read > 0
            && let Some(number) = self.transfers.begin(transfer)
        {
            self.actions.push_back(Action::Begin { transfer: number });
        }
        read
    }

    /// The frame of a block that was read back and has waited longest.
    fn steal(&mut self) -> Option<u32> {
        let block = self.ahead.first;
        if block == NONE {
            return None;
        }
        self.blocks.unlink(&mut self.ahead, block);
        Some(self.give_way(block))
    }

    /// Blocks came back from the file, or could not.
    pub(super) fn came_back(&mut self, now_ns: u64, transfer: &Transfer, fault: Option<i32>) {
        for &block in transfer.blocks() {
            let found = self.blocks[block];
            if fault.is_none() {
                self.counts.read_back += 1;
            }
            if found.gone {
                self.free.push(found.frame);
                self.slots.give_back(found.slot);
                self.blocks.drop(block);
                continue;
            }
            let at = found.stream as usize;
            let wanted = self.streams[at].wanting && self.streams[at].head == block;
            if wanted {
                self.streams[at].wanting = false;
                self.waiting_readers -= 1;
            }
            match fault {
                None => {
                    self.streams[at].counts.read_back += 1;
                    self.blocks[block].state = State::Ahead;
                    self.blocks.push(&mut self.ahead, block);
                    if wanted {
                        self.show(found.stream);
                        self.read_ahead(now_ns, found.stream);
                    }
                }
                Some(fault) => {
                    let frame = self.give_way(block);
                    self.free.push(frame);
                    if wanted {
                        let stream = found.stream;
                        self.actions.push_back(Action::Fail { stream, fault });
                    }
                }
            }
        }
    }

    /// Readers that wait for a block that could not be begun to be read.
    pub(super) fn serve_readers(&mut self, now_ns: u64) {
        let mut stream = 0;
        while self.waiting_readers > 0 && stream < self.streams.len() {
            let of = &self.streams[stream];
            if of.wanting && self.blocks[of.head].state == State::Spilled {
                self.read_ahead(now_ns, stream as u32);
            }
            stream += 1;
        }
    }
}
