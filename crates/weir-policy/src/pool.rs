//! Which blocks of a pool are written, when, and when they are read back.
//!
//! BBN 1978: writes are always delayed, the reader cancels them, and dirty buffers are avoided. A
//! pool has frames of memory and a file behind them. Streams append blocks at their end and consume
//! them at their head. While frames suffice, nothing is written. When they run short, runs of
//! blocks that will be read last are put on the laundry list. They are written when frames run
//! shorter still; a reader that comes to them, or frames that come free, cancel that.
//!
//! [`PoolPolicy::on`] takes an event and the time, and queues what is to be done ([`PoolPolicy::action`]).
//! Nothing here waits or reads a clock, and nothing is allocated after [`PoolPolicy::new`] and
//! [`PoolPolicy::open`].
//!
//! A pool joins parts that do not know each other: `Streams` with their blocks, `FrameTable` of memory,
//! `FileSlots` of the file, the `Laundry` list, and `OpenTransfers` under way. `choose` decides whose
//! blocks give way.

mod blocks;
mod choose;
mod figures;
mod frames;
mod laundry;
mod lend;
mod protocol;
mod slots;
mod stream;
mod streams;
mod transfers;

pub use protocol::{
    Action, BlockCounts, LEAST_FRAMES, MOST_CLUSTER, MOST_TRANSFERS, PoolEvent, PoolSettings,
    READY_NS, Rule,
};
pub use transfers::Transfer;

use alloc::collections::{TryReserveError, VecDeque};
use blocks::{BlockState, NONE, PoolBlock};
use frames::FrameTable;
use laundry::Laundry;
use slots::FileSlots;
use stream::{LEAST_AHEAD, MOST_AHEAD};
use streams::Streams;
use transfers::OpenTransfers;

/// The decisions of one pool.
#[derive(Debug)]
pub struct PoolPolicy {
    settings: PoolSettings,
    streams: Streams,
    frames: FrameTable,
    slots: FileSlots,
    laundry: Laundry,
    transfers: OpenTransfers,
    /// Streams whose writers wait for a frame, in the order of their requests.
    appending: VecDeque<u32>,
    /// Streams whose readers wait.
    waiting_readers: u32,
    /// Whether one of them waits for a frame.
    starving: bool,
    lent: u32,
    actions: VecDeque<Action>,
}

impl PoolPolicy {
    /// Makes a pool without streams.
    ///
    /// # Errors
    /// There is no memory for the tables of frames and blocks.
    pub fn new(settings: PoolSettings) -> Result<PoolPolicy, TryReserveError> {
        let settings = settings.bounded();
        Ok(PoolPolicy {
            settings,
            streams: Streams::new(settings.frames.saturating_add(settings.slots))?,
            frames: FrameTable::new(settings.frames)?,
            slots: FileSlots::new(settings.slots)?,
            laundry: Laundry::new(settings),
            transfers: OpenTransfers::new(settings.transfers)?,
            appending: VecDeque::new(),
            waiting_readers: 0,
            starving: false,
            lent: 0,
            actions: VecDeque::new(),
        })
    }

    /// Opens a stream and returns its number. Numbers of closed streams are used again.
    pub fn open(&mut self, now_ns: u64) -> u32 {
        let opened = self.streams.open(now_ns);
        let streams = self.streams.len();
        // Each stream has at most one grant and one answer outstanding, each transfer one action.
        let most = 2 * streams + 2 * self.settings.transfers as usize + 1;
        self.actions.reserve(most - self.actions.len().min(most));
        self.appending.reserve(streams - self.appending.len().min(streams));
        opened
    }

    /// Handles an event.
    pub fn on(&mut self, now_ns: u64, event: PoolEvent) {
        match event {
            PoolEvent::Append(stream) => self.append(now_ns, stream),
            PoolEvent::Seal(stream) => self.streams.seal(stream),
            PoolEvent::Want(stream) => self.want(now_ns, stream),
            PoolEvent::Release(stream) => self.release(stream),
            PoolEvent::Consumed(stream) => self.consumed(now_ns, stream),
            PoolEvent::Done { transfer, fault } => self.done(now_ns, transfer, fault),
            PoolEvent::Tick => {}
            PoolEvent::Withdraw { stream, empty } => self.withdraw(stream, empty),
            PoolEvent::Abandon(stream) => self.abandon(stream),
            PoolEvent::Close(stream) => self.close(stream),
        }
        self.grant(now_ns);
        self.balance(now_ns);
        self.serve_readers(now_ns);
    }

