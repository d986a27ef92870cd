//! `weir history`: the saved runs of `weir bench`.

use crate::args::{Export, HistoryCommand, HistoryShowOptions, HistoryVerb};
use crate::bench::history::{self, SavedRun};
use crate::bench::{self, export};
use serde_json::json;
use std::process::ExitCode;
use weir_bench::engine::params::Unit;
use weir_command::fault::{Fault, print_message};
use weir_command::json;
use weir_command::json_option::JsonOption;
use weir_command::output::{Outlet, Output, aligned, check_distinct, print, print_json, trimmed};
use weir_command::units::utc;

const SCHEMA: &str = "weir.history/1";

pub fn history(command: &HistoryCommand) -> Result<ExitCode, Fault> {
    match &command.verb {
        Some(HistoryVerb::List(options)) => list(&options.json)?,
        Some(HistoryVerb::Show(options)) => show(options)?,
        Some(HistoryVerb::Export(options)) => export(&options.name, options.format)?,
        Some(HistoryVerb::Remove(options)) => history::remove(&options.name)?,
        None => list(&command.list.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(option: &JsonOption) -> Result<(), Fault> {
    let entries = history::list()?;
    let mut outlet = Outlet::open(option)?;
    let text = || if entries.is_empty() { String::new() } else { table(&entries) };
    outlet.write_report(SCHEMA, || json!({ "runs": entries }), text)?;
    if entries.is_empty() && outlet.has_text() {
        print_message("no run has been saved yet; weir bench --save NAME saves one");
    }
    Ok(())
}

fn show(options: &HistoryShowOptions) -> Result<(), Fault> {
    check_distinct([("--json", options.json.path()), ("--html", options.html.as_deref())])?;
    let report = history::load(&options.name)?;
    if let Some(mut file) = Output::open(&options.json)? {
        file.write(&json::whole(&report)?)?;
    }
    if let Some(path) = &options.html {
        bench::write_page(path, &report)?;
    }
    if options.json.file.is_none() && options.html.is_none() {
        print(&bench::text(&report))?;
    }
    Ok(())
}

fn export(name: &str, format: Export) -> Result<(), Fault> {
    let report = history::load(name)?;
    match format {
        Export::Weir => print_json(&json::whole(&report)?),
        Export::Hyperfine => {
            if report.cases.iter().all(|case| case.unit != Unit::Ns) {
                print_message(
                    "none of these figures is a time, and hyperfine's JSON holds only times",
                );
            }
            print_json(&export::hyperfine(&report))
        }
        Export::Bencher => print_json(&export::bencher(&report)),
        Export::Go => print(&export::go(&report)),
    }
}

fn table(entries: &[SavedRun]) -> String {
    let mut table = aligned(["name", "when (UTC)", "cases", "resolves", "kernel", "CPU"], [2, 3]);
    for entry in entries {
        table.add_row([
            entry.name.clone(),
            utc(entry.started_unix_s),
            entry.cases.to_string(),
            entry.resolves_share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0)),
            entry.kernel.split(' ').nth(1).unwrap_or("").to_owned(),
            entry.cpu.clone(),
        ]);
    }
    trimmed(&table) + "\n"
}
