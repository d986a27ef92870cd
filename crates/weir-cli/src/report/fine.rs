//! The fine print: what the tables cannot say, and how each figure is known.

use super::words::{left_open, outside};
use weir_command::units::words;
use weir_command::units::{capacity, percent, seconds};
use weir_command::widths::cut;
use weir_doctor::facts::{Pipe, Run, Stage, Traced};
use weir_doctor::verdict::{Finding, Verdict};

/// The length of the longest name of a stage in a remark.
const NAME: usize = 24;

/// Returns the remarks that change the meaning of the tables. Every report has them.
pub fn gaps(run: &Run, verdict: &Verdict) -> Vec<String> {
    let mut gaps = Vec::new();
    for (position, stage) in run.stages.iter().enumerate() {
        let name = name(position, stage);
        if stage.hidden {
            gaps.push(format!("weir may not inspect {name}: why it waited is not known"));
        }
    }
    let stages = run.stages.iter().enumerate();
    for (position, stage) in stages {
        gaps.extend(polled(run, position, stage));
        gaps.extend(overlap(run, position, verdict.stages[position].overlap_ns));
    }
    gaps.extend(run.pipes.iter().filter_map(|pipe| resized(run, pipe)));
    // One that is the verdict needs no second sentence.
    let said = match verdict.finding {
        Finding::LeftOpen(at) => Some(at),
        _ => None,
    };
    let left = run.left.iter().enumerate().filter(|(at, _)| Some(*at) != said);
    gaps.extend(left.map(|(_, left)| format!("note: {}", left_open(run, left))));
    gaps.extend(run.traced.as_ref().and_then(untraced));
    gaps.extend(run.notes.iter().map(|note| format!("note: {note}")));
    gaps
}

/// Returns a remark if samples took the place of a trace.
fn untraced(traced: &Traced) -> Option<String> {
    if let Some(why) = &traced.refused {
        return Some(format!("sampled, not traced: {why}"));
    }
    (traced.lost > 0)
        .then(|| format!("{} events of the trace were lost: samples took their place", traced.lost))
}

/// Returns a remark if tasks of a stage worked while another one of it waited for a neighbour.
fn overlap(run: &Run, position: usize, overlap_ns: u64) -> Option<String> {
    /// Less than this share of the run changes no verdict.
    const WORTH: f64 = 0.10;
    (run.share(overlap_ns) >= WORTH).then(|| {
        let (name, time) = (name(position, &run.stages[position]), seconds(overlap_ns));
        format!(
            "tasks of {name} overlapped: for {time} some worked while another one waited for a \
             neighbour; busy leaves that out"
        )
    })
}

/// Returns a remark if a stage waited for its input in a way that looks like work.
fn polled(run: &Run, position: usize, stage: &Stage) -> Option<String> {
    /// Less than this share of the run changes nothing.
    const WORTH: f64 = 0.02;
    let times = &stage.times;
    let worth = |ns: u64| (run.share(ns) >= WORTH).then(|| seconds(ns));
    let naps =
        worth(times.napped_ns).map(|time| format!("it slept for {time} between looks at it"));
    let spun = worth(times.spun_cpu_ns + times.spun_queue_ns);
    let spun = spun.map(|time| format!("it spun for {time}"));
    let what = [naps, spun].into_iter().flatten().collect::<Vec<_>>().join(", and ");
    let name = name(position, stage);
    (!what.is_empty()).then(|| format!("{name} had no input: {what}; that is waiting, not work"))
}

/// Returns a remark if a stage changed the capacity of its pipe. Weir's own buffers may do so.
fn resized(run: &Run, pipe: &Pipe) -> Option<String> {
    let (given, now) = (pipe.given_bytes?, pipe.resized_bytes?);
    let by = pipe.resized_by.or_else(|| {
        [pipe.from, pipe.to].into_iter().find(|at| run.stages.get(*at).is_some_and(|s| s.relay))
    });
    let of = by.and_then(|at| Some((at, run.stages.get(at)?)));
    if of.is_some_and(|(_, stage)| stage.relay) {
        return None;
    }
    let did = if now > given { "enlarged" } else { "shrank" };
    let (from, to, given, now) = (pipe.from + 1, pipe.to + 1, capacity(given), capacity(now));
    let who = of.map_or_else(|| format!("stage {from} or {to}"), |(at, stage)| name(at, stage));
    Some(format!("{who} {did} pipe {from}->{to} to {now}: the {given} of --pipe-size did not hold"))
}

