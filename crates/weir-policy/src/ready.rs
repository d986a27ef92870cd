//! Which of many channels is next: the lowest priority number that has one, found by one
//! find-first-set, and rotation among its channels, in time independent of their number.
//!
//! Joy (1980) chose run queues in this way, one bit a queue, when UNIX had searched a list.

use alloc::vec::Vec;

/// Priorities: 0 is served before all others.
pub const PRIORITIES: usize = 64;
/// Bytes that a channel of share 1 is served in one turn while others wait.
pub const TURN_BYTES: u64 = 16 << 10;
/// The most bytes of a turn of a channel that is busy turn after turn: several times what is ever
/// under way in it, so most of a turn is what its writer writes meanwhile, and is in the caches.
/// With 256 writers, 1.5 times as much of 512 bytes and 1.3 times as much of 4 KiB went through as
/// with turns of 16 KiB.
pub const LONG_TURN_BYTES: u64 = 1 << 20;
/// Most messages of usual length in a long turn: a reader that works on each must come round.
const LONG_TURN_MESSAGES: u64 = 1024;
/// Most turns of channels that were idle before, between two of busy ones.
const MOST_NEW_TURNS: u32 = 64;
/// The largest share.
pub const MOST_SHARE: u32 = 1024;

const NONE: u32 = u32::MAX;

/// A channel's neighbours in its queue.
#[derive(Clone, Copy, Debug)]
struct QueueLink {
    before: u32,
    after: u32,
    /// The queue it is in, or [`NONE`].
    queue: u32,
}

/// Channels, by index, that are ready and wait for their turn.
#[derive(Clone, Debug)]
pub struct ReadyQueue {
    /// A bit for each queue that is not empty.
    mask: u64,
    /// First and last of each queue.
    ends: [(u32, u32); PRIORITIES],
    links: Vec<QueueLink>,
    queued: usize,
}

impl Default for ReadyQueue {
    fn default() -> ReadyQueue {
        let ends = [(NONE, NONE); PRIORITIES];
        ReadyQueue { mask: 0, ends, links: Vec::new(), queued: 0 }
    }
}

impl ReadyQueue {
    /// Puts a channel at the end of a queue, unless it is in one. Returns whether it was put.
    ///
    /// # Panics
    /// The priority is not below [`PRIORITIES`].
    pub fn push(&mut self, index: u32, priority: u8) -> bool {
        let (at, queue) = (index as usize, usize::from(priority));
        if at >= self.links.len() {
            let idle = QueueLink { before: NONE, after: NONE, queue: NONE };
            self.links.resize(at + 1, idle);
        }
        if self.links[at].queue != NONE {
            return false;
        }
        self.put(queue, self.ends[queue].1, index, NONE);
        true
    }

    fn put(&mut self, queue: usize, before: u32, index: u32, after: u32) {
        self.join(queue, before, index);
        self.join(queue, index, after);
        self.links[index as usize].queue = queue as u32;
        self.mask |= 1 << queue;
        self.queued += 1;
    }

    /// Makes two channels neighbours; [`NONE`] stands for the ends of the queue.
    fn join(&mut self, queue: usize, before: u32, after: u32) {
        match before {
            NONE => self.ends[queue].0 = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.ends[queue].1 = before,
            after => self.links[after as usize].before = before,
        }
    }

    /// Returns the next channel and its priority, without taking it.
    pub fn first(&self) -> Option<(u32, u8)> {
        let queue = self.mask.trailing_zeros() as usize;
        (queue < PRIORITIES).then(|| (self.ends[queue].0, queue as u8))
    }

    /// Returns the next channel of a priority, without taking it.
    pub fn first_of(&self, priority: u8) -> Option<u32> {
        let first = self.ends[usize::from(priority)].0;
        (first != NONE).then_some(first)
    }

    /// Puts a channel that is in no queue at the beginning of one.
    ///
    /// # Panics
    /// The channel was never in a queue; the priority is not below [`PRIORITIES`].
    pub fn push_front(&mut self, index: u32, priority: u8) {
        let queue = usize::from(priority);
        self.put(queue, NONE, index, self.ends[queue].0);
    }

