//! A sentence on the phases of a run.

use super::groups::group;
use super::verdict::short_stage;
use weir_doctor::facts::{Holder, Phase, Run};

/// The largest number of phases in the sentence.
const MOST: usize = 8;
const NOBODY: &str = "no stage was busy";
/// Phases of a shorter run are noise.
const LEAST_NS: u64 = 1_000_000_000;

/// `phases: 0-3.1s held up by 1 gzip; 3.1-4.0s by 2 sort alone`; of a script, `phases: 0-3.1s in
/// pipeline 1 (line 7 of report.sh); 3.1-4.0s in command 2 ld`. Nothing for a run of one phase.
pub fn phases(run: &Run, phases: &[Phase]) -> Option<String> {
    let who = |phase: &Phase, held: &str| match (phase.holder, holder(run, phase)) {
        (Holder::Stage { alone: true, .. }, Some(name)) if !run.script => {
            format!("{held} {name} alone")
        }
        (_, Some(name)) => format!("{held} {name}"),
        (_, None) if run.script => String::from("elsewhere"),
        (_, None) => String::from(NOBODY),
    };
    // A group that starts others has no phases: where it ran most of the time, they say nothing.
    let is_nobody = |phase: &&Phase| matches!(phase.holder, Holder::Nobody);
    let nobody_ns: u64 =
        phases.iter().filter(is_nobody).map(|phase| phase.end_ns - phase.start_ns).sum();
    match run.script {
        true if nobody_ns * 2 > run.wall_ns => None,
        true => sentence(phases, "in", "in", &who),
        false => sentence(phases, "held up by", "by", &who),
    }
}

/// Returns from when to when who held the run up.
pub fn phase_names(run: &Run) -> Vec<(u64, u64, String)> {
    let who = |phase: &Phase| holder(run, phase).unwrap_or_else(|| String::from(NOBODY));
    run.phases.iter().map(|phase| (phase.start_ns, phase.end_ns, who(phase))).collect()
}

/// Names who held the run up during a phase: a stage, or a group of a script, or two.
fn holder(run: &Run, phase: &Phase) -> Option<String> {
    let name = |at: usize| if run.script { group(run, at) } else { short_stage(run, at) };
    match phase.holder {
        Holder::Stage { stage, .. } => Some(name(stage)),
        Holder::Two([one, other]) => Some(format!("{} and {} alike", name(one), name(other))),
        Holder::Nobody => None,
    }
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
