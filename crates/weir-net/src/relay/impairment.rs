//! One direction of a relay: what becomes of each packet, decided from a seed.
//!
//! Each packet takes the same ten numbers from the generator, whatever the settings are. So one
//! setting can be changed and what the others decide stays: the packets lost at 5 % are among those
//! lost at 10 %.
//!
//! In order: loss, a second copy, and then for each copy on its own: one bit inverted, held back
//! or not, its delay. A copy that is held back leaves right after the Nth copy that was taken
//! later and not held back itself, or once it has been held for long enough.

use super::Rate;
use crate::slab::Slab;
use fastrand::Rng;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Memory kept for each packet that may wait; longer packets take theirs when they come.
const KEPT_BYTES: usize = 2048;

/// What is done to packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Packets that vanish.
    pub loss: Rate,
    /// Packets of which a second copy is made.
    pub duplicate: Rate,
    /// Copies of which one bit, anywhere in the packet, is inverted.
    pub corrupt: Rate,
    /// Copies that are held back behind later ones.
    pub reorder: Rate,
    /// How many later copies leave before one that is held back, at least 1.
    pub behind: u32,
    /// How long a copy is held back at most where too few come after it.
    pub hold_ns: u64,
    /// Each copy waits for a time from this one, which is drawn for each: with a range of times
    /// copies overtake each other.
    pub least_delay_ns: u64,
    /// The longest of these times; the shortest one where this is shorter.
    pub most_delay_ns: u64,
    /// Copies that may wait at once; more are dropped.
    pub most_packets: usize,
    /// Their bytes.
    pub most_bytes: usize,
    /// What the decisions follow from.
    pub seed: u64,
}

impl Default for Settings {
    /// Nothing is done to packets; 1,000 of them and 4 MiB may wait.
    fn default() -> Settings {
        Settings {
            loss: Rate::NEVER,
            duplicate: Rate::NEVER,
            corrupt: Rate::NEVER,
            reorder: Rate::NEVER,
            behind: 3,
            hold_ns: 100_000_000,
            least_delay_ns: 0,
            most_delay_ns: 0,
            most_packets: 1000,
            most_bytes: 4 << 20,
            seed: 0,
        }
    }
}

/// What was done, in packets and copies: `delivered` and those that wait are `taken - lost +
/// duplicated - overflowed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImpairmentCounts {
    /// Packets that came.
    #[serde(rename = "packets_in")]
    pub taken: u64,
    /// Their bytes.
    #[serde(rename = "bytes_in")]
    pub taken_bytes: u64,
    /// Packets lost on purpose.
    #[serde(rename = "packets_lost")]
    pub lost: u64,
    /// Packets of which there were two copies.
    #[serde(rename = "packets_duplicated")]
    pub duplicated: u64,
    /// Copies with a bit inverted.
    #[serde(rename = "packets_corrupted")]
    pub corrupted: u64,
    /// Copies held back behind later ones.
    #[serde(rename = "packets_held_back")]
    pub held_back: u64,
    /// Copies dropped since too much waited; they count as nothing else but `duplicated`.
    #[serde(rename = "packets_overflowed")]
    pub overflowed: u64,
    /// Copies that left.
    #[serde(rename = "packets_out")]
    pub delivered: u64,
    /// Their bytes.
    #[serde(rename = "bytes_out")]
    pub delivered_bytes: u64,
}

/// What is to be done to one copy.
#[derive(Clone, Copy, Debug)]
struct Fate {
    /// The bit to be inverted.
    inverted: Option<u64>,
    held_back: bool,
    delay_ns: u64,
}

/// A copy that is held back.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: u32,
    /// How many are still to leave before it.
    behind: u32,
    /// Not before this time: its own, and the times of those that leave before it.
    due_ns: u64,
    /// Not held back any longer than this.
    until_ns: u64,
}

/// When a copy leaves: its time, its turn among those of the same time, its slot.
type Turn = Reverse<(u64, u64, u32)>;

/// One direction of a relay.
#[derive(Clone, Debug)]
pub struct Impairment {
    settings: Settings,
    random: Rng,
    /// Copies that wait, and the memory of those that left.
    slots: Slab<Vec<u8>>,
    waiting_bytes: usize,
    ready: BinaryHeap<Turn>,
    /// In the order in which they came, and so in which they leave.
    held: VecDeque<Held>,
    turns: u64,
    /// The latest time heard of: time does not go back.
    now_ns: u64,
    /// The copy that left last.
    out: Vec<u8>,
    counts: ImpairmentCounts,
}

impl Impairment {
    /// One that has seen nothing yet.
    pub fn new(settings: Settings) -> Impairment {
        Impairment {
            settings: Settings { behind: settings.behind.max(1), ..settings },
            random: Rng::with_seed(settings.seed),
            slots: Slab::new(),
            waiting_bytes: 0,
            ready: BinaryHeap::new(),
            held: VecDeque::new(),
            turns: 0,
            now_ns: 0,
            out: Vec::new(),
            counts: ImpairmentCounts::default(),
        }
    }

