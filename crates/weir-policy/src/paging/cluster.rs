//! How many pages a fault brings in: a power of two that follows how much of what was brought in
//! unasked was used. It begins with the largest: while memory is free, a page that comes unasked
//! costs its part of a transfer, a small part of the fault that it may save.
//!
//! Two facts move it. A fault in the other half of a block of twice the size, soon after a fault in
//! the first half, would not have happened with twice the size. Pages that came unasked and were not
//! used while their cluster was young should have stayed out.

use super::Run;
use alloc::collections::{TryReserveError, VecDeque};

/// Faults that are remembered, for the first fact.
const RECENT: usize = 16;
/// Clusters that are watched, for the second.
const WATCHED: usize = 64;
/// A mean starts again after each change of the size; this many facts come before the next change.
const LEAST_FACTS: u32 = 8;
/// The weight of a new fact in a mean is 1 in this.
const WEIGHT: i32 = 8;
/// The size doubles from this share (of 1000) of faults beside one that was a short time before.
const GROWS: i32 = 250;
/// The size halves below this share of pages used.
const SHRINKS: i32 = 120;
/// It shrinks to a quarter at once where hardly any page was used.
const SHRINKS_TWICE: i32 = 40;
/// A page that comes unused costs more where it displaces one that is missed soon: of the share of
/// faults on such pages, this part (of 1000) is added to [`SHRINKS`].
const PRESSURE: i32 = 100;
/// After the size has halved for that, it stays for this many faults, and for twice as many each time.
const HOLDS: (u64, u64) = (8, 64);

/// A running mean in thousandths, from a first guess, and the sum of the facts.
#[derive(Clone, Copy, Debug)]
struct Mean {
    value: i32,
    facts: u32,
    sum: i32,
}

impl Mean {
    fn new(value: i32) -> Mean {
        Mean { value, facts: 0, sum: 0 }
    }

    fn add(&mut self, fact: i32) {
        self.value += (fact - self.value) / WEIGHT;
        self.facts += 1;
        self.sum = self.sum.saturating_add(fact);
    }
}

/// A cluster whose pages are watched.
#[derive(Clone, Copy, Debug)]
pub struct WatchedCluster {
    pub run: Run,
    at_fault: u64,
}

/// The size of a region's clusters.
#[derive(Debug)]
pub struct ClusterSize {
    pages: u32,
    most: u32,
    recent: [u32; RECENT],
    beside: Mean,
    used: Mean,
    /// The share of faults on pages that had only just gone.
    again: Mean,
    /// The size does not double before this fault.
    held_until: u64,
    holds: u64,
    watched: VecDeque<WatchedCluster>,
}

impl ClusterSize {
    pub fn new(most: u32) -> Result<ClusterSize, TryReserveError> {
        let mut watched = VecDeque::new();
        watched.try_reserve_exact(WATCHED)?;
        let (beside, used) = (Mean::new(0), Mean::new(500));
        Ok(ClusterSize {
            pages: most,
            most,
            recent: [u32::MAX; RECENT],
            beside,
            used,
            again: Mean::new(0),
            held_until: 0,
            holds: HOLDS.0,
            watched,
        })
    }

    pub fn pages(&self) -> u32 {
        self.pages
    }

    fn set(&mut self, pages: u32) {
        self.pages = pages.clamp(1, self.most);
        (self.beside, self.used) = (Mean::new(0), Mean::new(500));
        // What came in clusters of another size says nothing about this one.
        self.watched.clear();
    }

    /// Learns of the fault with this number, whether its page had only just gone, and whether it goes
    /// on with a sequence, where each fault doubles the size.
    pub fn fault(&mut self, page: u32, number: u64, again: bool, in_sequence: bool) {
        self.again.add(if again { 1000 } else { 0 });
        let (half, whole) = (page / self.pages, page / (2 * self.pages));
        let is_beside = |other: &u32| {
            *other != u32::MAX && other / (2 * self.pages) == whole && other / self.pages != half
        };
        let beside = self.recent.iter().any(is_beside);
        self.beside.add(if beside { 1000 } else { 0 });
        self.recent[(number % RECENT as u64) as usize] = page;
        let is_free = number >= self.held_until && self.pages < self.most;
        let grows = self.beside.facts >= LEAST_FACTS && self.beside.value >= GROWS;
        if is_free && (grows || in_sequence) {
            self.set(2 * self.pages);
        }
    }

    /// Watches a cluster of more than a page.
    pub fn watch(&mut self, run: Run, fault: u64) {
        if run.count > 1 && self.watched.len() < WATCHED {
            self.watched.push_back(WatchedCluster { run, at_fault: fault });
        }
    }

    /// Takes the next cluster that was watched for `age` faults.
    pub fn ripe(&mut self, fault: u64, age: u64) -> Option<WatchedCluster> {
        let ripe = self.watched.front().is_some_and(|cluster| fault - cluster.at_fault >= age);
        if ripe { self.watched.pop_front() } else { None }
    }

    /// Learns how many of the pages that came unasked were used.
    pub fn outcome(&mut self, used: u32, unasked: u32, number: u64) {
        if unasked == 0 {
            return;
        }
        self.used.add((1000 * used / unasked) as i32);
        let pressure = self.again.value * PRESSURE / 1000;
        let shrinks = self.used.facts >= LEAST_FACTS && self.used.value < SHRINKS + pressure;
        if !shrinks || self.pages == 1 {
            return;
        }
        if self.used.value >= SHRINKS {
            self.held_until = number + self.holds;
            self.holds = (2 * self.holds).min(HOLDS.1);
        } else {
            self.holds = HOLDS.0;
        }
        let mean = self.used.sum / self.used.facts as i32;
        let part = if mean < SHRINKS_TWICE { 4 } else { 2 };
        self.set(self.pages / part);
    }
}
