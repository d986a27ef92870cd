//! A run as spans of OpenTelemetry, in OTLP/JSON: a span for the run, below it one for each stage or group, and below
//! a group of a script one for each process that was seen by itself.
//!
//! Attributes are named as in `weir.run/1`, behind `weir.`; those of processes and hosts as OpenTelemetry names
//! them. A wait for a neighbour is a link to its span.

use super::{Place, Report};
use serde_json::{Value, json};
use weir_command::json::seconds;
use weir_doctor::ending::Ending;
use weir_doctor::facts::{FoundGroup, History, Lane, Pipe, Run, Stage};
use weir_doctor::partition::Times;
use weir_doctor::state::TaskState;

/// Shorter waits are no links.
const WAIT_NS: u64 = 1_000_000;
/// An operation within one process, and one that failed, as the protocol numbers them.
const INTERNAL: u8 = 1;
const ERROR: u8 = 2;

/// The trace to which the spans belong. Identifiers are in hexadecimal.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The trace.
    pub id: String,
    /// The span above that of the run, and the state of its trace, if the caller named one.
    pub above: Option<(String, String)>,
    /// The span of the run.
    pub run: String,
    /// The spans of the stages.
    pub stages: Vec<String>,
    /// When the run began, in nanoseconds since 1970.
    pub begun_unix_ns: u64,
    /// What the spans are said to be of.
    pub service: String,
}

/// Writes the spans as one request on one line. `new_id` gives the further spans their identifiers.
pub fn otlp(
    report: &Report,
    trace: &Trace,
    place: &Place,
    new_id: &mut dyn FnMut() -> String,
) -> String {
    let run = &report.run;
    let mut spans = vec![of_run(report, trace)];
    match run.script {
        false => spans.extend((0..run.stages.len()).map(|at| of_stage(report, trace, at))),
        true => spans.extend(of_processes(run, trace, new_id)),
    }
    if !run.script {
        let inside = run.groups.iter().filter_map(|group| Some((group, group.inside?)));
        spans.extend(inside.map(|(group, stage)| {
            let above = trace.stages.get(stage).unwrap_or(&trace.run);
            of_group(group, trace, above, &new_id())
        }));
    }
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        text("service.name", &trace.service),
        text("host.name", &place.host),
        text("os.type", "linux"),
        text("os.description", &place.kernel),
        text("process.executable.name", "weir"),
        integer("process.pid", u64::from(std::process::id())),
    ];
    let request = json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "weir", "version": version }, "spans": spans }],
    }]});
    format!("{request}\n")
}

fn of_run(report: &Report, trace: &Trace) -> Value {
    let run = &report.run;
    let culprit = report.found.verdict.culprit.as_ref();
    let mut attributes = vec![
        text("process.command_line", &report.command),
        text("weir.verdict.text", &report.verdict),
        number("weir.wall_s", seconds(run.wall_ns)),
        number("weir.stopped_s", seconds(run.stopped_ns)),
        number("weir.cpus", run.cpus),
        integer("process.exit.code", report.status as u64),
    ];
    attributes
        .extend(culprit.map(|culprit| integer("weir.verdict.stage", culprit.stage as u64 + 1)));
    attributes.extend(culprit.map(|culprit| text("weir.verdict.reason", culprit.reason.as_ref())));
    attributes.extend(report.advice.iter().map(|advice| text("weir.advice", advice)).take(1));
    let mut span = span(trace, &trace.run, "weir run", (0, run.wall_ns + run.stopped_ns));
    span["attributes"] = json!(attributes);
    if let Some((id, state)) = &trace.above {
        span["parentSpanId"] = json!(id);
        span["traceState"] = json!(state);
    }
    if report.status != 0 {
        let message = format!("ended with status {}", report.status);
        span["status"] = json!({ "code": ERROR, "message": message });
    }
    span
}

