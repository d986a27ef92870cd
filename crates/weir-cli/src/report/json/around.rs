//! The surroundings of a run: the host, the quota, the processes it started, the peers of its sockets.

use super::super::words;
use crate::report::Stood;
use serde_json::{Value, json};
use weir_command::json::{joined, seconds};
use weir_doctor::facts::{
    FileWait, GroupQuota, LeftOpen, LeftProcess, MemoryLimit, Neighbour, OutsideProcess, Peer,
    Program, Quota, Run, Started, TcpSample, TcpWaits, Traced, Watched, WatchedPipe,
};
use weir_doctor::outside::Limit;
use weir_doctor::partition::Times;

pub fn host(run: &Run) -> Value {
    let host = &run.host;
    let neighbour = |it: &Neighbour| json!({ "program": it.program, "cpus": it.cpus });
    json!({
        "online_cpus": host.online_cpus,
        "cpus": host.cpus,
        "others_cpus": host.others_cpus,
        "idle_cpus": host.idle_cpus,
        "steal_cpus": host.steal_cpus,
        "memory_pressure_share": host.memory_pressure,
        "swapped_in_pages": host.swapped_in_pages,
        "others": run.neighbours.iter().map(neighbour).collect::<Vec<_>>(),
    })
}

pub fn quota(quota: &Quota) -> Value {
    json!({
        "cpus": quota.cpus,
        "periods": quota.periods,
        "throttled_periods": quota.throttled_periods,
        "throttled_s": seconds(quota.throttled_ns),
    })
}

/// The quota of a stage's own group.
pub fn group_quota(of: &GroupQuota) -> Value {
    joined([json!({ "group": of.group }), quota(&of.quota)])
}

pub fn memory_limit(limit: &MemoryLimit) -> Value {
    json!({
        "group": limit.group,
        "limit_bytes": limit.limit_bytes,
        "times_reached": limit.times_reached,
    })
}

pub fn started(started: &Started) -> Value {
    let program = |program: &Program| {
        json!({
            "program": program.name,
            "processes": program.processes,
            "share": program.share,
        })
    };
    json!({
        "processes": started.processes,
        "likely_processes": started.likely_processes,
        "evidence": started.evidence.as_ref(),
        "mean_life_s": seconds(started.mean_life_ns),
        "wall_share": started.wall_share,
        "programs": started.programs.iter().map(program).collect::<Vec<_>>(),
    })
}

pub fn peer(peer: &Peer, limit: Option<&Limit>) -> Value {
    json!({
        "kind": peer.kind.as_ref(),
        "address": peer.address,
        "program": peer.program,
        "pid": peer.pid,
        "waited_s": seconds(peer.waited_ns),
        "limit": limit.map(<&str>::from),
        "finding": limit.map(|limit| words::outside::finding(peer, limit)),
        "process": peer.process.as_ref().map(|process| self::process(process)),
        "tcp": peer.tcp.as_ref().map(tcp),
        "text": words::outside::peer_name(peer),
    })
}

fn process(process: &OutsideProcess) -> Value {
    let times = &process.times;
    let head = json!({
        "program": process.program,
        "pid": process.pid,
        "title": process.title,
        "samples": process.samples,
        "cpu_s": seconds(times.cpu_ns),
        "runq_s": seconds(times.queue_ns),
    });
    let waits_for = process.peer.as_deref().map(words::outside::peer_name);
    let tail = json!({ "waits_for": waits_for, "file": process.file.as_ref().map(file) });
    joined([head, blocked_other(times), tail])
}

/// Waiting for input that looks like work; null where there was none.
pub fn polled(times: &Times) -> Value {
    if times.napped_ns + times.spun_cpu_ns + times.spun_queue_ns == 0 {
        return Value::Null;
    }
    json!({
        "asleep_s": seconds(times.napped_ns),
        "cpu_s": seconds(times.spun_cpu_ns),
        "runq_s": seconds(times.spun_queue_ns),
    })
}

