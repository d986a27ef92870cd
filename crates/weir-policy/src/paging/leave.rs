//! How pages leave memory: whose turn it is, which neighbours go or are written along, and what
//! becomes of them when they are written.

use super::frames::NONE;
use super::{
    ALONG, Advice, COLD, DIRTY, FILED, GOES, LEAVING, MOST_CLUSTER, PagingAction, PagingPolicy,
    Place, REFERENCED, Replacement, Run,
};

impl PagingPolicy {
    /// Lets a page go before others. It stays if it is touched.
    pub(super) fn goes_first(&mut self, page: u32) {
        let entry = &mut self.pages[page as usize];
        if entry.place == Place::Here && self.cold.len() < self.cold.capacity() {
            entry.flags = entry.flags & !REFERENCED | COLD;
            self.cold.push_back(page);
        }
    }

    /// Lets the pages of a run go before others.
    pub fn let_go(&mut self, run: Run) {
        run.pages().for_each(|page| self.goes_first(page));
    }

    /// Lets go what a sequential reader has left behind.
    pub(super) fn leave_behind(&mut self, run: Run) {
        if self.advice == Advice::Sequential {
            self.let_go(self.last[0]);
            self.last = [self.last[1], run];
        }
    }

    /// The frames that are kept free or made free: two clusters, or `wanted`.
    fn reserve(&self, wanted: u32) -> u32 {
        (2 * self.cluster()).clamp(1, self.frames.limit() / 4).max(wanted)
    }

    /// Lets pages go until enough frames are free or will be.
    pub(super) fn balance(&mut self, wanted: u32) {
        // Twice around: the first pass may only clear the marks of pages that were touched.
        let mut looks = 2 * self.frames.count() + self.cold.len() as u32;
        let over = self.frames.used().saturating_sub(self.frames.limit());
        let wanted = self.reserve(wanted) + over;
        while self.frames.free() + self.leaving < wanted && looks > 0 {
            looks -= 1;
            if let Some(page) = self.next_victim() {
                self.leave(page);
            }
        }
    }

    /// The page that the rule lets go, if the one it looks at can go.
    fn next_victim(&mut self) -> Option<u32> {
        while let Some(page) = self.cold.pop_front() {
            if self.may_go(page) && self.pages[page as usize].flags & COLD != 0 {
                return Some(page);
            }
        }
        let rule = self.settings.replacement;
        let (_, page) = self.frames.next(rule);
        if page == NONE || !self.may_go(page) {
            return None;
        }
        let entry = &mut self.pages[page as usize];
        if rule == Replacement::Clock && entry.flags & REFERENCED != 0 {
            entry.flags &= !REFERENCED;
            return None;
        }
        Some(page)
    }

    fn may_go(&self, page: u32) -> bool {
        let entry = &self.pages[page as usize];
        let stuck = self.fails && entry.flags & DIRTY != 0;
        entry.place == Place::Here && entry.flags & LEAVING == 0 && !stuck
    }

    /// Whether a page goes along with its neighbour: its turn comes soon, and it was not touched.
    fn goes_along(&self, page: u32) -> bool {
        if !self.may_go(page) {
            return false;
        }
        let entry = &self.pages[page as usize];
        let soon = self.settings.replacement != Replacement::Random
            && (self.frames.turns_until(entry.frame) < ALONG || entry.flags & COLD != 0);
        entry.flags & REFERENCED == 0 && soon
    }

    /// Whether a page is written along with its neighbour.
    fn is_written_along(&self, page: u32) -> bool {
        let entry = self.pages.get(page as usize);
        self.may_go(page) && entry.is_some_and(|entry| entry.flags & DIRTY != 0)
    }

    /// The longest run around one that meets a condition, within a block of the largest cluster.
    fn widen(&self, run: Run, meets: impl Fn(&Self, u32) -> bool) -> Run {
        let low = run.first - run.first % MOST_CLUSTER;
        let high = (low + MOST_CLUSTER).min(self.pages.len() as u32);
        let (mut first, mut end) = (run.first, run.first + run.count);
        while first > low && meets(self, first - 1) {
            first -= 1;
        }
        while end < high && meets(self, end) {
            end += 1;
        }
        Run { first, count: end - first }
    }

