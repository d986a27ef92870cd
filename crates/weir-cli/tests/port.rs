//! `weir port`: messages of many processes through one name, how each end ends, and what is
//! listed, shown and refused (docs/contracts/port.md).

mod common;

use common::{WEIR, have};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

/// A directory of names, which goes with it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("weir").join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("XDG_RUNTIME_DIR", self.directory.path()).env("WEIR", WEIR);
        command.current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `weir port ARGS` to its end.
    fn port(&self, args: &str) -> Output {
        self.command(WEIR).arg("port").args(args.split(' ')).output().expect("weir starts")
    }

    /// Runs a script of bash to its end; `$WEIR` is the command.
    fn bash(&self, script: &str) -> Output {
        self.command("bash").args(["-c", script]).output().expect("bash starts")
    }

    fn start(&self, mut command: Command) -> Running {
        let mut child = command.spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, output }
    }

    /// Starts `weir port read ARGS`.
    fn read(&self, args: &str) -> Running {
        let mut command = self.command(WEIR);
        command.args(["port", "read"]).args(args.split(' '));
        self.start(command)
    }

    /// Sends input to a port that is, or soon will be.
    fn write(&self, args: &str, input: &[u8]) -> Output {
        let mut command = self.command(WEIR);
        command.args(["port", "write", "--wait=60s"]).args(args.split(' ')).stdin(Stdio::piped());
        let mut child = command.spawn().expect("weir starts");
        // One that was refused does not read.
        let _ = child.stdin.take().expect("piped").write_all(input);
        child.wait_with_output().expect("ends")
    }

    /// Every port of this place is closed, and nothing of it is left.
    fn is_empty(&self) -> bool {
        std::fs::read_dir(self.path("")).expect("a directory").next().is_none()
    }

    fn json(&self, args: &str) -> Value {
        let output = self.port(args);
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// The first writer to a port, as it is shown; nothing where there is none yet.
    fn first_writer(&self, name: &str) -> Value {
        let output = self.port(&format!("stat {name} --json"));
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        seen["writers"][0].clone()
    }

    /// Text with what differs from run to run replaced.
    fn redacted(&self, output: &Output, pids: &[(u32, &str)]) -> String {
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text = text.replace(&*self.directory.path().to_string_lossy(), "DIR");
        for (pid, word) in pids {
            text = text.replace(&format!(" {pid} "), &format!(" {word} "));
        }
        let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(squeeze).collect::<Vec<_>>().join("\n")
    }
}

