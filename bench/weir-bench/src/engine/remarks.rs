//! A sentence for each surprising figure.

use super::params::{Placement, Unit};
use super::record::{CaseRecord, Report};
use weir_measure::machine::size;

/// Intervals are remarked from this width on, as a fraction of the estimate.
const WIDE: f64 = 0.3;
/// Throughput that falls below this share when the chunk grows is remarkable.
const FALL: f64 = 0.75;
/// A placement that changes a figure by this factor is remarkable.
const FACTOR: f64 = 3.0;
const MOST: usize = 12;

/// Returns the remarks, the most informative kinds first.
pub fn remarks(report: &Report) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.extend(placements(&report.cases));
    remarks.extend(falls(&report.cases));
    remarks.extend(states(report));
    remarks.extend(bimodal(&report.cases));
    remarks.extend(wide(&report.cases));
    remarks.truncate(MOST);
    remarks
}

/// Remarks on a case at two placements, of which one takes several times as long: the largest ratio
/// of a suite.
fn placements(cases: &[CaseRecord]) -> Vec<String> {
    let mut found: Vec<(f64, &CaseRecord, &CaseRecord)> = Vec::new();
    let whole = |case: &&CaseRecord| case.params.operation.as_deref() != Some("switch");
    let sure = || cases.iter().filter(|case| !case.is_too_vague());
    let near = sure().filter(|case| case.placement == Placement::SameCpu);
    for near in near.filter(whole) {
        let alike = |case: &&CaseRecord| {
            case.suite == near.suite && case.case == near.case && case.placement != near.placement
        };
        let whole_time = |case: &&CaseRecord| matches!(&*case.quantity, "time" | "real");
        for far in sure().filter(alike).filter(whole_time) {
            found.push((far.estimate / near.estimate, near, far));
        }
    }
    let outside = |(factor, near, far): &(f64, &CaseRecord, &CaseRecord)| {
        let apart = far.low > near.high || far.high < near.low;
        apart && *factor > 0.0 && (*factor >= FACTOR || *factor <= 1.0 / FACTOR)
    };
    found.retain(outside);
    found.sort_by(|a, b| b.0.ln().abs().total_cmp(&a.0.ln().abs()));
    let mut suites: Vec<&str> = Vec::new();
    found.retain(|(_, near, _)| {
        let first = !suites.contains(&near.suite.as_str());
        suites.push(&near.suite);
        first
    });
    found.iter().map(|(factor, near, far)| placement_sentence(*factor, near, far, cases)).collect()
}

fn placement_sentence(
    factor: f64,
    near: &CaseRecord,
    far: &CaseRecord,
    cases: &[CaseRecord],
) -> String {
    let awake = cases.iter().find(|case| {
        case.suite == near.suite
            && case.case == near.case
            && case.placement == Placement::OtherCpuAwake
            && case.stratum == far.stratum
    });
    let what = format!("{}: {}", near.suite, near.case);
    let mut text = if factor > 1.0 {
        format!("{what} takes {factor:.1}x as long at {} as on one CPU", far.placement)
    } else {
        format!("{what} takes {:.1}x as long on one CPU as at {}", 1.0 / factor, far.placement)
    };
    match awake {
        Some(awake) if far.placement == Placement::OtherCpu && factor > 1.0 => {
            let share = 1.0 - (awake.estimate - near.estimate) / (far.estimate - near.estimate);
            if (0.05..=1.0).contains(&share) {
                text +=
                    &format!("; waking an idle CPU is {:.0} % of the difference", share * 100.0);
            }
        }
        _ => {}
    }
    text
}

/// Remarks on throughput that falls as the chunk grows.
fn falls(cases: &[CaseRecord]) -> Vec<String> {
    let mut found = Vec::new();
    // Memory copies fall at the size of a cache, which is known.
    let moved = |case: &&CaseRecord| {
        case.unit == Unit::MegabytesPerSecond && case.params.operation.as_deref() != Some("copy")
    };
    for small in cases.iter().filter(moved) {
        let Some(chunk) = small.params.chunk_bytes else { continue };
        let follows = |case: &&CaseRecord| {
            let mut params = case.params.clone();
            params.chunk_bytes = Some(chunk);
            case.suite == small.suite
                && case.placement == small.placement
                && case.stratum == small.stratum
                && case.quantity == small.quantity
                && params == small.params
                && case.params.chunk_bytes > Some(chunk)
        };
        let next = cases.iter().filter(follows).min_by_key(|case| case.params.chunk_bytes);
        let Some(next) = next else { continue };
        if next.high < small.low * FALL {
            found.push((
                next.estimate / small.estimate,
                format!(
                    "{}: {}: {} chunks move {:.0} % less than {} chunks ({})",
                    small.suite,
                    small.params.mechanism.as_deref().unwrap_or(&small.case),
                    size(next.params.chunk_bytes.unwrap_or(0)),
                    (1.0 - next.estimate / small.estimate) * 100.0,
                    size(chunk),
                    small.placement
                ),
            ));
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().take(3).map(|(_, text)| text).collect()
}

/// Remarks on the CPU's speed and the cache lines between CPUs.
fn states(report: &Report) -> Vec<String> {
    let mut found = Vec::new();
    let reference = &report.reference;
    let share = reference.slow_batches as f64 / reference.batches.max(1) as f64;
    if share > 0.1 {
        found.push(format!(
            "the CPU was more than a tenth below its usual speed in {:.0} % of the batches: \
             normalised figures allow for it",
            share * 100.0
        ));
    }
    let far = report.cases.iter().filter(|case| case.stratum.as_deref() == Some("far")).count();
    if far > 0 {
        let figures = if far == 1 { "1 figure" } else { &format!("{far} figures") };
        found.push(format!(
            "in {figures} the two CPUs were far from each other (a cache line took twice its \
             shortest time or more): compare them only with far figures"
        ));
    }
    found
}

fn bimodal(cases: &[CaseRecord]) -> Vec<String> {
    let found: Vec<&CaseRecord> =
        cases.iter().filter(|case| case.labels.iter().any(|label| label == "bimodal")).collect();
    match found.as_slice() {
        [] => Vec::new(),
        [case] => vec![format!(
            "{}: {} at {} is bimodal: its estimate lies in one of its two modes or between them",
            case.suite, case.case, case.placement
        )],
        [first, ..] => vec![format!(
            "{} figures are bimodal, such as {}: {} at {}: their estimates lie in one of the \
             two modes or between them",
            found.len(),
            first.suite,
            first.case,
            first.placement
        )],
    }
}

fn wide(cases: &[CaseRecord]) -> Vec<String> {
    let plain = |case: &&CaseRecord| {
        !case.below_resolution && !case.is_by_ticks() && case.relative_width() > WIDE
    };
    let mut wide: Vec<&CaseRecord> = cases.iter().filter(plain).collect();
    wide.sort_by(|a, b| b.relative_width().total_cmp(&a.relative_width()));
    wide.first().map_or_else(Vec::new, |widest| {
        let what = match wide.len() {
            1 => String::from("1 figure has an interval"),
            count => format!("{count} figures have intervals"),
        };
        vec![format!(
            "{what} wider than {:.0} %, the widest {} {} at {}: give more time (--budget) before \
             relying on it",
            WIDE * 100.0,
            widest.suite,
            widest.case,
            widest.placement
        )]
    })
}
