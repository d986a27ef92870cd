//! `weir stat`: the accounts of pipes in use.

use crate::args::StatOptions;
use crate::bench::trimmed;
use crate::fault::{Fault, tell};
use crate::json;
use crate::output::Outlet;
use crate::report::units::{bytes, capacity, count, seconds};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;
use weir::stat::{EndStat, Kind, PipeStat, pipes};
use weir_policy::text::printable;

const SCHEMA: &str = "weir.stat/2";

/// Carries out the verb.
pub fn stat(options: &StatOptions) -> Result<ExitCode, Fault> {
    if let Some(pid) = options.pid
        && !std::path::Path::new(&format!("/proc/{pid}")).exists()
    {
        return Err(Fault::failed(format!("cannot look at process {pid}: there is none")));
    }
    let mut outlet = Outlet::open(&options.json)?.in_lines(options.watch.is_some());
    let Some(every) = options.watch else {
        let found = look(options.pid);
        if found.is_empty() && outlet.has_text() {
            tell("no pipe of weir is in use");
        }
        show(&mut outlet, &found, None)?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut before = BTreeMap::new();
    let mut seen = Instant::now();
    // Until an interrupt, or nobody reads on.
    loop {
        let found = look(options.pid);
        let elapsed_s = seen.elapsed().as_secs_f64();
        seen = Instant::now();
        if !show(&mut outlet, &found, Some((&before, elapsed_s)))? {
            return Ok(ExitCode::SUCCESS);
        }
        before = found.iter().map(|pipe| (pipe.inode, pipe.reader.account.bytes)).collect();
        std::thread::sleep(every);
    }
}

/// What the readers of pipes had read at the look before, and how many seconds ago that was.
type Before<'a> = (&'a BTreeMap<u64, u64>, f64);

/// Shows pipes, with rates where there was a look before.
fn show(
    outlet: &mut Outlet,
    found: &[PipeStat],
    before: Option<Before<'_>>,
) -> Result<bool, Fault> {
    let rate = |pipe: &PipeStat| {
        let (before, elapsed_s) = before?;
        let then = before.get(&pipe.inode)?;
        Some(pipe.reader.account.bytes.saturating_sub(*then) as f64 / elapsed_s)
    };
    let pipes = || {
        let pipes = found.iter().map(|pipe| pipe_json(pipe, rate(pipe)));
        json!({ "pipes": pipes.collect::<Vec<_>>() })
    };
    // One look that finds nothing has told so.
    let is_bare = found.is_empty() && before.is_none();
    outlet.say(SCHEMA, pipes, || if is_bare { String::new() } else { table(found, rate) })
}

fn look(pid: Option<i32>) -> Vec<PipeStat> {
    let mut found = pipes();
    if let Some(pid) = pid {
        found.retain(|pipe| pipe.holders.iter().any(|(holder, _)| *holder == pid));
    }
    found
}

fn table(found: &[PipeStat], rate: impl Fn(&PipeStat) -> Option<f64>) -> String {
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
    trimmed(&table) + "\n" + &backlogs
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
    let name = json::command(pid as i32).map(|name| printable(&name));
    format!("{pid} {}", name.as_deref().unwrap_or("(gone)"))
}

fn pipe_json(pipe: &PipeStat, rate: Option<f64>) -> Value {
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
        "writer": end_json(&pipe.writer, "bytes_out"),
        "reader": end_json(&pipe.reader, "bytes_in"),
        "holders": holders,
    })
}

/// An end, with the name that its bytes have: those of a reader come in.
fn end_json(stat: &EndStat, bytes_name: &str) -> Value {
    let account = &stat.account;
    let pid = i32::try_from(account.pid).unwrap_or(0);
    let more = json!({
        bytes_name: account.bytes,
        "records": account.records,
        "waits": account.waits,
        "spins": account.spun,
        "sleeps": account.slept,
        "slept_s": json::seconds(account.slept_ns),
        "wakes_given": account.wakes_given,
        "wakes_taken": account.wakes_taken,
        "largest_fill_bytes": account.largest_fill_bytes,
        "delayed_bytes": account.delayed_bytes,
        "cancelled_bytes": account.cancelled_bytes,
        "spilled_bytes": account.spilled_bytes,
        "read_back_bytes": account.read_back_bytes,
        "closed": stat.closed,
        "waiting": stat.waits,
    });
    json::process(pid, None, more)
}
