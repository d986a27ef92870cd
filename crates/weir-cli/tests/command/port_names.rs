//! `weir port`: who owns a name, what it lists, shows, removes and refuses
//! (docs/contracts/port.md).

use crate::common::port::{Place, refused, sent};
use crate::common::schema;
use crate::common::until;
use crate::common::{WEIR, have};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

#[test]
fn without_a_reader_nothing_is_sent() {
    let place = Place::new();
    let why = format!("cannot open port '{}': no reader is listening", place.path("x").display());
    let hint = "(start one: weir port read x, or wait for one with --wait 5s)";
    refused(&place.port("write x -m hello"), 1, &format!("weir: {why} {hint}\n"));
    let hint = "(start one: weir port read x)";
    refused(&place.port("write x -m hello --wait 20ms"), 1, &format!("weir: {why} {hint}\n"));
    refused(&place.port("stat x"), 1, "there is no port of that name");
    refused(&place.port("remove x"), 1, "there is no port of that name");
    // What it says can be typed as it is.
    for (name, typed) in [("a b", "'a b'"), ("it's", r"'it'\''s'"), ("-x", "-- -x"), ("*", "'*'")] {
        let mut command = place.command(WEIR);
        command.args(["port", "write", "-m", "hello", "--", name]);
        let output = command.output().expect("weir starts");
        refused(&output, 1, &format!("(start one: weir port read {typed}, or"));
    }
}

#[test]
fn a_stale_directory_for_temporary_files_is_as_none() {
    let place = Place::new();
    let run = |tmpdir: &str, args: &[&str]| {
        let mut command = place.command(WEIR);
        command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", tmpdir).arg("port").args(args);
        command.output().expect("weir starts")
    };
    let listed = run("/nonexistent", &["list"]);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    // A user whose TMPDIR does not exist and a user without one use the same directory.
    let name = format!("test-{}", std::process::id());
    let [one, other] = ["/nonexistent", "/tmp"].map(|tmpdir| run(tmpdir, &["stat", &name]));
    refused(&one, 1, "/tmp/weir-");
    assert_eq!(one.stderr, other.stderr);
}

/// An empty one, or one that is not a whole path, made a directory wherever a process ran, and
/// processes of other directories did not find the names there.
#[test]
fn a_directory_for_temporary_files_that_is_no_whole_path_is_as_none() {
    let place = Place::new();
    for tmpdir in ["", "."] {
        let mut command = place.command(WEIR);
        command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", tmpdir).args(["port", "stat", "x"]);
        refused(&command.output().expect("weir starts"), 1, "/tmp/weir-");
    }
}

#[test]
fn a_port_has_most_writers() {
    let place = Place::new();
    let _reader = place.read("log --max-writers 1");
    let mut command = place.command(WEIR);
    command.args(["port", "write", "--wait", "60s", "log"]).stdin(Stdio::piped());
    let first = place.start(command);
    until("the first is let in", || place.first_writer("log")["let_in"] == true);
    refused(&place.write("log -m x", b""), 1, "it has 1 writers already, its limit");
    drop(first);
}

#[test]
fn names_are_one_readers_and_other_files_are_left_alone() {
    let place = Place::new();
    let mut reader = place.read("log");
    sent(&place.write("log", b"up\n"));
    assert_eq!(reader.line(), "up\n");
    let taken = format!("process {} is its reader", reader.child.id());
    refused(&place.port("read log"), 1, &taken);
    refused(&place.port("remove log"), 1, &taken);
    let file = place.directory.path().join("file");
    std::fs::write(&file, "mine").expect("written");
    refused(&place.port("read ./file"), 1, "a file that is not a socket has the name");
    refused(&place.port("write ./file -m x"), 1, "cannot open port './file'");
    refused(&place.port("remove ./file"), 1, "there is no port of that name");
    assert_eq!(std::fs::read(&file).expect("still there"), b"mine");
    assert!(!place.directory.path().join("file.lock").exists());
    // The name is a path, and the port has a mode.
    let mut reader = place.read("./here --until-closed --mode 622");
    sent(&place.write("./here -m x", b""));
    assert_eq!(reader.printed(), b"x\n");
}

