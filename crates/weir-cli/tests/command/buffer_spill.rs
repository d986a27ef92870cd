//! `weir buffer` and the file behind its memory (docs/contracts/pool.md).

use crate::common::buffer::{Buffer, json, sample, with_mounts};
use crate::common::port::{Place, said, sent};
use crate::common::{have, python, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

#[test]
fn a_writer_continues_though_nobody_reads() {
    let place = Place::new();
    let bytes = sample(50_000_000);
    let mut buffer = Buffer::start(&place, "--memory 1M --spill . --json json");
    assert!(buffer.feed(bytes.clone()).all(), "all is taken before anything is read");
    assert!(most_bytes(&buffer) <= (1 << 20) + BESIDE_BYTES);
    assert!(buffer.read() == bytes);
    let (status, said) = buffer.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    let json = json(&place);
    let bytes = |name: &str| json[format!("{name}_bytes")].as_u64().expect(name);
    assert!(bytes("spilled") > 40_000_000 && bytes("read_back") > 40_000_000, "{json}");
    assert!(bytes("max_file") > 40_000_000 && bytes("max_memory") <= 1 << 20, "{json}");
    assert_eq!(bytes("delayed"), bytes("cancelled") + bytes("spilled"), "nothing is left");
}

/// The output of such a reader is never full for long. What counts is how long the writer is held
/// up.
#[test]
fn a_slow_reader_that_never_rests_does_not_hold_its_writer_up() {
    if !have(&["python3"]) {
        return;
    }
    let place = Place::new();
    // The writer begins once the reader reads: a late reader would be slow in another way.
    let reader = "import os, time
open(\"ready\", \"w\")
count, when = 0, None
while piece := os.read(0, 16384):
    count += len(piece)
    if when is None and os.path.exists(\"done\"):
        when = count
    time.sleep(0.0005)
print(when, count)";
    let writer = "(until [ -e ready ]; do sleep 0.01; done; head -c 20000000 /dev/zero; : > done)";
    let script = format!("{writer} | $WEIR buffer -q --memory 64M | {} -c '{reader}'", python());
    let output = place.bash(&script);
    let text = String::from_utf8_lossy(&output.stdout);
    let counts: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [when, count] = counts[..] else { panic!("{text} {}", said(&output)) };
    assert_eq!(count, 20_000_000);
    assert!(when < 12_000_000, "the writer was done when {when} bytes had been read");
}

#[test]
fn the_limit_makes_the_writer_wait() {
    let place = Place::new();
    let bytes = sample(30_000_000);
    let mut buffer = Buffer::start(&place, "--memory 1M --spill . --limit 10M --json json");
    let fed = buffer.feed(bytes.clone());
    until("file and memory are full", || fed.bytes() > 10_500_000);
    assert!(buffer.read() == bytes && fed.all());
    assert_eq!(buffer.end().0.code(), Some(0));
    assert!(json(&place)["max_file_bytes"].as_u64() <= Some(10 << 20), "{}", json(&place));
}

#[test]
fn a_full_device_is_reported_and_loses_nothing() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(30_000_000)).expect("written");
    // The reader begins once the buffer has reported the failure, and not before.
    let script = "set -o pipefail; mkdir spill && mount -t tmpfs -o size=4M none spill &&
        cat in | $WEIR buffer --memory 1M --spill spill --json json 2> said |
        { timeout 60 bash -c 'until grep -q \"memory only\" said; do sleep 0.01; done'; cat > out; }
        status=$?; cat said >&2; cmp in out && exit $status";
    let Some(output) = with_mounts(&place, script) else { return };
    assert_eq!(output.status.code(), Some(0), "no byte was lost: {}", said(&output));
    assert!(said(&output).contains("weir: cannot spill to "), "{}", said(&output));
    let said = said(&output);
    assert!(said.contains("No space left on device"), "{said}");
    assert!(
        said.contains("using memory only while that lasts: once it is full, the writer waits"),
        "{said}"
    );
    assert_eq!(said.matches("No space").count(), 1, "it is said once: {said}");
    assert_eq!(
        (&json(&place)["ended"], &json(&place)["bytes_out"]),
        (&"done".into(), &30_000_000.into())
    );
    assert!(json(&place)["warning"].as_str().is_some_and(|text| text.contains("No space left")));
}

/// A block device whose backing disk is full loses writes without an error.
#[test]
fn what_a_device_lost_without_a_word_is_an_error_with_verify() {
    if !have(&["mkfs.ext4", "losetup", "truncate"]) {
        return;
    }
    let place = Place::new();
    let bytes = sample(60_000_000);
    std::fs::write(place.directory.path().join("in"), &bytes).expect("written");
    let script = "mkdir small big && mount -t tmpfs -o size=24M none small &&
        truncate -s 200M small/image && mkfs.ext4 -q -O ^has_journal small/image &&
        loop=$(losetup -f --show small/image) && mount $loop big ||
            { losetup -d $loop; echo no loop device >&2; exit 77; }
        cat in | $WEIR buffer --memory 1M --spill big --verify 2> said |
        { timeout 60 bash -c 'until grep -q \"memory only\" said; do sleep 0.01; done'; cat > out; }
        status=${PIPESTATUS[1]}; cat said >&2; umount big; losetup -d $loop; exit $status";
    let Some(output) = with_mounts(&place, script) else { return };
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED: {}", said(&output));
        return;
    }
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let out = std::fs::read(place.directory.path().join("out")).expect("written");
    assert!(bytes.starts_with(&out), "no wrong byte is passed on: {} bytes, {said}", out.len());
    if out.len() == bytes.len() {
        eprintln!("SKIPPED: this kernel says what it loses");
        return;
    }
    assert!(said.contains("weir: cannot read back the backlog: the file in 'big' lost "), "{said}");
}

