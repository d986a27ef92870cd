//! The sentences of a report: `weir-doctor` finds, and this module puts the findings into words.

mod advice;
mod ending;
mod groups;
mod lines;
pub mod outside;
mod phases;
mod tools;
mod verdict;

pub use advice::{advice, with_gain};
pub use ending::{failed_last, failed_others, remark, status};
pub use groups::{name, unseen, why};
pub use lines::place;
pub use phases::{phase_names, phases};
pub use verdict::{left_open, left_output, verdict};

use crate::report::Stood;
use crate::report::tables::known;
use weir_command::units::seconds;
use weir_command::units::words::{count, mean_time, of_cpus, percent, rough_count};
use weir_command::widths::cut;
use weir_doctor::diagnosis::Diagnosis;
use weir_doctor::facts::{Evidence, GroupQuota, Run, Started};
use weir_doctor::stall::{self, Place, Stall};
use weir_doctor::verdict::BusyPart;

/// The length of the longest command in a sentence.
const LONGEST: usize = 51;
/// The largest number of programs that a sentence on many commands names.
const NAMED: usize = 4;

/// `sort (x12), gzip, cat, awk, ...`: programs by how often they ran.
pub fn programs(mut programs: Vec<(&str, u64)>) -> String {
    programs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said = programs.iter().take(NAMED).map(|(name, count)| match count {
        1 => String::from(*name),
        count => format!("{name} (x{count})"),
    });
    let more = (programs.len() > NAMED).then(|| String::from("..."));
    said.chain(more).collect::<Vec<_>>().join(", ")
}

/// Returns what held a run up: its largest groups where these tell more, else its stages.
pub fn held_up(run: &Run, found: &Diagnosis, stood: Option<&Stood>) -> String {
    let has_parts = !found.parts.is_empty();
    let place = stood.and_then(|it| stall::place(run, &found.verdict, has_parts, &it.stall));
    let stood = || stood.map(stood_still).unwrap_or_default();
    if has_parts {
        let groups = groups::groups(run, found);
        return if place.is_some() { format!("{}\n{groups}", stood()) } else { groups };
    }
    let text = match place {
        Some(Place::Verdict) => stood(),
        Some(Place::Behind) => format!("{}\n{}", verdict(run, &found.verdict), stood()),
        None => verdict(run, &found.verdict),
    };
    let more = groups::inside(run, found).or_else(|| groups::uneven(run));
    match more.filter(|_| place.is_none()) {
        Some(more) => format!("{text}\n{more}"),
        None => text,
    }
}

/// `nothing moved for 8.0s: 17 (wc) waits for data or the end of file from ...`
fn stood_still(Stood { stall: Stall { lasted_ns, why }, answer }: &Stood) -> String {
    let time = seconds(*lasted_ns);
    let Some(at) = why.left_open() else {
        return format!("nothing moved for {time}: {answer}");
    };
    let (reader, left) = (&why.links[at - 1].named, &why.links[at].named);
    format!(
        "held up by {} (PID {}), left running by a process that has ended, which still had the pipe open: \
         {} waited {time} for the end of file: close its output with > /dev/null, or wait for it",
        cut(&left.command, LONGEST),
        left.pid,
        cut(&reader.command, LONGEST)
    )
}

/// `on CPU 93 %, waiting for the disk 5 %`.
fn part_list(parts: &[(BusyPart, f64)]) -> String {
    part_list_of(parts, "waiting for a socket")
}

/// The same, with what is said of a wait for a socket of which no more is known.
fn part_list_of(parts: &[(BusyPart, f64)], socket: &str) -> String {
    let said = |(part, share): &(BusyPart, f64)| {
        let what = match part {
            BusyPart::Cpu => "on CPU",
            BusyPart::Cipher => {
                return format!("on CPU {} (its cipher and compression)", percent(*share));
            }
            BusyPart::Queue(Some(of)) => &own_quota(of),
            BusyPart::Queue(None) => "waiting for a CPU",
            BusyPart::Disk(Some(file))
            | BusyPart::File(Some(file))
            | BusyPart::Device(Some(file)) => &format!("waiting for {}", outside::file_name(file)),
            BusyPart::Disk(None) => "waiting for the disk",
            BusyPart::File(None) => "waiting for another file",
            BusyPart::Device(None) => "waiting for a terminal or device",
            BusyPart::Sleep => "asleep",
            BusyPart::Socket(Some(peer)) => &format!("waiting for {}", outside::peer_name(peer)),
            BusyPart::Socket(None) => socket,
            BusyPart::Lock => "waiting for a lock",
            BusyPart::Child => "waiting for a child",
            BusyPart::Stopped => "stopped",
            BusyPart::Unknown => "blocked on something unknown",
        };
        format!("{what} {}", percent(*share))
    };
    parts.iter().map(said).collect::<Vec<_>>().join(", ")
}

/// The words before a number that is not exact.
pub fn mark_word(evidence: Evidence) -> &'static str {
    match known(evidence) {
        "<" => "at most ",
        ">" => "at least ",
        "~" => "about ",
        _ => "",
    }
}

/// `throttled by a CPU quota of 0.2 CPUs of its control group 'job'`.
fn own_quota(GroupQuota { group, quota }: &GroupQuota) -> String {
    format!("throttled by a CPU quota of {} of its control group '{group}'", of_cpus(quota.cpus))
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
    let mut text = format!("started {}{seen} processes", mark_word(started.evidence));
    let is_least = started.evidence == Evidence::LowerBound;
    if is_least && started.likely_processes > 2 * started.processes {
        text.push_str(&format!(", perhaps {}", rough_count(started.likely_processes)));
    }
    let names: Vec<&str> = started.frequent().take(3).collect();
    if !names.is_empty() {
        text.push_str(&format!(" ({})", names.join(", ")));
    }
    // Divided among fewer than there were, their lives would be too long.
    if !is_least {
        text.push_str(&format!(", {} each", mean_time(started.mean_life_ns)));
    }
    text
}

#[cfg(test)]
pub mod tests;
