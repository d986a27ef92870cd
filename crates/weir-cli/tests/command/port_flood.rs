//! `weir port read` while a writer floods it with records that are valid and make no message
//! (docs/contracts/port.md, 19, 26).

#[path = "../../../weir/tests/common/raw.rs"]
mod raw;
#[path = "../../../weir/tests/common/words.rs"]
mod words;

use crate::common::WEIR;
use crate::common::killed::Killed;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use weir::{PortWriter, PortWriterOptions};
use words::{FIRST, Words};

#[test]
fn a_flood_keeps_no_line_from_being_printed_and_no_reader_from_ending() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("flooded");
    let mut command = Command::new(WEIR);
    command.args(["port", "read"]).arg(&name).stdout(Stdio::piped());
    let mut reading = Killed(command.spawn().expect("weir starts"));
    let output = reading.0.stdout.take().expect("piped");
    let (printed, prints) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let _ = printed.send(line.expect("text"));
        }
    });
    let options = PortWriterOptions::new().connect_timeout(Duration::from_secs(20));
    let mut honest = PortWriter::connect(&name, &options).expect("a writer");
    let mut hostile = Words::connect(&name, 4 << 20);
    let (stop, is_on) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(hostile.put(FIRST, b"x"));
            while !stop.load(Ordering::Relaxed) {
                hostile.flood(0, u64::MAX);
                is_on.store(true, Ordering::Relaxed);
            }
        });
        while !is_on.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let mut failure = None;
        for number in 0..20 {
            honest.send(format!("line {number}").as_bytes()).expect("sent");
            match prints.recv_timeout(Duration::from_secs(5)) {
                Ok(line) => assert_eq!(line, format!("line {number}")),
                Err(_) => failure = Some("a line is held up"),
            }
        }
        let pid = rustix::process::Pid::from_child(&reading.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = reading.0.try_wait().expect("mine") {
                break Some(status);
            }
            if begun.elapsed() > Duration::from_secs(10) {
                break None;
            }
            std::thread::yield_now();
        };
        stop.store(true, Ordering::Relaxed);
        assert_eq!(failure, None);
        let status = status.expect("it ends, half a second after it was told to");
        assert_eq!(status.signal(), Some(15), "of the signal");
    });
    assert!(!name.exists(), "the name is gone");
}
