//! `weir top`: all pipes between processes and all channels of weir on this host, live.
//!
//! - `rows`: what is seen, in one form;
//! - `table`: sorts, filters and lays it out;
//! - `app`: what stands on the screen and what keys do;
//! - `keys`, `screen`, `live`: the terminal.

mod app;
mod keys;
mod live;
mod rows;
mod screen;
mod table;

use crate::args::TopOptions;
use rows::{Collector, Row, Seen};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;
use table::View;
use weir_command::fault::{Fault, tell};
use weir_command::output::Outlet;
use weir_command::terminal;
use weir_command::units::words::things;

const SCHEMA: &str = "weir.top/1";
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
    if !options.once
        && options.json.file.is_none()
        && let Some(terminals) = live::terminals()
    {
        return live::live(view, options.interval, terminals);
    }
    let mut outlet = Outlet::open(&options.json)?;
    let mut collector = Collector::new();
    collector.look(view.all);
    let begun = Instant::now();
    // sleep: rates are counted over this time.
    std::thread::sleep(options.interval);
    let seen = collector.look(view.all);
    let window_s = begun.elapsed().as_secs_f64();
    let rows = view.of(&seen.rows);
    if rows.is_empty() && outlet.has_text() {
        tell(if view.filter.is_empty() { NONE } else { "nothing matches the filter" });
    }
    outlet.say(SCHEMA, || document(&rows, &seen, window_s), || text(&rows, &seen, &view))?;
    Ok(ExitCode::SUCCESS)
}

fn document(rows: &[Row], seen: &Seen, window_s: f64) -> Value {
    json!({
        "window_s": window_s,
        "unseen_processes": seen.unseen,
        "channels": rows.iter().map(Row::json).collect::<Vec<_>>(),
    })
}

/// The table, as wide as the terminal.
fn text(rows: &[Row], seen: &Seen, view: &View) -> String {
    let reported = terminal::columns(std::io::stdout());
    let width = reported.or_else(terminal::asked_columns).unwrap_or(FILE_COLUMNS);
    let columns = table::columns(width);
    let mut text = String::new();
    if !rows.is_empty() {
        text += table::header(&columns, view.sort).trim_end();
        text.push('\n');
    }
    for row in rows {
        text += table::row(&columns, row).trim_end();
        text.push('\n');
    }
    if seen.unseen > 0 {
        let others = things(seen.unseen as u64, "process");
        text += &format!("{others} of other users: their pipes are not shown\n");
    }
    text
}
