//! Text that other people chose (names of processes, files and ports, reports) reaches a terminal
//! only as text, in every verb.

use crate::common::port::Place;
use crate::common::until;
use crate::common::{WEIR, write_program};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Output, Stdio};

/// Clears the screen, reverses text, begins a control sequence of C1, ends a line, and is not
/// UTF-8.
const HOSTILE: &[u8] = b"a\x1b[2J\xe2\x80\xae\xc2\x9b\n\xff";

fn hostile() -> OsString {
    OsString::from_vec(HOSTILE.to_vec())
}

/// Whether a terminal would show these bytes as they are.
fn is_text(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.chars().all(|c| {
        let bidi = matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}');
        matches!(c, '\n' | '\t') || !c.is_control() && !bidi
    })
}

/// Checks that the printed bytes are text and contain the name. Otherwise the test tests nothing.
fn shown_as_text(what: &str, output: &Output) {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    assert!(is_text(&both), "{what}: {}", both.escape_ascii());
    let named = String::from_utf8_lossy(&both).contains("a?[2J")
        || String::from_utf8_lossy(&both).contains("\\u001b[2J");
    assert!(named, "{what} does not show the name: {}", both.escape_ascii());
}

fn weir(place: &Place, args: &[&OsStr]) -> Output {
    let mut command = place.command(WEIR);
    command.env("XDG_STATE_HOME", place.directory.path()).args(args);
    command.output().expect("weir starts")
}

#[test]
fn runs_show_hostile_names_as_text() {
    let place = Place::new();
    let program = place.directory.path().join(hostile());
    let text = "#!/bin/bash\nn=0; while [ $n -lt 60000 ]; do n=$((n+1)); done; echo done\n";
    write_program(&program, text);
    let dot = [b"./", HOSTILE].concat();
    let stage = OsStr::from_bytes(&dot);
    let bar = OsStr::new("|");
    let run = OsStr::new("run");
    let args = [run, OsStr::new("--"), stage, bar, OsStr::new("cat")];
    shown_as_text("words", &weir(&place, &args));
    // The shell finds the file by a pattern, and weir finds the script's processes by their names.
    let script = OsStr::new("for f in ./a*; do \"$f\"; done; for f in ./a*; do \"$f\" | cat; done");
    shown_as_text("a script", &weir(&place, &[run, script]));
    let output = weir(&place, &[run, OsStr::new("--verbose"), OsStr::new("./a*J* | cat")]);
    assert!(is_text(&output.stderr), "the shell: {}", output.stderr.escape_ascii());
    let missing = [b"./no-", HOSTILE].concat();
    let args = [run, OsStr::new("--"), OsStr::from_bytes(&missing)];
    shown_as_text("a missing one", &weir(&place, &args));
    let args =
        [run, OsStr::new("-o"), OsStr::from_bytes(b"no/a\x1b[2J\xc2\x9b"), OsStr::new("true")];
    shown_as_text("a file of reports", &weir(&place, &args));
}

#[test]
fn pipes_and_ports_show_hostile_names_as_text() {
    let place = Place::new();
    // The name of a process is that of its program's file.
    let program = place.directory.path().join(hostile());
    std::os::unix::fs::symlink(WEIR, &program).expect("linked");
    let mut command = place.command("bash");
    let name = OsString::from_vec([HOSTILE, b"port"].concat());
    command.args(["-c", "exec \"$1\" port read \"$2\"", "bash"]).arg(&program).arg(&name);
    let reader = place.start(command);
    let port = |verb: &str, more: &[&OsStr]| {
        weir(&place, &[&[OsStr::new("port"), OsStr::new(verb)], more].concat())
    };
    until("it listens", || port("stat", &[&name]).status.success());
    let json = OsStr::new("--json");
    shown_as_text("port list", &port("list", &[]));
    shown_as_text("port stat", &port("stat", &[&name]));
    let stdout = OsStr::new("-");
    for more in [&[json, stdout][..], &[json, stdout, &name]] {
        let verb = if more.len() == 2 { "list" } else { "stat" };
        let output = port(verb, more);
        assert!(is_text(&output.stdout), "{verb}: {}", output.stdout.escape_ascii());
        assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
    }
    shown_as_text("a port that is taken", &port("read", &[&name]));
    shown_as_text("a port in use", &port("remove", &[&name]));
    drop(reader);
    shown_as_text("a port that has no reader", &port("write", &[&name, OsStr::new("-mx")]));
    let own = std::process::id().to_string();
    std::fs::write("/proc/self/comm", b"a\x1b[2J\xc2\x9b").expect("renamed");
    let _pipe = weir::pipe(&weir::Options::new()).expect("made");
    shown_as_text("stat", &weir(&place, &["stat".as_ref(), own.as_ref()]));
}

#[test]
fn foreign_reports_and_files_are_shown_as_text() {
    let place = Place::new();
    let name = OsStr::from_bytes(b"a\x1b[2J\xc2\x9b\xe2\x80\xae");
    let all: [&[&OsStr]; 7] = [
        &["buffer".as_ref(), name, name],
        &["why".as_ref(), name],
        &["compare".as_ref(), name, name],
        &["history".as_ref(), "--show".as_ref(), name],
        &["buffer".as_ref(), "--spill".as_ref(), name],
        &["net".as_ref(), "log".as_ref(), name],
        &["net".as_ref(), "stat".as_ref(), "--tun".as_ref(), name],
    ];
    for args in all {
        let output = weir(&place, args);
        let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        assert!(is_text(&both), "{args:?}: {}", both.escape_ascii());
        assert!(!output.status.success() && !both.is_empty());
    }
    // A report in which every text is hostile.
    let bench = ["bench", "joy-syscall", "--budget", "2.5s", "--quiet", "--json=report.json"];
    let made = place.command(WEIR).args(bench).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(made.expect("weir starts").success());
    let path = place.directory.path().join("report.json");
    let text = std::fs::read_to_string(&path).expect("written");
    let mut report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    spoil(&mut report);
    std::fs::write(&path, report.to_string()).expect("written");
    let mut command: Command = place.command(WEIR);
    let output = command.args(["compare", "report.json", "report.json", "--verbose"]).output();
    let output = output.expect("weir starts");
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    assert!(is_text(&both) && !both.is_empty(), "{}", both.escape_ascii());
}

/// Appends something hostile to every text that is not a word of the format.
fn spoil(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Array(all) => all.iter_mut().for_each(spoil),
        serde_json::Value::Object(all) => {
            for (name, value) in all {
                match value {
                    serde_json::Value::String(text)
                        if ["suite", "case", "note", "cpu", "kernel", "quantity", "name"]
                            .contains(&name.as_str()) =>
                    {
                        text.push_str("\u{1b}[2J\u{202e}\u{9b}");
                    }
                    value => spoil(value),
                }
            }
        }
        _ => {}
    }
}
