//! Which of many channels is next: the lowest priority number that has one, found by one
//! find-first-set, and rotation among those of it, in time independent of their number.
//!
//! Joy (1980) chose run queues so, one bit a queue, when UNIX had looked through a list.

use alloc::vec::Vec;

/// Priorities: 0 is served before all others.
pub const PRIORITIES: usize = 64;
/// Bytes a channel of share 1 is served in one turn while others wait.
pub const TURN_BYTES: u64 = 16 << 10;
/// The most of one that is busy turn after turn: several times what is ever under way in it, so
/// that most of a turn is what its writer writes meanwhile and lies in the caches. With 256 writers
/// 1.5 times as much went through of 512 bytes, 1.3 of 4 KiB, as by turns of 16 KiB.
pub const LONG_TURN_BYTES: u64 = 1 << 20;
/// Messages of usual length in a long turn, at most: a reader that works on each must come round.
const LONG_TURN_MESSAGES: u64 = 1024;
/// Turns of channels that were idle before, between two of busy ones.
const MOST_NEW_TURNS: u32 = 64;
/// The largest share.
pub const MOST_SHARE: u32 = 1024;

const NONE: u32 = u32::MAX;

/// One channel's place in the queues.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
    /// The queue it is in, [`NONE`] for none.
    queue: u32,
}

/// Channels, by index, that are ready and wait for their turn.
#[derive(Clone, Debug)]
pub struct ReadyQueue {
    /// A bit for each queue that is not empty.
    mask: u64,
    /// First and last of each queue.
    ends: [(u32, u32); PRIORITIES],
    links: Vec<Link>,
    queued: usize,
}

impl Default for ReadyQueue {
    fn default() -> ReadyQueue {
        let ends = [(NONE, NONE); PRIORITIES];
        ReadyQueue { mask: 0, ends, links: Vec::new(), queued: 0 }
    }
}

impl ReadyQueue {
    /// Puts a channel at the end of a queue, unless it is in one. Whether it was put.
    ///
    /// # Panics
    /// The priority is not below [`PRIORITIES`].
    pub fn push(&mut self, index: u32, priority: u8) -> bool {
        let (at, queue) = (index as usize, usize::from(priority));
        if at >= self.links.len() {
            let idle = Link { before: NONE, after: NONE, queue: NONE };
            self.links.resize(at + 1, idle);
        }
        if self.links[at].queue != NONE {
            return false;
        }
        let last = self.ends[queue].1;
        self.links[at] = Link { before: last, after: NONE, queue: queue as u32 };
        match last {
            NONE => self.ends[queue].0 = index,
            last => self.links[last as usize].after = index,
        }
        self.ends[queue].1 = index;
        self.mask |= 1 << queue;
        self.queued += 1;
        true
    }

    /// The channel that is next, and its priority. It stays.
    pub fn first(&self) -> Option<(u32, u8)> {
        let queue = self.mask.trailing_zeros() as usize;
        (queue < PRIORITIES).then(|| (self.ends[queue].0, queue as u8))
    }

    /// The channel that is next of a priority. It stays.
    pub fn first_of(&self, priority: u8) -> Option<u32> {
        let first = self.ends[usize::from(priority)].0;
        (first != NONE).then_some(first)
    }

    /// Puts a channel, which is in no queue, at the beginning of one.
    ///
    /// # Panics
    /// The channel was never in a queue; the priority is not below [`PRIORITIES`].
    pub fn push_front(&mut self, index: u32, priority: u8) {
        let queue = usize::from(priority);
        let first = self.ends[queue].0;
        self.links[index as usize] = Link { before: NONE, after: first, queue: queue as u32 };
        match first {
            NONE => self.ends[queue].1 = index,
            first => self.links[first as usize].before = index,
        }
        self.ends[queue].0 = index;
        self.mask |= 1 << queue;
        self.queued += 1;
    }

    /// Takes the channel that is next.
    pub fn pop(&mut self) -> Option<(u32, u8)> {
        let next = self.first()?;
        self.remove(next.0);
        Some(next)
    }

    /// Takes a channel out, wherever it is. Whether it was in a queue.
    pub fn remove(&mut self, index: u32) -> bool {
        let Some(link) = self.links.get(index as usize).copied() else { return false };
        if link.queue == NONE {
            return false;
        }
        let queue = link.queue as usize;
        match link.before {
            NONE => self.ends[queue].0 = link.after,
            before => self.links[before as usize].after = link.after,
        }
        match link.after {
            NONE => self.ends[queue].1 = link.before,
            after => self.links[after as usize].before = link.before,
        }
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

    /// All channels that are ready, those of each priority in their order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let queues = self.ends.iter().map(|(first, _)| *first);
        queues.flat_map(move |first| {
            let at = |index: u32| (index != NONE).then_some(index);
            core::iter::successors(at(first), move |index| at(self.links[*index as usize].after))
        })
    }

