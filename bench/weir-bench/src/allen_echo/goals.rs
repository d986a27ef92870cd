//! The bounds for a host at user level, as ratios of cases that ran in the same rounds.

/// A bound for one case against the baseline of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The baseline.
    pub a: String,
    /// The case.
    pub b: String,
    /// The bound of b / a.
    pub bound: f64,
    /// Whether it is the most that b may be, rather than the least.
    pub is_most: bool,
}

/// Baseline and case, then the most for the time of one request and the least for the rate with 64
/// at once.
const BOUNDS: [(&str, &str, f64, f64); 6] = [
    ("icmp, bare", "icmp, weir", 2.0, 0.8),
    ("icmp, bare", "icmp, weir --inline", 1.1, 1.0 / 1.1),
    ("icmp, weir, log off", "icmp, weir, log on", 1.02, 0.98),
    ("icmp, weir --inline, log off", "icmp, weir --inline, log on", 1.02, 0.98),
    ("icmp, weir, profile off", "icmp, weir, profile on", 1.03, 0.97),
    ("icmp, weir --inline, profile off", "icmp, weir --inline, profile on", 1.03, 0.97),
];

/// Returns all bounds.
pub fn goals() -> Vec<Goal> {
    let mut goals = Vec::new();
    for (a, b, most, least) in BOUNDS {
        for (window, bound, is_most) in [("", most, true), (", 64 under way", least, false)] {
            let (a, b) = (format!("{a}{window}"), format!("{b}{window}"));
            goals.push(Goal { a, b, bound, is_most });
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::goals;

    #[test]
    fn they_are_of_cases_that_are_compared() {
        let suite = crate::allen_echo::suite();
        for goal in goals() {
            let compared = |group: &&crate::engine::case::Group| {
                group.baseline.as_ref() == Some(&goal.a)
                    && group.cases.iter().any(|case| case.name == goal.b)
            };
            let group = suite.groups.iter().find(compared);
            let group = group.unwrap_or_else(|| panic!("nothing compares {goal:?}"));
            let more = group.cases[0].measures[0].unit.more_is_better();
            assert_eq!(more, !goal.is_most, "{goal:?}");
        }
    }
}
