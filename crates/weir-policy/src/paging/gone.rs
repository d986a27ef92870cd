//! How long ago pages went, counted by the pages that have gone since.

use super::table::{FILED, PageEntry};

/// Pages that have gone are counted in this part of the reach.
const PARTS: u64 = 16;

/// The count of pages that have gone, and what it is measured by.
#[derive(Debug)]
pub struct GonePages {
    pub count: u64,
    /// All frames of the region.
    frames: u32,
    /// The memory that might be had instead ([`super::PagingPolicy::set_reach`]), or 0.
    pub reach: u32,
}

impl GonePages {
    pub fn new(frames: u32) -> GonePages {
        GonePages { count: 0, frames, reach: 0 }
    }

    /// The reach by which pages that have gone are counted: that which was set, or all frames.
    fn counted_reach(&self) -> u64 {
        u64::from(if self.reach == 0 { self.frames } else { self.reach })
    }

    /// The count of pages that have gone, in parts of the reach.
    pub fn stamp(&self) -> u16 {
        // The low bits: after 4096 reaches a page may be taken for one that has just gone.
        (self.count / self.counted_reach().div_ceil(PARTS)) as u16
    }

    /// The parts of the reach that have gone since a page went, if it did.
    fn since(&self, page: &PageEntry) -> Option<u64> {
        page.has(FILED).then(|| u64::from(self.stamp().wrapping_sub(page.gone)))
    }

    /// Whether fewer pages have gone since a page went than there are frames.
    pub fn is_missed(&self, page: &PageEntry, frames: u32) -> bool {
        let parts = u64::from(frames) * PARTS / self.counted_reach();
        self.since(page).is_some_and(|since| since < parts.max(1))
    }

    /// Whether no more pages have gone since a page went than memory could have held.
    pub fn has_just_gone(&self, page: &PageEntry) -> bool {
        self.reach > 0 && self.since(page).is_some_and(|since| since <= PARTS)
    }
}
