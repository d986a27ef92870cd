//! The house rules as code: each rule reads text and returns what is wrong with it.
//!
//! - [`files`]: the files that git tracks.
//! - [`arrows`]: which crate may depend on which, and which room of the library may import which.
//! - [`circles`]: no group of files in a crate imports each other in a circle.
//! - [`rules`]: what a line, a file, the root of a crate and a test may hold.
//! - [`contracts`]: each test that a contract names exists.
//! - [`commands`]: what the justfile and CI name exists.
//! - [`source`]: one Rust file as tokens.
//!
//! Rules take text rather than files, so that the `tests` beside them can show a bad and a good
//! sample of each.

pub mod arrows;
pub mod circles;
pub mod commands;
pub mod contracts;
pub mod files;
pub mod rules;
pub mod source;

#[cfg(test)]
mod tests;

use source::SourceFile;
use std::fmt;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TidyFault {
    /// The file, relative to the root of the workspace.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The short name of the rule.
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub text: String,
}

impl TidyFault {
    /// Creates a fault in `file` at `line`.
    pub fn new(file: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, rule, text: text.into() }
    }
}

impl fmt::Display for TidyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.file, self.line, self.rule, self.text)
    }
}

/// Applies all rules to one tracked text file.
pub fn check(path: &str, text: &str) -> Vec<TidyFault> {
    let mut faults = rules::lines(path, text);
    if path.ends_with(".rs") {
        faults.extend(rules::file(path, text));
        faults.extend(rules::headers(path, text));
        match SourceFile::parse(path, text) {
            Ok(source) => faults.extend(rules::tokens(&source, text)),
            Err(fault) => faults.push(fault),
        }
    }
    faults
}

/// Fails with every fault on a line of its own.
///
/// If there is a fault.
pub fn demand_none(faults: &[TidyFault]) {
    let list: Vec<String> = faults.iter().map(TidyFault::to_string).collect();
    assert!(list.is_empty(), "{} broken house rules:\n{}\n", list.len(), list.join("\n"));
}
