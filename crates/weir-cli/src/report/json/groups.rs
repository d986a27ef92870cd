//! The groups of a run, its critical path, and the processes that weir did not see.

use super::super::{Report, words};
use super::{pipe, stages, verdict};
use serde_json::{Value, json};
use weir_command::json::seconds;
use weir_doctor::facts::Run;
use weir_doctor::facts::{FoundGroup, Unseen};
use weir_doctor::graph::{CriticalPath, Jobs, Link, Shape};
use weir_doctor::groups::GroupFinding;

pub fn groups(report: &Report) -> Vec<Value> {
    let all = report.run.groups.iter().zip(&report.found.groups).enumerate();
    all.map(|(at, (found, judged))| group(&report.run, at, found, judged)).collect()
}

fn group(run: &Run, position: usize, group: &FoundGroup, found: &GroupFinding) -> Value {
    let (of, judged) = (&group.run, &found.verdict);
    let text = words::verdict(of, judged);
    let (cpu_ns, cpu_evidence) = group.cpu();
    let each = |ns: u64| group.has_spread().then(|| seconds(ns));
    json!({
        "index": position + 1,
        "name": group.name,
        "kind": if group.is_single() { "command" } else { "pipeline" },
        "script": group.line.as_ref().map(|line| &line.script),
        "line": group.line.as_ref().map(|line| line.line),
        "inside_stage": group.inside.map(|stage| stage + 1),
        "first_stage": group.first_stage.map(|stage| stage + 1),
        "instances": group.instances,
        "instances_evidence": group.instances_evidence.as_ref(),
        "starts_others": group.starts_others,
        "start_s": seconds(group.start_ns),
        "end_s": seconds(group.end_ns),
        "wall_s": seconds(of.wall_ns),
        "own_s": seconds(group.own_ns()),
        "share": run.group_share(group),
        "cpu_s": seconds(cpu_ns),
        "cpu_evidence": cpu_evidence.as_ref(),
        "instance_s": {
            "median": each(group.spread.median_ns),
            "min": each(group.spread.min_ns),
            "max": each(group.spread.max_ns),
            "sum": seconds(group.spread.sum_ns),
        },
        "starts": found.starts.map(|starts| {
            json!({
                "each_s": seconds(starts.each_ns),
                "loading_s": starts.is_seen.then(|| seconds(starts.loading_ns)),
            })
        }),
        "stages": stages(of, judged),
        "pipes": of.pipes.iter().map(pipe).collect::<Vec<_>>(),
        "verdict": verdict(judged, &text),
    })
}

pub fn critical_path(path: &CriticalPath) -> Value {
    let link = |link: &Link| {
        json!({
            "command": link.command,
            "output": link.output,
            "processes": link.processes.len(),
            "waited_s": seconds(link.waited_ns),
        })
    };
    json!({
        "share": path.share,
        "links": path.links.iter().map(link).collect::<Vec<_>>(),
    })
}

pub fn unseen(unseen: &Unseen) -> Value {
    let evidence = unseen.evidence.as_ref();
    json!({ "processes": unseen.processes, "evidence": evidence, "cpu_s": seconds(unseen.cpu_ns) })
}

/// The jobs that one process ran, several at once.
pub fn parallel_jobs(shape: &Shape) -> Value {
    json!({
        "program": shape.program,
        "jobs": shape.jobs,
        "at_once": shape.at_once,
        "span_s": seconds(shape.span_ns),
        "longest": shape.longest,
        "longest_s": seconds(shape.longest_ns),
        "after_s": seconds(shape.after_ns),
        "alone_s": seconds(shape.alone_ns),
        "longest_first_s": shape.longest_first_ns.map(seconds),
    })
}

/// The jobs of a build.
pub fn jobs(jobs: Jobs) -> Value {
    json!({
        "most": jobs.most,
        "asked": jobs.asked,
        "any_s": seconds(jobs.any_ns),
        "most_s": seconds(jobs.most_ns),
    })
}
