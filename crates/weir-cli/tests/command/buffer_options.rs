//! `weir buffer`: its options, what it shows and what it prints (docs/contracts/pool.md).

use crate::common::buffer::{Buffer, json, sample, with_mounts};
use crate::common::port::{Place, refused, said, sent};
use crate::common::until;
use crate::common::{WEIR, have};
use std::time::{Duration, Instant};

#[test]
fn wrong_usage_is_refused() {
    let place = Place::new();
    for (options, expected) in [
        ("--memory many", "not a size"),
        ("--memory 4K", "'4K' for '--memory <SIZE>': too small: at least 256K"),
        ("--memory 262143", "too small"),
        ("--memory 5000G", "too large: at most 4T"),
        ("--limit 5000G", "too large: at most 4T"),
        ("--rate 0", "no byte would ever pass"),
        ("--no-spill --spill .", "cannot be used with"),
        ("--no-spill --limit 1M", "cannot be used with"),
        ("--json -", "standard output carries the data"),
        ("one two", "unexpected argument"),
        ("--start 0", "write 1 to 100"),
        ("--start half", "not a share of the memory"),
        ("--rate -1", "'-1' for '--rate <SIZE>': not a size"),
        ("--memory -1", "not a size"),
        ("--interval 1ms", "too short: at least 50ms"),
        ("--force --quiet", "cannot be used with"),
    ] {
        let output = place.bash(&format!("echo | $WEIR buffer {options}"));
        refused(&output, 2, expected);
        assert!(output.stdout.is_empty());
    }
    // Its least and its largest memory are the library's.
    for options in
        ["--memory 256K", "--memory 4T --no-spill", "--limit 4096G", "--limit 0", "-P 50%"]
    {
        assert_eq!(
            place.bash(&format!("echo | $WEIR buffer {options}")).stdout,
            b"\n",
            "{options}"
        );
    }
    let output = place.bash("echo | WEIR_SPILL_ENGINE=aio $WEIR buffer");
    refused(&output, 2, "weir: cannot use WEIR_SPILL_ENGINE: engine 'aio' is neither");
}

/// A named file replaces standard input or output. An error names that file.
#[test]
fn what_fails_on_a_named_file_is_told_by_its_name() {
    let place = Place::new();
    refused(&place.bash("$WEIR buffer ."), 1, "cannot read '.': Is a directory");
    let full = "echo | $WEIR buffer -o /dev/full";
    refused(&place.bash(full), 1, "cannot write '/dev/full': No space left");
    refused(&place.bash("$WEIR buffer - < ."), 1, "cannot read standard input: Is a directory");
}

#[test]
fn a_directory_it_cannot_use_is_refused_by_name() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("file"), "").expect("written");
    for (directory, why) in [("missing", "No such file"), ("file", "Not a directory")] {
        let output = place.bash(&format!("echo | $WEIR buffer --spill {directory}"));
        refused(&output, 1, &format!("'{directory}'"));
        assert!(said(&output).contains(why), "{}", said(&output));
        // If the user did not choose the directory, a failure there is no reason to lose the
        // stream.
        let script = format!("echo kept | TMPDIR={directory} $WEIR buffer --json json");
        let output = place.bash(&script);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"kept\n"[..]));
        let text = said(&output);
        assert!(text.contains(why) && text.contains("using memory only"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let warning = json(&place)["warning"].clone();
        assert!(warning.as_str().is_some_and(|text| text.contains(why)), "{warning}");
    }
    sent(&place.bash("test $(echo kept | TMPDIR=missing $WEIR buffer --no-spill) = kept"));
    let script = "mkdir r && mount -t tmpfs -o ro none r && echo | $WEIR buffer --spill r";
    if let Some(output) = with_mounts(&place, script) {
        refused(&output, 1, "weir: cannot spill to 'r': Read-only file system");
        assert!(said(&output).contains("name another directory with --spill, or use --no-spill"));
    }
    let output = place.bash("echo | $WEIR buffer --json missing/file");
    refused(&output, 1, "cannot write 'missing/file': No such file");
}

