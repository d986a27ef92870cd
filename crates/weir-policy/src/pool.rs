//! Which blocks of a pool are written, when, and when they are read back.
//!
//! BBN 1978: writes are always delayed, the reader cancels them, and buffers that are dirty are
//! avoided. A pool has frames of memory and a file behind them. Streams append blocks at their end
//! and consume them at their head. While frames suffice nothing is written. When they run short,
//! runs of blocks that will be read last are put on the laundry list; they are written when frames
//! run shorter still, and a reader, or frames that come free, cancel that.
//!
//! [`Pool::on`] takes an event and the time; what is to be done lies in a queue then
//! ([`Pool::action`]). Nothing waits here, no clock is read, and nothing is allocated after
//! [`Pool::new`] and [`Pool::open`].

mod ahead;
mod blocks;
mod choose;
mod ends;
mod laundry;
mod slots;
mod stream;
mod transfers;

pub use transfers::Transfer;

use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;
use blocks::{Blocks, List, NONE, State};
use slots::Slots;
use stream::{Stalls, Stream};
use transfers::Transfers;

/// Most blocks of one transfer.
pub const MOST_CLUSTER: u32 = 64;
/// Fewest frames of a pool.
pub const LEAST_FRAMES: u32 = 4;
/// Most transfers under way.
pub const MOST_TRANSFERS: u32 = 256;

/// Which blocks give way when frames run short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// The tail of the stream that is expected to take longest to drain: blocks times the mean time
    /// between two, stalls included. Near the offline optimum, which drops what is read last.
    #[default]
    LongestDrain,
    /// The tail of the stream with the most blocks.
    LongestBacklog,
    /// The oldest block: what a page cache does.
    OldestFirst,
    /// Every block is written as soon as it is full.
    WriteThrough,
    /// BBN's: a block that is not dirty, else the oldest is written, one at a time, when no frame
    /// is left.
    Bbn,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 5] = [
        Rule::LongestDrain,
        Rule::LongestBacklog,
        Rule::OldestFirst,
        Rule::WriteThrough,
        Rule::Bbn,
    ];

    /// Its name for people and files.
    pub fn name(self) -> &'static str {
        match self {
            Rule::LongestDrain => "longest-drain",
            Rule::LongestBacklog => "longest-backlog",
            Rule::OldestFirst => "oldest-first",
            Rule::WriteThrough => "write-through",
            Rule::Bbn => "bbn",
        }
    }
}

/// What a pool is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Frames of memory, at least [`LEAST_FRAMES`].
    pub frames: u32,
    /// Blocks the file may hold; 0 for no file.
    pub slots: u32,
    /// Most blocks of a transfer, 1 to [`MOST_CLUSTER`]; about 1 % of the pool if that is less.
    pub cluster: u32,
    /// Most transfers under way, 1 to [`MOST_TRANSFERS`].
    pub transfers: u32,
    /// Which blocks give way.
    pub rule: Rule,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The writer of a stream wants a frame; its last block is full. Answered by
    /// [`Action::Grant`], now or later.
    Append {
        /// The stream.
        stream: u32,
    },
    /// The last block is full, or no more will be put into it.
    Seal {
        /// The stream.
        stream: u32,
    },
    /// The reader wants the first block. Answered by [`Action::Show`] or [`Action::Fail`], now or
    /// later; the block stays where it is until [`Event::Release`] or [`Event::Consumed`].
    Want {
        /// The stream.
        stream: u32,
    },
    /// The reader does not look at the first block for now.
    Release {
        /// The stream.
        stream: u32,
    },
    /// The first block was read, all of it.
    Consumed {
        /// The stream.
        stream: u32,
    },
    /// A transfer is over.
    Done {
        /// Its number.
        transfer: u32,
        /// The error, if it failed.
        fault: Option<i32>,
    },
    /// Time has passed: see [`Pool::deadline_ns`].
    Tick,
    /// The writer has gone, or wants no frame any more. One that it was granted and has put nothing
    /// into is given back: that is the stream's last block if it is `empty`.
    Withdraw {
        /// The stream.
        stream: u32,
        /// There is such a block.
        empty: bool,
    },
    /// The stream has lost its reader, and its writer may be at its last block still: all before
    /// that is given up. [`Event::Close`] is to follow.
    Abandon {
        /// The stream.
        stream: u32,
    },
    /// The stream is given up, with all that is in it.
    Close {
        /// The stream.
        stream: u32,
    },
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The writer has a frame for its next block.
    Grant {
        /// The stream.
        stream: u32,
        /// The frame.
        frame: u32,
    },
    /// The reader's block is in this frame.
    Show {
        /// The stream.
        stream: u32,
        /// The frame.
        frame: u32,
        /// It lies in the file as well: to be released soon, since its frame may be needed.
        in_file: bool,
    },
    /// The reader's block could not be read back.
    Fail {
        /// The stream.
        stream: u32,
        /// The error.
        fault: i32,
    },
    /// A transfer is to be begun: [`Pool::transfer`] says of what.
    Begin {
        /// Its number.
        transfer: u32,
    },
    /// Writing has begun to fail.
    Trouble {
        /// The error.
        fault: i32,
    },
}

