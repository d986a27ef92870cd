//! The 95 % interval that inverts Wilcoxon's signed-rank test.
//!
//! The test's statistic counts the Walsh averages (means of two values, each with itself included)
//! above the hypothesis; so the interval runs from the (k+1)th smallest Walsh average to the
//! (k+1)th largest, k being the test's critical value.

/// Up to this many values the statistic's distribution is counted out; beyond, it is normal to
/// within a fraction of a step.
const EXACT: usize = 120;
/// Probability outside of each end of the interval.
const TAIL: f64 = 0.025;

/// The interval of sorted values, of which there are at least six.
pub fn interval(sorted: &[f64]) -> (f64, f64) {
    let mut averages: Vec<f64> = Vec::with_capacity(sorted.len() * (sorted.len() + 1) / 2);
    for (at, a) in sorted.iter().enumerate() {
        averages.extend(sorted[at..].iter().map(|b| (a + b) / 2.0));
    }
    averages.sort_unstable_by(f64::total_cmp);
    let k = critical(sorted.len()).min(averages.len() - 1);
    (averages[k], averages[averages.len() - 1 - k])
}

/// The largest k with P(W <= k) at most [`TAIL`]; 0 when there is none.
pub fn critical(n: usize) -> usize {
    if n > EXACT {
        let n = n as f64;
        let mean = n * (n + 1.0) / 4.0;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return (mean - 1.959_964 * deviation - 0.5).floor() as usize;
    }
    // chances[w]: of the subsets of ranks 1..n, the share whose sum is w.
    let mut chances = vec![0.0; n * (n + 1) / 2 + 1];
    chances[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..chances.len()).rev() {
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    let mut below = 0.0;
    let beyond = chances.iter().position(|chance| {
        below += chance;
        below > TAIL
    });
    beyond.map_or(0, |first| first.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_the_printed_tables() {
        let table =
            [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (15, 25), (20, 52), (25, 89), (50, 434)];
        for (n, k) in table {
            assert_eq!(critical(n), k, "n = {n}");
        }
    }

    #[test]
    fn the_normal_approximation_joins_on() {
        let (exact, beyond) = (critical(EXACT) as f64, critical(EXACT + 1) as f64);
        assert!(beyond > exact && beyond < exact * 1.03);
    }

    #[test]
    fn of_six_values_the_interval_is_their_range() {
        assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]), (1.0, 9.0));
    }
}
