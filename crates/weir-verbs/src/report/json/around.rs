//! What was around a run: the host, the quota, the processes it started, the peers of its sockets.

use crate::json::seconds;
use serde_json::{Value, json};
use weir_doctor::facts::{Host, Peer, Program, Quota, Started};

pub fn host(host: &Host) -> Value {
    json!({
        "online_cpus": host.online_cpus,
        "cpus": host.cpus,
        "others_cpus": host.others_cpus,
        "idle_cpus": host.idle_cpus,
        "steal_cpus": host.steal_cpus,
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

pub fn peer(peer: &Peer) -> Value {
    json!({
        "kind": peer.kind.as_ref(),
        "address": peer.address,
        "program": peer.program,
        "pid": peer.pid,
        "waited_s": seconds(peer.waited_ns),
        "text": peer.to_string(),
    })
}
