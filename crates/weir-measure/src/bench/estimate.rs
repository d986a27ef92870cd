//! From batches to a figure with an interval.
//!
//! Batches of one process resemble each other more than those of another (layout, allocation,
//! which cache lines conflict), and the host drifts; so each process gives one value, the median
//! of its batches, and the processes are spread over the whole run. The estimate is that of Hodges
//! and Lehmann (the median of the means of all pairs of values), as in [`crate::pairs`].
//!
//! The interval is one for repeating: in which the estimate of a second such run lies, 19 times of
//! 20. Two estimates of one thing differ by the square root of two more than an estimate differs
//! from the truth, so it is the signed-rank interval stretched by that around the estimate.

use crate::pairs::signed_rank;

/// Values of fewer processes than this have no signed-rank interval.
const SIGNED_RANK_MIN: usize = 6;

/// What processes' values say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Lower end of the interval of a repeat.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The widest value over the narrowest, less 1, in percent; 0 on a linear scale.
    pub between_percent: f64,
}

/// On which scale values are spread evenly to both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Times and rates: what disturbs multiplies.
    Logarithmic,
    /// Differences and shares, which may be 0 or below.
    Linear,
}

/// Estimates from one value a process; `None` without values.
pub fn estimate(values: &[f64], scale: Scale) -> Option<Estimate> {
    let positive = values.iter().all(|value| value.is_finite() && *value > 0.0);
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    if scale == Scale::Linear || !positive {
        let (value, low, high) = locate(values);
        return Some(Estimate { value, low, high, between_percent: 0.0 });
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let (value, low, high) = locate(&logs);
    let most = logs.iter().copied().fold(f64::MIN, f64::max);
    let least = logs.iter().copied().fold(f64::MAX, f64::min);
    Some(Estimate {
        value: value.exp(),
        low: low.exp(),
        high: high.exp(),
        between_percent: ((most - least).exp() - 1.0) * 100.0,
    })
}

/// Location and stretched interval.
fn locate(values: &[f64]) -> (f64, f64, f64) {
    let (value, low, high) = if values.len() >= SIGNED_RANK_MIN {
        let found = signed_rank::analyse(values);
        (found.estimate, found.low, found.high)
    } else {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let half = student_half(values, mean);
        (mean, mean - half, mean + half)
    };
    let stretch = std::f64::consts::SQRT_2;
    (value, value - (value - low) * stretch, value + (high - value) * stretch)
}

/// Half of Student's 95 % interval of the mean of two to five values; 0 of one.
fn student_half(values: &[f64], mean: f64) -> f64 {
    const T: [f64; 4] = [12.706, 4.303, 3.182, 2.776];
    let Some(t) = values.len().checked_sub(2).and_then(|at| T.get(at)) else { return 0.0 };
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let count = values.len() as f64;
    t * (squares / (count - 1.0) / count).sqrt()
}

/// The middle value; NaN of none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this share lies; NaN of none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    crate::pairs::quantile(values, share)
}

/// Whether values fall into two heaps: each of at least 15 %, their middles further apart than six
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
    // The widest gap between neighbours, of those that leave enough on both sides.
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
    use crate::random::Random;

    /// Near enough normal: the sum of twelve even numbers.
    fn noise(random: &mut Random) -> f64 {
        let even = |random: &mut Random| random.below(1 << 40) as f64 / (1_u64 << 40) as f64;
        (0..12).map(|_| even(random)).sum::<f64>() - 6.0
    }

    /// Runs of ten processes whose values spread by 4 %: how often the estimate of the second run
    /// lies in the interval of the first.
    #[test]
    fn a_second_run_lies_in_the_interval_of_the_first() {
        let mut random = Random::new(11);
        let mut run = || {
            let values: Vec<f64> =
                (0..10).map(|_| 100.0 * (0.04 * noise(&mut random)).exp()).collect();
            estimate(&values, Scale::Logarithmic).expect("ten values")
        };
        const RUNS: usize = 2_000;
        let inside = (0..RUNS).filter(|_| {
            let (first, second) = (run(), run());
            (first.low..=first.high).contains(&second.value)
        });
        let share = inside.count() as f64 / RUNS as f64;
        assert!((0.93..=0.985).contains(&share), "{share}");
    }

    #[test]
    fn few_values_have_a_wide_interval_and_one_has_none() {
        let two = estimate(&[100.0, 101.0], Scale::Logarithmic).expect("two");
        assert!(two.low < 95.0 && two.high > 105.0, "{two:?}");
        let one = estimate(&[100.0], Scale::Logarithmic).expect("one");
        assert!((one.low - one.high).abs() < 1e-9);
        assert_eq!(estimate(&[], Scale::Linear), None);
        assert_eq!(estimate(&[f64::NAN], Scale::Linear), None);
    }

    #[test]
    fn differences_may_be_negative() {
        let found = estimate(&[-1.0, 0.0, 1.0, 2.0, -2.0, 0.5, -0.5], Scale::Linear);
        let found = found.expect("values");
        assert!(found.low < 0.0 && found.high > 0.0 && found.value.abs() < 0.5);
    }

    #[test]
    fn two_heaps_are_seen_and_one_is_not() {
        let mut random = Random::new(5);
        let mut heap = |middle: f64, count| {
            (0..count).map(|_| middle * (0.01 * noise(&mut random)).exp()).collect::<Vec<_>>()
        };
        let (one, other) = (heap(100.0, 60), heap(127.0, 30));
        assert!(!is_bimodal(&one));
        assert!(is_bimodal(&[one.as_slice(), &other].concat()));
        // A few wild values are no heap.
        assert!(!is_bimodal(&[one.as_slice(), &other[..5]].concat()));
    }
}
