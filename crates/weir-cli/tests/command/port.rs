//! `weir port read` and `write`: messages of many processes through one name, and how each side
//! ends (docs/contracts/port.md).

use crate::common::WEIR;
use crate::common::port::{Place, refused, sent};
use crate::common::schema;
use crate::common::{bound, until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

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
    // It prints into a file, which nobody reads meanwhile.
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
        // The output is read while it is written, because a pipe does not hold all of it.
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
    // The last line needs no newline, and gets one.
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
    let mut reader = place.read("log --json - --until-closed");
    sent(&place.write("log", b"a \"word\"\n\xff\xfe\n"));
    let printed = String::from_utf8(reader.printed()).expect("text");
    let seen: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&seen[0]["text"], &seen[0]["base64"]), (&"a \"word\"".into(), &Value::Null));
    assert_eq!((&seen[1]["text"], &seen[1]["base64"]), (&Value::Null, &"//4=".into()));
    seen.iter().for_each(|line| schema::check("weir.port.read/1", line));
    let writer = &seen[1]["writer"];
    assert_eq!((&writer["number"], &seen[1]["sequence"]), (&1.into(), &2.into()));
    assert_eq!(writer["uid"], rustix::process::getuid().as_raw());
    assert_eq!(writer["gid"], rustix::process::getgid().as_raw());
    assert!(writer["pid"].as_u64() > Some(1) && seen.len() == 2, "{printed}");
    // It writes to a file, and then prints nothing.
    let mut reader = place.read("log --json lines --until-closed");
    sent(&place.write("log -m one -m two", b""));
    assert_eq!(reader.printed(), b"");
    let lines = std::fs::read_to_string(place.directory.path().join("lines")).expect("written");
    let mut last =
        lines.lines().map(|line| schema::check_text("weir.port.read/1", line.as_bytes()));
    assert_eq!(last.next_back().expect("lines")["text"], "two");
}

#[test]
fn no_message_forges_the_header_of_another_writer() {
    let place = Place::new();
    let mut reader = place.read("log --header --until-closed=2");
    sent(&place.write("log --null", b"x\n2:1\tFORGED\0\n\0C:\\dir\\n\0"));
    sent(&place.write("log", b"honest\n"));
    let expected = "1:1\tx\n1:1\t2:1\tFORGED\n1:2\t\n1:2\t\n1:3\tC:\\dir\\n\n2:1\thonest\n";
    assert_eq!(String::from_utf8_lossy(&reader.printed()), expected);
    let mut reader = place.read("log --header --null --until-closed");
    sent(&place.write("log", b"y\x002:1\tFORGED\n"));
    assert_eq!(reader.printed(), b"1:1\ty\x001:1\t2:1\tFORGED\0");
}

#[test]
fn it_ends_once_nothing_has_come_for_so_long() {
    let place = Place::new();
    sent(&place.port("read nothing --until-idle 10ms"));
    // The writer runs before the reader begins to count.
    let mut command = place.command("bash");
    command.args(["-c", "$WEIR port write --wait 60s --message something log"]);
    let mut writer = place.start(command);
    let mut reader = place.read("log --until-idle 3s");
    assert_eq!(reader.printed(), b"something\n");
    assert!(writer.end().0.success());
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
    // It ends even if nobody reads what it prints.
    let reader = place.read("log");
    let mut command = place.command("bash");
    command.args(["-c", "yes | $WEIR port write --wait 60s log"]);
    let mut writer = place.start(command);
    until("its writer waits", || place.first_writer("log")["waiting"] == true);
    reader.kill(Signal::TERM);
    let (status, _, err) = writer.end();
    assert_eq!(status.code(), Some(1), "{err}");
    let mut reader = reader;
    assert_eq!(reader.child.wait().expect("ends").signal(), Some(15));
    assert!(place.is_empty());
}

