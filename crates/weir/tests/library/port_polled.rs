//! The descriptor of a port: whatever calls take news in, it is readable as long as there is something
//! to receive (docs/contracts/port.md, 15).

use crate::common;
use crate::common::{Random, add_nothing_to, hear, kill, place, say, start, until};
use crate::raw;
use crate::words;
use crate::words::{Words, words_of};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir::{Ending, ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions, Timeout};

/// Makes a port that is polled, and at which nothing is to be done.
fn polled(name: &Path) -> (Port, OwnedFd) {
    let mut port = Port::create(name, &PortOptions::new()).expect("a port");
    let copy = port.poll_descriptor().expect("one").try_clone_to_owned().expect("a copy");
    becomes_quiet(&mut port, &copy);
    (port, copy)
}

fn writer(name: &Path) -> PortWriter {
    PortWriter::connect(name, &PortWriterOptions::new()).expect("a writer")
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let input = std::io::stdin();
    let (what, name) = role.split_once(' ').expect("two words");
    // A child of it keeps everything until the test ends.
    let (_port, _writer) = match what {
        "read" => (Some(Port::create(name, &PortOptions::new()).expect("a port")), None),
        _ => (None, Some(writer(Path::new(name)))),
    };
    weir_measure::sys::fork::orphan(input.as_fd()).expect("a child");
    say(&input, b"up");
    loop {
        std::thread::park();
    }
}

/// Whether a descriptor is readable, at the latest after so many seconds.
fn is_readable(descriptor: impl AsFd, seconds: i64) -> bool {
    let mut asked = [PollFd::new(&descriptor, PollFlags::IN)];
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut asked, Some(&time)).expect("polled") > 0
}

fn drained(port: &mut Port) -> Vec<Event> {
    let mut events = Vec::new();
    while let Ok(received) = port.receive_timeout(&mut [0; 64], Timeout::Now) {
        events.push(received.event);
    }
    events
}

fn becomes_quiet(port: &mut Port, copy: &OwnedFd) {
    until("nothing is to be done", || drained(port).is_empty() && !is_readable(copy, 0));
}

/// An epoll that asks for changes of a descriptor only.
fn changes_of(copy: &OwnedFd) -> OwnedFd {
    let changes = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&changes, copy, epoll::EventData::new_u64(0), flags).expect("added");
    changes
}

fn take_change(changes: &OwnedFd) {
    assert!(is_readable(changes, 10), "there is something");
    let mut events = Vec::with_capacity(1);
    epoll::wait(changes, rustix::buffer::spare_capacity(&mut events), None).expect("told");
}

/// The call let the writer in, and with that the descriptor was no longer readable.
#[test]
fn one_that_counts_the_writers_hears_of_what_they_sent_before() {
    let (_directory, name) = place();
    let (mut port, copy) = polled(&name);
    let mut writer = writer(&name);
    writer.send(b"x").expect("sent");
    until("it is let in", || port.counts().expect("mine").open == 1);
    assert!(is_readable(&copy, 10), "there is a message");
    assert_eq!(drained(&mut port), [Event::Message { bytes: 1 }]);
    becomes_quiet(&mut port, &copy);
    drop(writer);
    until("its end is heard of", || port.is_ready().expect("mine"));
    port.counts().expect("mine");
    assert!(is_readable(&copy, 10), "there is its end");
    assert_eq!(drained(&mut port), [Event::Closed(Ending::Closed)]);
}

/// The call found that there was something, and took it off the descriptor.
#[test]
fn one_that_waits_without_time_finds_the_descriptor_readable() {
    let (_directory, name) = place();
    let (mut port, copy) = polled(&name);
    for _ in 0..20 {
        let mut writer = writer(&name);
        assert!(is_readable(&copy, 10), "somebody came");
        writer.send(b"x").expect("sent");
        until("there is something", || port.wait_timeout(Timeout::Now).is_ok());
        assert!(is_readable(&copy, 0), "it was not received");
        assert_eq!(drained(&mut port)[..1], [Event::Message { bytes: 1 }]);
        drop(writer);
        until("there is something", || port.wait_timeout(Timeout::Now).is_ok());
        assert!(is_readable(&copy, 0), "its end was not received");
        assert_eq!(drained(&mut port), [Event::Closed(Ending::Closed)]);
        becomes_quiet(&mut port, &copy);
    }
}

