//! `weir stat`: shows the accounts of pipes, mpxes and flags in use.

mod regions;
mod shared;

pub use shared::process;

use crate::args::StatOptions;
use rustix::process::geteuid;
use serde_json::{Value, json};
use shared::{StatRow, flags_json, flags_row, holders_json, mpx_json, mpx_rows, name};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;
use unicode_width::UnicodeWidthStr;
use weir::stat::{EndStat, FlagsStat, Memories, MpxStat, PipeKind, PipeStat, RegionStat};
use weir_command::fault::{Fault, missing, print_message};
use weir_command::json;
use weir_command::output::{Outlet, aligned, trimmed};
use weir_command::terminal;
use weir_command::units::{bytes, capacity, count, seconds};
use weir_command::widths::{clip, cut, wrap};
use weir_sys::proc::{identity, is_shown, may_inspect, program_file, words};

const SCHEMA: &str = "weir.stat/1";
/// Most bytes read of a command.
const COMMAND_BYTES: usize = 1 << 20;

pub fn stat(options: &StatOptions) -> Result<ExitCode, Fault> {
    let pid = options.pid.map(must_be_seen).transpose()?;
    let watches = options.watch.is_some();
    let mut outlet = Outlet::open(&options.json)?.in_lines(watches).in_place(watches);
    let mut before = BTreeMap::new();
    let mut seen = Instant::now();
    // Until an interrupt, or until the reader leaves.
    loop {
        let found = read_in_use(pid);
        let elapsed_s = seen.elapsed().as_secs_f64();
        seen = Instant::now();
        let running = running(pid);
        let rate = |pipe: &PipeStat| {
            let then = before.get(&pipe.inode)?;
            Some(pipe.reader.account.bytes.saturating_sub(*then) as f64 / elapsed_s)
        };
        let body = || {
            let pipes: Vec<Value> =
                found.pipes.iter().map(|pipe| pipe_json(pipe, rate(pipe))).collect();
            let mpx: Vec<Value> = found.mpx.iter().map(mpx_json).collect();
            let flags: Vec<Value> = found.flags.iter().map(flags_json).collect();
            let running: Vec<Value> = running.iter().map(running_json).collect();
            let regions: Vec<Value> = found.regions.iter().map(regions::json).collect();
            json!({
                "pipes": pipes, "mpx": mpx, "flags": flags, "regions": regions,
                "running": running
            })
        };
        let is_bare = found.is_empty() && running.is_empty() && options.watch.is_none();
        if is_bare && outlet.has_text() {
            print_message(&none(pid));
        }
        let text = || if is_bare { String::new() } else { text(&found, &running, pid, rate) };
        let is_read = outlet.write_report(SCHEMA, body, text)?;
        let Some(every) = options.watch.filter(|_| is_read) else {
            return Ok(ExitCode::SUCCESS);
        };
        before = BTreeMap::from_iter(
            found.pipes.iter().map(|pipe| (pipe.inode, pipe.reader.account.bytes)),
        );
        if !outlet.wait(every)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Refuses a process that does not exist, with which that was to be done.
pub fn must_exist(pid: i32, done: &str) -> Result<(), Fault> {
    match is_shown(pid) {
        true => Ok(()),
        false => Err(Fault::failed(format!("cannot {done} process {pid}: {}", missing(pid)))),
    }
}

/// Refuses a process that does not exist, or of which this user may not see what it has open. Returns the
/// process of an id, which may be that of a thread.
fn must_be_seen(pid: i32) -> Result<i32, Fault> {
    must_exist(pid, "inspect")?;
    let what = format!("inspect process {pid}");
    may_inspect(pid).map_err(Fault::cannot(&what))?;
    Ok(identity(pid).map_or(pid, |found| found.pid))
}

/// What stands where no pipe does: of one process, or of all that this user may inspect.
fn none(pid: Option<i32>) -> String {
    match pid {
        Some(pid) => format!("process {pid} uses no pipe of weir"),
        None if geteuid().is_root() => String::from("no pipe of weir is in use"),
        None => String::from("no pipe of weir is in use, of those that this user may inspect"),
    }
}

/// The pipes, mpxes, flags and regions in use.
struct InUse {
    pipes: Vec<PipeStat>,
    mpx: Vec<MpxStat>,
    flags: Vec<FlagsStat>,
    regions: Vec<RegionStat>,
}

impl InUse {
    fn is_empty(&self) -> bool {
        self.has_no_table() && self.regions.is_empty()
    }

    fn has_no_table(&self) -> bool {
        self.pipes.is_empty() && self.mpx.is_empty() && self.flags.is_empty()
    }
}

/// Whether a process has an end of a pipe. The reader of a port does not hold the memory of its pipes.
fn is_of(pipe: &PipeStat, pid: i32) -> bool {
    let reads = pipe.port.is_some() && pipe.reader.account.pid == pid as u32;
    reads || pipe.holders.iter().any(|(holder, _)| *holder == pid)
}

fn read_in_use(pid: Option<i32>) -> InUse {
    let held = Memories::find();
    let (pipes, mpx) = (held.pipes(), held.mpxes());
    let mut found = InUse { pipes, mpx, flags: held.clusters(), regions: held.regions() };
    if let Some(pid) = pid {
        let is_held = |holders: &[(i32, i32)]| holders.iter().any(|(holder, _)| *holder == pid);
        found.pipes.retain(|pipe| is_of(pipe, pid));
        found.mpx.retain(|mpx| is_held(&mpx.holders));
        found.flags.retain(|flags| is_held(&flags.holders));
        found.regions.retain(|region| is_held(&region.holders));
    }
    found
}

/// A running command of weir, which has no pipes of the library.
struct Running {
    pid: i32,
    /// Its command line.
    command: String,
}

/// Lists the running `weir run` and `weir buffer` commands that this user may inspect.
fn running(only: Option<i32>) -> Vec<Running> {
    let me = std::process::id() as i32;
    let own = program_file(me);
    let all = weir_sys::proc::processes().into_iter();
    let others = all.filter(|pid| *pid != me && only.is_none_or(|only| only == *pid));
    let of_weir = others.filter(|pid| own.is_some() && program_file(*pid) == own);
    let of_weir = of_weir.filter_map(|pid| {
        let words = words(pid, COMMAND_BYTES);
        let words = words.get(1..)?;
        let command = format!("weir {}", words.join(" "));
        let is_one = matches!(words.first()?.as_str(), "run" | "buffer");
        is_one.then_some(Running { pid, command })
    });
    of_weir.collect()
}

fn running_json(running: &Running) -> Value {
    let (uid, gid) = (json::uid(running.pid), json::gid(running.pid));
    json!({"pid": running.pid, "command": running.command, "uid": uid, "gid": gid})
}

/// The whole text, as wide as the terminal.
fn text(
    found: &InUse,
    running: &[Running],
    pid: Option<i32>,
    rate: impl Fn(&PipeStat) -> Option<f64>,
) -> String {
    let stdout = std::io::stdout();
    let width = stdout.is_terminal().then(|| terminal::width(stdout));
    let mut text = match (found.is_empty(), found.has_no_table()) {
        (true, _) => none(pid) + "\n",
        (false, true) => String::new(),
        (false, false) => table(found, rate, width) + "\n",
    };
    let wide = width.unwrap_or(usize::MAX);
    let backlogs = found.pipes.iter().filter_map(backlog);
    for line in backlogs.chain(found.mpx.iter().filter_map(mpx_backlog)) {
        text += &wrap(&line, wide).join("\n");
        text.push('\n');
    }
    for line in found.regions.iter().flat_map(regions::lines) {
        text += &wrap(&line, wide).join("\n");
        text.push('\n');
    }
    for Running { pid, command } in running {
        let line = format!("running: {pid} {command}");
        text += &cut(&line, wide);
        text.push('\n');
    }
    text
}

const HEADER: [&str; 13] = [
    "pipe", "end", "process", "bytes", "rate", "records", "waits", "spun", "slept", "asleep",
    "woke", "woken", "",
];
/// Columns that are dropped, in this order, if the table is too wide.
const LESSER: [usize; 7] = [11, 10, 7, 5, 8, 9, 6];

/// A table with a row for each end and as many columns as fit.
fn table(found: &InUse, rate: impl Fn(&PipeStat) -> Option<f64>, width: Option<usize>) -> String {
    let mut rows = Vec::new();
    for pipe in &found.pipes {
        let rate = rate(pipe).map(|rate| format!("{}/s", bytes(rate as u64)));
        let kind = kind(pipe);
        let fill = pipe.fill_bytes.map_or_else(
            || format!("{kind}, {}", capacity(pipe.capacity_bytes)),
            |fill| format!("{kind}, {} of {}", bytes(fill), capacity(pipe.capacity_bytes)),
        );
        rows.push(row(&name(&pipe.holders), "writer", &pipe.writer, rate.as_deref()));
        rows.push(row(&fill, "reader", &pipe.reader, None));
    }
    rows.extend(found.mpx.iter().flat_map(mpx_rows));
    rows.extend(found.flags.iter().map(flags_row));
    fitted(&rows, width)
}

/// Rows with as many columns as fit.
fn fitted(rows: &[StatRow], width: Option<usize>) -> String {
    let mut shown: Vec<usize> = (0..HEADER.len()).collect();
    let mut lesser = LESSER.iter();
    loop {
        let text = laid_out(rows, &shown);
        let fits = |columns: usize| text.lines().all(|line| line.width() <= columns);
        if width.is_none_or(fits) {
            return text;
        }
        match lesser.next() {
            Some(column) => shown.retain(|at| at != column),
            None => {
                let lines = text.lines().map(|line| clip(line, width.unwrap_or(0)));
                return lines.collect::<Vec<String>>().join("\n");
            }
        }
    }
}

fn laid_out(rows: &[StatRow], shown: &[usize]) -> String {
    let figures = shown.iter().enumerate().filter(|(_, at)| (3..12).contains(*at));
    let header = shown.iter().map(|at| HEADER[*at]);
    let mut table = aligned(header, figures.map(|(place, _)| place));
    for row in rows {
        table.add_row(shown.iter().map(|at| &row[*at]));
    }
    trimmed(&table)
}

/// A line about the backlog of an elastic reader, if it was used.
fn backlog(pipe: &PipeStat) -> Option<String> {
    let account = &pipe.reader.account;
    let counts = [
        account.delayed_bytes,
        account.cancelled_bytes,
        account.spilled_bytes,
        account.read_back_bytes,
    ];
    backlog_line(&pipe.holders, counts)
}

/// A line about the backlogs of an elastic mpx, if there were any.
fn mpx_backlog(mpx: &MpxStat) -> Option<String> {
    let account = &mpx.account;
    let counts = [
        account.delayed_bytes,
        account.cancelled_bytes,
        account.spilled_bytes,
        account.read_back_bytes,
    ];
    backlog_line(&mpx.holders, counts)
}

fn backlog_line(holders: &[(i32, i32)], counts: [u64; 4]) -> Option<String> {
    let name = name(holders);
    (counts[0] > 0).then(|| {
        let [delayed, cancelled, spilled, read_back] = counts.map(bytes);
        format!(
            "{name} backlog: {delayed} delayed, of which {cancelled} cancelled and {spilled} \
             spilled; {read_back} read back"
        )
    })
}

fn row(pipe: &str, end: &str, stat: &EndStat, rate: Option<&str>) -> StatRow {
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

fn kind(pipe: &PipeStat) -> &'static str {
    if pipe.kind == PipeKind::Stream { "stream" } else { "records" }
}

fn pipe_json(pipe: &PipeStat, rate: Option<f64>) -> Value {
    json!({
        "inode": pipe.inode,
        "kind": kind(pipe),
        "capacity_bytes": pipe.capacity_bytes,
        "segment_bytes": pipe.segment_bytes,
        "atomic_bytes": pipe.atomic_bytes,
        "generation": pipe.generation,
        "fill_bytes": pipe.fill_bytes,
        "bytes_per_s": rate,
        "writer": end_json(&pipe.writer, "bytes_out"),
        "reader": end_json(&pipe.reader, "bytes_in"),
        "holders": holders_json(&pipe.holders),
    })
}

/// An end as JSON; `bytes_name` is the key of its bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A Chinese character takes two columns, and was counted as one.
    #[test]
    fn a_process_with_a_wide_name_makes_no_row_too_wide() {
        let mut row: StatRow = std::array::from_fn(|at| format!("column {at}"));
        row[2] = String::from("4711 \u{65e5}\u{672c}\u{8a9e}\u{65e5}\u{672c}");
        for columns in 20..140 {
            let text = fitted(std::slice::from_ref(&row), Some(columns));
            assert!(text.lines().all(|line| line.width() <= columns), "{columns}: {text}");
        }
    }
}
