//! Which pages of a region are in memory: how many come in at a fault, which go, and when dirty
//! ones are written.
//!
//! Joy and Babaoglu 1980: pages come in clusters, dirty neighbours are written together, a circular
//! or random choice of the page that goes is nearly as good as any, and a page that is still in
//! memory on its way out is reclaimed instead of read. A region has a budget of frames and a file
//! with a place for each page.
//!
//! [`PagingPolicy`] is told of touches and of the ends of transfers, and queues what is to be done
//! ([`PagingPolicy::action`]). Nothing here waits, reads a clock, or allocates after
//! [`PagingPolicy::new`] and [`PagingPolicy::grow`].
//!
//! A policy joins parts: the `PageTable`, the `PageFrames`, the `Intake` of pages at a fault, the
//! choice of `Victims` that leave, and the count of `GonePages`.

mod cluster;
mod frames;
mod gone;
mod intake;
mod protocol;
pub mod sharing;
pub mod swapping;
mod table;
mod victims;

pub use protocol::{
    Advice, LEAST_FRAMES, MOST_CLUSTER, PageReplacement, PagingAction, PagingCounts,
    PagingSettings, Run, Touch,
};

use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;
use frames::{NONE, PageFrames};
use gone::GonePages;
use intake::Intake;
use table::{COLD, DIRTY, FILED, GOES, LEAVING, PageEntry, PageTable, Place, REFERENCED, UNASKED};
use victims::Victims;