fn of_stage(report: &Report, trace: &Trace, at: usize) -> Value {
    let run = &report.run;
    let stage = &run.stages[at];
    let id = |at: usize| trace.stages.get(at).map_or("", String::as_str);
    let mut span = span(trace, id(at), name(&stage.program, &stage.label), (0, stage.wall_ns));
    let mut attributes = vec![
        integer("weir.stage", at as u64 + 1),
        text("process.command_line", &stage.label),
        number("weir.busy", report.found.verdict.stages[at].busy),
    ];
    attributes.extend(times(&stage.times));
    attributes.extend(used(stage));
    let peer = stage.peer.as_ref();
    let address = peer.and_then(|peer| peer.address.as_ref());
    attributes.extend(address.map(|address| text("weir.peer.address", address)));
    attributes.extend(peer.map(|peer| number("weir.peer.waited_s", seconds(peer.waited_ns))));
    let file = stage.files.first().and_then(|file| file.path.as_ref());
    attributes.extend(file.map(|file| text("weir.file.path", file)));
    let neighbours = [
        (stage.times.input_ns, at.checked_sub(1), "blocked_in"),
        (
            stage.times.output_ns,
            Some(at + 1).filter(|next| *next < run.stages.len()),
            "blocked_out",
        ),
    ];
    let links = neighbours.into_iter().filter_map(|(waited_ns, other, why)| {
        (waited_ns >= WAIT_NS).then_some(())?;
        Some(link(trace, id(other?), why, waited_ns))
    });
    span["links"] = links.collect();
    span["parentSpanId"] = json!(trace.run);
    span["attributes"] = json!(attributes);
    let failed = |code: i32| code != 0 && !stage.closed_by_downstream();
    let how = stage.ending.map(Ending::shell_status).filter(|code| failed(*code));
    let message = how.map(|code| format!("ended with status {code}"));
    if let Some(message) = stage.failure.clone().or(message) {
        span["status"] = json!({ "code": ERROR, "message": message });
    }
    span
}

/// The groups of a script, and its processes that were seen longest.
fn of_processes(run: &Run, trace: &Trace, new_id: &mut dyn FnMut() -> String) -> Vec<Value> {
    let groups: Vec<String> = run.groups.iter().map(|_| new_id()).collect();
    let own = run.groups.iter().zip(&groups);
    let mut spans: Vec<Value> =
        own.map(|(group, id)| of_group(group, trace, &trace.run, id)).collect();
    let Some(history) = &run.history else { return spans };
    let lanes: Vec<(&Lane, String)> = history.lanes.iter().map(|lane| (lane, new_id())).collect();
    let group_of = |row: usize| {
        run.groups.iter().position(|group| {
            let rows = |first: usize| first..first + group.run.stages.len();
            group.first_stage.is_some_and(|first| rows(first).contains(&row))
        })
    };
    for (lane, id) in &lanes {
        let row = lane.stage;
        let ran = ran(history, lane);
        let program =
            row.and_then(|row| run.stages.get(row)).map_or("", |row| row.program.as_str());
        let group = row.and_then(group_of);
        // What was seen is exact to a column; no span is longer than the one above it.
        let (begun_ns, ended_ns) = group.map_or((0, run.wall_ns + run.stopped_ns), |group| {
            (run.groups[group].start_ns, run.groups[group].end_ns)
        });
        let within = |ns: u64| ns.clamp(begun_ns, ended_ns.max(begun_ns));
        let times = (within(ran.0), within(ran.1));
        let mut span = span(trace, id, name(program, &lane.label), times);
        span["parentSpanId"] = json!(group.map_or(&trace.run, |group| &groups[group]));
        let sums = [TaskState::Running, TaskState::BlockedIn, TaskState::BlockedOut]
            .map(|state| spent_ns(lane, state));
        let [running_ns, in_ns, out_ns] = sums;
        let other_ns = lane.seen_ns().saturating_sub(sums.iter().sum());
        span["attributes"] = json!([
            text("process.command_line", &lane.label),
            number("weir.running_s", seconds(running_ns)),
            number("weir.blocked_in_s", seconds(in_ns)),
            number("weir.blocked_out_s", seconds(out_ns)),
            number("weir.blocked_other_s", seconds(other_ns)),
        ]);
        // The one at the other end of its pipe, of those that ran meanwhile.
        let other = |end: fn(&Pipe) -> usize, its: fn(&Pipe) -> usize| {
            let row = its(run.pipes.iter().find(|pipe| Some(end(pipe)) == row)?);
            let meanwhile = |(other, _): &&(&Lane, String)| {
                let (start_ns, end_ns) = self::ran(history, other);
                other.stage == Some(row) && start_ns < ran.1 && ran.0 < end_ns
            };
            lanes.iter().find(meanwhile).map(|(_, id)| id.as_str())
        };
        let sides = [
            (in_ns, other(|pipe| pipe.to, |pipe| pipe.from), "blocked_in"),
            (out_ns, other(|pipe| pipe.from, |pipe| pipe.to), "blocked_out"),
        ];
        let links = sides.into_iter().filter(|(waited_ns, ..)| *waited_ns >= WAIT_NS);
        let link = |(waited_ns, other, why): (u64, Option<&str>, _)| {
            Some(link(trace, other?, why, waited_ns))
        };
        span["links"] = links.filter_map(link).collect();
        spans.push(span);
    }
    spans
}

