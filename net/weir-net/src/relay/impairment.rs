//! One direction of a relay: decides from a seed what happens to each packet.
//!
//! Each packet takes exactly ten numbers from the generator, whatever the settings are. So changing
//! one setting leaves the decisions of the others unchanged: the packets lost at 5 % are among
//! those lost at 10 %.
//!
//! In order: loss, duplication, and then for each copy on its own: one inverted bit, holding back,
//! and delay. A copy that is held back leaves right after the Nth copy that was taken later and was
//! not held back itself, or once it has been held for the longest time allowed.

use super::Share;
use crate::slab::Slab;
use fastrand::Rng;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Memory kept for each pending packet; longer packets allocate theirs on arrival.
const KEPT_BYTES: usize = 2048;

/// The impairments of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// Share of packets that are lost.
    pub loss: Share,
    /// Share of packets that are duplicated.
    pub duplicate: Share,
    /// Share of copies of which one bit, anywhere in the packet, is inverted.
    pub corrupt: Share,
    /// Share of copies that are held back behind later ones.
    pub reorder: Share,
    /// How many later copies leave before one that is held back, at least 1.
    pub behind: u32,
    /// The longest time a copy is held back if too few come after it.
    pub hold_ns: u64,
    /// The shortest delay. Each copy draws its own delay, so with a range of delays copies overtake
    /// each other.
    pub least_delay_ns: u64,
    /// The longest delay; the shortest counts if this is shorter.
    pub most_delay_ns: u64,
    /// Most pending copies; more are dropped.
    pub most_packets: usize,
    /// Most bytes of pending copies.
    pub most_bytes: usize,
    /// The seed of all decisions.
    pub seed: u64,
}

impl Default for Impairments {
    /// No impairment; 1,000 packets and 4 MiB may be pending.
    fn default() -> Impairments {
        Impairments {
            loss: Share::NEVER,
            duplicate: Share::NEVER,
            corrupt: Share::NEVER,
            reorder: Share::NEVER,
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

/// Counts of packets and copies: `delivered` and the pending ones together are `taken - lost +
/// duplicated - overflowed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImpairmentCounts {
    /// Packets that arrived.
    #[serde(rename = "packets_in")]
    pub taken: u64,
    /// Their bytes.
    #[serde(rename = "bytes_in")]
    pub taken_bytes: u64,
    /// Packets lost on purpose.
    #[serde(rename = "packets_lost")]
    pub lost: u64,
    /// Packets that were duplicated.
    #[serde(rename = "packets_duplicated")]
    pub duplicated: u64,
    /// Copies with a bit inverted.
    #[serde(rename = "packets_corrupted")]
    pub corrupted: u64,
    /// Copies held back behind later ones.
    #[serde(rename = "packets_held_back")]
    pub held_back: u64,
    /// Copies dropped because too much was pending; they count elsewhere only in `duplicated`.
    #[serde(rename = "packets_overflowed")]
    pub overflowed: u64,
    /// Copies that left.
    #[serde(rename = "packets_out")]
    pub delivered: u64,
    /// Their bytes.
    #[serde(rename = "bytes_out")]
    pub delivered_bytes: u64,
}

/// The decisions on one copy.
#[derive(Clone, Copy, Debug)]
struct CopyFate {
    /// The bit to invert.
    inverted: Option<u64>,
    held_back: bool,
    delay_ns: u64,
}

/// A copy that is held back.
#[derive(Clone, Copy, Debug)]
struct HeldCopy {
    slot: u32,
    /// How many copies must still leave before it.
    behind: u32,
    /// It leaves no earlier than this: its own time, and the times of the copies that leave before
    /// it.
    due_ns: u64,
    /// It is held back no longer than this.
    until_ns: u64,
}

/// The order in which copies leave: by time, then by arrival; last, its slot.
type Departure = Reverse<(u64, u64, u32)>;

/// One direction of a relay.
#[derive(Clone, Debug)]
pub struct Impairment {
    settings: Impairments,
    random: Rng,
    /// Pending copies, and free memory of those that left.
    slots: Slab<Vec<u8>>,
    waiting_bytes: usize,
    ready: BinaryHeap<Departure>,
    /// Held-back copies in the order of their arrival, which is the order in which they leave.
    held: VecDeque<HeldCopy>,
    turns: u64,
    /// The latest time passed in: time does not go back.
    now_ns: u64,
    /// The copy that left last.
    out: Vec<u8>,
    counts: ImpairmentCounts,
}

impl Impairment {
    /// Creates one direction that has seen no packet.
    pub fn new(settings: Impairments) -> Impairment {
        Impairment {
            settings: Impairments { behind: settings.behind.max(1), ..settings },
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

    /// Returns the counts.
    pub fn counts(&self) -> ImpairmentCounts {
        self.counts
    }

    /// Returns the number of pending copies.
    pub fn waiting(&self) -> usize {
        self.ready.len() + self.held.len()
    }

    /// Takes a packet that arrived at `now_ns`.
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

    /// Returns the next copy that is to leave by `now_ns`.
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

    /// Returns when [`Impairment::due`] must be called next; `None` while nothing is pending.
    pub fn next_due_ns(&self) -> Option<u64> {
        let ready = self.ready.peek().map(|Reverse((due_ns, ..))| *due_ns);
        let held = self.held.front().map(|held| held.until_ns);
        ready.into_iter().chain(held).min()
    }

    /// Decides on a copy of a packet of this many bytes. Always takes four numbers.
    fn fate(&mut self, bytes: usize) -> CopyFate {
        let (settings, random) = (&self.settings, &mut self.random);
        let corrupted = settings.corrupt.strikes(random);
        let bit = random.u64(..bytes.max(1) as u64 * 8);
        let held_back = settings.reorder.strikes(random);
        let spread = settings.most_delay_ns.saturating_sub(settings.least_delay_ns);
        let drawn = random.u64(..=spread);
        CopyFate {
            inverted: (corrupted && bytes > 0).then_some(bit),
            held_back,
            delay_ns: settings.least_delay_ns.saturating_add(drawn),
        }
    }

    fn send(&mut self, packet: &[u8], fate: CopyFate) {
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
            self.held.push_back(HeldCopy { slot, behind: self.settings.behind, due_ns, until_ns });
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

    /// Counts a copy that leaves at `due_ns` for those that are held back behind it.
    fn pass(&mut self, due_ns: u64) {
        for held in &mut self.held {
            held.behind -= 1;
            held.due_ns = held.due_ns.max(due_ns);
        }
        // The earliest held-back copies have been passed by the most.
        while let Some(&HeldCopy { slot, behind: 0, due_ns, .. }) = self.held.front() {
            self.held.pop_front();
            self.schedule(slot, due_ns);
        }
    }

    /// Advances the time, and releases copies that were held back for long enough.
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some(&HeldCopy { slot, due_ns, until_ns, .. }) = self.held.front()
            && until_ns <= self.now_ns
        {
            self.held.pop_front();
            self.schedule(slot, due_ns.max(until_ns));
        }
    }
}
