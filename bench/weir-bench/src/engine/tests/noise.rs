//! False alarms on noise recorded on a real host.
//!
//! `reports/data/noise/*.csv` are series of batches of the same operation in the order of measuring,
//! recorded with `weir bench joy-switch` (see `reports/data/noise/README.md`). Neighbours are taken as the
//! halves of a pair in random order, as the engine runs them. There is no difference, so each one
//! found is a false alarm.

use weir_measure::pairs::{Comparison, PairOrder};

const SERIES: [(&str, &str); 4] = [
    ("one CPU, quiet", include_str!("../../../../../reports/data/noise/switch-same-cpu-quiet.csv")),
    (
        "two CPUs, quiet",
        include_str!("../../../../../reports/data/noise/switch-other-cpu-quiet.csv"),
    ),
    (
        "one CPU, beside compilers",
        include_str!("../../../../../reports/data/noise/switch-same-cpu-busy.csv"),
    ),
    (
        "two CPUs, beside compilers",
        include_str!("../../../../../reports/data/noise/switch-other-cpu-busy.csv"),
    ),
];
const PAIRS: usize = 20;
const TRIALS: usize = 2_000;

fn values(text: &str) -> Vec<f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.parse().ok()).collect()
}

/// Returns the share of trials, which begin anywhere in the series, that find a difference after b
/// was multiplied by `factor`.
fn found(series: &[f64], factor: f64, seed: u64) -> f64 {
    let mut order = PairOrder::new(seed);
    let mut random = weir_policy::random::Random::new(seed ^ 0xa5);
    let mut alarms = 0;
    for _ in 0..TRIALS {
        let start = random.below((series.len() - 2 * PAIRS) as u64) as usize;
        let pairs: Vec<(f64, f64)> = series[start..start + 2 * PAIRS]
            .chunks_exact(2)
            .map(|pair| {
                let first = order.a_runs_first();
                let (a, b) = if first { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
                (a, b * factor)
            })
            .collect();
        let comparison = Comparison::from_pairs(&pairs).expect("enough pairs");
        alarms += usize::from(comparison.p <= 0.05);
    }
    alarms as f64 / TRIALS as f64
}

#[test]
fn recorded_noise_gives_few_false_alarms() {
    for (name, text) in SERIES {
        let series = values(text);
        assert!(series.len() >= 500, "{name}: {}", series.len());
        let rate = found(&series, 1.0, 9);
        assert!(rate <= 0.07, "{name}: {rate}");
    }
}

/// A true difference of 3 % is found in most trials on the quiet host, on one CPU. Across CPUs the
/// wake-ups vary more, so it takes more pairs.
#[test]
fn a_true_difference_is_found_in_recorded_noise() {
    let series = values(SERIES[0].1);
    let rate = found(&series, 1.03, 10);
    assert!(rate >= 0.8, "{rate}");
}
