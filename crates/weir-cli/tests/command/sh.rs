//! `weir sh` against bash: `weir sh` does with the same words what bash does, and it reports.

use crate::common::{WEIR, bound, have, schema, write_program};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// What a shell returned: its status, and what it printed.
type Gave = (ExitStatus, String, String);

/// A directory with scripts, in which both shells run.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    fn with(name: &str, script: impl AsRef<[u8]>) -> Place {
        let place = Place::new();
        std::fs::write(place.path().join(name), script).expect("written");
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn weir(&self) -> Command {
        let mut command = Command::new(WEIR);
        command.arg("sh").current_dir(self.path()).env("WEIR_REPORT", "report.jsonl");
        command.env_remove("WEIR_SH").env_remove("GITHUB_ACTIONS");
        command
    }

    fn bash(&self) -> Command {
        let mut command = Command::new("bash");
        command.current_dir(self.path());
        command
    }

    /// Checks that both shells do the same with these words and this input. Returns what bash did.
    fn same(&self, words: &[&str], input: &str) -> Gave {
        let bash = gave(self.bash().args(words), input);
        let weir = gave(self.weir().args(words), input);
        assert_eq!(weir, bash, "{words:?}");
        let report = self.reports().pop().expect("a report");
        let (status, ..) = &bash;
        let shell = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        assert_eq!(report["exit_status"], shell, "{words:?}");
        bash
    }

    /// The reports in the file so far. Each is checked against the schema.
    fn reports(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path().join("report.jsonl")).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines.inspect(|report| schema::check("weir.run/1", report)).collect()
    }
}

fn gave(command: &mut Command, input: &str) -> Gave {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    bound(&child);
    // A shell that ends early reads no input.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status, text(&output.stdout), text(&output.stderr))
}

#[test]
fn words_input_and_status_are_those_of_bash() {
    let show = "echo \"<$0>\" $# \"$@\"; echo \"$-\"; cat; (exit 3)\n";
    let place = Place::with("show.sh", show);
    std::fs::write(place.path().join("stop.sh"), "false\necho on $x\nfalse | true\necho on\n")
        .expect("written");
    for words in [
        &["show.sh"][..],
        &["show.sh", "a b", "-x", "--", "*", "--help"],
        &["./show.sh", ""],
        &["-e", "stop.sh"],
        &["-u", "stop.sh"],
        // The two sides of a pipeline trace themselves in any order.
        &["-x", "-c", "false; echo on; (exit 2)"],
        &["-eo", "pipefail", "stop.sh"],
        &["-e", "-o", "pipefail", "stop.sh"],
        &["+e", "-c", "false; echo on"],
        &["--posix", "show.sh", "1"],
        &["--posix", "-c", "set -o | grep posix"],
        &["--norc", "--noprofile", "show.sh"],
        &["-O", "nullglob", "-c", "echo /nosuch*"],
        &["-c", "echo \"<$0>\" \"$@\"; exit 7"],
        &["-c", "echo \"<$0>\" \"$@\"", "name", "a b", "-c"],
        &["-c", "--", "echo x"],
        &["-c", "-c"],
        &["-c"],
        &["-c", ""],
        &["-ec", "echo $-; false; echo on"],
        &["-n", "show.sh"],
        &["-o"],
        &["-Q"],
        &["--nosuch"],
        &["--version"],
        &["--", "show.sh", "a"],
        &["-", "show.sh", "a"],
        &["-c", "kill -9 $$"],
        &["-c", "kill -TERM $$; echo on"],
        &["-c", "sh -c 'kill -9 $$'"],
        &["-c", "nosuchcommand"],
        &["-c", "if"],
        &["-c", "read a; echo $a; cat"],
        &["-c", "exec 3>&1; echo x >&3; exec cat"],
        &["-c", "trap 'echo end' EXIT; exit 4"],
    ] {
        place.same(words, "one\ntwo\n");
    }
}

