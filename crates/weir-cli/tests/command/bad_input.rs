//! Bad input: each case gives a clear sentence and the right status, prints no backtrace, does not
//! hang, and loses no data.

use crate::common::{WEIR, weir_run, write_program};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

fn clear(text: &str) {
    for word in ["panicked", "backtrace", "RUST_", "unwrap", "Err("] {
        assert!(!text.contains(word), "not for a user's eyes: {text}");
    }
}

#[test]
fn an_unknown_command_is_named_with_its_stage_and_the_others_run() {
    let ran = weir_run(&["nosuchcommand x | wc -l"]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, "0\n"));
    let said = "weir: cannot start stage 1 'nosuchcommand x': command not found";
    assert!(ran.stderr().contains(said), "{}", ran.stderr());
    assert_eq!(ran.json["stages"][0]["exit"]["code"], 127);
    let last = weir_run(&["echo x | nosuchcommand"]);
    assert_eq!(last.code(), 127);
    let words = weir_run(&["--", "nosuchcommand"]);
    assert_eq!(words.code(), 127);
    clear(&(ran.stderr() + &last.stderr() + &words.stderr()));
}

#[test]
fn what_cannot_be_executed_is_126() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("plain");
    std::fs::write(&file, "data").expect("written");
    let path = file.to_str().expect("UTF-8");
    let ran = weir_run(&[&format!("echo x | {path}")]);
    assert_eq!(ran.code(), 126);
    assert!(ran.stderr().contains("cannot start stage 2"), "{}", ran.stderr());
    assert!(ran.stderr().contains("not executable"), "{}", ran.stderr());
    let ran = weir_run(&["--", "/"]);
    assert_eq!(ran.code(), 126);
    assert!(ran.stderr().contains("is a directory"), "{}", ran.stderr());
}

/// Shells pass over directories where they search for a command. exec(2) does not: it says that it
/// is not permitted.
#[test]
fn a_directory_that_is_named_without_a_slash_is_no_command() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("tool")).expect("made");
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    for name in ["..", "tool"] {
        for program in [&[WEIR, "run"][..], &["bash", "-c"]] {
            let mut command = Command::new(program[0]);
            let output = command.args(&program[1..]).arg(name).env("PATH", &path).output();
            let output = output.expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(127), "{program:?} {name}: {said}");
            assert!(said.contains("command not found"), "{program:?} {name}: {said}");
        }
    }
}

#[test]
fn a_script_without_a_first_line_is_the_shell_s() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("script");
    write_program(&file, "echo ran $1\n");
    let ran = weir_run(&[&format!("{} it | cat", file.display())]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, "ran it\n"), "{}", ran.stderr());
}

#[test]
fn a_syntax_error_shows_where() {
    for (text, column) in [("sort | | uniq", 8), ("cat | wc )", 10), ("grep 'abc | wc", 6)] {
        let ran = weir_run(&[text]);
        assert_eq!(ran.code(), 2, "{text}");
        let said = ran.stderr();
        assert!(said.starts_with("weir: "), "{said}");
        let caret = said.lines().find(|line| line.trim() == "^").expect("a caret");
        let shown = said.lines().find(|line| line.contains(text)).expect("the text");
        let indent = shown.find(text).expect("shown");
        assert_eq!(caret.find('^').map(|at| at + 1 - indent), Some(column), "{said}");
        clear(&said);
    }
}

#[test]
fn wrong_usage_is_2() {
    assert_eq!(weir_run(&[]).code(), 2);
    assert_eq!(weir_run(&["--", "cat", "|"]).code(), 2);
    let size = weir_run(&["--pipe-size", "3", "true"]);
    assert_eq!(size.code(), 2);
    assert!(size.stderr().contains("4096 to"), "{}", size.stderr());
    let shell = weir_run(&["--shell", "nosuchshell", "true"]);
    assert_eq!(shell.code(), 2);
    assert!(shell.stderr().contains("cannot use shell 'nosuchshell'"), "{}", shell.stderr());
}

