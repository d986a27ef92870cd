//! A profile's report: its rows, and the CPU time of the process that they do not explain.

use super::cpu::Cpu;
use super::layout::{FIXED, OWN};
use super::row::{ProfileRow, RowDifference, merge};
use serde::Serialize;

/// The unit that a report is divided by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportUnit {
    /// Name of one unit, such as "packet".
    pub name: String,
    /// How many there were.
    pub count: u64,
}

/// A profile of one process over an interval, or of several added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileReport {
    /// The name of the process.
    pub process: String,
    /// Its process id; 0 for several.
    pub pid: i32,
    /// Whether the process has ended.
    pub gone: bool,
    /// Wall time between the two snapshots; 0 for all counts since the beginning.
    pub interval_ns: u64,
    /// Threads that counted anything.
    pub threads: usize,
    /// Subroutines, most CPU time first.
    pub subroutines: Vec<ProfileRow>,
    /// System calls, most time first. Their time is in the rows of subroutines too.
    pub calls: Vec<ProfileRow>,
    /// CPU time that the kernel counted meanwhile; `None` where that is unknown.
    pub cpu: Option<Cpu>,
    /// Waits and other long times that shared a reading of the CPU clock, up to 64 per reading:
    /// their CPU time is exact in sum, and estimated for each.
    pub together: u64,
    /// CPU time that was timed, each part of it where it was used.
    pub timed_ns: u64,
    /// CPU time in the gaps of threads that count often, in which they did not read the clock. It is
    /// divided among the rows as the timed CPU time of the thread was.
    pub untimed_ns: u64,
    /// The unit that figures are divided by.
    pub unit: Option<ReportUnit>,
    /// What was not counted, and why, in sentences.
    pub notes: Vec<String>,
}

impl ProfileReport {
    pub(super) fn new(process: &str, pid: i32, difference: RowDifference) -> ProfileReport {
        let RowDifference { mut subroutines, mut calls, threads, timed_ns, untimed_ns } =
            difference;
        sort(&mut subroutines, ProfileRow::cpu_ns);
        sort(&mut calls, |row| row.cpu_ns().saturating_add(row.wait_ns));
        ProfileReport {
            process: process.to_owned(),
            pid,
            threads,
            subroutines,
            calls,
            timed_ns,
            untimed_ns,
            ..ProfileReport::default()
        }
    }

    /// Merges several processes into one. Rows of one name become one row; the kernel's CPU time is
    /// known if it is known for all of them.
    pub fn sum(reports: &[ProfileReport]) -> ProfileReport {
        let mut all = RowDifference::default();
        for report in reports {
            all.threads += report.threads;
            all.timed_ns = all.timed_ns.saturating_add(report.timed_ns);
            all.untimed_ns = all.untimed_ns.saturating_add(report.untimed_ns);
            report.subroutines.iter().for_each(|row| merge(&mut all.subroutines, row.clone()));
            report.calls.iter().for_each(|row| merge(&mut all.calls, row.clone()));
        }
        let cpu = reports.iter().map(|report| report.cpu);
        let cpu = cpu.reduce(|one, other| Some(one?.plus(other?))).flatten();
        let interval_ns = reports.iter().map(|report| report.interval_ns).max().unwrap_or(0);
        let process = format!("{} processes", reports.len());
        let together =
            reports.iter().fold(0_u64, |sum, report| sum.saturating_add(report.together));
        ProfileReport { cpu, interval_ns, together, ..ProfileReport::new(&process, 0, all) }
    }

    /// Divides the report by this many units, such as packets; 0 leaves it undivided.
    pub fn per(mut self, count: u64, unit: &str) -> ProfileReport {
        self.unit = (count > 0).then(|| ReportUnit { name: unit.to_owned(), count });
        self
    }

    /// Sums all subroutines in one row.
    pub fn total(&self) -> ProfileRow {
        let mut total = ProfileRow { name: String::from("sum"), ..ProfileRow::default() };
        for row in &self.subroutines {
            total.add(row);
        }
        total
    }

    /// Returns the CPU time that the rows account for.
    pub fn explained_ns(&self) -> u64 {
        self.total().cpu_ns()
    }

    /// Returns the CPU time that the profile itself needed to find waiting times.
    pub fn own_ns(&self) -> u64 {
        self.subroutine(FIXED[OWN]).map_or(0, ProfileRow::cpu_ns)
    }

    /// Returns the CPU time that the rows do not account for: outside of all spans, of threads that
    /// were not counted, of spans that began before the profile was on. It is below zero if the
    /// rows hold more than the kernel counted: waits that were too short to be noticed.
    pub fn not_explained_ns(&self) -> Option<i64> {
        let total = self.cpu?.total_ns;
        Some(
            (i128::from(total) - i128::from(self.explained_ns()))
                .clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64,
        )
    }

    /// Returns the subroutine of this name.
    pub fn subroutine(&self, name: &str) -> Option<&ProfileRow> {
        self.subroutines.iter().find(|row| row.name == name)
    }

    /// Returns the system call of this name.
    pub fn call(&self, name: &str) -> Option<&ProfileRow> {
        self.calls.iter().find(|row| row.name == name)
    }
}

/// Orders rows by time, most first, then by name; the profile's own rows come last.
fn sort(rows: &mut [ProfileRow], key: impl Fn(&ProfileRow) -> u64) {
    rows.sort_by(|a, b| {
        let by_time = key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name));
        a.of_profile.cmp(&b.of_profile).then(by_time)
    });
}