/// What was counted, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Begun by a writer.
    pub appended: u64,
    /// Read to the end, or given up with their stream.
    pub consumed: u64,
    /// Put on the laundry list.
    pub delayed: u64,
    /// Taken off it unwritten.
    pub cancelled: u64,
    /// Written.
    pub spilled: u64,
    /// Read back.
    pub read_back: u64,
}

/// The decisions of one pool.
#[derive(Debug)]
pub struct Pool {
    settings: Settings,
    cluster: u32,
    blocks: Blocks,
    slots: Slots,
    streams: Vec<Stream>,
    free: Vec<u32>,
    clean: List,
    ahead: List,
    laundry: List,
    transfers: Transfers,
    /// Clusters that are written ahead of need.
    pressed: u32,
    /// Blocks being written.
    writing: u32,
    /// Streams whose writers wait for a frame, in the order they came.
    appending: VecDeque<u32>,
    /// Streams whose readers wait.
    waiting_readers: u32,
    actions: VecDeque<Action>,
    age: u64,
    stalls: Stalls,
    counts: Counts,
    most_frames: u32,
    most_slots: u32,
    trouble: Option<i32>,
    retry_ns: u64,
    patience_ns: u64,
}

impl Pool {
    /// A pool without streams.
    ///
    /// # Errors
    /// There is no memory for the tables of frames and blocks.
    pub fn new(settings: Settings) -> Result<Pool, TryReserveError> {
        let frames = settings.frames.max(LEAST_FRAMES);
        let transfers = settings.transfers.clamp(1, MOST_TRANSFERS);
        let share = (frames / 100).max(1);
        let cluster = match settings.rule {
            Rule::Bbn => 1,
            _ => settings.cluster.clamp(1, MOST_CLUSTER).min(share),
        };
        let settings = Settings { frames, transfers, ..settings };
        // The frame that is handed out first is 0, and the last to come back is the next to go:
        // what is still in the caches.
        let mut free = Vec::new();
        free.try_reserve_exact(frames as usize)?;
        free.extend((0..frames).rev());
        Ok(Pool {
            settings,
            cluster,
            blocks: Blocks::new(frames as usize + settings.slots as usize)?,
            slots: Slots::new(settings.slots)?,
            streams: Vec::new(),
            free,
            clean: List::new(),
            ahead: List::new(),
            laundry: List::new(),
            transfers: Transfers::new(transfers)?,
            pressed: 1,
            writing: 0,
            appending: VecDeque::new(),
            waiting_readers: 0,
            actions: VecDeque::new(),
            age: 0,
            stalls: Stalls::default(),
            counts: Counts::default(),
            most_frames: 0,
            most_slots: 0,
            trouble: None,
            retry_ns: 0,
            patience_ns: 0,
        })
    }

    /// Opens a stream: its number. Those of closed ones are used again.
    pub fn open(&mut self, now_ns: u64) -> u32 {
        let fresh = Stream::new(now_ns);
        let unused = self.streams.iter().position(|stream| !stream.open);
        let at = match unused {
            Some(at) => {
                self.streams[at] = fresh;
                at
            }
            None => {
                self.streams.push(fresh);
                self.streams.len() - 1
            }
        };
        // Each stream has at most one grant and one answer outstanding, each transfer one action.
        let most = 2 * self.streams.len() + 2 * self.settings.transfers as usize + 1;
        self.actions.reserve(most - self.actions.len().min(most));
        self.appending.reserve(self.streams.len() - self.appending.len().min(self.streams.len()));
        at as u32
    }

