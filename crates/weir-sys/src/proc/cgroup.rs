//! Parser of `cgroup`; see cgroups(7).

use super::ProcDir;

/// Most bytes read of a list of control groups.
const MOST_BYTES: usize = 1 << 16;

/// The control groups of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlGroups(String);

impl ControlGroups {
    /// Reads those of a process; `None` where it is gone or hidden.
    pub fn of(dir: impl Into<ProcDir>) -> Option<ControlGroups> {
        dir.into().read_whole("cgroup", MOST_BYTES).map(ControlGroups)
    }

    /// Returns each with the controllers of its hierarchy before it: none for version 2.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        // HIERARCHY:CONTROLLERS:PATH
        self.0.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'))
    }
}

impl<T: Into<String>> From<T> for ControlGroups {
    fn from(list: T) -> ControlGroups {
        ControlGroups(list.into())
    }
}
