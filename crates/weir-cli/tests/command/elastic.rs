//! `weir run --elastic`: buffers keep bytes and status. They are put in where the user asked for
//! them, or where an earlier run of the same pipeline has shown that they would help.

use crate::common::port::{Place, said};
use crate::common::{Ran, WEIR, have, truth_of_sleepers, weir_run, weir_run_in};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Bursts of 4 MB every 200 ms, and a reader of 20 MB/s: both sides wait in turn.
const BURSTS: &str =
    "perl -e '$b=\"x\" x 4e6;for(1..3){syswrite STDOUT,$b;select(undef,undef,undef,.2)}'";
const PACED: &str =
    "perl -e 'while(sysread STDIN,$b,65536){$n+=length $b;select(undef,undef,undef,.003)}print $n'";
const BYTES: &str = "12000000";

const NOT_PUT_IN: &str = "no elastic buffer was put in: no earlier run of this pipeline showed";

fn bursty() -> String {
    format!("{BURSTS} | {PACED}")
}

/// What is remembered below `state`.
fn remembered(state: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(state.join("weir/elastic.json")).expect("remembered");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(file["schema"], "weir.elastic/1");
    file["seen"].as_array().expect("a list").clone()
}

/// The stages that weir put in.
fn inserted(ran: &Ran) -> Vec<bool> {
    let stages = ran.json["stages"].as_array().expect("stages");
    assert!(stages.iter().all(|stage| stage["relay"] == stage["inserted"]), "{}", ran.json);
    stages.iter().map(|stage| stage["inserted"] == true).collect()
}

fn same(args: &[&str], stdout: &str, code: i32) -> Ran {
    let ran = weir_run(args);
    assert_eq!((ran.stdout().as_str(), ran.code()), (stdout, code), "{args:?}: {}", ran.stderr());
    ran
}

#[test]
fn buffers_keep_the_bytes_and_are_stages_of_their_own() {
    let sorted = "seq 200000 | sort -rn | md5sum";
    let plain = weir_run(&[sorted]);
    let ran = same(&["--elastic=2,1", sorted], &plain.stdout(), 0);
    assert_eq!(inserted(&ran), [false, true, false, true, false]);
    assert_eq!(ran.json["stages"][1]["command"], "weir buffer");
    assert_eq!(ran.json["pipes"].as_array().map(Vec::len), Some(4));
    assert_eq!(ran.stderr().matches("weir buffer (put in)").count(), 4);
    let ran = same(&["--elastic=2", sorted], &plain.stdout(), 0);
    assert_eq!(inserted(&ran), [false, false, true, false]);
    let words = ["--elastic=1", "--", "seq", "5", "|", "tail", "-1"];
    assert_eq!(inserted(&same(&words, "5\n", 0)), [false, true, false]);
}

#[test]
fn the_status_is_the_pipeline_s() {
    same(&["--elastic=1", "echo x | sh -c 'cat; exit 3'"], "x\n", 3);
    same(&["--elastic=1", "sh -c 'echo x; exit 4' | cat"], "x\n", 0);
    same(&["--elastic=1", "--pipefail", "sh -c 'echo x; exit 4' | cat"], "x\n", 4);
    same(&["--elastic=1", "echo x | sh -c 'cat; kill -9 $$'"], "x\n", 137);
    same(&["--elastic=1", "! echo x | cat"], "x\n", 1);
    same(&["--elastic=1", "echo x | weir-no-such-command"], "", 127);
    same(&["--elastic=1", "weir-no-such-command | wc -c"], "0\n", 0);
}

#[test]
fn a_reader_that_leaves_ends_buffer_and_writer() {
    for (args, code) in [(&["--elastic=1"][..], 0), (&["--elastic=1", "--pipefail"], 141)] {
        let ran = same(&[args, &["yes | head -2"]].concat(), "y\ny\n", code);
        for stage in 0..2 {
            let stage = &ran.json["stages"][stage];
            assert_eq!(stage["exit"]["signal"], 13, "{}", ran.stderr());
            assert_eq!(stage["closed_by_downstream"], true);
        }
    }
}

