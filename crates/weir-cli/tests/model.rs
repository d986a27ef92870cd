//! `weir model`: scores, rows, predictions and storms as a user gets them (docs/contracts/model.md).

mod common;

use common::WEIR;
use std::path::Path;
use std::process::{Command, Output};

fn model(args: &[&str]) -> Output {
    Command::new(WEIR).arg("model").args(args).output().expect("weir")
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
    for word in ["published", "model", "error", "score: median error"] {
        assert!(first.contains(word), "{word}: {first}");
    }
    assert_eq!(first, said(&["bbn-pipe"]), "deterministic, and on its own machine by default");
}

#[test]
fn predictions_are_those_that_are_committed() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().display().to_string();
    said(&["predictions", "--out", &out]);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/predictions");
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
}
