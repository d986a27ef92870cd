//! `weir buffer` when it is interrupted, when it is asked, when it starts late; with files and
//! names (docs/contracts/pool.md).

use crate::common::WEIR;
use crate::common::buffer::{Buffer, json, sample};
use crate::common::port::{Place, refused, said};
use crate::common::until;
use crate::common::{bound, have};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write, pipe};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

#[test]
fn an_interrupted_buffer_writes_its_figures_and_says_what_is_lost() {
    let place = Place::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        for quiet in ["", "--quiet"] {
            let mut buffer = Buffer::start(&place, &format!("--stats --json json {quiet}"));
            assert!(buffer.feed(sample(3_000_000)).all(), "all is taken before anything is read");
            kill_process(Pid::from_child(&buffer.child), signal).expect("sent");
            let (status, said) = buffer.end();
            assert_eq!(status.signal(), Some(signal.as_raw()), "{said}");
            let json = json(&place);
            assert_eq!(json["ended"], "interrupted");
            let lost =
                json["bytes_in"].as_u64().zip(json["bytes_out"].as_u64()).map(|(a, b)| a - b);
            assert!(lost > Some(500_000) && json["not_passed_on_bytes"].as_u64() == lost, "{json}");
            assert_eq!(json["signal"], signal.as_raw(), "{json}");
            assert_eq!(said.contains("weir: interrupted: "), quiet.is_empty(), "{said}");
            assert!(said.contains("weir buffer: ") && said.contains("(interrupted)"), "{said}");
        }
    }
    // No byte of what was passed on is lost.
    let mut buffer = Buffer::start(&place, "--json json");
    let mut input = buffer.input.take().expect("open");
    input.write_all(b"passed").expect("written");
    buffer.output.as_mut().expect("open").read_exact(&mut [0; 6]).expect("read");
    kill_process(Pid::from_child(&buffer.child), Signal::TERM).expect("sent");
    assert_eq!(buffer.end().1, "");
    assert_eq!(json(&place)["not_passed_on_bytes"], 0);
}

#[test]
fn signals_that_were_ignored_when_it_began_cost_no_byte() {
    let place = Place::new();
    let (reader, input) = pipe().expect("a pipe");
    let (output, writer) = pipe().expect("a pipe");
    let mut command = place.command("sh");
    command.args(["-c", "trap '' HUP INT TERM; exec \"$WEIR\" buffer --json json"]);
    let child = command.stdin(reader).stdout(writer).spawn().expect("sh starts");
    // It would keep the other ends of both pipes.
    drop(command);
    bound(&child);
    let mut buffer = Buffer { child, input: Some(input), output: Some(output) };
    let bytes = sample(3_000_000);
    assert!(buffer.feed(bytes.clone()).all(), "all is taken before anything is read");
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        kill_process(Pid::from_child(&buffer.child), signal).expect("sent");
    }
    assert!(buffer.read() == bytes);
    let (status, said) = buffer.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    assert_eq!(json(&place)["ended"], "done");
}

#[test]
fn it_says_how_it_goes_when_it_is_asked() {
    let place = Place::new();
    let mut buffer = Buffer::start(&place, "--name copy --quiet");
    let mut input = buffer.input.take().expect("open");
    input.write_all(&[0; 5000]).expect("written");
    buffer.output.as_mut().expect("open").read_exact(&mut [0; 5000]).expect("read");
    let error = buffer.child.stderr.take().expect("piped");
    let mut lines = BufReader::new(error).lines();
    for _ in 0..2 {
        kill_process(Pid::from_child(&buffer.child), Signal::USR1).expect("sent");
        let line = lines.next().expect("a line").expect("text");
        assert!(line.starts_with("weir: copy: 4.9 KiB  0:00:"), "{line}");
    }
    drop(input);
    assert!(buffer.child.wait().expect("ends").success());
}

#[test]
fn nothing_is_passed_on_before_as_much_has_come_as_was_asked_for() {
    let place = Place::new();
    let mut buffer = Buffer::start(&place, "--start 50 --memory 1M");
    let mut input = buffer.input.take().expect("open");
    input.write_all(&[1; 400_000]).expect("written");
    let output = buffer.output.as_ref().expect("open");
    let waiting = || rustix::io::ioctl_fionread(output).expect("asked");
    // It has read everything that is there. This test writes the rest later.
    until("its input is empty", || rustix::io::ioctl_fionread(&input).expect("asked") == 0);
    // sleep: the test checks that nothing comes. If the time is too short, it only finds less.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(waiting(), 0);
    input.write_all(&[1; 200_000]).expect("written");
    until("it begins", || waiting() > 0);
    drop(input);
    assert_eq!(buffer.read().len(), 600_000);
    // The end of the input is enough to begin, the end of a file as well.
    std::fs::write(place.directory.path().join("f"), "short").expect("written");
    assert_eq!(place.bash("$WEIR buffer f --start 100").stdout, b"short");
}

