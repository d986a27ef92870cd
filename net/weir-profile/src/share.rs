//! How CPU time is divided among waits of which only the sum is known.

/// Returns the largest limit for which the limited values sum up to at most `sum`.
pub fn share(each: &mut [u64], mut sum: u64) -> u64 {
    // Most waits are alike, and longer than what they use of the CPU.
    if let Some(least) = each.iter().min() {
        let equal = sum / each.len() as u64;
        if *least > equal {
            return equal;
        }
    }
    each.sort_unstable();
    for (index, ticks) in each.iter().enumerate() {
        let equal = sum / (each.len() - index) as u64;
        if *ticks > equal {
            return equal;
        }
        sum -= ticks;
    }
    u64::MAX
}
