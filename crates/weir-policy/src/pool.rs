//! Which blocks of a pool are written, when, and when they are read back.
//!
//! BBN 1978: writes are always delayed, the reader cancels them, and dirty buffers are avoided. A
//! pool has frames of memory and a file behind them. Streams append blocks at their end and consume
//! them at their head. While frames suffice, nothing is written. When they run short, runs of
//! blocks that will be read last are put on the laundry list. They are written when frames run
//! shorter still; a reader that comes to them, or frames that come free, cancel that.
//!
//! [`PoolPolicy::on`] takes an event and the time, and queues what is to be done
//! ([`PoolPolicy::action`]). Nothing here waits or reads a clock, and nothing is allocated after
//! [`PoolPolicy::new`] and [`PoolPolicy::open`].
//!
//! A pool joins parts that do not know each other: the `Stock` of blocks, the `Laundry` list, and
//! `OpenTransfers` under way. The stock joins `Streams` with their blocks, `FrameTable` of memory,
//! and `FileSlots` of the file. `choose` decides whose blocks give way.

mod blocks;
mod choose;
mod frames;
mod laundry;
mod protocol;
mod slots;
mod stock;
mod stream;
mod streams;
mod transfers;

pub use protocol::{
    Action, BlockCounts, LEAST_FRAMES, MOST_CLUSTER, MOST_TRANSFERS, PoolEvent, PoolSettings,
    READY_NS, Rule,
};
pub use transfers::Transfer;

use alloc::collections::{TryReserveError, VecDeque};
use blocks::{BlockState, NONE};
use laundry::Laundry;
use stock::Stock;
use stream::LEAST_AHEAD;
use transfers::OpenTransfers;