/// The descriptor to wait at stays readable after a failure, and all attempts were made at once.
#[test]
fn what_cannot_be_read_back_is_tried_for_a_second() {
    let place = Place::new();
    let bytes = sample(20_000_000);
    let mut buffer = Buffer::start(&place, "--memory 1M --spill . --verify --json json");
    assert!(buffer.feed(bytes.clone()).all(), "all is taken before anything is read");
    let descriptors = format!("/proc/{}/fd", buffer.child.id());
    let spilled = std::fs::read_dir(descriptors).expect("it runs").flatten().find(|entry| {
        let file = std::fs::metadata(entry.path());
        file.is_ok_and(|file| file.is_file() && file.len() > 1 << 20)
    });
    let file = std::fs::File::options().write(true).open(spilled.expect("spilled").path());
    file.expect("opened").set_len(0).expect("emptied");
    // It has begun with none of the attempts: what it passes on first is in memory.
    let begun = Instant::now();
    let came = buffer.read();
    let (status, said) = buffer.end();
    // Five attempts, and 200 ms between two of them.
    assert!(begun.elapsed() >= Duration::from_millis(800), "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("weir: cannot read back the backlog: "), "{said}");
    assert!(came.len() < bytes.len() && bytes.starts_with(&came), "{}", came.len());
    assert_eq!(json(&place)["ended"], "failed");
}

#[test]
fn many_buffers_spill_at_once() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(10_000_000)).expect("written");
    let script = "set -eo pipefail; mkfifo go.1 go.2 go.3 go.4; for job in 1 2 3 4; do
        cat in | $WEIR buffer --memory 1M --spill . | { read -r < go.$job; cmp - in; } &
        jobs=\"$jobs $!\"; done; for job in 1 2 3 4; do echo > go.$job; done
        for job in $jobs; do wait $job; done";
    sent(&place.bash(script));
}

