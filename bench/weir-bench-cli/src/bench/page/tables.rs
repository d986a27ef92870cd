//! All figures as tables, what was left out, and the host.

use super::super::table::{estimate, interval, is_shown, labels, not_shown, place};
use crate::figure::figure as nice;
use maud::{Markup, html};
use std::fmt::Write;
use weir_bench::engine::record::{CaseRecord, Report};
use weir_command::html::Column::{Figures, Words};
use weir_command::html::{Cell, Column, Table, folded, nothing, remarks};
use weir_measure::host_cpu::HostUse;

/// An interval is marked when it is wider than this on each side, as a fraction.
const WIDE: f64 = 0.15;

const COLUMNS: [Column; 8] = [
    Words("case"),
    Words("place"),
    Figures("estimate"),
    Figures("interval"),
    Figures("as timed"),
    Figures("n"),
    Figures("line"),
    Words("notes"),
];

/// A table for each suite.
pub fn tables(report: &Report) -> Markup {
    let table_of = |cases: &[CaseRecord]| {
        let mut table = Table::new(&COLUMNS);
        for case in cases.iter().filter(|case| is_shown(case, report)) {
            let params = serde_json::to_string(&case.params).unwrap_or_default();
            table.titled_row(&params, cells(case));
        }
        table.finish()
    };
    html! {
        @for cases in report.cases.chunk_by(|a, b| a.suite == b.suite) {
            h3 id=(cases[0].suite) { (cases[0].suite) }
            (table_of(cases))
        }
    }
}

fn cells(case: &CaseRecord) -> [Cell; 8] {
    let half = case.relative_width() / 2.0;
    let is_wide = half > WIDE && !case.below_resolution;
    let batches = format!("{}x{}", case.batches / case.processes.max(1), case.processes);
    let line = case.line_rtt_ns.map_or(String::new(), |ns| format!("{ns:.0} ns"));
    [
        Cell::text(&case.case),
        Cell::text(place(case)),
        Cell::text(estimate(case)),
        Cell::text(interval(case).replace("+-", "\u{b1}")).with_class(if is_wide {
            "wideint"
        } else {
            ""
        }),
        Cell::text(nice(case.as_timed, case.unit)).with_class("n"),
        Cell::text(batches).with_class("n"),
        Cell::text(line).with_class("n"),
        Cell::text(labels(case)).with_class("n"),
    ]
}

/// What was left out.
pub fn notes(report: &Report) -> Markup {
    let not_shown = not_shown(report);
    if report.notes.is_empty() && not_shown.is_empty() {
        return nothing();
    }
    let notes = report.notes.iter().map(|note| format!("{}: {}", note.suite, note.text));
    remarks(not_shown.into_iter().chain(notes))
}

/// The fingerprint of the host, in a part of the page that unfolds.
pub fn host(report: &Report) -> Markup {
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
        ("others before it ran".into(), seen(host.state.before.as_ref())),
        ("others while it ran".into(), seen(host.state.during.as_ref())),
        (
            "in the second before".into(),
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
        ("weir".into(), format!("{}, seed {}", report.weir_version, report.seed)),
    ];
    for (placement, cpus) in &host.placements {
        rows.push((format!("CPUs at {placement}"), format!("{cpus:?}")));
    }
    for (name, state) in &host.mitigations {
        rows.push((name.replace('_', " "), state.clone()));
    }
    let mut table = Table::new(&[Words(""), Words("")]);
    for (name, value) in &rows {
        table.row([Cell::text(name).with_class("n"), Cell::text(value)]);
    }
    folded("The host", table.finish())
}

fn seen(seen: Option<&HostUse>) -> String {
    let Some(seen) = seen else { return String::from("not known") };
    let mut words = seen.words();
    let _ = write!(
        words,
        "; idle {:.1}, this run {:.1}, taken by the hypervisor {:.2}, for {:.1} s",
        seen.idle_cpus, seen.own_cpus, seen.steal_cpus, seen.wall_s
    );
    if seen.throttled_cpus > 0.0 {
        let _ = write!(words, "; a CPU quota took {:.2}", seen.throttled_cpus);
    }
    if let Some(share) = seen.cpu_pressure_share {
        let _ = write!(words, "; processes waited for a CPU {:.0} % of the time", share * 100.0);
    }
    if let Some(hz) = seen.frequency_hz {
        let _ = write!(words, "; {:.2} GHz", hz / 1e9);
    }
    words
}