/// Runs a pipeline whose buffer holds bytes while `then` happens. Returns how weir ends.
fn with_buffer_that(then: &str) -> (i32, String) {
    // The reader waits until the test has dealt with the buffer.
    let script = format!(
        "mkfifo go; export WEIR_ELASTIC=$PWD/elastic.json
        $WEIR run -q --elastic=1 'head -c 3M /dev/zero | {{ read -r < go; wc -c; }}' & job=$!
        until buffer=$(pgrep -P $job -f 'buffer -q'); do :; done
        {then}; wait $job; echo status $?"
    );
    let output = Place::new().bash(&script);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.lines().find_map(|line| line.strip_prefix("status ")?.parse().ok());
    (status.unwrap_or_else(|| panic!("{text}")), said(&output))
}

#[test]
fn a_buffer_that_is_killed_is_no_success() {
    if !have(&["pgrep"]) {
        return;
    }
    let (status, said) = with_buffer_that("kill -9 $buffer; echo > go");
    let expected = "weir: the elastic buffer in pipe 1 failed (SIGKILL): bytes may be lost\n";
    assert_eq!((status, said.as_str()), (1, expected));
    // An interrupted job is not a failure of the buffer: weir dies of the interrupt.
    let (status, said) = with_buffer_that("kill -TERM $job");
    assert_eq!((status, said.as_str()), (143, ""));
}

#[test]
fn a_directory_that_is_missing_costs_a_line_and_no_bytes() {
    let place = Place::new();
    let output = place.bash("TMPDIR=missing $WEIR run -q --elastic=1 'seq 100000 | tail -1'");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"100000\n"[..]));
    let said = said(&output);
    assert!(said.starts_with("weir: cannot spill to 'missing': No such file"), "{said}");
    assert!(said.ends_with("using memory only\n"), "{said}");
}

/// To the kernel, memory with a descriptor is a file.
#[test]
fn a_limit_on_the_size_of_files_below_the_buffer_s_memory_fails_it_with_the_reason() {
    let run = "$WEIR run -q --elastic=1 'head -c 3000000 /dev/zero | wc -c'";
    let output = Place::new().bash(&format!("ulimit -f 100; {run}"));
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("File too large") && said.contains("bytes may be lost"), "{said}");
    let output = Place::new().bash(&format!("ulimit -f 300000; {run}"));
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"3000000\n"[..]));
}

#[test]
fn what_a_run_has_shown_is_used_by_the_next() {
    truth_of_sleepers(|| {
        let state = tempfile::tempdir().expect("a directory");
        // Without evidence weir puts in nothing. It remembers what this run shows, also with
        // --quiet.
        let first = weir_run_in(state.path(), &["--elastic", &bursty()]);
        assert_eq!((first.stdout().as_str(), first.stages()), (BYTES, 2), "{}", first.stderr());
        assert!(first.stderr().contains(NOT_PUT_IN), "{}", first.stderr());
        assert!(first.stderr().contains("run again with --elastic"), "{}", first.stderr());
        let seen = remembered(state.path());
        assert_eq!((seen.len(), &seen[0]["pipe"]), (1, &1.into()));
        assert!(seen[0]["longest_full_ms"].as_u64() >= Some(50), "{seen:?}");
        let file = state.path().join("weir/elastic.json");
        let text = std::fs::read_to_string(&file).expect("text");
        assert!(!text.contains("perl"), "a pipeline's text may hold secrets");
        let mode = std::fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        let second = weir_run_in(state.path(), &["--elastic", &bursty()]);
        assert_eq!((second.stdout().as_str(), second.code()), (BYTES, 0));
        assert_eq!(inserted(&second), [false, true, false], "{}", second.stderr());
        assert!(second.stderr().contains("an elastic buffer was put into pipe 1"));
        assert_ne!(second.culprit(), 2, "{}", second.stderr());
        assert_eq!(second.advices("elastic-buffer"), 0, "{}", second.stderr());
        // A run with buffers refutes nothing, and another text is another pipeline.
        assert_eq!(remembered(state.path()), seen);
        let other = weir_run_in(state.path(), &["--elastic", "seq 3 | cat"]);
        assert_eq!(other.stages(), 2);
        assert!(other.stderr().contains(NOT_PUT_IN), "{}", other.stderr());
        assert_eq!(remembered(state.path()), seen);
    });
}

