//! The readable table of a report.

use super::list::trimmed;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;
use weir_measure::bench::params::{Load, Unit};
use weir_measure::bench::record::{CaseRecord, Report};

/// The whole report as text.
pub fn text(report: &Report) -> String {
    let mut text = head(report);
    let mut suites: Vec<&str> = report.cases.iter().map(|case| case.suite.as_str()).collect();
    suites.dedup();
    for suite in suites {
        let shown = |case: &&CaseRecord| case.suite == suite && !case.is_too_rare(&report.cases);
        let cases: Vec<&CaseRecord> = report.cases.iter().filter(shown).collect();
        let _ = write!(text, "\n{suite}\n{}\n", trimmed(&table(&cases)));
        if let Some(published) = super::beside::beside(suite, &cases, &report.comparisons) {
            let _ = writeln!(text, "\n{published}");
        }
    }
    text += &tail(report);
    text
}

fn head(report: &Report) -> String {
    let host = &report.host;
    let cpus = host.cpus_allowed.len();
    let mut text = format!("{}\n", report.self_test.sentence);
    let _ = writeln!(
        text,
        "{}, {cpus} of {} CPUs allowed, {}",
        host.cpu,
        host.cpus_online,
        host.kernel.split(' ').take(2).collect::<Vec<_>>().join(" "),
    );
    let _ = writeln!(text, "{}", state(report));
    if report.interrupted {
        let _ = writeln!(
            text,
            "interrupted after {:.0} s: what was measured until then",
            report.duration_s
        );
    }
    let placements: Vec<String> = host
        .placements
        .iter()
        .filter(|(_, cpus)| !cpus.is_empty())
        .map(|(placement, cpus)| match cpus.as_slice() {
            [a, b] if a != b => format!("{placement} {a}+{b}"),
            cpus => format!("{placement} {}", cpus[0]),
        })
        .collect();
    let _ = writeln!(
        text,
        "CPUs: {}; a step of the reference loop took {:.3} ns, figures are normalised to {:.3} ns{}",
        placements.join(", "),
        report.reference.median_ns,
        report.reference.nominal_ns,
        if report.reference.from_first_run { " (this host's first run)" } else { "" }
    );
    text
}

/// What else the host did, and what the run put on it.
pub fn state(report: &Report) -> String {
    let state = &report.host.state;
    let busy = if state.busy == Some(true) { " (busy: figures of a busy host)" } else { "" };
    let seen = if state.text.is_empty() {
        "what others did while it ran is not known"
    } else {
        state.text.as_str()
    };
    let own = match report.load {
        Load::None => String::from("no load of its own"),
        load => format!("a load of its own beside it: {}", load.name()),
    };
    format!("{seen}{busy}; {own}")
}

/// What is left out of the tables since it says nothing; nothing, if there is none.
pub fn too_rare(report: &Report) -> Option<String> {
    let rare: Vec<&CaseRecord> =
        report.cases.iter().filter(|case| case.is_too_rare(&report.cases)).collect();
    let stratum = rare.first()?.stratum.as_deref().unwrap_or("far");
    let count = match rare.len() {
        1 => String::from("1 figure of a state"),
        count => format!("{count} figures of states"),
    };
    Some(format!(
        "{count} of the cache line (such as {stratum}) that was seen too seldom, with intervals of \
         half the estimate and more to each side: only in the JSON"
    ))
}

fn table(cases: &[&CaseRecord]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["  case", "place", "estimate", "interval", "as timed", "n", "notes"]);
    for column in [2, 3, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for case in cases {
        table.add_row([
            format!("  {}", case.case),
            place(case),
            estimate(case),
            interval(case),
            figure(case.as_timed, case.unit),
            format!("{}x{}", case.batches / case.processes.max(1), case.processes),
            notes(case),
        ]);
    }
    table
}

fn place(case: &CaseRecord) -> String {
    match &case.stratum {
        Some(stratum) if stratum == "far" => format!("{} (far)", case.placement),
        _ => case.placement.to_string(),
    }
}

fn estimate(case: &CaseRecord) -> String {
    if case.below_resolution {
        format!("< {}", figure(case.high.max(0.0), case.unit))
    } else {
        figure(case.estimate, case.unit)
    }
}

fn interval(case: &CaseRecord) -> String {
    let half = (case.high - case.low) / 2.0;
    if case.below_resolution || case.estimate == 0.0 {
        let (low, high) = (figure(case.low, case.unit), figure(case.high, case.unit));
        return format!("{low} to {high}");
    }
    let percent = half / case.estimate.abs() * 100.0;
    let digits = usize::from(percent < 10.0);
    format!("+-{percent:.digits$} %")
}

fn notes(case: &CaseRecord) -> String {
    let mut notes: Vec<String> = case.perspective.iter().cloned().collect();
    notes.extend(case.labels.iter().cloned());
    notes.join("; ")
}

/// A figure with three significant digits and a unit that suits its size.
pub fn figure(value: f64, unit: Unit) -> String {
    let (scaled, name) = match unit {
        Unit::Ns => scale(value, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")]),
        Unit::MegabytesPerSecond => scale(value, &[(1e3, "GB/s"), (1.0, "MB/s")]),
        Unit::PerSecond => scale(value, &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")]),
        Unit::Percent => (value, "%"),
        Unit::Megabytes => scale(value, &[(1e3, "GB"), (1.0, "MB")]),
    };
    let digits = match scaled.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$} {name}")
}

fn scale<'n>(value: f64, steps: &[(f64, &'n str)]) -> (f64, &'n str) {
    let fits = steps.iter().find(|(factor, _)| value.abs() >= *factor);
    let (factor, name) = fits.or(steps.last()).copied().unwrap_or((1.0, ""));
    (value / factor, name)
}

fn tail(report: &Report) -> String {
    let mut text = String::new();
    if !report.remarks.is_empty() {
        text += "\nsurprising\n";
        for remark in &report.remarks {
            let _ = writeln!(text, "  {remark}");
        }
    }
    let rare = too_rare(report);
    if !report.notes.is_empty() || rare.is_some() {
        text += "\nleft out\n";
        if let Some(rare) = rare {
            let _ = writeln!(text, "  {rare}");
        }
        for note in &report.notes {
            let _ = writeln!(text, "  {}: {}", note.suite, note.text);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit_that_suits() {
        assert_eq!(figure(82.41, Unit::Ns), "82.4 ns");
        assert_eq!(figure(4_512.0, Unit::Ns), "4.51 us");
        assert_eq!(figure(0.4, Unit::Ns), "0.40 ns");
        assert_eq!(figure(1_250_000_000.0, Unit::Ns), "1.25 s");
        assert_eq!(figure(12_345.0, Unit::MegabytesPerSecond), "12.3 GB/s");
        assert_eq!(figure(45.6, Unit::MegabytesPerSecond), "45.6 MB/s");
        assert_eq!(figure(268.4, Unit::Megabytes), "268 MB");
        assert_eq!(figure(281.0, Unit::PerSecond), "281 /s");
        assert_eq!(figure(-3.0, Unit::Ns), "-3.00 ns");
    }
}
