//! The blocks that are to be written: which they are, when writing begins, and when it is tried
//! again after a failure.

use super::blocks::{BlockList, BlockState, NONE, follow};
use super::choose;
use super::streams::Streams;
use super::transfers::Transfer;
use super::{PoolSettings, Rule};

/// The first and the longest time from a failed write to the next try.
const PATIENCE_NS: (u64, u64) = (10_000_000, 1_000_000_000);
/// Most clusters that are being written while frames are short, to keep a disk busy.
const MOST_PRESSED: u32 = 16;

#[derive(Debug)]
pub struct Laundry {
    settings: PoolSettings,
    list: BlockList,
    writing: u32,
    /// Clusters that are written ahead of need.
    pressed: u32,
    trouble: Option<WriteTrouble>,
}

#[derive(Clone, Copy, Debug)]
struct WriteTrouble {
    fault: i32,
    retry_ns: u64,
    patience_ns: u64,
}

impl Laundry {
    pub fn new(settings: PoolSettings) -> Laundry {
        Laundry { settings, list: BlockList::default(), writing: 0, pressed: 1, trouble: None }
    }

    pub fn count(&self) -> u32 {
        self.list.count
    }

    /// Returns the error with which writing fails at present, if it does.
    pub fn trouble(&self) -> Option<i32> {
        self.trouble.map(|trouble| trouble.fault)
    }

    /// Returns when writing is tried again, if it fails at present.
    pub fn retry_ns(&self) -> Option<u64> {
        self.trouble.map(|trouble| trouble.retry_ns)
    }

    /// Whether writers have to wait for the file: a block is on its way there, and the rule is that
    /// they wait.
    pub fn holds_writers(&self) -> bool {
        self.settings.rule == Rule::Synchronous && self.writing + self.list.count > 0
    }

    /// Makes writing begin earlier from now on, because a writer has to wait.
    pub fn press(&mut self) {
        self.pressed = (self.pressed * 2).min(MOST_PRESSED);
    }

    /// Writing begins when fewer frames than this are free, or will be once the present writes have
    /// ended.
    fn start_level(&self) -> u32 {
        let clusters = if self.settings.rule == Rule::Bbn { 1 } else { self.pressed };
        let PoolSettings { cluster, frames, .. } = self.settings;
        self.settings.reserve() + (clusters * cluster).min(frames / 4)
    }

    /// Blocks are chosen when fewer frames than this are coming, or could be written.
    fn choose_level(&self) -> u32 {
        match self.settings.rule {
            Rule::Bbn => self.start_level(),
            _ => self.start_level() + self.settings.cluster,
        }
    }

    /// Whether the list is to be written while this many frames are available.
    pub fn is_short(&self, available: u32) -> bool {
        self.settings.rule.writes_through() || available + self.writing < self.start_level()
    }

    pub fn may_write(&self, now_ns: u64, available: u32) -> bool {
        let waits = self.retry_ns().is_some_and(|retry_ns| now_ns < retry_ns);
        self.list.count > 0 && self.is_short(available) && !waits
    }

    /// Puts blocks on the list or takes them off, to fit the frames that are available.
    pub fn fit(&mut self, streams: &mut Streams, now_ns: u64, available: u32) {
        let cluster = self.settings.cluster;
        if self.settings.rule.writes_through() {
            while self.choose(streams, now_ns) {}
            return;
        }
        let coming = available + self.writing;
        let relief = self.choose_level() + cluster;
        while self.list.count > 0 && coming + self.list.count > relief {
            self.cancel(streams, self.list.last);
        }
        // More than twice the highest level is free: the pressure is over.
        if available > 2 * MOST_PRESSED * cluster {
            self.pressed = 1;
        }
        while coming + self.list.count < self.choose_level() && self.choose(streams, now_ns) {}
    }

    /// Puts a run of blocks on the list, if there is one.
    fn choose(&mut self, streams: &mut Streams, now_ns: u64) -> bool {
        let PoolSettings { rule, cluster, .. } = self.settings;
        let Some((mut block, count)) = choose::run(streams, now_ns, rule, cluster) else {
            return false;
        };
        for _ in 0..count {
            streams.unlist_dirty(block);
            streams.blocks[block].state = BlockState::Delayed;
            streams.blocks.push(&mut self.list, block);
            streams.tally(block, |counts| counts.delayed += 1);
            block = streams.blocks[block].next;
        }
        true
    }

    pub fn cancel(&mut self, streams: &mut Streams, block: u32) {
        streams.blocks.unlink(&mut self.list, block);
        streams.tally(block, |counts| counts.cancelled += 1);
        streams.dirty_again(block);
    }

    /// Cancels a run that is to be written, because a reader has come to it.
    pub fn reader_at(&mut self, streams: &mut Streams, first: u32) {
        if self.settings.rule.writes_through() {
            return;
        }
        let mut block = first;
        for _ in 0..self.settings.cluster {
            if block == NONE || streams.blocks[block].state != BlockState::Delayed {
                return;
            }
            let next = streams.blocks[block].next;
            self.cancel(streams, block);
            block = next;
        }
    }

    /// Returns how many blocks in a row can be written from the oldest one on the list, at most a cluster.
    pub fn run(&self, streams: &Streams) -> u32 {
        let blocks = &streams.blocks;
        let is_delayed =
            |block: &u32| *block != NONE && blocks[*block].state == BlockState::Delayed;
        let next = |at: u32| Some(blocks[at].next).filter(is_delayed);
        follow(self.list.first, self.settings.cluster, next).1
    }

    /// Begins to write this many of them to the file, from this place on.
    pub fn begin(&mut self, streams: &mut Streams, now_ns: u64, slot: u32, count: u32) -> Transfer {
        let mut transfer = Transfer::new(true, slot, now_ns);
        let mut block = self.list.first;
        for at in 0..count {
            streams.blocks.unlink(&mut self.list, block);
            let of = &mut streams.blocks[block];
            (of.state, of.slot) = (BlockState::Writing, slot + at);
            transfer.push(block, of.frame);
            block = of.next;
        }
        self.writing += count;
        // After a failure, one transfer is tried, and the others wait for its result.
        if let Some(trouble) = &mut self.trouble {
            trouble.patience_ns = (trouble.patience_ns * 2).clamp(PATIENCE_NS.0, PATIENCE_NS.1);
            trouble.retry_ns = now_ns.saturating_add(trouble.patience_ns);
        }
        transfer
    }

    /// Ends a write. Returns its error, if writing did not fail before.
    pub fn ended(&mut self, now_ns: u64, transfer: &Transfer, fault: Option<i32>) -> Option<i32> {
        self.writing -= transfer.blocks().len() as u32;
        let before = self.trouble.take();
        let fault = fault?;
        let patience_ns = before.map_or(PATIENCE_NS.0, |before| before.patience_ns);
        let retry_ns = now_ns.saturating_add(patience_ns);
        self.trouble = Some(WriteTrouble { fault, retry_ns, patience_ns });
        before.is_none().then_some(fault)
    }
}
