//! The course of a run as Chrome trace events, which Perfetto and `chrome://tracing` open.
//!
//! Each stage is a thread whose slices are its states. A slice joins neighbouring columns of the
//! history in which the stage was longest in the same state. The fill of each pipe is a counter, and
//! the phases have a track of their own.

use super::words::phase_names;
use super::{Report, page};
use serde_json::{Value, json};
use weir_doctor::facts::{Fills, History, Lane};
use weir_doctor::state::TaskState;

/// The process under which all tracks stand.
const RUN: u64 = 1;

/// Writes the trace, as one JSON document.
pub fn chrome_trace(report: &Report) -> String {
    let run = &report.run;
    let mut events = vec![named("process_name", 0, page::verb(report))];
    let phases = phase_names(run);
    if !phases.is_empty() {
        events.push(named("thread_name", 0, "held up by"));
        events.extend(phases.iter().map(|(start_ns, end_ns, who)| {
            slice(0, who, *start_ns, end_ns.saturating_sub(*start_ns), json!({}))
        }));
    }
    if let Some(history) = &run.history {
        for (at, lane) in history.lanes.iter().enumerate() {
            let thread = at as u64 + 1;
            let number = lane.stage.map_or_else(String::new, |stage| format!("{} ", stage + 1));
            events.push(named("thread_name", thread, &format!("{number}{}", lane.label)));
            events.push(json!({
                "name": "thread_sort_index", "ph": "M", "pid": RUN, "tid": thread,
                "args": { "sort_index": thread },
            }));
            events.extend(slices(history, lane).into_iter().map(|(state, from, to)| {
                let (start_ns, length_ns) =
                    (from * history.column_ns(), (to - from) * history.column_ns());
                slice(thread, state_name(state), start_ns, length_ns, json!({}))
            }));
        }
        for (at, fills) in history.fills.iter().enumerate() {
            events.extend(counters(history, at, fills));
        }
    }
    let document = json!({
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "weir_version": env!("CARGO_PKG_VERSION"),
            "command": report.command,
            "column_us": run.history.as_ref().map(|history| history.column_ns() / 1000),
        },
    });
    weir_command::json::whole(&document).unwrap_or_default()
}

/// The name of a state, as people read it.
pub fn state_name(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::BlockedIn => "waits for input",
        TaskState::BlockedOut => "waits for room in its output",
        TaskState::Disk => "waits for the disk",
        TaskState::Network => "waits for a socket",
        TaskState::File => "waits for another file",
        TaskState::Device => "waits for a terminal or device",
        TaskState::Sleep => "asleep",
        TaskState::Lock => "waits for a lock",
        TaskState::Child => "waits for a child",
        TaskState::Stopped => "stopped",
        TaskState::Unknown => "blocked on something unknown",
    }
}

/// Returns the states of a lane, each from a column up to another.
fn slices(history: &History, lane: &Lane) -> Vec<(TaskState, u64, u64)> {
    let mut slices: Vec<(TaskState, u64, u64)> = Vec::new();
    let last = history.columns();
    for (at, cell) in (lane.first..last).zip(&lane.cells) {
        let Some(state) = cell.main() else { continue };
        match slices.last_mut().filter(|(before, _, to)| *before == state && *to == at) {
            Some((_, _, to)) => *to = at + 1,
            None => slices.push((state, at, at + 1)),
        }
    }
    slices
}

fn counters(history: &History, at: usize, fills: &Fills) -> Vec<Value> {
    let name = format!("bytes in pipe {}->{}", at + 1, at + 2);
    let columns = (0_u64..).zip(fills.columns());
    let value = |(column, fill): (u64, Option<(f64, u64)>)| {
        let (mean, _) = fill?;
        Some(json!({
            "name": name, "ph": "C", "pid": RUN, "tid": 0,
            "ts": micros(column * history.column_ns()), "args": { "bytes": mean.round() },
        }))
    };
    columns.filter_map(value).collect()
}

fn named(kind: &str, thread: u64, name: &str) -> Value {
    json!({ "name": kind, "ph": "M", "pid": RUN, "tid": thread, "args": { "name": name } })
}

fn slice(thread: u64, name: &str, start_ns: u64, length_ns: u64, args: Value) -> Value {
    json!({
        "name": name, "ph": "X", "pid": RUN, "tid": thread,
        "ts": micros(start_ns), "dur": micros(length_ns), "args": args,
    })
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}
