//! `weir port read --elastic` (docs/contracts/port.md, 33 and 34).

use crate::common::port::{Place, refused, sent};
use crate::common::until;
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;

/// The output rests until all writers are gone, and nobody waits for it.
#[test]
fn writers_do_not_wait_for_an_elastic_reader() {
    let place = Place::new();
    let mut reader = place.read("log --elastic --memory 1M --spill . --until-closed=4");
    let mut script = String::from("for job in 1 2 3 4; do ");
    script += "seq -f \"$job %g and some more text\" 100000 | $WEIR port write --wait 60s log & ";
    script += "jobs=\"$jobs $!\"; done; for job in $jobs; do wait $job || exit 1; done";
    // Ten megabytes are sent before the first byte is printed to anybody.
    sent(&place.bash(&script));
    let printed = String::from_utf8(reader.printed()).expect("text");
    for job in 1..=4 {
        let own = printed.lines().filter(|line| line.starts_with(&format!("{job} ")));
        let expected = (1..=100_000).map(|at| format!("{job} {at} and some more text"));
        assert!(own.eq(expected.collect::<Vec<_>>().iter().map(String::as_str)), "job {job}");
    }
    assert_eq!(printed.lines().count(), 400_000);
    assert!(place.is_empty());
}

/// It was said again each time that a part of the file had become free.
#[test]
fn a_full_file_is_reported_once() {
    let place = Place::new();
    let script = "ulimit -f 4000; exec $WEIR port read log --elastic --memory 1M --spill . \
                  --until-closed";
    let mut reader = place.start(place.bash_command(script));
    let mut writer =
        place.bash_command("seq 1000000 | $WEIR port write --wait 60s log").spawn().expect("bash");
    let (mut sent, mut looks) = (Value::Null, 0);
    until("memory and file are full, and the writer waits", || {
        let now = place.first_writer("log");
        let rests = now["waiting"] == true && now["bytes_out"] == sent;
        (sent, looks) = (now["bytes_out"].clone(), if rests { looks + 1 } else { 0 });
        looks == 5
    });
    let (status, printed, said) = reader.end();
    assert!(writer.wait().expect("ends").success() && status.success(), "{said}");
    assert_eq!(printed.split(|byte| *byte == b'\n').count(), 1_000_001);
    assert_eq!(said.matches("cannot spill to").count(), 1, "{said}");
}

#[test]
fn an_interrupted_elastic_reader_says_what_it_loses() {
    let place = Place::new();
    let mut reader = place.read("log --elastic --memory 1M --no-spill");
    let input = "some text that nobody reads\n".repeat(20_000);
    sent(&place.write("log", input.as_bytes()));
    reader.kill(Signal::TERM);
    let status = reader.child.wait().expect("ends");
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut reader.child.stderr.take().expect("piped"), &mut said)
        .expect("text");
    assert!(said.contains("of messages in the backlog are lost"), "{said:?}");
    refused(&place.port("read log --memory 1M"), 2, "--elastic");
}
