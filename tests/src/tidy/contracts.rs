//! The tests that the contracts name: each `[file::test]` in `docs/contracts` exists.
//!
//! A name may begin with the crate (`cli`, `policy`, `sys`) or the kind (`unit`, `src`), followed
//! by folders, the file, modules and the test. Its last part may be a test, a module, or a file
//! that holds tests. A name that ends with `...` matches all that begin with it.

use super::TidyFault;
use super::circles::Texts;
use std::collections::BTreeSet;

/// Words before a name that are not part of a path; `loom` stands for the models, which are not a
/// file.
const KINDS: [&str; 3] = ["unit", "src", "loom"];

/// The path to one test: the parts of its file's path, the modules that contain it, and its name.
pub(super) type TestPath = Vec<String>;

/// Returns the paths of all tests.
pub(super) fn tests(texts: &Texts) -> BTreeSet<TestPath> {
    let mut places = BTreeSet::new();
    for (path, text) in texts.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let file: TestPath = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let mut modules: Vec<(usize, &str)> = Vec::new();
        let mut marked = false;
        for line in text.lines() {
            let words = line.trim_start();
            let indent = line.len() - words.len();
            let name = |rest: &'_ str| {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            };
            if let Some(rest) = words.strip_prefix("mod ").filter(|_| line.ends_with('{')) {
                modules.retain(|(depth, _)| *depth < indent);
                modules.push((indent, &rest[..name(rest)]));
            } else if words.starts_with("#[") {
                marked |= words.starts_with("#[test]") || words.starts_with("#[tokio::test");
            } else if let Some((_, rest)) = words.split_once("fn ").filter(|_| marked) {
                let within = modules.iter().filter(|(depth, _)| *depth < indent);
                let within = within.map(|(_, name)| (*name).to_owned());
                let test = rest[..name(rest)].to_owned();
                places.insert(file.iter().cloned().chain(within).chain([test]).collect());
                marked = false;
            }
        }
    }
    places
}

/// Whether the path contains the parts of a name in this order, possibly with others between.
fn leads(parts: &[&str], place: &TestPath) -> bool {
    let mut rest = place.iter();
    parts.iter().all(|part| {
        rest.any(|at| match part.strip_suffix("...") {
            Some(begin) => at.starts_with(begin),
            // Each product has a command of its own.
            None if *part == "cli" => at.ends_with("-cli") || at == "weir-command",
            None => at == part || at.strip_prefix("weir-") == Some(part),
        })
    })
}

/// Returns the names in the contracts that lead to no test.
pub fn named_tests(texts: &Texts) -> Vec<TidyFault> {
    let places = tests(texts);
    let mut faults = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| path.starts_with("docs/contracts/")) {
        for (start, _) in text.match_indices([' ', '\n']) {
            let list = text[start + 1..].strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let Some((list, _)) = list.filter(|(list, _)| list.contains("::")) else { continue };
            let line =
                text[..=start].lines().count() + usize::from(text[start..].starts_with('\n'));
            for name in list.split(',').map(str::trim) {
                let parts: Vec<&str> = name
                    .split(|c: char| c.is_whitespace() || c == ':')
                    .filter(|part| !part.is_empty() && !KINDS.contains(part))
                    .collect();
                if !parts.is_empty() && !places.iter().any(|place| leads(&parts, place)) {
                    let text = format!("`{name}` leads to no test");
                    faults.push(TidyFault::new(path, line, "contract", text));
                }
            }
        }
    }
    faults
}
