//! When blocks are put on the laundry list, when they are written, and what becomes of them.

use super::blocks::{NONE, State};
use super::transfers::Transfer;
use super::{Action, Pool, Rule};

/// First time after a failed write until the next is tried, and the longest.
const PATIENCE_NS: (u64, u64) = (10_000_000, 1_000_000_000);
/// Most clusters that are being written while frames are short: what keeps a disk busy.
const MOST_PRESSED: u32 = 16;

impl Pool {
    /// Frames that are free, or will be when what is being written is written.
    fn coming(&self) -> u32 {
        self.available() + self.writing
    }

    /// Writing begins when fewer frames than this are coming.
    fn start_level(&self) -> u32 {
        let clusters = match self.settings.rule {
            Rule::Bbn => 1,
            _ => self.pressed,
        };
        self.reserve() + (clusters * self.cluster).min(self.settings.frames / 4)
    }

    /// Whether what is on the laundry list is to be written now.
    pub(super) fn is_short(&self) -> bool {
        self.settings.rule == Rule::WriteThrough || self.coming() < self.start_level()
    }

    /// A writer has to wait: from now on writing begins earlier.
    pub(super) fn press(&mut self) {
        self.pressed = (self.pressed * 2).min(MOST_PRESSED);
    }

    /// Blocks are chosen when fewer frames than this are coming, or could be written.
    fn choose_level(&self) -> u32 {
        match self.settings.rule {
            Rule::Bbn => self.start_level(),
            _ => self.start_level() + self.cluster,
        }
    }

    /// Chooses, starts, or lets off, as frames run short or come free.
    pub(super) fn balance(&mut self, now_ns: u64) {
        if self.settings.slots == 0 {
            return;
        }
        let through = self.settings.rule == Rule::WriteThrough;
        if through {
            while self.choose(now_ns) > 0 {}
        } else {
            let relief = self.choose_level() + self.cluster;
            while self.laundry.count > 0 && self.coming() + self.laundry.count > relief {
                self.cancel(self.laundry.last);
            }
            // As many again as the highest level: the pressure is over.
            if self.available() > 2 * MOST_PRESSED * self.cluster {
                self.pressed = 1;
            }
            while self.coming() + self.laundry.count < self.choose_level() {
                if self.choose(now_ns) == 0 {
                    break;
                }
            }
        }
        while self.laundry.count > 0 && self.is_short() {
            if self.trouble.is_some() && now_ns < self.retry_ns || !self.start(now_ns) {
                break;
            }
        }
    }

    /// Begins to write the blocks that have been on the list longest, as many in a row as there
    /// are, up to a cluster.
    fn start(&mut self, now_ns: u64) -> bool {
        let first = self.laundry.first;
        if !self.transfers.has_room() {
            return false;
        }
        let mut wanted = 1;
        let mut last = first;
        while wanted < self.cluster {
            let next = self.blocks[last].next;
            if next == NONE || self.blocks[next].state != State::Delayed {
                break;
            }
            (last, wanted) = (next, wanted + 1);
        }
        let Some((slot, count)) = self.slots.take(wanted) else { return false };
        self.most_slots = self.most_slots.max(self.slots.used());
        let mut transfer = Transfer::new(true, slot, now_ns);
        let mut block = first;
        for at in 0..count {
            self.blocks.unlink(&mut self.laundry, block);
            self.blocks[block].state = State::Writing;
            self.blocks[block].slot = slot + at;
            transfer.push(block, self.blocks[block].frame);
            block = self.blocks[block].next;
        }
        self.writing += count;
        // In trouble one transfer is tried, and the others wait for how it fares.
        if self.trouble.is_some() {
            self.patience_ns = (self.patience_ns * 2).clamp(PATIENCE_NS.0, PATIENCE_NS.1);
            self.retry_ns = now_ns.saturating_add(self.patience_ns);
        }
        if let Some(number) = self.transfers.begin(transfer) {
            self.actions.push_back(Action::Begin { transfer: number });
        }
        true
    }

    /// Takes a block off the laundry list, unwritten.
    pub(super) fn cancel(&mut self, block: u32) {
        self.blocks.unlink(&mut self.laundry, block);
        let at = self.blocks[block].stream as usize;
        self.streams[at].counts.cancelled += 1;
        self.counts.cancelled += 1;
        self.dirty_again(block);
    }

    /// A transfer is over.
    pub(super) fn done(&mut self, now_ns: u64, number: u32, fault: Option<i32>) {
        let Some(transfer) = self.transfers.end(number) else { return };
        if !transfer.writes {
            self.came_back(now_ns, &transfer, fault);
            return;
        }
        self.writing -= transfer.blocks().len() as u32;
        match fault {
            None => {
                self.trouble = None;
                self.patience_ns = 0;
            }
            Some(fault) => self.fails(now_ns, fault),
        }
        for &block in transfer.blocks() {
            self.written(block, fault.is_none());
        }
    }

    fn fails(&mut self, now_ns: u64, fault: i32) {
        if self.trouble.replace(fault).is_none() {
            self.patience_ns = PATIENCE_NS.0;
            self.actions.push_back(Action::Trouble { fault });
        }
        self.retry_ns = now_ns.saturating_add(self.patience_ns);
    }

    fn written(&mut self, block: u32, well: bool) {
        let at = self.blocks[block].stream as usize;
        let gone = self.blocks[block].gone;
        if well {
            self.counts.spilled += 1;
        } else {
            self.counts.cancelled += 1;
        }
        if !gone {
            let counts = &mut self.streams[at].counts;
            *(if well { &mut counts.spilled } else { &mut counts.cancelled }) += 1;
        }
        if gone {
            self.free.push(self.blocks[block].frame);
            self.slots.give_back(self.blocks[block].slot);
            self.blocks.drop(block);
        } else if well {
            self.blocks[block].state = State::Clean;
            if !self.streams[at].holds(block) {
                self.blocks.push(&mut self.clean, block);
            }
        } else {
            let slot = core::mem::replace(&mut self.blocks[block].slot, NONE);
            self.slots.give_back(slot);
            self.dirty_again(block);
        }
    }
}
