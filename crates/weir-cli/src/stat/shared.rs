//! The rows and JSON of mpxes and clusters of flags in `weir stat`.

use serde_json::{Value, json};
use weir::stat::{FlagsStat, MpxStat};
use weir_command::json;
use weir_command::units::{bytes, capacity, count, seconds};
use weir_policy::text::printable;

/// A row of the table.
pub type StatRow = [String; 13];

/// A process with its name, as text.
pub fn process(pid: u32) -> String {
    if pid == 0 {
        return String::from("not open");
    }
    let name = json::command(pid as i32).map(|name| printable(&name));
    format!("{pid} {}", name.as_deref().unwrap_or("(gone)"))
}

/// The first holder of a memory, as PID/FD.
pub fn name(holders: &[(i32, i32)]) -> String {
    holders.first().map_or_else(String::new, |(pid, at)| format!("{pid}/{at}"))
}

/// The holders of a memory.
pub fn holders_json(holders: &[(i32, i32)]) -> Vec<Value> {
    holders.iter().map(|(pid, fd)| json!({"pid": pid, "fd": fd})).collect()
}

/// Two rows for a participant: what it has sent, and what it has received.
pub fn mpx_rows(stat: &MpxStat) -> [StatRow; 2] {
    let account = &stat.account;
    let role = if stat.is_owner { "owner" } else { "peer" };
    let arena = match account.arena_bytes {
        0 => String::new(),
        all => format!(", {} of {}", bytes(account.arena_used_bytes), capacity(all)),
    };
    let channels = format!("mpx, {} channels{arena}", count(account.channels));
    let state = match account.blocked {
        0 => String::new(),
        blocked => format!("{} blocked", count(blocked)),
    };
    let mut sent: StatRow = [const { String::new() }; 13];
    sent[0] = name(&stat.holders);
    sent[1] = format!("{role} out");
    sent[2] = process(account.pid);
    sent[3] = bytes(account.bytes_out);
    sent[5] = count(account.records_out);
    sent[10] = count(account.wakes_given);
    sent[12] = state;
    let mut received: StatRow = [const { String::new() }; 13];
    received[..2].clone_from_slice(&[channels, format!("{role} in")]);
    received[3] = bytes(account.bytes_in);
    received[5..10].clone_from_slice(&[
        count(account.records_in),
        count(account.waits),
        count(account.spun),
        count(account.slept),
        seconds(account.slept_ns),
    ]);
    received[11] = count(account.wakes_taken);
    [sent, received]
}

/// A row for the waits of a cluster of flags.
pub fn flags_row(stat: &FlagsStat) -> StatRow {
    let state = match stat.sleepers {
        0 => String::new(),
        sleepers => format!("{} wait", count(sleepers.into())),
    };
    let none = String::new;
    [
        name(&stat.holders),
        format!("flags {:#x}", stat.bits),
        format!("{} holders", stat.holders.len()),
        none(),
        none(),
        none(),
        count(stat.waits),
        none(),
        count(stat.slept),
        seconds(stat.slept_ns),
        count(stat.wakes_given),
        count(stat.wakes_taken),
        state,
    ]
}

pub fn mpx_json(stat: &MpxStat) -> Value {
    let account = &stat.account;
    let more = json!({
        "inode": stat.inode,
        "role": if stat.is_owner { "owner" } else { "peer" },
        "socket_inode": stat.socket.1,
        "peers": account.peers,
        "channels": account.channels,
        "arena_bytes": account.arena_bytes,
        "arena_used_bytes": account.arena_used_bytes,
        "records_in": account.records_in,
        "bytes_in": account.bytes_in,
        "records_out": account.records_out,
        "bytes_out": account.bytes_out,
        "blocked": account.blocked,
        "waits": account.waits,
        "spins": account.spun,
        "sleeps": account.slept,
        "slept_s": json::seconds(account.slept_ns),
        "wakes_given": account.wakes_given,
        "wakes_taken": account.wakes_taken,
        "delayed_bytes": account.delayed_bytes,
        "cancelled_bytes": account.cancelled_bytes,
        "spilled_bytes": account.spilled_bytes,
        "read_back_bytes": account.read_back_bytes,
        "holders": holders_json(&stat.holders),
    });
    json::process(i32::try_from(account.pid).unwrap_or(0), None, more)
}

pub fn flags_json(stat: &FlagsStat) -> Value {
    json!({
        "inode": stat.inode,
        "set": (0..64).filter(|flag| stat.bits >> flag & 1 != 0).collect::<Vec<u32>>(),
        "sleepers": stat.sleepers,
        "waits": stat.waits,
        "sleeps": stat.slept,
        "slept_s": json::seconds(stat.slept_ns),
        "wakes_given": stat.wakes_given,
        "wakes_taken": stat.wakes_taken,
        "holders": holders_json(&stat.holders),
    })
}
