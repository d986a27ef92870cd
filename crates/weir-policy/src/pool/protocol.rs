//! What a pool is made of, what it is told, and what it says is to be done.

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
    /// The writer of this stream wants a frame; its last block is full. Answered by
    /// [`Action::Grant`], now or later.
    Append(u32),
    /// The last block of this stream is full, or no more will be put into it.
    Seal(u32),
    /// The reader of this stream wants its first block. Answered by [`Action::Show`] or [`Action::Fail`], now or
    /// later; the block stays where it is until [`Event::Release`] or [`Event::Consumed`].
    Want(u32),
    /// The reader of this stream does not look at its first block for now.
    Release(u32),
    /// The first block of this stream was read, all of it.
    Consumed(u32),
    /// A transfer is over.
    Done {
        /// Its number.
        transfer: u32,
        /// The error, if it failed.
        fault: Option<i32>,
    },
    /// Time has passed: see `Pool::deadline_ns`.
    Tick,
    /// The writer has gone, or wants no frame any more. One that it was granted and has put nothing
    /// into is given back: that is the stream's last block if it is `empty`.
    Withdraw {
        /// The stream.
        stream: u32,
        /// There is such a block.
        empty: bool,
    },
    /// This stream has lost its reader, and its writer may be at its last block still: all before
    /// that is given up. [`Event::Close`] is to follow.
    Abandon(u32),
    /// This stream is given up, with all that is in it.
    Close(u32),
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
    /// The transfer of this number is to be begun: `Pool::transfer` says of what.
    Begin(u32),
    /// Writing has begun to fail with this error.
    Trouble(i32),
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

impl Settings {
    /// The same within bounds.
    pub(super) fn bounded(self) -> Settings {
        let frames = self.frames.max(LEAST_FRAMES);
        let transfers = self.transfers.clamp(1, MOST_TRANSFERS);
        let share = (frames / 100).max(1);
        let cluster = match self.rule {
            Rule::Bbn => 1,
            _ => self.cluster.clamp(1, MOST_CLUSTER).min(share),
        };
        Settings { frames, transfers, cluster, ..self }
    }

    /// Frames no writer gets: a reader must always get on.
    pub(super) fn reserve(&self) -> u32 {
        if self.slots == 0 { 0 } else { self.cluster.min(self.frames / 4) }
    }
}
