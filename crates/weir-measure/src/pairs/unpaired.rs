//! Comparing two samples that were not measured in pairs, such as two saved runs.
//!
//! The test is that of Mann and Whitney (1947) on the logarithms, inverted like the signed ranks:
//! the estimate is the median of all quotients b / a (Hodges and Lehmann 1963), and the interval
//! runs from the (k+1)th smallest quotient to the (k+1)th largest, where k is the test's critical
//! value. It assumes that the two samples differ only in the thing compared; runs at different
//! hours violate that, and a program that prints the result must say so.

use super::signed_rank::{TAIL_DEVIATIONS, within_tail};
use super::{PairsError, Verdict, quantile};

/// Largest total size of the samples for which the exact distribution is used.
const EXACT_COUNT_MAX: usize = 60;
/// Fewest values on either side: with fewer, a 95 % interval hardly ever exists.
const SAMPLE_COUNT_MIN: usize = 4;

/// The comparison of two independent samples: ratios b / a.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Unpaired {
    /// The estimate.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Two-sided p value of "both the same".
    pub p: f64,
}

impl Unpaired {
    /// Compares b with a.
    ///
    /// # Errors
    /// A sample of fewer than four, or a value that is not positive and finite.
    pub fn from_samples(a: &[f64], b: &[f64]) -> Result<Unpaired, PairsError> {
        for (index, value) in a.iter().chain(b).enumerate() {
            if !value.is_finite() || *value <= 0.0 {
                return Err(PairsError::NotPositive { index, value: *value });
            }
        }
        let count = a.len().min(b.len());
        if count < SAMPLE_COUNT_MIN {
            return Err(PairsError::TooFew { count });
        }
        let mut differences: Vec<f64> =
            a.iter().flat_map(|a| b.iter().map(|b| b.ln() - a.ln())).collect();
        differences.sort_unstable_by(f64::total_cmp);
        let last = differences.len() - 1;
        let k = critical(a.len(), b.len()).min(last / 2);
        Ok(Unpaired {
            ratio: quantile(&differences, 0.5).exp(),
            low: differences[k].exp(),
            high: differences[last - k].exp(),
            p: p_value(&differences, a.len(), b.len()),
        })
    }

    /// Adds an uncertainty that neither sample shows: how far the host drifts from one run to the
    /// next, as the half width of its 95 % interval on the logarithmic scale. Independent errors
    /// add as squares. The p value follows from the wider interval, and is never below that of the
    /// samples themselves.
    #[must_use]
    pub fn widened(self, drift: f64) -> Unpaired {
        let (middle, low, high) = (self.ratio.ln(), self.low.ln(), self.high.ln());
        let (down, up) = ((middle - low).hypot(drift), (high - middle).hypot(drift));
        let towards_one = if middle > 0.0 { down } else { up };
        let deviations = middle.abs() / towards_one * TAIL_DEVIATIONS;
        let p = if towards_one > 0.0 { two_sided(deviations) } else { self.p };
        Unpaired { low: (middle - down).exp(), high: (middle + up).exp(), p: p.max(self.p), ..self }
    }

    /// Judges b as [`Comparison::verdict`] does.
    ///
    /// [`Comparison::verdict`]: super::Comparison::verdict
    pub fn verdict(&self, band: f64) -> Verdict {
        Verdict::of(self.low, self.high, band)
    }
}

/// Returns the largest k with P(U <= k) at most 0.025; 0 where there is none.
fn critical(m: usize, n: usize) -> usize {
    if m + n > EXACT_COUNT_MAX {
        let (mean, deviation) = moments(m, n);
        return (mean - TAIL_DEVIATIONS * deviation - 0.5).max(0.0).floor() as usize;
    }
    within_tail(&chances(m, n)).unwrap_or(0)
}

/// Returns the two-sided p value of a normal variable this many standard deviations from 0.
fn two_sided(deviations: f64) -> f64 {
    libm::erfc(deviations.abs() / std::f64::consts::SQRT_2).min(1.0)
}

