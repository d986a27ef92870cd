//! The memory that the unfinished messages of all writers may use.
//!
//! A writer whose piece finds no room is held up until there is some. The writer whose message
//! began first may always continue, so that messages are finished, one after the other if need be.
//! A writer that leaves its message unfinished while others are held up is shut out after some
//! time.

use super::slot::{WriterSlot, WriterSlots};
use std::time::{Duration, Instant};

/// How long a message may stay unfinished while it holds others up.
const PATIENCE: Duration = Duration::from_secs(5);

/// The memory for unfinished messages, and the writers that wait for some.
#[derive(Debug)]
pub struct Unfinished {
    most_bytes: u64,
    bytes: u64,
    /// The writer that may go beyond the limit.
    first: Option<u32>,
    held_up: Vec<u32>,
    /// Since when writers are held up.
    since: Option<Instant>,
}

impl Unfinished {
    pub fn new(most_bytes: u64) -> Unfinished {
        Unfinished { most_bytes, bytes: 0, first: None, held_up: Vec::new(), since: None }
    }

    /// Bytes that a writer may use beside those it already uses.
    pub fn room_for(&self, place: u32) -> u64 {
        if self.first == Some(place) {
            return u64::MAX;
        }
        self.most_bytes.saturating_sub(self.bytes)
    }

    /// Accounts for the memory that a writer uses now. Returns the writers that may continue.
    #[inline]
    pub fn account_for(&mut self, slot: &mut WriterSlot) -> Vec<u32> {
        let partial = &mut slot.partial;
        let (had, has) = (partial.kept_bytes, partial.memory_bytes());
        if had == has && !partial.is_first {
            return Vec::new();
        }
        partial.kept_bytes = has;
        let is_done = partial.begun.is_none();
        if is_done {
            partial.is_first = false;
        }
        self.bytes = self.bytes - had + has;
        self.make_way(slot.id.slot, is_done, has < had)
    }

    /// Frees the memory of a writer that is gone. Returns the writers that may continue.
    pub fn forget_writer(&mut self, slot: &WriterSlot) -> Vec<u32> {
        self.bytes -= slot.partial.kept_bytes;
        self.held_up.retain(|held_up| *held_up != slot.id.slot);
        if self.held_up.is_empty() {
            self.since = None;
        }
        self.make_way(slot.id.slot, true, slot.partial.kept_bytes > 0)
    }

    /// Lets another writer go beyond the limit, because this one is suspended and finishes nothing.
    /// Returns the writers that may continue.
    pub fn suspended(&mut self, slot: &mut WriterSlot) -> Vec<u32> {
        slot.partial.is_first = false;
        self.make_way(slot.id.slot, true, false)
    }

    /// The writers that may continue after this one finished or gave memory back.
    fn make_way(&mut self, place: u32, is_done: bool, gave_back: bool) -> Vec<u32> {
        let was_first = is_done && self.first == Some(place);
        if was_first {
            self.first = None;
        }
        if !(gave_back || was_first) || self.held_up.is_empty() {
            return Vec::new();
        }
        self.since = None;
        std::mem::take(&mut self.held_up)
    }

    /// Holds a writer up for whose piece there is no room, unless others only keep memory for
    /// later, or it is the writer that may go beyond the limit. Returns whether it is held up, and
    /// which writer continues instead.
    pub fn hold_up(&mut self, place: u32, slots: &mut WriterSlots) -> (bool, Option<u32>) {
        let all = slots.iter_mut().flatten();
        let given_back: u64 = all.map(|slot| slot.partial.give_back_memory()).sum();
        self.bytes -= given_back;
        if given_back > 0 {
            return (false, None);
        }
        let mut continues = None;
        if self.first.is_none() {
            let all = slots.iter().flatten().filter(|slot| slot.can_finish());
            let first =
                all.min_by_key(|slot| slot.partial.begun).map_or(place, |slot| slot.id.slot);
            self.first = Some(first);
            let slot = slots.get_mut(first as usize).and_then(Option::as_mut);
            let was_held_up = slot.is_some_and(|slot| {
                slot.partial.is_first = true;
                slot.partial.held_up
            });
            if first == place {
                return (false, None);
            }
            self.held_up.retain(|held_up| *held_up != first);
            continues = was_held_up.then_some(first);
        }
        if let Some(Some(slot)) = slots.get_mut(place as usize) {
            slot.partial.held_up = true;
        }
        self.held_up.push(place);
        self.since.get_or_insert_with(Instant::now);
        (true, continues)
    }

    /// Whether a writer is held up.
    pub fn holds_someone_up(&self) -> bool {
        !self.held_up.is_empty()
    }

    /// The writers that have left a message unfinished for too long while others are held up.
    pub fn late(&self, slots: &WriterSlots) -> Vec<u32> {
        let Some(since) = self.since.filter(|since| since.elapsed() >= PATIENCE) else {
            return Vec::new();
        };
        let all = slots.iter().flatten().filter(|slot| slot.can_finish() && !slot.partial.held_up);
        let late = all.filter(|slot| slot.partial.begun.is_some_and(|begun| begun <= since));
        late.map(|slot| slot.id.slot).collect()
    }
}