    /// Lets a page go, with neighbours.
    fn leave(&mut self, page: u32) {
        let run = self.widen(Run { first: page, count: 1 }, PagingPolicy::goes_along);
        for page in run.pages() {
            self.pages[page as usize].flags |= LEAVING | GOES;
        }
        self.leaving += run.count;
        if self.settings.looks {
            self.actions.push_back(PagingAction::Look(run));
        } else {
            self.part(run);
        }
    }

    /// Writes the dirty pages of a run that leaves, and drops the others.
    fn part(&mut self, run: Run) {
        let mut page = run.first;
        while page < run.first + run.count {
            let is_dirty = |policy: &Self, page: u32| {
                policy.pages.get(page as usize).is_some_and(|entry| entry.flags & DIRTY != 0)
            };
            let dirty = is_dirty(self, page);
            let same = (page..run.first + run.count)
                .take_while(|other| is_dirty(self, *other) == dirty)
                .count() as u32;
            let part = Run { first: page, count: same };
            page += same;
            if dirty { self.write(part) } else { self.settle(part) }
        }
    }

    /// Writes dirty pages, and dirty neighbours along.
    fn write(&mut self, run: Run) {
        let run =
            if self.settings.looks { run } else { self.widen(run, PagingPolicy::is_written_along) };
        for page in run.pages() {
            let entry = &mut self.pages[page as usize];
            self.leaving += u32::from(entry.flags & LEAVING == 0);
            entry.flags = entry.flags & !DIRTY | LEAVING;
        }
        self.counts.writes += 1;
        self.counts.written += u64::from(run.count);
        self.actions.push_back(PagingAction::Write(run));
    }

    /// Ends the leaving of pages that are clean, or were touched meanwhile.
    fn settle(&mut self, run: Run) {
        let mut dropped = Run { first: run.first, count: 0 };
        let stamp = super::share::stamp(self.gone, self.counted_reach());
        for page in run.pages() {
            let entry = &mut self.pages[page as usize];
            let goes = entry.flags & (GOES | DIRTY) == GOES;
            self.leaving -= u32::from(entry.flags & LEAVING != 0);
            entry.flags &= !(LEAVING | GOES);
            if !goes {
                self.drop_pages(&mut dropped, page + 1);
                continue;
            }
            entry.place = if entry.flags & FILED != 0 { Place::Filed } else { Place::Empty };
            self.gone += 1;
            entry.gone = stamp;
            // Whether it was used is still asked later.
            entry.flags &= FILED | super::UNASKED;
            let frame = core::mem::replace(&mut entry.frame, NONE);
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
                self.pages[page as usize].flags |= DIRTY;
            }
        }
        self.part(run);
    }

    /// Learns that pages were written to the file, or could not be.
    pub fn written(&mut self, run: Run, succeeded: bool) {
        for page in run.pages() {
            let entry = &mut self.pages[page as usize];
            // The file may have some of the bytes even after a failure.
            entry.flags |= FILED;
            if !succeeded {
                entry.flags |= DIRTY;
                self.counts.written -= 1;
            }
        }
        self.fails |= !succeeded;
        self.counts.writes -= u64::from(!succeeded);
        self.settle(run);
    }

    /// Begins to write the next dirty pages at or after a page, and returns where to go on. Where
    /// the driver looks, it first looks at all pages in memory. `None`: there are no more.
    pub fn flush(&mut self, from: u32) -> Option<u32> {
        let looks = self.settings.looks;
        let is_wanted = |policy: &Self, page: u32| {
            policy.pages.get(page as usize).is_some_and(|entry| {
                let free = entry.place == Place::Here && entry.flags & LEAVING == 0;
                free && (looks || entry.flags & DIRTY != 0)
            })
        };
        let page = (from..self.pages.len() as u32).find(|page| is_wanted(self, *page))?;
        let run = self.widen(Run { first: page, count: 1 }, is_wanted);
        let run = Run { first: page, count: run.first + run.count - page };
        if looks {
            for page in run.pages() {
                self.pages[page as usize].flags |= LEAVING;
            }
            self.leaving += run.count;
            self.actions.push_back(PagingAction::Look(run));
        } else {
            self.write(run);
        }
        Some(run.first + run.count)
    }
}