#[test]
fn a_script_may_come_by_standard_input() {
    let place = Place::new();
    place.same(&[], "echo \"<$0>\" $#; read a\nthe line\necho $a; exit 5\n");
    place.same(&["-s", "a", "b c"], "echo $0 \"$@\"; cat\nrest\n");
    place.same(&["-es", "a"], "false\necho on\n");
    place.same(&["/dev/stdin", "x"], "echo $1\n");
    place.same(&[], "");
}

#[test]
fn a_file_gets_a_report_more_and_keeps_what_it_holds() {
    let place = Place::with("s.sh", "seq 9 | sort | head -1\n");
    for _ in 0..2 {
        place.same(&["s.sh", "in"], "");
    }
    let reports = place.reports();
    assert_eq!(reports.len(), 2);
    for report in &reports {
        assert_eq!(report["command"], "bash s.sh in");
        assert_eq!(report["mode"], "script");
    }
    std::fs::write(place.path().join("log"), "before\n").expect("written");
    for _ in 0..2 {
        let (status, out, err) = gave(place.weir().env("WEIR_REPORT", "log").arg("s.sh"), "");
        assert_eq!((status.code(), out.as_str(), err.as_str()), (Some(0), "1\n", ""));
    }
    let log = std::fs::read_to_string(place.path().join("log")).expect("a file");
    assert!(log.starts_with("before\nweir sh: bash s.sh\nweir: "), "{log}");
    assert_eq!(log.matches("\nweir sh: bash s.sh\nweir: ").count(), 2, "{log}");
}

#[test]
fn without_a_file_the_report_stands_on_standard_error_behind_the_script_s_own() {
    let place = Place::new();
    for unset in ["", "remove"] {
        let mut command = place.weir();
        command.args(["-c", "echo out; echo err >&2; exit 3"]).env("WEIR_REPORT", "");
        command.env("WEIR_MIN", "0");
        if !unset.is_empty() {
            command.env_remove("WEIR_REPORT");
        }
        let (status, out, err) = gave(&mut command, "");
        assert_eq!((status.code(), out.as_str()), (Some(3), "out\n"));
        assert!(err.starts_with("err\nweir sh: bash -c echo out; echo err"), "{err}");
        assert!(err.contains("\nweir: "), "{err}");
    }
}

/// A shell of recipes wrote nine lines on `true | true`, each time.
#[test]
fn a_short_script_is_reported_only_where_that_was_asked_for() {
    let place = Place::with("s.sh", "set -e\ngrep -q x /dev/null\necho never\n");
    let said = |words: &[&str], least: &str| {
        let mut command = place.weir();
        command.env_remove("WEIR_REPORT").env("WEIR_MIN", least).args(words);
        gave(&mut command, "").2
    };
    assert_eq!(said(&["-c", "true | true"], "1h"), "");
    assert!(said(&["-c", "true | true"], "0").contains("\nweir: "));
    let wrong = said(&["-c", ":"], "soon");
    assert!(wrong.starts_with("weir: WEIR_MIN is 'soon': "), "{wrong}");
    // What ended a script is said all the same.
    let failed = said(&["s.sh"], "1h");
    if failed.is_empty() {
        eprintln!("SKIPPED: the kernel tells no process events");
        return;
    }
    assert!(failed.starts_with("weir sh: bash s.sh\n"), "{failed}");
    assert!(failed.contains("line 2 of s.sh: grep -q x /dev/null ended with status 1"), "{failed}");
    assert!(!failed.contains("weir: 0."), "{failed}");
}

/// Many run at once, as make starts them. Each line of the file is whole.
#[test]
fn reports_of_several_at_once_do_not_mix() {
    let place = Place::new();
    let start = |n: usize| {
        let mut command = place.weir();
        command.args(["-c", "true | cat", &format!("name{n}"), &"x".repeat(9_000)]);
        command.stdin(Stdio::null()).spawn().expect("it starts")
    };
    let children: Vec<_> = (0..12).map(start).collect();
    for mut child in children {
        bound(&child);
        assert!(child.wait().expect("it ends").success());
    }
    let reports = place.reports();
    let mut names: Vec<_> = reports.iter().map(|report| report["command"].to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 12);
}