#[test]
fn a_directory_that_is_removed_under_way_changes_nothing() {
    let place = Place::new();
    let directory = place.directory.path().join("spill");
    std::fs::create_dir(&directory).expect("made");
    let bytes = sample(20_000_000);
    let mut buffer = Buffer::start(&place, "--memory 1M --spill spill");
    let fed = buffer.feed(bytes.clone());
    until("it takes what nobody reads", || fed.bytes() > 2_500_000);
    std::fs::remove_dir(&directory).expect("removed");
    assert!(buffer.read() == bytes && fed.all());
    let (status, said) = buffer.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

/// The memory that a process needs besides its pool, to move bytes and for itself.
const BESIDE_BYTES: u64 = 8 << 20;

/// The most memory that a buffer used, without the pages of its program file: the less optimised
/// the program is, the more of these there are.
fn most_bytes(buffer: &Buffer) -> u64 {
    buffer.status_bytes("VmHWM").saturating_sub(buffer.status_bytes("RssFile"))
}

/// The most memory used by a buffer through which `put_bytes` went while its reader came late.
fn most_memory_bytes(options: &str, put_bytes: usize) -> u64 {
    let bytes = sample(put_bytes);
    let place = Place::new();
    let mut buffer = Buffer::start(&place, options);
    // The buffer does not end while its input is open, so the test can look at it.
    let held = buffer.input.as_ref().expect("open").try_clone().expect("copied");
    assert!(buffer.feed(bytes.clone()).all(), "all is taken before anything is read");
    let mut got = vec![0; put_bytes];
    buffer.output.as_mut().expect("open").read_exact(&mut got).expect("read");
    let most = most_bytes(&buffer);
    drop(held);
    assert!(got == bytes && buffer.end().0.success());
    most
}

#[test]
fn memory_stays_within_the_budget() {
    let most = most_memory_bytes("--memory 8M --spill .", 200_000_000);
    assert!(most <= (8 << 20) + BESIDE_BYTES, "{most} bytes of memory for 8 MiB");
    let most = most_memory_bytes("--memory 64M --no-spill", 60_000_000);
    assert!(most <= (64 << 20) + BESIDE_BYTES, "{most} bytes of memory for 64 MiB");
}

#[test]
fn nothing_is_left_behind() {
    let place = Place::new();
    let directory = place.directory.path().join("spill");
    std::fs::create_dir(&directory).expect("made");
    let is_empty = || std::fs::read_dir(&directory).expect("there").next().is_none();
    let bytes = sample(10_000_000);
    let spilling = |args: &str| {
        let mut buffer = Buffer::start(&place, &format!("--memory 1M --spill spill {args}"));
        let fed = buffer.feed(bytes.clone());
        until("it takes what nobody reads", || fed.bytes() > 9_000_000);
        assert!(is_empty(), "the file has no name");
        buffer
    };
    for signal in [Signal::KILL, Signal::TERM, Signal::INT] {
        let mut buffer = spilling("");
        kill_process(Pid::from_child(&buffer.child), signal).expect("sent");
        assert_eq!(buffer.end().0.signal(), Some(signal.as_raw()));
        assert!(is_empty(), "{signal:?}");
    }
    let mut buffer = spilling("");
    buffer.output = None;
    assert_eq!(buffer.end().0.signal(), Some(13), "its reader has gone");
    assert!(is_empty());
    for (args, code) in [("", 0), ("--json /dev/full", 1)] {
        let mut buffer = spilling(args);
        assert!(buffer.read() == bytes);
        assert_eq!(buffer.end().0.code(), Some(code));
        assert!(is_empty(), "{args}");
    }
}

#[test]
fn the_engine_that_is_wanted_is_used_and_reported() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(10_000_000)).expect("written");
    for (wanted, line) in [("threads", "threads, "), ("uring", "io_uring, ")] {
        let script = format!(
            "set -o pipefail; mkfifo go.{wanted}; cat in |
            WEIR_SPILL_ENGINE={wanted} $WEIR buffer --memory 1M --spill . --stats |
            {{ read -r < go.{wanted}; cmp - in; }} & job=$!; echo > go.{wanted}; wait $job"
        );
        let output = place.bash(&script);
        if wanted == "uring" && said(&output).contains("cannot start the engine") {
            eprintln!("SKIPPED: no io_uring here: {}", said(&output));
            continue;
        }
        assert!(output.status.success(), "{}", said(&output));
        let text = said(&output);
        let engine = text.lines().find_map(|line| line.trim().strip_prefix("engine"));
        assert!(engine.is_some_and(|engine| engine.trim().starts_with(line)), "{text}");
    }
}
