//! `weir port list`, `stat` and `remove`.

use super::{check_name, failed};
use crate::bench::trimmed;
use crate::fault::{Fault, tell};
use crate::output::{print, print_json};
use crate::report::units::{bytes, capacity, count, seconds};
use crate::stat::{command, process};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use weir::PortName;
use weir::stat::{PortAccount, PortStat, PortWriterStat};
use weir_policy::text::printable;

/// Lists the ports in a directory.
pub fn list(directory: Option<&Path>, as_json: bool) -> Result<ExitCode, Fault> {
    let found = weir::port_names(directory).map_err(failed)?;
    if as_json {
        let ports: Vec<Value> = found.iter().map(name_json).collect();
        print_json(&format!("{}\n", json!({"schema": "weir.port.list/1", "ports": ports})))?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        let of = directory.map_or_else(String::new, |path| format!(" in '{}'", path.display()));
        tell(&format!("there is no port{of}"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = table(["port", "reader"], 2);
    for port in &found {
        // As it is to be written in the next command.
        let name = match (directory, port.path.file_name()) {
            (None, Some(name)) => printable(&name.to_string_lossy()),
            _ => printable(&port.path.to_string_lossy()),
        };
        let reader = port.reader.map_or_else(|| String::from("gone (stale)"), reader);
        table.add_row([name, reader]);
    }
    print(&(trimmed(&table) + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn name_json(port: &PortName) -> Value {
    json!({
        "path": port.path.display().to_string(),
        "reader": port.reader.and_then(known),
        "command": port.reader.and_then(known).and_then(command),
        "stale": port.reader.is_none(),
    })
}

/// Shows one port.
pub fn stat(name: &Path, as_json: bool) -> Result<ExitCode, Fault> {
    check_name(name)?;
    let found = weir::stat::port(name).map_err(failed)?;
    match as_json {
        true => print_json(&format!("{}\n", stat_json(&found)))?,
        false => print(&text(&found))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes what a dead reader has left.
pub fn remove(name: &Path) -> Result<ExitCode, Fault> {
    check_name(name)?;
    weir::remove_port(name).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn text(port: &PortStat) -> String {
    let mut text = format!("port      {}\n", printable(&port.path.to_string_lossy()));
    let Some(pid) = port.reader else {
        return text + "reader    gone (stale: weir port remove takes the name away)\n";
    };
    text += &format!("reader    {}\n", reader(pid));
    match &port.account {
        Some(account) => text += &account_text(account),
        None => text += "          what it says may not be looked at\n",
    }
    if port.writers.is_empty() {
        return text;
    }
    let mut table = table(
        ["writer", "user", "sent", "bytes", "received", "ring", "waits", "slept", "asleep", ""],
        1,
    );
    for writer in &port.writers {
        table.add_row(writer_row(writer));
    }
    text + &trimmed(&table) + "\n"
}

fn account_text(account: &PortAccount) -> String {
    format!(
        "received  {} messages, {}\nwaited    {} times; slept {} times, {}\n\
         writers   {} open; {} came, {} closed, {} died or were shut out\n",
        count(account.messages),
        bytes(account.bytes),
        count(account.waits),
        count(account.slept),
        seconds(account.slept_ns),
        account.open,
        account.opened,
        account.closed,
        account.died,
    )
}

fn writer_row(writer: &PortWriterStat) -> [String; 10] {
    let own = &writer.end.account;
    let state = match (writer.let_in, writer.end.waits) {
        (false, _) => "not let in",
        (_, true) => "waits for room",
        _ => "",
    };
    [
        process(writer.pid as u32),
        writer.uid.to_string(),
        count(writer.pieces),
        bytes(writer.bytes),
        count(writer.received),
        capacity(writer.capacity_bytes),
        count(own.waits),
        count(own.slept),
        seconds(own.slept_ns),
        state.to_owned(),
    ]
}

fn stat_json(port: &PortStat) -> Value {
    let writers: Vec<Value> = port.writers.iter().map(writer_json).collect();
    json!({
        "schema": "weir.port.stat/1",
        "path": port.path.display().to_string(),
        "stale": port.reader.is_none(),
        "reader": port.reader.map(|pid| {
            json!({"pid": known(pid), "command": known(pid).and_then(command)})
        }),
        "account": port.account.map(|account| json!({
            "open": account.open,
            "messages": account.messages,
            "bytes": account.bytes,
            "opened": account.opened,
            "closed": account.closed,
            "died": account.died,
            "waits": account.waits,
            "slept": account.slept,
            "slept_ns": account.slept_ns,
        })),
        "writers": writers,
    })
}

fn writer_json(writer: &PortWriterStat) -> Value {
    let own = &writer.end.account;
    json!({
        "pid": writer.pid,
        "command": command(writer.pid),
        "uid": writer.uid,
        "let_in": writer.let_in,
        "pieces": writer.pieces,
        "bytes": writer.bytes,
        "received": writer.received,
        "capacity_bytes": writer.capacity_bytes,
        "waits": own.waits,
        "slept": own.slept,
        "slept_ns": own.slept_ns,
        "waits_now": writer.end.waits,
    })
}

fn table<const N: usize>(header: [&str; N], texts: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for column in texts..N {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn reader(pid: i32) -> String {
    match known(pid) {
        Some(pid) => process(pid as u32),
        None => String::from("a process of another pid namespace"),
    }
}

/// The number of a process, where it has one in this pid namespace.
fn known(pid: i32) -> Option<i32> {
    (pid != 0).then_some(pid)
}