#[test]
fn one_run_that_shows_the_opposite_is_not_believed_and_three_are() {
    truth_of_sleepers(|| {
        let state = tempfile::tempdir().expect("a directory");
        let script = state.path().join("write.sh");
        let text = format!("sh {} | {PACED}", script.display());
        std::fs::write(&script, BURSTS).expect("written");
        let ran = weir_run_in(state.path(), &["-q", &text]);
        assert_eq!((ran.stdout().as_str(), ran.stderr().as_str()), (BYTES, ""));
        assert_eq!(remembered(state.path()).len(), 1);
        // The writer is now slower than the reader. Weir takes nothing from a run in which it
        // looked at a pipe less than 20 times. In 0.6 s it looked 15 to 22 times.
        let slow = "perl -e '$|=1;for(1..42){print \"x\";select(undef,undef,undef,.03)}'";
        std::fs::write(&script, slow).expect("written");
        assert_eq!(weir_run_in(state.path(), &[&text]).stdout(), "42");
        let seen = remembered(state.path());
        assert_eq!(seen[0]["runs"], serde_json::json!([true, false]));
        let still = weir_run_in(state.path(), &["--elastic", &text]);
        assert_eq!(inserted(&still), [false, true, false], "{}", still.stderr());
        // On a busy host a run may show nothing, or the contrary: then it takes more runs.
        let opposite = || {
            let runs = remembered(state.path())[0]["runs"].as_array().cloned().expect("a list");
            runs.iter().rev().take(4).filter(|run| **run == false).count()
        };
        for _ in 0..8 {
            if opposite() < 3 {
                weir_run_in(state.path(), &["-q", &text]);
            }
        }
        assert_eq!(opposite(), 3, "{:?}", remembered(state.path()));
        let no_more = weir_run_in(state.path(), &["--elastic", &text]);
        assert_eq!(no_more.stages(), 2);
        let said =
            "no elastic buffer was put in: only 1 of the last 4 runs of this pipeline showed";
        assert!(no_more.stderr().contains(said), "{}", no_more.stderr());
    });
}

#[test]
fn advice_that_comparing_refuted_is_not_given_again() {
    truth_of_sleepers(|| {
        let state = tempfile::tempdir().expect("a directory");
        // The bursts come at fixed times: a writer that may continue earlier only sleeps longer.
        let punctual = "perl -MTime::HiRes=time,sleep -e '$b=\"x\" x 4e6;$t=time;for(1..2)\
                    {syswrite STDOUT,$b;$t+=.4;$d=$t-time;sleep $d if $d>0}'";
        let text = format!("{punctual} | {PACED}");
        let first = weir_run_in(state.path(), &["--compare", "--runs", "6", &text]);
        assert_eq!(first.advices("elastic-buffer"), 1, "{}", first.stderr());
        let second = weir_run_in(state.path(), &[&text]);
        assert_eq!(second.advices("elastic-buffer"), 0, "{}", second.stderr());
        let third = weir_run_in(state.path(), &["--elastic", &text]);
        assert_eq!(third.stages(), 2, "{}", third.stderr());
    });
}

#[test]
fn where_nothing_can_be_remembered_the_buffer_is_advised_by_hand() {
    truth_of_sleepers(|| {
        let mut command = Command::new(WEIR);
        command.args(["run", &bursty()]).env_remove("WEIR_ELASTIC").env_remove("XDG_STATE_HOME");
        let output = command.env_remove("HOME").stdin(Stdio::null()).output().expect("weir starts");
        let said = said(&output);
        assert!(
            said.contains("put an elastic buffer into pipe 1->2 (... | weir buffer | ...)"),
            "{said}"
        );
        assert!(!said.contains("--elastic"), "{said}");
    });
}

#[test]
fn without_evidence_nothing_is_written() {
    let state = tempfile::tempdir().expect("a directory");
    for args in [&["seq 3 | cat"][..], &["--elastic", "seq 3 | cat"], &["--elastic=1", "ls | wc"]] {
        weir_run_in(state.path(), args);
        assert!(!state.path().join("weir").exists(), "{args:?}");
    }
}

