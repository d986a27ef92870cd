//! The lines and JSON of regions in `weir stat`.

use super::shared::{holders_json, name, process};
use serde_json::{Value, json};
use weir::stat::RegionStat;
use weir_command::json as keys;
use weir_command::units::{bytes, count, seconds};

/// Two lines for a region: what it has, and what it did.
pub fn lines(stat: &RegionStat) -> [String; 2] {
    let used = match (100 * stat.used_pages).checked_div(stat.seen_pages) {
        Some(share) => format!("; {share} % of what came unasked was used"),
        None => String::new(),
    };
    let has = format!(
        "{} region of {}: {}, of which {} are in memory; it may use {}",
        name(&stat.holders),
        process(stat.pid),
        bytes(stat.region_bytes),
        bytes(stat.memory_bytes),
        bytes(stat.budget_bytes),
    );
    let mut did = format!(
        "  {} faults, {} pages reclaimed, {} read in {} reads, {} written in {} writes; waited {} \
         times, {}; clusters of {} pages{used}",
        count(stat.hard_faults),
        count(stat.reclaimed_pages),
        bytes(stat.read_bytes),
        count(stat.reads),
        bytes(stat.written_bytes),
        count(stat.writes),
        count(stat.waits),
        seconds(stat.waited_ns),
        stat.cluster_pages,
    );
    if stat.swapped > 0 {
        did += &format!("; went out whole {} times", count(stat.swapped));
    }
    if stat.failures > 0 {
        did += &format!("; {} transfers failed", count(stat.failures));
    }
    [has, did]
}

pub fn json(stat: &RegionStat) -> Value {
    let more = json!({
        "inode": stat.inode,
        "region_bytes": stat.region_bytes,
        "budget_bytes": stat.budget_bytes,
        "memory_bytes": stat.memory_bytes,
        "hard_faults": stat.hard_faults,
        "reclaimed_pages": stat.reclaimed_pages,
        "read_bytes": stat.read_bytes,
        "written_bytes": stat.written_bytes,
        "reads": stat.reads,
        "writes": stat.writes,
        "seen_pages": stat.seen_pages,
        "used_pages": stat.used_pages,
        "cluster_pages": stat.cluster_pages,
        "waits": stat.waits,
        "waited_s": keys::seconds(stat.waited_ns),
        "swapped": stat.swapped,
        "failures": stat.failures,
        "holders": holders_json(&stat.holders),
    });
    keys::process(i32::try_from(stat.pid).unwrap_or(0), None, more)
}
