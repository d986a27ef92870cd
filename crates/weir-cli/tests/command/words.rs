//! What the arguments of weir stand for: each first attempt does what the user meant.

use crate::common::port::said;
use crate::common::{WEIR, weir_run};
use std::process::{Command, Output, Stdio};

fn weir(args: &[&str]) -> Output {
    Command::new(WEIR).args(args).stdin(Stdio::null()).output().expect("weir starts")
}

#[test]
fn several_arguments_are_a_command_and_its_arguments() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("report.sh");
    std::fs::write(&script, "echo \"$# $1 $2\"\n").expect("written");
    let path = script.to_str().expect("UTF-8");
    let ran = weir_run(&["bash", path, "-x", "a b; c"]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, "2 -x a b; c\n"));
    assert_eq!(ran.json["command"], format!("bash {path} -x 'a b; c'"));
    // Options of the same name belong to the command.
    let ran = weir_run(&["echo", "--quiet", "-o", "--", "*"]);
    assert_eq!(ran.stdout(), "--quiet -o -- *\n");
    assert!(ran.stderr().contains("weir: "), "a report: {}", ran.stderr());
    let ran = weir_run(&["printf", "b\\na\\n", "|", "sort"]);
    assert_eq!((ran.stages(), ran.stdout().as_str()), (2, "a\nb\n"));
}

/// The report said `gzip my file`, and the command that follows its advice took two files.
#[test]
fn words_are_shown_as_a_shell_would_read_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a b");
    std::fs::write(&file, "x\n").expect("written");
    let path = file.to_str().expect("UTF-8");
    let ran = weir_run(&["--", "cat", path, "|", "grep", "-c", "$x"]);
    assert_eq!(ran.json["command"], format!("cat '{path}' | grep -c '$x'"));
    assert_eq!(ran.json["stages"][1]["command"], "grep -c '$x'");
    // A script with a blank in its name is one all the same.
    std::fs::write(&file, "true; echo b\n").expect("written");
    let ran = weir_run(&["--", "bash", path]);
    assert_eq!((&ran.json["mode"], ran.stdout().as_str()), (&"script".into(), "b\n"));
}

#[test]
fn one_argument_is_a_text_and_options_may_stand_around_it() {
    for args in [["-q", "echo a | cat"], ["echo a | cat", "-q"]] {
        let ran = weir_run(&args);
        assert_eq!((ran.stdout().as_str(), ran.stderr().as_str()), ("a\n", ""), "{args:?}");
    }
    let ran = weir_run(&["sort -u", "/etc/passwd"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().contains("weir run 'sort -u /etc/passwd'"), "{}", ran.stderr());
}

#[test]
fn a_text_without_a_command_ends_with_0_as_in_bash() {
    for text in ["", "  ", "# only a comment", "\n# two\n"] {
        let ran = weir_run(&[text]);
        assert_eq!((ran.code(), ran.stdout().as_str()), (0, ""), "{text}");
        assert_eq!(ran.stderr(), "weir: nothing to run: the text holds no command\n");
        assert_eq!(ran.json["stages"].as_array().map(Vec::len), Some(0), "{}", ran.json);
        let elastic = weir_run(&["--elastic=1", text]);
        assert_eq!(elastic.code(), 0, "{}", elastic.stderr());
    }
}

#[test]
fn a_pipeline_or_a_command_without_the_verb_is_met_with_the_right_form() {
    let text = weir(&["echo a | cat"]);
    assert_eq!(text.status.code(), Some(2));
    let right = "'echo a | cat' is not a verb of weir; to run it: weir run 'echo a | cat'";
    assert!(said(&text).contains(right), "{}", said(&text));
    let command = weir(&["ls", "-l", "a b"]);
    assert!(said(&command).contains("weir run ls -l 'a b'"), "{}", said(&command));
    let typo = weir(&["rum"]);
    assert!(said(&typo).contains("'run'"), "{}", said(&typo));
    let slip = weir(&["rnu"]);
    assert_eq!(slip.status.code(), Some(2));
    assert!(said(&slip).contains("there is no verb 'rnu'; did you mean 'run'?"), "{}", said(&slip));
    let inner = weir(&["port", "raed", "x"]);
    assert!(said(&inner).contains("'read'"), "{}", said(&inner));
    let unknown = weir(&["port", "frobnicate"]);
    assert!(said(&unknown).contains("unrecognized subcommand 'frobnicate'"), "{}", said(&unknown));
}

/// `weir sort f` was answered with "a similar subcommand exists: 'port'", and `weir 'sort -u' f` with
/// a form that is refused.
#[test]
fn a_command_that_is_spelt_like_a_verb_is_met_with_the_right_form_too() {
    for (args, right) in [
        (&["sort", "-u", "f"][..], "weir run sort -u f"),
        (&["test", "-e", "f"], "weir run test -e f"),
        (&["sort | port"], "weir run 'sort | port'"),
        (&["sort -u", "a b"], "weir run 'sort -u a b'"),
        (&["LC_ALL=C", "sort"], "weir run 'LC_ALL=C sort'"),
        (&["sort | wc", "-q"], "weir run 'sort | wc' -q"),
    ] {
        let met = weir(args);
        let wanted = format!("weir: '{}' is not a verb of weir; to run it: {right}\n", args[0]);
        assert_eq!((met.status.code(), said(&met)), (Some(2), wanted), "{args:?}");
    }
}

#[test]
fn help_leads_on() {
    let out = |args: &[&str]| {
        let output = weir(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(out(&["help", "run"]), out(&["run", "--help"]));
    let first = out(&["help"]);
    assert!(first.contains("weir run '") && first.contains("Manual: https://"), "{first}");
    let run = out(&["help", "run"]);
    for promise in
        ["6 to 2048", "/dev/fd/3", "--brief", "Exit status", "loses columns in this order"]
    {
        assert!(run.contains(promise), "{promise}");
    }
    // Every column of the tables.
    for column in [
        "wall", "busy", "cpu", "runq", "in", "out", "other", "MB/s", "exit", "user", "sys", "read",
        "written", "calls", "memory", "passed", "size", "fill", "most", "full", "empty", "group",
        "rows", "from", "share", "times", "median", "shortest", "longest",
    ] {
        let explained = run.split_once("What the report says:").expect("a section").1;
        let explained = explained.split_once("The report is as wide").expect("its end").0;
        let mut words = explained.split(|c: char| c.is_whitespace() || ":;,".contains(c));
        assert!(words.any(|word| word == column), "{column}: {explained}");
    }
    let alone = weir(&[]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(said(&alone).starts_with(concat!("weir ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn elastic_takes_its_pipes_with_a_blank_too() {
    let ran = weir_run(&["--elastic", "1", "echo a | cat"]);
    assert_eq!((ran.stages(), ran.stdout().as_str()), (3, "a\n"), "{}", ran.stderr());
    assert_eq!(ran.json["stages"][1]["inserted"], true);
}
