//! Which page leaves memory next, and which neighbours go or are written along.

use super::frames::{NONE, PageFrames};
use super::table::{COLD, DIRTY, PageEntry, PageTable, Place, REFERENCED};
use super::{MOST_CLUSTER, PageReplacement, PagingSettings};
use alloc::collections::{TryReserveError, VecDeque};

/// A page's frame may be this far before the hand when it goes along with its neighbour.
const ALONG: u32 = 2 * MOST_CLUSTER;

/// The rule by which pages go, and those that go before others.
#[derive(Debug)]
pub struct Victims {
    rule: PageReplacement,
    /// Pages that go before others.
    pub cold: VecDeque<u32>,
    /// Writing fails at present, so dirty pages stay.
    pub fails: bool,
}

impl Victims {
    /// Makes room for all pages that have frames, if there is memory for it.
    pub fn new(settings: PagingSettings) -> Result<Victims, TryReserveError> {
        let mut cold = VecDeque::new();
        cold.try_reserve_exact(settings.frames as usize)?;
        Ok(Victims { rule: settings.replacement, cold, fails: false })
    }

    /// Lets a page go before others. It stays if it is touched.
    pub fn evict_first(&mut self, pages: &mut PageTable, page: u32) {
        let entry = &mut pages[page];
        if entry.place == Place::Here && self.cold.len() < self.cold.capacity() {
            entry.flags = entry.flags & !REFERENCED | COLD;
            self.cold.push_back(page);
        }
    }

    /// The page that the rule lets go, if the one it looks at can go.
    pub fn next(&mut self, pages: &mut PageTable, frames: &mut PageFrames) -> Option<u32> {
        while let Some(page) = self.cold.pop_front() {
            if self.may_go(&pages[page]) && pages[page].has(COLD) {
                return Some(page);
            }
        }
        let (_, page) = frames.next(self.rule);
        if page == NONE || !self.may_go(&pages[page]) {
            return None;
        }
        let entry = &mut pages[page];
        if self.rule == PageReplacement::Clock && entry.has(REFERENCED) {
            entry.flags &= !REFERENCED;
            return None;
        }
        Some(page)
    }

    fn may_go(&self, page: &PageEntry) -> bool {
        page.rests() && !(self.fails && page.has(DIRTY))
    }

    /// Whether a page goes along with its neighbour: its turn comes soon, and it was not touched.
    pub fn goes_with_neighbour(&self, page: &PageEntry, frames: &PageFrames) -> bool {
        self.may_go(page)
            && self.rule != PageReplacement::Random
            && !page.has(REFERENCED)
            && (frames.turns_until(page.frame) < ALONG || page.has(COLD))
    }

    /// Whether a page is written along with its neighbour.
    pub fn is_written_along(&self, page: &PageEntry) -> bool {
        self.may_go(page) && page.has(DIRTY)
    }
}
