//! What `justfile` and `.ci/run` name: recipes lead to tests, and CI looks for each program that tests need.

use super::TidyFault;
use super::circles::Texts;
use super::contracts::{TestPath, tests};
use super::rules;

/// Returns the tests of recipes that are not there: cargo would run none, with status 0.
pub fn recipes(texts: &Texts) -> Vec<TidyFault> {
    let places = tests(texts);
    let mut faults = Vec::new();
    let lines = texts.get("justfile").into_iter().flat_map(|text| text.lines().enumerate());
    for (number, line) in lines {
        let Some((_, args)) = line.split_once("cargo test ") else { continue };
        let (mut words, mut package) = (args.split_whitespace(), "");
        while let Some(word) = words.next() {
            let named = match word {
                "-p" => {
                    // A package lies in a folder of its name, but for the library (docs/adr/0034).
                    package = words.next().unwrap_or_default();
                    package = if package == "weir-pipes" { "weir" } else { package };
                    continue;
                }
                "--target-dir" => {
                    words.next();
                    continue;
                }
                "--test" => words.next().unwrap_or_default(),
                _ if word.starts_with('-') => continue,
                _ => word,
            };
            let leads = |place: &TestPath| {
                place.iter().any(|part| part == package)
                    && place.iter().any(|part| part.contains(named))
            };
            if !places.iter().any(leads) {
                let text = format!("`{package}` has no test `{named}`");
                faults.push(TidyFault::new("justfile", number + 1, "recipe", text));
            }
        }
    }
    faults
}

/// Returns the programs for which tests look and `.ci/run` does not: their tests would be skipped in
/// silence.
pub fn tools(texts: &Texts) -> Vec<TidyFault> {
    let Some(ci) = texts.get(".ci/run") else { return Vec::new() };
    let is_known = |program: &str| {
        let pairs = ci.split_whitespace().filter_map(|word| word.split_once(':'));
        pairs.into_iter().any(|(name, _)| name == program)
    };
    let mut faults = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| rules::crate_of(path).is_some()) {
        for (at, call) in text.match_indices("have(&[").chain(text.match_indices("Bed::new(&[")) {
            let line = text[..=at].lines().count();
            let list = text[at + call.len()..].split(']').next().unwrap_or_default();
            for program in list.split('"').skip(1).step_by(2).filter(|name| !is_known(name)) {
                let text = format!("`.ci/run` does not look for `{program}`");
                faults.push(TidyFault::new(path, line, "tools", text));
            }
        }
    }
    faults
}
