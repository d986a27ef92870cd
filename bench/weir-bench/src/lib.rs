//! The suites of `weir bench`: the experiments of four reports on UNIX, on the mechanisms of today.
//!
//! Each suite is a file or a folder; [`catalogue`] lists all of them. A suite consists of groups of
//! cases, and a case is a recipe that a fresh process carries out. [`engine`] measures them and makes
//! estimates; the command shows them.

#![deny(unsafe_code)]

pub mod allen_echo;
mod bbn;
mod buffers;
pub mod engine;
mod franke;
mod joy_fs;
mod joy_ipc;
mod joy_switch;
mod joy_syscall;
mod kashtan;
mod limits;
pub mod net_tcp;
pub mod net_tftp;
mod port_writers;
#[allow(unsafe_code, reason = "system calls that rustix lacks")]
pub mod sys;
pub mod tools;

use crate::engine::case::Suite;

/// Returns all suites in the order in which they are shown.
pub fn catalogue() -> Vec<Suite> {
    vec![
        limits::suite(),
        joy_syscall::suite(),
        joy_switch::suite(),
        joy_ipc::suite(),
        joy_fs::suite(),
        bbn::pipe(),
        bbn::port(),
        bbn::loaded(),
        port_writers::suite(),
        buffers::suite(),
        buffers::backlog(),
        franke::pipe(),
        franke::grep(),
        franke::pipeflex(),
        kashtan::suite(),
        kashtan::swapping(),
        allen_echo::suite(),
        net_tftp::suite(),
        net_tcp::suite(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::case::Sides;
    use crate::engine::params::Placement;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn names_are_unique_and_say_something() {
        let mut suites = BTreeSet::new();
        for suite in catalogue() {
            assert!(suites.insert(suite.name), "{} is there twice", suite.name);
            assert!(!suite.about.is_empty() && !suite.source.is_empty());
            let (mut groups, mut cases) = (BTreeSet::new(), BTreeSet::new());
            for group in &suite.groups {
                assert!(groups.insert(group.name.clone()), "{} {}", suite.name, group.name);
                let derived = group.derived.iter().map(|derived| &derived.name);
                for case in group.cases.iter().map(|case| &case.name).chain(derived) {
                    assert!(cases.insert(case.clone()), "{}: {case} is there twice", suite.name);
                }
                assert!(group.processes >= 6, "{}: too few for an interval", group.name);
            }
        }
    }

    /// The rate of one pipe to another CPU was normalised in two suites and as timed in a third.
    #[test]
    fn what_wakes_another_cpu_is_not_normalised_there() {
        for suite in catalogue() {
            for group in suite.groups.iter().filter(|group| group.sides == Sides::Two) {
                for case in &group.cases {
                    let way = case.params.direction.as_deref();
                    let has_other = matches!(way, Some("one-way" | "two-way"));
                    if has_other && case.params.parties != Some(1) {
                        let holds = case.normalise.holds(Placement::OtherCpu);
                        assert!(!holds, "{}: {}", suite.name, case.name);
                    }
                }
            }
        }
    }

    /// A reader that computes for a stated time takes as long on a slow CPU: normalised, it seemed
    /// to be faster there.
    #[test]
    fn what_takes_a_stated_time_is_not_normalised() {
        let suites = catalogue();
        let groups = suites.iter().flat_map(|suite| &suite.groups);
        let cases = groups.flat_map(|group| &group.cases);
        for case in cases.filter(|case| case.params.compute.is_some()) {
            assert!(!case.normalise.holds(Placement::SameCpu), "{}", case.name);
        }
    }

    #[test]
    fn a_suite_has_one_unit_for_a_quantity() {
        for suite in catalogue() {
            let mut units = BTreeMap::new();
            let groups = || suite.groups.iter();
            let measures = groups().flat_map(|group| &group.cases).flat_map(|case| &case.measures);
            let derived = groups().flat_map(|group| &group.derived).map(|derived| &derived.measure);
            for measure in measures.chain(derived) {
                let unit = units.entry(measure.quantity).or_insert(measure.unit);
                assert_eq!(*unit, measure.unit, "{}: {}", suite.name, measure.quantity);
            }
        }
    }

    #[test]
    fn baselines_and_differences_name_cases_of_their_group() {
        for suite in catalogue() {
            for group in &suite.groups {
                let known = |name: &String| group.cases.iter().any(|case| case.name == *name);
                assert!(group.baseline.iter().all(known), "{}: {}", suite.name, group.name);
                for derived in &group.derived {
                    let mut parts = derived.plus.iter().chain(&derived.minus);
                    assert!(parts.all(known), "{}: {}", suite.name, derived.name);
                }
            }
        }
    }
}
