//! The house rules as code: each rule reads text and returns what is wrong with it.
//!
//! In the order they run:
//! - [`files`]: which files there are (what git tracks).
//! - [`arrows`]: which crate may depend on which.
//! - [`source`]: one Rust file as lines and tokens; the next three read it.
//! - [`lines`]: lengths, ASCII, the opening comment, words that must not stay.
//! - [`syntax`]: length of functions, banned macros and attributes, sleeping tests, pure policy.
//! - [`unsafety`]: where `unsafe` may stand, and the comment that goes with it.
//! - [`paths`]: no path of somebody's machine in any text.
//!
//! Rules take text rather than files, so that `tests` beside them can show a bad and a good
//! sample of each.

pub mod arrows;
pub mod files;
pub mod lines;
pub mod paths;
pub mod source;
pub mod syntax;
pub mod unsafety;

#[cfg(test)]
mod tests;

use source::Source;
use std::fmt;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, relative to the root of the workspace.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// A short name of the rule.
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub text: String,
}

impl Fault {
    /// A fault in `file` at `line`.
    pub fn new(file: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, rule, text: text.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.file, self.line, self.rule, self.text)
    }
}

/// All rules for one tracked text file.
pub fn check(path: &str, text: &str) -> Vec<Fault> {
    let mut faults = paths::machine_paths(path, text);
    if lines::is_code(path, text) {
        faults.extend(lines::ascii(path, text));
        faults.extend(lines::leftovers(path, text));
    }
    if path.ends_with(".rs") {
        faults.extend(lines::file_length(path, text));
        faults.extend(lines::opening(path, text));
        match Source::parse(path, text) {
            Ok(source) => faults.extend(check_source(&source)),
            Err(fault) => faults.push(fault),
        }
    }
    faults
}

fn check_source(source: &Source) -> Vec<Fault> {
    [
        lines::long_lines,
        syntax::function_length,
        syntax::banned,
        syntax::sleeps,
        syntax::pure_policy,
        unsafety::headers,
        unsafety::places,
        unsafety::comments,
    ]
    .iter()
    .flat_map(|rule| rule(source))
    .collect()
}

/// Fails with every fault on a line of its own.
///
/// # Panics
/// When there is a fault.
pub fn demand_none(faults: &[Fault]) {
    let list: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert!(list.is_empty(), "{} broken house rules:\n{}\n", list.len(), list.join("\n"));
}