    /// Takes the next channel.
    pub fn pop(&mut self) -> Option<(u32, u8)> {
        let next = self.first()?;
        self.remove(next.0);
        Some(next)
    }

    /// Takes a channel out, wherever it is. Returns whether it was in a queue.
    pub fn remove(&mut self, index: u32) -> bool {
        let Some(link) = self.links.get(index as usize).copied() else { return false };
        if link.queue == NONE {
            return false;
        }
        let queue = link.queue as usize;
        self.join(queue, link.before, link.after);
        if self.ends[queue].0 == NONE {
            self.mask &= !(1 << queue);
        }
        self.links[index as usize].queue = NONE;
        self.queued -= 1;
        true
    }

    /// Whether a channel is in a queue.
    pub fn contains(&self, index: u32) -> bool {
        self.links.get(index as usize).is_some_and(|link| link.queue != NONE)
    }

    /// Returns all ready channels by priority, those of each in their order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let queues = self.ends.iter().map(|(first, _)| *first);
        queues.flat_map(move |first| {
            let at = |index: u32| (index != NONE).then_some(index);
            core::iter::successors(at(first), move |index| at(self.links[*index as usize].after))
        })
    }

    /// Returns the number of channels in all queues.
    pub fn len(&self) -> usize {
        self.queued
    }

    /// Whether no channel is in a queue.
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }
}

/// Channels that share one reader. Those that were idle come before those that are busy, so the few
/// messages of one wait for the turn of one busy channel rather than for all the bytes of others.
/// After a number of such turns, a busy channel has its turn nevertheless.
#[derive(Clone, Debug, Default)]
pub struct Rotation {
    ready: ReadyQueue,
    new_turns: u32,
}

/// Whether a channel was idle before its turn, or has one turn after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnPace {
    /// It was idle.
    New,
    /// It was served before, and had more.
    Busy,
}

impl Rotation {
    /// Puts a channel in that has something, or has to be looked at. Returns whether it was put.
    pub fn push(&mut self, index: u32, pace: TurnPace) -> bool {
        self.ready.push(index, pace as u8)
    }

    /// Takes the next channel.
    pub fn pop(&mut self) -> Option<(u32, TurnPace)> {
        let (index, queue) = self.ready.pop()?;
        if queue == TurnPace::Busy as u8 {
            self.new_turns = 0;
            return Some((index, TurnPace::Busy));
        }
        self.new_turns += 1;
        if self.new_turns > MOST_NEW_TURNS
            && let Some(busy) = self.ready.first_of(TurnPace::Busy as u8)
        {
            // The busy one goes first, and the new one back to its place.
            self.ready.remove(busy);
            self.ready.push_front(index, queue);
            self.new_turns = 0;
            return Some((busy, TurnPace::Busy));
        }
        Some((index, TurnPace::New))
    }

    /// Takes a channel out.
    pub fn remove(&mut self, index: u32) -> bool {
        self.ready.remove(index)
    }

    /// Whether a channel is in it.
    pub fn contains(&self, index: u32) -> bool {
        self.ready.contains(index)
    }

    /// Returns all channels in it.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ready.iter()
    }

    /// Returns the number of channels in it.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether it has no channels.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }
}

/// The usual length of messages, from the last round of all channels together. It decides how many
/// bytes a turn of a busy channel has in this round, so that it is not too many messages.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    messages: u64,
    bytes: u64,
    turns_left: usize,
    turn_bytes: u64,
}

impl Default for Usual {
    fn default() -> Usual {
        Usual { messages: 0, bytes: 0, turns_left: 0, turn_bytes: TURN_BYTES }
    }
}

