//! `weir buffer`: its options, what it shows and says, and the file behind it
//! (docs/contracts/pool.md).

mod common;

use common::buffer::{Buffer, sample, with_mounts};
use common::port::{Place, refused, said, sent, until};
use common::{WEIR, have};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::{Duration, Instant};

fn json(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.directory.path().join("json")).expect("written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn wrong_usage_is_refused() {
    let place = Place::new();
    for (options, expected) in [
        ("--memory many", "not a size"),
        ("--memory 4K", "cannot"),
        ("--rate 0", "nothing would ever pass"),
        ("--no-spill --spill .", "cannot be used with"),
        ("--json -", "standard output is for the data"),
        ("file", "unexpected argument"),
    ] {
        let output = place.bash(&format!("echo | $WEIR buffer {options}"));
        refused(&output, 2, expected);
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_directory_it_cannot_use_is_refused_by_name() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("file"), "").expect("written");
    for (directory, why) in [("missing", "No such file"), ("file", "Not a directory")] {
        for script in [
            format!("echo | $WEIR buffer --spill {directory}"),
            format!("echo | TMPDIR={directory} $WEIR buffer"),
        ] {
            let output = place.bash(&script);
            refused(&output, 1, &format!("'{directory}'"));
            assert!(said(&output).contains(why), "{}", said(&output));
        }
    }
    sent(&place.bash("test $(echo kept | TMPDIR=missing $WEIR buffer --no-spill) = kept"));
    let script = "mkdir r && mount -t tmpfs -o ro none r && echo | $WEIR buffer --spill r";
    if let Some(output) = with_mounts(&place, script) {
        refused(&output, 1, "Read-only file system");
    }
    let output = place.bash("echo | $WEIR buffer --json missing/file");
    refused(&output, 1, "cannot write 'missing/file': No such file");
}

#[test]
fn a_rate_is_held_and_the_writer_goes_on() {
    let place = Place::new();
    let bytes = sample(300_000);
    let mut buffer = Buffer::start(&place, "--rate 100000");
    let begun = Instant::now();
    let fed = buffer.feed(bytes.clone());
    assert!(fed.all() && begun.elapsed() < Duration::from_secs(2), "the rate is the output's");
    assert!(buffer.read() == bytes);
    let took = begun.elapsed();
    // Of three seconds' worth the first may not yet have been there, the last not yet passed.
    assert!(took >= Duration::from_secs(2), "{took:?}");
    assert_eq!(buffer.end().0.code(), Some(0));
}

#[test]
fn what_it_says_adds_up() {
    let place = Place::new();
    let bytes = sample(10_000_000);
    let mut buffer = Buffer::start(&place, "--memory 1M --json json");
    let fed = buffer.feed(bytes.clone());
    until("it takes what nobody reads", || fed.bytes() > 2_500_000);
    assert!(buffer.read() == bytes && fed.all());
    let (status, said) = buffer.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    let json = json(&place);
    assert_eq!((&json["schema"], &json["ended"]), (&"weir.buffer/1".into(), &"done".into()));
    let bytes = |name: &str| json[format!("{name}_bytes")].as_u64().expect(name);
    assert_eq!((bytes("in"), bytes("out")), (10_000_000, 10_000_000));
    assert_eq!(bytes("spliced") + bytes("buffered"), 10_000_000);
    assert!(bytes("buffered") > 0 && bytes("most_memory") > 0, "{json}");
    // Blocks that were read while they were being written may be so still at the end.
    let laundry = bytes("delayed") - bytes("cancelled") - bytes("spilled");
    assert!(laundry <= bytes("most_memory"), "{json}");
    assert!(bytes("most_memory") <= 1 << 20, "{json}");
    let seconds = |name: &str| json[format!("{name}_s")].as_f64().expect(name);
    let rate = json["out_bytes_per_s"].as_f64().expect("a rate");
    assert!((rate * seconds("wall") - 1e7).abs() < 1.0, "{json}");
    assert!(seconds("user") + seconds("system") > 0.0, "{json}");
    assert!(json["engine"].as_str().is_some_and(|engine| !engine.is_empty()));
}

#[test]
fn what_failed_is_in_the_json_too() {
    let place = Place::new();
    let output = place.bash("echo lost | $WEIR buffer --json json > /dev/full");
    refused(&output, 1, "No space left on device");
    assert_eq!(json(&place)["ended"], "failed");
    assert!(json(&place)["error"].as_str().is_some_and(|text| text.contains("cannot write")));
    assert!(
        !place.bash("yes | $WEIR buffer --json json | head -c 1 > out").status.success()
            || json(&place)["ended"] == "reader gone"
    );
}

