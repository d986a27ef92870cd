//! Compares the test with printed tables, worked examples, and a count of all signs.

use super::*;
use weir_policy::random::Random;

/// Computes the p value by its definition: counts all signs that the values could have had.
fn naive_p(values: &[f64]) -> f64 {
    let size = |value: &f64| value.abs();
    let rank = |of: &f64| {
        let smaller = values.iter().filter(|value| size(value) < size(of)).count();
        let tied = values.iter().filter(|value| size(value) == size(of)).count();
        smaller as f64 + (tied as f64 + 1.0) / 2.0
    };
    let sided: Vec<f64> = values.iter().copied().filter(|value| *value != 0.0).collect();
    let ranks: Vec<f64> = sided.iter().map(rank).collect();
    let above = |signs: u32| -> f64 {
        let chosen = ranks.iter().enumerate().filter(|(at, _)| signs >> at & 1 == 1);
        chosen.map(|(_, rank)| rank).sum()
    };
    let signs = sided.iter().enumerate().map(|(at, value)| u32::from(*value > 0.0) << at).sum();
    let (seen, all) = (above(signs), 1_u32 << sided.len());
    let share = |fits: &dyn Fn(f64) -> bool| {
        f64::from((0..all).map(above).filter(|sum| fits(*sum)).count() as u32) / f64::from(all)
    };
    (2.0 * share(&|sum| sum <= seen).min(share(&|sum| sum >= seen))).min(1.0)
}

fn uniform(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[test]
fn critical_values_are_those_of_the_printed_tables() {
    // Two-sided 5 %, n = 6 to 30.
    let table = [
        0, 2, 3, 5, 8, 10, 13, 17, 21, 25, 29, 34, 40, 46, 52, 58, 65, 73, 81, 89, 98, 107, 116,
        126, 137,
    ];
    for (n, k) in (6..).zip(table) {
        assert_eq!(critical(n), Some(k), "n = {n}");
    }
    assert_eq!(critical(50), Some(434));
    assert!((0..6).all(|n| critical(n).is_none()));
}

#[test]
fn beyond_the_exact_counts_the_normal_ones_join_on() {
    for n in [EXACT_COUNT_MAX + 1, 150, 200] {
        let ranks: Vec<usize> = (1..=n).collect();
        let counted: Vec<f64> = chances(&ranks, n * (n + 1) / 4);
        let k = critical(n).expect("many values");
        let tail: f64 = counted[..=k].iter().sum();
        // A step of W is less than 1e-3 here.
        assert!((tail - TAIL).abs() < 1e-3, "n = {n}: {tail}");
        // All values but the largest few are above 0, so that p is neither 0 nor 1.
        let below = 3 * n / 10;
        let values: Vec<f64> =
            (1..=n).map(|rank| if rank % n < below { -1.0 } else { 1.0 } * rank as f64).collect();
        let (ranks, above) = doubled_ranks(&values);
        let nearer = above.min(ranks.iter().sum::<usize>() - above);
        let exact = 2.0 * chances(&ranks, nearer).iter().sum::<f64>();
        assert!((p_value(&values) - exact).abs() < 1e-3, "n = {n}: {exact}");
    }
}

#[test]
fn p_is_what_counting_all_signs_gives_with_ties_and_zeros_too() {
    let mut random = Random::new(5);
    for _ in 0..60 {
        let n = 6 + random.below(5) as usize;
        let values: Vec<f64> = (0..n).map(|_| random.below(9) as f64 - 3.0).collect();
        assert!((p_value(&values) - naive_p(&values)).abs() < 1e-12, "{values:?}");
    }
    assert_eq!(p_value(&[0.0; 8]), 1.0);
    assert_eq!(p_value(&[1.0; 8]), 2.0 / 256.0);
}

#[test]
fn the_interval_leaves_out_zero_just_when_p_is_at_most_five_percent() {
    let mut random = Random::new(11);
    let mut rejected = 0;
    for _ in 0..400 {
        let n = 6 + random.below(30) as usize;
        let values: Vec<f64> = (0..n).map(|_| uniform(&mut random) - 0.4).collect();
        let found = analyse(&values);
        let out = found.low > 0.0 || found.high < 0.0;
        assert_eq!(out, found.p <= 0.05, "{found:?} of {values:?}");
        rejected += u32::from(out);
    }
    assert!((40..360).contains(&rejected), "{rejected}");
}

#[test]
fn of_six_values_the_interval_is_their_range() {
    let found = analyse(&[5.0, 1.0, 3.0, 9.0, 2.0, 4.0]);
    assert_eq!((found.low, found.high, found.p), (1.0, 9.0, 2.0 / 64.0));
    // 21 Walsh averages; the 11th: 1 1.5 2 2 2.5 2.5 3 3 3 3.5 | 3.5 | 4 4 4.5 5 5 5.5 6 6.5 7 9.
    assert_eq!(found.estimate, 3.5);
}

#[test]
#[expect(clippy::approx_constant, reason = "3.14 is what was measured")]
fn a_published_example() {
    // Depression scale factors of nine patients (Hollander and Wolfe 1973, p. 29): W+ = 40 of 45.
    let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    let values: Vec<f64> = before.iter().zip(after).map(|(a, b)| a - b).collect();
    let found = analyse(&values);
    assert!((found.p - 0.039_062_5).abs() < 1e-12);
    let close = |value: f64, to: f64| (value - to).abs() < 1e-9;
    assert!(close(found.estimate, 0.46), "{found:?}");
    assert!(close(found.low, 0.01) && close(found.high, 0.786), "{found:?}");
}
