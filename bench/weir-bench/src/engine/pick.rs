//! Selecting cases: suites by name, cases by regular expressions.

use super::case::{Case, Group, Suite};
use regex_lite::Regex;

/// A suite, or some of its cases: "joy-ipc", "joy-ipc/kernel-pipe".
#[derive(Clone, Debug)]
pub struct Pick {
    text: String,
    suite: String,
    cases: Option<Regex>,
}

impl Pick {
    /// Parses "SUITE" or "SUITE/REGEX".
    ///
    /// # Errors
    /// The text after the slash is not a regular expression.
    pub fn parse(text: &str) -> Result<Pick, String> {
        let (suite, cases) = match text.split_once('/') {
            Some((suite, cases)) => (suite, Some(pattern(cases)?)),
            None => (text, None),
        };
        Ok(Pick { text: text.into(), suite: suite.into(), cases })
    }

    /// Returns the suite's name.
    pub fn suite(&self) -> &str {
        &self.suite
    }

    /// Returns it as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Parses a regular expression; its error is one line.
pub fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or("").trim().trim_start_matches("error: ");
        format!("'{}' is not a regular expression: {why}", text.escape_debug())
    })
}

/// Whether a pattern matches a name, or is that name: one with parentheses does not match itself.
fn names(pattern: &Regex, name: &str) -> bool {
    pattern.is_match(name) || pattern.as_str() == name
}

/// The selected suites and cases.
#[derive(Clone, Debug, Default)]
pub struct Picks {
    /// Suites and cases of suites.
    pub suites: Vec<Pick>,
    /// Patterns for the names of cases, with the suite's in front: "joy-ipc/one-way futex 4 B".
    pub filter: Option<Regex>,
}

impl Picks {
    /// Whether nothing is selected, which means the default set.
    pub fn is_standard(&self) -> bool {
        self.suites.is_empty() && self.filter.is_none()
    }

    /// Returns the indices of the selected cases of a group.
    pub fn of_group(&self, suite: &Suite, group: &Group) -> Vec<usize> {
        let indices = 0..group.cases.len();
        if self.is_standard() {
            return indices.filter(|index| group.cases[*index].standard).collect();
        }
        let parts: Vec<&String> = group
            .derived
            .iter()
            .filter(|derived| self.wants(suite, &derived.name))
            .flat_map(|derived| derived.plus.iter().chain(&derived.minus))
            .collect();
        indices
            .filter(|index| {
                let case = &group.cases[*index];
                parts.contains(&&case.name) || self.wants_case(suite, case)
            })
            .collect()
    }

    /// A case with several quantities has a figure "CASE, QUANTITY" for each.
    fn wants_case(&self, suite: &Suite, case: &Case) -> bool {
        let full = |quantity: &str| format!("{}, {quantity}", case.name);
        self.wants(suite, &case.name)
            || case.measures.iter().any(|measure| self.wants(suite, &full(measure.quantity)))
    }

    fn wants(&self, suite: &Suite, case: &str) -> bool {
        let fits = |pick: &Pick| {
            pick.suite == suite.name && pick.cases.as_ref().is_none_or(|cases| names(cases, case))
        };
        let picked = self.suites.is_empty() || self.suites.iter().any(fits);
        let matches = |filter: &Regex| names(filter, &format!("{}/{case}", suite.name));
        picked && self.filter.as_ref().is_none_or(matches)
    }

    /// Returns the selection as it was typed.
    pub fn words(&self) -> String {
        let mut words: Vec<&str> = self.suites.iter().map(Pick::text).collect();
        words.extend(self.filter.as_ref().map(Regex::as_str));
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{case, suite};

    fn picked(suites: &[&str], filter: Option<&str>) -> Vec<usize> {
        let suites = suites.iter().map(|text| Pick::parse(text).expect("a pick")).collect();
        let filter = filter.map(|text| pattern(text).expect("a pattern"));
        let suite = suite(vec![case("a", 1.0), case("b", 1.0), case("pipe 4 B", 1.0)]);
        Picks { suites, filter }.of_group(&suite, &suite.groups[0])
    }

    #[test]
    fn cases_are_picked_by_suite_by_pattern_and_by_both() {
        assert_eq!(picked(&[], None), [0, 1, 2]);
        assert_eq!(picked(&["suite"], None), [0, 1, 2]);
        assert!(picked(&["other"], None).is_empty());
        assert_eq!(picked(&["suite/pipe"], None), [2]);
        assert_eq!(picked(&["suite/^[ab]$"], None), [0, 1]);
        assert_eq!(picked(&[], Some("^suite/pipe 4")), [2]);
        assert!(picked(&["suite/^a$"], Some("pipe")).is_empty());
    }

    /// `weir bench` once suggested "one-way weir-record 64 B (beside mpx)", and then did not know it.
    #[test]
    fn a_name_that_looks_like_a_pattern_is_a_name() {
        let suite = suite(vec![case("pipe 4 B (beside mpx)", 1.0), case("b", 1.0)]);
        for (suites, filter) in [
            (vec!["suite/pipe 4 B (beside mpx)"], None),
            (vec![], Some("suite/pipe 4 B (beside mpx)")),
        ] {
            let suites = suites.iter().map(|text| Pick::parse(text).expect("a pick")).collect();
            let filter = filter.map(|text| pattern(text).expect("a pattern"));
            assert_eq!(Picks { suites, filter }.of_group(&suite, &suite.groups[0]), [0]);
        }
    }

    /// A figure that is a difference selects the cases it is made of.
    #[test]
    fn a_difference_brings_its_parts() {
        assert_eq!(picked(&["suite/difference"], None), [0, 1]);
    }

    #[test]
    fn what_is_no_pattern_is_told_in_a_line() {
        let told = Pick::parse("joy-ipc/(").expect_err("unclosed");
        assert_eq!(told, "'(' is not a regular expression: found open group without closing ')'");
    }
}