    /// Takes the next thing to do from the queue.
    pub fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns what a transfer moves.
    pub fn transfer(&self, transfer: u32) -> &Transfer {
        self.transfers.get(transfer)
    }

    /// Returns when [`PoolEvent::Tick`] is due, if at all: writing is tried again then, or a reader
    /// gets a frame.
    pub fn deadline_ns(&self) -> Option<u64> {
        let retry_ns = self.retry_ns();
        self.reader_deadline_ns()
            .map_or(retry_ns, |at_ns| Some(retry_ns.map_or(at_ns, |retry_ns| retry_ns.min(at_ns))))
    }

    /// Returns when a reader that waits for a frame gets that of another, who does not come.
    pub fn reader_deadline_ns(&self) -> Option<u64> {
        self.starving.then(|| self.streams.first_ready_until_ns()).flatten()
    }

    /// Returns when writing is tried again.
    fn retry_ns(&self) -> Option<u64> {
        // Unless frames are needed, nothing is tried, however much time passes.
        let can_start = self.slots.left() > 0
            && self.transfers.has_room()
            && self.laundry.is_short(self.frames.available());
        self.laundry.retry_ns().filter(|_| can_start && self.laundry.count() > 0)
    }

    /// Returns the error with which writing fails at present, if it does.
    pub fn trouble(&self) -> Option<i32> {
        self.laundry.trouble()
    }

    /// Queues a writer that wants a frame.
    fn append(&mut self, now_ns: u64, stream: u32) {
        let asked = &mut self.streams[stream];
        let is_new = asked.open && !asked.appending;
        if is_new {
            asked.appending = true;
            self.appending.push_back(stream);
        }
        self.grant(now_ns);
        // One that asks repeatedly is in no greater need.
        if is_new && !self.appending.is_empty() {
            self.laundry.press();
        }
    }

    /// Gives frames to waiting writers, in their order.
    fn grant(&mut self, now_ns: u64) {
        while let Some(&stream) = self.appending.front() {
            if self.frames.available() <= self.settings.reserve() || self.laundry.holds_writers() {
                break;
            }
            let Some(frame) = self.frames.take(&mut self.streams) else { return };
            if !self.streams.append(now_ns, stream, frame) {
                // The table has room for all frames and slots: there cannot be more blocks.
                return self.frames.give_back(frame);
            }
            self.appending.pop_front();
            self.actions.push_back(Action::Grant { stream, frame });
        }
    }

    /// Puts blocks on the laundry list or takes them off, and begins to write, as frames run short
    /// or come free.
    fn balance(&mut self, now_ns: u64) {
        if self.settings.slots == 0 {
            return;
        }
        self.laundry.fit(&mut self.streams, now_ns, self.frames.available());
        while self.laundry.may_write(now_ns, self.frames.available()) && self.transfers.has_room() {
            let run = self.laundry.run(&self.streams);
            let Some((slot, count)) = self.slots.take(run) else { return };
            let transfer = self.laundry.begin(&mut self.streams, now_ns, slot, count);
            self.begin(transfer);
        }
    }

    fn begin(&mut self, transfer: Transfer) {
        if let Some(number) = self.transfers.begin(transfer) {
            self.actions.push_back(Action::Begin(number));
        }
    }

    /// Shows a reader its first block, or has it read back.
    fn want(&mut self, now_ns: u64, stream: u32) {
        let at = &mut self.streams[stream];
        if at.head == NONE || at.reading || at.wanting {
            return;
        }
        let head = at.head;
        if matches!(self.streams.blocks[head].state, BlockState::Spilled | BlockState::Reading) {
            // The reader came before its block, so more must be read ahead.
            let at = &mut self.streams[stream];
            at.ahead = (at.ahead * 2).min(MOST_AHEAD);
            at.wanting = true;
            self.waiting_readers += 1;
        } else {
            self.show(stream);
        }
        self.read_ahead(now_ns, stream);
    }

