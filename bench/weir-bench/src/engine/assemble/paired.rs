//! Comparisons of cases with their baseline, and of the same thing with itself.

use super::super::case::{Group, Suite};
use super::super::plan::Block;
use super::super::record::{ComparisonRecord, Report, SelfTest, SelfTestEntry, VerdictRecord};
use super::BAND;
use super::series::Series;
use crate::engine::estimate::median;
use weir_measure::pairs::Comparison;

/// Adds the results of pairs within processes: cases against the baseline, the twin against the
/// first.
pub fn compare(suite: &Suite, group: &Group, block: &Block, series: &Series, report: &mut Report) {
    let case = |place: usize| &group.cases[block.cases[place]];
    if group.twin
        && let Some(found) = conclusion(&series.ratios(0, series.twin()))
    {
        report.self_test.entries.push(SelfTestEntry {
            suite: suite.name.into(),
            case: case(0).name.clone(),
            placement: block.placement,
            ratio: found.ratio,
            low: found.low,
            high: found.high,
            pairs: found.pairs as u64,
            resolves_share: found.resolution().fraction,
        });
    }
    let Some(baseline) = &group.baseline else { return };
    let Some(a) = (0..block.cases.len()).find(|place| case(*place).name == *baseline) else {
        return;
    };
    for b in (0..block.cases.len()).filter(|b| *b != a) {
        let (unit, other) = (case(a).measures[0].unit, case(b).measures[0].unit);
        if unit != other {
            continue;
        }
        let Some(found) = conclusion(&series.ratios(a, b)) else { continue };
        let verdict = found.verdict(BAND).turned(unit.more_is_better());
        report.comparisons.push(ComparisonRecord {
            suite: suite.name.into(),
            a: case(a).name.clone(),
            b: case(b).name.clone(),
            placement: block.placement,
            unit,
            ratio: found.ratio,
            low: found.low,
            high: found.high,
            p: found.p,
            pairs: found.pairs as u64,
            band_share: BAND,
            verdict: VerdictRecord {
                kind: verdict.to_string(),
                text: found.words(&case(a).name, verdict),
            },
        });
    }
}

fn conclusion(ratios: &[f64]) -> Option<Comparison> {
    let pairs: Vec<(f64, f64)> = ratios.iter().map(|ratio| (1.0, *ratio)).collect();
    Comparison::from_pairs(&pairs).ok()
}

/// Summarises the self-test. `has_twin` says whether any of the groups runs a case twice.
pub fn conclude(test: &mut SelfTest, has_twin: bool) {
    let resolved: Vec<f64> = test.entries.iter().map(|entry| entry.resolves_share).collect();
    if resolved.is_empty() {
        let why = match has_twin {
            true => "no case ran twice in six processes or more",
            false => "none of these groups runs a case twice",
        };
        test.sentence = format!("no self-test: {why}");
        return;
    }
    let holds = |entry: &&SelfTestEntry| entry.low <= 1.0 && 1.0 <= entry.high;
    let resolves_share = median(&resolved);
    test.resolves_share = Some(resolves_share);
    test.same_entries = test.entries.iter().filter(holds).count() as u64;
    let worst = resolved.iter().copied().fold(0.0, f64::max);
    let groups = test.entries.len();
    test.sentence = format!(
        "A/A: this host resolves {:.1} % (worst group {:.1} %); of {groups} {} run against {}, {} \
         showed no difference",
        resolves_share * 100.0,
        worst * 100.0,
        if groups == 1 { "group" } else { "groups" },
        if groups == 1 { "itself" } else { "themselves" },
        test.same_entries
    );
}
