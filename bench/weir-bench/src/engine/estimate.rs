//! From batches to a figure with an interval.
//!
//! Batches of one process resemble each other more than those of another (layout, allocation, which
//! cache lines conflict), and the host drifts. So each process gives one value (see [`Typical`]),
//! and the processes are spread over the whole run. The estimate is that of Hodges and Lehmann (the
//! median of the means of all pairs of values), as in [`weir_measure::pairs`].
//!
//! The interval is meant for repetition: those of two runs on one host overlap. The signed-rank
//! interval of the processes expresses the certainty within this run; it is widened by the drift of
//! hosts from one run to the next, which no single run can show. See [`drift`].

use super::params::{Placement, Unit};
use weir_measure::pairs::signed_rank;

pub use weir_measure::pairs::quantile;

/// Values of fewer processes than this have no signed-rank interval.
const SIGNED_RANK_MIN: usize = 6;

/// Returns the drift of figures between runs on one host beyond a run's own interval, as a
/// fraction.
///
/// Measured on a virtual machine with two CPUs, three runs of the default set in a row: with these
/// the intervals of all three overlapped in every case, and the estimate of one run lay in the
/// interval of another in 96 of 100; with 2 and 5 % it was 99 and 91. Across CPUs figures moved by
/// 3 to 6 % from run to run where a run itself showed 2 %: wake-ups of an idle CPU, and the way two
/// CPUs fall into step, differ from minute to minute.
pub fn drift(placement: Placement) -> f64 {
    if placement.is_across() { 0.08 } else { 0.03 }
}

/// Returns how far a figure may drift between two runs whose processes gave these values: [`drift`]
/// and, added as squares, the spread of the processes of a run. Some figures have several states (a
/// reader that still spins or already sleeps, batches that fit a pipe or do not), and runs differ
/// in how often they meet each.
///
/// Measured on eight consecutive runs of the default set without changes, while others used 0.2 to
/// 1 of the 2 CPUs, in 2759 comparisons of a case with itself: 30 % had a plain p value below 5 %,
/// 20 % with [`drift`], 3.6 % with the spread as well.
pub fn drift_between(placement: Placement, a: &[f64], b: &[f64]) -> f64 {
    // Half of the interquartile range of a normal distribution, in standard deviations.
    const QUARTILE: f64 = 0.674_5;
    let spread = |values: &[f64]| {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        (quantile(&logs, 0.75) - quantile(&logs, 0.25)) / 2.0 / QUARTILE
    };
    let reach = if placement.is_across() { 1.5 } else { 1.0 };
    let spread = reach * spread(a).hypot(spread(b)) / std::f64::consts::SQRT_2;
    drift(placement).ln_1p().hypot(spread)
}

/// An estimate from the processes' values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Lower end of the widened 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The widest value over the narrowest, less 1, in percent; `None` where one is not above 0.
    pub between_percent: Option<f64>,
}

/// The scale on which values are spread evenly to both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// For times and rates: disturbances multiply.
    Logarithmic,
    /// For differences and shares, which may be 0 or below.
    Linear,
}

/// Estimates from one value per process, widened by a drift; `None` without values.
pub fn estimate(values: &[f64], scale: Scale, drift: f64) -> Option<Estimate> {
    let positive = values.iter().all(|value| value.is_finite() && *value > 0.0);
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let end = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of).unwrap_or(f64::NAN);
    let between_percent = positive.then(|| (end(f64::max) / end(f64::min) - 1.0) * 100.0);
    if scale == Scale::Linear || !positive {
        let (value, low, high) = locate(values);
        let (low, high) = widen(value, low, high, drift * value.abs());
        return Some(Estimate { value, low, high, between_percent });
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let (value, low, high) = locate(&logs);
    let (low, high) = widen(value, low, high, drift.ln_1p());
    Some(Estimate { value: value.exp(), low: low.exp(), high: high.exp(), between_percent })
}

/// Adds independent errors as squares.
fn widen(value: f64, low: f64, high: f64, by: f64) -> (f64, f64) {
    (value - (value - low).hypot(by), value + (high - value).hypot(by))
}

fn locate(values: &[f64]) -> (f64, f64, f64) {
    if values.len() >= SIGNED_RANK_MIN {
        let found = signed_rank::analyse(values);
        return (found.estimate, found.low, found.high);
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let half = student_half(values, mean);
    (mean, mean - half, mean + half)
}

/// Returns half of Student's 95 % interval of the mean of two to five values; 0 for one.
fn student_half(values: &[f64], mean: f64) -> f64 {
    const T: [f64; 4] = [12.706, 4.303, 3.182, 2.776];
    let Some(t) = values.len().checked_sub(2).and_then(|at| T.get(at)) else { return 0.0 };
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let count = values.len() as f64;
    t * (squares / (count - 1.0) / count).sqrt()
}

/// What stands for the batches of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typical {
    /// Times and rates: the best quarter. Disturbances only ever make a batch slower, so the better
    /// quarter moves less from run to run than the middle (on a disturbed host by a third: 1.0
    /// against 1.6 %); the single best would be the luckiest.
    BestQuarter,
    /// Differences and shares: the middle. They have no better end.
    Middle,
    /// What is counted in clock ticks: the mean, since most batches see no tick.
    Mean,
}

