//! The arena against a naive one: a map of pages.

use super::{Arena, LARGEST_BYTES, SMALLEST_BYTES, block_for};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const ARENA_BYTES: u32 = 4 * LARGEST_BYTES;

#[derive(Clone, Debug)]
enum Step {
    Take(u32),
    TakeDownTo(u32, u32),
    Give(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..5_u32).prop_map(|order| Step::Take(SMALLEST_BYTES << order)),
        2 => (0..7_u32, 0..7_u32).prop_map(|(most, least)| {
            let size = |order: u32| SMALLEST_BYTES << order;
            Step::TakeDownTo(size(most.max(least)), size(most.min(least)))
        }),
        2 => any::<usize>().prop_map(Step::Give),
    ];
    prop::collection::vec(step, 0..200)
}

/// Whether any place for such a block is free, searched page by page.
fn has_place(pages: &[bool], block_bytes: u32) -> bool {
    let count = (block_bytes / SMALLEST_BYTES) as usize;
    pages.chunks(count).any(|chunk| chunk.len() == count && !chunk.contains(&true))
}

proptest! {
    #[test]
    fn behaves_as_a_map_of_pages_does(steps in steps()) {
        let mut arena = Arena::new(ARENA_BYTES);
        let mut pages = vec![false; (ARENA_BYTES / SMALLEST_BYTES) as usize];
        let mut taken: Vec<(u32, u32)> = Vec::new();
        let range = |offset: u32, bytes: u32| {
            (offset / SMALLEST_BYTES) as usize..((offset + bytes) / SMALLEST_BYTES) as usize
        };
        for step in steps {
            match step {
                Step::Take(_) | Step::TakeDownTo(..) => {
                    let (sizes, found) = match step {
                        Step::Take(bytes) => (vec![bytes], arena.take(bytes).map(|at| (at, bytes))),
                        Step::TakeDownTo(most, least) => {
                            let all = (0..7).rev().map(|order| SMALLEST_BYTES << order);
                            let within = least..=most.min(LARGEST_BYTES);
                            let sizes = all.filter(|bytes| within.contains(bytes)).collect();
                            (sizes, arena.take_down_to(most, least))
                        }
                        Step::Give(_) => unreachable!("it takes"),
                    };
                    let wanted = sizes.into_iter().find(|bytes| has_place(&pages, *bytes));
                    prop_assert_eq!(found.map(|(_, bytes)| bytes), wanted);
                    let Some((offset, bytes)) = found else { continue };
                    prop_assert!(offset.is_multiple_of(bytes));
                    let range = range(offset, bytes);
                    prop_assert!(pages[range.clone()].iter().all(|used| !used), "two have it");
                    pages[range].fill(true);
                    taken.push((offset, bytes));
                }
                Step::Give(which) if !taken.is_empty() => {
                    let (offset, bytes) = taken.swap_remove(which % taken.len());
                    arena.give(offset, bytes);
                    pages[range(offset, bytes)].fill(false);
                }
                Step::Give(_) => {}
            }
            let free = pages.iter().filter(|used| !**used).count() as u32 * SMALLEST_BYTES;
            prop_assert_eq!(arena.free_bytes(), free);
        }
        for (offset, bytes) in taken {
            arena.give(offset, bytes);
        }
        let whole = core::iter::from_fn(|| arena.take(LARGEST_BYTES)).count();
        prop_assert_eq!(whole, 4, "all has become one again");
    }
}

#[test]
fn sizes_are_those_of_blocks() {
    let sizes = [0, 1, 4096, 4097, 65_536, 1 << 20].map(block_for);
    assert_eq!(sizes, [4096, 4096, 4096, 8192, 65_536, 65_536]);
    assert_eq!(Arena::new(LARGEST_BYTES - 1).take(SMALLEST_BYTES), None);
    assert_eq!(Arena::new(LARGEST_BYTES + 5).bytes(), LARGEST_BYTES);
}

#[test]
#[should_panic(expected = "a block given back twice")]
fn what_is_given_back_twice_is_our_own_fault() {
    let mut arena = Arena::new(LARGEST_BYTES);
    let (kept, twice) = (arena.take(SMALLEST_BYTES), arena.take(SMALLEST_BYTES));
    assert_eq!(kept, Some(0));
    let twice = twice.expect("there is another");
    arena.give(twice, SMALLEST_BYTES);
    arena.give(twice, SMALLEST_BYTES);
}
