//! Which pages of a region are in memory: how many come in at a fault, which go, and when dirty ones
//! are written.
//!
//! Joy and Babaoglu 1980: pages come in clusters, dirty neighbours are written together, a circular
//! or random choice of the page that goes is nearly as good as any, and a page that is still in
//! memory on its way out is reclaimed instead of read. A region has a budget of frames and a file
//! with a place for each page.
//!
//! [`PagingPolicy`] is told of touches and of the ends of transfers, and queues what is to be done
//! ([`PagingPolicy::action`]). Nothing here waits, reads a clock, or allocates after
//! [`PagingPolicy::new`] and [`PagingPolicy::grow`].

mod cluster;
mod frames;
mod leave;
mod protocol;
mod share;
pub mod sharing;
pub mod swapping;

pub use protocol::{
    Advice, LEAST_FRAMES, MOST_CLUSTER, PagingAction, PagingCounts, PagingSettings, Replacement,
    Run, Touch,
};

use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;
use cluster::ClusterSize;
use frames::{NONE, PageFrames};

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nowhere: it was never written, and reads as zeros.
    Empty,
    /// In the file only.
    Filed,
    /// On its way into memory.
    Coming,
    /// In memory.
    Here,
}

/// It differs from its place in the file.
const DIRTY: u8 = 1;
/// It was touched since the hand passed.
const REFERENCED: u8 = 2;
/// It came unasked, and has not been touched.
const UNASKED: u8 = 4;
/// Its place in the file has had bytes.
const FILED: u8 = 8;
/// It is being written, or looked at before that.
const LEAVING: u8 = 16;
/// It goes when it has been written, unless it is touched before.
const GOES: u8 = 32;
/// It goes before others.
const COLD: u8 = 64;

/// A page's frame may be this far before the hand when it goes along with its neighbour.
const ALONG: u32 = 2 * MOST_CLUSTER;

#[derive(Clone, Copy, Debug)]
struct PageEntry {
    place: Place,
    flags: u8,
    /// When it went, by the count of pages that have gone.
    gone: u16,
    frame: u32,
}

const EMPTY: PageEntry = PageEntry { place: Place::Empty, flags: 0, gone: 0, frame: NONE };

/// The decisions of one region.
#[derive(Debug)]
pub struct PagingPolicy {
    settings: PagingSettings,
    pages: Vec<PageEntry>,
    frames: PageFrames,
    cluster: ClusterSize,
    advice: Advice,
    /// Pages touched now are not marked as referenced, and go first.
    sweeps: bool,
    cold: VecDeque<u32>,
    /// Clusters that a sequential reader has left behind.
    last: [Run; 2],
    /// Frames of pages that leave.
    leaving: u32,
    /// Writing fails at present.
    fails: bool,
    /// Pages that have gone.
    gone: u64,
    /// The memory that might be had instead ([`PagingPolicy::set_reach`]).
    reach: u32,
    counts: PagingCounts,
    actions: VecDeque<PagingAction>,
}

impl PagingPolicy {
    /// Makes the policy of a region whose pages are all empty, or all in the file.
    ///
    /// # Errors
    /// There is no memory for the tables.
    pub fn new(settings: PagingSettings) -> Result<PagingPolicy, TryReserveError> {
        let settings = settings.bounded();
        let (mut cold, mut actions) = (VecDeque::new(), VecDeque::new());
        cold.try_reserve_exact(settings.frames as usize)?;
        // Each page in memory is in one write, drop or look at most, and one run comes in.
        actions.try_reserve_exact(2 * settings.frames as usize + 4)?;
        let mut policy = PagingPolicy {
            settings,
            pages: Vec::new(),
            frames: PageFrames::new(settings.frames)?,
            cluster: ClusterSize::new(settings.most_cluster)?,
            advice: Advice::Normal,
            sweeps: false,
            cold,
            last: [Run { first: 0, count: 0 }; 2],
            leaving: 0,
            fails: false,
            gone: 0,
            reach: 0,
            counts: PagingCounts::default(),
            actions,
        };
        policy.grow(settings.pages)?;
        if settings.starts_filed {
            let filed = PageEntry { place: Place::Filed, flags: FILED, ..EMPTY };
            policy.pages.fill(filed);
        }
        Ok(policy)
    }

