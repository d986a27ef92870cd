//! `weir stat`: the accounts of pipes in use.

use crate::args::StatOptions;
use crate::bench::trimmed;
use crate::fault::{Fault, tell};
use crate::output::{is_json_read, is_read};
use crate::report::units::{bytes, capacity, count, seconds};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;
use weir::stat::{EndStat, Kind, PipeStat, pipes};
use weir_policy::text::printable;

/// Carries out the verb.
pub fn stat(options: &StatOptions) -> Result<ExitCode, Fault> {
    if let Some(pid) = options.pid
        && !std::path::Path::new(&format!("/proc/{pid}")).exists()
    {
        return Err(Fault::failed(format!("cannot look at process {pid}: there is none")));
    }
    let Some(every) = options.watch else {
        let found = look(options.pid);
        if found.is_empty() && !options.json {
            tell("no pipe of weir is in use");
            return Ok(ExitCode::SUCCESS);
        }
        show(&found, &BTreeMap::new(), 0.0, options.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut before = BTreeMap::new();
    let mut seen = Instant::now();
    // Until an interrupt, or nobody reads on.
    loop {
        let found = look(options.pid);
        let elapsed_s = seen.elapsed().as_secs_f64();
        seen = Instant::now();
        if !show(&found, &before, elapsed_s, options.json)? {
            return Ok(ExitCode::SUCCESS);
        }
        before = found.iter().map(|pipe| (pipe.inode, pipe.reader.account.bytes)).collect();
        std::thread::sleep(every);
    }
}

fn look(pid: Option<i32>) -> Vec<PipeStat> {
    let mut found = pipes();
    if let Some(pid) = pid {
        found.retain(|pipe| pipe.holders.iter().any(|(holder, _)| *holder == pid));
    }
    found
}

fn show(
    found: &[PipeStat],
    before: &BTreeMap<u64, u64>,
    elapsed_s: f64,
    as_json: bool,
) -> Result<bool, Fault> {
    let rate = |pipe: &PipeStat| {
        let then = before.get(&pipe.inode)?;
        Some(pipe.reader.account.bytes.saturating_sub(*then) as f64 / elapsed_s)
    };
    if as_json {
        let list: Vec<Value> = found.iter().map(|pipe| pipe_json(pipe, rate(pipe))).collect();
        return is_json_read(&format!("{}\n", json!({"schema": "weir.stat/1", "pipes": list})));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "pipe", "end", "process", "bytes", "rate", "records", "waits", "spun", "slept", "asleep",
        "woke", "woken", "",
    ]);
    for column in 3..12 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for pipe in found {
        let rate = rate(pipe).map(|rate| format!("{}/s", bytes(rate as u64)));
        let kind = if pipe.kind == Kind::Stream { "stream" } else { "records" };
        let fill = pipe.fill_bytes.map_or_else(
            || format!("{kind}, {}", capacity(pipe.capacity_bytes)),
            |fill| format!("{kind}, {} of {}", bytes(fill), capacity(pipe.capacity_bytes)),
        );
        table.add_row(row(&names(pipe), "writer", &pipe.writer, rate.as_deref()));
        table.add_row(row(&fill, "reader", &pipe.reader, None));
    }
    let backlogs: String = found.iter().filter_map(backlog).collect();
    is_read(&(trimmed(&table) + "\n" + &backlogs))
}

/// What the backlog of an elastic reader has come to, where it has.
fn backlog(pipe: &PipeStat) -> Option<String> {
    let account = &pipe.reader.account;
    let name = names(pipe);
    (account.delayed_bytes > 0).then(|| {
        let [delayed, cancelled, spilled, read_back] = [
            account.delayed_bytes,
            account.cancelled_bytes,
            account.spilled_bytes,
            account.read_back_bytes,
        ]
        .map(bytes);
        format!(
            "{name} backlog: {delayed} delayed, of these {cancelled} cancelled and {spilled} \
             spilled; {read_back} read back\n"
        )
    })
}

/// The names by which `weir tune --pipe` knows a pipe; one is enough.
fn names(pipe: &PipeStat) -> String {
    pipe.holders.first().map_or_else(String::new, |(pid, at)| format!("{pid}/{at}"))
}

fn row(pipe: &str, end: &str, stat: &EndStat, rate: Option<&str>) -> [String; 13] {
    let account = &stat.account;
    let state = match (stat.closed, stat.waits) {
        (true, _) => "closed",
        (false, true) => "waits",
        (false, false) => "",
    };
    [
        pipe.to_owned(),
        end.to_owned(),
        process(account.pid),
        bytes(account.bytes),
        rate.unwrap_or("").to_owned(),
        count(account.records),
        count(account.waits),
        count(account.spun),
        count(account.slept),
        seconds(account.slept_ns),
        count(account.wakes_given),
        count(account.wakes_taken),
        state.to_owned(),
    ]
}

/// A process with its name.
pub fn process(pid: u32) -> String {
    if pid == 0 {
        return String::from("not open");
    }
    let name = command(pid as i32).map(|name| printable(&name));
    format!("{pid} {}", name.as_deref().unwrap_or("(gone)"))
}

/// The name of a process, as it chose it: for programs, not for a terminal.
pub fn command(pid: i32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

fn pipe_json(pipe: &PipeStat, rate: Option<f64>) -> Value {
    let end = |stat: &EndStat| {
        let account = &stat.account;
        json!({
            "pid": account.pid,
            "bytes": account.bytes,
            "records": account.records,
            "waits": account.waits,
            "spun": account.spun,
            "slept": account.slept,
            "slept_ns": account.slept_ns,
            "wakes_given": account.wakes_given,
            "wakes_taken": account.wakes_taken,
            "largest_fill_bytes": account.largest_fill_bytes,
            "delayed_bytes": account.delayed_bytes,
            "cancelled_bytes": account.cancelled_bytes,
            "spilled_bytes": account.spilled_bytes,
            "read_back_bytes": account.read_back_bytes,
            "closed": stat.closed,
            "waits_now": stat.waits,
        })
    };
    let holders: Vec<Value> =
        pipe.holders.iter().map(|(pid, fd)| json!({"pid": pid, "fd": fd})).collect();
    json!({
        "inode": pipe.inode,
        "kind": if pipe.kind == Kind::Stream { "stream" } else { "records" },
        "capacity_bytes": pipe.capacity_bytes,
        "segment_bytes": pipe.segment_bytes,
        "atomic_bytes": pipe.atomic_bytes,
        "generation": pipe.generation,
        "fill_bytes": pipe.fill_bytes,
        "bytes_per_s": rate,
        "writer": end(&pipe.writer),
        "reader": end(&pipe.reader),
        "holders": holders,
    })
}
