//! `weir compare`: two runs of `weir bench`, or a saved one and now.
//!
//! The runs were not interleaved, so every difference may be the hour's; that is said each time.
//! Both are brought to one speed of the reference loop, and each process of a run is one value.

use crate::args::{CompareOptions, FailOn};
use crate::bench::history::{History, unknown};
use crate::bench::{figure, measure_again, trimmed, write_json};
use crate::fault::Fault;
use crate::history::read;
use crate::output::print;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;
use weir_measure::bench::estimate::{median, typical};
use weir_measure::bench::params::{Placement, Unit};
use weir_measure::bench::record::{CaseRecord, Report};
use weir_measure::pairs::{Unpaired, Verdict};

const UNPAIRED: &str =
    "unpaired: the two runs were not interleaved; a difference may be the hour's, not the host's";

/// The document of schema weir.compare/1.
#[derive(Debug, Serialize)]
struct Compared {
    schema: &'static str,
    a: String,
    b: String,
    unpaired: &'static str,
    band: f64,
    host_differences: Vec<Difference>,
    cases: Vec<Row>,
    only_a: Vec<String>,
    only_b: Vec<String>,
}

/// Something in which the two runs differ beside their figures.
#[derive(Debug, Serialize)]
struct Difference {
    what: &'static str,
    a: String,
    b: String,
}

/// One case in both runs.
#[derive(Debug, Serialize)]
struct Row {
    suite: String,
    case: String,
    placement: Placement,
    stratum: Option<String>,
    unit: Unit,
    a: f64,
    b: f64,
    ratio: f64,
    low: f64,
    high: f64,
    p: Option<f64>,
    verdict: String,
}

/// Carries out the verb.
pub fn compare(options: &CompareOptions) -> Result<ExitCode, Fault> {
    let a = load(&options.a)?;
    let b = match &options.b {
        Some(name) => load(name)?,
        None => measure_again(&a)?,
    };
    let b_name = options.b.clone().unwrap_or_else(|| String::from("now"));
    let compared = compared(&a, &b, &options.a, &b_name, options.band)?;
    let text = text(&compared, options.verbose);
    match &options.json {
        Some(path) => {
            let document = serde_json::to_string_pretty(&compared)
                .map_err(|error| Fault::failed(format!("cannot make JSON: {error}")))?;
            write_json(path, &(document + "\n"))?;
        }
        None => print(&text)?,
    }
    let failed = |row: &Row| match options.fail_on {
        None => false,
        Some(FailOn::Slower) => row.verdict == Verdict::Slower.to_string(),
        Some(FailOn::Changed) => row.verdict != Verdict::Equivalent.to_string(),
    };
    Ok(ExitCode::from(u8::from(compared.cases.iter().any(failed))))
}

/// A file, if the word looks like one; else a saved run.
fn load(name: &str) -> Result<Report, Fault> {
    if name.contains('/') || name.ends_with(".json") {
        let text = std::fs::read_to_string(name)
            .map_err(|error| Fault::failed(format!("cannot read '{name}': {error}")))?;
        return read(&text, name);
    }
    match History::open_existing()? {
        Some(history) => read(&history.load(name)?, name),
        None => Err(unknown(name, None)),
    }
}

fn compared(
    a: &Report,
    b: &Report,
    a_name: &str,
    b_name: &str,
    band: f64,
) -> Result<Compared, Fault> {
    let mut cases = Vec::new();
    for one in &a.cases {
        let Some(other) = b.cases.iter().find(|other| other.key() == one.key()) else { continue };
        if one.unit != other.unit || one.quantity != other.quantity {
            return Err(Fault::failed(format!(
                "cannot compare {}: {} at {}: '{a_name}' has {} in {}, '{b_name}' {} in {}",
                one.suite,
                one.case,
                one.placement,
                one.quantity,
                one.unit,
                other.quantity,
                other.unit
            )));
        }
        cases.push(row(one, other, a.reference.nominal_ns, band));
    }
    let only = |these: &Report, those: &Report| -> Vec<String> {
        let missing = |case: &&CaseRecord| those.cases.iter().all(|c| c.key() != case.key());
        these.cases.iter().filter(missing).map(full_name).collect()
    };
    if cases.is_empty() {
        return Err(Fault::failed(format!(
            "cannot compare '{a_name}' with '{b_name}': they have no case in common"
        )));
    }
    Ok(Compared {
        schema: "weir.compare/1",
        a: a_name.into(),
        b: b_name.into(),
        unpaired: UNPAIRED,
        band,
        host_differences: differences(a, b),
        only_a: only(a, b),
        only_b: only(b, a),
        cases,
    })
}

fn full_name(case: &CaseRecord) -> String {
    let stratum = case.stratum.as_ref().map_or(String::new(), |stratum| format!(", {stratum}"));
    format!("{}: {} ({}{stratum})", case.suite, case.case, case.placement)
}

fn differences(a: &Report, b: &Report) -> Vec<Difference> {
    let list = |report: &Report| -> Vec<(&'static str, String)> {
        let host = &report.host;
        let mitigations: Vec<String> =
            host.mitigations.iter().map(|(name, state)| format!("{name}: {state}")).collect();
        vec![
            ("kernel", host.kernel.clone()),
            ("cpu", host.cpu.clone()),
            ("cpus allowed", format!("{:?}", host.cpus_allowed)),
            ("memory", host.memory_bytes.to_string()),
            ("clock source", host.clocksource.clone()),
            ("governor", host.governor.clone()),
            ("virtualisation", host.virtualisation.clone()),
            ("mitigations", mitigations.join("; ")),
            ("huge pages", host.huge_pages.clone()),
            ("CPUs of placements", format!("{:?}", host.placements)),
            ("load", report.load.name().into()),
            ("weir", report.weir.clone()),
        ]
    };
    let pairs = list(a).into_iter().zip(list(b));
    pairs
        .filter(|((_, a), (_, b))| a != b)
        .map(|((what, a), (_, b))| Difference { what, a, b })
        .collect()
}

