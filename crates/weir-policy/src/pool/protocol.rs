//! The settings of a pool, the events it takes, and the actions it asks for.

/// Most blocks of one transfer.
pub const MOST_CLUSTER: u32 = 64;
/// Fewest frames of a pool.
pub const LEAST_FRAMES: u32 = 4;
/// Most transfers under way.
pub const MOST_TRANSFERS: u32 = 256;
/// How long a block that was read back for its reader stays for it, if the reader does not come.
pub const READY_NS: u64 = 20_000_000;

/// Which blocks give way when frames run short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// The tail of the stream that is expected to take longest to drain: blocks times the mean time
    /// between two, including stalls. Near the offline optimum, which drops what is read last.
    #[default]
    LongestDrain,
    /// The tail of the stream with the most blocks.
    LongestBacklog,
    /// The oldest block, as in a page cache.
    OldestFirst,
    /// Every block is written as soon as it is full.
    WriteThrough,
    /// As write-through, and no writer continues while a block is on its way to the file.
    Synchronous,
    /// BBN's rule: a block that is not dirty; else the oldest is written, one at a time, when no
    /// frame is left.
    Bbn,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 6] = [
        Rule::LongestDrain,
        Rule::LongestBacklog,
        Rule::OldestFirst,
        Rule::WriteThrough,
        Rule::Synchronous,
        Rule::Bbn,
    ];

    /// Whether every block is written as soon as it is full.
    pub fn writes_through(self) -> bool {
        matches!(self, Rule::WriteThrough | Rule::Synchronous)
    }

    /// Returns its name for people and files.
    pub fn name(self) -> &'static str {
        match self {
            Rule::LongestDrain => "longest-drain",
            Rule::LongestBacklog => "longest-backlog",
            Rule::OldestFirst => "oldest-first",
            Rule::WriteThrough => "write-through",
            Rule::Synchronous => "synchronous",
            Rule::Bbn => "bbn",
        }
    }
}

/// The settings of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Frames of memory, at least [`LEAST_FRAMES`].
    pub frames: u32,
    /// Blocks that the file may hold; 0 for no file.
    pub slots: u32,
    /// Most blocks of a transfer, 1 to [`MOST_CLUSTER`]; about 1 % of the pool if that is less.
    pub cluster: u32,
    /// Most transfers under way, 1 to [`MOST_TRANSFERS`].
    pub transfers: u32,
    /// Which blocks give way.
    pub rule: Rule,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolEvent {
    /// The writer of this stream wants a frame; its last block is full. [`Action::Grant`] answers,
    /// now or later.
    Append(u32),
    /// The last block of this stream is full, or nothing more will be put into it.
    Seal(u32),
    /// The reader of this stream wants its first block. If that is in memory, [`Action::Show`]
    /// answers at once, and the block stays in its frame until [`PoolEvent::Release`] or
    /// [`PoolEvent::Consumed`]. Otherwise it is read back, and [`Action::Ready`] or
    /// [`Action::Fail`] answers later.
    Want(u32),
    /// The reader of this stream does not look at its first block for now.
    Release(u32),
    /// The reader has read all of the first block of this stream.
    Consumed(u32),
    /// A transfer has ended.
    Done {
        /// Its number.
        transfer: u32,
        /// The error, if it failed.
        fault: Option<i32>,
    },
    /// Time has passed: see `PoolPolicy::deadline_ns`.
    Tick,
    /// The writer has gone, or wants no frame any more. It gives back a frame that it was granted
    /// and has put nothing into: the stream's last block, if that is `empty`.
    Withdraw {
        /// The stream.
        stream: u32,
        /// Whether there is such a block.
        empty: bool,
    },
    /// This stream has lost its reader, while its writer may still use the last block: all blocks
    /// before that are dropped. [`PoolEvent::Close`] follows.
    Abandon(u32),
    /// This stream is dropped with everything in it.
    Close(u32),
}

/// An action that the pool asks for.
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
        /// Whether it is in the file as well: then it should be released soon, because its frame
        /// may be needed.
        in_file: bool,
    },
    /// The reader's block was read back: the reader is to want it again. The block stays for it for
    /// [`READY_NS`]. After that, another reader may get its frame, because a reader that does not
    /// come must not hold up those that do.
    Ready(u32),
    /// The reader's block could not be read back.
    Fail {
        /// The stream.
        stream: u32,
        /// The error.
        fault: i32,
    },
    /// The transfer of this number is to be begun: `PoolPolicy::transfer` tells what it moves.
    Begin(u32),
    /// Writing has begun to fail with this error.
    Trouble(i32),
}

/// Counts of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Begun by a writer.
    pub appended: u64,
    /// Read to the end, or dropped with their stream.
    pub consumed: u64,
    /// Put on the laundry list.
    pub delayed: u64,
    /// Taken off the list without being written.
    pub cancelled: u64,
    /// Written.
    pub spilled: u64,
    /// Read back.
    pub read_back: u64,
}

impl PoolSettings {
    /// Returns the settings within their bounds.
    pub(super) fn bounded(self) -> PoolSettings {
        let frames = self.frames.max(LEAST_FRAMES);
        let transfers = self.transfers.clamp(1, MOST_TRANSFERS);
        let share = (frames / 100).max(1);
        let cluster = match self.rule {
            Rule::Bbn => 1,
            _ => self.cluster.clamp(1, MOST_CLUSTER).min(share),
        };
        PoolSettings { frames, transfers, cluster, ..self }
    }

    /// Returns the frames that no writer gets, so that a reader can always continue.
    pub(super) fn reserve(&self) -> u32 {
        if self.slots == 0 { 0 } else { self.cluster.min(self.frames / 4) }
    }
}
