//! `weir port list`, `stat` and `remove`.

use super::check_name;
use crate::args::{PortListOptions, PortStatOptions};
use crate::stat::process;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use weir::PortName;
use weir::stat::{PortAccount, PortStat, PortWriterStat};
use weir_command::fault::{Fault, print_message};
use weir_command::json;
use weir_command::output::Outlet;
use weir_command::output::{aligned, trimmed};
use weir_command::units::{bytes, capacity, count, seconds};
use weir_policy::text::printable;

/// Lists the ports in a directory.
pub fn list(options: &PortListOptions) -> Result<ExitCode, Fault> {
    let directory = options.directory.as_deref();
    let mut outlet = Outlet::open(&options.json)?;
    let found = weir::PortName::list(directory)?;
    if found.is_empty() && outlet.has_text() {
        let of = directory.map_or_else(String::new, |path| format!(" in '{}'", path.display()));
        print_message(&format!("there is no port{of}"));
    }
    let body = || json!({"ports": found.iter().map(name_json).collect::<Vec<_>>()});
    outlet.write_report("weir.port.list/1", body, || list_text(directory, &found))?;
    Ok(ExitCode::SUCCESS)
}

fn list_text(directory: Option<&Path>, found: &[PortName]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut table = aligned(["port", "reader"], []);
    for port in found {
        // As the user writes it in the next command.
        let name = match (directory, port.path.file_name()) {
            (None, Some(name)) => printable(&name.to_string_lossy()),
            _ => printable(&port.path.to_string_lossy()),
        };
        let reader = port.reader.map_or_else(|| String::from("gone (stale)"), reader);
        table.add_row([name, reader]);
    }
    trimmed(&table) + "\n"
}

fn name_json(port: &PortName) -> Value {
    json!({
        "path": port.path.display().to_string(),
        "stale": port.reader.is_none(),
        "reader": port.reader.map(reader_json),
    })
}

/// The reader. Nothing else is known of one in another pid namespace.
fn reader_json(pid: i32) -> Value {
    json::process(pid, None, Value::Null)
}

/// Shows one port.
pub fn stat(options: &PortStatOptions) -> Result<ExitCode, Fault> {
    check_name(&options.name)?;
    let found = weir::stat::port(&options.name)?;
    Outlet::open(&options.json)?.write_report(
        "weir.port.stat/1",
        || stat_json(&found),
        || text(&found),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Removes the port of a dead reader.
pub fn remove(name: &Path) -> Result<ExitCode, Fault> {
    check_name(name)?;
    weir::Port::remove(name)?;
    Ok(ExitCode::SUCCESS)
}

fn text(port: &PortStat) -> String {
    let mut text = format!("port      {}\n", printable(&port.path.to_string_lossy()));
    let Some(pid) = port.reader else {
        return text + "reader    gone (stale: weir port remove removes the name)\n";
    };
    text += &format!("reader    {}\n", reader(pid));
    match &port.account {
        Some(account) => text += &account_text(account),
        None => text += "          its counters cannot be seen from here\n",
    }
    if port.writers.is_empty() {
        return text;
    }
    let mut table = aligned(
        [
            "writer", "user", "group", "sent", "bytes", "received", "ring", "waits", "spun",
            "slept", "asleep", "",
        ],
        1..12,
    );
    for writer in &port.writers {
        table.add_row(writer_row(writer));
    }
    text + &trimmed(&table) + "\n"
}

fn account_text(account: &PortAccount) -> String {
    format!(
        "received  {} messages, {}\nwaited    {} times; spun {} times; slept {} times, {}\n\
         writers   {} open; {} came, {} closed, {} died or were shut out\n",
        count(account.messages),
        bytes(account.bytes),
        count(account.waits),
        count(account.spun),
        count(account.slept),
        seconds(account.slept_ns),
        account.open,
        account.opened,
        account.closed,
        account.died,
    )
}

fn writer_row(writer: &PortWriterStat) -> [String; 12] {
    let own = &writer.end.account;
    let state = match (writer.let_in, writer.end.waits) {
        (false, _) => "not admitted",
        (_, true) => "waits for room",
        _ => "",
    };
    [
        process(writer.pid as u32),
        writer.uid.to_string(),
        writer.gid.to_string(),
        count(writer.pieces),
        bytes(writer.bytes),
        count(writer.received),
        capacity(writer.capacity_bytes),
        count(own.waits),
        count(own.spun),
        count(own.slept),
        seconds(own.slept_ns),
        state.to_owned(),
    ]
}

fn stat_json(port: &PortStat) -> Value {
    json!({
        "path": port.path.display().to_string(),
        "stale": port.reader.is_none(),
        "reader": port.reader.map(reader_json),
        "account": port.account.map(|account| json!({
            "messages": account.messages,
            "bytes_in": account.bytes,
            "waits": account.waits,
            "spins": account.spun,
            "sleeps": account.slept,
            "slept_s": json::seconds(account.slept_ns),
            "wakes_taken": account.wakes_taken,
            "writers_open": account.open,
            "writers_opened": account.opened,
            "writers_closed": account.closed,
            "writers_died": account.died,
        })),
        "writers": port.writers.iter().map(writer_json).collect::<Vec<_>>(),
    })
}

fn writer_json(writer: &PortWriterStat) -> Value {
    let own = &writer.end.account;
    let more = json!({
        "let_in": writer.let_in,
        "bytes_out": writer.bytes,
        "pieces": writer.pieces,
        "pieces_received": writer.received,
        "capacity_bytes": writer.capacity_bytes,
        "waits": own.waits,
        "spins": own.spun,
        "sleeps": own.slept,
        "slept_s": json::seconds(own.slept_ns),
        "waiting": writer.end.waits,
    });
    json::process(writer.pid, Some(writer.uid), more)
}

fn reader(pid: i32) -> String {
    match pid {
        0 => String::from("a process of another pid namespace"),
        pid => process(pid as u32),
    }
}
