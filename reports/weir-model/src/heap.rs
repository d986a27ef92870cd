//! The heap of events: the earliest first, and of several at one time the one that was put in first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event with its time and its place among the events of that time.
#[derive(Debug)]
struct Entry<E> {
    key: Reverse<(u64, u64)>,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// Events in the order of their times.
#[derive(Debug)]
pub struct EventHeap<E> {
    entries: BinaryHeap<Entry<E>>,
    pushed: u64,
}

impl<E> Default for EventHeap<E> {
    fn default() -> Self {
        EventHeap { entries: BinaryHeap::new(), pushed: 0 }
    }
}

impl<E> EventHeap<E> {
    /// Puts an event in.
    pub fn push(&mut self, at_ns: u64, event: E) {
        self.pushed += 1;
        self.entries.push(Entry { key: Reverse((at_ns, self.pushed)), event });
    }

    /// Takes the earliest event out, with its time.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        self.entries.pop().map(|entry| (entry.key.0.0, entry.event))
    }

    /// Returns the time of the earliest event.
    pub fn next_ns(&self) -> Option<u64> {
        self.entries.peek().map(|entry| entry.key.0.0)
    }

    /// Returns how many events were put in so far.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut heap = EventHeap::default();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b')] {
            heap.push(at, name);
        }
        let order: Vec<_> = std::iter::from_fn(|| heap.pop()).collect();
        assert_eq!(order, [(1, 'a'), (1, 'b'), (5, 'c'), (5, 'd')]);
    }
}