#[test]
fn files_take_the_place_of_standard_input_and_output() {
    let place = Place::new();
    let bytes = sample(300_000);
    std::fs::write(place.directory.path().join("in"), &bytes).expect("written");
    let output =
        place.bash("$WEIR buffer in --output out <&- && $WEIR buffer - -o - < in | cmp - in");
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
    assert!(std::fs::read(place.directory.path().join("out")).expect("written") == bytes);
    refused(&place.bash("$WEIR buffer in -o in"), 1, "cannot write 'in': it is also the input");
    // The figures emptied the input, which was then passed on with status 0.
    for script in ["$WEIR buffer in --json in", "$WEIR buffer --json in < in"] {
        refused(&place.bash(script), 1, "cannot write 'in': it is also the input");
    }
    assert!(std::fs::read(place.directory.path().join("in")).expect("kept") == bytes);
    refused(&place.bash("$WEIR buffer missing"), 1, "cannot read 'missing': No such file");
    refused(&place.bash("$WEIR buffer in -o no/file"), 1, "cannot write 'no/file': No such file");
}

/// The figures took the place of the first bytes of the output, with status 0.
#[test]
fn figures_are_not_written_over_the_output() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(300_000)).expect("written");
    let why = "cannot write 'both': it is also the output";
    refused(&place.bash("$WEIR buffer in -o ./both --json both"), 1, why);
    let both = place.directory.path().join("both");
    for script in
        ["$WEIR buffer in -o ./both --json both", "cat in | $WEIR buffer --json both >> both"]
    {
        std::fs::write(&both, "kept").expect("written");
        refused(&place.bash(script), 1, why);
        assert_eq!(std::fs::read(&both).expect("there"), b"kept", "{script}");
    }
    refused(&place.bash("$WEIR buffer in --json both > both"), 1, why);
    // They stood behind the data in a pipe.
    for (name, script) in [
        ("/dev/stdout", "set -o pipefail; $WEIR buffer in --json /dev/stdout | cat"),
        ("pipe", "mkfifo pipe; cat pipe & $WEIR buffer in --json pipe > pipe"),
    ] {
        let output = place.bash(script);
        refused(&output, 1, &format!("cannot write '{name}': it is also the output"));
        assert!(output.stdout.is_empty(), "{script}");
    }
    let output = place.bash("$WEIR buffer in --json /dev/null > /dev/null");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn too_little_address_space_names_the_option_that_helps() {
    let place = Place::new();
    for options in ["", "--no-spill", "--spill ."] {
        let script = format!("ulimit -v 300000; echo | $WEIR buffer --memory 1G {options}");
        let output = place.bash(&script);
        refused(&output, 1, "ask for less than 1024 MiB with --memory");
        assert!(!said(&output).contains("--spill"), "{}", said(&output));
    }
}

/// The descriptor to wait at was made when it was first needed: with one too few, a buffer failed after
/// it had taken bytes, which were lost.
#[test]
fn too_few_descriptors_fail_it_before_it_takes_a_byte() {
    let place = Place::new();
    let bytes = sample(3_000_000);
    let mut failed = 0;
    for most in 5..16 {
        let mut command = place.command("sh");
        command.args(["-c", &format!("ulimit -n {most}; exec \"$WEIR\" buffer --memory 1M")]);
        let mut buffer = Buffer::start_by(command);
        let fed = buffer.feed(bytes.clone());
        until("it takes all or ends", || {
            fed.bytes() >= 3_000_000 || matches!(buffer.child.try_wait(), Ok(Some(_)))
        });
        let came = buffer.read();
        let (status, said) = buffer.end();
        match status.code() {
            Some(0) => assert!(came == bytes, "{} of {} with {most}", came.len(), bytes.len()),
            code => {
                assert_eq!((code, came.len()), (Some(1), 0), "{said} with {most}");
                failed += 1;
            }
        }
        fed.all();
    }
    assert!(0 < failed && failed < 11, "{failed}");
}

#[test]
fn forced_progress_is_a_line_each_time() {
    let place = Place::new();
    let mut command = place.command(WEIR);
    command.args([
        "buffer",
        "--force",
        "--name",
        "a\u{1b}b",
        "--interval",
        "50ms",
        "--rate",
        "100K",
    ]);
    std::fs::write(place.directory.path().join("in"), [0; 40_000]).expect("written");
    let output = command.arg("in").stdout(Stdio::null()).output().expect("weir starts");
    let text = said(&output);
    assert!(text.lines().count() >= 2, "{text:?}");
    assert!(
        text.lines().all(|line| line.starts_with("a?b: ") && line.contains(" in ")),
        "{text:?}"
    );
    assert!(!text.contains(['\r', '\u{1b}']), "{text:?}");
}

#[test]
fn two_buffers_share_a_terminal() {
    if !have(&["script"]) {
        return;
    }
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(200_000)).expect("written");
    let inner =
        "stty cols 100; $WEIR buffer -N one -L 150K in | cat | $WEIR buffer -N two -L 120K |
        cat > out";
    std::fs::write(place.directory.path().join("inner"), inner).expect("written");
    let script = "timeout 60 script -qec 'bash inner' /dev/null < /dev/null; cmp in out";
    let output = place.bash_command(script).env("TERM", "xterm").output().expect("bash starts");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown:?}");
    // One of the two draws its row below the other's, and the last one leaves both rows.
    let below = shown.split("\r\n\r").skip(1).filter(|line| line.contains("\u{1b}[1A\r"));
    let names: Vec<_> = below.map(|line| &line[..3]).collect();
    assert!(names.len() >= 2 && names.iter().all(|name| *name == names[0]), "{shown:?}");
    let other = if names[0] == "one" { "two: " } else { "one: " };
    assert!(shown.contains(&format!("\r\r{other}")), "{shown:?}");
    assert!(shown.ends_with("\r\n\r\n"), "{shown:?}");
}
