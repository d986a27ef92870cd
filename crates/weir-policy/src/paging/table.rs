//! The pages of a region: where each of them is, and what is known of it.

use super::frames::NONE;
use super::{MOST_CLUSTER, Run};
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut, Range};

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
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
pub const DIRTY: u8 = 1;
/// It was touched since the hand passed.
pub const REFERENCED: u8 = 2;
/// It came unasked, and has not been touched.
pub const UNASKED: u8 = 4;
/// Its place in the file has had bytes.
pub const FILED: u8 = 8;
/// It is being written, or looked at before that.
pub const LEAVING: u8 = 16;
/// It goes when it has been written, unless it is touched before.
pub const GOES: u8 = 32;
/// It goes before others.
pub const COLD: u8 = 64;

#[derive(Clone, Copy, Debug)]
pub struct PageEntry {
    pub place: Place,
    pub flags: u8,
    /// When it went, by the count of pages that have gone.
    pub gone: u16,
    pub frame: u32,
}

impl PageEntry {
    const EMPTY: PageEntry = PageEntry { place: Place::Empty, flags: 0, gone: 0, frame: NONE };

    /// Whether it has one of these flags.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Whether it has a frame: it is in memory, or on its way there.
    pub fn has_frame(&self) -> bool {
        matches!(self.place, Place::Here | Place::Coming)
    }

    /// Whether it is in memory, and is neither written nor looked at.
    pub fn rests(&self) -> bool {
        self.place == Place::Here && !self.has(LEAVING)
    }

    /// Takes its frame. It keeps none but these of its flags.
    pub fn go(&mut self, keeps: u8) -> u32 {
        self.place = if self.has(FILED) { Place::Filed } else { Place::Empty };
        self.flags &= keeps;
        core::mem::replace(&mut self.frame, NONE)
    }
}

/// All pages of a region.
#[derive(Debug, Default)]
pub struct PageTable {
    all: Vec<PageEntry>,
    /// The number of pages that leave.
    pub leaving: u32,
}

impl PageTable {
    /// Adds empty pages, up to `pages` in all, if there is memory for them.
    pub fn grow(&mut self, pages: u32) -> Result<(), TryReserveError> {
        let more = (pages as usize).saturating_sub(self.all.len());
        self.all.try_reserve_exact(more)?;
        self.all.resize(self.all.len() + more, PageEntry::EMPTY);
        Ok(())
    }

    /// Records that the file has bytes for all pages, none of which is in memory.
    pub fn fill(&mut self) {
        self.all.fill(PageEntry { place: Place::Filed, flags: FILED, ..PageEntry::EMPTY });
    }

    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    pub fn get(&self, page: u32) -> Option<&PageEntry> {
        self.all.get(page as usize)
    }

    /// The first page at or after this one that meets a condition.
    pub fn find(&self, from: u32, meets: impl Fn(&PageEntry) -> bool) -> Option<u32> {
        (from..self.all.len() as u32).find(|page| meets(&self[*page]))
    }

    /// How many pages in a row meet a condition, from the first of these on.
    pub fn row(&self, pages: Range<u32>, meets: impl Fn(&PageEntry) -> bool) -> u32 {
        pages.take_while(|page| self.get(*page).is_some_and(&meets)).count() as u32
    }

    /// The longest run around one that meets a condition, within a block of the largest cluster.
    pub fn widen(&self, run: Run, meets: impl Fn(&PageEntry) -> bool) -> Run {
        let low = run.first - run.first % MOST_CLUSTER;
        let (mut first, end) = (run.first, run.first + run.count);
        while first > low && meets(&self[first - 1]) {
            first -= 1;
        }
        let end = end + self.row(end..low + MOST_CLUSTER, meets);
        Run { first, count: end - first }
    }

    /// Lets the pages of a run leave, with these flags besides.
    pub fn leave(&mut self, run: Run, flags: u8) {
        for page in run.pages() {
            let entry = &mut self.all[page as usize];
            self.leaving += u32::from(!entry.has(LEAVING));
            entry.flags |= LEAVING | flags;
        }
    }

    /// Ends the leaving of a page. Returns its frame if it goes: it is clean, and was not touched
    /// meanwhile.
    pub fn settle(&mut self, page: u32, gone: u16) -> Option<u32> {
        let entry = &mut self.all[page as usize];
        let goes = entry.flags & (GOES | DIRTY) == GOES;
        self.leaving -= u32::from(entry.has(LEAVING));
        entry.flags &= !(LEAVING | GOES);
        goes.then(|| {
            entry.gone = gone;
            // Whether it was used is still asked later.
            entry.go(FILED | UNASKED)
        })
    }

    /// The pages that are in memory or on their way in.
    pub fn working_set(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (page, _) in (0..).zip(&self.all).filter(|(_, entry)| entry.has_frame()) {
            match runs.last_mut().filter(|last| last.first + last.count == page) {
                Some(last) => last.count += 1,
                None => runs.push(Run { first: page, count: 1 }),
            }
        }
        runs
    }
}

impl Index<u32> for PageTable {
    type Output = PageEntry;

    #[inline]
    fn index(&self, page: u32) -> &PageEntry {
        &self.all[page as usize]
    }
}

impl IndexMut<u32> for PageTable {
    fn index_mut(&mut self, page: u32) -> &mut PageEntry {
        &mut self.all[page as usize]
    }
}