#[test]
fn an_unwritable_report_costs_nobody_the_pipeline() {
    let output = Command::new(WEIR)
        .args(["run", "-o", "/nosuch/dir/report", "echo kept | cat; exit 3"])
        .output()
        .expect("weir starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"kept\n");
    assert_eq!(output.status.code(), Some(3));
    assert!(said.contains("cannot write") && said.contains("/nosuch/dir/report"), "{said}");
    clear(&said);
    // The report on the run was lost, and the run had to be repeated.
    assert!(said.contains("failed with status 3"), "{said}");
    let full = Command::new(WEIR).args(["run", "-o", "/dev/full", "echo kept"]).output();
    let full = full.expect("weir starts");
    assert_eq!((full.stdout.as_slice(), full.status.code()), (&b"kept\n"[..], Some(0)));
    assert!(String::from_utf8_lossy(&full.stderr).contains("No space left"));
}

/// A gate that reads JSON continued without it.
#[test]
fn what_programs_read_is_there_or_nothing_runs() {
    for texts in [&["echo it ran"][..], &["--compare", "echo it ran", "true"]] {
        let mut command = Command::new(WEIR);
        command.args(["run", "--json", "/nosuch/dir/report"]).args(texts);
        let output = command.output().expect("weir starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.stdout.as_slice(), output.status.code()), (&b""[..], Some(2)), "{said}");
        let why = "cannot write the JSON report to '/nosuch/dir/report': No such file or directory";
        assert!(said.contains(why), "{said}");
        clear(&said);
    }
}

/// "not executable: permission denied" did not say what to do.
#[test]
fn a_script_that_may_not_be_executed_is_told_how() {
    let place = tempfile::tempdir().expect("a directory");
    let script = place.path().join("report.sh");
    let path = script.display().to_string();
    for (first, shell) in [("#!/bin/bash", "bash"), ("#! /usr/bin/env -S perl -w", "perl")] {
        std::fs::write(&script, format!("{first}\n")).expect("written");
        let ran = weir_run(&[&path]);
        let said = format!("permission denied: chmod +x {path}, or: weir run {shell} {path}");
        assert_eq!(ran.code(), 126, "{}", ran.stderr());
        assert!(ran.stderr().contains(&said), "{}", ran.stderr());
    }
    std::fs::write(&script, "no script").expect("written");
    assert!(!weir_run(&[&path]).stderr().contains("chmod"));
}

#[test]
fn closed_standard_descriptors_are_handed_on_as_a_shell_does() {
    let run = |script: &str| {
        let script = script.replace("WEIR", WEIR);
        Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().expect("sh")
    };
    let input = run("WEIR run 'cat | wc -c' <&-");
    assert_eq!((input.stdout.as_slice(), input.status.code()), (&b"0\n"[..], Some(0)));
    assert!(String::from_utf8_lossy(&input.stderr).contains("standard input was closed"));
    let output = run("WEIR run 'echo lost | cat' >&-");
    assert_eq!(output.status.code(), Some(1), "writing to a closed output must fail");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("standard output was closed"), "{said}");
    let error = run("WEIR run 'echo kept | cat' 2>&-");
    assert_eq!((error.stdout.as_slice(), error.status.code()), (&b"kept\n"[..], Some(0)));
    let all = run("WEIR run -o report 'true | true' <&- >&- 2>&-; s=$?; rm -f report; exit $s");
    assert_eq!(all.status.code(), Some(0));
    clear(&said);
}

#[test]
fn a_reader_of_the_report_that_went_away_is_no_error() {
    let script = format!("{{ {WEIR} run 'echo kept | cat' 2>&1 >&3 | true; }} 3>&1");
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
    assert_eq!(output.stdout, b"kept\n");
    clear(&String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_low_limit_of_open_files_loses_no_data() {
    // If a stage could not be started, the others once ran without input, and the status was 0.
    let text = format!("seq 1000{} | tail -1", " | cat".repeat(20));
    for limit in ["-n 16", "-n 64", "-S -n 16", "-S -n 100"] {
        let script = format!("ulimit {limit}; exec {WEIR} run -q '{text}'");
        let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.stdout, b"1000\n", "{limit}: {said}");
        assert_eq!(output.status.code(), Some(0), "{limit}: {said}");
    }
}

#[test]
fn a_text_that_is_no_utf8_is_the_shell_s_to_read() {
    use std::os::unix::ffi::OsStrExt;
    let text = std::ffi::OsStr::from_bytes(b"printf '%s' '\xff\xfe' | od -An -tx1");
    let output = Command::new(WEIR).args(["run", "-q"]).arg(text).output().expect("weir starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ff fe");
}

/// Runs a text as the user nobody in a mount namespace of its own, where `mount` makes `/proc`.
fn with_proc(mount: &str, text: &str) -> Option<std::process::Output> {
    let directory = tempfile::tempdir().expect("a directory");
    // The user nobody may not be able to reach another user's target directory.
    let weir = directory.path().join("weir");
    crate::common::copy_program(WEIR, &weir);
    for path in [directory.path(), &weir] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("set");
    }
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --";
    let script = format!("{mount} && cd / && exec {nobody} {} run '{text}'", weir.display());
    let probe = Command::new("unshare").args(["-m", "sh", "-c", mount]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        eprintln!("SKIPPED: no privilege for a mount namespace");
        return None;
    }
    Some(Command::new("unshare").args(["-m", "sh", "-c", &script]).output().expect("unshare"))
}

#[test]
fn a_restricted_proc_leaves_gaps_that_are_named() {
    let text = "yes | head -c 50000000 | wc -c";
    let hidden = "mount -t proc -o hidepid=2 proc /proc";
    let subset = "mount -t proc -o hidepid=2,subset=pid proc /proc";
    for (mount, note) in
        [(hidden, ""), (subset, ""), ("mount -t tmpfs none /proc", "/proc cannot be read")]
    {
        let Some(output) = with_proc(mount, text) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.stdout, b"50000000\n", "{mount}: {said}");
        assert_eq!(output.status.code(), Some(0), "{mount}: {said}");
        assert!(said.contains(note), "{mount}: {said}");
        assert!(said.contains("2 head"), "{mount}: {said}");
        clear(&said);
    }
}