/// What was waited for that is not a neighbour, each kind by its name.
pub fn blocked_other(times: &Times) -> Value {
    json!({
        "disk_s": seconds(times.disk_ns),
        "file_s": seconds(times.file_ns),
        "lock_s": seconds(times.lock_ns),
        "child_s": seconds(times.child_ns),
        "sleep_s": seconds(times.sleep_ns),
        "network_s": seconds(times.network_ns),
        "device_s": seconds(times.device_ns),
        "stopped_s": seconds(times.stopped_ns),
        "unknown_s": seconds(times.unknown_ns),
    })
}

fn tcp(tcp: &TcpWaits) -> Value {
    let since = |of: fn(&TcpSample) -> u64| of(&tcp.last).saturating_sub(of(&tcp.first));
    json!({
        "read_s": seconds(tcp.read_ns),
        "unanswered_s": seconds(tcp.unanswered_ns),
        "gap_s": seconds(tcp.gap_ns),
        "own_window_s": seconds(tcp.own_window_ns),
        "queued_s": seconds(tcp.queued_ns),
        "flowing_s": seconds(tcp.flowing_ns),
        "silent_s": seconds(tcp.silent_ns),
        "write_s": seconds(tcp.write_ns),
        "busy_s": seconds(since(|look| look.busy_ns)),
        "far_window_s": seconds(since(|look| look.far_window_ns)),
        "own_buffer_s": seconds(since(|look| look.own_buffer_ns)),
        "sent_segments": since(|look| look.sent_segments),
        "resent_segments": since(|look| look.resent_segments),
        "out_of_order_segments": since(|look| look.out_of_order),
        "received_bytes": since(|look| look.received_bytes),
        "acked_bytes": since(|look| look.acked_bytes),
        "delivery_bytes_per_s": tcp.last.delivery_bytes_per_s,
        "rtt_s": seconds(tcp.last.rtt_ns),
        "min_rtt_s": seconds(tcp.last.min_rtt_ns),
    })
}

pub fn file(file: &FileWait) -> Value {
    json!({
        "kind": file.kind.as_ref(),
        "path": file.path,
        "on": file.on,
        "kernel": file.kernel,
        "access": file.access.as_ref(),
        "direct": file.direct,
        "throttled": file.throttled,
        "waited_s": seconds(file.waited_ns),
        "text": words::outside::file_name(file),
    })
}

/// What was traced.
pub fn traced(traced: &Traced) -> Value {
    json!({
        "events": traced.events,
        "lost": traced.lost,
        "refused": traced.refused,
    })
}

/// What was watched from outside.
pub fn watched(watched: &Watched) -> Value {
    let pipe = |pipe: &WatchedPipe| {
        json!({
            "writer_pid": pipe.writer_pid,
            "reader_pid": pipe.reader_pid,
            "backlog": pipe.backlog.map(<&str>::from),
        })
    };
    json!({
        "pids": watched.pids,
        "has_ended": watched.has_ended,
        "is_stuck": watched.is_stuck,
        "pipes": watched.pipes.iter().map(pipe).collect::<Vec<_>>(),
    })
}

/// What a stage left running.
pub fn left_open(run: &Run, left: &LeftOpen) -> Value {
    json!({
        "stage": left.stage + 1,
        "waited_s": seconds(run.waited_for_left_ns(left)),
        "pid": left.process.as_ref().map(|process| process.pid),
        "command": left.process.as_ref().map(|process| &process.command),
    })
}

/// What has the output of the run open after its end.
pub fn left_output(left: &LeftProcess) -> Value {
    json!({"pid": left.pid, "command": left.command})
}

/// The longest time in which nothing moved.
pub fn stall(Stood { stall, answer }: &Stood) -> Value {
    json!({"lasted_s": seconds(stall.lasted_ns), "text": answer})
}
