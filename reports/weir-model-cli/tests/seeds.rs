//! `reports/seeds.md` lists what the four reports have and where it is in weir. Each entry that it
//! names must exist: suites and their cases, verbs and their options, experiments of the model,
//! published tables, items of the source, and pages.

mod common;

use common::{Binary, WEIR};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The words before the colon of a reference.
const KINDS: [&str; 6] = ["suite", "verb", "model", "data", "item", "page"];
/// Words that begin the definition of an item, and so are before its name.
const DEFINES: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "pub"];
/// What a row may say of itself.
const STATUS: [&str; 3] = ["works", "nearly", "not there"];
/// What a row without a reference has to say.
const ABSENT: [&str; 2] = ["not yet", "not in weir"];
/// The reports, in the order of the page, and the fewest rows of each.
const REPORTS: [(&str, usize); 4] = [("BBN", 40), ("Joy", 50), ("Allen", 35), ("Franke", 30)];

/// A row of a table: its line, its cells, and the report that its section is about.
struct Row {
    line: usize,
    report: String,
    cells: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// Returns the rows of all tables.
fn rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut report = String::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("## ") {
            title.split_whitespace().next().unwrap_or_default().clone_into(&mut report);
        }
        let Some(inner) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            continue;
        };
        let cells: Vec<String> = inner.split('|').map(|cell| cell.trim().to_owned()).collect();
        if cells[0] != "#" && !cells[0].starts_with("---") {
            rows.push(Row { line: at + 1, report: report.clone(), cells });
        }
    }
    rows
}

/// Returns the references of a text: what is in backticks and begins with a kind and a colon.
fn references(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|word| word.split_once(':'))
        .filter(|(kind, _)| KINDS.contains(kind))
        .collect()
}

/// What the command says of itself: its suites with their cases, the model's experiments, and the
/// help of verbs that were looked at.
struct Weir {
    cases: Vec<String>,
    experiments: Vec<String>,
    help: BTreeMap<String, Option<String>>,
}

impl Weir {
    fn ask() -> Weir {
        for binary in ["weir-bench", "weir-net"] {
            Binary(binary).need();
        }
        let said = |args: &[&str]| said(args).unwrap_or_else(|| panic!("weir {args:?} works"));
        let list = said(&["bench", "--list", "--json", "-"]);
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let mut cases = Vec::new();
        for suite in list["suites"].as_array().expect("suites") {
            let name = suite["suite"].as_str().expect("a name");
            let of_suite = suite["cases"].as_array().expect("cases").iter();
            let titles = of_suite.map(|case| case["case"].as_str().expect("a name"));
            cases.extend(titles.map(|title| format!("{name}/{title}")));
        }
        let model = said(&["model", "list"]);
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
        Weir { cases, experiments: model.lines().map(first).collect(), help: BTreeMap::new() }
    }

    /// Why this reference leads nowhere, if it does.
    fn fault(&mut self, kind: &str, target: &str) -> Option<String> {
        let missing = |what: &str| Some(format!("`{kind}:{target}`: {what}"));
        match kind {
            "suite" => {
                let (suite, case) = target.split_once('/').unwrap_or((target, ""));
                let is = |name: &String| {
                    name.split_once('/')
                        .is_some_and(|(at, rest)| at == suite && rest.contains(case))
                };
                if self.cases.iter().any(is) { None } else { missing("there is no such case") }
            }
            "verb" => {
                let words: Vec<&str> = target.split_whitespace().collect();
                let verb = words.iter().take_while(|word| !word.starts_with('-'));
                let verb: Vec<&str> = verb.copied().collect();
                let help = self.help.entry(verb.join(" ")).or_insert_with(|| {
                    said(&verb.iter().copied().chain(["--help"]).collect::<Vec<_>>())
                });
                let Some(help) = help else { return missing("there is no such verb") };
                let mut options = words[verb.len()..].iter();
                let has = |option: &&str| {
                    let ends = |c: char| !c.is_alphanumeric() && c != '-';
                    help.split(ends).any(|word| word == *option)
                };
                options
                    .all(has)
                    .then_some(())
                    .map_or_else(|| missing("there is no such option"), |()| None)
            }
            "model" if self.experiments.iter().any(|name| name == target) => None,
            "model" => missing("there is no such experiment"),
            "data" => {
                let used = read("reports/weir-model/src/published.rs").expect("the tables");
                let there =
                    root().join("reports/data").join(target).is_file() && used.contains(target);
                if there { None } else { missing("no suite stands beside such a table") }
            }
            "page" if root().join(target).is_file() => None,
            "page" => missing("there is no such page"),
            _ => {
                let Some((path, name)) = target.split_once('#') else { return missing("no '#'") };
                match read(path) {
                    Err(error) => missing(&error),
                    Ok(text) if defines(&text, name) => None,
                    Ok(_) => missing("the file defines no such item"),
                }
            }
        }
    }
}

