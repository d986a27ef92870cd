//! All figures as tables, what was left out, and the host.

use super::super::nice;
use super::draw::escape;
use std::fmt::Write;
use weir_measure::bench::record::{CaseRecord, Report};

/// An interval is marked when it is wider than this on each side, as a fraction.
const WIDE: f64 = 0.15;

/// A table a suite.
pub fn tables(report: &Report) -> String {
    let mut html = String::new();
    for cases in report.cases.chunk_by(|a, b| a.suite == b.suite) {
        let rows: String = cases.iter().map(row).collect();
        let _ = write!(
            html,
            "<h3>{}</h3>\n<div class=\"wide\"><table>\n<thead><tr><th>case</th><th>place</th>\
             <th class=\"r\">estimate</th><th class=\"r\">interval</th>\
             <th class=\"r\">as timed</th><th class=\"r\">n</th><th class=\"r\">line</th>\
             <th>notes</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
            escape(&cases[0].suite)
        );
    }
    html
}

fn row(case: &CaseRecord) -> String {
    let params = serde_json::to_string(&case.params).unwrap_or_default();
    let half = (case.high - case.low) / 2.0 / case.estimate.abs();
    let (estimate, interval) = if case.below_resolution || !half.is_finite() {
        let range = format!("{} to {}", nice(case.low, case.unit), nice(case.high, case.unit));
        (format!("&lt; {}", nice(case.high.max(0.0), case.unit)), range)
    } else {
        let digits = usize::from(half < 0.1);
        (nice(case.estimate, case.unit), format!("&plusmn;{:.digits$} %", half * 100.0))
    };
    let far = if case.stratum.as_deref() == Some("far") { " (far)" } else { "" };
    let mut notes: Vec<String> = case.perspective.iter().cloned().collect();
    notes.extend(case.labels.iter().cloned());
    format!(
        "<tr title=\"{}\"><td>{}</td><td>{}{far}</td><td class=\"r\">{estimate}</td>\
         <td class=\"r{}\">{interval}</td><td class=\"r n\">{}</td><td class=\"r n\">{}x{}</td>\
         <td class=\"r n\">{}</td><td class=\"n\">{}</td></tr>\n",
        escape(&params),
        escape(&case.case),
        case.placement,
        if half > WIDE { " wideint" } else { "" },
        nice(case.as_timed, case.unit),
        case.n / case.processes.max(1),
        case.processes,
        case.line_rtt_ns.map_or(String::new(), |ns| format!("{ns:.0} ns")),
        escape(&notes.join("; "))
    )
}

/// What was left out.
pub fn notes(report: &Report) -> String {
    if report.notes.is_empty() {
        return String::new();
    }
    let items: String = report
        .notes
        .iter()
        .map(|note| format!("<li>{}: {}</li>\n", escape(&note.suite), escape(&note.text)))
        .collect();
    format!("<ul class=\"remarks\">\n{items}</ul>\n")
}

/// The host's fingerprint, folded away.
pub fn host(report: &Report) -> String {
    let host = &report.host;
    let reference = &report.reference;
    let mut rows: Vec<(String, String)> = vec![
        ("kernel".into(), host.kernel.clone()),
        ("CPU".into(), host.cpu.clone()),
        ("CPUs allowed".into(), format!("{:?} of {}", host.cpus_allowed, host.cpus_online)),
        ("memory".into(), format!("{:.1} GB", host.memory_bytes as f64 / 1e9)),
        ("caches".into(), host.caches.join(", ")),
        ("clock source".into(), host.clocksource.clone()),
        ("time-stamp counter".into(), format!("{:.1} MHz", host.tsc_hz as f64 / 1e6)),
        ("governor".into(), host.governor.clone()),
        ("virtualisation".into(), host.virtualisation.clone()),
        ("huge pages".into(), host.huge_pages.clone()),
        (
            "reference loop".into(),
            format!(
                "a step took {:.4} ns in the middle, {:.4} to {:.4} in four fifths of {} batches; \
                 normalised to {:.4} ns",
                reference.median_ns,
                reference.fast_ns,
                reference.slow_ns,
                reference.batches,
                reference.nominal_ns
            ),
        ),
        (
            "at present".into(),
            format!(
                "{:.0} switches/s, {:.0} faults/s, {:.0} read and write calls/s, {:.0} forks/s, \
                 {:.0} packets/s",
                report.rates.switches_per_s,
                report.rates.faults_per_s,
                report.rates.calls_per_s,
                report.rates.forks_per_s,
                report.rates.packets_per_s
            ),
        ),
        ("weir".into(), format!("{}, seed {}", report.weir, report.seed)),
    ];
    for (placement, cpus) in &host.placements {
        rows.push((format!("CPUs at {placement}"), format!("{cpus:?}")));
    }
    for (name, state) in &host.mitigations {
        rows.push((name.replace('_', " "), state.clone()));
    }
    let rows: String = rows
        .iter()
        .map(|(name, value)| {
            format!("<tr><td class=\"n\">{}</td><td>{}</td></tr>\n", escape(name), escape(value))
        })
        .collect();
    format!("<details>\n<summary>The host</summary>\n<table>\n{rows}</table>\n</details>\n")
}