    /// Shows the first block, which is in memory, to the reader.
    fn show(&mut self, stream: u32) {
        let head = self.streams[stream].head;
        if self.streams.blocks[head].state == BlockState::Delayed {
            self.laundry.reader_at(&mut self.streams, head);
        }
        self.unlist(head);
        let at = &mut self.streams[stream];
        (at.reading, at.ready_until_ns) = (true, 0);
        let block = &self.streams.blocks[head];
        let in_file = matches!(block.state, BlockState::Clean | BlockState::Ahead);
        self.actions.push_back(Action::Show { stream, frame: block.frame, in_file });
    }

    /// Takes a block out of the list of its state, except the laundry list.
    fn unlist(&mut self, block: u32) {
        match self.streams.blocks[block].state {
            BlockState::Dirty => self.streams.unlist_dirty(block),
            BlockState::Clean | BlockState::Ahead => {
                self.frames.unlist(&mut self.streams.blocks, block)
            }
            BlockState::Open
            | BlockState::Delayed
            | BlockState::Writing
            | BlockState::Reading
            | BlockState::Spilled => {}
        }
    }

    /// Records that the reader does not look at the first block for now.
    fn release(&mut self, stream: u32) {
        let at = &mut self.streams[stream];
        if !core::mem::take(&mut at.reading) {
            return;
        }
        let head = at.head;
        match self.streams.blocks[head].state {
            BlockState::Dirty => self.streams.dirty_again(head),
            BlockState::Clean | BlockState::Ahead => {
                self.frames.list(&mut self.streams.blocks, head)
            }
            BlockState::Open
            | BlockState::Delayed
            | BlockState::Writing
            | BlockState::Reading
            | BlockState::Spilled => {}
        }
    }

    /// Drops the first block, which was read to its end.
    fn consumed(&mut self, now_ns: u64, stream: u32) {
        if self.streams[stream].head == NONE {
            return;
        }
        self.drop_head(stream);
        self.streams.learn(now_ns, stream);
        let at = &mut self.streams[stream];
        if at.spilled == 0 {
            at.ahead = LEAST_AHEAD;
        }
        self.read_ahead(now_ns, stream);
    }

