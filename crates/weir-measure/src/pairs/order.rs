//! The order of the halves: random within pairs and rounds.

use weir_policy::random::Random;

/// Chooses the order of the halves of each pair from a seed: the same seed gives the same orders.
///
/// Each pair is a coin toss of its own. Balanced orders (as often a first as b) would be a little
/// tighter where the second half always suffers, but the signed-rank test would then no longer be
/// exact: it assumes that the signs of the pairs are independent, and coin tosses make them so
/// whatever the noise.
#[derive(Clone, Debug)]
pub struct PairOrder {
    random: Random,
}

impl PairOrder {
    /// Creates the orders that follow from `seed`.
    pub fn new(seed: u64) -> PairOrder {
        PairOrder { random: Random::new(seed) }
    }

    /// Shuffles the parts of a round (Fisher and Yates); of any two of them, either is equally
    /// likely to be first, so they make a pair.
    pub fn shuffle<T>(&mut self, round: &mut [T]) {
        for last in (1..round.len()).rev() {
            round.swap(last, self.random.below(last as u64 + 1) as usize);
        }
    }

    /// Whether a runs first in the next pair of a test.
    pub fn a_runs_first(&mut self) -> bool {
        let mut a_is = [false, true];
        self.shuffle(&mut a_is);
        a_is[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_goes_first_as_often_and_the_seed_decides() {
        let orders = |seed| {
            let mut order = PairOrder::new(seed);
            (0..10_000).map(|_| order.a_runs_first()).collect::<Vec<_>>()
        };
        assert_eq!(orders(7), orders(7));
        assert_ne!(orders(7), orders(8));
        let first = orders(7).iter().filter(|first| **first).count();
        assert!((4_800..5_200).contains(&first), "{first}");
    }

    #[test]
    fn every_order_of_a_round_is_as_likely() {
        let mut order = PairOrder::new(3);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let mut round = ['a', 'b', 'c'];
            order.shuffle(&mut round);
            *seen.entry(round).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| (880..1_120).contains(count)), "{seen:?}");
        order.shuffle(&mut [(); 0]);
    }
}