/// A process that does not outlive the test.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line
    }

    fn kill(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    /// What else it printed, on both sides, and how it ended.
    fn end(&mut self) -> (ExitStatus, Vec<u8>, String) {
        let (mut out, mut err) = (Vec::new(), String::new());
        self.output.read_to_end(&mut out).expect("read");
        self.child.stderr.take().expect("piped").read_to_string(&mut err).expect("read");
        (self.child.wait().expect("ends"), out, err)
    }

    /// As it ends that has nothing to complain of.
    fn printed(&mut self) -> Vec<u8> {
        let (status, out, err) = self.end();
        assert_eq!((status.code(), err.as_str()), (Some(0), ""));
        out
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in ["panicked", "RUST_", "unwrap"] {
        assert!(!text.contains(word), "not for a user's eyes: {text}");
    }
    text
}

fn refused(output: &Output, status: i32, expected: &str) {
    assert_eq!(output.status.code(), Some(status), "{}", said(output));
    assert!(said(output).contains(expected), "{}", said(output));
}

fn sent(output: &Output) {
    assert_eq!((output.status.code(), said(output).as_str()), (Some(0), ""));
}

/// Lines short and long, some longer than a piece of a ring.
fn lines(writer: usize) -> String {
    let line = |at: usize| {
        let bytes = if at.is_multiple_of(50) { 50_000 } else { at * 37 % 200 };
        let filler: String = (0..bytes).map(|byte| char::from(b'a' + (byte % 23) as u8)).collect();
        format!("{writer} {at} {filler}\n")
    };
    (0..1000).map(line).collect()
}

#[test]
fn lines_of_many_shell_writers_are_never_torn() {
    let place = Place::new();
    for writer in 1..=8 {
        let file = place.directory.path().join(format!("in.{writer}"));
        std::fs::write(file, lines(writer)).expect("written");
    }
    // Into a file: nobody reads it meanwhile.
    let file = std::fs::File::create(place.directory.path().join("out")).expect("a file");
    let mut command = place.command(WEIR);
    command.args(["port", "read", "log", "--until-closed=8"]).stdout(file);
    let mut reader = command.spawn().expect("weir starts");
    let script = "for job in 1 2 3 4 5 6 7 8; do
        cat in.$job | $WEIR port write --wait 60s log & jobs=\"$jobs $!\"
        done; for job in $jobs; do wait $job || exit 1; done";
    sent(&place.bash(script));
    assert!(reader.wait().expect("ends").success());
    let printed = std::fs::read_to_string(place.directory.path().join("out")).expect("text");
    assert_eq!(printed.lines().count(), 8000);
    for writer in 1..=8 {
        let begin = format!("{writer} ");
        let own = printed.split_inclusive('\n').filter(|line| line.starts_with(&begin));
        assert!(own.eq(lines(writer).split_inclusive('\n')), "torn, lost or out of order");
    }
    assert!(place.is_empty());
}

#[test]
fn any_bytes_come_through_with_lengths_and_without_nul_with_nuls() {
    let place = Place::new();
    let message = |at: usize| (0..at * at * 3).map(move |byte| (byte * 7 + at) as u8);
    let (mut prefixed, mut ended, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..200 {
        let bytes: Vec<u8> = message(at).collect();
        prefixed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        prefixed.extend_from_slice(&bytes);
        plain.extend_from_slice(&bytes);
        ended.extend(bytes.iter().filter(|byte| **byte != 0));
        ended.push(0);
    }
    let through = |read: &str, write: &str, input: &[u8]| {
        let mut reader = place.read(&format!("x --until-closed {read}"));
        // Read while it is written: a pipe does not hold all of it.
        std::thread::scope(|scope| {
            let printed = scope.spawn(move || reader.printed());
            sent(&place.write(&format!("x {write}"), input));
            printed.join().expect("no panic")
        })
    };
    assert!(through("--length-prefixed", "--length-prefixed", &prefixed) == prefixed);
    assert!(through("--raw", "--length-prefixed", &prefixed) == plain);
    assert!(through("--null", "--null", &ended) == ended);
}

#[test]
fn a_line_is_sent_and_printed_as_soon_as_it_is_there() {
    let place = Place::new();
    let mut reader = place.read("log --until-closed");
    let mut command = place.command(WEIR);
    command.args(["port", "write", "--wait", "60s", "log"]).stdin(Stdio::piped());
    let mut writer = place.start(command);
    let mut input = writer.child.stdin.take().expect("piped");
    for line in ["one\n", "\n", "three\n"] {
        input.write_all(line.as_bytes()).expect("written");
        assert_eq!(reader.line(), line);
    }
    // The last needs no newline, and gets one.
    input.write_all(b"four").expect("written");
    drop(input);
    assert_eq!(reader.printed(), b"four\n");
    assert_eq!(writer.printed(), b"");
}

#[test]
fn headers_and_json_say_who_sent_what() {
    let place = Place::new();
    let mut reader = place.read("log --header --until-closed=2");
    sent(&place.write("log", b"a\nb\n"));
    sent(&place.write("log -m c -m=d", b"not read"));
    assert_eq!(reader.printed(), b"1:1\ta\n1:2\tb\n2:1\tc\n2:2\td\n");
    let mut reader = place.read("log --json --until-closed");
    sent(&place.write("log", b"a \"word\"\n\xff\xfe\n"));
    let printed = String::from_utf8(reader.printed()).expect("text");
    let seen: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&seen[0]["text"], &seen[0]["base64"]), (&"a \"word\"".into(), &Value::Null));
    assert_eq!((&seen[1]["text"], &seen[1]["base64"]), (&Value::Null, &"//4=".into()));
    assert_eq!((&seen[1]["writer"], &seen[1]["sequence"]), (&1.into(), &2.into()));
    assert_eq!(seen[1]["uid"], rustix::process::getuid().as_raw());
    assert!(seen[1]["pid"].as_u64() > Some(1) && seen.len() == 2, "{printed}");
}

