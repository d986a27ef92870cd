//! The sentences of a report: `weir-doctor` finds, and this module puts the findings into words.

mod advice;
mod ending;
mod groups;
pub mod outside;
mod phases;
mod tools;
mod verdict;

pub use advice::{advice, with_gain};
pub use ending::{failed_last, failed_others, remark};
pub use groups::{name, place, unseen, why};
pub use phases::{phase_names, phases};
pub use verdict::{left_open, verdict};

use weir_command::units::words::{count, mean_time, of_cpus, percent, rough_count};
use weir_doctor::diagnosis::Diagnosis;
use weir_doctor::facts::{Evidence, Run, Started};
use weir_doctor::verdict::BusyPart;

/// Returns what held a run up: its largest groups where these tell more, else its stages.
pub fn held_up(run: &Run, found: &Diagnosis) -> String {
    if !found.parts.is_empty() {
        return groups::groups(run, found);
    }
    let text = verdict(run, &found.verdict);
    match groups::inside(run, found) {
        Some(inside) => format!("{text}\n{inside}"),
        None => text,
    }
}

/// Returns the words for a part of a stage's time, where nothing more is known about it.
fn part_word(part: BusyPart) -> &'static str {
    match part {
        BusyPart::Cpu => "on CPU",
        BusyPart::Queue => "waiting for a CPU",
        BusyPart::Disk => "waiting for the disk",
        BusyPart::Sleep => "asleep",
        BusyPart::Socket => "waiting for a socket",
        BusyPart::Lock => "waiting for a lock",
        BusyPart::Child => "waiting for a child",
        BusyPart::File => "waiting for another file",
        BusyPart::Device => "waiting for a terminal or device",
        BusyPart::Stopped => "stopped",
        BusyPart::Unknown => "blocked on something unknown",
    }
}

/// The words before a number that is not exact.
pub fn mark_word(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Exact | Evidence::Traced => "",
        Evidence::UpperBound => "at most ",
        Evidence::LowerBound => "at least ",
        Evidence::Sampled | Evidence::Estimated | Evidence::Unknown => "about ",
    }
}

/// `throttled by a CPU quota of 0.2 CPUs of its control group 'job'`.
fn own_quota(cpus: f64, group: &str) -> String {
    format!("throttled by a CPU quota of {} of its control group '{group}'", of_cpus(cpus))
}

/// `throttled by a CPU quota of 0.2 CPUs in 98 % of the periods`.
fn quota(cpus: f64, share: f64) -> String {
    format!("throttled by a CPU quota of {} in {} of the periods", of_cpus(cpus), percent(share))
}

/// Returns the CPUs of the host, of which others took some.
fn all_cpus(run: &Run) -> String {
    of_cpus(if run.host.cpus > 0 { f64::from(run.host.cpus) } else { run.cpus })
}

/// `started about 3000 processes (basename), about 1 ms each`. Where their number is a lower bound:
/// `started at least 400 processes, perhaps 3000 (basename)`.
fn started(started: &Started) -> String {
    let seen = count(started.processes);
    let mut text = match started.evidence {
        Evidence::Exact => format!("started {seen} processes"),
        Evidence::LowerBound if started.likely_processes > 2 * started.processes => {
            let likely = rough_count(started.likely_processes);
            format!("started at least {seen} processes, perhaps {likely}")
        }
        Evidence::LowerBound => format!("started at least {seen} processes"),
        _ => format!("started about {seen} processes"),
    };
    let names: Vec<&str> = started.frequent().take(3).collect();
    if !names.is_empty() {
        text.push_str(&format!(" ({})", names.join(", ")));
    }
    // Divided among fewer than there were, their lives would be too long.
    if started.evidence != Evidence::LowerBound {
        text.push_str(&format!(", {} each", mean_time(started.mean_life_ns)));
    }
    text
}

#[cfg(test)]
mod tests;