/// The decisions of one region.
#[derive(Debug)]
pub struct PagingPolicy {
    settings: PagingSettings,
    pages: PageTable,
    frames: PageFrames,
    intake: Intake,
    victims: Victims,
    gone: GonePages,
    /// Pages touched now are not marked as referenced, and go first.
    sweeps: bool,
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
        let (mut pages, mut actions) = (PageTable::default(), VecDeque::new());
        pages.grow(settings.pages)?;
        if settings.starts_filed {
            pages.fill();
        }
        // Each page in memory is in one write, drop or look at most, and two runs come in.
        actions.try_reserve_exact(2 * settings.frames as usize + 5)?;
        Ok(PagingPolicy {
            settings,
            pages,
            frames: PageFrames::new(settings.frames)?,
            intake: Intake::new(settings)?,
            victims: Victims::new(settings)?,
            gone: GonePages::new(settings.frames),
            sweeps: false,
            counts: PagingCounts::default(),
            actions,
        })
    }

    /// Adds empty pages, up to `pages` in all.
    ///
    /// # Errors
    /// There is no memory for the table.
    pub fn grow(&mut self, pages: u32) -> Result<(), TryReserveError> {
        self.pages.grow(pages)
    }

    /// Whether there is something to do.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
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

    /// How many frames may be used at present.
    pub fn limit(&self) -> u32 {
        self.frames.limit()
    }

    /// Sets how many frames may be used, at most those of the settings. If more are used, pages
    /// leave: call this again while they do, since pages can be touched on their way out.
    pub fn set_limit(&mut self, frames: u32) {
        self.victims.fails = false;
        self.frames.set_limit(frames.max(LEAST_FRAMES));
        if self.frames.used() > self.frames.limit() {
            self.balance(0);
        }
    }

    /// How many more frames a fault would use if it could: pages must go for it.
    pub fn lacks(&self) -> u32 {
        let most = (self.settings.frames - self.frames.limit()).min(2 * self.cluster());
        if self.frames.free() < 2 * self.cluster() { most } else { 0 }
    }

    /// Sets the frames that the region could have if it were alone. Faults are counted
    /// ([`PagingCounts::again`]) that would not have been then.
    pub fn set_reach(&mut self, frames: u32) {
        self.gone.reach = frames;
    }

    /// Pages that a fault brings in at present.
    pub fn cluster(&self) -> u32 {
        self.intake.cluster(self.frames.limit())
    }

    /// Sets the expected order of touches.
    pub fn advise(&mut self, advice: Advice) {
        self.intake.advise(advice);
    }

    /// Begins or ends a sweep, whose touches do not count as use of a page.
    pub fn sweep(&mut self, sweeps: bool) {
        self.sweeps = sweeps;
    }

    /// Whether a touch would change nothing: the page is here, and is marked as used (and dirty).
    #[inline]
    pub fn is_hot(&self, page: u32, writes: bool) -> bool {
        let entry = &self.pages[page];
        let used = if self.settings.looks { 0 } else { REFERENCED };
        let wanted = used | if writes { DIRTY } else { 0 };
        let asked = wanted | UNASKED | LEAVING | COLD;
        entry.place == Place::Here && entry.flags & asked == wanted
    }

    /// Whether a page is in memory, unasked and untouched: where touches are seen by faults, such a
    /// page stays unmapped, so that the first one is seen.
    pub fn is_unasked(&self, page: u32) -> bool {
        self.pages[page].has(UNASKED)
    }

    /// Whether a page is in memory.
    pub fn is_here(&self, page: u32) -> bool {
        self.pages[page].place == Place::Here
    }

    /// The pages that are in memory or on their way in: the working set of the last while.
    pub fn working_set(&self) -> Vec<Run> {
        self.pages.working_set()
    }

    /// Learns that a page is touched now, and says where it is. If there is something to do after
    /// that, it is done before the touch, and the page touched again: it may have gone.
    pub fn touch(&mut self, page: u32, writes: bool) -> Touch {
        let entry = &mut self.pages[page];
        match entry.place {
            Place::Empty | Place::Filed => return Touch::Absent,
            Place::Coming => return Touch::Coming,
            Place::Here => {}
        }
        let (stays, was_unasked) = (entry.has(GOES), entry.has(UNASKED));
        self.counts.reclaimed += u64::from(stays);
        self.counts.used += u64::from(was_unasked);
        entry.flags &= !(UNASKED | GOES);
        if !self.sweeps {
            entry.flags &= !COLD;
            // Where touches are seen by faults, the pages that are asked for are no more used than
            // those that came with them. All of them go together.
            if stays || !self.settings.looks {
                entry.flags |= REFERENCED;
            }
        }
        if writes {
            entry.flags |= DIRTY;
        }
        // A sweep displaces as little as it can.
        if was_unasked && self.intake.reaches_marker(page) && !self.sweeps {
            self.come_ahead();
        }
        Touch::Here
    }

    /// Brings the next cluster of a sequence in, if that takes no frame from others: its transfer
    /// goes on while the program uses the one before.
    fn come_ahead(&mut self) {
        let next = self.intake.next_in_sequence(&self.pages, self.frames.limit());
        let Some(run) = next else { return };
        if self.frames.free() < run.count {
            return;
        }
        self.come(run, NONE);
        let behind = self.intake.follow(run, self.sweeps);
        self.let_go(behind);
        self.balance(0);
    }

    /// Decides what comes in for a page that is absent. False: no frame is free for it yet. Then
    /// writes are under way whose end brings some, or (none is) writing fails.
    pub fn bring(&mut self, page: u32) -> bool {
        self.victims.fails = false;
        let run = self.intake.run(&self.pages, page, self.cluster());
        // Half a cluster now is better than a whole one later, but not less than that.
        let wanted = if self.pages.leaving > 0 { run.count.div_ceil(2) } else { 1 };
        if self.frames.free() < wanted {
            self.balance(wanted);
            let wanted = if self.pages.leaving > 0 { wanted } else { 1 };
            if self.frames.free() < wanted {
                return false;
            }
        }
        let run = run.around(page, self.frames.free());
        let entry = &self.pages[page];
        let is_missed = self.gone.is_missed(entry, self.frames.limit());
        self.counts.again += u64::from(self.gone.has_just_gone(entry));
        let facts = (is_missed, self.gone.count > 0);
        self.intake.fault(&self.pages, page, self.counts.hard, facts);
        self.come(run, page);
        self.counts.hard += 1;
        let behind = self.intake.brought(run, self.counts.hard, self.sweeps);
        self.let_go(behind);
        self.balance(0);
        true
    }

    /// Brings a page in before it is touched, if that takes no frame from others. False: it did
    /// not.
    pub fn bring_ahead(&mut self, page: u32) -> bool {
        let most = self.intake.most_cluster(self.frames.limit());
        let run = self.intake.run(&self.pages, page, most);
        if self.pages[page].has_frame() || self.frames.free() < run.count {
            return false;
        }
        self.come(run, NONE);
        true
    }

    /// Brings the first pages of a run in, and none beside them. Returns how many pages of the run
    /// are done. `None`: no frame is free.
    pub fn bring_exactly(&mut self, run: Run) -> Option<u32> {
        let first = *self.pages.get(run.first)?;
        if first.has_frame() {
            return Some(1);
        }
        let most = self.intake.most_cluster(self.frames.limit()).min(self.frames.free());
        let alike = run.first..run.first + run.count.min(most);
        let count = self.pages.row(alike, |entry| entry.place == first.place);
        if count == 0 {
            return None;
        }
        self.come(Run { first: run.first, count }, NONE);
        Some(count)
    }

    /// Gives frames to absent pages, which come in for `asked` (or for none).
    fn come(&mut self, run: Run, asked: u32) {
        let filed = self.pages[run.first].place == Place::Filed;
        let probe = match (self.intake.mark(run, asked), run.count) {
            (Some(marker), _) => marker,
            (None, 1) => asked,
            (None, count) => {
                let at = run.first + self.frames.below(count - 1);
                if at >= asked { at + 1 } else { at }
            }
        };
        for page in run.pages() {
            let Some(frame) = self.frames.take(page) else { return };
            let entry = &mut self.pages[page];
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
            self.actions.push_back(PagingAction::Read(run));
        } else {
            self.actions.push_back(PagingAction::Zero(run));
        }
    }

    /// Learns that pages came in, or that they could not be read.
    pub fn came(&mut self, run: Run, succeeded: bool) {
        for page in run.pages() {
            let entry = &mut self.pages[page];
            if entry.place != Place::Coming {
                continue;
            }
            if succeeded {
                entry.place = Place::Here;
            } else {
                self.frames.give_back(entry.go(FILED));
            }
        }
        if !succeeded {
            self.actions.push_back(PagingAction::Drop(run));
        }
    }

    /// Lets the pages of a run go before others.
    pub fn let_go(&mut self, run: Run) {
        run.pages().for_each(|page| self.victims.evict_first(&mut self.pages, page));
    }

    /// The frames that are kept free or made free: two clusters, or `wanted`; and no more than there
    /// are pages without one, so a region that fits into its memory stays there.
    fn reserve(&self, wanted: u32) -> u32 {
        let without = self.pages.count().saturating_sub(self.frames.used());
        (2 * self.cluster()).clamp(1, self.frames.limit() / 4).min(without).max(wanted)
    }

    /// Lets pages go until enough frames are free or will be.
    fn balance(&mut self, wanted: u32) {
        // Twice around: the first pass may only clear the marks of pages that were touched.
        let mut looks = 2 * self.frames.count() + self.victims.cold.len() as u32;
        let over = self.frames.used().saturating_sub(self.frames.limit());
        let wanted = self.reserve(wanted) + over;
        while self.frames.free() + self.pages.leaving < wanted && looks > 0 {
            looks -= 1;
            if let Some(page) = self.victims.next(&mut self.pages, &mut self.frames) {
                self.leave(page);
            }
        }
    }

    /// Lets a page go, with neighbours.
    fn leave(&mut self, page: u32) {
        let goes_with_neighbour = |entry: &_| self.victims.goes_with_neighbour(entry, &self.frames);
        let run = self.pages.widen(Run { first: page, count: 1 }, goes_with_neighbour);
        self.pages.leave(run, GOES);
        if self.settings.looks {
            self.actions.push_back(PagingAction::Look(run));
        } else {
            self.part(run);
        }
    }

    /// Writes the dirty pages of a run that leaves, and drops the others.
    fn part(&mut self, run: Run) {
        let mut rest = run.pages();
        while !rest.is_empty() {
            let dirty = self.pages[rest.start].has(DIRTY);
            let count = self.pages.row(rest.clone(), |entry| entry.has(DIRTY) == dirty);
            let part = Run { first: rest.start, count };
            rest.start += count;
            if dirty { self.write(part) } else { self.settle(part) }
        }
    }

    /// Writes dirty pages, and dirty neighbours along.
    fn write(&mut self, run: Run) {
        let is_along = |entry: &_| !self.settings.looks && self.victims.is_written_along(entry);
        let run = self.pages.widen(run, is_along);
        self.pages.leave(run, 0);
        run.pages().for_each(|page| self.pages[page].flags &= !DIRTY);
        self.counts.writes += 1;
        self.counts.written += u64::from(run.count);
        self.actions.push_back(PagingAction::Write(run));
    }

    /// Ends the leaving of pages that are clean, or were touched meanwhile.
    fn settle(&mut self, run: Run) {
        let mut dropped = Run { first: run.first, count: 0 };
        let stamp = self.gone.stamp();
        for page in run.pages() {
            let Some(frame) = self.pages.settle(page, stamp) else {
                self.drop_pages(&mut dropped, page + 1);
                continue;
            };
            self.gone.count += 1;
            self.frames.give_back(frame);
            dropped.count += 1;
        }
        self.drop_pages(&mut dropped, 0);
    }

    fn drop_pages(&mut self, dropped: &mut Run, next: u32) {
        if dropped.count > 0 {
            self.actions.push_back(PagingAction::Drop(*dropped));
        }
        *dropped = Run { first: next, count: 0 };
    }

    /// Learns which pages of a run that leaves were written since they came: bit 0 is the first.
    pub fn looked(&mut self, run: Run, written: u32) {
        for page in run.pages() {
            if written >> (page - run.first) & 1 != 0 {
                self.pages[page].flags |= DIRTY;
            }
        }
        self.part(run);
    }

    /// Learns that pages were written to the file, or could not be.
    pub fn written(&mut self, run: Run, succeeded: bool) {
        for page in run.pages() {
            let entry = &mut self.pages[page];
            // The file may have some of the bytes even after a failure.
            entry.flags |= FILED;
            if !succeeded {
                entry.flags |= DIRTY;
                self.counts.written -= 1;
            }
        }
        self.victims.fails |= !succeeded;
        self.counts.writes -= u64::from(!succeeded);
        self.settle(run);
    }

    /// Begins to write the next dirty pages at or after a page, and returns where to continue.
    /// Where the driver looks, it first looks at all pages in memory. `None`: there are no more.
    pub fn flush(&mut self, from: u32) -> Option<u32> {
        let looks = self.settings.looks;
        let is_wanted = |entry: &PageEntry| entry.rests() && (looks || entry.has(DIRTY));
        let first = self.pages.find(from, is_wanted)?;
        let run = self.pages.widen(Run { first, count: 1 }, is_wanted);
        let run = Run { first, count: run.first + run.count - first };
        if looks {
            self.pages.leave(run, 0);
            self.actions.push_back(PagingAction::Look(run));
        } else {
            self.write(run);
        }
        Some(run.first + run.count)
    }
}