#[test]
fn it_ends_once_nothing_has_come_for_so_long() {
    let place = Place::new();
    sent(&place.port("read nothing --until-idle 10ms"));
    let mut reader = place.read("log --until-idle 3s");
    sent(&place.write("log", b"something\n"));
    assert_eq!(reader.printed(), b"something\n");
    assert!(place.is_empty());
}

#[test]
fn a_reader_that_is_told_to_end_takes_its_name_away() {
    let place = Place::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut reader = place.read("log");
        sent(&place.write("log", b"up\n"));
        assert_eq!(reader.line(), "up\n");
        reader.kill(signal);
        let (status, out, err) = reader.end();
        assert_eq!((status.signal(), out, err.as_str()), (Some(signal.as_raw()), vec![], ""));
        assert!(place.is_empty());
    }
    // Also where nobody takes what it prints.
    let reader = place.read("log");
    let mut command = place.command("bash");
    command.args(["-c", "yes | $WEIR port write --wait 60s log"]);
    let mut writer = place.start(command);
    until("its writer waits", || place.first_writer("log")["waits_now"] == true);
    reader.kill(Signal::TERM);
    let (status, _, err) = writer.end();
    assert_eq!(status.code(), Some(1), "{err}");
    let mut reader = reader;
    assert_eq!(reader.child.wait().expect("ends").signal(), Some(15));
    assert!(place.is_empty());
}

/// Looks until it holds, for at most half a minute.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed().as_secs() < 30, "{what} in half a minute");
        std::thread::yield_now();
    }
}

#[test]
fn a_reader_whose_output_nobody_reads_dies_of_sigpipe() {
    let place = Place::new();
    let script = "($WEIR port read log; echo $? >&2) | head -1";
    let mut command = place.command("bash");
    command.args(["-c", script]);
    let mut both = place.start(command);
    sent(&place.write("log", b"1\n"));
    // Nothing more is sent: that its output is closed it sees all the same.
    let (_, out, err) = both.end();
    assert_eq!((out.as_slice(), err.as_str()), (&b"1\n"[..], "141\n"));
    assert!(place.is_empty());
}

#[test]
fn a_full_disk_is_said() {
    let place = Place::new();
    let mut command = place.command("bash");
    command.args(["-c", "exec $WEIR port read log > /dev/full"]);
    let mut reader = place.start(command);
    place.write("log", b"1\n");
    let (status, _, err) = reader.end();
    let why = "weir: cannot write to standard output: No space left on device (os error 28)\n";
    assert_eq!((status.code(), err.as_str()), (Some(1), why));
    assert!(place.is_empty());
}

#[test]
fn writers_end_with_their_reader_and_do_not_read_on() {
    let place = Place::new();
    let mut reader = place.read("log --header");
    let start = || {
        let mut command = place.command("bash");
        command.args(["-c", "yes | $WEIR port write --wait 60s log; exit ${PIPESTATUS[1]}"]);
        place.start(command)
    };
    let mut writers = [start(), start()];
    let mut seen = [false; 2];
    while seen != [true; 2] {
        let line = reader.line();
        seen[usize::from(line.starts_with("2:"))] = true;
    }
    reader.kill(Signal::KILL);
    for writer in &mut writers {
        let (status, _, err) = writer.end();
        let why = format!(
            "weir: cannot write to port '{}': its reader has closed or died\n",
            place.path("log").display()
        );
        assert_eq!((status.code(), err), (Some(1), why));
    }
}

#[test]
fn without_a_reader_nothing_is_sent() {
    let place = Place::new();
    let why = format!("cannot open port '{}': no reader is listening", place.path("x").display());
    refused(&place.port("write x -m hello"), 1, &format!("weir: {why}\n"));
    refused(&place.port("write x -m hello --wait 20ms"), 1, &why);
    refused(&place.port("stat x"), 1, "there is none of that name");
    refused(&place.port("remove x"), 1, "there is none of that name");
}

