//! Wilcoxon's signed-rank test of "the values are symmetric around 0", inverted to give an estimate
//! and a 95 % interval (F. Wilcoxon 1945; J. L. Hodges and E. L. Lehmann 1963).
//!
//! The statistic W is the sum of the ranks, by size, of the values above 0. It equals the number
//! of Walsh averages (means of two values, each with itself included) above 0. Hence:
//!
//! 1. The interval runs from the (k+1)th smallest Walsh average to the (k+1)th largest, k being the
//!    test's critical value: these are the shifts the test does not reject.
//! 2. The estimate is the median of the Walsh averages.
//! 3. The p value is that of W itself. Equal sizes share their mean rank, and values of 0 count
//!    when ranking but take no side (J. W. Pratt 1959): the distribution is that of the ranks
//!    there are, so it is exact with ties too.
//!
//! Without ties p <= 0.05 just when the interval leaves out 0. With ties (a coarse clock) the
//! interval is on the safe side: it may be a little too wide, and hold 0 where p is below 0.05.

/// Most values whose distribution is enumerated; above, it is normal to within a step.
const EXACT_COUNT_MAX: usize = 100;
/// Probability beyond each end of the interval.
const TAIL: f64 = 0.025;
/// How many standard deviations from the mean leave [`TAIL`] outside.
pub const TAIL_DEVIATIONS: f64 = 1.959_963_984_540_054;

/// The result of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignedRank {
    /// Median of the Walsh averages.
    pub estimate: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Two-sided p value.
    pub p: f64,
}

/// Analyses finite values, at least six of them.
pub fn analyse(values: &[f64]) -> SignedRank {
    let k = critical(values.len()).expect("six values or more");
    let mut averages: Vec<f64> = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (at, a) in values.iter().enumerate() {
        // Halved first, so that the sum cannot overflow.
        averages.extend(values[at..].iter().map(|b| a / 2.0 + b / 2.0));
    }
    averages.sort_unstable_by(f64::total_cmp);
    let last = averages.len() - 1;
    SignedRank {
        estimate: averages[last / 2] / 2.0 + averages[last.div_ceil(2)] / 2.0,
        low: averages[k],
        high: averages[last - k],
        p: p_value(values),
    }
}

/// Returns the largest k with P(W <= k) at most [`TAIL`], for `n` values without ties; none below
/// six.
pub fn critical(n: usize) -> Option<usize> {
    if n > EXACT_COUNT_MAX {
        let ranks: Vec<usize> = (1..=n).map(|rank| 2 * rank).collect();
        let (mean, deviation) = moments(&ranks);
        // From doubled ranks to ranks; half a step of W for continuity.
        return Some(((mean - TAIL_DEVIATIONS * deviation) / 2.0 - 0.5).floor() as usize);
    }
    let ranks: Vec<usize> = (1..=n).collect();
    within_tail(&chances(&ranks, n * (n + 1) / 4))
}

/// Returns the largest k for which the chances of a statistic of 0 to k sum to at most [`TAIL`].
pub fn within_tail(chances: &[f64]) -> Option<usize> {
    let mut below = 0.0;
    let beyond = chances.iter().position(|chance| {
        below += chance;
        below > TAIL
    });
    beyond?.checked_sub(1)
}

/// Returns the two-sided p value of "symmetric around 0".
pub fn p_value(values: &[f64]) -> f64 {
    let (ranks, above) = doubled_ranks(values);
    let total: usize = ranks.iter().sum();
    // The distribution is symmetric: the nearer end stands for both.
    let nearer = above.min(total - above);
    let tail = if ranks.len() <= EXACT_COUNT_MAX {
        chances(&ranks, nearer).iter().sum()
    } else {
        let (mean, deviation) = moments(&ranks);
        // A step of W is two of the doubled ranks; half of it for continuity.
        let deviations = ((mean - nearer as f64 - 1.0) / deviation).max(0.0);
        0.5 * libm::erfc(deviations / std::f64::consts::SQRT_2)
    };
    (2.0 * tail).min(1.0)
}

/// Returns twice the mean ranks of the values other than 0, and the sum of those of values above 0.
/// Doubled, mean ranks are integers.
fn doubled_ranks(values: &[f64]) -> (Vec<usize>, usize) {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let (mut ranks, mut above, mut before) = (Vec::new(), 0, 0);
    for tied in sorted.chunk_by(|a, b| a.abs() == b.abs()) {
        // Ranks before + 1 to before + len; twice their mean.
        let rank = 2 * before + tied.len() + 1;
        before += tied.len();
        if tied[0] != 0.0 {
            ranks.extend(tied.iter().map(|_| rank));
            above += rank * tied.iter().filter(|value| **value > 0.0).count();
        }
    }
    (ranks, above)
}

/// Computes `chances(..)[w]`: among all assignments of signs to the ranks, the share whose positive
/// ranks sum to w, for w up to `most`.
fn chances(ranks: &[usize], most: usize) -> Vec<f64> {
    let mut chances = vec![0.0; most + 1];
    chances[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached = (reached + rank).min(most);
        // Downwards, so that the values read do not include this rank yet.
        for sum in (0..=reached).rev() {
            let with = if sum >= *rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    chances
}

/// Returns mean and standard deviation of the sum of the positive ranks. The squares of mean ranks
/// include the correction for ties.
fn moments(ranks: &[usize]) -> (f64, f64) {
    let sum: f64 = ranks.iter().map(|rank| *rank as f64).sum();
    let squares: f64 = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum();
    (sum / 2.0, squares.sqrt() / 2.0)
}

#[cfg(test)]
mod tests;
