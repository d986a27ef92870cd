//! `weir top`: all pipes between processes and all channels of weir on this host, live.
//!
//! - `rows`: what is seen, in one form;
//! - `table`: sorts, filters and lays it out;
//! - `app`: what is on the screen and what keys do;
//! - `metrics`: the rows for Prometheus;
//! - `keys`, `screen`, `live`: the terminal.

mod app;
mod keys;
mod live;
mod metrics;
mod rows;
mod screen;
mod table;

use crate::args::TopOptions;
use crate::files::{cannot_write, writable, write};
use metrics::Totals;
use rows::{Collector, End, Row, Snapshot};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;
use table::View;
use weir_command::fault::{Fault, has_proc, print_message};
use weir_command::output::{Outlet, check_distinct};
use weir_command::terminal;
use weir_command::units::words::{of_cpus, things};

const SCHEMA: &str = "weir.top/1";
const METRICS: &str = "metrics";
const NONE: &str = "no pipe joins processes that you may see";
/// The width of a table that goes to a file or a pipe.
const FILE_COLUMNS: usize = 120;

/// Runs the verb.
pub fn top(options: &TopOptions) -> Result<ExitCode, Fault> {
    let view = View {
        sort: options.sort,
        reverse: options.reverse,
        filter: options.filter.clone().unwrap_or_default(),
        all: options.all,
    };
    let count = if options.once { Some(1) } else { options.count };
    if !has_proc() {
        return Err(Fault::failed("cannot see processes: /proc is not mounted"));
    }
    let is_batch = options.batch
        || count.is_some()
        || options.json.file.is_some()
        || options.prometheus.is_some();
    if !is_batch && let Some(terminals) = live::terminals() {
        return live::live(view, options.interval, terminals);
    }
    // Without a number a batch has no end.
    let mut left = count.unwrap_or(if options.batch { u64::MAX } else { 1 });
    let metrics_file = options.prometheus.as_deref();
    check_distinct([("--json", options.json.path()), ("--prometheus", metrics_file)])?;
    if let Some(file) = metrics_file {
        writable(file).map_err(|error| cannot_write(METRICS, Some(file), &error))?;
    }
    let mut outlet = Outlet::open(&options.json)?.in_lines(left > 1);
    let mut totals = Totals::new();
    let mut collector = Collector::new();
    collector.snapshot(view.all);
    let mut is_read = true;
    while left > 0 && is_read {
        let begun = Instant::now();
        // sleep: rates are counted over this time.
        std::thread::sleep(options.interval);
        let seen = collector.snapshot(view.all);
        let window_s = begun.elapsed().as_secs_f64();
        let rows = view.of(&seen.rows);
        if rows.is_empty() && outlet.has_text() {
            print_message(if view.filter.is_empty() { NONE } else { "nothing matches the filter" });
        }
        if let Some(file) = metrics_file {
            let text = totals.metrics(&rows, &seen, window_s);
            let written = write(file, text.as_bytes());
            written.map_err(|error| Fault::unwritable(Some(file), error))?;
        }
        let document = || document(&rows, &seen, (window_s, view.hidden(&seen.rows)));
        is_read = outlet.write_report(SCHEMA, document, || text(&rows, &seen, &view))?;
        left -= 1;
    }
    Ok(ExitCode::SUCCESS)
}

fn document(rows: &[Row], seen: &Snapshot, (window_s, hidden): (f64, usize)) -> Value {
    json!({
        "window_s": window_s,
        "unseen_processes": seen.unseen,
        "left_out_processes": seen.left_out,
        "hidden_idle": hidden,
        "channels": rows.iter().map(Row::json).collect::<Vec<_>>(),
    })
}

/// Names the processes of a row that a CPU quota throttles.
fn throttled(row: &Row) -> Option<String> {
    let ends = row.writers.iter().chain(&row.readers);
    let said = |end: &End| {
        let quota = of_cpus(end.quota_cpus?);
        Some(format!("{} {} has used up its CPU quota of {quota}", end.pid, end.command))
    };
    let all: Vec<String> = ends.filter_map(said).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The table, as wide as the terminal.
fn text(rows: &[Row], seen: &Snapshot, view: &View) -> String {
    let reported = terminal::columns(std::io::stdout());
    let width = reported.or_else(terminal::asked_columns).unwrap_or(FILE_COLUMNS);
    let columns = table::columns(width);
    let mut text = String::new();
    if !rows.is_empty() {
        text += table::header(&columns, view.sort).trim_end();
        text.push('\n');
    }
    for row in rows {
        text += table::row(&columns, row, &view.filter).trim_end();
        text.push('\n');
    }
    for said in rows.iter().filter_map(throttled).collect::<BTreeSet<_>>() {
        text += &format!("{said}\n");
    }
    let hidden = view.hidden(&seen.rows) as u64;
    if hidden > 0 {
        text += &format!("{} not shown (--all)\n", things(hidden, "idle pipe"));
    }
    if seen.left_out > 0 {
        let others = things(seen.left_out as u64, "process");
        text += &format!("{others} left out: there are too many for a look\n");
    }
    if seen.unseen > 0 {
        let others = things(seen.unseen as u64, "process");
        text += &format!("{others} of other users: their pipes are not shown\n");
    }
    text
}
