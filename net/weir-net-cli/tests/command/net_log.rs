//! `weir net log`: what it prints, follows, chooses and measures (docs/contracts/log.md).

use crate::common::port::{Place, Running, refused, said, sent};
use crate::common::schema;
use crate::common::until;
use crate::common::{WEIR, have};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use weir::{Port, PortOptions};
use weir_net::log::{
    Direction, Dropped, FailureEvent, FlowChange, FlowEvent, Kinds, Log, Packet, StationChange,
    StationEvent,
};
use weir_net::stalls::WaitedSide;

/// An echo request.
const ECHO: [u8; 28] = [
    0x45, 0, 0, 28, 0x12, 0x34, 0x40, 0, 64, 1, 0x14, 0x99, 10, 9, 0, 1, 10, 9, 0, 2, //
    8, 0, 0xf7, 0xf7, 0, 7, 0, 1,
];

/// The file of the log of the switch on weir0.
fn path(place: &Place) -> PathBuf {
    let directory = place.path("net/weir0");
    std::fs::create_dir_all(&directory).expect("made");
    directory.join("log")
}

/// A log of the switch on weir0 with a ring of 128 units.
fn made(place: &Place) -> Log {
    // The port shows that a switch is up. Here it belongs to this test, until the test ends.
    let port = path(place).with_file_name("switch");
    std::mem::forget(Port::create(port, &PortOptions::new()));
    made_by_one_that_ended(place)
}

/// A log of weir0 with a ring of 128 units, while no switch is up.
fn made_by_one_that_ended(place: &Place) -> Log {
    Log::create(path(place), 4096).expect("made")
}

/// Runs `weir net log ARGS` to its end.
fn net_log(place: &Place, args: &str) -> Output {
    let mut command = place.command(WEIR);
    command.args(["net", "log"]).args(args.split_whitespace()).env("TZ", "UTC");
    command.output().expect("weir starts")
}

/// Starts `weir net log ARGS`.
fn start(place: &Place, args: &str) -> Running {
    let mut command = place.command(WEIR);
    command.args(["net", "log"]).args(args.split_whitespace()).env("TZ", "UTC");
    place.start(command)
}

fn station(pid: u32) -> StationEvent {
    StationEvent { change: StationChange::Attached, pid, protocol: 17, port: 69 }
}

fn dropped() -> Dropped {
    Dropped { reason: weir_net::drop_reason::DropReason::NoPort.into(), packet: Packet::of(&ECHO) }
}

/// The printed lines without the times.
fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", said(output));
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    let untimed = |line: &str| {
        let (time, rest) = line.split_at(26);
        assert_eq!((&time[4..5], &time[10..11], &time[19..20]), ("-", " ", "."), "{line}");
        rest.to_owned()
    };
    text.lines().map(untimed).collect()
}

#[test]
fn a_log_that_is_none_is_reported() {
    let place = Place::new();
    let none = "weir: cannot find the switch of 'weir0': no switch has ever run on 'weir0' \
                (none is up; weir net up starts one)\n";
    refused(&net_log(&place, ""), 1, none);
    refused(&net_log(&place, "--tun tap7 -f"), 1, "no switch has ever run on 'tap7'");
    assert!(!place.path("net").exists(), "looking leaves nothing behind");
    path(&place);
    refused(&net_log(&place, "--set all"), 1, none);
    refused(&net_log(&place, "nowhere"), 1, "weir: cannot open log 'nowhere': No such file");
    std::fs::write(place.directory.path().join("file"), "a text").expect("written");
    let no_log = "weir: cannot open log 'file': it is not a log of weir net: too short\n";
    refused(&net_log(&place, "file"), 1, no_log);
    refused(&net_log(&place, "file --sync drops"), 1, no_log);
}

#[test]
fn wrong_usage_is_reported_with_status_2() {
    let place = Place::new();
    made(&place);
    refused(&net_log(&place, "--tun ../weir0"), 2, "1 to 15 of A-Z a-z 0-9 _ . -");
    refused(&net_log(&place, "--kinds drop"), 2, "the kinds are transactions, errors, dumps-in");
    refused(&net_log(&place, "--set drops,"), 2, "cannot log kind \"\"");
    for args in
        ["--json - --pcap", "--set all -f", "--cost --last 3", "log --tun weir0", "--last x"]
    {
        assert_eq!(net_log(&place, args).status.code(), Some(2), "{args}");
    }
}

