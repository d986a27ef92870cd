//! The page in a sentence, and a glossary for those who read it first.

use super::ratios::asks_the_same;
use maud::{Markup, html};
use std::fmt::Write;
use weir_bench::engine::record::{ComparisonRecord, Report};
use weir_command::html::{folded, nothing, section};

/// Summarizes the page in a sentence.
pub fn summary(report: &Report) -> String {
    let suites =
        std::collections::BTreeSet::from_iter(report.cases.iter().map(|case| case.suite.as_str()));
    if suites.is_empty() {
        return String::from("Nothing could be measured; the notes below say why.");
    }
    let fair = |row: &&ComparisonRecord| asks_the_same(report, row);
    let fair: Vec<&ComparisonRecord> = report.comparisons.iter().filter(fair).collect();
    let verdicts = |kind: &str| fair.iter().filter(|row| row.verdict.kind == kind).count();
    let mut text = format!(
        "How long this host takes to move bytes and to switch between processes: {} figures \
         from {} {}.",
        report.cases.len(),
        suites.len(),
        if suites.len() == 1 { "suite" } else { "suites" }
    );
    if !fair.is_empty() {
        let _ = write!(
            text,
            " Compared with the baseline of its group, of {} {} {} are faster and {} slower.",
            fair.len(),
            if fair.len() == 1 { "case" } else { "cases" },
            verdicts("faster"),
            verdicts("slower")
        );
    }
    text
}

/// Explains the suites, the placements and the terms on the page.
pub fn glossary(report: &Report) -> Markup {
    const TERMS: [(&str, &str); 5] = [
        (
            "interval",
            "95 % interval, widened by how far hosts drift, so that those of two runs overlap",
        ),
        (
            "as timed",
            "before figures were normalised to the CPU's speed in the first run on this host",
        ),
        ("n", "batches of each process x fresh processes"),
        (
            "near, far",
            "how long a cache line took between the two CPUs; hosts may move CPUs during a run",
        ),
        ("A/A", "the same case measured as if it were two: any difference is measurement error"),
    ];
    if report.cases.is_empty() {
        return nothing();
    }
    let shown = |suite: &str| report.cases.iter().any(|case| case.suite == suite);
    let places =
        std::collections::BTreeSet::from_iter(report.cases.iter().map(|case| case.placement));
    let inside = html! {
        dl.glossary {
            @for suite in weir_bench::catalogue().iter().filter(|suite| shown(suite.name)) {
                dt { (suite.name) }
                dd { (suite.about) " " span.soft { "After " (suite.source) "." } }
            }
            @for place in places {
                dt { (place) }
                dd { (place.about()) }
            }
            @for (word, means) in TERMS {
                dt { (word) }
                dd { (means) }
            }
        }
    };
    section("What the words mean", "", folded("Suites, places and terms", inside))
}
