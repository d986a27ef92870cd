//! Formats a report as a table of text.

use super::report::ProfileReport;
use super::row::ProfileRow;
use std::fmt::{self, Formatter};

/// Least width of the column of names.
const NAME: usize = 16;
/// Width of a column of figures.
const FIGURE: usize = 12;

impl fmt::Display for ProfileReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.heading(f)?;
        let rows = self.subroutines.iter().chain(&self.calls);
        let width = rows.map(|row| row.name.chars().count()).max().unwrap_or(0).max(NAME);
        let columns = ["calls", "self user ms", "system ms", "wait ms", "per call us"];
        self.head(f, "subroutine", width, &columns)?;
        for row in &self.subroutines {
            self.row(f, row, width, row.user_ns)?;
        }
        let total = self.total();
        self.row(f, &ProfileRow { calls: 0, ..total }, width, total.user_ns)?;
        self.kernel(f, width)?;
        if !self.calls.is_empty() {
            writeln!(f)?;
            let columns = ["calls", "", "system ms", "wait ms", "per call us"];
            self.head(f, "system call", width, &columns)?;
            for row in &self.calls {
                self.row(f, row, width, 0)?;
            }
        }
        if self.together > 0 {
            writeln!(
                f,
                "{} waits and other long times shared readings of the CPU clock, up to 64 a reading: \
                 their CPU time is exact in sum, estimated for each",
                self.together
            )?;
        }
        if self.untimed_ns > 0 {
            let all_ns = self.timed_ns.saturating_add(self.untimed_ns);
            let share = self.timed_ns as f64 * 100.0 / all_ns as f64;
            writeln!(
                f,
                "{share:.1} % of the CPU time was timed span by span. The rest of it, {} ms, is divided \
                 in the same proportions: calls are exact, the times of rows are estimates",
                milliseconds(self.untimed_ns)
            )?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl ProfileReport {
    fn heading(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.process)?;
        if self.pid != 0 {
            write!(f, " (process {})", self.pid)?;
        }
        if self.interval_ns > 0 {
            write!(f, ", {:.2} s", self.interval_ns as f64 / 1e9)?;
        } else {
            write!(f, ", everything counted so far")?;
        }
        let plural = if self.threads == 1 { "" } else { "s" };
        write!(f, ", {} thread{plural}", self.threads)?;
        if let Some(unit) = &self.unit {
            write!(f, ", {} {}s", unit.count, unit.name)?;
        }
        writeln!(f)
    }

    fn head(
        &self,
        f: &mut Formatter<'_>,
        first: &str,
        width: usize,
        columns: &[&str],
    ) -> fmt::Result {
        write!(f, "{first:width$}")?;
        columns.iter().try_for_each(|column| write!(f, " {column:>FIGURE$}"))?;
        let Some(unit) = &self.unit else { return writeln!(f) };
        writeln!(f, " {:>width$}", format!("per {} us", unit.name), width = FIGURE + 2)
    }

    fn per_unit(&self, ns: f64) -> String {
        let Some(unit) = &self.unit else { return String::new() };
        format!(" {:>width$.3}", ns / 1e3 / unit.count as f64, width = FIGURE + 2)
    }

    fn row(
        &self,
        f: &mut Formatter<'_>,
        row: &ProfileRow,
        width: usize,
        user_ns: u64,
    ) -> fmt::Result {
        let cpu_ns = row.cpu_ns() as f64;
        let calls = if row.calls > 0 { row.calls.to_string() } else { String::new() };
        write!(f, "{:width$} {calls:>FIGURE$}", row.name)?;
        for ns in [user_ns, row.system_ns, row.wait_ns] {
            write!(f, " {:>FIGURE$}", milliseconds(ns))?;
        }
        let per_call = match row.calls {
            0 => String::new(),
            calls => format!("{:.3}", cpu_ns / 1e3 / calls as f64),
        };
        line(f, &format!(" {per_call:>FIGURE$}{}", self.per_unit(cpu_ns)))
    }

    /// Appends the CPU time the kernel counted, and the part that no row explains.
    fn kernel(&self, f: &mut Formatter<'_>, width: usize) -> fmt::Result {
        let (Some(cpu), Some(rest)) = (self.cpu, self.not_explained_ns()) else {
            return writeln!(f, "the CPU time of the process is unknown");
        };
        let percent = rest as f64 * 100.0 / (cpu.total_ns.max(1)) as f64;
        // Under both columns, user and system: the split is not known.
        let two = 2 * FIGURE + 1;
        let gap = FIGURE + 1;
        let (rest_ms, cpu_ms) = (rest as f64 / 1e6, cpu.total_ns as f64 / 1e6);
        let share = format!("{:gap$} {:>FIGURE$}", "", format!("{percent:.1} %"));
        write!(f, "{:width$} {:FIGURE$} {rest_ms:>two$.3}", "not explained", "")?;
        line(f, &format!("{share}{}", self.per_unit(rest as f64)))?;
        write!(f, "{:width$} {:FIGURE$} {cpu_ms:>two$.3}", "CPU time", "")?;
        let blank = format!("{:gap$} {:FIGURE$}", "", "");
        line(f, &format!("{blank}{}", self.per_unit(cpu.total_ns as f64)))?;
        writeln!(
            f,
            "CPU time by the kernel's clock ticks: user {:.0} ms, system {:.0} ms; without a CPU: \
             {:.3} ms",
            cpu.user_ns as f64 / 1e6,
            cpu.system_ns as f64 / 1e6,
            cpu.queue_ns as f64 / 1e6
        )
    }
}

/// Appends a line end without trailing blanks.
fn line(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    writeln!(f, "{}", text.trim_end())
}

/// Formats milliseconds; `-` for zero.
fn milliseconds(ns: u64) -> String {
    if ns == 0 { String::from("-") } else { format!("{:.3}", ns as f64 / 1e6) }
}