#[test]
fn a_report_that_cannot_be_written_costs_the_script_nothing() {
    let place = Place::with("s.sh", "echo ran; exit 6\n");
    let fifo = place.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    for file in [OsStr::new("/nosuch/file"), fifo.as_os_str(), place.path().as_os_str()] {
        let (status, out, err) = gave(place.weir().arg("s.sh").env("WEIR_REPORT", file), "");
        assert_eq!((status.code(), out.as_str()), (Some(6), "ran\n"), "{err}");
        assert!(err.starts_with("weir: cannot write the report to '"), "{err}");
        assert!(err.contains("; the script runs anyway"), "{err}");
    }
}

#[test]
fn an_inner_one_becomes_bash_and_one_report_is_written() {
    let place = Place::with("inner.sh", "echo in $1; exec 2>&1; sleep 0.05; exit 9\n");
    let text = format!("'{WEIR}' sh inner.sh a; echo $?; '{WEIR}' sh -c 'ps -o comm= -p $$; :'");
    let (_, out, _) = gave(place.weir().args(["-c", &text]), "");
    assert_eq!(out, "in a\n9\nbash\n");
    assert_eq!(place.reports().len(), 1);
    // A shell that outlives the weir sh that started it reports by itself.
    let mut left = place.weir();
    let (_, out, _) = gave(left.args(["-c", "echo $? left"]).env("WEIR_SH", "1:1"), "");
    assert_eq!((out.as_str(), place.reports().len()), ("0 left\n", 2));
}

/// Starts a shell that prints its first line and then gets a signal. Returns what it did then.
fn signalled(mut command: Command, to_group: bool, signal: Signal) -> (ExitStatus, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().expect("it starts");
    bound(&child);
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "up\n");
    let pid = Pid::from_child(&child);
    let sent = if to_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    sent.expect("sent");
    let status = child.wait().expect("it ends");
    let mut out = String::new();
    output.read_to_string(&mut out).expect("read");
    (status, out)
}

/// A signal reaches bash once, whether it was sent to `weir sh` alone or, as a terminal and timeout
/// do, to the whole group. bash ends as it would.
#[test]
fn signals_reach_the_script_once_and_weir_ends_as_bash_does() {
    // Builtins only: a bash that is just starting a child may lose a signal.
    const COUNTS: &str = "n=0; trap 'n=$((n+1))' INT TERM HUP USR1 USR2 QUIT; exec 3<>fifo; \
        echo up; for i in {1..40}; do read -t 0.01 -u 3; done; echo $n; exit 3";
    const DIES: &str = "exec 3<>fifo; echo up; read -t 2 -u 3";
    let place = Place::new();
    let fifo = place.path().join("fifo");
    assert!(Command::new("mkfifo").arg(fifo).status().expect("mkfifo").success());
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::USR1, Signal::QUIT] {
        for to_group in [false, true] {
            for text in [COUNTS, DIES] {
                let of = |mut command: Command| {
                    command.args(["-c", text]);
                    signalled(command, to_group, signal)
                };
                let (bash, weir) = (of(place.bash()), of(place.weir()));
                assert_eq!(weir, bash, "{signal:?} {to_group} {text}");
            }
        }
    }
    assert_eq!(place.reports().len(), 20);
}

#[test]
fn what_the_caller_ignores_or_closed_stays_so() {
    let place = Place::new();
    let look = "grep ^SigIgn /proc/$$/status; [ -e /proc/$$/fd/0 ] && echo open || echo closed";
    std::fs::write(place.path().join("look.sh"), look).expect("written");
    let under = |shell: &str| {
        let text = format!("trap '' PIPE USR1 INT; {shell} look.sh <&-");
        let mut command = place.bash();
        command
            .args(["-c", &text])
            .env("WEIR_REPORT", "report.jsonl")
            .env_remove("WEIR_SH")
            .env_remove("GITHUB_ACTIONS");
        gave(&mut command, "")
    };
    let bash = under("bash");
    assert_eq!(under(&format!("'{WEIR}' sh")), bash);
    assert!(bash.1.ends_with("closed\n"), "{}", bash.1);
}

