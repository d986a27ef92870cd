//! The blocks that are to be written: which they are, when writing begins, and when it is tried
//! again after it has failed.

use super::blocks::{List, NONE, State};
use super::choose;
use super::streams::Streams;
use super::transfers::Transfer;
use super::{Rule, Settings};

/// First time after a failed write until the next is tried, and the longest.
const PATIENCE_NS: (u64, u64) = (10_000_000, 1_000_000_000);
/// Most clusters that are being written while frames are short: what keeps a disk busy.
const MOST_PRESSED: u32 = 16;

/// The laundry list.
#[derive(Debug)]
pub struct Laundry {
    settings: Settings,
    list: List,
    /// Blocks being written.
    writing: u32,
    /// Clusters that are written ahead of need.
    pressed: u32,
    trouble: Option<Trouble>,
}

/// Writing fails.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    fault: i32,
    retry_ns: u64,
    patience_ns: u64,
}

impl Laundry {
    /// An empty list.
    pub fn new(settings: Settings) -> Laundry {
        Laundry { settings, list: List::new(), writing: 0, pressed: 1, trouble: None }
    }

    /// Blocks on it.
    pub fn count(&self) -> u32 {
        self.list.count
    }

    /// Why writing fails at present.
    pub fn trouble(&self) -> Option<i32> {
        self.trouble.map(|trouble| trouble.fault)
    }

    /// When writing is tried again, if it fails at present.
    pub fn retry_ns(&self) -> Option<u64> {
        self.trouble.map(|trouble| trouble.retry_ns)
    }

    /// A writer has to wait: from now on writing begins earlier.
    pub fn press(&mut self) {
        self.pressed = (self.pressed * 2).min(MOST_PRESSED);
    }

    /// Writing begins when fewer frames than this are free, or will be when what is being written
    /// is written.
    fn start_level(&self) -> u32 {
        let clusters = if self.settings.rule == Rule::Bbn { 1 } else { self.pressed };
        let Settings { cluster, frames, .. } = self.settings;
        self.settings.reserve() + (clusters * cluster).min(frames / 4)
    }

    /// Blocks are chosen when fewer frames than this are coming, or could be written.
    fn choose_level(&self) -> u32 {
        match self.settings.rule {
            Rule::Bbn => self.start_level(),
            _ => self.start_level() + self.settings.cluster,
        }
    }

    /// Whether what is on the list is to be written now that so many frames are available.
    pub fn is_short(&self, available: u32) -> bool {
        self.settings.rule == Rule::WriteThrough || available + self.writing < self.start_level()
    }

    /// Whether writing may begin now.
    pub fn may_write(&self, now_ns: u64, available: u32) -> bool {
        let waits = self.retry_ns().is_some_and(|retry_ns| now_ns < retry_ns);
        self.list.count > 0 && self.is_short(available) && !waits
    }

    /// Puts blocks on the list or takes them off, so that it fits the frames that are available.
    pub fn fit(&mut self, streams: &mut Streams, now_ns: u64, available: u32) {
        let cluster = self.settings.cluster;
        if self.settings.rule == Rule::WriteThrough {
            while self.choose(streams, now_ns) {}
            return;
        }
        let coming = available + self.writing;
        let relief = self.choose_level() + cluster;
        while self.list.count > 0 && coming + self.list.count > relief {
            self.cancel(streams, self.list.last);
        }
        // As many again as the highest level: the pressure is over.
        if available > 2 * MOST_PRESSED * cluster {
            self.pressed = 1;
        }
        while coming + self.list.count < self.choose_level() && self.choose(streams, now_ns) {}
    }

    /// Puts a run of blocks on the list, if there is one.
    fn choose(&mut self, streams: &mut Streams, now_ns: u64) -> bool {
        let Settings { rule, cluster, .. } = self.settings;
        let Some((mut block, count)) = choose::run(streams, now_ns, rule, cluster) else {
            return false;
        };
        for _ in 0..count {
            streams.unlist_dirty(block);
            streams.blocks[block].state = State::Delayed;
            streams.blocks.push(&mut self.list, block);
            streams.tally(block, |counts| counts.delayed += 1);
            block = streams.blocks[block].next;
        }
        true
    }

    /// Takes a block off the list, unwritten.
    pub fn cancel(&mut self, streams: &mut Streams, block: u32) {
        streams.blocks.unlink(&mut self.list, block);
        streams.tally(block, |counts| counts.cancelled += 1);
        streams.dirty_again(block);
    }

    /// A reader has come to a run that is to be written: none of it is.
    pub fn reader_at(&mut self, streams: &mut Streams, first: u32) {
        if self.settings.rule == Rule::WriteThrough {
            return;
        }
        let mut block = first;
        for _ in 0..self.settings.cluster {
            if block == NONE || streams.blocks[block].state != State::Delayed {
                return;
            }
            let next = streams.blocks[block].next;
            self.cancel(streams, block);
            block = next;
        }
    }

    /// How many blocks in a row, from the one that has been on the list longest, up to a cluster.
    pub fn run(&self, streams: &Streams) -> u32 {
        let blocks = &streams.blocks;
        let (mut last, mut count) = (self.list.first, 1);
        while count < self.settings.cluster {
            let next = blocks[last].next;
            if next == NONE || blocks[next].state != State::Delayed {
                break;
            }
            (last, count) = (next, count + 1);
        }
        count
    }

    /// Begins to write so many of them to the file, from this place on.
    pub fn begin(&mut self, streams: &mut Streams, now_ns: u64, slot: u32, count: u32) -> Transfer {
        let mut transfer = Transfer::new(true, slot, now_ns);
        let mut block = self.list.first;
        for at in 0..count {
            streams.blocks.unlink(&mut self.list, block);
            let of = &mut streams.blocks[block];
            (of.state, of.slot) = (State::Writing, slot + at);
            transfer.push(block, of.frame);
            block = of.next;
        }
        self.writing += count;
        // In trouble one transfer is tried, and the others wait for how it fares.
        if let Some(trouble) = &mut self.trouble {
            trouble.patience_ns = (trouble.patience_ns * 2).clamp(PATIENCE_NS.0, PATIENCE_NS.1);
            trouble.retry_ns = now_ns.saturating_add(trouble.patience_ns);
        }
        transfer
    }

    /// What was being written is written, or could not be: the fault, if there was none before.
    pub fn ended(&mut self, now_ns: u64, transfer: &Transfer, fault: Option<i32>) -> Option<i32> {
        self.writing -= transfer.blocks().len() as u32;
        let before = self.trouble.take();
        let fault = fault?;
        let patience_ns = before.map_or(PATIENCE_NS.0, |before| before.patience_ns);
        let retry_ns = now_ns.saturating_add(patience_ns);
        self.trouble = Some(Trouble { fault, retry_ns, patience_ns });
        before.is_none().then_some(fault)
    }
}