    /// Adds empty pages, up to `pages` in all.
    ///
    /// # Errors
    /// There is no memory for the table.
    pub fn grow(&mut self, pages: u32) -> Result<(), TryReserveError> {
        let more = (pages as usize).saturating_sub(self.pages.len());
        self.pages.try_reserve_exact(more)?;
        self.pages.resize(self.pages.len() + more, EMPTY);
        Ok(())
    }

    /// Takes the next thing to do from the queue.
    pub fn action(&mut self) -> Option<PagingAction> {
        self.actions.pop_front()
    }

    /// The counts so far.
    pub fn counts(&self) -> PagingCounts {
        self.counts
    }

    /// Frames in use now, and at most.
    pub fn frames_used(&self) -> (u32, u32) {
        (self.frames.used(), self.frames.most_used())
    }

    /// Pages that a fault brings in at present.
    pub fn cluster(&self) -> u32 {
        match self.advice {
            Advice::Normal => self.cluster.pages().min(self.most_cluster()),
            Advice::Random => 1,
            Advice::Sequential => self.most_cluster(),
        }
    }

    /// The largest cluster: at most a quarter of the frames that it may use.
    fn most_cluster(&self) -> u32 {
        self.settings.most_cluster.min(1 << (self.frames.limit() / 4).max(1).ilog2())
    }

    /// Sets the expected order of touches.
    pub fn advise(&mut self, advice: Advice) {
        self.advice = advice;
        self.last = [Run { first: 0, count: 0 }; 2];
    }

    /// Begins or ends a sweep, whose touches do not count as use of a page.
    pub fn sweep(&mut self, sweeps: bool) {
        self.sweeps = sweeps;
    }

    /// Whether a touch would change nothing: the page is here, and is marked as used (and dirty).
    #[inline]
    pub fn is_hot(&self, page: u32, writes: bool) -> bool {
        let entry = &self.pages[page as usize];
        let asked = REFERENCED | UNASKED | LEAVING | COLD | if writes { DIRTY } else { 0 };
        let wanted = REFERENCED | if writes { DIRTY } else { 0 };
        entry.place == Place::Here && entry.flags & asked == wanted
    }

    /// Whether a page is in memory, unasked and untouched: where touches are seen by faults, such a
    /// page stays unmapped, so that the first one is seen.
    pub fn is_unasked(&self, page: u32) -> bool {
        self.pages[page as usize].flags & UNASKED != 0
    }

    /// Learns that a page is touched now, and says where it is.
    pub fn touch(&mut self, page: u32, writes: bool) -> Touch {
        let sweeps = self.sweeps;
        let entry = &mut self.pages[page as usize];
        match entry.place {
            Place::Empty | Place::Filed => return Touch::Absent,
            Place::Coming => return Touch::Coming,
            Place::Here => {}
        }
        if entry.flags & GOES != 0 {
            self.counts.reclaimed += 1;
        }
        self.counts.used += u64::from(entry.flags & UNASKED != 0);
        entry.flags &= !(UNASKED | GOES);
        if !sweeps {
            entry.flags = entry.flags & !COLD | REFERENCED;
        }
        if writes {
            entry.flags |= DIRTY;
        }
        Touch::Here
    }

    /// Decides what comes in for a page that is absent. False: no frame is free for it yet. Then
    /// writes are under way whose end brings some, or (none is) writing fails.
    pub fn bring(&mut self, page: u32) -> bool {
        self.fails = false;
        let run = self.run_in(page, self.cluster());
        let free = self.frames.free();
        // Half a cluster now is better than a whole one later, but not less than that.
        let wanted = if self.leaving > 0 { run.count.div_ceil(2) } else { 1 };
        if free < wanted {
            self.balance(wanted);
            let wanted = if self.leaving > 0 { wanted } else { 1 };
            if self.frames.free() < wanted {
                return false;
            }
        }
        let run = run.around(page, self.frames.free());
        self.learn(page);
        self.counts.again += u64::from(self.has_just_gone(page));
        self.come(run, page);
        self.counts.hard += 1;
        if self.advice == Advice::Normal {
            self.cluster.watch(run, self.counts.hard);
        }
        self.leave_behind(run);
        self.balance(0);
        true
    }

