//! Slowing one stage down while the whole pipeline runs, in slices shorter than its pipes last.
//!
//! A stage is stopped for a fifth of a millisecond in every millisecond. What its neighbours find
//! in the pipes lasts longer than that (the runner checks it), so they continue: the stage is
//! slower, and not the pipeline stopped. The whole loses time only as far as it waits for this
//! stage.

use crate::run::Running;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, setpriority_process,
    waitid,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Length of one stop.
pub const SLICE: Duration = Duration::from_micros(200);
/// Time from one stop to the next.
const PERIOD: Duration = Duration::from_millis(1);
/// Processes below a server are looked for again after this many periods.
const LOOK_PERIODS: u64 = 50;

/// Whom to slow down.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Nobody: the same wake-ups, and a signal that does nothing.
    Nobody,
    /// The stage at this position.
    Stage(usize),
    /// A process outside the pipeline and all below it.
    Below(u32),
}

/// What stops were achieved.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Stops {
    /// Time stopped as a share of the run.
    pub share: f64,
    pub mean_us: f64,
    /// One stop in a hundred was longer than this.
    pub p99_us: f64,
}

/// Waits for a pipeline's end while `target` is stopped again and again; returns the wall time, the
/// output and the stops.
pub fn slowed(running: Running, target: Target) -> Result<(f64, (u64, u64), Stops), String> {
    let groups = running.groups();
    let done = AtomicBool::new(false);
    let stops = std::thread::scope(|scope| {
        let slicer = scope.spawn(|| stop_and_go(&groups, target, &done));
        for group in &groups {
            // Nobody is reaped before the slicer has ended: a number is not given to another.
            let _ = waitid(WaitId::Pid(*group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        }
        done.store(true, Ordering::Relaxed);
        slicer.join()
    });
    let stops = stops.map_err(|_| "the slicer failed")?;
    let (wall_s, output) = running.wait()?;
    Ok((wall_s, output, stops))
}

fn stop_and_go(groups: &[Pid], target: Target, done: &AtomicBool) -> Stops {
    be_punctual();
    let (start, mut lengths_us, mut below) = (Instant::now(), Vec::new(), Vec::new());
    let mut periods = 0;
    // Relaxed: nothing but the flag itself is passed.
    while !done.load(Ordering::Relaxed) {
        if let (Target::Below(pid), 0) = (target, periods % LOOK_PERIODS) {
            below = descendants(pid);
        }
        periods += 1;
        let begun = Instant::now();
        signal(groups, target, &below, true);
        std::thread::sleep(SLICE);
        signal(groups, target, &below, false);
        let took = begun.elapsed();
        lengths_us.push(took.as_secs_f64() * 1e6);
        std::thread::sleep(PERIOD.saturating_sub(took));
    }
    let total_s = start.elapsed().as_secs_f64();
    let sum_us: f64 = lengths_us.iter().sum();
    lengths_us.sort_unstable_by(f64::total_cmp);
    let p99 = lengths_us.get(lengths_us.len() * 99 / 100).copied().unwrap_or(0.0);
    let count = lengths_us.len().max(1) as f64;
    Stops { share: sum_us / 1e6 / total_s, mean_us: sum_us / count, p99_us: p99 }
}

fn signal(groups: &[Pid], target: Target, below: &[Pid], stop: bool) {
    let which = if stop { Signal::STOP } else { Signal::CONT };
    // Whoever has ended needs no signal.
    match target {
        Target::Nobody => {
            let _ = kill_process_group(groups[0], Signal::CONT);
        }
        Target::Stage(at) => {
            let _ = kill_process_group(groups[at], which);
        }
        Target::Below(_) => below.iter().for_each(|pid| {
            let _ = kill_process(*pid, which);
        }),
    }
}

/// Wakes on time where this is allowed: the slicer sleeps nearly always.
fn be_punctual() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
    let tid = rustix::thread::gettid();
    let _ = setpriority_process(Some(tid), -20);
    let mut chrt = Command::new("chrt");
    chrt.args(["-f", "-p", "50", &tid.as_raw_nonzero().to_string()]);
    let _ = chrt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// A process and all below it.
fn descendants(root: u32) -> Vec<Pid> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name in brackets may hold anything.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let parent = rest.split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at]).unwrap_or_default());
        at += 1;
    }
    found.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)).collect()
}