#[test]
fn what_cannot_be_read_or_written_costs_a_line() {
    truth_of_sleepers(|| {
        let state = tempfile::tempdir().expect("a directory");
        let file = state.path().join("weir/elastic.json");
        std::fs::create_dir(state.path().join("weir")).expect("made");
        std::fs::write(&file, "{\"schema\":").expect("written");
        let ran = weir_run_in(state.path(), &["--elastic", &bursty()]);
        assert_eq!((ran.stdout().as_str(), ran.code()), (BYTES, 0), "{}", ran.stderr());
        let said = "weir: cannot read what earlier runs showed from";
        assert!(ran.stderr().contains(said), "{}", ran.stderr());
        assert!(ran.stderr().contains("was damaged and is replaced"), "{}", ran.stderr());
        assert_eq!(remembered(state.path()).len(), 1);

        let refused = |place: &str| {
            let mut command = Command::new(WEIR);
            command.args(["run", "-q", "--elastic", &bursty()]).env("WEIR_ELASTIC", place);
            let output = command.stdin(Stdio::null()).output().expect("weir starts");
            assert_eq!((&output.stdout[..], output.status.code()), (BYTES.as_bytes(), Some(0)));
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        // Root gets no exception.
        let said = refused("/dev/null/elastic.json");
        assert!(said.contains("weir: cannot save in '/dev/null/elastic.json'"), "{said}");
        let directory = state.path().join("weir").display().to_string();
        assert!(refused(&directory).contains("not a file"));
    });
}

#[test]
fn wrong_numbers_are_refused_with_those_there_are() {
    let refused = |args: &[&str], said: &str| {
        let ran = weir_run(args);
        assert_eq!((ran.code(), ran.stdout().as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr().contains(said), "{args:?}: {}", ran.stderr());
    };
    let pipes = "cannot put a buffer into pipe 3: the pipes are 1 to 2, pipe n between stages n";
    refused(&["--elastic=1,3", "echo a | cat | cat"], pipes);
    refused(&["--elastic=0", "echo a | cat"], "pipe 0: the only pipe is 1");
    refused(&["--elastic=1", "echo a"], "the pipeline is one stage and has none");
    refused(&["--elastic=1", "--", "echo", "a"], "the pipeline is one stage and has none");
    refused(&["--elastic=x", "echo a | cat"], "not a list of pipe numbers");
    refused(&["--elastic=1", "echo a | cat && true"], "not one pipeline");
}

#[test]
fn a_script_runs_without_buffers_and_says_so() {
    let ran = same(&["--elastic", "echo a | cat && true"], "a\n", 0);
    assert!(ran.stderr().contains("write '| weir buffer |' into the text"), "{}", ran.stderr());
}

#[test]
fn a_buffer_that_was_typed_is_a_relay_and_needs_no_other() {
    truth_of_sleepers(|| {
        let state = tempfile::tempdir().expect("a directory");
        let typed = format!("{BURSTS} | '{WEIR}' buffer -q | {PACED}");
        let ran = weir_run_in(state.path(), &[&typed]);
        assert_eq!((ran.stdout().as_str(), ran.stages()), (BYTES, 3), "{}", ran.stderr());
        let buffer = &ran.json["stages"][1];
        assert_eq!((&buffer["relay"], &buffer["inserted"]), (&true.into(), &false.into()));
        assert_ne!(ran.culprit(), 2, "{}", ran.stderr());
        assert_eq!(ran.advices("elastic-buffer"), 0, "{}", ran.stderr());
    });
}

#[test]
fn compare_tries_the_buffer() {
    truth_of_sleepers(|| {
        let short = bursty().replace("1..3", "1..2").replace("4e6", "3e6");
        let ran = weir_run(&["--compare", "--runs", "6", &short]);
        let compare = &ran.json["compare"];
        let advised = compare["advised"].to_string();
        assert!(advised.contains("elastic buffer in pipe 1->2"), "{}", ran.stderr());
        assert_eq!(compare["not_tried"].as_array().map(Vec::len), Some(0), "{compare}");
        assert_eq!(compare["same_output"], true);
    });
}
