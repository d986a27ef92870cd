//! What a profile gives: rows, and what of the process's CPU time they do not explain.

use super::cpu::Cpu;
use super::layout::{FIXED, OWN};
use super::row::{Difference, Row};
use serde::Serialize;

/// What a report is divided by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// One of them, such as "packet".
    pub name: String,
    /// How many there were.
    pub count: u64,
}

/// A profile of one process over an interval, or of several added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its name.
    pub process: String,
    /// Its number; 0 of several.
    pub pid: i32,
    /// Whether it is no longer there.
    pub gone: bool,
    /// Wall time between the two looks; 0 where it is everything that was ever counted.
    pub interval_ns: u64,
    /// Threads that were seen to do something.
    pub threads: usize,
    /// Subroutines, most CPU time first.
    pub subroutines: Vec<Row>,
    /// System calls, most time first. Their time is in the rows of subroutines too.
    pub calls: Vec<Row>,
    /// What the kernel counted meanwhile; nothing where that cannot be known.
    pub cpu: Option<Cpu>,
    /// Waits and other long times that shared a look at the CPU clock, up to 16 a look: their CPU
    /// time is exact in sum, and estimated for each.
    pub together: u64,
    /// What it is divided by.
    pub unit: Option<Unit>,
    /// What was not counted, and why, in sentences.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn new(process: &str, pid: i32, difference: Difference) -> Report {
        let Difference { mut subroutines, mut calls, threads } = difference;
        sort(&mut subroutines, Row::cpu_ns);
        sort(&mut calls, |row| row.cpu_ns().saturating_add(row.wait_ns));
        let process = process.to_owned();
        Report { process, pid, threads, subroutines, calls, ..Report::default() }
    }

    /// Several processes as one. What is of one name is one row; what the kernel counted is known
    /// where it is of all of them.
    pub fn sum(reports: &[Report]) -> Report {
        let mut all = Difference::default();
        for report in reports {
            all.threads += report.threads;
            for (from, into) in
                [(&report.subroutines, &mut all.subroutines), (&report.calls, &mut all.calls)]
            {
                for row in from {
                    match into.iter_mut().find(|known| known.name == row.name) {
                        Some(known) => known.add(row),
                        None => into.push(row.clone()),
                    }
                }
            }
        }
        let cpu = reports.iter().map(|report| report.cpu);
        let cpu = cpu.reduce(|one, other| Some(one?.plus(other?))).flatten();
        let interval_ns = reports.iter().map(|report| report.interval_ns).max().unwrap_or(0);
        let process = format!("{} processes", reports.len());
        let together =
            reports.iter().fold(0_u64, |sum, report| sum.saturating_add(report.together));
        Report { cpu, interval_ns, together, ..Report::new(&process, 0, all) }
    }

    /// Divided by so many units, such as packets. None is as not divided.
    pub fn per(mut self, count: u64, unit: &str) -> Report {
        self.unit = (count > 0).then(|| Unit { name: unit.to_owned(), count });
        self
    }

    /// All subroutines in one row.
    pub fn total(&self) -> Row {
        let mut total = Row { name: String::from("sum"), ..Row::default() };
        for row in &self.subroutines {
            total.add(row);
        }
        total
    }

    /// CPU time that the rows account for.
    pub fn explained_ns(&self) -> u64 {
        self.total().cpu_ns()
    }

    /// CPU time that the profile itself took to tell what was without a CPU.
    pub fn own_ns(&self) -> u64 {
        self.subroutine(FIXED[OWN]).map_or(0, Row::cpu_ns)
    }

    /// CPU time that they do not account for: outside of all spans, of threads that were not
    /// counted, of spans that began before the profile was on. Below zero where they hold more
    /// than the kernel counted: times without a CPU that were too short to be noticed.
    pub fn not_explained_ns(&self) -> Option<i64> {
        let total = self.cpu?.total_ns;
        Some(
            (i128::from(total) - i128::from(self.explained_ns()))
                .clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64,
        )
    }

    /// The subroutine of a name.
    pub fn subroutine(&self, name: &str) -> Option<&Row> {
        self.subroutines.iter().find(|row| row.name == name)
    }

    /// The system call of a name.
    pub fn call(&self, name: &str) -> Option<&Row> {
        self.calls.iter().find(|row| row.name == name)
    }
}

/// Most first, by name where alike; what is the profile's own last.
fn sort(rows: &mut [Row], key: impl Fn(&Row) -> u64) {
    rows.sort_by(|a, b| {
        let by_time = key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name));
        a.of_profile.cmp(&b.of_profile).then(by_time)
    });
}
