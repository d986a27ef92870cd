//! `weir run --compare 'A' 'B' ...`: which is faster, whether weir is sure of it, and whether they
//! do the same work. No test asserts a duration, except that a sleep is slower than nothing.

use crate::common::schema;
use crate::common::{WEIR, alone, bound, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::{Command, Stdio};

struct Compared {
    code: Option<i32>,
    stdout: Vec<u8>,
    said: String,
    json: Value,
}

fn compare(args: &[&str]) -> Compared {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("compare.json");
    let mut command = Command::new(WEIR);
    command.args(["run", "--compare", "--json"]).arg(&file).args(args);
    if !args.contains(&"--runs") {
        command.args(["--runs", "6"]);
    }
    command.env_remove("COLUMNS").env("XDG_STATE_HOME", directory.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("weir starts");
    bound(&child);
    let output = child.wait_with_output().expect("weir ends");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    Compared {
        code: output.status.code(),
        stdout: output.stdout,
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
        json: match text.is_empty() {
            true => Value::Null,
            false => schema::check_text("weir.run.compare/1", text.as_bytes()),
        },
    }
}

#[test]
fn the_faster_of_three_is_named_and_the_first_is_run_against_itself() {
    let _alone = alone();
    let ran = compare(&["sleep 0.2 && echo x", "echo x | cat", "sleep 0.2 ; echo x"]);
    assert_eq!((ran.code, ran.stdout.as_slice()), (Some(0), &b""[..]), "{}", ran.said);
    let json = &ran.json;
    assert_eq!((&json["rounds"], &json["same_output"]), (&6.into(), &true.into()), "{json}");
    let pipelines = json["pipelines"].as_array().expect("pipelines");
    assert_eq!(pipelines.len(), 3);
    assert_eq!(pipelines[0]["against_first"], Value::Null);
    let second = &pipelines[1]["against_first"];
    assert_eq!(second["verdict"]["kind"], "faster", "{json}");
    assert!(second["ratio"].as_f64() < Some(0.9) && second["high"].as_f64() < Some(1.0), "{json}");
    for pipeline in pipelines {
        assert_eq!(pipeline["wall_s"].as_array().map(Vec::len), Some(6));
        assert_eq!((&pipeline["bytes_out"], &pipeline["exit_status"]), (&2.into(), &0.into()));
    }
    assert_eq!(json["twin_s"].as_array().map(Vec::len), Some(6));
    assert!(json["resolves_share"].as_f64() > Some(0.0), "{json}");
    assert!(ran.said.contains("1 against itself: this host resolves"), "{}", ran.said);
    assert!(ran.said.contains("output: the same bytes in all runs"), "{}", ran.said);
    let last = ran.said.lines().last().unwrap_or_default();
    assert!(last.starts_with("'echo x | cat' is ") && last.contains(" faster than 'sleep 0.2 && "));
}

/// It always ended with 0.
#[test]
fn a_gate_has_an_answer_for_slower_for_not_slower_and_for_neither() {
    let _alone = alone();
    for (texts, code) in
        [(["true", "sleep 0.3"], 1), (["sleep 0.3", "true"], 0), (["true", "false"], 3)]
    {
        let ran = compare(&["--fail-if-slower", texts[0], texts[1]]);
        assert_eq!(ran.code, Some(code), "{}", ran.said);
        assert!(ran.said.contains("slower than 1 by more than 5 %"), "{}", ran.said);
    }
    let ran = compare(&["--fail-if-slower=100000000%", "true", "sleep 0.3"]);
    assert_eq!(ran.code, Some(2), "{}", ran.said);
    let ran = compare(&["--fail-if-slower", "true"]);
    assert_eq!(ran.code, Some(2), "{}", ran.said);
    assert!(ran.said.contains("needs several pipelines"), "{}", ran.said);
}

#[test]
fn other_bytes_are_reported_and_other_statuses_are_not_judged() {
    let _alone = alone();
    let ran = compare(&["printf a", "printf b"]);
    assert_eq!(ran.code, Some(0), "{}", ran.said);
    assert!(ran.said.contains("2 wrote different bytes than 1"), "{}", ran.said);
    assert_eq!(ran.json["same_output"], false);
    let ran = compare(&["cat /dev/null", "cat /nosuch"]);
    assert_eq!(ran.code, Some(1), "{}", ran.said);
    assert!(ran.said.contains("2 ended with status 1, 1 with status 0"));
    assert!(!ran.said.contains("faster"), "{}", ran.said);
    let row = ran.said.lines().find(|line| line.starts_with("2 cat /nosuch ")).expect("a row");
    assert!(row.ends_with("not judged") && !row.contains('x'), "{row}");
    assert_eq!(ran.json["pipelines"][1]["against_first"]["verdict"]["kind"], "not judged");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    for (args, said) in [
        (&["true", "# nothing"][..], "pipeline 2 holds no command"),
        (&["true", "true", "--runs", "3"], "6 to 2048"),
        (&["true", "cat |"], "syntax error"),
    ] {
        let ran = compare(args);
        assert_eq!(ran.code, Some(2), "{}", ran.said);
        assert!(ran.said.contains(said), "{}", ran.said);
    }
    let piped = format!("echo x | {WEIR} run --compare cat 'cat -u'");
    let output = Command::new("sh").args(["-c", &piped]).output().expect("sh");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("can be read only once"));
}

#[test]
fn a_place_that_takes_no_file_for_the_output_is_named() {
    let mut command = Command::new(WEIR);
    command.args(["run", "--compare", "true", "true"]).env("TMPDIR", "/nosuch");
    let output = command.output().expect("weir");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot make a file for the output in '/nosuch'"), "{said}");
}

/// An interrupt that came between two runs, while weir read what the last one had written, was
/// lost.
#[test]
fn an_interrupt_between_two_runs_ends_the_comparison() {
    let mut command = Command::new(WEIR);
    command.args(["run", "--compare", "--runs", "6", "head -c 90000000 /dev/zero", "true"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("weir starts");
    bound(&child);
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let runs = || !std::fs::read_to_string(&children).expect("listed").is_empty();
    until("a run begins", runs);
    until("it has ended", || !runs());
    kill_process(Pid::from_child(&child), Signal::INT).expect("sent");
    let output = child.wait_with_output().expect("weir ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.as_ref()), (Some(130), "weir: interrupted\n"));
}

#[test]
fn each_run_reads_standard_input_from_its_beginning() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let input = directory.path().join("input");
    std::fs::write(&input, "b\na\n").expect("written");
    let script = format!("{WEIR} run --runs 6 --compare sort 'sort | cat' < {}", input.display());
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("output: the same bytes in all runs"), "{said}");
}

/// Nothing said whether a buffer had been put in.
#[test]
fn what_earlier_runs_showed_is_reported_of_each_pipeline() {
    let ran = compare(&["--elastic", "true | cat", "true"]);
    for number in [1, 2] {
        let said = format!("pipeline {number}: no elastic buffer was put in: no earlier run");
        assert!(ran.said.contains(&said), "{}", ran.said);
    }
}

/// Two names that were misspelt were timed, and one was "2461065.0x faster".
#[test]
fn what_cannot_be_started_is_neither_timed_nor_faster() {
    for pair in [
        ["nosuch-1", "nosuch-2"],
        ["true", "echo x | nosuch-2 | cat"],
        ["cd / && nosuch-1", "true"],
    ] {
        let ran = compare(&pair);
        assert_eq!((ran.code, &ran.json), (Some(1), &Value::Null), "{}", ran.said);
        assert!(
            ran.said.contains("nothing was compared") && ran.said.contains("nosuch"),
            "{}",
            ran.said
        );
        assert!(!ran.said.contains("faster"), "{}", ran.said);
    }
}
