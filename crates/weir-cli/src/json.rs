//! The JSON documents of all verbs: how they begin, and what the same thing is called in each.
//!
//! `docs/contracts/json.md` states the grammar: a document is an object that begins with `schema`
//! and `weir_version`, and its keys keep the order in which they are written.

use crate::fault::Fault;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// What every document begins with, and then what a verb says.
#[derive(Serialize)]
struct Document<'a, B> {
    schema: &'a str,
    weir_version: &'static str,
    #[serde(flatten)]
    body: B,
}

/// The document of a schema as indented text, with a newline at its end.
pub fn document(schema: &str, body: impl Serialize) -> Result<String, Fault> {
    ended(serde_json::to_string_pretty(&begun(schema, body)))
}

/// The same on one line, for documents that follow one another.
pub fn line(schema: &str, body: impl Serialize) -> Result<String, Fault> {
    ended(serde_json::to_string(&begun(schema, body)))
}

fn begun<B>(schema: &str, body: B) -> Document<'_, B> {
    Document { schema, weir_version: env!("CARGO_PKG_VERSION"), body }
}

fn ended(text: serde_json::Result<String>) -> Result<String, Fault> {
    Ok(text.map_err(|error| Fault::failed(format!("cannot make JSON: {error}")))? + "\n")
}

/// Seconds, as every duration is given.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A process, such as the reader of something: `pid`, `command` and `uid`, and then what the verb
/// adds. What is not known is null; the user is looked up where the verb does not know it.
pub fn process(pid: i32, known_uid: Option<u32>, more: Value) -> Value {
    let pid = Some(pid).filter(|pid| *pid > 0);
    let uid = known_uid.or_else(|| pid.and_then(uid));
    let mut object = Map::new();
    object.insert(String::from("pid"), json!(pid));
    object.insert(String::from("command"), json!(pid.and_then(command)));
    object.insert(String::from("uid"), json!(uid));
    if let Value::Object(more) = more {
        object.extend(more);
    }
    Value::Object(object)
}

/// The name of a process, as the kernel has it: 15 bytes at most.
pub fn command(pid: i32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// The effective user of a process.
fn uid(pid: i32) -> Option<u32> {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
