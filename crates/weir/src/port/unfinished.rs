//! Messages of which there are pieces yet to come, of all writers: what memory they may have.
//!
//! A writer whose piece finds no room is held up until there is some. The one whose message was
//! begun first may always go on, so that messages are finished, one after the other if need be. One
//! that leaves its message unfinished while others are held up is shut out after some time.

use super::choice::Choice;
use super::slot::Slot;
use crate::error::Result;
use std::time::{Duration, Instant};

/// How long a message may stay unfinished while others are held up for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What all writers have of that memory.
#[derive(Debug)]
pub struct Unfinished {
    most_bytes: u64,
    bytes: u64,
    /// Who may go on beyond the bound.
    first: Option<u32>,
    held_up: Vec<u32>,
    /// Since when some are held up.
    since: Option<Instant>,
}

impl Unfinished {
    pub fn new(most_bytes: u64) -> Unfinished {
        Unfinished { most_bytes, bytes: 0, first: None, held_up: Vec::new(), since: None }
    }

    /// Bytes that a writer may have beside those it has.
    pub fn room_for(&self, place: u32) -> u64 {
        if self.first == Some(place) {
            return u64::MAX;
        }
        self.most_bytes.saturating_sub(self.bytes)
    }
}

impl Choice {
    /// What a writer has of the memory may have changed.
    #[inline]
    pub fn account_for(&mut self, place: u32) -> Result<()> {
        let slot = self.slot(place)?;
        let (had, has) = (slot.kept_bytes, slot.partial_bytes());
        if had == has && !slot.is_first {
            return Ok(());
        }
        slot.kept_bytes = has;
        let is_done = !slot.is_unfinished();
        if is_done {
            slot.is_first = false;
        }
        self.unfinished.bytes = self.unfinished.bytes - had + has;
        self.make_way(place, is_done, has < had)
    }

    /// A writer is gone, and what it had of the memory.
    pub fn account_for_gone(&mut self, place: u32, slot: &Slot) -> Result<()> {
        self.unfinished.bytes -= slot.kept_bytes;
        self.unfinished.held_up.retain(|held_up| *held_up != place);
        self.make_way(place, true, true)
    }

    /// One that is suspended finishes nothing: another may go on beyond the bound.
    pub fn is_not_first(&mut self, place: u32) -> Result<()> {
        self.slot(place)?.is_first = false;
        self.make_way(place, true, false)
    }

    /// Others go on where this one has given something back.
    fn make_way(&mut self, place: u32, is_done: bool, gave_back: bool) -> Result<()> {
        let unfinished = &mut self.unfinished;
        let was_first = is_done && unfinished.first == Some(place);
        if was_first {
            unfinished.first = None;
        }
        if !(gave_back || was_first) || unfinished.held_up.is_empty() {
            return Ok(());
        }
        unfinished.since = None;
        for place in std::mem::take(&mut unfinished.held_up) {
            if let Ok(slot) = self.slot(place) {
                slot.held_up = false;
                self.warm(place)?;
            }
        }
        Ok(())
    }

    /// There is no room for a piece of this writer: it is held up, unless others only keep memory
    /// for later, or it is the one who may go on.
    pub fn hold_up(&mut self, place: u32) -> Result<()> {
        let mut given_back = 0;
        for slot in self.slots.iter_mut().flatten() {
            given_back += slot.give_back_memory();
        }
        self.unfinished.bytes -= given_back;
        if given_back > 0 {
            return Ok(());
        }
        if self.unfinished.first.is_none() {
            let all = self.slots.iter().flatten().filter(|slot| slot.can_finish());
            let first = all.min_by_key(|slot| slot.begun).map_or(place, |slot| slot.id.slot);
            self.unfinished.first = Some(first);
            if let Ok(slot) = self.slot(first) {
                slot.is_first = true;
            }
            if first == place {
                return Ok(());
            }
            // It may be held up itself.
            self.unfinished.held_up.retain(|held_up| *held_up != first);
            if let Ok(slot) = self.slot(first)
                && std::mem::take(&mut slot.held_up)
            {
                self.warm(first)?;
            }
        }
        self.slot(place)?.held_up = true;
        self.set_aside(place);
        self.unfinished.held_up.push(place);
        self.unfinished.since.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Shuts those out who have not finished for too long while others are held up. To be called
    /// now and then.
    pub fn look_after_unfinished(&mut self) -> Result<()> {
        let Some(since) = self.unfinished.since.filter(|since| since.elapsed() >= PATIENCE) else {
            return Ok(());
        };
        let all = self.slots.iter().flatten().filter(|slot| slot.can_finish() && !slot.held_up);
        let late = all.filter(|slot| slot.begun.is_some_and(|begun| begun <= since));
        let late: Vec<u32> = late.map(|slot| slot.id.slot).collect();
        for place in late {
            self.slot(place)?.shut_out();
            self.account_for(place)?;
            self.warm(place)?;
        }
        Ok(())
    }
}