#[test]
fn what_writers_left_is_printed_when_they_are_gone() {
    let place = Place::new();
    let log = made_by_one_that_ended(&place);
    log.set_mask(Kinds::ALL);
    log.packet(Direction::In, &ECHO);
    log.dropped(&dropped());
    log.station(&station(9));
    drop(log);
    let echo = "10.9.0.1 > 10.9.0.2 icmp echo request id 7 seq 1, 28 bytes";
    let bytes = "4500 001c 1234 4000 4001 1499 0a09 0001 0a09 0002 0800 f7f7 0007 0001";
    let expected = [
        format!(" in       {echo}"),
        format!(" dump-in  {echo}: {bytes}"),
        format!(" drop     {echo}: no-port"),
        String::from(" station  attached: udp port 69, process 9"),
    ];
    let output = net_log(&place, "");
    assert_eq!(lines(&output), expected);
    let told = "weir: the switch on 'weir0' has ended (none is up; weir net up starts one); this is its log";
    assert!(said(&output).starts_with(told), "{}", said(&output));
    let file = path(&place).display().to_string();
    assert_eq!(lines(&net_log(&place, &file)), expected);
    assert_eq!(lines(&net_log(&place, "--last 2")), expected[2..]);
    assert_eq!(lines(&net_log(&place, "--last 0")), [""; 0]);
    assert_eq!(lines(&net_log(&place, "--kinds drops,dumps-in")), expected[1..3]);
    assert_eq!(lines(&net_log(&place, "--kinds transactions --last 1")), expected[..1]);
    let json = net_log(&place, "--json - --kinds drops");
    let line = schema::check_text("weir.net.log/1", &json.stdout);
    assert_eq!((&line["kind"], &line["reason_name"]), (&"drops".into(), &"no-port".into()));
}

