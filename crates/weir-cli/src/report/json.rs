//! The report as programs read it: schema `weir.run/1`.
//!
//! Names are stable and end in their units. Times are seconds, sizes bytes, shares 0 to 1.
//! `null` means "not known". The blocked and run-queue times of a stage are parts of its wall
//! time; `user_s` and `sys_s` are sums over its tasks.

mod around;
mod groups;
mod phases;

use super::{Compared, Report};
use serde::Serialize;
use serde_json::{Value, json};
use weir_command::json::seconds;
use weir_doctor::advice::{Advised, Gain};
use weir_doctor::ending::Ending;
use weir_doctor::facts::{Evidence, FailedCommand, Io, LineTime, Pipe, Run, Stage};
use weir_doctor::load::StageFinding;
use weir_doctor::verdict::Verdict;
use weir_measure::machine;

/// Writes the report as one JSON document, with a newline at its end.
pub fn json(report: &Report) -> String {
    // Numbers and texts can always be serialised.
    weir_command::json::document("weir.run/1", document(report)).unwrap_or_default()
}

/// Writes the report as one JSON document on one line.
pub fn json_line(report: &Report) -> String {
    weir_command::json::line("weir.run/1", document(report)).unwrap_or_default()
}

#[derive(Serialize)]
struct Document<'a> {
    command: &'a str,
    mode: &'static str,
    wall_s: f64,
    stopped_s: f64,
    cpus: f64,
    exit_status: Option<i32>,
    stages: Vec<Value>,
    pipes: Vec<Value>,
    groups: Vec<Value>,
    left_open: Vec<Value>,
    left_output: Option<Value>,
    stall: Option<Value>,
    jobs: Option<Value>,
    failed: Option<Vec<Value>>,
    critical_path: Option<Value>,
    parallel_jobs: Option<Value>,
    unseen: Option<Value>,
    verdict: Value,
    phases: Vec<Value>,
    advice: Vec<Value>,
    memory_kills: Value,
    notes: &'a [String],
    host: Value,
    quota: Option<Value>,
    memory_limit: Option<Value>,
    started: Option<Value>,
    weir: Value,
    compare: Option<&'a Compared>,
    profile: Option<Value>,
    trace: Option<Value>,
    watched: Option<Value>,
}

fn document(report: &Report) -> Document<'_> {
    let run = &report.run;
    Document {
        command: &report.command,
        mode: if run.script { "script" } else { "pipeline" },
        wall_s: seconds(run.wall_ns),
        stopped_s: seconds(run.stopped_ns),
        cpus: run.cpus,
        // Nobody tells how processes ended that weir did not start.
        exit_status: run.watched.is_none().then_some(report.status),
        stages: stages(run, &report.found.verdict),
        pipes: run.pipes.iter().map(pipe).collect(),
        groups: groups::groups(report),
        jobs: run.jobs.map(groups::jobs),
        left_open: run.left.iter().map(|left| around::left_open(run, left)).collect(),
        left_output: run.left_output.as_ref().map(around::left_output),
        stall: report.stall.as_ref().map(around::stall),
        failed: (run.has_all || !run.failed.is_empty())
            .then(|| run.failed.iter().map(failed).collect()),
        critical_path: run.critical_path.as_ref().map(groups::critical_path),
        parallel_jobs: run.shape.as_ref().map(groups::parallel_jobs),
        unseen: run.unseen.as_ref().map(groups::unseen),
        verdict: verdict(&report.found.verdict, &report.verdict),
        phases: phases::phases(run, &report.found.phases),
        advice: report.advised().map(|advised| advice(run, advised)).collect(),
        memory_kills: json!({
            "group": run.memory_kills.group,
            "host": run.memory_kills.host,
        }),
        notes: &run.notes,
        host: around::host(run),
        quota: run.quota.as_ref().map(around::quota),
        memory_limit: run.memory_limit.as_ref().map(around::memory_limit),
        started: run.started.as_ref().map(around::started),
        weir: json!({
            "max_rss_bytes": machine::own_peak_rss_bytes(),
            "cpu_s": seconds(weir_measure::sys::usage::Usage::of_self().cpu_ns()),
            "ticks": run.ticks,
        }),
        compare: report.compared.as_ref(),
        profile: run.hot.as_ref().map(super::hot::json),
        trace: run.traced.as_ref().map(around::traced),
        watched: run.watched.as_ref().map(around::watched),
    }
}

fn stages(run: &Run, verdict: &Verdict) -> Vec<Value> {
    let stages = run.stages.iter().zip(&verdict.stages).enumerate();
    stages.map(|(position, (of, found))| stage(run, position, of, found)).collect()
}

