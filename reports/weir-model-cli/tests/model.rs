//! `weir model`: scores, rows, predictions and storms as a user gets them (docs/contracts/model.md).

mod common;

use common::{WEIR, WEIR_MODEL, schema};
use std::path::Path;
use std::process::{Command, Output};

fn model(args: &[&str]) -> Output {
    Command::new(WEIR_MODEL).args(args).output().expect("weir")
}

fn said(args: &[&str]) -> String {
    let output = model(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The first words of the lines.
fn names(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn all_has_a_score_for_each_experiment_of_the_list() {
    let (list, all) = (said(&["list"]), said(&["all"]));
    assert!(names(&list).len() >= 8, "{list}");
    assert_eq!(names(&all), names(&list));
    assert!(all.lines().all(|line| line.contains("score: ")), "{all}");
}

#[test]
fn an_experiment_has_published_and_modelled_figures_and_the_same_bytes_each_time() {
    let first = said(&["bbn-pipe", "--machine", "pdp11-40"]);
    for word in ["published", "model", "error", "score: fitted: median error"] {
        assert!(first.contains(word), "{word}: {first}");
    }
    assert_eq!(first, said(&["bbn-pipe"]), "deterministic, and on its own machine by default");
}

#[test]
fn predictions_are_those_that_are_committed() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().display().to_string();
    said(&["predictions", "--out", &out]);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/data/predictions");
    let mut count = 0;
    for file in std::fs::read_dir(committed).expect("predictions") {
        let file = file.expect("a file");
        let written = std::fs::read(directory.path().join(file.file_name()));
        let kept = std::fs::read(file.path()).expect("read");
        assert!(written.is_ok_and(|text| text == kept), "{:?}", file.file_name());
        count += 1;
    }
    assert_eq!(count, 7);
}

#[test]
fn a_storm_passes_and_one_seed_can_be_run_again() {
    assert!(said(&["storm", "--seeds", "50"]).contains("50"));
    // The second option was once without effect, and the last seed ran no storm.
    assert!(said(&["storm", "--seed", "853", "--seeds", "2"]).starts_with("2 storms, "));
    let last = said(&["storm", "--seed", &u64::MAX.to_string()]);
    assert!(last.starts_with("1 storm, ") && !last.contains(" 0 events"), "{last}");
    assert_eq!(said(&["storm", "--seed", "853"]), said(&["storm", "--seed", "853"]));
}

#[test]
fn what_there_is_not_is_named() {
    let refused = |args: &[&str], code: i32, text: &str| {
        let output = model(args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(text), "{args:?}: {error}");
    };
    refused(&["nonsense"], 2, "nonsense");
    refused(&["bbn-pipe", "--machine", "abacus"], 1, "abacus");
    refused(&["predictions"], 2, "--out");
    refused(&["predictions", "--out", "/proc/nowhere"], 1, "/proc/nowhere");
    refused(&[], 2, "WHAT");
    refused(&["whatif"], 2, "REPORT");
    refused(&["whatif", "/nowhere.json", "--cpus", "2"], 1, "/nowhere.json");
    refused(&["whatif", "/nowhere.json"], 2, "nothing is changed");
    refused(&["whatif", "/dev/null", "--cpus", "2"], 1, "not a report");
    refused(&["whatif", "/dev/null", "--faster", "2=0"], 2, "factor");
    refused(&["franke", "--cpus", "2"], 2, "what-if");
    refused(&["storm", "--html", "x"], 2, "--html");
    refused(&["storm", "--machine", "abacus"], 2, "--machine");
    refused(&["franke", "--seeds", "2"], 2, "--seeds");
}

/// A report that `weir run` itself has written.
fn report(directory: &Path, pipeline: &str) -> String {
    let path = directory.join("report.json").display().to_string();
    let output = Command::new(WEIR).args(["run", "-q", "--json", &path, pipeline]).output();
    assert!(output.expect("weir").status.success());
    path
}

#[test]
fn what_if_takes_a_report_of_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let pipeline = "seq 600000 | gzip -9 | cksum >/dev/null";
    let path = report(directory.path(), pipeline);
    let text = said(&["whatif", &path, "--faster", "2=4x", "--cpus", "8", "--pipe-size", "1M"]);
    assert!(text.contains("stage 2 4x as fast") && text.contains("2 gzip -9"), "{text}");
    let found = said(&["whatif", &path, "--faster", "2=4x", "--json", "-"]);
    let found = schema::check_text("weir.model.whatif/1", found.as_bytes());
    assert!(found["speedup"].as_f64().is_some_and(|speedup| speedup > 1.0), "{found:#}");
    // The same report by standard input, and the same bytes.
    let file = std::fs::File::open(&path).expect("the report");
    let again = Command::new(WEIR_MODEL)
        .args(["whatif", "-", "--faster", "2=4x"])
        .stdin(file)
        .output()
        .expect("weir");
    let first = said(&["whatif", &path, "--faster", "2=4x"]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), first);
    // The output may replace the report. It was emptied before it was read, and where there was no
    // forecast.
    let kept = std::fs::read(&path).expect("there");
    assert!(!model(&["whatif", &path, "--faster", "9=4x", "--json", &path]).status.success());
    assert!(std::fs::read(&path).expect("there") == kept);
    assert_eq!(said(&["whatif", &path, "--faster", "2=4x", "--json", &path]), first);
    let replaced = std::fs::read(&path).expect("there");
    assert_eq!(schema::check_text("weir.model.whatif/1", &replaced), found);
}

#[test]
fn outcomes_are_json_and_a_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("all.html");
    let json = said(&["all", "--json", "-", "--html", &page.display().to_string()]);
    let found = schema::check_text("weir.model/1", json.as_bytes());
    let experiments = found["experiments"].as_array().expect("a list");
    assert_eq!(experiments.len(), names(&said(&["list"])).len());
    let page = std::fs::read_to_string(page).expect("a page");
    for word in ["allen-icmp", "<svg", "</html>"] {
        assert!(page.contains(word), "{word}");
    }
    for word in ["<script", "src=", "href=", "url("] {
        assert!(!page.contains(word), "the page is self-contained: {word}");
    }
}