/// One value a process, at the common speed of the reference loop.
fn values(case: &CaseRecord, nominal_ns: f64) -> Vec<f64> {
    let beside = &case.beside;
    let mut processes: Vec<(u64, Vec<f64>)> = Vec::new();
    for (index, sample) in case.samples.iter().enumerate() {
        let label = beside.label.get(index).map_or("", String::as_str);
        if label.contains("near") || label.contains("far") {
            continue;
        }
        let reference = beside.reference_ns.get(index).copied().unwrap_or(0.0);
        let usable = case.normalised && reference > 0.0 && nominal_ns > 0.0;
        let slower = if usable { reference / nominal_ns } else { 1.0 };
        let value = if case.unit.is_time() { sample / slower } else { sample * slower };
        let process = beside.process.get(index).copied().unwrap_or(0);
        match processes.last_mut().filter(|(last, _)| *last == process) {
            Some((_, values)) => values.push(value),
            None => processes.push((process, vec![value])),
        }
    }
    let of_process = |values: &Vec<f64>| match case.unit {
        // Differences and shares may be 0 or below: their better quarter says nothing.
        Unit::Percent => median(values),
        _ if case.low <= 0.0 || case.params.operation.as_deref() == Some("phase") => median(values),
        unit => typical(values, unit),
    };
    processes.iter().map(|(_, values)| of_process(values)).collect()
}

fn row(one: &CaseRecord, other: &CaseRecord, nominal_ns: f64, band: f64) -> Row {
    let (a, b) = (values(one, nominal_ns), values(other, nominal_ns));
    let found = Unpaired::from_samples(&a, &b);
    let verdict = match &found {
        Ok(found) => turned(found.verdict(band), one.unit),
        // Differences and shares may be 0 or below: only what lies apart is told apart.
        Err(_) if other.low > one.high => turned(Verdict::Slower, one.unit),
        Err(_) if other.high < one.low => turned(Verdict::Faster, one.unit),
        Err(_) => Verdict::Inconclusive,
    };
    let plain = other.estimate / one.estimate;
    Row {
        suite: one.suite.clone(),
        case: one.case.clone(),
        placement: one.placement,
        stratum: one.stratum.clone(),
        unit: one.unit,
        a: median(&a),
        b: median(&b),
        ratio: found.as_ref().map_or(plain, |found| found.ratio),
        low: found.as_ref().map_or(plain, |found| found.low),
        high: found.as_ref().map_or(plain, |found| found.high),
        p: found.ok().map(|found| found.p),
        verdict: verdict.to_string(),
    }
}

/// Of rates, more is faster.
fn turned(verdict: Verdict, unit: Unit) -> Verdict {
    match (verdict, unit.more_is_better()) {
        (Verdict::Faster, true) => Verdict::Slower,
        (Verdict::Slower, true) => Verdict::Faster,
        (verdict, _) => verdict,
    }
}

fn text(compared: &Compared, verbose: bool) -> String {
    let mut text = format!("{} against {}\n{UNPAIRED}\n", compared.b, compared.a);
    for difference in &compared.host_differences {
        let Difference { what, a, b } = difference;
        let _ = writeln!(text, "differs: {what}: {a} -> {b}");
    }
    let is = |row: &Row, verdict: Verdict| row.verdict == verdict.to_string();
    let count = |verdict| compared.cases.iter().filter(|row| is(row, verdict)).count();
    let shown: Vec<&Row> = compared
        .cases
        .iter()
        .filter(|row| verbose || is(row, Verdict::Faster) || is(row, Verdict::Slower))
        .collect();
    if !shown.is_empty() {
        let _ = write!(text, "\n{}\n\n", trimmed(&table(&shown, compared)));
    }
    let _ = writeln!(
        text,
        "{} cases: {} faster, {} slower, {} equivalent within {} %, {} inconclusive",
        compared.cases.len(),
        count(Verdict::Faster),
        count(Verdict::Slower),
        count(Verdict::Equivalent),
        compared.band * 100.0,
        count(Verdict::Inconclusive)
    );
    for (only, name) in [(&compared.only_a, &compared.a), (&compared.only_b, &compared.b)] {
        if !only.is_empty() {
            let _ = writeln!(text, "{} cases only in {name}", only.len());
        }
        for case in only.iter().filter(|_| verbose) {
            let _ = writeln!(text, "  {case}");
        }
    }
    text
}

fn table(rows: &[&Row], compared: &Compared) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["case", "place", &compared.a, &compared.b, "ratio", "95 %", "verdict"]);
    for column in 2..=5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        let far = row.stratum.as_deref() == Some("far");
        table.add_row([
            format!("{}: {}", row.suite, row.case),
            format!("{}{}", row.placement, if far { " (far)" } else { "" }),
            figure(row.a, row.unit),
            figure(row.b, row.unit),
            format!("{:.3}", row.ratio),
            format!("{:.3} to {:.3}", row.low, row.high),
            row.verdict.clone(),
        ]);
    }
    table
}