fn of_group(group: &FoundGroup, trace: &Trace, above: &str, id: &str) -> Value {
    let program = group.run.stages.first().map_or("", |stage| stage.program.as_str());
    let mut span = span(trace, id, name(program, &group.name), (group.start_ns, group.end_ns));
    let mut attributes = vec![
        text("process.command_line", &group.name),
        number("weir.wall_s", seconds(group.run.wall_ns)),
        number("weir.cpu_s", seconds(group.cpu().0)),
        integer("weir.instances", group.instances),
    ];
    if let Some(line) = &group.line {
        attributes.push(text("code.file.path", line.path.as_ref().unwrap_or(&line.script)));
        attributes.push(integer("code.line.number", line.line as u64));
    }
    span["parentSpanId"] = json!(above);
    span["attributes"] = json!(attributes);
    span
}

/// From when to when a process was seen.
fn ran(history: &History, lane: &Lane) -> (u64, u64) {
    let length_ns = history.column_ns();
    (lane.first * length_ns, (lane.first + lane.cells.len() as u64) * length_ns)
}

fn spent_ns(lane: &Lane, state: TaskState) -> u64 {
    let times = lane.cells.iter().flat_map(|cell| cell.times_ns());
    times.filter(|(of, _)| *of == state).map(|(_, ns)| ns).sum()
}

fn span(trace: &Trace, id: &str, name: &str, (start_ns, end_ns): (u64, u64)) -> Value {
    let at = |ns: u64| trace.begun_unix_ns.saturating_add(ns).to_string();
    json!({
        "traceId": trace.id, "spanId": id, "name": name, "kind": INTERNAL,
        "startTimeUnixNano": at(start_ns), "endTimeUnixNano": at(end_ns.max(start_ns)),
    })
}

/// The name of a span: the program, of which there are few.
fn name<'a>(program: &'a str, label: &'a str) -> &'a str {
    let first = || label.split_whitespace().next().unwrap_or("?");
    if program.is_empty() { first() } else { program }
}

fn link(trace: &Trace, id: &str, why: &str, waited_ns: u64) -> Value {
    json!({
        "traceId": trace.id, "spanId": id,
        "attributes": [text("weir.wait", why), number("weir.waited_s", seconds(waited_ns))],
    })
}

fn times(times: &Times) -> [Value; 5] {
    [
        number("weir.cpu_s", seconds(times.cpu_ns)),
        number("weir.runq_s", seconds(times.queue_ns)),
        number("weir.blocked_in_s", seconds(times.input_ns)),
        number("weir.blocked_out_s", seconds(times.output_ns)),
        number("weir.blocked_other_s", seconds(times.other_ns())),
    ]
}

/// What a stage used, as far as that is known.
fn used(stage: &Stage) -> impl Iterator<Item = Value> {
    let used = [
        ("weir.pipe_bytes_in", stage.pipe_in_bytes),
        ("weir.pipe_bytes_out", stage.pipe_out_bytes),
        ("weir.max_rss_bytes", stage.max_rss_bytes),
        ("process.exit.code", stage.ending.map(|ending| ending.shell_status() as u64)),
    ];
    used.into_iter().filter_map(|(name, value)| Some(integer(name, value?)))
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: f64) -> Value {
    json!({ "key": key, "value": { "doubleValue": value } })
}

/// JSON has no integers of 64 bits: the protocol writes them as text.
fn integer(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}
