//! Scripts by hand-written processes: which failure is told of, and as what.

use super::*;
use crate::ending::SIGPIPE;
use alloc::string::String;
use alloc::vec;

fn process(
    parent: Option<usize>,
    command: &str,
    (start_ns, end_ns): (u64, u64),
    ending: Ending,
) -> SeenProcess {
    SeenProcess {
        parent,
        program: String::from(command.split(' ').next().unwrap_or_default()),
        executed: String::from(command),
        command: String::from(command),
        known: true,
        start_ns,
        end_ns,
        ending: Some(ending),
        ..SeenProcess::default()
    }
}

fn child(command: &str, span: (u64, u64), code: i32) -> SeenProcess {
    process(Some(0), command, span, Ending::Code(code))
}

fn script(code: i32) -> SeenProcess {
    process(None, "bash", (0, 100), Ending::Code(code))
}

/// The failures of a script; `stops`: it says `set -e`, `asks`: these are in conditions.
fn found(seen: &[SeenProcess], stops: bool, asks: &[usize]) -> Vec<(usize, Role)> {
    let script = ScriptEnd {
        ending: seen[0].ending,
        stops: &|_| stops,
        cleans_up: &|_| false,
        asks: &|at| asks.contains(&at),
    };
    failures(seen, &script).into_iter().map(|failure| (failure.process, failure.role)).collect()
}

/// `bash x.sh failed with status 1` was all that a cron job's mail said.
#[test]
fn the_command_that_ended_a_script_is_named() {
    let seen = [script(1), child("seq 9", (10, 20), 0), child("grep x f", (30, 40), 1)];
    assert_eq!(found(&seen, true, &[]), [(2, Role::Ended)]);
    assert_eq!(found(&seen, false, &[]), [(2, Role::Last)], "nothing says that it ends there");
    // `grep x f || exit 1`
    assert_eq!(found(&seen, true, &[2]), [(2, Role::Last)]);
}

#[test]
fn what_the_script_went_on_after_did_not_end_it() {
    let seen = [script(3), child("cc x.c", (10, 20), 1), child("echo", (30, 40), 0)];
    assert_eq!(found(&seen, true, &[]), [(1, Role::Other)]);
    assert_eq!(found(&seen, true, &[1]), []);
}

/// `sort big | head -1` under `set -eo pipefail`: 141, and not a word.
#[test]
fn a_writer_whose_reader_left_ends_a_script_under_pipefail_only() {
    let sort = process(Some(0), "sort big", (10, 40), Ending::Signal(SIGPIPE));
    let seen = |code| [script(code), sort.clone(), child("head -1", (10, 39), 0)];
    assert_eq!(found(&seen(141), true, &[]), [(1, Role::Ended)]);
    assert_eq!(found(&seen(0), true, &[]), []);
}

#[test]
fn answers_are_no_failures() {
    let seen = [
        script(0),
        child("grep -q x f", (1, 2), 1),
        child("diff a b", (3, 4), 1),
        child("which pigz", (5, 6), 1),
        child("/usr/bin/test -f x", (7, 8), 1),
        child("false", (9, 10), 1),
        child("curl -s http://127.0.0.1:1/", (11, 12), 7),
        child("grep x nofile", (13, 14), 2),
        process(Some(0), "sleep 100", (15, 16), Ending::Signal(9)),
        process(Some(0), "cc1 x.c", (17, 18), Ending::Signal(11)),
    ];
    let others = [6, 7, 9].map(|at| (at, Role::Other));
    assert_eq!(found(&seen, false, &[]), others);
}

/// xargs and `sh -c` pass on what failed below them.
#[test]
fn a_failure_is_told_where_it_happened() {
    let mut seen = vec![
        script(123),
        child("xargs -n1 cc", (1, 50), 123),
        process(Some(1), "cc a.c", (2, 3), Ending::Code(1)),
    ];
    assert_eq!(found(&seen, false, &[]), [(1, Role::Last), (2, Role::Other)]);
    seen[0].ending = Some(Ending::Code(0));
    seen.push(child("true", (60, 61), 0));
    assert_eq!(found(&seen, false, &[]), [(2, Role::Other)]);
}

#[test]
fn a_text_says_whether_the_first_failure_ends_it() {
    for text in [
        "set -e",
        "set -euo pipefail\nx",
        "cd x\nset -x; set -eu",
        "set -o errexit",
        "set -o pipefail -e",
        "#!/bin/bash -e\nx",
        "#!/bin/sh -eu",
        "main() { set -e; }",
    ] {
        assert!(stops_at_failures(text), "{text}");
    }
    for text in [
        "set -x",
        "set -o pipefail",
        "#!/usr/bin/env bash\nset -u # -e is for others",
        "echo set -e",
        "set -- -e",
        "offset -e",
    ] {
        assert!(!stops_at_failures(text), "{text}");
    }
}
