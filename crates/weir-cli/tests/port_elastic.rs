//! `weir port read --elastic` (docs/contracts/port.md, 33 and 34).

mod common;

use common::port::{Place, refused, sent};
use rustix::process::Signal;
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