/// Returns the two-sided p value of "the same" for two figures of which only the 95 % intervals are
/// known, each as `(value, low, high)`: for differences and shares, which may be 0 or below and
/// have no ratio. `None` where an interval has no width.
pub fn p_of_intervals(a: (f64, f64, f64), b: (f64, f64, f64)) -> Option<f64> {
    let (upper, lower) = if a.0 > b.0 { (a, b) } else { (b, a) };
    let width = (upper.0 - upper.1).hypot(lower.2 - lower.0);
    let p = two_sided((upper.0 - lower.0) / width * TAIL_DEVIATIONS);
    (width > 0.0 && p.is_finite()).then_some(p)
}

/// Returns the two-sided p value from the number of differences below 0. Ties count half.
fn p_value(differences: &[f64], m: usize, n: usize) -> f64 {
    let below = differences.iter().filter(|difference| **difference < 0.0).count();
    let ties = differences.iter().filter(|difference| **difference == 0.0).count();
    let u = (below as f64 + ties as f64 / 2.0).min((m * n - below) as f64 - ties as f64 / 2.0);
    let tail = if ties == 0 && m + n <= EXACT_COUNT_MAX {
        chances(m, n).iter().take(u as usize + 1).sum()
    } else {
        let (mean, deviation) = moments(m, n);
        let deviations = ((mean - u - 0.5) / deviation).max(0.0);
        0.5 * libm::erfc(deviations / std::f64::consts::SQRT_2)
    };
    (2.0 * tail).min(1.0)
}

fn moments(m: usize, n: usize) -> (f64, f64) {
    let (m, n) = (m as f64, n as f64);
    (m * n / 2.0, (m * n * (m + n + 1.0) / 12.0).sqrt())
}

