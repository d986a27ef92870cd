//! What a host at user level may cost, as ratios of cases that ran in the same rounds.

/// A bound for one case against the baseline of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The baseline.
    pub a: String,
    /// The case.
    pub b: String,
    /// Of b / a: the most, where less is better; the least, where more is.
    pub bound: f64,
}

/// All of them.
pub fn goals() -> Vec<Goal> {
    Vec::new()
}
