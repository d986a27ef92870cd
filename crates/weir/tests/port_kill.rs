//! kill -9 of writers and readers of ports at random moments. The others continue, each dead writer
//! gives what it committed and one end, and nothing else is lost, doubled or torn.
//!
//! `WEIR_KILLS=100000` for more (`just torture`).

mod common;

use common::{Random, hear, kill, kills, place, say, start};
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use weir::{Ending, ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions};

/// Writers at work at any time.
const WRITERS: usize = 8;

/// The message of a number: the number, and bytes that are computed from it. Some are longer than a
/// piece of a ring of 16 KiB.
fn body(number: u64) -> Vec<u8> {
    let count = 8 + (number * 37 % 3000) as usize * if number.is_multiple_of(7) { 3 } else { 1 };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(count, number as u8);
    bytes
}

fn options() -> PortWriterOptions {
    PortWriterOptions::new().capacity_bytes(16 << 10)
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let input = std::io::stdin();
    match words[..] {
        // Sends numbers for ever, and counts in a file how many sends have returned.
        ["count", name, said] => {
            let said = File::options().write(true).open(said).expect("a file");
            let Ok(mut writer) = PortWriter::connect(name, &options()) else { return };
            say(&input, b"up");
            for number in 0.. {
                if writer.send(&body(number)).is_err() {
                    return;
                }
                said.write_all_at(&(number + 1).to_le_bytes(), 0).expect("said");
            }
        }
        ["read", name] => {
            let mut port = Port::create(name, &PortOptions::new()).expect("a port");
            say(&input, b"up");
            let mut buffer = vec![0; 1 << 16];
            loop {
                port.receive(&mut buffer).expect("received");
            }
        }
        _ => panic!("no role: {role}"),
    }
}

struct Writing {
    child: Child,
    said: File,
    _socket: OwnedFd,
}

fn start_writer(name: &Path, directory: &Path, number: u64) -> Writing {
    let path = directory.join(format!("said-{number}"));
    let said = File::options().read(true).write(true).create_new(true).open(&path).expect("new");
    said.write_all_at(&[0; 8], 0).expect("written");
    let (child, socket) = start(&format!("count {} {}", name.display(), path.display()));
    assert_eq!(hear(&socket), b"up");
    Writing { child, said, _socket: socket }
}

/// What has come from each writer, by its process.
#[derive(Default)]
struct Seen {
    next: HashMap<i32, u64>,
    ended: HashMap<i32, u64>,
}

impl Seen {
    /// The next of what comes.
    fn receive(&mut self, port: &mut Port, buffer: &mut [u8]) {
        let received =
            port.receive_timeout(buffer, Duration::from_secs(20)).expect("something comes");
        let process = received.identity.pid;
        let next = self.next.entry(process).or_insert(0);
        match received.event {
            Event::Message { bytes } => {
                assert!(!self.ended.contains_key(&process), "after its end");
                assert!(buffer[..bytes] == body(*next), "number {next} is torn, lost or doubled");
                *next += 1;
            }
            Event::Closed(ending) => {
                assert_eq!(ending, Ending::Died);
                assert!(self.ended.insert(process, *next).is_none(), "it ended twice");
            }
            other => panic!("no pieces were asked for: {other:?}"),
        }
    }
}

#[test]
fn killed_writers_lose_nothing_and_hold_up_nobody() {
    let (directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let (mut random, mut seen) = (Random(0x5eed_0005), Seen::default());
    let mut buffer = vec![0; 1 << 16];
    let mut writing: Vec<Writing> = Vec::new();
    for round in 0..kills(200) {
        while writing.len() < WRITERS {
            let number = round * 16 + writing.len() as u64;
            writing.push(start_writer(&name, directory.path(), number));
        }
        for _ in 0..random.below(300) {
            seen.receive(&mut port, &mut buffer);
        }
        let mut victim = writing.swap_remove(random.below(WRITERS as u64) as usize);
        let pid = victim.child.id() as i32;
        kill(&mut victim.child);
        let mut said = [0; 8];
        victim.said.read_exact_at(&mut said, 0).expect("said");
        // Everything that it counted as sent comes, then its end. The others continue meanwhile.
        let mut others = 0;
        while !seen.ended.contains_key(&pid) {
            seen.receive(&mut port, &mut buffer);
            others += 1;
            assert!(others < 1_000_000, "its end comes before all of the others' messages");
        }
        seen.next.remove(&pid);
        let (got, said) = (seen.ended.remove(&pid).unwrap_or(0), u64::from_le_bytes(said));
        assert!(got >= said, "round {round}: {said} sends returned, {got} arrived");
        assert!(got <= said + 1, "round {round}: more came than was sent");
    }
    for mut writing in writing {
        kill(&mut writing.child);
    }
}

#[test]
fn writers_learn_that_their_reader_was_killed() {
    let (_directory, name) = place();
    let mut random = Random(0x5eed_0006);
    for _ in 0..kills(200) / 8 {
        let (mut child, socket) = start(&format!("read {}", name.display()));
        assert_eq!(hear(&socket), b"up");
        let sending: Vec<_> = (0..3)
            .map(|_| {
                let name = name.clone();
                std::thread::spawn(move || {
                    let mut writer = PortWriter::connect(&name, &options()).ok()?;
                    (0..).find_map(|number| writer.send(&body(number)).err())
                })
            })
            .collect();
        // sleep: the instant of the kill is the test's input.
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        kill(&mut child);
        for thread in sending {
            if let Some(error) = thread.join().expect("no panic") {
                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
            }
        }
    }
}