/// Returns the other remarks, for `--verbose`.
pub fn print(run: &Run, verdict: &Verdict) -> Vec<String> {
    let mut remarks = Vec::new();
    for (position, stage) in run.stages.iter().enumerate() {
        let name = name(position, stage);
        if stage.uncounted {
            // The tables mark its bytes as lower bounds.
            remarks.push(format!(
                "{name} moves bytes with calls that the kernel does not count (splice, recv, ...)"
            ));
        }
        if let Some(parts) = other_parts(stage) {
            remarks.push(format!("{name}: other is {parts}"));
        }
        if let Some(peer) = &stage.peer {
            let limit = verdict.stages[position].limit.as_ref();
            let found = limit.map(|limit| format!(": {}", outside::finding(peer, limit)));
            let found = found.unwrap_or_default();
            let peer = outside::peer_name(peer);
            remarks.push(format!("{name}: it waited on a socket for {peer}{found}"));
        }
        for file in stage.files.iter().filter(|file| file.waited_ns >= 1_000_000) {
            let (time, file) = (seconds(file.waited_ns), outside::file_name(file));
            remarks.push(format!("{name}: it waited {time} for {file}"));
        }
        if !stage.single_task && stage.failure.is_none() && stage.processes <= 1 {
            let tasks = match stage.most_tasks {
                0 | 1 => String::from("started others too short-lived to be seen"),
                n => format!("up to {n} tasks at once"),
            };
            let cpu = seconds(stage.user_ns + stage.system_ns);
            remarks.push(format!(
                "{name}: {tasks}; user and sys total {cpu}; the columns cpu to other divide its wall time"
            ));
        }
    }
    remarks.extend(around(run));
    if let Some(traced) = run.traced.as_ref().filter(|traced| !traced.verifier.is_empty()) {
        remarks.extend(traced.verifier.lines().map(|line| format!("verifier: {line}")));
    }
    remarks.extend(evidence(run));
    remarks
}

fn name(position: usize, stage: &Stage) -> String {
    format!("{} {}", position + 1, cut(&stage.label, NAME))
}

/// Returns the parts of "other" that are large enough to be named.
fn other_parts(stage: &Stage) -> Option<String> {
    let times = &stage.times;
    if times.other_ns() * 20 < stage.wall_ns || times.other_ns() < 1_000_000 {
        return None;
    }
    let mut parts = [
        ("disk", times.disk_ns),
        ("file", times.file_ns),
        ("lock", times.lock_ns),
        ("child", times.child_ns),
        ("sleep", times.sleep_ns),
        ("socket", times.network_ns),
        ("device", times.device_ns),
        ("stopped", times.stopped_ns),
        ("not known", times.unknown_ns),
    ];
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let least = times.other_ns() / 20;
    let kept = parts.iter().filter(|(_, ns)| *ns > least);
    Some(kept.map(|(what, ns)| format!("{what} {}", seconds(*ns))).collect::<Vec<_>>().join(", "))
}

/// Returns what else took CPU time: a quota, other processes, other virtual machines. If that was what
/// held the run up, the verdict says so too.
fn around(run: &Run) -> Option<String> {
    let mut said = Vec::new();
    if let Some(quota) = run.quota {
        let mut text = format!("a CPU quota of {}", words::of_cpus(quota.cpus));
        if quota.throttled_periods > 0 && quota.periods > 0 {
            let share = quota.throttled_periods as f64 / quota.periods as f64;
            text.push_str(&format!(", used up in {} of its periods", percent(Some(share))));
        }
        said.push(text);
    }
    if let Some(others) = run.host.others_cpus {
        said.push(format!("other processes used {others:.1} CPUs"));
    }
    if let Some(steal) = run.host.steal_cpus.filter(|steal| *steal >= 0.05) {
        said.push(format!("other virtual machines took {steal:.1} CPUs"));
    }
    (!said.is_empty()).then(|| format!("around the run: {}", said.join("; ")))
}

/// Returns how each figure is known.
fn evidence(run: &Run) -> Vec<String> {
    let counts =
        run.stages.iter().filter(|stage| stage.failure.is_none()).map(|stage| stage.samples);
    let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    let n = if least == most { format!("n={most}") } else { format!("n={least} to {most}") };
    if most == 0 && run.notes.iter().any(|note| note.starts_with("/proc")) {
        return vec![String::from("exact: wall, user, sys, exit; everything else is unknown")];
    }
    if let Some(traced) = run.traced.as_ref().filter(|traced| traced.is_whole()) {
        let events = words::things(traced.events, "event");
        return vec![
            format!("by {events} of the scheduler: the columns cpu to other, unless marked"),
            // What a descriptor stands for is read at the look after the wait began.
            format!("sampled ({n} a stage): whether a wait was for input, output or other; pipes"),
        ];
    }
    if run.script {
        return vec![format!("all figures are sampled ({n} a stage)")];
    }
    let several = run.stages.iter().any(|stage| !stage.single_task && stage.failure.is_none());
    let (exact, parts) = if several {
        ("cpu and runq of stages of one task", "cpu and runq of the others, in, out, other")
    } else {
        ("cpu, runq", "in, out, other")
    };
    vec![
        format!(
            "exact: wall, {exact}, user, sys, read, written, calls, exit, unless marked: \
             < at most, > at least, ~ sampled or estimated"
        ),
        format!("sampled ({n} a stage): {parts}; pipes"),
    ]
}
