//! The reasons why a stage was busy, in words.

use super::load::{Load, starting_share};
use crate::facts::{Evidence, Program, Run, Stage, Started};
use crate::words;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Parts of a stage's time below this share are not mentioned.
const WORTH: f64 = 0.05;

/// Programs that fewer than one in so many processes ran are not mentioned.
const OFTEN: u64 = 10;

/// The parts of a stage's busy time worth a mention, largest first.
pub(super) fn reasons(run: &Run, stage: &Stage, load: &Load) -> String {
    if let (Some(started), Some(share)) = (&stage.started, starting_share(run, stage)) {
        return format!("{}: {} of the time", started_words(started), words::percent(share));
    }
    let times = &stage.times;
    let socket = match &stage.peer {
        Some(peer) => format!("waiting for {peer}"),
        None => String::from("waiting for a socket"),
    };
    let mut parts = [
        ("on CPU", times.cpu_ns),
        ("waiting for a CPU", times.queue_ns),
        ("waiting for the disk", times.disk_ns),
        ("asleep", times.sleep_ns),
        (socket.as_str(), times.network_ns),
        ("waiting for a lock", times.lock_ns),
        ("waiting for a child", times.child_ns - times.stage_child_ns),
        ("waiting for another file", times.file_ns),
        ("waiting for a terminal or device", times.device_ns),
        ("stopped", times.stopped_ns),
        ("blocked on something unseen", times.unknown_ns),
    ];
    // Of one that keeps to a rate, sleeping is what it does.
    let first = |what: &str| load.paced && what == "asleep";
    parts.sort_by_key(|(what, ns)| core::cmp::Reverse((first(what), *ns)));
    let worth = |position: usize, ns: u64| position == 0 || run.share(ns) >= WORTH;
    let kept = parts.iter().enumerate().filter(|(position, (_, ns))| worth(*position, *ns));
    let said: Vec<String> = kept
        .take(3)
        .map(|(_, (what, ns))| format!("{what} {}", words::percent(run.share(*ns))))
        .collect();
    let said = format!("{} of the time", said.join(", "));
    if load.paced { format!("it keeps to a rate: {said}") } else { said }
}

/// `started about 3000 processes (basename), about 1 ms each`. Where their number is a lower bound:
/// `started at least 400 processes, perhaps 3000 (basename)`.
pub(crate) fn started_words(started: &Started) -> String {
    let seen = words::count(started.processes);
    let mut text = match started.evidence {
        Evidence::Exact => format!("started {seen} processes"),
        Evidence::LowerBound if started.likely_processes > 2 * started.processes => {
            let likely = words::rough_count(started.likely_processes);
            format!("started at least {seen} processes, perhaps {likely}")
        }
        Evidence::LowerBound => format!("started at least {seen} processes"),
        _ => format!("started about {seen} processes"),
    };
    let names: Vec<&str> = frequent(started).take(3).collect();
    if !names.is_empty() {
        text.push_str(&format!(" ({})", names.join(", ")));
    }
    // Divided among fewer than there were, their lives would be too long.
    if started.evidence != Evidence::LowerBound {
        text.push_str(&format!(", about {} each", words::short_time(started.mean_life_ns)));
    }
    text
}

/// The programs that many of the processes ran, the most frequent first.
pub(crate) fn frequent(started: &Started) -> impl Iterator<Item = &str> {
    let often = |program: &&Program| OFTEN * program.processes >= started.processes;
    started.programs.iter().filter(often).map(|program| program.name.as_str())
}
