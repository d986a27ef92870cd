//! The phases of a run in a sentence.

use super::verdict::short_stage;
use weir_doctor::facts::Run;
use weir_doctor::facts::{Holder, Phase};

/// Most phases in the sentence.
const MOST: usize = 8;

/// `phases: 0-3.1s held up by 1 gzip; 3.1-4.0s by 2 sort alone`; nothing for a run of one phase.
pub fn phases(run: &Run) -> Option<String> {
    if run.phases.len() < 2 {
        return None;
    }
    let digits = digits(&run.phases);
    let first = run.phases.iter().position(|phase| phase.holder != Holder::Nobody);
    let shown = run.phases.iter().take(MOST).enumerate();
    let mut said: Vec<String> =
        shown.map(|(at, one)| phase(run, one, digits, Some(at) == first)).collect();
    match run.phases.len().saturating_sub(MOST) {
        0 => {}
        more => said.push(format!("and {more} more")),
    }
    Some(format!("phases: {}", said.join("; ")))
}

/// Digits behind the point, so that each phase has another end than its beginning.
fn digits(phases: &[Phase]) -> usize {
    match phases.iter().map(Phase::length_ns).min().unwrap_or(0) {
        0..300_000_000 => 2,
        300_000_000..20_000_000_000 => 1,
        _ => 0,
    }
}

fn phase(run: &Run, phase: &Phase, digits: usize, first: bool) -> String {
    let time = |ns: u64| format!("{:.digits$}", ns as f64 / 1e9);
    let start = if phase.start_ns == 0 { String::from("0") } else { time(phase.start_ns) };
    let name = |stage: usize| short_stage(run, stage);
    let held = if first { "held up by" } else { "by" };
    let who = match phase.holder {
        Holder::Stage { stage, alone: true, .. } => format!("{held} {} alone", name(stage)),
        Holder::Stage { stage, .. } => format!("{held} {}", name(stage)),
        Holder::Two([one, other]) => format!("{held} {} and {} alike", name(one), name(other)),
        Holder::Nobody => String::from("no stage was busy"),
    };
    format!("{start}-{}s {who}", time(phase.end_ns))
}