/// It connected, and its ring came after the reader had looked. Nobody told who polled.
#[test]
fn one_that_hands_its_ring_over_after_a_look_is_heard_by_who_polls() {
    for asks_before in [true, false] {
        let (_directory, name) = place();
        let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
        let connected = raw::dial(&name);
        if asks_before {
            port.poll_descriptor().expect("one");
        } else {
            port.counts().expect("mine");
        }
        let copy = port.poll_descriptor().expect("one").try_clone_to_owned().expect("a copy");
        becomes_quiet(&mut port, &copy);
        let mut writer = Words::over(connected, 8192);
        assert!(writer.put(words::FIRST | words::LAST, b"x"));
        assert!(is_readable(&copy, 10), "its ring came");
        assert_eq!(drained(&mut port), [Event::Message { bytes: 1 }]);
        becomes_quiet(&mut port, &copy);
        drop(writer);
        assert!(is_readable(&copy, 10), "there is its end");
        until("it is heard of", || drained(&mut port) == [Event::Closed(Ending::Died)]);
        // One that leaves before it has handed a ring over.
        drop(raw::dial(&name));
        becomes_quiet(&mut port, &copy);
    }
}

/// The death of a process is not a change of its socket, which a child of it keeps. The descriptor
/// of the other end was not readable.
#[test]
fn one_whose_child_keeps_its_socket_is_heard_to_die_by_who_polls() {
    let (_directory, name) = place();
    let (mut port, copy) = polled(&name);
    let (mut child, socket) = start(&format!("write {}", name.display()));
    assert_eq!(hear(&socket), b"up");
    until("it is let in", || port.counts().expect("mine").open == 1);
    becomes_quiet(&mut port, &copy);
    kill(&mut child);
    assert!(is_readable(&copy, 10), "there is its end");
    until("it is heard of", || drained(&mut port) == [Event::Closed(Ending::Died)]);
    becomes_quiet(&mut port, &copy);
    drop((socket, port));

    let (mut child, socket) = start(&format!("read {}", name.display()));
    assert_eq!(hear(&socket), b"up");
    let mut writer = writer(&name);
    let copy = writer.poll_descriptor().expect("one").try_clone_to_owned().expect("a copy");
    until("its ring is full", || writer.try_send(&[0; 4096]).is_err() && !is_readable(&copy, 0));
    kill(&mut child);
    assert!(is_readable(&copy, 10), "its reader is gone");
    let is_told = |error: weir::Error| error.kind() == ErrorKind::Closed;
    until("it is told", || writer.try_send(b"x").err().is_some_and(is_told));
    drop(socket);
}

/// More came than are let in by one call. Who asks for changes only, as tokio does, was told once.
#[test]
fn who_asks_for_changes_only_hears_of_all_who_come_at_once() {
    let (_directory, name) = place();
    let (mut port, copy) = polled(&name);
    let changes = changes_of(&copy);
    let _silent: Vec<OwnedFd> = (0..60).map(|_| raw::dial(&name)).collect();
    let mut writer = writer(&name);
    writer.send(b"x").expect("sent");
    let mut came = Vec::new();
    while came.is_empty() {
        take_change(&changes);
        came = drained(&mut port);
    }
    assert_eq!(came, [Event::Message { bytes: 1 }]);
}

/// A call that had worked for long enough answered that there was nothing, and left the descriptor as it
/// was. Who asks for changes only was not told again: a message that came then lay there for ever.
#[test]
fn who_asks_for_changes_only_hears_of_what_a_call_has_left() {
    let (_directory, name) = place();
    let (mut port, copy) = polled(&name);
    let mut honest = writer(&name);
    let mut hostile = Words::enter(&name, &mut port, 256 << 10);
    let id = port.writers().expect("mine").iter().map(|stat| stat.id).max_by_key(|id| id.number());
    becomes_quiet(&mut port, &copy);
    let changes = changes_of(&copy);
    // Messages that are never finished: a call gives up after some thousand.
    assert_eq!(hostile.flood(words::FIRST, 32_768), 32_768);
    honest.send(b"x").expect("sent");
    port.resume(id.expect("the last that came")).expect("there");
    let mut came = Vec::new();
    for text in [b"y", b"z"] {
        take_change(&changes);
        came.extend(drained(&mut port));
        honest.send(text).expect("sent");
    }
    while came.len() < 3 {
        take_change(&changes);
        came.extend(drained(&mut port));
    }
    assert_eq!(came, [Event::Message { bytes: 1 }; 3]);
}

/// The writer rang, but its bit was not on the board any more: its message lay there until the next.
#[test]
fn one_whose_bit_another_takes_away_is_heard_by_who_polls() {
    let (_directory, name) = place();
    let (mut port, copy) = polled(&name);
    let mut honest = writer(&name);
    let hostile = Words::enter(&name, &mut port, 8192);
    let board = words_of(hostile.board.as_ref().expect("the board"));
    for round in 0..20 {
        until("the honest one is in", || honest.is_let_in().expect("mine"));
        becomes_quiet(&mut port, &copy);
        honest.send(b"x").expect("sent");
        (32..512).for_each(|at| board.word(at).store(0, Ordering::Relaxed));
        assert!(is_readable(&copy, 10), "round {round}: it rang");
        assert_eq!(drained(&mut port), [Event::Message { bytes: 1 }], "round {round}");
    }
}

