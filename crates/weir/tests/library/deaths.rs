//! Many ends of one process whose other ends die at once (docs/contracts/pipe.md, 12).

use crate::common;
use crate::common::{hear, kill, receive_handle, say, start};
use rustix::fd::AsFd;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use weir::{Handle, Options, Reader, Writer};

const ENDS: u64 = 1000;

fn small() -> Options {
    Options::new().capacity_bytes(4096)
}

/// Raises this process's limit of descriptors as far as it may, and returns the limit.
fn all_descriptors() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let input = std::io::stdin();
    all_descriptors();
    let count = role.parse().expect("a number");
    let mut writers = Vec::new();
    for _ in 0..count {
        writers.push(Writer::open(receive_handle()).expect("a writer"));
        // One at a time, since a socket holds only a few.
        say(&input, b"one");
    }
    say(&input, b"up");
    hear(&input);
}

/// Makes this many ends that sleep, and kills the one process that has their other ends. Returns
/// when the first and the last end saw it.
fn hear_of_a_death(ends: u64) -> (Duration, Duration) {
    let (mut child, socket) = start(&ends.to_string());
    let (heard, hears) = channel();
    for number in 0..ends {
        let (theirs, ours) = Handle::stream_pair(&small()).expect("a pipe");
        theirs.send(socket.as_fd()).expect("sent");
        assert_eq!(hear(&socket), b"one");
        let mut reader = Reader::open(ours).expect("a reader");
        let heard = heard.clone();
        let sleeper = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
            let read = reader.read_timeout(&mut [0; 8], Duration::from_secs(60));
            // The end goes along, so that it is not closed here: closing it would keep others from
            // a CPU.
            heard.send((number, read.ok(), Instant::now(), reader)).expect("they are counted");
        });
        drop(sleeper.expect("a thread"));
    }
    assert_eq!(hear(&socket), b"up");
    // sleep: until all ends sleep, which nothing shows from outside. An end that is still awake
    // must learn of the death as well.
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    kill(&mut child);
    let (mut times, mut readers) = (Vec::new(), Vec::new());
    for _ in 0..ends {
        let (number, read, when, reader) =
            hears.recv_timeout(Duration::from_secs(30)).expect("all hear");
        assert_eq!(read, Some(0), "end {number}");
        times.push(when.saturating_duration_since(begun));
        readers.push(reader);
    }
    times.sort();
    (times[0], times[times.len() - 1])
}

/// Each end learns of the death, and none waits for the others: a thousand learn of it in about 50
/// ms on two busy CPUs. One millisecond each, as it once was, always makes more than a second. A
/// machine that is busy with other things gets some tries.
#[test]
fn a_thousand_sleepers_hear_of_a_death_at_once() {
    let ends = ENDS.min(all_descriptors().saturating_sub(100) / 3);
    if ends < ENDS {
        println!("SKIPPED: there are descriptors for {ends} ends only, {ENDS} were to be tried");
        return;
    }
    for _ in 0..10 {
        let (first, last) = hear_of_a_death(ends);
        println!("{ends} sleepers: the first heard after {first:?}, the last after {last:?}");
        if last < Duration::from_millis(500) {
            return;
        }
    }
    panic!("the last heard too late each time");
}
