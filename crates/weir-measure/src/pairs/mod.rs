//! Statistics of paired runs.
//!
//! Two things, a and b, are compared by running them side by side repeatedly, each pair in random
//! order. The ratio of a pair cancels what both halves share: the speed state of the CPU, drift, a
//! neighbour's load. On a shared two-CPU machine, running all of a and then all of b gave 31 to 64
//! % false alarms at a nominal 5 %; random pairs gave 3 to 5 %.
//!
//! - [`PairOrder`]: the random order of the halves.
//! - [`Comparison`]: the estimate, its 95 % interval and the p value, from the log ratios of the
//!   pairs by Wilcoxon's signed-rank test (`signed_rank`).
//! - [`Unpaired`]: two samples that were not run in pairs, which is less reliable.
//! - [`holm`]: corrected p values of many comparisons.
//! - [`Verdict`], [`Sentence`], [`Resolution`]: the meaning of the result, in words.

mod family;
mod order;
pub mod signed_rank;
mod unpaired;
mod verdict;

pub use family::holm;
pub use order::PairOrder;
pub use unpaired::{Unpaired, p_of_intervals};
pub use verdict::{Resolution, Sentence, Verdict, digits};

/// Fewest pairs with a 95 % interval: with one less, p is 2 / 2^5 even if all of them agree.
pub const PAIRS_COUNT_MIN: usize = 6;
/// Most pairs: the Walsh averages, n (n + 1) / 2 of them, are all held in memory.
pub const PAIRS_COUNT_MAX: usize = 2048;

/// Why pairs allow no conclusion.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PairsError {
    /// There are fewer than [`PAIRS_COUNT_MIN`].
    #[error("{count} pairs are too few for a 95 % interval: at least {PAIRS_COUNT_MIN} are needed")]
    TooFew {
        /// How many there are.
        count: usize,
    },
    /// There are more than [`PAIRS_COUNT_MAX`].
    #[error("{count} pairs are too many: at most {PAIRS_COUNT_MAX} can be compared")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// A pair holds a value that is not a positive, finite number.
    #[error("pair {} holds {value}, which is not a positive number", index + 1)]
    NotPositive {
        /// Which pair, from 0.
        index: usize,
        /// Its first invalid value.
        value: f64,
    },
}

/// The comparison of b with a: ratios b / a, so below 1 where b takes less.
///
/// Among the estimators that go with the signed-rank test, `ratio` is that of Hodges and Lehmann
/// (the median of the Walsh averages), not the plain median of the log ratios (in `quartiles`). It
/// is the point that the test rejects least, so it always lies inside the interval, which the plain
/// median of lopsided ratios does not; and on normal noise it needs two thirds of the plain
/// median's pairs. It tolerates 29 % of wild pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The estimate of the ratio b / a.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Two-sided p value of "a and b take the same".
    pub p: f64,
    /// Number of pairs.
    pub pairs: usize,
    /// Quartiles of the pairs' own ratios: a quarter, half, three quarters of them lie below.
    pub quartiles: [f64; 3],
    /// Median of the a halves, in their unit.
    pub a_median: f64,
    /// Median of the b halves.
    pub b_median: f64,
}

impl Comparison {
    /// Compares the b halves of pairs `(a, b)` with the a halves.
    ///
    /// # Errors
    /// Too few or too many pairs, or a value that is not positive and finite.
    pub fn from_pairs(pairs: &[(f64, f64)]) -> Result<Comparison, PairsError> {
        for (index, (a, b)) in pairs.iter().enumerate() {
            let unfit = |value: &&f64| !value.is_finite() || **value <= 0.0;
            if let Some(value) = [a, b].into_iter().find(unfit) {
                return Err(PairsError::NotPositive { index, value: *value });
            }
        }
        let count = pairs.len();
        if count < PAIRS_COUNT_MIN {
            return Err(PairsError::TooFew { count });
        }
        if count > PAIRS_COUNT_MAX {
            return Err(PairsError::TooMany { count });
        }
        // A difference of logarithms, not the logarithm of a quotient: it cannot overflow, and
        // swapping a and b only changes the sign.
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| b.ln() - a.ln()).collect();
        let found = signed_rank::analyse(&logs);
        assert!(found.low <= found.estimate && found.estimate <= found.high);
        Ok(Comparison {
            ratio: found.estimate.exp(),
            low: found.low.exp(),
            high: found.high.exp(),
            p: found.p,
            pairs: count,
            quartiles: [0.25, 0.5, 0.75].map(|share| quantile(&logs, share).exp()),
            a_median: quantile(&pairs.iter().map(|(a, _)| *a).collect::<Vec<_>>(), 0.5),
            b_median: quantile(&pairs.iter().map(|(_, b)| *b).collect::<Vec<_>>(), 0.5),
        })
    }

    /// Whether the interval contains 1: no difference is shown.
    pub fn holds_one(&self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }
}

/// Returns the value below which this share of the values lies, interpolated between neighbours
/// (type 7 of Hyndman and Fan 1996, the default of R and NumPy); NaN for no values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests;