/// One that clears the word by which writers know that somebody polls keeps them from ringing. A call
/// that was made all the same now and then looked at all rings only after some hundred calls.
#[test]
fn one_whom_another_keeps_from_ringing_is_heard_by_who_calls_now_and_then() {
    let (_directory, name) = place();
    let (mut port, copy) = polled(&name);
    let mut honest = writer(&name);
    let hostile = Words::enter(&name, &mut port, 8192);
    let board = words_of(hostile.board.as_ref().expect("the board"));
    until("the honest one is in", || honest.is_let_in().expect("mine"));
    becomes_quiet(&mut port, &copy);
    let spoil = || (0..512).skip(2).for_each(|at| board.word(at).store(0, Ordering::Relaxed));
    spoil();
    honest.send(b"x").expect("sent");
    spoil();
    assert!(!is_readable(&copy, 0), "nobody rang");
    let calls = (0..20).find(|_| {
        // sleep: as long as a look at all rings is due, and not longer for a port that works.
        std::thread::sleep(Duration::from_millis(120));
        drained(&mut port) == [Event::Message { bytes: 1 }]
    });
    assert!(calls.is_some(), "it came within twenty calls");
}

/// The call of the reader failed, and the writers that had come with the first were dropped without a
/// word.
#[test]
fn writers_that_cannot_be_polled_are_refused_and_no_call_fails() {
    let (_directory, name) = place();
    let (mut port, _copy) = polled(&name);
    let mut writers = [writer(&name), writer(&name), writer(&name)];
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            add_nothing_to(port.poll_descriptor().expect("one").as_raw_fd());
            let time = Duration::from_millis(200);
            port.receive_timeout(&mut [0; 8], time).expect_err("nothing comes").kind()
        });
        assert_eq!(receiving.join().expect("no panic"), ErrorKind::TimedOut);
    });
    for writer in &mut writers {
        let mut error = None;
        until("it is told", || {
            error = writer.send(b"x").err();
            error.is_some()
        });
        let text = error.expect("told").to_string();
        assert!(text.ends_with("its reader cannot poll one more writer"), "{text}");
    }
    assert_eq!(port.counts().expect("mine").open, 0);
}

/// Something that a user does between two calls that receive.
fn act(port: &mut Port, name: &Path, writers: &mut Vec<PortWriter>, random: &mut Random) {
    let ids: Vec<_> = port.writers().expect("mine").iter().map(|stat| stat.id).collect();
    let id = (!ids.is_empty()).then(|| ids[random.below(ids.len() as u64) as usize]);
    let at = (!writers.is_empty()).then(|| random.below(writers.len() as u64) as usize);
    match (random.below(16), at, id) {
        (0 | 1, _, _) if writers.len() < 5 => {
            let options = PortWriterOptions::new().capacity_bytes(4096);
            writers.push(PortWriter::connect(name, &options).expect("a writer"));
        }
        (2..8, Some(at), _) => {
            let bytes = [0, 1, 60, 3000][random.below(4) as usize];
            let _ = writers[at].try_send(&vec![7; bytes]);
        }
        (8, Some(at), _) => drop(writers.remove(at)),
        (9, _, Some(id)) => port.suspend(id).expect("there"),
        (10 | 11, _, Some(id)) => port.resume(id).expect("there"),
        (12, _, Some(id)) if random.below(4) == 0 => port.shut_out(id).expect("there"),
        (13, _, _) => _ = port.available().expect("mine"),
        (14, _, _) => _ = port.wait_timeout(Timeout::Now),
        (15, _, _) => _ = port.is_ready().expect("mine"),
        _ => {}
    }
}

/// Whatever a user does: who is not told to call has nothing to receive.
#[test]
fn nothing_can_be_received_while_the_descriptor_is_not_readable() {
    for seed in 1..=5 {
        let (_directory, name) = place();
        let (mut port, copy) = polled(&name);
        let (mut random, mut writers) = (Random(seed), Vec::new());
        for step in 0..400 {
            act(&mut port, &name, &mut writers, &mut random);
            if random.below(3) == 0 && !is_readable(&copy, 0) {
                let got = port.receive_timeout(&mut [0; 4096], Timeout::Now);
                // The watcher may have reported a death since.
                let is_end = got.as_ref().is_ok_and(|got| matches!(got.event, Event::Closed(_)));
                assert!(got.is_err() || is_end, "seed {seed}, step {step}: {got:?}");
            } else if random.below(4) == 0 {
                let _ = port.receive_timeout(&mut [0; 4096], Timeout::Now);
            }
        }
    }
}
