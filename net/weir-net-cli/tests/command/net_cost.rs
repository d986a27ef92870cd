//! `weir net up`: which calls and which rows of the profile an answer costs (docs/design/net.md).

use crate::common::net::{Answers, Bed, HOST, Process};
use crate::common::{schema, until};
use rustix::process::Signal;
use serde_json::Value;

/// How often a row of the profile was entered, over all intervals that were printed.
fn calls(reports: &[Value], name: &str) -> u64 {
    let kinds = ["subroutines", "system_calls"];
    let rows = reports.iter().flat_map(|report| kinds.map(|kind| &report["sum"][kind]));
    let rows = rows.flat_map(|rows| rows.as_array().into_iter().flatten());
    rows.filter(|row| row["name"] == name).filter_map(|row| row["calls"].as_u64()).sum()
}

/// The profiles of all intervals while the kernel asks for 50 echoes, and all that was printed.
fn profiled(bed: &Bed) -> (Vec<Value>, String) {
    let mut profile = bed.net("profile --tun weir0 --interval 0.1 --json -");
    profile.said("weir.net.profile/1");
    bed.ok(&format!("ping -n -c 50 -l 50 {HOST}"));
    profile.kill(Signal::INT);
    assert!(profile.ended().success(), "{}", profile.printed());
    let printed = profile.printed();
    let lines = printed.lines().filter(|line| line.starts_with('{'));
    let report = |line: &str| schema::check_text("weir.net.profile/1", line.as_bytes());
    (lines.map(report).collect(), printed)
}

/// An echo was once counted as put into a ring, though it went into none.
#[test]
fn an_echo_that_the_switch_answers_is_in_one_row_for_each_thing_that_is_done() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let host = bed.host(Answers::Inline, "", "");
    let (reports, printed) = profiled(&bed);
    for row in ["ip.verify", "icmp.answer", "ip.complete", "tun.write"] {
        assert_eq!(calls(&reports, row), 50, "{row}: {printed}");
    }
    assert!(calls(&reports, "tun.read") >= 50, "{printed}");
    assert_eq!(calls(&reports, "ring.put"), 0, "{printed}");
    host.end();
}

/// With stations that check headers, only packets that had no station were counted as such.
#[test]
fn each_packet_is_one_whoever_checks_its_header() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let host = bed.host(Answers::Allen, "", "");
    let (reports, printed) = profiled(&bed);
    let counts = reports.iter().map(|report| &report["sum"]["unit"]["count"]);
    assert_eq!(counts.filter_map(Value::as_u64).sum::<u64>(), 50, "{printed}");
    assert_eq!(calls(&reports, "ring.put"), 50, "{printed}");
    host.end();
}

/// Traces the writes of a process. Returns `None`, and prints why, where it may not be traced.
fn traced(bed: &Bed, of: &Process) -> Option<Process> {
    let mut command = bed.command("strace");
    command.args(["-f", "-e", "trace=write,writev", "-o", "trace", "-p", &of.pid().to_string()]);
    let mut strace = Process::start(command);
    let mut ended = false;
    until("it is attached", || {
        ended = !strace.is_running();
        ended || strace.printed().contains(" attached")
    });
    if ended {
        eprintln!("SKIPPED: strace: {}", strace.printed());
    }
    (!ended).then_some(strace)
}

#[test]
fn a_short_packet_is_written_by_write_and_a_long_one_by_writev() {
    let Some(bed) = Bed::new(&["ping", "strace"]) else { return };
    for answers in [Answers::Inline, Answers::Daemon] {
        let host = bed.host(answers, "", "");
        for (size, is_short) in [(56, true), (1000, false)] {
            let Some(mut strace) = traced(&bed, &host.switch) else { return };
            bed.ok(&format!("ping -n -c 3 -l 3 -s {size} {HOST}"));
            strace.kill(Signal::INT);
            strace.ended();
            let trace = std::fs::read_to_string(bed.directory.path().join("trace"));
            let trace = trace.expect("written");
            let made = |call: &str| trace.lines().filter(|line| line.contains(call)).count();
            let (write, writev) = (made(" write("), made(" writev("));
            assert_eq!((write >= 3, writev >= 3), (is_short, !is_short), "{size}: {trace}");
        }
        host.end();
    }
}
