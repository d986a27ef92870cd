//! Scripts, and the lines that are found in them.

use super::*;
use weir_doctor::graph::line_of;

const SCRIPT: &str = r#"#!/bin/bash
set -e
in=$1
cut -d, -f1 "$in" | LC_ALL=C sort | uniq -c > names.txt
for f in *.csv; do
    gzip -c "$f" 2>>log | wc -c >> sizes
done
cat <<EOF | sort -r
cut -d, -f1 x | sort | uniq -c
EOF
if [[ $x # odd
then true; fi
total=$(grep -c 'a b' "$in" | tail -1)
{ head -1 a; tail +2 a; } | \
    gzip > out
"#;

fn line(executed: &[&str]) -> Option<usize> {
    let pipelines = pipelines(SCRIPT);
    line_of(&pipelines, executed, false).map(|at| pipelines[at].line)
}

#[test]
fn commands_are_found_by_what_was_executed() {
    assert_eq!(line(&["cut -d, -f1 in.csv", "sort", "uniq -c"]), Some(4));
    assert_eq!(line(&["gzip -c a b.csv", "wc -c"]), Some(6));
    assert_eq!(line(&["grep -c a b in.csv", "tail -1"]), Some(13));
    assert_eq!(line(&["tail +2 a"]), Some(14));
    assert_eq!(line(&["tar c ."]), None);
}

#[test]
fn a_here_document_is_no_command() {
    let pipelines = pipelines("cat <<-'A'\nsort x\n\tA\nsort y\n");
    let found: Vec<usize> = pipelines.iter().map(|pipeline| pipeline.line).collect();
    assert!(found.contains(&4) && !found.contains(&2), "{pipelines:?}");
}

#[test]
fn whatever_stands_there_the_reader_ends() {
    for text in ["", "fi fi fi", "<<", "a <<\n", "((", "'", "a | | b\nc\n", "\u{e9}<<\u{e9}\n"] {
        let _ = pipelines(text);
    }
    let deep = "( ".repeat(5000);
    let _ = pipelines(&deep);
    let odd = "x=(\n".repeat(3000);
    let _ = pipelines(&odd);
}

/// A script of half a million lines was counted again from its start for each of them, and one of
/// here-documents without an end was read again to its end for each of them. Both took hours.
#[test]
fn a_long_script_is_read_once() {
    for line in [":\n", "cat <<E\n", "(<<E\n", "'<<E\n"] {
        assert_eq!(pipelines(&line.repeat((1 << 20) / line.len())), [], "{line:?}");
    }
    let short = pipelines(&":\n".repeat(5000));
    assert_eq!(short.iter().map(|one| one.line).collect::<Vec<_>>(), Vec::from_iter(1..=5000));
}

/// The line of `gzip -c a` in a script that has this on another line.
fn beside(other: &str) -> Option<usize> {
    let pipelines = pipelines(&format!("false && gzip -c a\n{other}\n"));
    line_of(&pipelines, &["gzip -c a"], false).map(|at| pipelines[at].line)
}

#[test]
fn what_may_hide_the_command_takes_its_line() {
    for other in [
        ". lib.sh",
        "[ -f lib.sh ] && . lib.sh",
        "command source lib.sh",
        "eval \"$x\"",
        "eval 'gzip -c a'",
        "alias h='gzip -c'",
        "trap 'gzip -c a' EXIT",
        "trap \"true; $x\" EXIT",
        "sh -c 'gzip -c a'",
        "nice bash -ec \"$x\"",
        "x=`gzip -c a`",
        "x=`$y`",
        "\"$@\"",
        "coproc gzip -c a",
        "cat <<E\n$(gzip -c a)\nE",
        "[[ $x =~ a#b ]]; . lib.sh",
        "env A=1 gzip -c a",
        "echo a | gzip -c a",
    ] {
        assert_eq!(beside(other), None, "{other}");
    }
}

#[test]
fn what_cannot_have_run_the_command_leaves_its_line() {
    for other in [
        "trap 'rm -rf \"$tmp\"' EXIT",
        "trap cleanup EXIT",
        "trap - INT TERM",
        "eval 'set -- a'",
        "cat <<E\ngzip -c a\nE",
        "f() { sort \"$@\"; }; f gzip",
        "bash -c 'sort x'",
        "bash \"$script\"",
        "x=`basename \"$0\"`",
        "cd . && find . -name x",
        "# it's `gzip -c a`",
        "alias",
        "echo gzip -c a",
        "$x -c b",
    ] {
        assert_eq!(beside(other), Some(1), "{other}");
    }
}