/// The decisions of one pool.
#[derive(Debug)]
pub struct PoolPolicy {
    settings: PoolSettings,
    stock: Stock,
    laundry: Laundry,
    transfers: OpenTransfers,
    /// Whether a reader waits for a frame.
    starving: bool,
    /// Frames that are lent to others, who keep what they like in them: the regions of a pool.
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
            stock: Stock::new(settings)?,
            laundry: Laundry::new(settings),
            transfers: OpenTransfers::new(settings.transfers)?,
            starving: false,
            lent: 0,
            actions: VecDeque::new(),
        })
    }

    /// Opens a stream and returns its number. Numbers of closed streams are used again.
    pub fn open(&mut self, now_ns: u64) -> u32 {
        let opened = self.stock.streams.open(now_ns);
        let streams = self.stock.streams.len();
        // Each stream has at most one grant and one answer outstanding, each transfer one action.
        let most = 2 * streams + 2 * self.settings.transfers as usize + 1;
        self.actions.reserve(most - self.actions.len().min(most));
        opened
    }

    /// Handles an event.
    pub fn on(&mut self, now_ns: u64, event: PoolEvent) {
        match event {
            PoolEvent::Append(stream) => self.append(now_ns, stream),
            PoolEvent::Seal(stream) => self.stock.streams.seal(stream),
            PoolEvent::Want(stream) => self.want(now_ns, stream),
            PoolEvent::Release(stream) => self.stock.release(stream),
            PoolEvent::Consumed(stream) => self.consumed(now_ns, stream),
            PoolEvent::Done { transfer, fault } => self.done(now_ns, transfer, fault),
            PoolEvent::Tick => {}
            PoolEvent::Withdraw { stream, empty } => self.withdraw(stream, empty),
            PoolEvent::Abandon(stream) => self.abandon(stream),
            PoolEvent::Close(stream) => self.close(stream),
        }
        self.settle(now_ns);
    }

    /// Uses what an event has changed: for writers, for the file, and for readers.
    fn settle(&mut self, now_ns: u64) {
        self.grant(now_ns);
        self.balance(now_ns);
        self.serve_readers(now_ns);
        while self.stock.streams.writers_wait() && !self.has_spare() && self.relieve(now_ns) {
            self.grant(now_ns);
        }
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
        [self.retry_ns(), self.reader_deadline_ns()].into_iter().flatten().min()
    }

    /// Returns when one who waits for a frame gets that of a reader who does not come.
    pub fn reader_deadline_ns(&self) -> Option<u64> {
        self.starving.then(|| self.stock.streams.first_ready_until_ns()).flatten()
    }

    /// Returns when writing is tried again.
    fn retry_ns(&self) -> Option<u64> {
        // Unless frames are needed, nothing is tried, however much time passes.
        let can_start = self.stock.slots.left() > 0
            && self.transfers.has_room()
            && self.laundry.is_short(self.stock.frames.available());
        self.laundry.retry_ns().filter(|_| can_start && self.laundry.count() > 0)
    }

    /// Returns the error with which writing fails at present, if it does.
    pub fn trouble(&self) -> Option<i32> {
        self.laundry.trouble()
    }

    /// Returns the counts of all streams together.
    pub fn counts(&self) -> BlockCounts {
        self.stock.streams.counts
    }

    /// Returns the counts of one stream.
    pub fn stream_counts(&self, stream: u32) -> BlockCounts {
        self.stock.streams[stream].counts
    }

    /// Returns the number of a stream's blocks that are not consumed.
    pub fn backlog(&self, stream: u32) -> u32 {
        self.stock.streams[stream].count
    }

    /// Returns the frames in use now, and at most.
    pub fn frames_used(&self) -> (u32, u32) {
        (self.stock.frames.used(), self.stock.frames.most_used())
    }

    /// Returns the places of the file in use now, and at most.
    pub fn slots_used(&self) -> (u32, u32) {
        (self.stock.slots.used(), self.stock.slots.most_used())
    }

    /// Returns the number of transfers under way.
    pub fn transfers_under_way(&self) -> u32 {
        self.transfers.under_way()
    }

    /// Returns the settings, within their bounds.
    pub fn settings(&self) -> PoolSettings {
        self.settings
    }

    /// Queues a writer that wants a frame.
    fn append(&mut self, now_ns: u64, stream: u32) {
        let is_new = self.stock.streams.ask(stream);
        self.grant(now_ns);
        // One that asks repeatedly is in no greater need.
        if is_new && self.stock.streams.writers_wait() {
            self.laundry.press();
        }
    }

    /// Gives frames to waiting writers, in their order.
    fn grant(&mut self, now_ns: u64) {
        while self.stock.streams.writers_wait() {
            if !self.has_spare() || self.laundry.holds_writers() {
                break;
            }
            let Some((stream, frame)) = self.stock.append(now_ns) else { return };
            self.actions.push_back(Action::Grant { stream, frame });
        }
    }

    /// Whether there are more frames than those that are kept for readers.
    fn has_spare(&self) -> bool {
        self.stock.frames.available() > self.settings.reserve()
    }

    /// Frees a frame that was read ahead for a reader that rests, if nothing else will free one: no
    /// block is to be written, and no transfer is under way. Returns whether it did.
    fn relieve(&mut self, now_ns: u64) -> bool {
        if self.laundry.count() > 0 || self.transfers.under_way() > 0 {
            return false;
        }
        let frame = self.stock.frames.steal(&mut self.stock.streams, now_ns);
        // Those that are left belong to readers that are about to come: this is tried again later.
        self.starving |= frame.is_none();
        frame.map(|frame| self.stock.frames.give_back(frame)).is_some()
    }

    /// Puts blocks on the laundry list or takes them off, and begins to write, as frames run short
    /// or come free.
    fn balance(&mut self, now_ns: u64) {
        if self.settings.slots == 0 {
            return;
        }
        let available = self.stock.frames.available();
        self.laundry.fit(&mut self.stock.streams, now_ns, available);
        while self.laundry.may_write(now_ns, available) && self.transfers.has_room() {
            let run = self.laundry.run(&self.stock.streams);
            let Some((slot, count)) = self.stock.slots.take(run) else { return };
            let transfer = self.laundry.begin(&mut self.stock.streams, now_ns, slot, count);
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
        let at = &self.stock.streams[stream];
        if at.head == NONE || at.reading || at.wanting {
            return;
        }
        let state = self.stock.streams.blocks[at.head].state;
        if matches!(state, BlockState::Spilled | BlockState::Reading) {
            self.stock.streams.want(stream);
        } else {
            self.show(stream);
        }
        self.read_ahead(now_ns, stream);
    }

    /// Shows the first block, which is in memory, to the reader.
    fn show(&mut self, stream: u32) {
        let head = self.stock.streams[stream].head;
        if self.stock.streams.blocks[head].state == BlockState::Delayed {
            self.laundry.reader_at(&mut self.stock.streams, head);
        }
        let (frame, in_file) = self.stock.hold(stream);
        self.actions.push_back(Action::Show { stream, frame, in_file });
    }

    /// Drops the first block, which was read to its end.
    fn consumed(&mut self, now_ns: u64, stream: u32) {
        if self.stock.streams[stream].head == NONE {
            return;
        }
        self.drop_head(stream);
        self.stock.streams.learn(now_ns, stream);
        let at = &mut self.stock.streams[stream];
        if at.spilled == 0 {
            at.ahead = LEAST_AHEAD;
        }
        self.read_ahead(now_ns, stream);
    }

    /// Takes the first block out of its stream, whatever is being done with it.
    fn drop_head(&mut self, stream: u32) {
        self.stock.release(stream);
        let head = self.stock.streams[stream].head;
        if self.stock.streams.blocks[head].state == BlockState::Delayed {
            self.laundry.cancel(&mut self.stock.streams, head);
        }
        self.stock.drop_head(stream);
    }

    /// Begins to read back what the reader of a stream will soon want.
    fn read_ahead(&mut self, now_ns: u64, stream: u32) {
        let mut left = self.stock.streams[stream].ahead * self.settings.cluster;
        let mut block = self.stock.streams[stream].head;
        while left > 0 && block != NONE && self.stock.streams[stream].spilled > 0 {
            if self.stock.streams.blocks[block].state != BlockState::Spilled {
                (block, left) = (self.stock.streams.blocks[block].next, left - 1);
                continue;
            }
            let run = self.stock.streams.blocks.spilled_run(block, self.settings.cluster);
            let at = &self.stock.streams[stream];
            let urgent = at.wanting && block == at.head;
            match self.read_back(now_ns, block, run.min(left.max(1)), urgent) {
                0 => return,
                read => {
                    (0..read).for_each(|_| block = self.stock.streams.blocks[block].next);
                    left = left.saturating_sub(read);
                }
            }
        }
    }

    /// Begins to read a run of blocks back, and returns how many. One that is not urgent waits
    /// until the whole run has frames.
    fn read_back(&mut self, now_ns: u64, first: u32, count: u32, urgent: bool) -> u32 {
        if !self.transfers.has_room() || (!urgent && self.stock.frames.available() < count) {
            return 0;
        }
        let transfer = self.stock.read_back(now_ns, first, count, urgent);
        let read = transfer.blocks().len() as u32;
        if read > 0 {
            self.begin(transfer);
        } else {
            self.starving |= urgent;
        }
        read
    }

    /// Tries again for readers whose block could not be read back before.
    fn serve_readers(&mut self, now_ns: u64) {
        self.starving = false;
        let mut stream = 0;
        while self.stock.streams.readers_wait() && (stream as usize) < self.stock.streams.len() {
            let of = &self.stock.streams[stream];
            if of.wanting && self.stock.streams.blocks[of.head].state == BlockState::Spilled {
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
                self.stock.written(block, fault.is_none());
            } else if let Some(stream) = self.stock.came_back(block, fault.is_none()) {
                self.answer(now_ns, stream, fault);
            }
        }
    }

    /// Tells a reader that its block was read back, or could not be.
    fn answer(&mut self, now_ns: u64, stream: u32, fault: Option<i32>) {
        if let Some(fault) = fault {
            return self.actions.push_back(Action::Fail { stream, fault });
        }
        self.stock.streams[stream].ready_until_ns = now_ns.saturating_add(READY_NS);
        self.actions.push_back(Action::Ready(stream));
        self.read_ahead(now_ns, stream);
    }

    /// Takes back a writer's wish for a frame, and drops its last block if that is empty.
    fn withdraw(&mut self, stream: u32, empty: bool) {
        self.stock.streams.end_ask(stream);
        if empty {
            self.stock.drop_open(stream);
        }
    }

    /// Drops all blocks but the last: the reader has gone.
    fn abandon(&mut self, stream: u32) {
        while self.stock.streams[stream].head != self.stock.streams[stream].tail {
            self.drop_head(stream);
        }
        self.stock.streams.end_want(stream);
    }

    /// Drops everything in a stream: both ends have gone.
    fn close(&mut self, stream: u32) {
        self.abandon(stream);
        if self.stock.streams[stream].head != NONE {
            self.drop_head(stream);
        }
        self.stock.streams.end_ask(stream);
        self.stock.streams[stream].open = false;
        self.actions.retain(|action| match action {
            Action::Grant { stream: of, .. }
            | Action::Show { stream: of, .. }
            | Action::Ready(of)
            | Action::Fail { stream: of, .. } => *of != stream,
            Action::Begin(_) | Action::Trouble(_) => true,
        });
    }

    /// Lends up to `most` frames, by calling `each` with each. If there are fewer, blocks are
    /// written earlier from now on, as for a writer that waits.
    pub fn lend(&mut self, now_ns: u64, most: u32, mut each: impl FnMut(u32)) {
        let kept = self.settings.reserve().max(1);
        for _ in 0..most {
            // Writers that wait come first.
            let mut spare = !self.stock.streams.writers_wait();
            while spare && self.stock.frames.available() <= kept {
                // Only what is not in the file yet can be written.
                self.balance(now_ns);
                spare = self.relieve(now_ns);
            }
            let Some(frame) = spare.then(|| self.stock.take_frame()).flatten() else {
                self.laundry.press();
                break;
            };
            self.lent += 1;
            each(frame);
        }
        self.balance(now_ns);
    }

    /// Takes a frame back that was lent.
    pub fn take_back(&mut self, now_ns: u64, frame: u32) {
        self.lent -= 1;
        self.stock.frames.give_back(frame);
        self.settle(now_ns);
    }

    /// Returns how many frames are lent.
    pub fn lent(&self) -> u32 {
        self.lent
    }

    /// Whether writers wait for frames while others have some that are lent.
    pub fn wants_back(&self) -> bool {
        self.lent > 0 && self.stock.streams.writers_wait()
    }
}