#[test]
fn the_table_has_a_line_for_each_figure() {
    let place = Place::new();
    let output = place.bash("echo kept | $WEIR buffer --stats");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"kept\n"[..]));
    // Numbers, units and what is not worth a digit differ from run to run.
    let masked = |line: &str| {
        let words = line.split_whitespace().filter_map(|word| match word {
            "-" => Some(String::from("N")),
            "B" | "kB" | "MB" | "GB" | "B/s" | "kB/s" | "MB/s" | "GB/s" => None,
            word if word.contains(|c: char| c.is_ascii_digit()) => Some(String::from("N")),
            word => Some(word.to_owned()),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let text = said(&output);
    let lines = text.lines().take_while(|line| !line.contains("cpu"));
    insta::assert_snapshot!(lines.map(masked).collect::<Vec<_>>().join("\n"));
}

#[test]
fn help_says_what_there_is() {
    let mut command = Place::new().command(WEIR);
    command.args(["buffer", "-h"]).env_remove("COLUMNS").current_dir("/");
    let output = command.output().expect("weir starts");
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout).into_owned());
}

#[test]
fn a_terminal_shows_how_it_goes() {
    if !have(&["script"]) {
        return;
    }
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(200_000)).expect("written");
    let shown = |options: &str, input: &str| {
        // A width is given, since a terminal that nobody sees has none.
        let inner = format!("stty cols 100; {input} $WEIR buffer {options} | cat > out");
        let script = format!("script -qec \"{inner}\" /dev/null < /dev/null; cmp in out");
        let output = place.command("bash").env("TERM", "xterm").args(["-c", &script]).output();
        let output = output.expect("bash starts");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let slow = shown("--rate 200000", "< in");
    for part in ["in ", "out ", "memory ", "100%", " left"] {
        assert!(slow.contains(part), "no {part} in {slow:?}");
    }
    let unknown = shown("--rate 200000", "cat in |");
    assert!(unknown.contains("spilled") && !unknown.contains(" left"), "{unknown:?}");
    let last = unknown.trim_end().rsplit('\r').next().expect("a line");
    assert!(last.contains("memory at most"), "the last line stays: {unknown:?}");
    assert_eq!(shown("--quiet --rate 200000", "cat in |"), "");
}

#[test]
fn nothing_is_shown_where_nobody_looks() {
    let place = Place::new();
    let mut buffer = Buffer::start(&place, "--rate 200000");
    let fed = buffer.feed(sample(200_000));
    assert!(buffer.read().len() == 200_000 && fed.all());
    assert_eq!(buffer.end().1, "");
}

#[test]
fn nothing_is_left_behind() {
    let place = Place::new();
    std::fs::create_dir(place.directory.path().join("spill")).expect("made");
    let is_empty =
        || std::fs::read_dir(place.directory.path().join("spill")).expect("there").next().is_none();
    for signal in [Some(Signal::KILL), Some(Signal::TERM), None] {
        let bytes = sample(10_000_000);
        let mut buffer = Buffer::start(&place, "--memory 1M --spill spill");
        let fed = buffer.feed(bytes.clone());
        until("it takes what nobody reads", || fed.bytes() > 2_500_000);
        assert!(is_empty(), "the file has no name");
        if let Some(signal) = signal {
            kill_process(Pid::from_child(&buffer.child), signal).expect("sent");
            buffer.child.wait().expect("ends");
            assert!(!fed.all() || buffer.read().len() < bytes.len());
        } else {
            assert!(buffer.read() == bytes && fed.all());
        }
        assert!(is_empty());
    }
}

#[test]
fn a_directory_that_is_removed_under_way_changes_nothing() {
    let place = Place::new();
    let directory = place.directory.path().join("spill");
    std::fs::create_dir(&directory).expect("made");
    let bytes = sample(20_000_000);
    let mut buffer = Buffer::start(&place, "--memory 1M --spill spill");
    let fed = buffer.feed(bytes.clone());
    until("it runs", || fed.bytes() > 500_000);
    std::fs::remove_dir(&directory).expect("removed");
    assert!(buffer.read() == bytes && fed.all());
    let (status, said) = buffer.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}