impl Typical {
    /// Returns what stands for the batches of a figure.
    pub fn of(unit: Unit, by_ticks: bool, is_difference: bool) -> Typical {
        match () {
            () if by_ticks => Typical::Mean,
            () if is_difference || unit == Unit::Percent => Typical::Middle,
            () => Typical::BestQuarter,
        }
    }

    /// Returns the value for these batches of one process.
    pub fn value(self, batches: &[f64], unit: Unit) -> f64 {
        match self {
            Typical::BestQuarter => {
                quantile(batches, if unit.more_is_better() { 0.75 } else { 0.25 })
            }
            Typical::Middle => median(batches),
            Typical::Mean => batches.iter().sum::<f64>() / batches.len() as f64,
        }
    }
}

/// Returns the middle value; NaN for none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Whether values form two clusters: each of at least 15 %, with centres further apart than six
/// times the spread within, and by more than an eighth.
pub fn is_bimodal(values: &[f64]) -> bool {
    const SHARE_MIN: f64 = 0.15;
    const SPREADS: f64 = 6.0;
    let mut logs: Vec<f64> =
        values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let least = (logs.len() as f64 * SHARE_MIN).ceil() as usize;
    if logs.len() < 20 {
        return false;
    }
    let spread = |part: &[f64]| {
        let middle = part[part.len() / 2];
        let away: Vec<f64> = part.iter().map(|value| (value - middle).abs()).collect();
        (middle, quantile(&away, 0.5).max(0.002))
    };
    // The widest gap between neighbours that leaves enough values on both sides.
    let gap = |at: &usize| logs[*at] - logs[*at - 1];
    let cut = (least..=logs.len() - least).max_by(|a, b| gap(a).total_cmp(&gap(b)));
    cut.is_some_and(|cut| {
        let ((low, low_spread), (high, high_spread)) = (spread(&logs[..cut]), spread(&logs[cut..]));
        high - low > 1.125_f64.ln() && high - low > SPREADS * (low_spread + high_spread)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::random::Random;

    /// Returns a nearly normal number: the sum of twelve uniform numbers, less six.
    fn noise(random: &mut Random) -> f64 {
        let even = |random: &mut Random| random.below(1 << 40) as f64 / (1_u64 << 40) as f64;
        (0..12).map(|_| even(random)).sum::<f64>() - 6.0
    }

    /// Simulates runs of thirty processes whose values spread by 4 %, on a host that drifts by 1 %
    /// from run to run. Counts how often the interval holds the truth, and how often those of two
    /// runs overlap.
    #[test]
    fn the_intervals_of_two_runs_overlap_and_hold_the_truth() {
        let mut random = Random::new(11);
        let mut run = || {
            let host = 0.01 * noise(&mut random);
            let values: Vec<f64> =
                (0..30).map(|_| 100.0 * (host + 0.04 * noise(&mut random)).exp()).collect();
            estimate(&values, Scale::Logarithmic, 0.03).expect("thirty values")
        };
        const RUNS: usize = 1_000;
        let (mut holds, mut overlap) = (0, 0);
        for _ in 0..RUNS {
            let (first, second) = (run(), run());
            holds += usize::from((first.low..=first.high).contains(&100.0));
            overlap += usize::from(first.low <= second.high && second.low <= first.high);
        }
        let share = |count: usize| count as f64 / RUNS as f64;
        assert!(share(holds) >= 0.95, "{}", share(holds));
        assert!(share(overlap) >= 0.99, "{}", share(overlap));
    }

    #[test]
    fn few_values_have_a_wide_interval_and_one_has_none() {
        let two = estimate(&[100.0, 101.0], Scale::Logarithmic, 0.0).expect("two");
        assert!(two.low < 95.0 && two.high > 105.0, "{two:?}");
        let one = estimate(&[100.0], Scale::Logarithmic, 0.0).expect("one");
        assert!((one.low - one.high).abs() < 1e-9);
        assert_eq!(estimate(&[], Scale::Linear, 0.0), None);
        assert_eq!(estimate(&[f64::NAN], Scale::Linear, 0.0), None);
    }

    #[test]
    fn differences_may_be_negative() {
        let found = estimate(&[-1.0, 0.0, 1.0, 2.0, -2.0, 0.5, -0.5], Scale::Linear, 0.0);
        let found = found.expect("values");
        assert!(found.low < 0.0 && found.high > 0.0 && found.value.abs() < 0.5);
        assert_eq!(found.between_percent, None);
        // A share of a CPU, or what is counted in ticks.
        let shares = estimate(&[40.0, 50.0, 60.0], Scale::Linear, 0.0).expect("values");
        assert!(shares.between_percent.is_some_and(|percent| (percent - 50.0).abs() < 1e-9));
    }

    #[test]
    fn two_modes_are_seen_and_one_is_not() {
        let mut random = Random::new(5);
        let mut mode = |middle: f64, count| {
            (0..count).map(|_| middle * (0.01 * noise(&mut random)).exp()).collect::<Vec<_>>()
        };
        let (one, other) = (mode(100.0, 60), mode(127.0, 30));
        assert!(!is_bimodal(&one));
        assert!(is_bimodal(&[one.as_slice(), &other].concat()));
        // A few wild values are not a second mode.
        assert!(!is_bimodal(&[one.as_slice(), &other[..5]].concat()));
    }
}