/// What a killed writer has left open once ended the search for the last event.
#[test]
fn a_log_was_last_written_behind_what_was_begun_and_not_finished() {
    let place = Place::new();
    let log = made_by_one_that_ended(&place);
    log.station(&station(1));
    // A writer that was killed has reserved a unit; the head is at word 64.
    let file = std::fs::File::options().read(true).write(true).open(path(&place)).expect("opened");
    let mut head = [0; 8];
    file.read_exact_at(&mut head, 512).expect("read");
    assert_eq!(u64::from_ne_bytes(head), 1);
    file.write_all_at(&2_u64.to_ne_bytes(), 512).expect("written");
    let second = || std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let begun = second();
    until("a second has passed", || second() > begun);
    log.station(&station(2));
    let output = net_log(&place, "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().expect("a line");
    assert!(last.ends_with("process 2"), "{text}");
    let told = format!("this is its log, last written {}\n", &last[..19]);
    assert!(said(&output).contains(&told), "{}", said(&output));
}

#[test]
fn events_of_every_kind_are_lines_of_their_schema() {
    let place = Place::new();
    let log = made(&place);
    log.set_mask(Kinds::ALL);
    // A packet of ICMP, one with ports, one with neither, and one that is cut off.
    for (protocol, length) in [(1, 28), (17, 28), (132, 28), (17, 22), (1, 3)] {
        let mut packet = ECHO;
        packet[9] = protocol;
        log.packet(Direction::Out, &packet[..length]);
        log.dropped(&Dropped { packet: Packet::of(&packet[..length]), ..dropped() });
    }
    let reason = weir_net::log::EventReason::CHECKSUM;
    let (source, target) = ([10, 9, 0, 1].into(), [10, 9, 0, 2].into());
    log.error(&FailureEvent { reason, protocol: 2, source, target, value: 7 });
    for change in [
        StationChange::Attached,
        StationChange::Detached,
        StationChange::Died,
        StationChange::Refused,
    ] {
        log.station(&StationEvent { change, ..station(0) });
    }
    for change in [
        FlowChange::Began { block_bytes: 512, window: 1 },
        FlowChange::Ended { bytes: 7 },
        FlowChange::Failed { bytes: 7 },
        FlowChange::Again { from: 7 },
        FlowChange::Stalled { waits_for: WaitedSide::Other },
    ] {
        log.flow(&FlowEvent { change, protocol: 17, port: 69, remote: source, remote_port: 7 });
    }
    let file = place.path("net/weir0/lines");
    let output = net_log(&place, &format!("--json {}", file.display()));
    assert_eq!((output.stdout.len(), said(&output).as_str()), (0, ""));
    let text = std::fs::read_to_string(&file).expect("written");
    let check = |line: &str| schema::check_text("weir.net.log/1", line.as_bytes());
    let kinds: Vec<Value> = text.lines().map(|line| check(line)["kind"].clone()).collect();
    for (kind, count) in [
        ("transactions", 5),
        ("dumps-out", 5),
        ("drops", 5),
        ("errors", 1),
        ("stations", 4),
        ("flows", 5),
    ] {
        assert_eq!(kinds.iter().filter(|is| *is == kind).count(), count, "{kind}: {text}");
    }
}

#[test]
fn a_follower_prints_events_as_they_come() {
    let place = Place::new();
    let log = made(&place);
    (0..20).for_each(|pid| log.station(&station(pid)));
    let mut running = start(&place, "-f");
    // It prints the last ten, and then each new one.
    for pid in 10..20 {
        assert!(running.line().ends_with(&format!("process {pid}\n")));
    }
    for pid in 20..23 {
        log.station(&station(pid));
        assert!(running.line().ends_with(&format!("process {pid}\n")));
    }
    running.kill(Signal::INT);
    let (status, out, err) = running.end();
    assert_eq!((status.signal(), out, err.as_str()), (Some(2), vec![], ""));
    let mut all = start(&place, "-f --since-start --json -");
    for pid in 0..23 {
        let line = schema::check_text("weir.net.log/1", all.line().as_bytes());
        assert_eq!(line["pid"], pid);
    }
}

#[test]
fn a_follower_continues_when_the_switch_is_started_again() {
    let place = Place::new();
    let log = made(&place);
    log.station(&station(1));
    let mut running = start(&place, "-f");
    assert!(running.line().ends_with("process 1\n"));
    for pid in 2..5 {
        let log = made(&place);
        log.station(&station(pid));
        assert!(running.line().ends_with(&format!("process {pid}\n")));
    }
    // The events from before are kept.
    let old = path(&place).with_extension("old").display().to_string();
    assert_eq!(lines(&net_log(&place, &old)).len(), 1);
    // Another file in the log's place is an error.
    std::fs::rename(path(&place), place.path("net/weir0/away")).expect("renamed");
    std::fs::write(path(&place), "something else").expect("written");
    let (status, _, err) = running.end();
    assert_eq!(status.code(), Some(1), "{err}");
    assert!(err.contains("it is not a log of weir net"), "{err}");
}

#[test]
fn a_follower_whose_output_nobody_reads_dies_of_sigpipe() {
    let place = Place::new();
    let _log = made(&place);
    for args in ["-f", "-f --pcap --since-start", "-f --json -"] {
        let mut running = start(&place, args);
        // While no event comes, the command ends only because nobody reads its output any longer.
        if args.contains("pcap") {
            let mut header = [0; 24];
            running.output.read_exact(&mut header).expect("a header");
        }
        let (reader, _) = std::io::pipe().expect("a pipe");
        drop(std::mem::replace(&mut running.output, no_output(reader)));
        let (status, _, err) = running.end();
        assert_eq!((status.signal(), err.as_str()), (Some(13), ""), "{args}");
    }
}

/// An output that is at its end, to take the place of the one that is closed.
fn no_output(reader: std::io::PipeReader) -> std::io::BufReader<std::process::ChildStdout> {
    let descriptor: std::os::fd::OwnedFd = reader.into();
    std::io::BufReader::new(descriptor.into())
}

/// The log was emptied, which ends its writers by SIGBUS.
#[test]
fn a_log_is_not_emptied_for_its_own_json() {
    let place = Place::new();
    made(&place).station(&station(1));
    let log = path(&place);
    let (name, length) = (log.display(), std::fs::metadata(&log).expect("there").len());
    for args in ["--json LOG", "LOG --json LOG", "-f LOG --json LOG", "--cost LOG --json LOG"] {
        let output = net_log(&place, &args.replace("LOG", &name.to_string()));
        refused(&output, 1, &format!("cannot write '{name}': it is also the input"));
    }
    assert_eq!(std::fs::metadata(&log).expect("there").len(), length);
}

#[test]
fn a_full_disk_is_reported() {
    let place = Place::new();
    made(&place).station(&station(1));
    let mut command = place.command(WEIR);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("opened");
    command.args(["net", "log"]).stdout(full);
    let output = command.output().expect("weir starts");
    refused(&output, 1, "weir: cannot write to standard output: No space left on device");
}

#[test]
fn kinds_are_chosen_while_the_switch_runs() {
    let place = Place::new();
    let log = made(&place);
    let mut running = start(&place, "-f");
    let chosen = net_log(&place, "--set drops,stations --sync drops");
    let text = String::from_utf8_lossy(&chosen.stdout).into_owned();
    let expected = "logged: drops,stations (was transactions,errors,drops,stations,flows,local-requests)\n\
                    waits for the disk: drops (was none)\n";
    assert_eq!(text, expected);
    assert_eq!((log.mask(), log.sync_mask()), (Kinds::DROPS.and(Kinds::STATIONS), Kinds::DROPS));
    log.packet(Direction::In, &ECHO);
    log.dropped(&dropped());
    assert!(running.line().contains(" drop "), "the packet is not logged");
    assert_eq!(net_log(&place, "--set all").stdout, b"logged: all (was drops,stations)\n");
    log.packet(Direction::Out, &ECHO);
    assert!(running.line().contains(" out ") && running.line().contains(" dump-out "));
    sent(&net_log(&place, "--set none --sync none"));
    assert_eq!((log.mask(), log.sync_mask()), (Kinds::NONE, Kinds::NONE));
}

#[test]
fn what_a_follower_missed_is_reported() {
    let place = Place::new();
    for (args, expected) in [("-f", ""), ("-f --json -", "\"missing\"")] {
        let log = made(&place);
        let mut running = start(&place, args);
        log.station(&station(1));
        assert!(running.line().contains("station"), "it follows");
        // The reader is stopped while the ring goes round.
        running.kill(Signal::STOP);
        let status = format!("/proc/{}/status", running.child.id());
        let stopped =
            || std::fs::read_to_string(&status).is_ok_and(|text| text.contains("T (stopped)"));
        until("it is stopped", stopped);
        (0..1000).for_each(|pid| log.station(&station(pid)));
        running.kill(Signal::CONT);
        until("the last comes", || {
            let line = running.line();
            line.contains("process 999") || line.contains("\"pid\":999")
        });
        if !expected.is_empty() {
            let line = schema::check_text("weir.net.log/1", running.line().as_bytes());
            assert_eq!(line["kind"], "missing");
            assert_eq!(line["overwritten_units"], 1000 - 128);
        }
        running.kill(Signal::TERM);
        let (_, _, err) = running.end();
        let told = err.contains("872 units (32 bytes of events) were overwritten");
        assert_eq!(told, expected.is_empty(), "{err}");
    }
}

#[test]
fn dumps_are_a_capture_file() {
    let place = Place::new();
    let log = made(&place);
    log.dropped(&dropped());
    let empty = net_log(&place, "--pcap");
    assert_eq!(empty.stdout.len(), 24);
    assert!(said(&empty).contains("the log holds no packets"), "{}", said(&empty));
    log.set_mask(Kinds::ALL);
    log.packet(Direction::In, &ECHO);
    log.packet(Direction::Out, &ECHO);
    let whole = net_log(&place, "--pcap");
    assert_eq!((whole.stdout.len(), said(&whole).as_str()), (24 + 2 * (16 + 28), ""));
    assert_eq!(net_log(&place, "--pcap --kinds dumps-out").stdout.len(), 24 + 16 + 28);
    if !have(&["tcpdump"]) {
        return;
    }
    // This works while the log is followed, too: tcpdump ends after two packets, and weir with it.
    let shown = place.bash("$WEIR net log -f --pcap | tcpdump -nr - -c 2");
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let count = text.lines().filter(|line| line.contains("ICMP echo request, id 7")).count();
    assert_eq!(count, 2, "{text}{}", said(&shown));
}

#[test]
fn the_cost_of_each_kind_is_measured() {
    let place = Place::new();
    let text = net_log(&place, "--cost");
    let table = String::from_utf8_lossy(&text.stdout).into_owned();
    for word in ["off", "transactions", "errors", "drops", "stations", "dumps-in", "on the disk"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let build = if cfg!(debug_assertions) { "debug build" } else { "release build" };
    assert!(table.contains(build), "{table}");
    let left = std::fs::read_dir(place.path("net/weir0")).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left behind");
    // It measures in a log beside the given one, and leaves that one alone.
    let file = path(&place);
    let log = Log::create(&file, 4096).expect("made");
    let json = net_log(&place, &format!("--cost --json - {}", file.display()));
    let report = schema::check_text("weir.net.log.cost/1", &json.stdout);
    let cases = report["cases"].as_array().expect("cases");
    assert!(cases.len() >= 11, "{report}");
    for case in cases {
        let figure = |name: &str| case[name].as_f64().expect("a figure");
        let (low, median, high) = (figure("low_s"), figure("median_s"), figure("high_s"));
        assert!(0.0 < low && low <= median && median <= high, "{case}");
    }
    assert_eq!(log.mask(), Kinds::USUAL);
    assert!(lines(&net_log(&place, "")).is_empty());
}

#[test]
fn help_says_what_there_is() {
    let place = Place::new();
    let output = net_log(&place, "--help");
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout));
    let mut group = place.command(WEIR);
    let group = group.args(["net", "--help"]).stdin(Stdio::null()).output().expect("weir starts");
    assert!(String::from_utf8_lossy(&group.stdout).contains("\n  log "));
}
