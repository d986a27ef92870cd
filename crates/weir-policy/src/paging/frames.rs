//! Which page is in which frame, and the hand that goes around them.

use super::PageReplacement;
use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;

pub const NONE: u32 = u32::MAX;

/// The frames of a region's memory.
#[derive(Debug)]
pub struct PageFrames {
    pages: Vec<u32>,
    free: VecDeque<u32>,
    hand: u32,
    random: u64,
    most_used: u32,
    /// How many of the frames may be used at present.
    limit: u32,
}

impl PageFrames {
    pub fn new(frames: u32) -> Result<PageFrames, TryReserveError> {
        let (mut pages, mut free) = (Vec::new(), VecDeque::new());
        pages.try_reserve_exact(frames as usize)?;
        free.try_reserve_exact(frames as usize)?;
        pages.resize(frames as usize, NONE);
        free.extend(0..frames);
        Ok(PageFrames {
            pages,
            free,
            hand: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            most_used: 0,
            limit: frames,
        })
    }

    pub fn count(&self) -> u32 {
        self.pages.len() as u32
    }

    pub fn limit(&self) -> u32 {
        self.limit
    }

    pub fn set_limit(&mut self, frames: u32) {
        self.limit = frames.min(self.count());
    }

    pub fn free(&self) -> u32 {
        self.limit.saturating_sub(self.used())
    }

    pub fn used(&self) -> u32 {
        self.count() - self.free.len() as u32
    }

    pub fn most_used(&self) -> u32 {
        self.most_used
    }

    /// Gives a frame to a page. There is one.
    pub fn take(&mut self, page: u32) -> Option<u32> {
        let frame = self.free.pop_front()?;
        self.pages[frame as usize] = page;
        self.most_used = self.most_used.max(self.used());
        Some(frame)
    }

    pub fn give_back(&mut self, frame: u32) {
        self.pages[frame as usize] = NONE;
        self.free.push_back(frame);
    }

    /// The next frame that the rule looks at, and its page.
    pub fn next(&mut self, rule: PageReplacement) -> (u32, u32) {
        let frame = if rule == PageReplacement::Random {
            self.below(self.count())
        } else {
            self.hand = (self.hand + 1) % self.count();
            self.hand
        };
        (frame, self.pages[frame as usize])
    }

    /// How far a frame is before the hand: how soon its turn comes.
    pub fn turns_until(&self, frame: u32) -> u32 {
        (frame + self.count() - self.hand) % self.count()
    }

    /// A number below `most`, the same in each run (Knuth's linear congruence).
    pub fn below(&mut self, most: u32) -> u32 {
        let next = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = next.wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % u64::from(most.max(1))) as u32
    }
}