#[test]
fn scripts_that_are_bad_input_end_as_under_bash() {
    let place = Place::with("crlf.sh", "echo a\r\nfalse\r\nif true; then\r\n echo b\r\nfi\r\n");
    let file = |name: &str, script: &[u8]| {
        std::fs::write(place.path().join(name), script).expect("written");
    };
    file("empty.sh", b"");
    file("nul.sh", b"echo a\necho b\0c\necho d\n");
    file("binary.sh", b"\x7fELF\0\0\0\x01\x02\0");
    file("fish.sh", b"#!/usr/bin/fish\necho run by $0\n");
    file("last.sh", b"echo no newline at the end");
    file("\u{fc} \n.sh", b"echo odd name: $0");
    std::fs::create_dir(place.path().join("directory")).expect("made");
    let executable = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(place.path().join("last.sh"), executable(0o644)).expect("set");
    for words in [
        &["nosuch.sh", "a"][..],
        &["./nosuch.sh"],
        &[""],
        &["last.sh"],
        &["directory"],
        &["empty.sh"],
        &["crlf.sh"],
        &["nul.sh"],
        &["binary.sh"],
        &["fish.sh"],
        &["\u{fc} \n.sh"],
        &["/dev/null"],
    ] {
        place.same(words, "");
    }
    let (status, _, err) = place.same(&["nosuch.sh"], "");
    assert_eq!(status.code(), Some(127));
    assert!(err.contains("nosuch.sh: No such file or directory"), "{err}");
}

/// The script ends, and a process that it left behind holds its standard output. weir ends with the
/// script, as bash does, and the pipe stays open until the other process ends.
#[test]
fn a_child_left_behind_does_not_hold_weir_up() {
    let place = Place::with("daemon.sh", "(sleep 300 & echo $! > pid); echo done; exit 2\n");
    let mut command = place.weir();
    let mut child = command.arg("daemon.sh").stdout(Stdio::piped()).spawn().expect("it starts");
    bound(&child);
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
    let pid = std::fs::read_to_string(place.path().join("pid")).expect("a number");
    let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
    assert_eq!(place.reports()[0]["exit_status"], 2, "the report is there already");
    kill_process(pid, Signal::KILL).expect("it still runs");
    let mut out = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("read");
    assert_eq!(out, "done\n");
}

/// How many processes there were, and the CPU time that they took, are the kernel's own numbers: those
/// of its counter of processes, and those of the times that the shell prints.
#[test]
fn two_thousand_short_processes_are_counted() {
    let _alone = crate::common::alone();
    let counter = "c() { while read -r k v; do [ $k = processes ] && n=$v; done < /proc/stat; }";
    let text = format!(
        "{counter}\nc; a=$n; for i in {{1..2000}}; do /bin/true; done; c; echo $((n-a)); times\n"
    );
    let place = Place::with("many.sh", text);
    let (_, out, _) = gave(place.weir().arg("many.sh").env("LC_ALL", "C"), "");
    let mut lines = out.lines();
    let forked: u64 = lines.next().and_then(|line| line.parse().ok()).expect("a number");
    let report = place.reports().pop().expect("a report");
    let started = &report["started"];
    let processes = started["processes"].as_u64().expect("a number");
    // The counter counts the processes and threads of others too.
    assert!(processes <= forked + forked / 50, "{started} of {forked}");
    match started["evidence"].as_str() {
        // Where others start processes too, only those seen count.
        Some("lower bound") => assert!((20..=2000).contains(&processes), "{started}"),
        // Others may have taken a few of the numbers.
        _ => assert!((1800..=2200).contains(&processes), "{started} of {forked}"),
    }
    // Two lines: the shell's own times, and those of its children.
    let seconds = |time: &str| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let kernel_s: f64 = lines.flat_map(str::split_whitespace).filter_map(seconds).sum();
    let stages = report["stages"].as_array().expect("stages").iter();
    let of = |stage: &Value, name: &str| stage[name].as_f64().unwrap_or(0.0);
    let seen_s: f64 = stages.map(|stage| of(stage, "user_s") + of(stage, "sys_s")).sum();
    let unseen_s = report["unseen"]["cpu_s"].as_f64().expect("a time");
    let told_s = seen_s + unseen_s;
    // The shell continues for a moment after it printed its times.
    assert!((told_s - kernel_s).abs() < 0.02 + kernel_s * 0.03, "{told_s} of {kernel_s}");
    assert!(unseen_s > kernel_s * 0.3, "{unseen_s} of {kernel_s}");
}

