//! The readable table of a report.

use crate::figure::figure;
use comfy_table::Table;
use std::fmt::Write;
use weir_bench::engine::params::Load;
use weir_bench::engine::record::{CaseRecord, Host, Report};
use weir_command::output::{aligned, trimmed};
use weir_command::units::words::things;

/// The whole report as text.
pub fn text(report: &Report) -> String {
    let mut text = head(report);
    let mut suites: Vec<&str> = report.cases.iter().map(|case| case.suite.as_str()).collect();
    suites.dedup();
    for suite in suites {
        let shown = |case: &&CaseRecord| case.suite == suite && is_shown(case, report);
        let cases: Vec<&CaseRecord> = report.cases.iter().filter(shown).collect();
        if cases.is_empty() {
            continue;
        }
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
            "interrupted after {:.0} s: this is what was measured so far",
            report.duration_s
        );
    }
    let _ = write!(text, "CPUs: {}", placements(host));
    if report.reference.batches > 0 {
        let _ = write!(
            text,
            "; a step of the reference loop took {:.3} ns, figures are normalised to {:.3} ns{}",
            report.reference.median_ns,
            report.reference.nominal_ns,
            if report.reference.from_first_run { " (this host's first run)" } else { "" }
        );
    }
    text + "\n"
}

/// Where cases ran: "same-cpu 1, other-cpu 0+1".
pub fn placements(host: &Host) -> String {
    let pinned = host.placements.iter().filter_map(|(placement, cpus)| match cpus.as_slice() {
        [] => None,
        [a, b] if a != b => Some(format!("{placement} {a}+{b}")),
        cpus => Some(format!("{placement} {}", cpus[0])),
    });
    pinned.collect::<Vec<_>>().join(", ")
}

/// What others did on the host, and the load of the run itself.
pub fn state(report: &Report) -> String {
    let state = &report.host.state;
    let busy = if state.busy == Some(true) { " (busy: figures of a busy host)" } else { "" };
    let seen = if state.text.is_empty() {
        "how much CPU others used while it ran is unknown"
    } else {
        state.text.as_str()
    };
    let own = match report.load {
        Load::None => String::from("no load of its own"),
        load => format!("a load of its own beside it: {}", load.name()),
    };
    format!("{seen}{busy}; {own}")
}

/// Whether a figure is precise enough for the tables.
pub fn is_shown(case: &CaseRecord, report: &Report) -> bool {
    !case.is_too_rare(&report.cases) && !case.is_too_vague()
}

/// Sentences about the figures that are left out of the tables.
pub fn not_shown(report: &Report) -> Vec<String> {
    let cases = || report.cases.iter();
    let (rare, vague): (Vec<&CaseRecord>, Vec<&CaseRecord>) = cases()
        .filter(|case| !is_shown(case, report))
        .partition(|case| case.is_too_rare(&report.cases));
    too_rare(&rare).into_iter().chain(too_vague(&vague)).collect()
}

fn too_vague(vague: &[&CaseRecord]) -> Option<String> {
    const NAMED: usize = 3;
    let name = |case: &&CaseRecord| format!("{}: {} ({})", case.suite, case.case, place(case));
    let mut names = vague.iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ");
    if vague.len() > NAMED {
        let _ = write!(names, " and {} more", vague.len() - NAMED);
    }
    let count = things(vague.len() as u64, "figure");
    (!vague.is_empty()).then(|| format!(
        "{count} with intervals of more than 100 % to each side, shown only in the JSON (a larger \
         --budget helps): {names}"
    ))
}

fn too_rare(rare: &[&CaseRecord]) -> Option<String> {
    let stratum = rare.first()?.stratum.as_deref().unwrap_or("far");
    let count = match rare.len() {
        1 => String::from("1 figure from a state"),
        count => format!("{count} figures from states"),
    };
    Some(format!(
        "{count} of the cache line (such as {stratum}) that was seen too rarely, with intervals of \
         half the estimate or more to each side: shown only in the JSON"
    ))
}

fn table(cases: &[&CaseRecord]) -> Table {
    let mut table = aligned(
        ["  case", "place", "estimate", "interval", "as timed", "n", "notes"],
        [2, 3, 4, 5],
    );
    for case in cases {
        table.add_row([
            format!("  {}", case.case),
            place(case),
            estimate(case),
            interval(case),
            figure(case.as_timed, case.unit),
            format!("{}x{}", case.batches / case.processes.max(1), case.processes),
            labels(case),
        ]);
    }
    table
}

/// The placement of a case, as text.
pub fn place(case: &CaseRecord) -> String {
    match &case.stratum {
        Some(stratum) if stratum == "far" => format!("{} (far)", case.placement),
        _ => case.placement.to_string(),
    }
}

/// The estimate of a case, or its upper bound.
pub fn estimate(case: &CaseRecord) -> String {
    if case.below_resolution {
        format!("< {}", figure(case.high.max(0.0), case.unit))
    } else {
        figure(case.estimate, case.unit)
    }
}

/// The interval of a figure: half its width in percent, or its two ends if the percentage would be
/// meaningless. A single process has no interval.
pub fn interval(case: &CaseRecord) -> String {
    if case.processes < 2 {
        return String::from("-");
    }
    let percent = case.relative_width() / 2.0 * 100.0;
    if case.below_resolution || case.estimate == 0.0 || percent > 100.0 {
        return format!("{} to {}", figure(case.low, case.unit), figure(case.high, case.unit));
    }
    let digits = usize::from(percent < 10.0);
    format!("+-{percent:.digits$} %")
}

/// The notes beside a figure.
pub fn labels(case: &CaseRecord) -> String {
    let labels: Vec<&str> =
        case.perspective.iter().chain(&case.labels).map(String::as_str).collect();
    labels.join("; ")
}

fn tail(report: &Report) -> String {
    let mut text = String::new();
    if !report.remarks.is_empty() {
        text += "\nsurprising\n";
        for remark in &report.remarks {
            let _ = writeln!(text, "  {remark}");
        }
    }
    let not_shown = not_shown(report);
    if !report.notes.is_empty() || !not_shown.is_empty() {
        text += "\nleft out\n";
        for sentence in not_shown {
            let _ = writeln!(text, "  {sentence}");
        }
        for note in &report.notes {
            let _ = writeln!(text, "  {}: {}", note.suite, note.text);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::head;
    use crate::bench::page::tests::report;
    use weir_bench::engine::record::{Reference, Report};

    /// Where nothing was measured, a step of the loop had taken 0.000 ns.
    #[test]
    fn a_loop_that_did_not_run_took_no_time_that_is_known() {
        let reference = Reference { median_ns: 1.25, batches: 7, ..Reference::default() };
        let measured = head(&Report { reference, ..report() });
        assert!(measured.contains("a step of the reference loop took 1.250 ns"), "{measured}");
        let head = head(&report());
        assert!(!head.contains("reference loop") && !head.contains("0.000 ns"), "{head}");
    }
}