#[test]
fn what_is_too_long_is_refused_and_what_was_before_it_is_there() {
    let place = Place::new();
    let mut reader = place.read("log --max-message 10 --until-closed=2");
    let mut command = place.command(WEIR);
    command.args(["port", "write", "--wait", "60s", "log"]).stdin(Stdio::piped());
    let mut writer = place.start(command);
    let mut input = writer.child.stdin.take().expect("piped");
    // Once it is let in it knows what the port takes.
    input.write_all(b"short\n").expect("written");
    assert_eq!(reader.line(), "short\n");
    input.write_all(b"0123456789\nlonger than it\nnot sent\n").expect("written");
    let (status, _, err) = writer.end();
    assert_eq!(status.code(), Some(1), "{err}");
    let why = "the message has 14 bytes, 10 are the most (message 3 of standard input)\n";
    assert!(err.ends_with(why), "{err}");
    let torn = place.write("log --length-prefixed", b"\x03\0\0\0abc\x05\0\0\0ab");
    refused(&torn, 1, "weir: standard input ends within a message");
    assert_eq!(reader.printed(), b"0123456789\nabc\n");
    let mut reader = place.read("log --until-closed");
    let lies = place.write("log --length-prefixed", b"text that is no length");
    refused(&lies, 1, "is its length before each message?");
    assert_eq!(reader.printed(), b"");
}

#[test]
fn a_port_has_most_writers() {
    let place = Place::new();
    let _reader = place.read("log --max-writers 1");
    let mut command = place.command(WEIR);
    command.args(["port", "write", "--wait", "60s", "log"]).stdin(Stdio::piped());
    let first = place.start(command);
    until("the first is let in", || place.first_writer("log")["let_in"] == true);
    refused(&place.write("log -m x", b""), 1, "it has its most writers, 1");
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
    refused(&place.port("read ./file"), 1, "a file that is no socket has the name");
    refused(&place.port("write ./file -m x"), 1, "cannot open port './file'");
    refused(&place.port("remove ./file"), 1, "there is none of that name");
    assert_eq!(std::fs::read(&file).expect("still there"), b"mine");
    assert!(!place.directory.path().join("file.lock").exists());
    // A path, and a mode.
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
    reader gone (stale: weir port remove takes the name away)
    ");
    let shown = place.redacted(&place.port("stat live"), &pids);
    let shown: Vec<&str> = shown.lines().filter(|line| !line.starts_with("waited ")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    port DIR/weir/live
    reader READER weir
    received 2 messages, 10 B
    writers 1 open; 1 came, 0 closed, 0 died or were shut out
    writer user sent bytes received ring waits slept asleep
    WRITER weir 0 2 10 B 2 256 KiB 0 0 -
    ");
    let stat = place.json("stat live --json");
    assert_eq!((&stat["schema"], &stat["stale"]), (&"weir.port.stat/1".into(), &false.into()));
    assert_eq!(stat["reader"]["pid"], live.child.id());
    assert_eq!((&stat["account"]["messages"], &stat["account"]["open"]), (&2.into(), &1.into()));
    assert_eq!(stat["writers"][0]["pid"], writer.child.id());
    let list = place.json("list --json");
    assert_eq!(
        (&list["ports"][0]["stale"], &list["ports"][1]["command"]),
        (&true.into(), &"weir".into())
    );
    sent(&place.port("remove dead"));
    assert_eq!(place.json("list --json")["ports"].as_array().map(Vec::len), Some(1));
    // What a dead reader left can be read again as well.
    live.kill(Signal::KILL);
    live.child.wait().expect("ends");
    let mut again = place.read("live --until-closed");
    sent(&place.write("live -m again", b""));
    assert_eq!(again.printed(), b"again\n");
    refused(&place.port("list nowhere"), 1, "cannot list ports in 'nowhere': No such file");
}

#[test]
fn wrong_usage_is_said_with_status_2() {
    let place = Place::new();
    for (args, why) in [
        ("read", "required"),
        ("read a/", "cannot name port 'a/': it is not the name of a file"),
        ("read log.lock", "names do not end in '.lock'"),
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
