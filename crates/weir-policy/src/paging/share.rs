//! A region whose memory changes: it has a share of the frames of a pool.

use super::{FILED, PagingPolicy, Place, Run};
use alloc::vec::Vec;

/// Pages that have gone are counted in this part of the reach.
const PARTS: u64 = 16;

/// A count of pages that have gone, in parts of the reach.
pub(super) fn stamp(gone: u64, reach: u32) -> u16 {
    // The low bits: after 4096 reaches a page may be taken for one that has just gone.
    (gone / u64::from(reach).div_ceil(PARTS).max(1)) as u16
}

impl PagingPolicy {
    /// How many frames may be used at present.
    pub fn limit(&self) -> u32 {
        self.frames.limit()
    }

    /// Sets how many frames may be used, at most those of the settings. If more are used, pages
    /// leave: call this again while they do, since pages can be touched on their way out.
    pub fn set_limit(&mut self, frames: u32) {
        self.fails = false;
        self.frames.set_limit(frames.max(super::LEAST_FRAMES));
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
    /// ([`PagingCounts::again`](super::PagingCounts)) that would not have been then.
    pub fn set_reach(&mut self, frames: u32) {
        self.reach = frames;
    }

    /// The reach by which pages that have gone are counted: that which was set, or all frames.
    pub(super) fn counted_reach(&self) -> u32 {
        if self.reach == 0 { self.settings.frames } else { self.reach }
    }

    /// Whether fewer pages have gone since a page went than there are frames.
    pub(super) fn is_missed(&self, page: u32) -> bool {
        let entry = &self.pages[page as usize];
        let reach = self.counted_reach();
        let since = stamp(self.gone, reach).wrapping_sub(entry.gone);
        let parts = u64::from(self.frames.limit()) * PARTS / u64::from(reach.max(1));
        entry.flags & FILED != 0 && u64::from(since) < parts.max(1)
    }

    /// Whether no more pages have gone since a page went than memory could have held.
    pub(super) fn has_just_gone(&self, page: u32) -> bool {
        let entry = &self.pages[page as usize];
        let since = stamp(self.gone, self.reach.max(1)).wrapping_sub(entry.gone);
        self.reach > 0 && entry.flags & FILED != 0 && u64::from(since) <= PARTS
    }

    /// Brings the first pages of a run in, and none beside them. Returns how many pages of the run
    /// are done. `None`: no frame is free.
    pub fn bring_exactly(&mut self, run: Run) -> Option<u32> {
        let place = self.pages.get(run.first as usize)?.place;
        if matches!(place, Place::Here | Place::Coming) {
            return Some(1);
        }
        let most = run.count.min(self.most_cluster()).min(self.frames.free());
        let alike =
            |page: &u32| self.pages.get(*page as usize).is_some_and(|entry| entry.place == place);
        let count = (run.first..run.first + most).take_while(alike).count() as u32;
        if count == 0 {
            return None;
        }
        self.come(Run { first: run.first, count }, super::NONE);
        Some(count)
    }

    /// The pages that are in memory or on their way in: the working set of the last while.
    pub fn working_set(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (page, entry) in self.pages.iter().enumerate() {
            let page = page as u32;
            if !matches!(entry.place, Place::Here | Place::Coming) {
                continue;
            }
            match runs.last_mut().filter(|last| last.first + last.count == page) {
                Some(last) => last.count += 1,
                None => runs.push(Run { first: page, count: 1 }),
            }
        }
        runs
    }
}
