//! A sentence on the phases of a run.

use super::groups::group;
use super::verdict::short_stage;
use weir_doctor::facts::Run;
use weir_doctor::facts::{Holder, Phase};

/// The largest number of phases in the sentence.
const MOST: usize = 8;
/// Phases of a shorter run are noise.
const LEAST_NS: u64 = 1_000_000_000;

/// `phases: 0-3.1s held up by 1 gzip; 3.1-4.0s by 2 sort alone`; of a script, `phases: 0-3.1s in
/// pipeline 1 (line 7 of report.sh); 3.1-4.0s in command 2 ld`. Nothing for a run of one phase.
pub fn phases(run: &Run, phases: &[Phase]) -> Option<String> {
    let name = |at: usize| if run.script { group(run, at) } else { short_stage(run, at) };
    let who = |phase: &Phase, held: &str| match phase.holder {
        Holder::Stage { stage, alone: true, .. } if !run.script => {
            format!("{held} {} alone", name(stage))
        }
        Holder::Stage { stage, .. } => format!("{held} {}", name(stage)),
        Holder::Two([one, other]) => format!("{held} {} and {} alike", name(one), name(other)),
        Holder::Nobody if run.script => String::from("elsewhere"),
        Holder::Nobody => String::from("no stage was busy"),
    };
    match run.script {
        true => sentence(phases, "in", "in", &who),
        false => sentence(phases, "held up by", "by", &who),
    }
}

/// Returns from when to when who held the run up.
pub fn phase_names(run: &Run) -> Vec<(u64, u64, String)> {
    let who = |phase: &Phase| match phase.holder {
        Holder::Stage { stage, .. } => short_stage(run, stage),
        Holder::Two([one, other]) => {
            format!("{} and {} alike", short_stage(run, one), short_stage(run, other))
        }
        Holder::Nobody => String::from("no stage was busy"),
    };
    run.phases.iter().map(|phase| (phase.start_ns, phase.end_ns, who(phase))).collect()
}

/// Writes phases in a sentence that begins with these words; `who` names what held the run up.
fn sentence(
    phases: &[Phase],
    first_words: &str,
    words: &str,
    who: &dyn Fn(&Phase, &str) -> String,
) -> Option<String> {
    if phases.len() < 2 || phases.last().is_some_and(|last| last.end_ns < LEAST_NS) {
        return None;
    }
    let digits = digits(phases);
    let time = |ns: u64| format!("{:.digits$}", ns as f64 / 1e9);
    let first = phases.iter().position(|phase| phase.holder != Holder::Nobody);
    let one = |(at, phase): (usize, &Phase)| {
        let start = if phase.start_ns == 0 { String::from("0") } else { time(phase.start_ns) };
        let words = if Some(at) == first { first_words } else { words };
        format!("{start}-{}s {}", time(phase.end_ns), who(phase, words))
    };
    let mut said: Vec<String> = phases.iter().take(MOST).enumerate().map(one).collect();
    match phases.len().saturating_sub(MOST) {
        0 => {}
        more => said.push(format!("and {more} more")),
    }
    Some(format!("phases: {}", said.join("; ")))
}

/// Returns the number of decimals at which each phase has an end that differs from its beginning.
fn digits(phases: &[Phase]) -> usize {
    match phases.iter().map(Phase::length_ns).min().unwrap_or(0) {
        0..300_000_000 => 2,
        300_000_000..20_000_000_000 => 1,
        _ => 0,
    }
}
