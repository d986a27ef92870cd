//! The counts under one name, and the difference between two snapshots.

use serde::{Serialize, Serializer};

pub(crate) fn seconds<S: Serializer>(ns: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(*ns as f64 / 1e9)
}

/// A subroutine or a system call over an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProfileRow {
    /// Its name.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Self time of a subroutine on a CPU, without its system calls; 0 for a system call.
    #[serde(rename = "user_s", serialize_with = "seconds")]
    pub user_ns: u64,
    /// CPU time of its system calls, or of the system call itself.
    #[serde(rename = "sys_s", serialize_with = "seconds")]
    pub system_ns: u64,
    /// Time without a CPU, in it and in its system calls: waiting for an event, a lock, or a CPU.
    #[serde(rename = "wait_s", serialize_with = "seconds")]
    pub wait_ns: u64,
    /// Whether it is not a subroutine of the program: time outside of all spans, or the profile's
    /// own.
    #[serde(skip)]
    pub of_profile: bool,
}

impl ProfileRow {
    /// Returns user and system time together.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// Adds the counts of another row.
    pub fn add(&mut self, other: &ProfileRow) {
        self.calls = self.calls.saturating_add(other.calls);
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.system_ns = self.system_ns.saturating_add(other.system_ns);
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
    }
}

/// Adds a row to the one of the same name in a list, or appends it.
pub fn merge(rows: &mut Vec<ProfileRow>, row: ProfileRow) {
    match rows.iter_mut().find(|known| known.name == row.name) {
        Some(known) => known.add(&row),
        None => rows.push(row),
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowDifference {
    pub subroutines: Vec<ProfileRow>,
    pub calls: Vec<ProfileRow>,
    pub threads: usize,
    /// CPU time that was timed, and that of gaps, which is divided among the rows.
    pub timed_ns: u64,
    pub untimed_ns: u64,
}
