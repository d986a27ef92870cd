//! The ready queue against a naive one, and the fairness of turns.

use super::{
    LONG_TURN_BYTES, MOST_NEW_TURNS, ReadyQueue, Rotation, TURN_BYTES, Turn, TurnPace, Usual,
    WORK_UNITS, WorkBudget,
};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Push(u32, u8),
    Front(u8),
    Pop,
    Remove(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..20_u32, 0..64_u8).prop_map(|(index, priority)| Step::Push(index, priority)),
        2 => Just(Step::Pop),
        1 => (0..64_u8).prop_map(Step::Front),
        1 => (0..24_u32).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn behaves_as_sixty_four_lists_do(steps in steps()) {
        let mut queue = ReadyQueue::default();
        let mut naive: Vec<VecDeque<u32>> = (0..64).map(|_| VecDeque::new()).collect();
        for step in steps {
            match step {
                Step::Push(index, priority) => {
                    let queued = naive.iter().any(|list| list.contains(&index));
                    prop_assert_eq!(queue.push(index, priority), !queued);
                    if !queued {
                        naive[usize::from(priority)].push_back(index);
                    }
                }
                Step::Pop => {
                    let place = naive.iter().position(|list| !list.is_empty());
                    let expected =
                        place.and_then(|at| Some((naive[at].pop_front()?, at as u8)));
                    prop_assert_eq!(queue.pop(), expected);
                }
                Step::Front(priority) => {
                    // Takes one out and puts it before others.
                    if let Some((index, _)) = queue.pop() {
                        let lists = naive.iter_mut();
                        lists.for_each(|list| list.retain(|other| *other != index));
                        queue.push_front(index, priority);
                        naive[usize::from(priority)].push_front(index);
                    }
                }
                Step::Remove(index) => {
                    let queued = naive.iter().any(|list| list.contains(&index));
                    prop_assert_eq!(queue.remove(index), queued);
                    naive.iter_mut().for_each(|list| list.retain(|other| *other != index));
                }
            }
            let all: Vec<u32> = naive.iter().flatten().copied().collect();
            prop_assert_eq!(queue.iter().collect::<Vec<_>>(), all);
            let length: usize = naive.iter().map(VecDeque::len).sum();
            prop_assert_eq!((queue.len(), queue.is_empty()), (length, length == 0));
            for index in 0..24 {
                let queued = naive.iter().any(|list| list.contains(&index));
                prop_assert_eq!(queue.contains(index), queued);
            }
        }
    }
}

/// Serves channels that are always busy, each with records of its own size. Returns the cost of each.
fn served(sizes: &[u64], shares: &[u32], rounds: usize) -> Vec<u64> {
    let mut queue = ReadyQueue::default();
    let mut turns = alloc::vec![Turn::default(); sizes.len()];
    let mut cost = alloc::vec![0_u64; sizes.len()];
    (0..sizes.len() as u32).for_each(|index| assert!(queue.push(index, 0)));
    for _ in 0..rounds {
        let (index, priority) = queue.pop().expect("all are ready");
        let at = index as usize;
        turns[at].begin(shares[at]);
        while turns[at].continues() {
            cost[at] += sizes[at] + 32;
            turns[at].serve(sizes[at]);
        }
        queue.push(index, priority);
    }
    cost
}

#[test]
fn busy_channels_are_served_alike_whatever_their_records() {
    let cost = served(&[0, 4, 1000, 50_000, 1 << 20], &[1; 5], 5 * 2000);
    let mean = cost.iter().sum::<u64>() / 5;
    // Records longer than a turn use up the following turns too, so one record more at most.
    assert!(cost.iter().all(|cost| cost.abs_diff(mean) <= mean / 20), "{cost:?}");
}

#[test]
fn twice_the_share_is_twice_the_service() {
    let cost = served(&[64, 64, 64], &[1, 2, 4], 3 * 1000);
    let near = |value: u64, times: u64| value.abs_diff(times * cost[0]) <= cost[0] / 50;
    assert!(near(cost[1], 2) && near(cost[2], 4), "{cost:?}");
}

#[test]
fn a_turn_that_ran_dry_saves_nothing_up() {
    let mut turn = Turn::default();
    (0..100).for_each(|_| {
        turn.begin(1);
        turn.end();
    });
    turn.begin(1);
    assert!(!turn.serve(TURN_BYTES));
    turn.begin(1);
    turn.end();
    assert!(!turn.continues(), "it is over at once");
}

#[test]
fn a_turn_that_ran_dry_owes_nothing() {
    let mut turn = Turn::default();
    turn.serve(100 * TURN_BYTES);
    turn.end();
    turn.begin(1);
    assert_eq!(turn.left_bytes, TURN_BYTES as i64);
}

#[test]
fn who_was_idle_comes_before_who_is_busy_but_not_for_ever() {
    let mut rotation = Rotation::default();
    assert!(rotation.push(1, TurnPace::Busy) && rotation.push(2, TurnPace::Busy));
    assert!(rotation.push(3, TurnPace::New) && !rotation.push(3, TurnPace::Busy));
    assert_eq!(rotation.pop(), Some((3, TurnPace::New)));
    assert_eq!(rotation.pop(), Some((1, TurnPace::Busy)));
    rotation.push(1, TurnPace::Busy);
    // There is always an idle one: the busy ones have their turns nevertheless, in their order.
    let mut busy = Vec::new();
    for _ in 0..4 * (MOST_NEW_TURNS + 1) {
        rotation.push(3, TurnPace::New);
        match rotation.pop().expect("there are some") {
            (index, TurnPace::Busy) => {
                busy.push(index);
                rotation.push(index, TurnPace::Busy);
            }
            (index, TurnPace::New) => assert_eq!(index, 3),
        }
    }
    assert_eq!(busy, [2, 1, 2, 1]);
}