    /// Brings a page in before it is touched, if that takes no frame from others. False: it did not.
    pub fn bring_ahead(&mut self, page: u32) -> bool {
        let is_absent = matches!(self.pages[page as usize].place, Place::Empty | Place::Filed);
        let run = self.run_in(page, self.most_cluster());
        if !is_absent || self.frames.free() < run.count {
            return false;
        }
        self.come(run, NONE);
        true
    }

    /// Learns from a fault, and from clusters that came some time ago.
    fn learn(&mut self, page: u32) {
        if self.advice != Advice::Normal {
            return;
        }
        let number = self.counts.hard;
        self.cluster.fault(page, number, self.is_missed(page));
        let age = u64::from(self.frames.count() / (2 * self.cluster.pages())).clamp(4, 64);
        while let Some(ripe) = self.cluster.ripe(number, age) {
            let unused = ripe.run.pages().filter(|page| self.is_unasked(*page)).count();
            // Where touches are seen by faults, one page of the cluster stands for the others.
            let seen = if self.settings.looks { 1 } else { ripe.run.count - 1 };
            self.cluster.outcome(seen.saturating_sub(unused as u32), seen, number);
        }
    }

    /// The pages in a row that may come in for a page: all in the file, or all empty.
    fn run_in(&self, page: u32, cluster: u32) -> Run {
        let place = self.pages[page as usize].place;
        let is_alike =
            |other: u32| self.pages.get(other as usize).is_some_and(|entry| entry.place == place);
        let upwards = self.advice == Advice::Sequential;
        let low = if upwards { page } else { page - page % cluster };
        let high = low.saturating_add(cluster).min(self.pages.len() as u32);
        let first = (low..page).rev().take_while(|other| is_alike(*other)).last().unwrap_or(page);
        let count = (first..high).take_while(|other| is_alike(*other)).count() as u32;
        Run { first, count }
    }

    /// Gives frames to absent pages, which come in for `asked` (or for none).
    fn come(&mut self, run: Run, asked: u32) {
        let filed = self.pages[run.first as usize].place == Place::Filed;
        let probe = match run.count {
            1 => asked,
            count => {
                let at = run.first + self.frames.below(count - 1);
                if at >= asked { at + 1 } else { at }
            }
        };
        for page in run.pages() {
            let Some(frame) = self.frames.take(page) else { return };
            let entry = &mut self.pages[page as usize];
            entry.place = Place::Coming;
            entry.frame = frame;
            entry.flags &= FILED;
            let is_seen = page != asked && (!self.settings.looks || page == probe);
            if is_seen {
                entry.flags |= UNASKED;
            }
            self.counts.unasked += u64::from(page != asked);
            self.counts.seen += u64::from(is_seen);
        }
        if filed {
            self.counts.read += u64::from(run.count);
            self.counts.reads += 1;
        }
        self.actions.push_back(if filed {
            PagingAction::Read(run)
        } else {
            PagingAction::Zero(run)
        });
    }

    /// Learns that pages came in, or that they could not be read.
    pub fn came(&mut self, run: Run, succeeded: bool) {
        for page in run.pages() {
            let entry = &mut self.pages[page as usize];
            if entry.place != Place::Coming {
                continue;
            }
            if succeeded {
                entry.place = Place::Here;
                continue;
            }
            entry.place = if entry.flags & FILED != 0 { Place::Filed } else { Place::Empty };
            entry.flags &= FILED;
            self.frames.give_back(entry.frame);
            entry.frame = NONE;
        }
        if succeeded && self.sweeps {
            run.pages().for_each(|page| self.goes_first(page));
        } else if !succeeded {
            self.actions.push_back(PagingAction::Drop(run));
        }
    }

    /// Whether a page is in memory.
    pub fn is_here(&self, page: u32) -> bool {
        self.pages[page as usize].place == Place::Here
    }
}