/// Runs the command. Returns its output if it ends well.
fn said(args: &[&str]) -> Option<String> {
    let output = Command::new(WEIR).args(args).output().expect("weir");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a source file defines an item, a variant or a field of this name.
fn defines(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.lines().map(str::trim).filter(|line| !line.starts_with("//")).any(|line| {
        let words: Vec<&str> =
            line.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
        let defined = words.windows(2).any(|pair| DEFINES.contains(&pair[0]) && pair[1] == name);
        let rest = line.strip_prefix(name);
        defined
            || rest.is_some_and(|rest| rest.starts_with([',', '(', ':']) || rest.starts_with(" {"))
    })
}

#[test]
fn every_entry_of_the_seeds_exists() {
    let text = read("reports/seeds.md").expect("the page");
    let mut weir = Weir::ask();
    let mut faults = Vec::new();
    for row in rows(&text) {
        let mut fault =
            |text: String| faults.push(format!("reports/seeds.md:{}: {text}", row.line));
        let [_, _, status, place, result] = &row.cells[..] else {
            fault(format!("{} columns, not 5", row.cells.len()));
            continue;
        };
        if !STATUS.contains(&status.as_str()) {
            fault(format!("its status is '{status}', not one of {STATUS:?}"));
        }
        let found = references(place);
        if found.is_empty() != (status == "not there") {
            fault("a row names something in weir unless it is not there".into());
        }
        if found.is_empty() && !ABSENT.iter().any(|absent| result.starts_with(absent)) {
            fault("it names nothing, and does not say that it is missing".into());
        }
        if result.is_empty() {
            fault("it has no result".into());
        }
        found.iter().filter_map(|(kind, target)| weir.fault(kind, target)).for_each(fault);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_report_is_there_and_no_row_twice() {
    let text = read("reports/seeds.md").expect("the page");
    let rows = rows(&text);
    for (report, fewest) in REPORTS {
        let count = rows.iter().filter(|row| row.report == report).count();
        assert!(count >= fewest, "{report}: {count} rows");
    }
    let mut numbers = BTreeMap::new();
    for row in &rows {
        let first = numbers.insert(&row.cells[0], row.line);
        assert!(
            first.is_none(),
            "{} is there twice: lines {first:?} and {}",
            row.cells[0],
            row.line
        );
    }
}

#[test]
fn what_was_taken_away_is_noticed() {
    let mut weir = Weir::ask();
    for (kind, target) in [
        ("suite", "bbn-pipe"),
        ("suite", "bbn-pipe/pipe, blocks of 4 KiB"),
        ("verb", "net ping --timestamp"),
        ("model", "joy-ipc"),
        ("data", "franke_2001_2way.csv"),
        ("page", "reports/seeds.md"),
        ("item", "crates/weir-policy/src/pool/protocol.rs#Bbn"),
        ("item", "crates/weir/src/flags.rs#wait_any"),
    ] {
        assert_eq!(weir.fault(kind, target), None);
    }
    for (kind, target) in [
        ("suite", "bbn-pipes"),
        ("suite", "bbn-pipe/blocks of 3 B"),
        ("verb", "net pong"),
        ("verb", "net ping --time"),
        ("model", "joy"),
        ("data", "README.md"),
        ("page", "docs/seed.md"),
        ("item", "crates/weir-policy/src/pool/protocol.rs#Bb"),
        ("item", "crates/weir-policy/src/pool/protocol.rs"),
        ("item", "crates/weir/src/flag.rs#wait_any"),
    ] {
        assert!(weir.fault(kind, target).is_some(), "{kind}:{target}");
    }
}