#[test]
fn long_turns_are_of_so_many_usual_messages_and_alike_for_a_round() {
    let mut usual = Usual::default();
    assert_eq!(usual.begin_turn(0), TURN_BYTES);
    usual.served(1000, 64 * 1000);
    let round: Vec<u64> = (0..4)
        .map(|_| {
            let turn = usual.begin_turn(3);
            usual.served(100, 100 * 4096);
            turn
        })
        .collect();
    assert_eq!(round, [1024 * (64 + 32); 4], "what comes meanwhile counts in the next");
    assert_eq!(usual.begin_turn(3), LONG_TURN_BYTES);
    usual.served(u64::MAX, 0);
    (0..3).for_each(|_| assert_eq!(usual.begin_turn(3), LONG_TURN_BYTES));
    assert_eq!(usual.begin_turn(3), 1024 * 32);
}

#[test]
fn a_debt_of_the_longest_message_is_paid_in_some_rounds_and_nothing_is_saved_up() {
    let mut turn = Turn::default();
    turn.begin(1);
    turn.serve(1 << 30);
    let rounds = (1..100).take_while(|round| {
        turn.begin_in_debt(1, *round);
        !turn.continues()
    });
    assert!(rounds.count() < 20);
    let mut fresh = Turn::default();
    fresh.begin(1);
    assert_eq!(turn.left_bytes.max(fresh.left_bytes), fresh.left_bytes);
}

#[test]
fn work_ends_whatever_it_is() {
    let mut work = WorkBudget::default();
    assert!(!work.is_over());
    (0..WORK_UNITS).for_each(|_| work.moves(0));
    assert!(work.is_over());
    let mut work = WorkBudget::default();
    work.moves(usize::MAX);
    assert!(work.is_over());
}

#[test]
fn a_rotation_knows_which_channels_are_in_it() {
    let mut rotation = Rotation::default();
    assert!(rotation.is_empty());
    assert_eq!(rotation.len(), 0);
    assert!(rotation.push(3, TurnPace::New));
    assert!(!rotation.push(3, TurnPace::New), "it is there already");
    assert!(rotation.push(5, TurnPace::Busy));
    assert!(!rotation.is_empty());
    assert_eq!(rotation.len(), 2);
    assert!(rotation.contains(3) && rotation.contains(5) && !rotation.contains(4));
    assert!(rotation.remove(3));
    assert!(!rotation.remove(3), "it is out already");
    assert!(!rotation.contains(3));
    assert_eq!(rotation.iter().collect::<Vec<_>>(), [5]);
    assert_eq!(rotation.pop(), Some((5, TurnPace::Busy)));
    assert!(rotation.is_empty());
}

#[test]
fn idle_channels_have_an_exact_number_of_turns_before_a_busy_one() {
    let mut rotation = Rotation::default();
    for index in 0..3 * MOST_NEW_TURNS {
        rotation.push(index, TurnPace::New);
    }
    for _ in 0..2 {
        rotation.push(1000, TurnPace::Busy);
        for _ in 0..MOST_NEW_TURNS {
            assert!(matches!(rotation.pop(), Some((_, TurnPace::New))));
        }
        assert_eq!(rotation.pop(), Some((1000, TurnPace::Busy)));
    }
}

#[test]
fn a_turn_ends_with_its_last_byte_and_counts_what_each_record_costs() {
    let mut turn = Turn::default();
    assert!(!turn.continues());
    turn.begin(1);
    assert!(turn.serve(TURN_BYTES - 65) && turn.continues(), "33 bytes are left");
    assert!(turn.serve(0) && turn.continues(), "one byte is left");
    turn.end();
    turn.begin_long(2, 100);
    assert!(turn.serve(167), "one byte of twice a hundred is left");
    turn.end();
    turn.begin(1);
    assert!(!turn.serve(TURN_BYTES - 32) && !turn.continues(), "nothing is left");
}

#[test]
fn each_round_of_debt_pays_twice_the_one_before() {
    let owes = |rounds: u32| {
        let mut turn = Turn::default();
        turn.serve(100 * TURN_BYTES - 32);
        turn.begin_in_debt(1, rounds);
        turn.left_bytes
    };
    let turns = |count: i64| count * TURN_BYTES as i64;
    assert_eq!([0, 1, 2, 5].map(owes), [-99, -98, -96, -68].map(turns));
    assert_eq!([7, 40].map(owes), [1, 1].map(turns), "no more than a turn is left over");
}

#[test]
fn work_is_a_look_and_the_pages_that_were_moved() {
    let mut work = WorkBudget::default();
    work.does(WORK_UNITS - 8);
    work.moves(4095);
    work.moves(4096);
    work.moves(3 * 4096 + 1);
    assert_eq!(work.left, 8 - 1 - 2 - 4);
    assert!(!work.is_over());
    work.moves(0);
    assert!(work.is_over());
    work.does(1);
    assert!(work.is_over());
}
