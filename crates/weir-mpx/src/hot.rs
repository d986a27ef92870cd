//! Hot lanes: the reader looks at them by itself, because something came on them recently.
//!
//! A reader that looks away from a lane whenever it has run dry makes the writer set a bit for
//! each record while both run. So the reader continues looking at some lanes until it sleeps. A
//! reader that has not slept for long also saves the writer the fence after each record: instead it
//! passes a barrier on all CPUs before it looks away ([`Fencing`]).

use super::link_end::LinkEnd;
use weir::parts::barrier;
use weir_policy::pipe::Fencing;
use weir_ring::lane::{
    POLLING, POLLING_WITH_BARRIER, fence_before_last_poll, start_polling, stop_polling,
};

/// The most hot lanes.
const MOST_LANES: usize = 32;
/// A lane goes cold after more than this many looks in vain.
const PATIENCE: u32 = 4096;

type LinkEnds = [Option<LinkEnd>];

/// One hot lane: a link, and the channel's number on it.
#[derive(Clone, Copy, Debug)]
struct Hot {
    link: u32,
    number: u32,
    looks_in_vain: u32,
}

#[derive(Debug, Default)]
pub struct HotLanes {
    lanes: Vec<Hot>,
    fencing: Fencing,
    has_barrier: bool,
}

impl HotLanes {
    fn how(&self) -> u32 {
        if self.has_barrier { POLLING_WITH_BARRIER } else { POLLING }
    }

    /// Makes a lane hot that has run dry after something had come on it: whether there was room.
    pub fn keep(&mut self, link: &mut LinkEnd, at: u32, number: u32) -> bool {
        if self.lanes.len() >= MOST_LANES || link.ending.is_some() {
            return false;
        }
        if let Some(lanes) = link.lanes(number) {
            lanes.is_hot = true;
            start_polling(link.attention(number), self.how());
            self.lanes.push(Hot { link: at, number, looks_in_vain: 0 });
        }
        true
    }

    /// Counts records that came. After many without a sleep the reader takes over the fences.
    #[inline]
    pub fn moved(&mut self, links: &LinkEnds, records: u32) {
        if self.fencing.moved(records) && barrier::is_available() {
            self.has_barrier = true;
            for hot in &self.lanes {
                if let Some(link) = &links[hot.link as usize] {
                    start_polling(link.attention(hot.number), POLLING_WITH_BARRIER);
                }
            }
        }
    }

    #[inline]
    pub fn any(&self, links: &LinkEnds) -> bool {
        self.lanes.iter().any(|hot| hot.has(links))
    }

    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether the writer of one of the lanes waits for room.
    pub fn is_pressed(&self, links: &LinkEnds) -> bool {
        let is_pressed = |hot: &Hot| {
            links[hot.link as usize].as_ref().is_some_and(|link| link.is_pressed(hot.number))
        };
        self.lanes.iter().any(is_pressed)
    }

    /// Finds the lanes, by link and number, on which something has come. Makes those cold on which
    /// nothing came for long.
    pub fn poll(&mut self, links: &mut LinkEnds, found: &mut Vec<(u32, u32)>) {
        let mut given_up = false;
        let is_over = |hot: &Hot| hot.looks_in_vain > PATIENCE;
        for hot in &mut self.lanes {
            if hot.has(links) {
                hot.looks_in_vain = 0;
                found.push((hot.link, hot.number));
            } else {
                hot.looks_in_vain += 1;
                given_up |= is_over(hot);
            }
        }
        if given_up {
            let (old, others) = self.lanes.drain(..).partition(is_over);
            self.lanes = others;
            self.cool(links, old, found);
        }
    }

    /// Makes all lanes cold before a sleep, and finds those on which something has come after all.
    pub fn stop_polling(&mut self, links: &mut LinkEnds, found: &mut Vec<(u32, u32)>) {
        // While the reader sleeps, the writers pass the fences again.
        self.fencing.sleeps();
        let all = std::mem::take(&mut self.lanes);
        self.cool(links, all, found);
        self.has_barrier = false;
    }

    pub fn forget(&mut self, at: u32) {
        self.lanes.retain(|hot| hot.link != at);
    }

    fn cool(&self, links: &mut LinkEnds, lanes: Vec<Hot>, found: &mut Vec<(u32, u32)>) {
        if lanes.is_empty() {
            return;
        }
        for hot in &lanes {
            let Some(link) = &mut links[hot.link as usize] else { continue };
            let Some(lanes) = link.lanes(hot.number) else { continue };
            lanes.is_hot = false;
            // Whoever releases a held lane looks at it: its writer need not set a bit until then.
            match lanes.is_held {
                true => start_polling(link.attention(hot.number), POLLING),
                false => stop_polling(link.attention(hot.number)),
            }
        }
        if self.has_barrier {
            barrier::pass();
        } else {
            fence_before_last_poll();
        }
        found.extend(lanes.iter().filter(|hot| hot.has(links)).map(|hot| (hot.link, hot.number)));
    }
}

impl Hot {
    #[inline]
    fn has(&self, links: &LinkEnds) -> bool {
        links[self.link as usize].as_ref().is_some_and(|link| link.has_to_show(self.number))
    }
}
