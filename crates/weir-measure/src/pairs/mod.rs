//! What may be concluded from paired runs.
//!
//! Two things are compared by running them side by side again and again, each pair in random
//! order ([`PairOrder`]). The ratio of a pair cancels what both halves share: the speed state of
//! the CPU, drift, a neighbour's load. On a shared two-CPU machine, running all of one and then
//! all of the other gave 31 to 64 % false alarms at a nominal 5 %; random pairs gave 3 to 5 %.
//!
//! The estimate is the median of the log ratios; the 95 % interval inverts Wilcoxon's signed-rank
//! test (F. Wilcoxon 1945; the inversion by Walsh averages: Hodges and Lehmann 1963).

mod signed_rank;

use crate::random::Random;
use std::fmt;

/// In which order to run the halves of each pair.
#[derive(Clone, Debug)]
pub struct PairOrder {
    random: Random,
}

impl PairOrder {
    /// An order that follows from the seed.
    pub fn new(seed: u64) -> PairOrder {
        PairOrder { random: Random::new(seed) }
    }

    /// Whether the next pair runs its first half first.
    pub fn first_goes_first(&mut self) -> bool {
        self.random.next_u64() >> 63 == 0
    }

    /// Puts a round of several halves into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, round: &mut [T]) {
        for last in (1..round.len()).rev() {
            round.swap(last, self.random.below(last as u64 + 1) as usize);
        }
    }
}

/// Fewer pairs than this allow no 95 % interval.
pub const LEAST_PAIRS: usize = 6;

/// Why pairs allow no conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairsError {
    /// There are fewer than [`LEAST_PAIRS`].
    TooFew(usize),
    /// This one holds a value that is not a positive number.
    NotPositive(usize),
}

impl fmt::Display for PairsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairsError::TooFew(n) => {
                write!(f, "{n} pairs are too few for a 95 % interval: at least {LEAST_PAIRS}")
            }
            PairsError::NotPositive(at) => {
                write!(f, "pair {} holds a value that is not a positive number", at + 1)
            }
        }
    }
}

impl std::error::Error for PairsError {}

/// How much longer (or larger) the second of each pair is than the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median ratio of second to first.
    pub ratio: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of pairs.
    pub pairs: usize,
}

/// What a comparison says of the second, in terms of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes less time: the interval lies below 1.
    Faster,
    /// It takes more time.
    Slower,
    /// Whatever the difference, it is within the band: the whole interval lies inside.
    Equivalent,
    /// The pairs do not tell.
    Inconclusive,
}

impl Comparison {
    /// Compares the second of each pair with the first.
    ///
    /// # Errors
    /// Too few pairs, or a value that is not positive and finite.
    pub fn of(pairs: &[(f64, f64)]) -> Result<Comparison, PairsError> {
        let fits = |value: f64| value.is_finite() && value > 0.0;
        if let Some(at) = pairs.iter().position(|(a, b)| !fits(*a) || !fits(*b)) {
            return Err(PairsError::NotPositive(at));
        }
        if pairs.len() < LEAST_PAIRS {
            return Err(PairsError::TooFew(pairs.len()));
        }
        let mut logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
        logs.sort_unstable_by(f64::total_cmp);
        let estimate = median(&logs);
        let (low, high) = signed_rank::interval(&logs);
        // The interval is that of the pseudo-median; of very lopsided ratios the median can lie
        // outside of it, and an interval without its estimate would mislead.
        let (low, high) = (low.min(estimate), high.max(estimate));
        let pairs = pairs.len();
        Ok(Comparison { ratio: estimate.exp(), low: low.exp(), high: high.exp(), pairs })
    }

    /// Judges the second. A difference that is certain but lies wholly inside `band` (0.02 for
    /// 2 %) counts as equivalent: it is real and does not matter.
    pub fn verdict(&self, band: f64) -> Verdict {
        if self.low >= 1.0 / (1.0 + band) && self.high <= 1.0 + band {
            Verdict::Equivalent
        } else if self.high < 1.0 {
            Verdict::Faster
        } else if self.low > 1.0 {
            Verdict::Slower
        } else {
            Verdict::Inconclusive
        }
    }

    /// Half the width of the interval: of an A/A series, the difference this host resolves.
    pub fn resolution(&self) -> f64 {
        (self.high / self.low).sqrt() - 1.0
    }

    /// Whether the interval holds 1: true of an A/A series in 95 of 100 cases.
    pub fn holds_one(&self) -> bool {
        self.low <= 1.0 && self.high >= 1.0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { ratio, low, high, pairs } = self;
        write!(f, "{ratio:.3}x (95 % interval {low:.3} to {high:.3}, {pairs} pairs)")
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equivalent => "equivalent",
            Verdict::Inconclusive => "inconclusive",
        })
    }
}

/// The median of sorted values, of which there is at least one.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests;
