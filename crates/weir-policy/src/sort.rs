//! Stable sorts, sets and maps that take little room in the binary.
//!
//! The compiler makes a copy of `[T]::sort_by` of about 4500 bytes for each type and each comparison. What is sorted
//! here is short and sorted once, so these functions sort numbers, through one copy, and then move the items.
//! Collecting into a `BTreeMap` or a `BTreeSet` sorts as well; here the items are inserted one by one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Sorts `items` by `compare`; items that compare as equal keep their order.
pub fn by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let order = order(items.len(), &mut |one, other| compare(&items[one], &items[other]));
    rearrange(order, &mut |one, other| items.swap(one, other));
}

/// Sorts `items` by a key of each; items with equal keys keep their order.
pub fn by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(items, |one, other| key(one).cmp(&key(other)));
}

/// Collects items into a set.
pub fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    for item in items {
        set.insert(item);
    }
    set
}

/// Collects keys with their values into a map; of equal keys the last one's value stays.
pub fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        map.insert(key, value);
    }
    map
}

/// Returns the numbers below `count` in the order of `compare`.
fn order(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| compare(*one, *other));
    order
}

/// Swaps items until each place has the item whose number `order` has there.
fn rearrange(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for first in 0..order.len() {
        let mut place = first;
        while order[place] != first {
            let from = core::mem::replace(&mut order[place], place);
            swap(place, from);
            place = from;
        }
        order[place] = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// All sequences of up to five of three keys, against the sort of the standard library.
    #[test]
    fn the_order_is_that_of_a_stable_sort() {
        for length in 0..=5u32 {
            for number in 0..3u32.pow(length) {
                let keys = (0..length).map(|digit| number / 3u32.pow(digit) % 3);
                let mut items: Vec<(u32, usize)> = keys.zip(0..).collect();
                let mut expected = items.clone();
                expected.sort_by_key(|item| item.0);
                by_key(&mut items, |item| item.0);
                assert_eq!(items, expected);
            }
        }
    }

    #[test]
    fn a_comparison_decides() {
        let mut items = vec![0.5, -2.0, 7.25, 3.0];
        by(&mut items, |one: &f64, other| other.total_cmp(one));
        assert_eq!(items, [7.25, 3.0, 0.5, -2.0]);
    }
}
