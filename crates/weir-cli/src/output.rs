//! Standard output of the command, for people ([`print`]) and for programs ([`print_json`]).
//!
//! What is printed holds text that others chose: names of processes and files, reports of others.
//! Nothing of it reaches a terminal as a control character: here, and for messages on standard
//! error in [`crate::fault::tell`].

use crate::fault::Fault;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use weir_policy::text::{is_unsafe_to_print, printable_lines};

/// Writes text for people to standard output; a reader that has seen enough is no error.
pub fn print(text: &str) -> Result<(), Fault> {
    is_read(text).map(drop)
}

/// The same; false when nobody reads on.
pub fn is_read(text: &str) -> Result<bool, Fault> {
    is_written(&printable_lines(text))
}

/// Writes JSON to standard output; a reader that has seen enough is no error.
pub fn print_json(text: &str) -> Result<(), Fault> {
    is_json_read(text).map(drop)
}

/// The same; false when nobody reads on.
pub fn is_json_read(text: &str) -> Result<bool, Fault> {
    is_written(&escaped(text))
}

/// Shows text for people in place of what stands on the terminal; false when nobody reads on.
pub fn is_redrawn(text: &str) -> Result<bool, Fault> {
    let mut screen = String::from("\x1b[H");
    for line in printable_lines(text).lines() {
        screen += line;
        screen += "\x1b[K\n";
    }
    screen += "\x1b[J";
    is_written(&screen)
}

fn is_written(text: &str) -> Result<bool, Fault> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Fault::failed(format!("cannot write to standard output: {error}"))),
    }
}

/// JSON that says the same and can be looked at: what a terminal would act on can only stand in
/// strings, where JSON has escapes for it.
fn escaped(json: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| !matches!(c, '\n' | '\t') && is_unsafe_to_print(c);
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 32);
    for c in json.chars() {
        match c {
            // It can only stand between values.
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
