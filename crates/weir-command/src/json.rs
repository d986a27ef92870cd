//! The JSON documents of all verbs: how they begin, and the names that they share.
//!
//! `docs/contracts/json.md` states the grammar: a document is an object that begins with `schema`
//! and `weir_version`, and its keys keep the order in which they are written.

use crate::fault::Fault;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;
use weir_policy::text::is_unsafe_to_print;
pub use weir_sys::proc::{gid, name as command, uid};

/// A document: the keys that all begin with, then those of the verb.
#[derive(Serialize)]
struct Envelope<'a, B> {
    schema: &'a str,
    weir_version: &'static str,
    #[serde(flatten)]
    body: B,
}

/// Writes the document of a schema as indented text, with a newline at its end.
pub fn document(schema: &str, body: impl Serialize) -> Result<String, Fault> {
    ended(serde_json::to_string_pretty(&begun(schema, body)))
}

/// Writes the document of a schema on one line, for documents that follow one another.
pub fn line(schema: &str, body: impl Serialize) -> Result<String, Fault> {
    ended(serde_json::to_string(&begun(schema, body)))
}

fn begun<B>(schema: &str, body: B) -> Envelope<'_, B> {
    Envelope { schema, weir_version: env!("CARGO_PKG_VERSION"), body }
}

/// Writes a value that is a whole document by itself, on one line.
pub fn whole(value: &impl Serialize) -> Result<String, Fault> {
    ended(serde_json::to_string(value))
}

fn ended(text: serde_json::Result<String>) -> Result<String, Fault> {
    let text = text.map_err(Fault::cannot("make JSON"))?;
    Ok(escaped(&text).into_owned() + "\n")
}

/// Escapes the characters on which a terminal would act, so that the JSON can be printed. They occur
/// only in strings, where JSON has escapes for them.
pub fn escaped(json: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| !matches!(c, '\n' | '\t') && is_unsafe_to_print(c);
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 32);
    for c in json.chars() {
        match c {
            // It can only occur between values.
            '\r' => out.push(' '),
            c if is_unsafe(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Converts a duration to seconds, the unit of all durations in JSON.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// An object for a process: `pid`, `command`, `uid` and `gid`, then what the verb adds. Unknown
/// values are null. The user is looked up if the verb does not know it.
pub fn process(pid: i32, known_uid: Option<u32>, more: Value) -> Value {
    let pid = Some(pid).filter(|pid| *pid > 0);
    let uid = known_uid.or_else(|| pid.and_then(uid));
    let (command, gid) = (pid.and_then(command), pid.and_then(gid));
    joined([json!({ "pid": pid, "command": command, "uid": uid, "gid": gid }), more])
}

/// Joins objects: the names of each behind those of the one before. What is not an object adds
/// nothing.
pub fn joined<const N: usize>(objects: [Value; N]) -> Value {
    let mut all = Map::new();
    for object in objects {
        if let Value::Object(object) = object {
            all.extend(object);
        }
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_the_same_and_holds_nothing_that_a_terminal_acts_on() {
        let value =
            serde_json::json!({"name": "a\u{9b}2J\u{7f}\u{202e}\u{2028}b\u{1b}\u{e0041}\n"});
        let text = format!("{value:#}\n");
        let safe = escaped(&text);
        assert!(safe.chars().all(|c| c == '\n' || !is_unsafe_to_print(c)), "{safe:?}");
        assert!(serde_json::from_str::<serde_json::Value>(&safe).is_ok_and(|read| read == value));
        assert!(matches!(escaped("{\"a\": \"\u{fc}\"}\n"), Cow::Borrowed(_)));
    }
}
