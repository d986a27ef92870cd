//! The suites of `weir bench`: the experiments of four reports on UNIX, on the mechanisms of today.
//!
//! One file or folder a suite; [`catalogue`] lists them. A suite is a number of groups of cases; a
//! case is a recipe that a fresh process carries out. No statistics and no output here: those are
//! the engine's (`weir_measure::bench`) and the command's.

#![forbid(unsafe_code)]

pub mod allen_echo;
pub mod bbn;
pub mod buffers;
pub mod franke;
pub mod joy_fs;
pub mod joy_ipc;
pub mod joy_switch;
pub mod joy_syscall;
pub mod kashtan;
pub mod limits;
pub mod port_writers;
pub mod published;
pub mod tools;

use weir_measure::bench::case::Suite;

/// All suites, in the order in which they are shown.
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
        allen_echo::suite(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
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