    /// What was done so far.
    pub fn counts(&self) -> ImpairmentCounts {
        self.counts
    }

    /// Copies that wait.
    pub fn waiting(&self) -> usize {
        self.ready.len() + self.held.len()
    }

    /// Takes a packet that came at `now_ns`.
    pub fn take(&mut self, packet: &[u8], now_ns: u64) {
        self.advance(now_ns);
        self.counts.taken += 1;
        self.counts.taken_bytes += packet.len() as u64;
        let lost = self.settings.loss.strikes(&mut self.random);
        let twice = self.settings.duplicate.strikes(&mut self.random);
        let (first, second) = (self.fate(packet.len()), self.fate(packet.len()));
        if lost {
            self.counts.lost += 1;
            return;
        }
        self.send(packet, first);
        if twice {
            self.counts.duplicated += 1;
            self.send(packet, second);
        }
    }

    /// The next copy that is to leave by `now_ns`.
    pub fn due(&mut self, now_ns: u64) -> Option<&[u8]> {
        self.advance(now_ns);
        let Reverse((due_ns, _, slot)) = *self.ready.peek()?;
        if due_ns > self.now_ns {
            return None;
        }
        self.ready.pop();
        std::mem::swap(&mut self.out, &mut self.slots[slot]);
        let empty = &mut self.slots[slot];
        empty.clear();
        empty.shrink_to(KEPT_BYTES);
        self.slots.remove(slot);
        self.waiting_bytes -= self.out.len();
        self.counts.delivered += 1;
        self.counts.delivered_bytes += self.out.len() as u64;
        Some(&self.out)
    }

    /// When [`Impairment::due`] is to be called next; nothing while nothing waits.
    pub fn next_due_ns(&self) -> Option<u64> {
        let ready = self.ready.peek().map(|Reverse((due_ns, ..))| *due_ns);
        let held = self.held.front().map(|held| held.until_ns);
        ready.into_iter().chain(held).min()
    }

    /// Decides on a copy of a packet of so many bytes. Four numbers, always.
    fn fate(&mut self, bytes: usize) -> Fate {
        let (settings, random) = (&self.settings, &mut self.random);
        let corrupted = settings.corrupt.strikes(random);
        let bit = random.u64(..bytes.max(1) as u64 * 8);
        let held_back = settings.reorder.strikes(random);
        let spread = settings.most_delay_ns.saturating_sub(settings.least_delay_ns);
        let drawn = random.u64(..=spread);
        Fate {
            inverted: (corrupted && bytes > 0).then_some(bit),
            held_back,
            delay_ns: settings.least_delay_ns.saturating_add(drawn),
        }
    }

    /// Puts a copy where it waits.
    fn send(&mut self, packet: &[u8], fate: Fate) {
        let bytes = self.waiting_bytes.saturating_add(packet.len());
        if self.waiting() >= self.settings.most_packets || bytes > self.settings.most_bytes {
            self.counts.overflowed += 1;
            return;
        }
        self.waiting_bytes = bytes;
        let slot = self.store(packet);
        if let Some(bit) = fate.inverted {
            self.counts.corrupted += 1;
            self.slots[slot][(bit / 8) as usize] ^= 0x80 >> (bit % 8);
        }
        let due_ns = self.now_ns.saturating_add(fate.delay_ns);
        if fate.held_back {
            self.counts.held_back += 1;
            let until_ns = self.now_ns.saturating_add(self.settings.hold_ns);
            self.held.push_back(Held { slot, behind: self.settings.behind, due_ns, until_ns });
            return;
        }
        self.schedule(slot, due_ns);
        self.pass(due_ns);
    }

    fn store(&mut self, packet: &[u8]) -> u32 {
        let slots = &mut self.slots;
        let slot = slots.reuse().unwrap_or_else(|| slots.push(Vec::with_capacity(KEPT_BYTES)));
        self.slots[slot].extend_from_slice(packet);
        slot
    }

    fn schedule(&mut self, slot: u32, due_ns: u64) {
        self.ready.push(Reverse((due_ns, self.turns, slot)));
        self.turns += 1;
    }

    /// One that leaves at `due_ns` has passed those that are held back.
    fn pass(&mut self, due_ns: u64) {
        for held in &mut self.held {
            held.behind -= 1;
            held.due_ns = held.due_ns.max(due_ns);
        }
        // Those that came first have been passed by the most.
        while let Some(&Held { slot, behind: 0, due_ns, .. }) = self.held.front() {
            self.held.pop_front();
            self.schedule(slot, due_ns);
        }
    }

    /// Time goes on, and who was held back for long enough leaves.
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some(&Held { slot, due_ns, until_ns, .. }) = self.held.front()
            && until_ns <= self.now_ns
        {
            self.held.pop_front();
            self.schedule(slot, due_ns.max(until_ns));
        }
    }
}
