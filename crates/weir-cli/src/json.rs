//! The JSON documents of all verbs: how they begin, and where they go.
//!
//! `docs/contracts/json.md` states the grammar: a document is an object that begins with `schema`
//! and `weir_version`, and its keys keep the order in which they are written.

use crate::args::JsonOption;
use crate::fault::Fault;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

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

/// Where documents go.
pub struct Sink {
    /// `None` is standard output.
    file: Option<(File, PathBuf)>,
}

impl Sink {
    /// Opens what the option names, if it is given. A verb does that before its work, so that a bad
    /// name is told at once.
    pub fn open(option: &JsonOption) -> Result<Option<Sink>, Fault> {
        let Some(path) = &option.file else { return Ok(None) };
        if option.is_stdout() {
            return Ok(Some(Sink { file: None }));
        }
        let file = File::create(path).map_err(|error| unwritten(path, error))?;
        Ok(Some(Sink { file: Some((file, path.clone())) }))
    }

    /// Writes text; false when nobody reads on, which is no error.
    pub fn write(&mut self, text: &str) -> Result<bool, Fault> {
        let written = match &mut self.file {
            None => std::io::stdout().lock().write_all(text.as_bytes()),
            Some((file, _)) => file.write_all(text.as_bytes()),
        };
        match (written, &self.file) {
            (Ok(()), _) => Ok(true),
            (Err(error), _) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            (Err(error), Some((_, path))) => Err(unwritten(path, error)),
            (Err(error), None) => {
                Err(Fault::failed(format!("cannot write to standard output: {error}")))
            }
        }
    }
}

fn unwritten(path: &Path, error: impl fmt::Display) -> Fault {
    Fault::failed(format!("cannot write '{}': {error}", path.display()))
}

/// Seconds, as every duration is given.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The process that is the reader or a writer of something, with what the verb adds; what is not
/// known of it is null.
pub fn process(pid: Option<i32>, more: Value) -> Value {
    let mut object = json!({
        "pid": pid,
        "command": pid.and_then(command),
        "uid": pid.and_then(uid),
    });
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
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