#[test]
fn pages_are_made_from_the_command_line_itself() {
    let run = |args: &[&str]| {
        let output = Command::new(WEIR).args(args).output().expect("weir starts");
        assert!(output.status.success(), "{args:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(run(&["man"]).contains(".TH weir 1"));
    assert!(run(&["completions", "bash"]).contains("--pipe-size"));
    let directory = tempfile::tempdir().expect("a directory");
    run(&["man", "--out", directory.path().to_str().expect("UTF-8")]);
    let page = std::fs::read_to_string(directory.path().join("weir-run.1")).expect("a page");
    assert!(page.contains("pipefail") && page.contains("Exit status"), "{page}");
    let typo = Command::new(WEIR).arg("rum").output().expect("weir starts");
    assert_eq!(typo.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&typo.stderr).contains("'run'"), "a typo is met with a hint");
}

/// A process that `/proc` hides was said not to exist.
#[test]
fn a_process_that_proc_does_not_show_exists_all_the_same() {
    let text =
        "w=$(readlink /proc/$PPID/exe); for verb in why watch stat; do $w $verb 1; done 2>&1";
    let Some(output) = with_proc("mount -t proc -o hidepid=2 proc /proc", text) else { return };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for done in ["look at", "watch", "inspect"] {
        let wanted = format!("cannot {done} process 1: /proc does not show it");
        assert!(said.contains(&wanted), "{done}: {said}");
    }
}

#[test]
fn another_namespace_s_processes_are_not_taken_for_the_stages() {
    let allowed = Command::new("unshare").args(["--pid", "--fork", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no privilege for a pid namespace");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report");
    let mut command = Command::new("unshare");
    // /proc stays that of the outer namespace, where the pids of the stages belong to other
    // processes.
    command.args(["--pid", "--fork", WEIR, "run", "--json"]).arg(&report);
    let output = command.arg("seq 200000 | sort -n | tail -1").output().expect("unshare starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "200000\n");
    let text = std::fs::read_to_string(&report).expect("written");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for stage in json["stages"].as_array().expect("stages") {
        assert!(stage["bytes_in"].is_null() && stage["read_calls"].is_null(), "{stage}");
        assert!(stage["user_s"].is_number(), "what the kernel says of a child is known: {stage}");
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/proc belongs to another pid namespace"), "{said}");
}

/// Help that a full disk took ended with status 0, as no other output does.
#[test]
fn help_that_cannot_be_written_is_an_error() {
    for args in [&["--help"][..], &["run", "-h"], &["help", "net", "up"], &["--version"]] {
        let full = File::options().write(true).open("/dev/full").expect("a full device");
        let ended = Command::new(WEIR).args(args).stdout(full).output().expect("weir starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("cannot write to standard output: No space left"), "{said}");
    }
}

#[test]
fn a_shell_that_cannot_be_one_is_refused_with_the_reason() {
    for (shell, why) in [
        ("/", "is a directory"),
        ("/proc/self/maps", "not executable"),
        ("/absent/sh", "no such file or directory"),
        ("absent", "command not found"),
    ] {
        let mut run = Command::new(WEIR);
        let ended = run.args(["run", "--shell", shell, "a | b"]).output().expect("weir starts");
        assert_eq!(ended.status.code(), Some(2), "{shell}");
        let expected = format!("weir: cannot use shell '{shell}': {why}\n");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), expected);
    }
}
