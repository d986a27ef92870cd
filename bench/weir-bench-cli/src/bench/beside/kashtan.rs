//! Kashtan's paging benchmarks by system, beside those of today. References a run are not published, so
//! each system's times are put over its own sequential or shortest run: only such ratios compare.

use super::{claim, filled, lines, named, of_one_placement};
use weir_bench::engine::params::Placement;
use weir_bench::engine::record::CaseRecord;
use weir_command::output::aligned;
use weir_model::published::{JOY_PAGING, PublishedRow};

const PLACES: [Placement; 2] = [Placement::SameCpu, Placement::Free];
/// The systems of the report and their columns.
const SYSTEMS: [(&str, usize); 3] = [("VMS", 0), ("SRI", 1), ("old", 2)];
/// The mechanisms of today.
const MECHANISMS: [&str; 4] =
    ["kernel-mmap", "kernel-mmap-advised", "weir-region", "weir-region-advised"];

/// A run as the report names it, over the run that it is compared with.
fn base(name: &str) -> &'static str {
    if name.starts_with("walk") { "walk 1" } else { "sequential" }
}

fn now<'c>(cases: &[&'c CaseRecord], mechanism: &str, run: &str) -> Option<&'c CaseRecord> {
    let name = format!("{mechanism}, 1/2 of it, {}", run.replace(' ', "-"));
    named(cases, &name)
}

fn then(rows: &[PublishedRow], run: &str, column: usize) -> Option<f64> {
    let row = rows.iter().find(|row| row.name == run)?;
    row.figures.get(column).copied().flatten()
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or(String::new(), |ratio| format!("{ratio:.2}x"))
}

/// The table, with half of the memory, and what became of the conclusion.
pub fn paging(cases: &[&CaseRecord]) -> Option<String> {
    let cases = &of_one_placement(cases, &PLACES);
    let rows = lines(JOY_PAGING);
    let systems = SYSTEMS.map(|(name, _)| format!("{name}, 1980"));
    let mut header = vec![String::from("  over sequential, or walk 1")];
    header.extend(systems.into_iter().chain(MECHANISMS.map(String::from)));
    let columns = header.len();
    let mut table = aligned(header, 1..columns);
    for row in &rows {
        let (run, base) = (row.name, base(row.name));
        let over = |value: Option<f64>, least: Option<f64>| Some(value? / least?);
        let old = SYSTEMS.map(|(_, at)| over(then(&rows, run, at), then(&rows, base, at)));
        let of = |name, run| Some(now(cases, name, run)?.estimate);
        let new = MECHANISMS.map(|name| over(of(name, run), of(name, base)));
        if new.iter().any(Option::is_some) {
            let cells = old.into_iter().chain(new).map(times);
            table.add_row(std::iter::once(format!("  {run}")).chain(cells));
        }
    }
    let advised = |run| {
        let (plain, told) =
            (now(cases, "kernel-mmap", run)?, now(cases, "kernel-mmap-advised", run)?);
        Some((claim(plain, told), plain.estimate / told.estimate))
    };
    let said = advised("sequential").zip(advised("random")).map(|(sequential, random)| {
        format!(
            "\n\n  Joy: a program that tells the system how it references its pages is paged better. With advice a reference takes\n  \
             {:.2} times less in sequence, where that {} here, and {:.2} times less at random, where it {}.",
            sequential.1, sequential.0, random.1, random.0
        )
    });
    Some(filled(&table)? + &said.unwrap_or_default())
}