    /// Takes the first block out of its stream, whatever is being done with it.
    fn drop_head(&mut self, stream: u32) {
        self.release(stream);
        let head = self.streams[stream].head;
        if self.streams.blocks[head].state == BlockState::Delayed {
            self.laundry.cancel(&mut self.streams, head);
        }
        self.unlist(head);
        self.streams.pop_head(stream);
        let block = &mut self.streams.blocks[head];
        if matches!(block.state, BlockState::Writing | BlockState::Reading) {
            block.gone = true;
        } else {
            self.forget(head);
        }
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

    /// Begins to read back what the reader of a stream will soon want.
    fn read_ahead(&mut self, now_ns: u64, stream: u32) {
        let mut left = self.streams[stream].ahead * self.settings.cluster;
        let mut block = self.streams[stream].head;
        while left > 0 && block != NONE && self.streams[stream].spilled > 0 {
            if self.streams.blocks[block].state != BlockState::Spilled {
                (block, left) = (self.streams.blocks[block].next, left - 1);
                continue;
            }
            let run = self.streams.blocks.spilled_run(block, self.settings.cluster);
            let at = &self.streams[stream];
            let urgent = at.wanting && block == at.head;
            match self.read_back(now_ns, block, run.min(left.max(1)), urgent) {
                0 => return,
                read => {
                    (0..read).for_each(|_| block = self.streams.blocks[block].next);
                    left = left.saturating_sub(read);
                }
            }
        }
    }

    /// Begins to read a run of blocks back, and returns how many. An urgent read takes any frame, even
    /// of blocks that others will want; another one waits until the whole run has frames.
    fn read_back(&mut self, now_ns: u64, first: u32, count: u32, urgent: bool) -> u32 {
        if !self.transfers.has_room() || (!urgent && self.frames.available() < count) {
            return 0;
        }
        let mut transfer = Transfer::new(false, self.streams.blocks[first].slot, now_ns);
        let mut block = first;
        let mut read = 0;
        while read < count {
            let mut frame = self.frames.take(&mut self.streams);
            if frame.is_none() && urgent && read == 0 {
                frame = self.frames.steal(&mut self.streams, now_ns);
                self.starving |= frame.is_none();
            }
            let Some(frame) = frame else { break };
            self.streams.come_back(block, frame);
            transfer.push(block, frame);
            (block, read) = (self.streams.blocks[block].next, read + 1);
        }
        if read > 0 {
            self.begin(transfer);
        }
        read
    }

    /// Tries again for readers whose block could not be read back before.
    fn serve_readers(&mut self, now_ns: u64) {
        self.starving = false;
        let mut stream = 0;
        while self.waiting_readers > 0 && (stream as usize) < self.streams.len() {
            let of = &self.streams[stream];
            if of.wanting && self.streams.blocks[of.head].state == BlockState::Spilled {
                self.read_ahead(now_ns, stream);
            }
            stream += 1;
        }
    }

    /// Ends a transfer.
    fn done(&mut self, now_ns: u64, number: u32, fault: Option<i32>) {
        let Some(transfer) = self.transfers.end(number) else { return };
        if transfer.writes {
            let news = self.laundry.ended(now_ns, &transfer, fault);
            self.actions.extend(news.map(Action::Trouble));
        }
        for &block in transfer.blocks() {
            if transfer.writes {
                self.written(block, fault.is_none());
            } else {
                self.came_back(now_ns, block, fault);
            }
        }
    }

    /// Handles a block that was written, or could not be.
    fn written(&mut self, block: u32, well: bool) {
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

    /// Handles a block that was read back, or could not be.
    fn came_back(&mut self, now_ns: u64, block: u32, fault: Option<i32>) {
        let PoolBlock { stream, gone, .. } = self.streams.blocks[block];
        if fault.is_none() {
            self.streams.tally(block, |counts| counts.read_back += 1);
        }
        if gone {
            return self.forget(block);
        }
        let at = &mut self.streams[stream];
        let wanted = at.wanting && at.head == block;
        if wanted {
            at.wanting = false;
            self.waiting_readers -= 1;
        }
        let Some(fault) = fault else {
            self.streams.blocks[block].state = BlockState::Ahead;
            self.frames.list(&mut self.streams.blocks, block);
            if wanted {
                self.streams[stream].ready_until_ns = now_ns.saturating_add(READY_NS);
                self.actions.push_back(Action::Ready(stream));
                self.read_ahead(now_ns, stream);
            }
            return;
        };
        let frame = self.streams.evict(block);
        self.frames.give_back(frame);
        if wanted {
            self.actions.push_back(Action::Fail { stream, fault });
        }
    }

    /// Takes back a writer's wish for a frame, and drops its last block if that is empty.
    fn withdraw(&mut self, stream: u32, empty: bool) {
        let at = &mut self.streams[stream];
        if core::mem::take(&mut at.appending) {
            self.appending.retain(|waiting| *waiting != stream);
        }
        let (head, last) = (at.head, at.tail);
        let held = at.holds(last);
        if !empty || last == NONE || self.streams.blocks[last].state != BlockState::Open || held {
            return;
        }
        if head == last {
            return self.drop_head(stream);
        }
        self.streams.pop_tail(stream);
        self.forget(last);
    }

    /// Drops all blocks but the last: the reader has gone.
    fn abandon(&mut self, stream: u32) {
        while self.streams[stream].head != self.streams[stream].tail {
            self.drop_head(stream);
        }
        let wanting = core::mem::take(&mut self.streams[stream].wanting);
        self.waiting_readers -= u32::from(wanting);
    }

    /// Drops everything in a stream: both ends have gone.
    fn close(&mut self, stream: u32) {
        self.abandon(stream);
        if self.streams[stream].head != NONE {
            self.drop_head(stream);
        }
        let at = &mut self.streams[stream];
        (at.open, at.appending) = (false, false);
        self.appending.retain(|waiting| *waiting != stream);
        self.actions.retain(|action| match action {
            Action::Grant { stream: of, .. }
            | Action::Show { stream: of, .. }
            | Action::Ready(of)
            | Action::Fail { stream: of, .. } => *of != stream,
            Action::Begin(_) | Action::Trouble(_) => true,
        });
    }
}
