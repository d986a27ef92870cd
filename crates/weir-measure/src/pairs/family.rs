//! Correction of p values for the number of comparisons.
//!
//! Among a hundred comparisons of a host with itself, five have a p value below 5 %. With the
//! correction of Holm (1979) only one family in twenty has any: the smallest p value is multiplied
//! by the number of comparisons, the next by one less, and so on, and none ends below the one
//! before. It holds however the comparisons depend on each other, and those of one host do: a
//! disturbance of one case also affects its neighbours.

/// Corrects the p values of a family; unknown ones stay unknown and do not count.
pub fn holm(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut known: Vec<(usize, f64)> =
        p.iter().enumerate().filter_map(|(index, p)| Some((index, (*p)?))).collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut corrected = vec![None; p.len()];
    let (count, mut least) = (known.len(), 0.0_f64);
    for (rank, (index, p)) in known.into_iter().enumerate() {
        least = least.max(p * (count - rank) as f64).min(1.0);
        corrected[index] = Some(least);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::holm;
    use weir_policy::random::Random;

    /// An example of Holm's procedure with five tests: 0.01, 0.02, 0.03, 0.04, 0.05 become 0.05,
    /// 0.08, 0.09, 0.09, 0.09.
    #[test]
    fn values_are_those_of_the_procedure() {
        let known = [0.03, 0.01, 0.05, 0.02, 0.04].map(Some);
        let found: Vec<f64> = holm(&known).into_iter().flatten().collect();
        for (found, right) in found.iter().zip([0.09, 0.05, 0.09, 0.08, 0.09]) {
            assert!((found - right).abs() < 1e-12, "{found} {right}");
        }
        assert_eq!(holm(&[None, Some(0.04), None]), [None, Some(0.04), None]);
        assert_eq!(holm(&[Some(0.9), Some(0.8)]), [Some(1.0), Some(1.0)]);
        assert!(holm(&[]).is_empty());
    }

    /// Among families of 60 comparisons without any difference, one in twenty has an alarm. Without
    /// the correction nearly all have one.
    #[test]
    fn one_family_in_twenty_has_a_false_alarm() {
        const FAMILIES: u32 = 2_000;
        let mut random = Random::new(14);
        let (mut plain, mut corrected) = (0, 0);
        for _ in 0..FAMILIES {
            let family: Vec<Option<f64>> = (0..60)
                .map(|_| Some(random.below(1 << 40) as f64 / (1_u64 << 40) as f64))
                .collect();
            let alarm = |p: &[Option<f64>]| p.iter().flatten().any(|p| *p <= 0.05);
            plain += u32::from(alarm(&family));
            corrected += u32::from(alarm(&holm(&family)));
        }
        assert!(plain * 100 > FAMILIES * 90, "{plain}");
        assert!(corrected * 100 <= FAMILIES * 7, "{corrected}");
    }
}
