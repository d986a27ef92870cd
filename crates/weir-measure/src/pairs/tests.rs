//! Comparisons of worked examples, and of noise whose truth is known.

use super::*;
use weir_policy::random::Random;

/// Returns a uniform number in (0, 1].
fn uniform(random: &mut Random) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Returns a normal number (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let (u, v) = (uniform(random), uniform(random));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The disturbance of the times in addition to 2 % of lognormal noise.
#[derive(Clone, Copy, Debug)]
enum Noise {
    Steady,
    /// Each run takes 1 % more than the one before.
    Drift,
    /// The CPU changes between two speeds, 1.27 apart, every ten runs or so.
    TwoSpeeds,
    /// One run in twenty takes four times as long.
    Spikes,
}

/// A noisy host, on which a run takes 1 without the noise.
struct NoisyHost {
    random: Random,
    noise: Noise,
    runs: i32,
    slow: bool,
}

impl NoisyHost {
    fn time(&mut self) -> f64 {
        self.runs += 1;
        let chance = self.random.below(100);
        self.slow ^= chance < 10;
        (0.02 * normal(&mut self.random)).exp()
            * match self.noise {
                Noise::Steady => 1.0,
                Noise::Drift => 1.01_f64.powi(self.runs),
                Noise::TwoSpeeds => [1.0, 1.27][usize::from(self.slow)],
                Noise::Spikes => [1.0, 4.0][usize::from(chance >= 95)],
            }
    }

    /// Returns a pair in which b takes `factor` times as long as a.
    fn pair(&mut self, a_runs_first: bool, factor: f64) -> (f64, f64) {
        let (first, second) = (self.time(), self.time());
        let (a, b) = if a_runs_first { (first, second) } else { (second, first) };
        (a, b * factor)
    }
}

/// Returns the share of series of `n` pairs for which `said` holds, each with its own seed.
fn share(
    (noise, n, factor): (Noise, usize, f64),
    series: u64,
    said: impl Fn(&Comparison) -> bool,
) -> f64 {
    let mut count = 0;
    for seed in 0..series {
        let mut host = NoisyHost { random: Random::new(seed), noise, runs: 0, slow: seed % 2 == 0 };
        let mut order = PairOrder::new(!seed);
        let pairs: Vec<_> = (0..n).map(|_| host.pair(order.a_runs_first(), factor)).collect();
        count += u32::from(said(&Comparison::from_pairs(&pairs).expect("pairs")));
    }
    f64::from(count) / series as f64
}

fn false_alarms(noise: Noise) {
    let share = share((noise, 25, 1.0), 2000, |comparison| !comparison.holds_one());
    assert!(share <= 0.07, "{noise:?}: {share}");
    // A test that never errs would detect nothing; 25 pairs give exactly 4.8 %.
    assert!(share >= 0.03, "{noise:?}: {share}");
}

#[test]
fn steady_noise_raises_few_false_alarms() {
    false_alarms(Noise::Steady);
}

#[test]
fn drift_raises_few_false_alarms() {
    false_alarms(Noise::Drift);
}

#[test]
fn two_speed_states_raise_few_false_alarms() {
    false_alarms(Noise::TwoSpeeds);
}

#[test]
fn spikes_raise_few_false_alarms() {
    false_alarms(Noise::Spikes);
}

#[test]
fn without_random_order_drift_does_raise_alarms() {
    // This shows that the four tests above would notice an order that is not random.
    let mut alarms = 0;
    for seed in 0..200 {
        let mut host =
            NoisyHost { random: Random::new(seed), noise: Noise::Drift, runs: 0, slow: false };
        let pairs: Vec<_> = (0..25).map(|_| host.pair(true, 1.0)).collect();
        alarms += u32::from(!Comparison::from_pairs(&pairs).expect("pairs").holds_one());
    }
    assert!(alarms > 50, "{alarms} of 200");
}

#[test]
fn a_true_difference_of_three_percent_is_found() {
    for (factor, right) in [(1.03, Verdict::Slower), (1.0 / 1.03, Verdict::Faster)] {
        for noise in [Noise::Steady, Noise::Drift] {
            let found = share((noise, 50, factor), 200, |found| found.verdict(0.01) == right);
            assert!(found >= 0.9, "{noise:?} {factor}: {found}");
        }
    }
}

#[test]
fn equivalence_is_found_and_not_claimed_at_the_edge_of_the_band() {
    let equivalent = |found: &Comparison| found.verdict(0.02) == Verdict::Equivalent;
    let found = share((Noise::Steady, 50, 1.0), 200, equivalent);
    assert!(found >= 0.9, "{found}");
    // At the edge a claim is wrong, and 2.5 % of the series may make it.
    let wrong = share((Noise::Steady, 50, 1.02), 500, equivalent);
    assert!(wrong <= 0.045, "{wrong}");
    // Two speeds are too much noise for 10 pairs to be sure of anything.
    let found = share((Noise::TwoSpeeds, 10, 1.0), 200, equivalent);
    assert!(found <= 0.1, "{found}");
}

fn close(value: f64, to: f64) -> bool {
    (value - to).abs() < 1e-12 * to.abs().max(1.0)
}

#[test]
fn a_worked_example() {
    // Log ratios ln 1 .. ln 7, n = 7, k = 2: of the 28 Walsh averages, that is of the products of
    // two, the 3rd is 1 x 3 and the 26th 5 x 7 (before it: 7 x 7, 6 x 7; 6 x 6 is the 26th).
    let pairs: Vec<(f64, f64)> = (1..=7).map(|n| (10.0, 10.0 * f64::from(n))).collect();
    let found = Comparison::from_pairs(&pairs).expect("pairs");
    assert!(close(found.low, 3.0_f64.sqrt()), "{found:?}");
    assert!(close(found.high, 6.0), "{found:?}");
    // The 14th and 15th are 12 and 14; halfway between their logs lies the root of their roots.
    assert!(close(found.ratio, 168.0_f64.powf(0.25)), "{found:?}");
    // One ratio is 1 and takes no side; the other six all agree.
    assert!(close(found.p, 2.0 / 64.0), "{found:?}");
    assert_eq!((found.pairs, found.a_median), (7, 10.0));
    assert!(close(found.b_median, 40.0));
    let quartiles = [6.0_f64.sqrt(), 4.0, 30.0_f64.sqrt()];
    assert!(found.quartiles.iter().zip(quartiles).all(|(is, to)| close(*is, to)), "{found:?}");
    assert_eq!(found.verdict(0.02), Verdict::Slower);
}

#[test]
fn exchanging_a_and_b_turns_the_comparison_round() {
    let mut random = Random::new(2);
    let pairs: Vec<(f64, f64)> =
        (0..31).map(|_| (uniform(&mut random), 1.1 * uniform(&mut random))).collect();
    let turned: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
    let there = Comparison::from_pairs(&pairs).expect("pairs");
    let back = Comparison::from_pairs(&turned).expect("pairs");
    assert!(close(there.ratio * back.ratio, 1.0));
    assert!(close(there.low * back.high, 1.0) && close(there.high * back.low, 1.0));
    assert!(close(there.p, back.p));
}

#[test]
fn extremes_of_range_stay_finite() {
    let pairs = [(f64::MIN_POSITIVE, f64::MAX); 6];
    let found = Comparison::from_pairs(&pairs).expect("pairs");
    assert_eq!(found.verdict(0.02), Verdict::Slower);
    let same = Comparison::from_pairs(&[(0.25, 0.25); 6]).expect("pairs");
    assert_eq!((same.ratio, same.low, same.high, same.p), (1.0, 1.0, 1.0, 1.0));
    assert_eq!(same.verdict(0.0), Verdict::Equivalent);
    let most = vec![(1.0, 1.1); PAIRS_COUNT_MAX];
    assert!(close(Comparison::from_pairs(&most).expect("pairs").ratio, 1.1));
}

fn of(low: f64, high: f64) -> Comparison {
    let ratio = (low * high).sqrt();
    let quartiles = [ratio; 3];
    Comparison { ratio, low, high, p: 0.5, pairs: 25, quartiles, a_median: 1.0, b_median: ratio }
}

#[test]
fn verdicts_look_at_the_whole_interval() {
    let cases = [
        (0.99, 1.01, Verdict::Equivalent),
        // Certain, and too small to matter.
        (1.005, 1.01, Verdict::Equivalent),
        (0.985, 0.995, Verdict::Equivalent),
        (0.97, 1.01, Verdict::Inconclusive),
        (0.99, 1.03, Verdict::Inconclusive),
        (0.97, 0.99, Verdict::Faster),
        (1.01, 1.03, Verdict::Slower),
        // The band is symmetric: 2 % more one way is 2 % more the other way.
        (1.0 / 1.0199, 1.0199, Verdict::Equivalent),
        (1.0 / 1.0201, 1.0, Verdict::Inconclusive),
    ];
    for (low, high, verdict) in cases {
        assert_eq!(of(low, high).verdict(0.02), verdict, "{low} to {high}");
    }
    assert_eq!(of(0.99, 1.01).verdict(f64::NAN), Verdict::Inconclusive);
    assert_eq!(of(0.99, 1.01).verdict(-0.5), Verdict::Inconclusive);
}

#[test]
fn sentences() {
    let said = |low, high| of(low, high).sentence("a", "b", 0.02).to_string();
    assert_eq!(
        said(0.91, 0.97),
        "b takes 0.94x the time of a (95 % interval 0.91 to 0.97, 25 pairs): faster"
    );
    assert_eq!(
        said(0.995, 1.007),
        "b takes 1.001x the time of a (95 % interval 0.995 to 1.007, 25 pairs): \
         equivalent (within 2 %)"
    );
    // 1.0031 must not read 1.00 beside a verdict that says it is not 1.
    assert_eq!(
        said(1.0031, 1.1),
        "b takes 1.050x the time of a (95 % interval 1.003 to 1.100, 25 pairs): slower"
    );
    assert_eq!(
        said(1.005, 1.012),
        "b takes 1.008x the time of a (95 % interval 1.005 to 1.012, 25 pairs): \
         equivalent (within 2 %, although there is a difference)"
    );
    assert_eq!(
        said(0.95, 1.05),
        "b takes 1.00x the time of a (95 % interval 0.95 to 1.05, 25 pairs): \
         inconclusive (a difference beyond 2 % is neither shown nor ruled out)"
    );
    assert_eq!(of(1.0, 1.0).to_string(), "1.000x (95 % interval 1.000 to 1.000, 25 pairs)");
}

#[test]
fn an_a_a_series_says_what_the_host_resolves() {
    let host = of(1.0 / 1.015, 1.015).resolution();
    assert!(host.holds_one() && close(host.fraction, 0.015));
    assert_eq!(host.to_string(), "this host resolves 1.5 %");
    assert_eq!(of(0.9998, 1.0002).resolution().to_string(), "this host resolves 0.020 %");
    let odd = of(1.01, 1.03).resolution();
    assert!(!odd.holds_one());
    assert_eq!(
        odd.to_string(),
        "this host resolves 1.0 %, but the same thing compared with itself came out as 1.02x (95 % \
         interval 1.01 to 1.03, 25 pairs); by chance that happens once in twenty: repeat before \
         trusting it"
    );
}

#[test]
fn what_allows_no_conclusion_is_an_error() {
    let fault = |pairs: &[(f64, f64)]| Comparison::from_pairs(pairs).unwrap_err().to_string();
    assert_eq!(fault(&[]), "0 pairs are too few for a 95 % interval: at least 6 are needed");
    assert_eq!(
        fault(&[(1.0, 1.0); 5]),
        "5 pairs are too few for a 95 % interval: at least 6 are needed"
    );
    let many = vec![(1.0, 1.0); PAIRS_COUNT_MAX + 1];
    assert_eq!(fault(&many), "2049 pairs are too many: at most 2048 can be compared");
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut pairs = [(1.0, 1.0); 8];
        pairs[3].1 = value;
        let said = format!("pair 4 holds {value}, which is not a positive number");
        assert_eq!(fault(&pairs), said);
        pairs[3] = (value, 1.0);
        assert_eq!(fault(&pairs), said);
    }
    assert_eq!(Comparison::from_pairs(&[(1.0, 1.0); 5]), Err(PairsError::TooFew { count: 5 }));
}