#[test]
fn below_weir_run_it_becomes_bash_and_weir_run_reports() {
    if !have(&["make"]) {
        return;
    }
    let place = Place::with(
        "Makefile",
        "all: a b\na:\n\t@echo $$0 a | cat\nb:\n\t@ps -o comm= -p $$$$; :\n",
    );
    let shell = format!("SHELL={WEIR} sh");
    let report = place.path().join("report.jsonl");
    for words in [vec!["make", &shell], vec!["--", "sh", "-c", &format!("make '{shell}'; :")]] {
        let mut command = Command::new(WEIR);
        command.arg("run").args(&words).current_dir(place.path()).env_remove("WEIR_SH");
        let (status, out, err) = gave(command.env("WEIR_REPORT", &report), "");
        assert_eq!((status.code(), out.as_str()), (Some(0), "bash a\nbash\n"), "{err}");
        assert_eq!(err.matches("weir: ").count(), 1, "{err}");
        assert!(!report.exists(), "weir run is told where to report by its own options");
    }
    // A variable that a shell does not set would be seen.
    let (_, out, _) = gave(Command::new(WEIR).args(["run", "-q", "env"]).env_remove("WEIR_SH"), "");
    assert!(!out.contains("WEIR_SH"), "{out}");
}

#[test]
fn the_lines_of_the_script_are_found() {
    let place = Place::with("lines.sh", "#!/bin/bash\n\nsleep 0.3 | cat\n");
    place.same(&["lines.sh"], "");
    let report = place.reports().pop().expect("a report");
    let groups = report["groups"].as_array().expect("groups");
    let lines: Vec<&Value> = groups.iter().map(|group| &group["line"]).collect();
    assert!(lines.contains(&&Value::from(3)), "{groups:?}");
}

#[test]
fn it_stands_where_a_shell_is_configured() {
    if !have(&["make", "env"]) {
        return;
    }
    let place = Place::with("Makefile", "all: a b\na:\n\t@echo $$0 a | cat\nb:\n\t@false\n");
    let make = |shell: &str| {
        let mut command = Command::new("make");
        command.arg(format!("SHELL={shell}")).current_dir(place.path());
        command
            .env("WEIR_REPORT", "report.jsonl")
            .env_remove("WEIR_SH")
            .env_remove("GITHUB_ACTIONS");
        gave(&mut command, "")
    };
    let bash = make("bash");
    assert_eq!(make(&format!("{WEIR} sh")), bash);
    let link = place.path().join("weir-sh");
    symlink(WEIR, &link).expect("linked");
    assert_eq!(make(link.to_str().expect("UTF-8")), bash);
    assert_eq!(place.reports().len(), 4);
    let script = place.path().join("first-line");
    write_program(&script, format!("#!/usr/bin/env -S {WEIR} sh\necho \"$@\"; exit 3\n"));
    let mut command = Command::new(&script);
    command.args(["a b", "c"]).current_dir(place.path()).env("WEIR_REPORT", "report.jsonl");
    let (status, out, err) = gave(command.env_remove("WEIR_SH").env_remove("GITHUB_ACTIONS"), "");
    assert_eq!((status.code(), out.as_str(), err.as_str()), (Some(3), "a b c\n", ""));
}

#[test]
fn where_bash_is_not_installed_it_says_so() {
    let place = Place::new();
    for inner in [None, Some(format!("{}:0", std::process::id()))] {
        let mut command = place.weir();
        command.args(["-c", "true"]).env("PATH", place.path());
        if let Some(inner) = inner {
            command.env("WEIR_SH", inner);
        }
        let (status, out, err) = gave(&mut command, "");
        assert_eq!((status.code(), out.as_str()), (Some(127), ""));
        assert!(err.starts_with("weir: cannot start bash: "), "{err}");
    }
}
