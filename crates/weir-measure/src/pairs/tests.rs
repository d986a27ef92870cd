//! The engine's own behaviour on noise whose truth is known.

use super::*;

/// Roughly normal: the sum of twelve uniform numbers.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

/// A noisy host: gives the time of a run that would take 1 without noise.
struct Host {
    random: Random,
    kind: &'static str,
    runs: u32,
    slow: bool,
}

impl Host {
    fn time(&mut self) -> f64 {
        self.runs += 1;
        let noise = (0.02 * normal(&mut self.random)).exp();
        let chance = self.random.below(100);
        match self.kind {
            "steady" => noise,
            "drift" => noise * (1.0 + 0.01 * f64::from(self.runs)),
            "two speeds" => {
                self.slow ^= chance < 10;
                noise * if self.slow { 1.27 } else { 1.0 }
            }
            _ => noise * if chance < 5 { 4.0 } else { 1.0 },
        }
    }

    /// Pairs in random order, the second taking `factor` times as long as the first.
    fn pairs(&mut self, order: &mut PairOrder, n: usize, factor: f64) -> Vec<(f64, f64)> {
        let mut pair = |_| {
            if order.first_goes_first() {
                let a = self.time();
                (a, self.time() * factor)
            } else {
                let b = self.time() * factor;
                (self.time(), b)
            }
        };
        (0..n).map(&mut pair).collect()
    }
}

fn share(kind: &'static str, trials: u64, factor: f64, said: fn(&Comparison) -> bool) -> f64 {
    let mut count = 0;
    for trial in 0..trials {
        let mut host = Host { random: Random::new(trial), kind, runs: 0, slow: false };
        let mut order = PairOrder::new(trial ^ 0xabcd);
        let pairs = host.pairs(&mut order, 25, factor);
        count += u32::from(said(&Comparison::of(&pairs).expect("enough")));
    }
    f64::from(count) / trials as f64
}

#[test]
fn false_alarms_stay_near_five_percent_on_every_kind_of_noise() {
    for kind in ["steady", "drift", "two speeds", "spikes"] {
        let alarms = share(kind, 1500, 1.0, |comparison| !comparison.holds_one());
        assert!(alarms <= 0.07, "{kind}: {alarms}");
        assert!(alarms > 0.01, "{kind}: an interval that never errs is too wide: {alarms}");
    }
}

#[test]
fn a_true_difference_of_three_percent_is_found() {
    let found = share("steady", 400, 1.03, |comparison| comparison.verdict(0.0) == Verdict::Slower);
    assert!(found > 0.9, "{found}");
    let found = share("steady", 400, 0.97, |comparison| comparison.verdict(0.0) == Verdict::Faster);
    assert!(found > 0.9, "{found}");
}

#[test]
fn a_worked_example() {
    let pairs: Vec<(f64, f64)> = (1..=7).map(|n| (1.0, f64::from(n))).collect();
    let comparison = Comparison::of(&pairs).expect("enough");
    assert!((comparison.ratio - 4.0).abs() < 1e-12);
    // n = 7, k = 2: the third smallest Walsh average of the logs is (ln 1 + ln 3) / 2.
    assert!((comparison.low - 3.0_f64.sqrt()).abs() < 1e-12, "{comparison}");
    assert_eq!(comparison.verdict(0.02), Verdict::Slower);
}

#[test]
fn equivalence_needs_the_whole_interval_inside_the_band() {
    let same = |low, high| Comparison { ratio: 1.0, low, high, pairs: 25 };
    assert_eq!(same(0.99, 1.01).verdict(0.02), Verdict::Equivalent);
    assert_eq!(same(1.005, 1.01).verdict(0.02), Verdict::Equivalent);
    assert_eq!(same(0.97, 1.01).verdict(0.02), Verdict::Inconclusive);
    assert_eq!(same(0.90, 0.97).verdict(0.02), Verdict::Faster);
    assert!((same(0.99, 0.99 * 1.0404).resolution() - 0.02).abs() < 1e-12);
}

#[test]
fn what_allows_no_conclusion_is_an_error() {
    assert_eq!(Comparison::of(&[(1.0, 1.0); 5]), Err(PairsError::TooFew(5)));
    let mut pairs = vec![(1.0, 1.0); 8];
    pairs[3].1 = 0.0;
    assert_eq!(Comparison::of(&pairs), Err(PairsError::NotPositive(3)));
    pairs[3].1 = f64::NAN;
    assert_eq!(Comparison::of(&pairs), Err(PairsError::NotPositive(3)));
    let said = PairsError::TooFew(5).to_string();
    assert_eq!(said, "5 pairs are too few for a 95 % interval: at least 6");
}

#[test]
fn orders_are_fair_and_repeatable() {
    let mut order = PairOrder::new(7);
    let first = (0..10_000).filter(|_| order.first_goes_first()).count();
    assert!((4_800..5_200).contains(&first), "{first}");
    let (mut a, mut b) = ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]);
    PairOrder::new(3).shuffle(&mut a);
    PairOrder::new(3).shuffle(&mut b);
    assert_eq!(a, b);
}