    /// Channels in all queues.
    pub fn len(&self) -> usize {
        self.queued
    }

    /// Whether no channel is in any.
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }
}

/// Channels that share one reader: those that were idle come before those that are busy, so that
/// the few messages of one do not wait for all the bytes of others, but for the turn of one of
/// them. Busy ones still have a turn after so many of the former.
#[derive(Clone, Debug, Default)]
pub struct Rotation {
    ready: ReadyQueue,
    new_turns: u32,
}

/// Whether a channel was idle before its turn, or has one turn after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It was idle.
    New,
    /// It was served before, and had more.
    Busy,
}

impl Rotation {
    /// A channel has something, or is looked at whether it has.
    pub fn push(&mut self, index: u32, pace: Pace) -> bool {
        self.ready.push(index, pace as u8)
    }

    /// Takes the channel that is next.
    pub fn pop(&mut self) -> Option<(u32, Pace)> {
        let (index, queue) = self.ready.pop()?;
        if queue == Pace::Busy as u8 {
            self.new_turns = 0;
            return Some((index, Pace::Busy));
        }
        self.new_turns += 1;
        if self.new_turns > MOST_NEW_TURNS
            && let Some(busy) = self.ready.first_of(Pace::Busy as u8)
        {
            // It goes before, and the new one back to where it was.
            self.ready.remove(busy);
            self.ready.push_front(index, queue);
            self.new_turns = 0;
            return Some((busy, Pace::Busy));
        }
        Some((index, Pace::New))
    }

    /// Takes a channel out.
    pub fn remove(&mut self, index: u32) -> bool {
        self.ready.remove(index)
    }

    /// Whether a channel is in it.
    pub fn contains(&self, index: u32) -> bool {
        self.ready.contains(index)
    }

    /// All channels in it.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ready.iter()
    }

    /// Channels in it.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }
}

/// How long messages were in the last round, of all channels together: by that busy ones have turns
/// of the same bytes for a round, which are not too many messages.
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
    /// So many messages were served, of so many bytes together.
    #[inline]
    pub fn served(&mut self, messages: u64, bytes: u64) {
        self.messages = self.messages.saturating_add(messages);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Bytes of the turn that begins, while so many others are ready.
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

/// What is left of the turn of a channel: bytes, counted so that a channel of twice the share
/// gets twice the bytes while all are busy, whatever the sizes of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    left_bytes: i64,
}

impl Turn {
    /// The next turn begins. What the last one took too much is taken from it.
    pub fn begin(&mut self, share: u32) {
        self.grant(TURN_BYTES, share);
    }

    /// The next turn of a channel that is busy begins.
    pub fn begin_long(&mut self, share: u32, bytes: u64) {
        self.grant(bytes, share);
    }

    /// The next turn begins while all others that have something still owe, since so many rounds:
    /// it pays more of what it owes in each, and saves nothing up by that.
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

    /// A record was served, of so many bytes, and whatever it costs besides. Whether the turn
    /// goes on.
    #[inline]
    pub fn serve(&mut self, bytes: u64) -> bool {
        self.left_bytes -= bytes.saturating_add(RECORD_COST_BYTES).min(i64::MAX as u64) as i64;
        self.left_bytes > 0
    }

    /// Whether the turn has not yet been served out.
    pub fn goes_on(&self) -> bool {
        self.left_bytes > 0
    }

    /// The channel has run dry: it owes nothing, and saves nothing up.
    pub fn end(&mut self) {
        self.left_bytes = 0;
    }
}

/// What a record costs beside its bytes, as bytes: small ones must not be free.
const RECORD_COST_BYTES: u64 = 32;
/// A debt of the longest message is paid after so many rounds, each of twice the one before.
const MOST_DOUBLINGS: u32 = 20;

/// What one call may still do that its caller sees nothing of: frames passed over, pieces put away,
/// connections that come to nothing. Whoever writes decides how many there are, so that a call that
/// did all of them would never end. One unit is about what it takes to look at a frame, a fraction
/// of a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    left: u32,
}

/// Units of one call.
pub const WORK_UNITS: u32 = 16_384;
/// Units of letting one in or refusing it. It takes longer than so many looks, but a thousand who
/// come at once are to be let in by one call.
pub const CONNECTION_UNITS: u32 = 8;
/// Units of waiting once, for which several are let in.
pub const WAIT_UNITS: u32 = 256;
/// Bytes moved for the price of a look.
const UNIT_BYTES: usize = 4096;

impl Default for Work {
    fn default() -> Work {
        Work { left: WORK_UNITS }
    }
}

impl Work {
    /// So many units were done.
    #[inline]
    pub fn does(&mut self, units: u32) {
        self.left = self.left.saturating_sub(units);
    }

    /// A frame was looked at, and so many bytes of it moved.
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