/// Computes `chances(m, n)[u]`: among all choices of m of the m + n ranks for a, the share in which
/// U is u.
fn chances(m: usize, n: usize) -> Vec<f64> {
    let most = m * n;
    // ways[j][u]: j of the ranks seen so far are a's, and u counts the b's that came before them.
    let mut ways = vec![vec![0.0; most + 1]; m + 1];
    ways[0][0] = 1.0;
    for seen in 0..m + n {
        let mut next = vec![vec![0.0; most + 1]; m + 1];
        for (chosen, row) in ways.iter().enumerate().take(seen.min(m) + 1) {
            let others = seen - chosen;
            for (u, way) in row.iter().enumerate().filter(|(_, way)| **way > 0.0) {
                if chosen < m && u + others <= most {
                    next[chosen + 1][u + others] += way;
                }
                if others < n {
                    next[chosen][u] += way;
                }
            }
        }
        ways = next;
    }
    let all: f64 = ways[m].iter().sum();
    ways[m].iter().map(|way| way / all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::random::Random;

    /// Counts all ways to choose, one by one.
    fn counted(m: usize, n: usize) -> Vec<f64> {
        let mut counts = vec![0.0; m * n + 1];
        for mask in 0_u32..1 << (m + n) {
            if mask.count_ones() as usize != m {
                continue;
            }
            let before = |place: usize| (0..place).filter(|at| mask >> at & 1 == 0).count();
            let u: usize = (0..m + n).filter(|at| mask >> at & 1 == 1).map(before).sum();
            counts[u] += 1.0;
        }
        let all: f64 = counts.iter().sum();
        counts.iter().map(|count| count / all).collect()
    }

    #[test]
    fn the_distribution_is_that_of_all_ways_to_choose() {
        for (m, n) in [(1, 1), (2, 3), (4, 4), (5, 7)] {
            for (fast, slow) in chances(m, n).iter().zip(counted(m, n)) {
                assert!((fast - slow).abs() < 1e-12, "{m} {n}");
            }
        }
    }

    /// Critical values of the published tables (two-sided 5 %): reject at U <= 23 for 10 and 10,
    /// at 2 for 5 and 5.
    #[test]
    fn critical_values_are_those_of_the_tables() {
        assert_eq!((critical(10, 10), critical(5, 5), critical(8, 8)), (23, 2, 13));
        assert_eq!(critical(4, 4), 0);
    }

    #[test]
    fn samples_apart_are_told_apart_and_the_same_is_the_same() {
        let a: Vec<f64> = (0..10).map(|at| 100.0 + f64::from(at)).collect();
        let b: Vec<f64> = a.iter().map(|value| value * 1.2).collect();
        let found = Unpaired::from_samples(&a, &b).expect("sound");
        assert!(found.low < 1.2 && found.high > 1.2 && found.low > 1.05 && found.p < 0.001);
        assert_eq!(found.verdict(0.05), Verdict::Slower);
        let same = Unpaired::from_samples(&a, &a).expect("sound");
        assert!(same.p > 0.9 && same.low < 1.0 && same.high > 1.0);
        assert_eq!(same.verdict(0.1), Verdict::Equivalent);
        let other = Unpaired::from_samples(&b, &a).expect("sound");
        assert!((other.ratio * found.ratio - 1.0).abs() < 1e-9, "exchanged, inverted");
    }

    /// The drift that a run cannot see in itself makes the interval wider and the p value larger.
    #[test]
    fn a_drift_between_runs_widens_and_is_no_difference() {
        let a: Vec<f64> = (0..30).map(|at| 100.0 + f64::from(at) / 30.0).collect();
        let b: Vec<f64> = a.iter().map(|value| value * 1.03).collect();
        let found = Unpaired::from_samples(&a, &b).expect("sound");
        assert!(found.p < 1e-6 && found.low > 1.02, "{found:?}");
        let wide = found.widened(0.042);
        assert!(wide.low < 1.0 && wide.high > 1.06 && wide.p > 0.1, "{wide:?}");
        let far = Unpaired::from_samples(&a, &b.iter().map(|b| b * 1.3).collect::<Vec<_>>());
        let far = far.expect("sound").widened(0.042);
        assert!(far.low > 1.2 && far.p < 1e-6, "{far:?}");
        assert_eq!(found.widened(0.0).verdict(0.01), found.verdict(0.01));
    }

    #[test]
    fn intervals_tell_what_lies_apart() {
        let p = |b| p_of_intervals((0.0, -1.0, 1.0), b).expect("it has a width");
        assert!(p((0.5, -0.5, 1.5)) > 0.3);
        assert!((p((2.0_f64.sqrt(), 0.414, 2.414)) - 0.05).abs() < 0.01);
        assert!(p((5.0, 4.0, 6.0)) < 1e-6);
        assert_eq!(p_of_intervals((1.0, 1.0, 1.0), (2.0, 2.0, 2.0)), None);
    }

    #[test]
    fn false_alarms_are_as_rare_as_said() {
        let mut random = Random::new(21);
        let mut sample = || -> Vec<f64> {
            (0..10).map(|_| 100.0 + random.below(1_000_000) as f64 / 1e5).collect()
        };
        const TRIALS: usize = 2_000;
        let alarms = (0..TRIALS).filter(|_| {
            let found = Unpaired::from_samples(&sample(), &sample()).expect("sound");
            assert_eq!(found.p <= 0.05, found.low > 1.0 || found.high < 1.0);
            found.p <= 0.05
        });
        let rate = alarms.count() as f64 / TRIALS as f64;
        assert!(rate <= 0.07, "{rate}");
    }

    #[test]
    fn what_is_no_sample_is_refused() {
        let four = [1.0, 2.0, 3.0, 4.0];
        let few = Unpaired::from_samples(&four[..3], &four);
        assert_eq!(few, Err(PairsError::TooFew { count: 3 }));
        assert!(Unpaired::from_samples(&four, &[1.0, 0.0, 2.0, 3.0]).is_err());
    }
}