fn stage(run: &Run, position: usize, stage: &Stage, found: &StageFinding) -> Value {
    let times = &stage.times;
    json!({
        "index": position + 1,
        "command": stage.label,
        "program": stage.program,
        "instances": stage.processes,
        "wall_s": seconds(stage.wall_ns),
        "busy": found.busy,
        "cpu_s": seconds(times.cpu_ns),
        "user_s": seconds(stage.user_ns),
        "sys_s": seconds(stage.system_ns),
        "runq_s": seconds(times.queue_ns),
        "runq_sum_s": seconds(stage.queue_sum_ns),
        "blocked_in_s": seconds(times.input_ns),
        "blocked_out_s": seconds(times.output_ns),
        "blocked_other_s": seconds(times.other_ns()),
        "blocked_other": around::blocked_other(times),
        "blocked_err_s": seconds(stage.err_ns),
        "polled": around::polled(times),
        "bytes_per_s": run.bytes_per_s(position),
        "bytes_in": stage.io.map(|io| io.read_bytes),
        "bytes_out": stage.io.map(|io| io.write_bytes),
        "pipe_bytes_in": stage.pipe_in_bytes,
        "pipe_bytes_out": stage.pipe_out_bytes,
        "read_calls": stage.io.filter(Io::has_calls).map(|io| io.read_calls),
        "write_calls": stage.io.filter(Io::has_calls).map(|io| io.write_calls),
        "max_rss_bytes": stage.max_rss_bytes,
        "most_tasks": stage.most_tasks,
        "exit": exit(stage.ending),
        "failure": stage.failure,
        "closed_by_downstream": stage.closed_by_downstream(),
        "times_asleep": stage.times_asleep,
        "started": stage.started.as_ref().map(around::started),
        "peer": stage.peer.as_ref().map(|peer| around::peer(peer, found.limit.as_ref())),
        "files": stage.files.iter().map(around::file).collect::<Vec<_>>(),
        "lines": stage.lines.iter().map(line_time).collect::<Vec<_>>(),
        "flushes": { "times_at_least": stage.flushes.times, "waited_s": seconds(stage.flushes.waited_ns) },
        "quota": stage.quota.as_ref().map(around::group_quota),
        "memory_limit": stage.memory_limit.as_ref().map(around::memory_limit),
        "major_faults": stage.major_faults,
        "relay": stage.relay,
        "inserted": stage.inserted,
        "evidence": evidence(run, stage),
    })
}

fn line_time(time: &LineTime) -> Value {
    let known = time.line.line > 0;
    json!({
        "script": known.then_some(&time.line.script),
        "line": known.then_some(time.line.line),
        "function": time.function,
        "own_s": seconds(time.own_ns),
    })
}

fn failed(failed: &FailedCommand) -> Value {
    json!({
        "command": failed.command,
        "script": failed.line.as_ref().map(|line| &line.script),
        "line": failed.line.as_ref().map(|line| line.line),
        "exit": exit(Some(failed.ending)),
        "times": failed.times,
        "role": failed.role.as_ref(),
    })
}

fn exit(ending: Option<Ending>) -> Value {
    match ending {
        Some(Ending::Code(code)) => json!({ "code": code }),
        Some(Ending::Signal(signal)) => json!({ "signal": signal }),
        None => Value::Null,
    }
}

/// Returns how each group of figures is known.
fn evidence(run: &Run, stage: &Stage) -> Value {
    let wall = if run.script { Evidence::Sampled } else { Evidence::Exact };
    json!({
        "wall": wall.as_ref(),
        "cpu_sums": stage.cpu_evidence.as_ref(),
        "cpu_and_runq": stage.times_evidence.as_ref(),
        "blocked": stage.waits_evidence.as_ref(),
        "samples": stage.samples,
        "bytes": stage.bytes_evidence.as_ref(),
        "pipe_bytes": stage.pipe_evidence().as_ref(),
        "max_rss": stage.max_rss_evidence.as_ref(),
    })
}

fn pipe(pipe: &Pipe) -> Value {
    let capacity = (pipe.capacity_bytes > 0).then_some(pipe.capacity_bytes);
    json!({
        "from": pipe.from + 1,
        "to": pipe.to + 1,
        "capacity_bytes": capacity,
        "limit_bytes": pipe.limit_bytes,
        "given_bytes": pipe.given_bytes,
        "resized_bytes": pipe.resized_bytes,
        "resized_by": pipe.resized_by.map(|stage| stage + 1),
        "mean_fill": pipe.mean_fill,
        "max_fill": capacity.map(|_| pipe.max_fill),
        "full_share": pipe.full_share,
        "empty_share": pipe.empty_share,
        "times_full": pipe.times_full,
        "times_empty": pipe.times_empty,
        "longest_full_s": seconds(pipe.longest_full_ns),
        "longest_empty_s": seconds(pipe.longest_empty_ns),
        "longest_turn_s": seconds(pipe.longest_turn_ns),
        "samples": pipe.samples,
    })
}

fn verdict(verdict: &Verdict, text: &str) -> Value {
    let culprit = verdict.culprit.as_ref();
    json!({
        "kind": if culprit.is_some() { "stage" } else { "none" },
        "stage": culprit.map(|culprit| culprit.stage + 1),
        "reason": culprit.map(|culprit| culprit.reason.as_ref()),
        "share": culprit.map(|culprit| culprit.share),
        "speedup_limit": culprit.and_then(|culprit| culprit.speedup_limit),
        "next_stage": culprit.and_then(|culprit| culprit.next_stage).map(|next| next + 1),
        "text": text,
    })
}

fn advice(run: &Run, (advised, text): (&Advised, &str)) -> Value {
    let advice = &advised.advice;
    let (gain, at_most) = match advice.gain {
        Gain::AtMost(factor) => ("bound", Some(factor)),
        Gain::About(_) => ("estimate", None),
    };
    let pipe = advice.pipe.and_then(|pipe| run.pipes.get(pipe));
    json!({
        "kind": advice.kind.as_ref(),
        "stage": advice.stage.map(|stage| stage + 1),
        "pipe": pipe.map(|pipe| json!({ "from": pipe.from + 1, "to": pipe.to + 1 })),
        "gain": gain,
        "expected_speedup": advice.gain.factor(),
        "expected_speedup_at_most": at_most,
        "text": text,
        "command": advised.command,
    })
}