    /// Takes in what happened.
    pub fn on(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Append { stream } => {
                let is_new = self.append(stream);
                self.grant(now_ns);
                // One that asks again and again is in no greater need.
                if is_new && !self.appending.is_empty() {
                    self.press();
                }
            }
            Event::Seal { stream } => self.seal(stream),
            Event::Want { stream } => self.want(now_ns, stream),
            Event::Release { stream } => self.release(stream),
            Event::Consumed { stream } => self.consumed(now_ns, stream),
            Event::Done { transfer, fault } => self.done(now_ns, transfer, fault),
            Event::Tick => {}
            Event::Withdraw { stream, empty } => self.withdraw(stream, empty),
            Event::Abandon { stream } => self.abandon(stream),
            Event::Close { stream } => self.close(stream),
        }
        self.grant(now_ns);
        self.balance(now_ns);
        self.serve_readers(now_ns);
    }

    /// The next thing to do.
    pub fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What a transfer is to move.
    pub fn transfer(&self, transfer: u32) -> &Transfer {
        self.transfers.get(transfer)
    }

    /// When [`Event::Tick`] is due, if at all: writing is tried again then.
    pub fn deadline_ns(&self) -> Option<u64> {
        // Without need of frames nothing is tried, however much time passes.
        let can_start = self.slots.left() > 0 && self.transfers.has_room() && self.is_short();
        (self.trouble.is_some() && self.laundry.count > 0 && can_start).then_some(self.retry_ns)
    }

    /// Why writing fails at present.
    pub fn trouble(&self) -> Option<i32> {
        self.trouble
    }

    /// What was counted for all streams.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What was counted for one stream.
    pub fn stream_counts(&self, stream: u32) -> Counts {
        self.streams[stream as usize].counts
    }

    /// Blocks of a stream that are not consumed.
    pub fn backlog(&self, stream: u32) -> u32 {
        self.streams[stream as usize].count
    }

    /// Frames in use now, and at most.
    pub fn frames_used(&self) -> (u32, u32) {
        (self.settings.frames - self.free.len() as u32, self.most_frames)
    }

    /// Frames that hold what is in no file: now.
    pub fn frames_dirty(&self) -> u32 {
        self.frames_used().0 - self.clean.count - self.ahead.count
    }

    /// Places of the file in use now, and at most.
    pub fn slots_used(&self) -> (u32, u32) {
        (self.slots.used(), self.most_slots)
    }

    /// Transfers under way.
    pub fn transfers_under_way(&self) -> u32 {
        self.transfers.under_way()
    }

    /// The settings, within their bounds.
    pub fn settings(&self) -> Settings {
        Settings { cluster: self.cluster, ..self.settings }
    }

    /// Frames that can be had at once.
    fn available(&self) -> u32 {
        self.free.len() as u32 + self.clean.count
    }

    /// Frames no writer gets: a reader must always get on.
    fn reserve(&self) -> u32 {
        if self.settings.slots == 0 { 0 } else { self.cluster.min(self.settings.frames / 4) }
    }

    /// A frame, from those that are free or whose block is in the file as well.
    fn take_frame(&mut self) -> Option<u32> {
        let frame = match self.free.pop() {
            Some(frame) => Some(frame),
            // What was written last is read last.
            None if self.clean.last != NONE => {
                let block = self.clean.last;
                self.blocks.unlink(&mut self.clean, block);
                Some(self.give_way(block))
            }
            None => None,
        };
        let used = self.settings.frames - self.free.len() as u32;
        self.most_frames = self.most_frames.max(used);
        frame
    }

    /// A block leaves its frame; it is in the file.
    fn give_way(&mut self, block: u32) -> u32 {
        let frame = core::mem::replace(&mut self.blocks[block].frame, NONE);
        self.blocks[block].state = State::Spilled;
        let stream = self.blocks[block].stream;
        self.streams[stream as usize].spilled += 1;
        frame
    }

    /// Whether the writer had not asked before.
    fn append(&mut self, stream: u32) -> bool {
        let asked = &mut self.streams[stream as usize];
        let is_new = asked.open && !asked.appending;
        if is_new {
            asked.appending = true;
            self.appending.push_back(stream);
        }
        is_new
    }

    /// Frames for writers that wait, in their order.
    fn grant(&mut self, now_ns: u64) {
        while let Some(&stream) = self.appending.front() {
            if self.available() <= self.reserve() {
                break;
            }
            let Some(frame) = self.take_frame() else { return };
            let sequence = self.streams[stream as usize].next_sequence;
            let Some(block) = self.blocks.make(stream, sequence, self.age, frame) else {
                // The table has room for all frames and slots: there cannot be more blocks.
                self.free.push(frame);
                return;
            };
            self.age += 1;
            self.appending.pop_front();
            let at = &mut self.streams[stream as usize];
            at.appending = false;
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
            at.counts.appended += 1;
            self.counts.appended += 1;
            self.actions.push_back(Action::Grant { stream, frame });
        }
    }

    fn seal(&mut self, stream: u32) {
        let at = &mut self.streams[stream as usize];
        let block = at.tail;
        if block == NONE || self.blocks[block].state != State::Open {
            return;
        }
        self.blocks[block].state = State::Dirty;
        // What the reader looks at stays where it is.
        if !at.holds(block) {
            self.blocks.push(&mut at.dirty, block);
        }
    }
}