#[test]
fn ports_are_listed_shown_and_removed() {
    let place = Place::new();
    refused(&place.port("list"), 0, "weir: there is no port");
    let mut live = place.read("live");
    let mut command = place.command(WEIR);
    command.args(["port", "write", "--wait", "60s", "live"]).stdin(Stdio::piped());
    let mut writer = place.start(command);
    let mut input = writer.child.stdin.take().expect("piped");
    input.write_all(b"hello\nworld\n").expect("written");
    assert_eq!((live.line(), live.line()), ("hello\n".into(), "world\n".into()));
    let dead = place.read("dead");
    sent(&place.write("dead -m x", b""));
    dead.kill(Signal::KILL);
    let pid = dead.child.id();
    drop(dead);
    let pids = [(live.child.id(), "READER"), (writer.child.id(), "WRITER"), (pid, "DEAD")];
    insta::assert_snapshot!(place.redacted(&place.port("list"), &pids), @r"
    port reader
    dead gone (stale)
    live READER weir
    ");
    insta::assert_snapshot!(place.redacted(&place.port("stat dead"), &pids), @r"
    port DIR/weir/dead
    reader gone (stale: weir port remove removes the name)
    ");
    let shown = place.redacted(&place.port("stat live"), &pids);
    let shown: Vec<&str> = shown.lines().filter(|line| !line.starts_with("waited ")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    port DIR/weir/live
    reader READER weir
    received 2 messages, 10 B
    writers 1 open; 1 came, 0 closed, 0 died or were shut out
    writer user group sent bytes received ring waits spun slept asleep
    WRITER weir 0 0 2 10 B 2 256 KiB 0 0 0 -
    ");
    let stat = place.json("stat live --json -");
    schema::check("weir.port.stat/1", &stat);
    assert_eq!((&stat["stale"], &stat["reader"]["command"]), (&false.into(), &"weir".into()));
    assert_eq!(stat["reader"]["pid"], live.child.id());
    let gid = rustix::process::getegid().as_raw();
    assert_eq!((&stat["reader"]["gid"], &stat["writers"][0]["gid"]), (&gid.into(), &gid.into()));
    let account = &stat["account"];
    assert_eq!((&account["messages"], &account["writers_open"]), (&2.into(), &1.into()));
    schema::check("weir.port.stat/1", &place.json("stat dead --json -"));
    assert_eq!(stat["writers"][0]["pid"], writer.child.id());
    let list = place.json("list --json -");
    schema::check("weir.port.list/1", &list);
    assert_eq!(
        (&list["ports"][0]["stale"], &list["ports"][0]["reader"]),
        (&true.into(), &Value::Null)
    );
    assert_eq!(list["ports"][1]["reader"], stat["reader"]);
    sent(&place.port("remove dead"));
    assert_eq!(place.json("list --json -")["ports"].as_array().map(Vec::len), Some(1));
    // A port that a dead reader left behind can be read again as well.
    live.kill(Signal::KILL);
    live.child.wait().expect("ends");
    let mut again = place.read("live --until-closed");
    sent(&place.write("live -m again", b""));
    assert_eq!(again.printed(), b"again\n");
    refused(&place.port("list nowhere"), 1, "cannot list ports in 'nowhere': No such file");
}

#[test]
fn wrong_usage_is_reported_with_status_2() {
    let place = Place::new();
    for (args, why) in [
        ("read", "required"),
        ("read a/", "cannot name port 'a/': it is not the name of a file"),
        ("read log.lock", "it ends in '.lock'"),
        ("read log --null --raw", "cannot be used with"),
        ("read log --raw --header", "cannot be used with"),
        ("read log --mode 9", "not permissions"),
        ("read log --until-idle soon", "not a time"),
        ("read log --until-closed=0", "until-closed"),
        ("read log --max-writers 20000", "20000 is out of range: 1 to 16384"),
        ("read log --max-message 2G", "out of range"),
        ("write log --message x --null", "cannot be used with"),
        ("write log --capacity 2G", "out of range"),
        ("write a/", "cannot name port 'a/'"),
        ("drop log", "unrecognized subcommand"),
    ] {
        refused(&place.port(args), 2, why);
    }
    assert!(!place.path("").exists() || place.is_empty());
}

#[test]
fn pages_and_completions_have_the_verbs() {
    let place = Place::new();
    let pages = place.directory.path().join("man");
    sent(&place.command(WEIR).arg("man").arg("--out").arg(&pages).output().expect("weir starts"));
    for verb in ["read", "write", "list", "stat", "remove"] {
        assert!(pages.join(format!("weir-port-{verb}.1")).exists(), "{verb}");
    }
    let output = place.command(WEIR).args(["completions", "bash"]).output().expect("weir starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("--until-closed"));
    if have(&["bash"]) {
        let script = "eval \"$($WEIR completions bash)\"; COMP_WORDS=(weir port re); COMP_CWORD=2
            _weir weir re port; echo ${COMPREPLY[*]}";
        assert_eq!(place.bash(script).stdout, b"read remove\n");
    }
}
