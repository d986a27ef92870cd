//! Lanes at which their reader looks of itself: those of which something came of late.
//!
//! A reader that looks away from a lane whenever it has run dry makes the writer set a bit for
//! each record, while both run. So it goes on looking at some lanes until it sleeps. One that has
//! not slept for long also takes over the fence that the writer passes after each record: it passes
//! a barrier on all CPUs before it looks away ([`Fencing`]).

use super::link_end::LinkEnd;
use crate::park::barrier;
use weir_policy::pipe::Fencing;
use weir_ring::lane::{LOOKING, LOOKING_WITH_BARRIER, fence_before_last_look, look_at, look_away};

/// Lanes that are looked at in this way.
const MOST_LANES: usize = 32;
/// Looks in vain after which a lane is looked at no more.
const PATIENCE: u32 = 4096;

type Links = [Option<LinkEnd>];

/// One of them: a number of a link.
#[derive(Clone, Copy, Debug)]
struct Hot {
    link: u32,
    number: u32,
    looks_in_vain: u32,
}

/// The lanes.
#[derive(Debug, Default)]
pub struct HotLanes {
    lanes: Vec<Hot>,
    fencing: Fencing,
    has_barrier: bool,
}

impl HotLanes {
    fn how(&self) -> u32 {
        if self.has_barrier { LOOKING_WITH_BARRIER } else { LOOKING }
    }

    /// A lane has run dry after something had come of it: whether it is looked at from now on.
    pub fn keep(&mut self, link: &mut LinkEnd, at: u32, number: u32) -> bool {
        if self.lanes.len() >= MOST_LANES || link.ending.is_some() {
            return false;
        }
        if let Some(lanes) = link.lanes(number) {
            lanes.is_hot = true;
            look_at(link.attention(number), self.how());
            self.lanes.push(Hot { link: at, number, looks_in_vain: 0 });
        }
        true
    }

    /// So many records came. After many without a sleep the fences become the reader's.
    #[inline]
    pub fn moved(&mut self, links: &Links, records: u32) {
        if self.fencing.moved(records) && barrier::is_available() {
            self.has_barrier = true;
            for hot in &self.lanes {
                if let Some(link) = &links[hot.link as usize] {
                    look_at(link.attention(hot.number), LOOKING_WITH_BARRIER);
                }
            }
        }
    }

    /// Whether anything has come.
    #[inline]
    pub fn any(&self, links: &Links) -> bool {
        self.lanes.iter().any(|hot| hot.has(links))
    }

    /// Names those of which something has come, by link and number, and looks away from those of
    /// which nothing came for long.
    pub fn look(&mut self, links: &mut Links, found: &mut Vec<(u32, u32)>) {
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

    /// Looks away from all, before a sleep, and names those of which something has come after all.
    pub fn look_away(&mut self, links: &mut Links, found: &mut Vec<(u32, u32)>) {
        // The reader that sleeps leaves the fences to the writers again.
        self.fencing.sleeps();
        let all = std::mem::take(&mut self.lanes);
        self.cool(links, all, found);
        self.has_barrier = false;
    }

    /// Looks away from the lanes of a link that has ended.
    pub fn forget(&mut self, at: u32) {
        self.lanes.retain(|hot| hot.link != at);
    }

    fn cool(&self, links: &mut Links, lanes: Vec<Hot>, found: &mut Vec<(u32, u32)>) {
        if lanes.is_empty() {
            return;
        }
        for hot in &lanes {
            let Some(link) = &mut links[hot.link as usize] else { continue };
            let Some(lanes) = link.lanes(hot.number) else { continue };
            lanes.is_hot = false;
            // What is held is looked at by whoever ends that, and so is what comes meanwhile.
            match lanes.is_held {
                true => look_at(link.attention(hot.number), LOOKING),
                false => look_away(link.attention(hot.number)),
            }
        }
        if self.has_barrier {
            barrier::pass();
        } else {
            fence_before_last_look();
        }
        found.extend(lanes.iter().filter(|hot| hot.has(links)).map(|hot| (hot.link, hot.number)));
    }
}

impl Hot {
    #[inline]
    fn has(&self, links: &Links) -> bool {
        links[self.link as usize].as_ref().is_some_and(|link| link.has_to_show(self.number))
    }
}
