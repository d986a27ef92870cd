//! Ratios as dots with their intervals, one per row, on a logarithmic axis around 1.

use maud::{Markup, html};
use weir_bench::engine::record::{CaseRecord, ComparisonRecord, Report, SelfTestEntry};
use weir_charts::ratios::{Dot, chart, dot};
use weir_charts::{BAD, DrawError, GOOD, SAME, UNKNOWN, key};
use weir_command::html::{is_empty, nothing};

/// Draws the cases against the baselines of their groups, for each suite and placement.
pub fn comparisons(report: &Report) -> Result<Markup, DrawError> {
    let mut charts = Vec::new();
    let all = &report.comparisons;
    for rows in all.chunk_by(|a, b| (&a.suite, &a.a, a.placement) == (&b.suite, &b.a, b.placement))
    {
        let first = &rows[0];
        let fair = |row: &&ComparisonRecord| asks_the_same(report, row);
        let dots: Vec<Dot> = rows.iter().filter(fair).filter_map(of_comparison).collect();
        let band = first.band_share;
        let caption =
            format!("{} at {}: against {} ({})", first.suite, first.placement, first.a, first.unit);
        charts.push(chart(&caption, &dots, Some(band))?);
    }
    if charts.iter().all(is_empty) {
        return Ok(nothing());
    }
    let colours =
        [(GOOD, "faster"), (BAD, "slower"), (SAME, "equivalent"), (UNKNOWN, "inconclusive")];
    Ok(html! { (key(&colours)) @for chart in charts { (chart) } })
}

/// Whether a case and its baseline answer one question: chunks of the same size in the same direction.
/// A pipe to oneself is not a faster switch, and a larger message is not a slower one.
pub fn asks_the_same(report: &Report, row: &ComparisonRecord) -> bool {
    let of = |name: &str| {
        let is_it = |case: &&CaseRecord| {
            let rest = case.case.strip_prefix(name);
            case.suite == row.suite
                && case.placement == row.placement
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
        };
        report.cases.iter().find(is_it).map(|case| &case.params)
    };
    match (of(&row.a), of(&row.b)) {
        (Some(a), Some(b)) => a.direction == b.direction && a.chunk_bytes == b.chunk_bytes,
        _ => true,
    }
}

fn of_comparison(row: &ComparisonRecord) -> Option<Dot> {
    let colour = match row.verdict.kind.as_str() {
        "faster" => GOOD,
        "slower" => BAD,
        "equivalent" => SAME,
        _ => UNKNOWN,
    };
    dot(row.b.clone(), row.ratio, row.low, row.high, colour)
}

/// Draws the cases that were compared with themselves.
pub fn self_test(report: &Report) -> Result<Markup, DrawError> {
    let of_entry = |entry: &SelfTestEntry| {
        let holds = entry.low <= 1.0 && entry.high >= 1.0;
        let name = format!("{}: {} ({})", entry.suite, entry.case, entry.placement);
        dot(name, entry.ratio, entry.low, entry.high, if holds { SAME } else { BAD })
    };
    let dots: Vec<Dot> = report.self_test.entries.iter().filter_map(of_entry).collect();
    chart("", &dots, None)
}