impl Usual {
    /// Counts messages that were served, and their bytes.
    #[inline]
    pub fn served(&mut self, messages: u64, bytes: u64) {
        self.messages = self.messages.saturating_add(messages);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Begins a turn while this many others are ready, and returns its bytes.
    pub fn begin_turn(&mut self, others: usize) -> u64 {
        if self.turns_left == 0 {
            self.turns_left = others + 1;
            if let Some(usual) = self.bytes.checked_div(self.messages) {
                let turn = LONG_TURN_MESSAGES.saturating_mul(usual + RECORD_COST_BYTES);
                self.turn_bytes = turn.clamp(TURN_BYTES, LONG_TURN_BYTES);
            }
            (self.messages, self.bytes) = (0, 0);
        }
        self.turns_left -= 1;
        self.turn_bytes
    }
}

/// What is left of a channel's turn. Bytes are counted so that a channel of twice the share gets
/// twice the bytes while all are busy, whatever the sizes of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    left_bytes: i64,
}

impl Turn {
    /// Begins the next turn. What the last one took too much is subtracted.
    pub fn begin(&mut self, share: u32) {
        self.grant(TURN_BYTES, share);
    }

    /// Begins the next turn of a busy channel.
    pub fn begin_long(&mut self, share: u32, bytes: u64) {
        self.grant(bytes, share);
    }

    /// Begins the next turn when all others that have something have been in debt for this many
    /// rounds. The channel pays more of its debt in each round, and saves nothing up by that.
    pub fn begin_in_debt(&mut self, share: u32, rounds: u32) {
        let grant = Turn::grant_of(TURN_BYTES, share);
        let paid = grant.saturating_mul(1_i64 << rounds.min(MOST_DOUBLINGS));
        self.left_bytes = self.left_bytes.min(0).saturating_add(paid).min(grant);
    }

    fn grant(&mut self, bytes: u64, share: u32) {
        self.left_bytes = self.left_bytes.min(0).saturating_add(Turn::grant_of(bytes, share));
    }

    fn grant_of(bytes: u64, share: u32) -> i64 {
        let bytes = bytes.min(LONG_TURN_BYTES);
        (bytes * u64::from(share.clamp(1, MOST_SHARE))) as i64
    }

    /// Counts a record that was served: its bytes, and its fixed cost. Returns whether the turn
    /// continues.
    #[inline]
    pub fn serve(&mut self, bytes: u64) -> bool {
        self.left_bytes -= bytes.saturating_add(RECORD_COST_BYTES).min(i64::MAX as u64) as i64;
        self.left_bytes > 0
    }

    /// Whether the turn continues.
    pub fn continues(&self) -> bool {
        self.left_bytes > 0
    }

    /// Ends the turn of a channel that has run dry: it owes nothing, and saves nothing up.
    pub fn end(&mut self) {
        self.left_bytes = 0;
    }
}

/// The fixed cost of a record, in bytes: small records must not be free.
const RECORD_COST_BYTES: u64 = 32;
/// A debt of the longest message is paid after this many rounds, each paying twice the one before.
const MOST_DOUBLINGS: u32 = 20;

/// The work that one call may still do without a result for its caller: frames that are skipped,
/// pieces that are put away, connections that fail. The writers decide how much of this there is,
/// so a call that did all of it might never end. One unit is about the time of looking at a frame,
/// a fraction of a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkBudget {
    left: u32,
}

/// Units of one call.
pub const WORK_UNITS: u32 = 16_384;
/// Units of accepting or refusing a connection. It takes longer than this many looks, but one call
/// must be able to accept a thousand that come at once.
pub const CONNECTION_UNITS: u32 = 8;
/// Units of one wait, in which several connections are accepted.
pub const WAIT_UNITS: u32 = 256;
/// Bytes that are moved in the time of a look.
const UNIT_BYTES: usize = 4096;

impl Default for WorkBudget {
    fn default() -> WorkBudget {
        WorkBudget { left: WORK_UNITS }
    }
}

impl WorkBudget {
    /// Counts units that were done.
    #[inline]
    pub fn does(&mut self, units: u32) {
        self.left = self.left.saturating_sub(units);
    }

    /// Counts a look at a frame, and the bytes of it that were moved.
    #[inline]
    pub fn moves(&mut self, bytes: usize) {
        self.does(1 + u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX - 1));
    }

    /// Whether the call has done enough.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests;