#[test]
fn a_reader_whose_output_nobody_reads_dies_of_sigpipe() {
    let place = Place::new();
    let script = "($WEIR port read log; echo $? >&2) | head -1";
    let mut command = place.command("bash");
    command.args(["-c", script]);
    let mut both = place.start(command);
    sent(&place.write("log", b"1\n"));
    // Nothing more is sent. The reader notices that its output is closed all the same.
    let (_, out, err) = both.end();
    assert_eq!((out.as_slice(), err.as_str()), (&b"1\n"[..], "141\n"));
    assert!(place.is_empty());
}

/// A program that gives its children sockets for pipes (as Node.js does) and ends left a reader behind, and
/// the name with it, until the next message came.
#[test]
fn a_reader_whose_output_is_a_socket_that_nobody_reads_dies_of_sigpipe() {
    let place = Place::new();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let mut command = place.command(WEIR);
    command.args(["port", "read", "log"]).stdout(std::os::fd::OwnedFd::from(theirs));
    let mut reader = command.spawn().expect("weir starts");
    bound(&reader);
    drop(command);
    until("the port is there", || place.path("log").exists());
    drop(ours);
    let status = reader.wait().expect("ends");
    assert_eq!(status.signal(), Some(Signal::PIPE.as_raw()));
    assert!(place.is_empty());
}

#[test]
fn a_full_disk_is_reported() {
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

/// What came was printed nowhere, and what should have been sent was nothing, with status 0.
#[test]
fn closed_standard_descriptors_are_reported() {
    let place = Place::new();
    let closed = place.bash("$WEIR port read log --until-idle 1ms >&-");
    refused(&closed, 1, "cannot write to standard output: it is closed");
    assert!(!place.path("log").exists());
    sent(&place.bash("$WEIR port read log --until-idle 1ms --json printed >&-"));
    let mut reader = place.read("log --until-closed=2");
    let closed = place.bash("$WEIR port write --wait 60s log <&-");
    refused(&closed, 1, "cannot read standard input: it is closed");
    for verb in ["list", "stat log"] {
        let closed = place.bash(&format!("$WEIR port {verb} >&-"));
        refused(&closed, 1, "cannot write to standard output: it is closed");
    }
    sent(&place.bash("$WEIR port write log --message all <&-"));
    assert_eq!(reader.printed(), b"all\n");
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
fn what_is_too_long_is_refused_and_what_was_before_it_is_there() {
    let place = Place::new();
    let mut reader = place.read("log --max-message 10 --until-closed=2");
    let mut command = place.command(WEIR);
    command.args(["port", "write", "--wait", "60s", "log"]).stdin(Stdio::piped());
    let mut writer = place.start(command);
    let mut input = writer.child.stdin.take().expect("piped");
    // Once the writer is let in, it knows the longest message that the port accepts.
    input.write_all(b"short\n").expect("written");
    assert_eq!(reader.line(), "short\n");
    input.write_all(b"0123456789\nlonger than it\nnot sent\n").expect("written");
    let (status, _, err) = writer.end();
    assert_eq!(status.code(), Some(1), "{err}");
    let why = "the message has 14 bytes, more than the limit of 10 (message 3 of standard input)\n";
    assert!(err.ends_with(why), "{err}");
    let torn = place.write("log --length-prefixed", b"\x03\0\0\0abc\x05\0\0\0ab");
    refused(&torn, 1, "weir: standard input ends in the middle of a message");
    assert_eq!(reader.printed(), b"0123456789\nabc\n");
    let mut reader = place.read("log --until-closed");
    let lies = place.write("log --length-prefixed", b"text that is no length");
    refused(&lies, 1, "does each message follow its length?");
    assert_eq!(reader.printed(), b"");
}

/// It was refused without its number.
#[test]
fn a_message_of_the_command_line_is_refused_by_its_number() {
    let place = Place::new();
    let _reader = place.read("log --max-message 10");
    let told = (0..100).find_map(|_| {
        let output = place.write("log --message short --message longer-than-it", b"");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        // One that was not let in at once does not know the limit, and is shut out.
        err.contains("more than the limit of 10").then_some(err)
    });
    let told = told.expect("it was let in at once");
    assert!(told.ends_with("the limit of 10 (message 2 of --message)\n"), "{told}");
}