#[test]
fn a_rate_is_held_and_the_writer_continues() {
    let place = Place::new();
    let mut slow = Buffer::start(&place, "--rate 1000");
    assert!(slow.feed(sample(3_000_000)).all(), "the rate is the output's, which takes an hour");
    drop(slow);
    let bytes = sample(300_000);
    let mut buffer = Buffer::start(&place, "--rate 100000");
    let begun = Instant::now();
    let fed = buffer.feed(bytes.clone());
    assert!(fed.all() && buffer.read() == bytes);
    let took = begun.elapsed();
    // Of the bytes of three seconds, the first may not have come yet, and the last may not have
    // passed.
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
    assert_eq!(json["ended"], "done");
    let bytes = |name: &str| json[format!("{name}_bytes")].as_u64().expect(name);
    assert_eq!((&json["bytes_in"], &json["bytes_out"]), (&10_000_000.into(), &10_000_000.into()));
    assert_eq!(bytes("spliced") + bytes("buffered"), 10_000_000);
    assert!(bytes("buffered") > 0 && bytes("max_memory") > 0, "{json}");
    // The last writes may still be under way when their blocks have been taken.
    let under_way = bytes("delayed").checked_sub(bytes("cancelled") + bytes("spilled"));
    assert!(under_way.is_some_and(|bytes| bytes <= 1 << 20), "{json}");
    assert_eq!(bytes("memory"), 1 << 20);
    assert!(json["input_ended_s"].as_f64() <= json["wall_s"].as_f64(), "{json}");
    assert!(bytes("max_memory") <= 1 << 20, "{json}");
    let seconds = |name: &str| json[format!("{name}_s")].as_f64().expect(name);
    let rate = json["bytes_out_per_s"].as_f64().expect("a rate");
    assert!((rate * seconds("wall") - 1e7).abs() < 1.0, "{json}");
    assert!(seconds("user") + seconds("sys") > 0.0, "{json}");
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

/// It died of SIGXFSZ, and wrote no figures.
#[test]
fn an_output_as_long_as_a_file_may_be_is_an_error() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(900_000)).expect("written");
    for (how, expected) in [
        ("> out", "cannot write to standard output: File too large"),
        ("-o out", "cannot write 'out': File too large"),
    ] {
        let script =
            format!("ulimit -f 400; cat in | $WEIR buffer --memory 256K --json json {how}");
        refused(&place.bash(&script), 1, expected);
        assert_eq!(json(&place)["ended"], "failed");
    }
}

#[test]
fn the_table_has_a_line_for_each_figure() {
    let place = Place::new();
    let output = place.bash("echo kept | $WEIR buffer --stats");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"kept\n"[..]));
    // Numbers, units and parts that are too small to print differ from run to run.
    let masked = |line: &str| {
        let words = line.split_whitespace().map(|word| word.trim_matches(','));
        let words = words.filter_map(|word| match word {
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
        // The test sets a width, since a terminal without a window has none.
        let inner = format!("stty cols 100; {input} $WEIR buffer {options} | cat > out");
        let script = format!("script -qec \"{inner}\" /dev/null < /dev/null; cmp in out");
        let output = place.bash_command(&script).env("TERM", "xterm").output();
        let output = output.expect("bash starts");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let slow = shown("--rate 200000", "< in");
    for part in ["in ", "out ", "memory ", "100%", " left"] {
        assert!(slow.contains(part), "no {part} in {slow:?}");
    }
    let unknown = shown("--rate 200000", "cat in |");
    assert!(unknown.contains("spilled"), "{unknown:?}");
    let last = unknown.trim_end().rsplit('\r').next().expect("a line");
    assert!(last.contains("memory at most"), "the last line stays: {unknown:?}");
    assert!(unknown.contains("in     ended") && unknown.contains(" left"), "{unknown:?}");
    assert_eq!(shown("--quiet --rate 200000", "cat in |"), "");
}

#[test]
fn an_interrupted_line_of_progress_is_ended() {
    if !have(&["script"]) {
        return;
    }
    let place = Place::new();
    for signal in ["INT", "TERM", "HUP"] {
        // It runs in the foreground of its terminal, and is interrupted once it has shown
        // something.
        let inner = format!(
            "stty cols 100; mkfifo {signal}; exec 3<>{signal}; echo >&3
            (until grep -q spilled shown; do :; done; kill -{signal} $(cat pid)) 3>&- &
            bash -c 'echo $$ > pid; exec $WEIR buffer <&3 > out'; echo status $?"
        );
        std::fs::write(place.directory.path().join("inner"), inner).expect("written");
        let script = "> shown; timeout 60 script -qefc 'bash inner' shown < /dev/null";
        let output = place.bash_command(script).env("TERM", "xterm").output();
        let shown = String::from_utf8(output.expect("bash starts").stdout).expect("text");
        let number = match signal {
            "INT" => 130,
            "TERM" => 143,
            _ => 129,
        };
        assert!(shown.contains(&format!("\nstatus {number}\r\n")), "{signal}: {shown:?}");
    }
}

#[test]
fn nothing_is_shown_where_nobody_looks() {
    let place = Place::new();
    let mut buffer = Buffer::start(&place, "--rate 200000");
    let fed = buffer.feed(sample(200_000));
    assert!(buffer.read().len() == 200_000 && fed.all());
    assert_eq!(buffer.end().1, "");
}
