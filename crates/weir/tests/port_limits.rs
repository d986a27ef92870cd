//! Ports with many writers, with few descriptors, and in forked children
//! (docs/contracts/port.md, 16 and 20).

mod common;
#[path = "common/raw.rs"]
mod raw;

use common::{fork_within, hear, kill, place, say, start, until};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::path::Path;
use std::time::Duration;
use weir::{Ending, ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions, Timeout};

fn limit_descriptors(most: u64) {
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Nofile, limit).expect("limited");
}

fn small(name: &Path) -> weir::Result<PortWriter> {
    let options =
        PortWriterOptions::new().capacity_bytes(4096).connect_timeout(Duration::from_secs(10));
    PortWriter::connect(name, &options)
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let input = std::io::stdin();
    match words[..] {
        // Reads with this many descriptors, and prints the number of writers after each message.
        ["read", name, descriptors] => {
            limit_descriptors(descriptors.parse().expect("a number"));
            let mut port = Port::create(name, &PortOptions::new()).expect("a port");
            say(&input, b"up");
            loop {
                let received = port.receive(&mut [0; 64]).expect("received");
                if let Event::Message { .. } = received.event {
                    let open = port.counts().expect("mine").open;
                    say(&input, open.to_string().as_bytes());
                }
            }
        }
        // Reads, and takes or gives back all its descriptors when it is told to.
        ["crowded" | "crowded-polled", name] => {
            limit_descriptors(64);
            let mut port = Port::create(name, &PortOptions::new()).expect("a port");
            let changes = (words[0] == "crowded-polled").then(|| changes_of(&mut port));
            let mut copy = || port.poll_descriptor().expect("one").try_clone_to_owned();
            let polled = changes.as_ref().map(|_| copy().expect("a copy"));
            say(&input, b"up");
            std::thread::spawn(move || {
                loop {
                    let Some(changes) = &changes else {
                        let _ = port.receive_timeout(&mut [0; 4096], Duration::from_secs(1));
                        continue;
                    };
                    let mut events = Vec::with_capacity(1);
                    let space = rustix::buffer::spare_capacity(&mut events);
                    epoll::wait(changes, space, None).expect("told");
                    while port.receive_timeout(&mut [0; 4096], Timeout::Now).is_ok() {}
                }
            });
            let mut taken = Vec::new();
            loop {
                match &hear(&input)[..] {
                    b"take" => {
                        while let Ok(copy) = rustix::io::dup(&input) {
                            taken.push(copy);
                        }
                    }
                    b"" => return,
                    b"be quiet" => until("nothing is to be done", || {
                        let now = Some(Timespec { tv_sec: 0, tv_nsec: 0 });
                        let mut asked = polled.iter().map(|it| PollFd::new(it, PollFlags::IN));
                        let mut asked = [asked.next().expect("it is polled")];
                        poll(&mut asked, now.as_ref()).expect("polled") == 0
                    }),
                    _ => taken.clear(),
                }
                say(&input, b"done");
            }
        }
        // Opens this many writers, and closes them on request.
        ["many", name, count] => {
            let count = count.parse().expect("a number");
            let writers: Vec<_> =
                (0..count).map(|_| small(Path::new(name)).expect("a writer")).collect();
            say(&input, b"open");
            hear(&input);
            drop(writers);
        }
        _ => panic!("no role: {role}"),
    }
}

/// An epoll that asks for changes of a port's descriptor only.
fn changes_of(port: &mut Port) -> std::os::fd::OwnedFd {
    let changes = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    let descriptor = port.poll_descriptor().expect("one");
    epoll::add(&changes, descriptor, epoll::EventData::new_u64(0), flags).expect("added");
    changes
}

#[test]
fn a_thousand_writers() {
    let (_directory, name) = place();
    let (mut reader, said) = start(&format!("read {} 1024", name.display()));
    assert_eq!(hear(&said), b"up");
    let opening: Vec<_> = (0..4).map(|_| start(&format!("many {} 249", name.display()))).collect();
    for (_, socket) in &opening {
        assert_eq!(hear(socket), b"open");
    }
    let mut last = small(&name).expect("a writer");
    until("all are let in", || {
        last.send(b"how many").expect("sent");
        hear(&said) == b"997"
    });
    for (mut child, socket) in opening {
        say(&socket, b"close");
        child.wait().expect("reaped");
    }
    until("all ends were received", || {
        last.send(b"how many").expect("sent");
        hear(&said) == b"1"
    });
    kill(&mut reader);
}

/// Whether each message of a writer is answered. Where the reader is slow, a refusal comes later than the
/// writer opens, and what was sent before is never read.
fn is_served(writer: &mut PortWriter, said: &OwnedFd) -> bool {
    let (mut sent, mut is_refused) = (0, false);
    until("it is let in or refused", || {
        match writer.try_send(b"x") {
            Ok(()) => sent += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
                is_refused = true;
            }
        }
        is_refused || writer.is_let_in().expect("mine")
    });
    if !is_refused {
        (0..sent).for_each(|_| assert!(!hear(said).is_empty()));
    }
    !is_refused
}

#[test]
fn a_reader_without_descriptors_continues() {
    let (_directory, name) = place();
    let (mut reader, said) = start(&format!("read {} 32", name.display()));
    assert_eq!(hear(&said), b"up");
    let (mut open, mut refused) = (Vec::new(), 0);
    for _ in 0..40 {
        match small(&name) {
            Ok(writer) => open.push(writer),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
                let text = error.to_string();
                assert!(text.ends_with("its reader has no descriptors left"), "{text}");
                refused += 1;
            }
        }
    }
    // The writers that were let in are served.
    let mut served = 0;
    for writer in &mut open {
        let count = if is_served(writer, &said) { &mut served } else { &mut refused };
        *count += 1;
    }
    assert!(served > 3 && refused > 3, "{served} served, {refused} refused");
    drop(open);
    // And once they are gone there is room again.
    until("another is let in", || {
        small(&name).is_ok_and(|mut writer| is_served(&mut writer, &said))
    });
    kill(&mut reader);
}

#[test]
fn a_forked_child_has_no_port() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    writer.send(b"x").expect("sent");
    let body = || {
        let errors =
            [port.receive(&mut [0; 8]).err(), port.writers().err(), writer.send(b"y").err()];
        let forked = |error: &weir::Error| error.kind() == ErrorKind::Forked;
        u8::from(errors.iter().any(|error| !error.as_ref().is_some_and(forked)))
    };
    // SAFETY: other threads of the test hold no lock that the body needs.
    let mut child = unsafe { weir_measure::sys::fork::copy(body) };
    let child = child.as_mut().expect("forked");
    assert!(child.succeeded().expect("reaped"), "all of it is the parent's");
    // The child closed its own copies only: name, socket and ring are as they were.
    let time = Duration::from_secs(10);
    let received = port.receive_timeout(&mut [0; 8], time).expect("received");
    assert_eq!(received.event, Event::Message { bytes: 1 });
    PortWriter::connect(&name, &PortWriterOptions::new()).expect("the name is there");
    drop(writer);
    let mut ends = 0;
    while ends < 2 {
        let received = port.receive_timeout(&mut [0; 8], time).expect("received");
        ends += i32::from(received.event == Event::Closed(Ending::Closed));
    }
}

/// The child that is forked there once panicked at a message that the reader's stores to its lines reach.
#[test]
fn what_is_called_for_a_message_may_fork() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    let sends = |writer: &mut PortWriter| {
        (0..3).for_each(|_| writer.send(&[7; 2000]).expect("sent"));
    };
    sends(&mut writer);
    let mut buffer = [0; 4096];
    let time = Duration::from_secs(10);
    let mut seen = 0;
    let count = fork_within(|fork| {
        port.receive_each_timeout(&mut buffer, time, |_, message| {
            seen += usize::from(message == [7; 2000]);
            if seen == 1 {
                fork();
            }
        })
    });
    assert_eq!((count, seen), (3, 3));
    // The port continues here.
    sends(&mut writer);
    let received = port.receive_timeout(&mut buffer, time).expect("received");
    assert_eq!(received.event, Event::Message { bytes: 2000 });
}

/// The child that is forked at a message of several pieces, or at the end of a writer, was told that it
/// had received something.
#[test]
fn what_is_called_for_a_message_of_pieces_or_an_end_may_fork() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let options = PortWriterOptions::new().capacity_bytes(16 << 10);
    let mut writer = PortWriter::connect(&name, &options).expect("a writer");
    writer.send(&[7; 8192]).expect("sent");
    drop(writer);
    let (mut buffer, time) = (vec![0; 16 << 10], Duration::from_secs(10));
    for event in [Event::Message { bytes: 8192 }, Event::Closed(Ending::Closed)] {
        let count = fork_within(|fork| {
            port.receive_each_timeout(&mut buffer, time, |received, _| {
                assert_eq!(received.event, event);
                fork();
            })
        });
        assert_eq!(count, 1);
    }
    assert_eq!(port.counts().expect("mine").open, 0);
}

/// Opens a writer, and sends more than its ring holds: `None` if it is refused.
fn served(name: &Path) -> Option<PortWriter> {
    let mut writer = small(name).ok()?;
    while writer.account().expect("mine").bytes < 8192 {
        match writer.send_timeout(&[0; 1000], Duration::from_secs(5)).map_err(|why| why.kind()) {
            Ok(()) => {}
            Err(ErrorKind::Refused) => return None,
            Err(kind) => panic!("neither refused nor received: {kind:?}"),
        }
    }
    Some(writer)
}

/// One could be neither let in nor refused for the moment. Its reader, who polled for changes, was not
/// told when that was over, until somebody else came.
#[test]
fn a_polled_reader_hears_of_one_who_waited_for_descriptors() {
    let (_directory, name) = place();
    let (mut reader, said) = start(&format!("crowded-polled {}", name.display()));
    assert_eq!(hear(&said), b"up");
    let tell = |what: &[u8]| {
        say(&said, what);
        assert_eq!(hear(&said), b"done");
    };
    // The descriptor that refused one is taken as well, as soon as it is free.
    let comes = |_| {
        tell(b"take");
        small(&name).ok()
    };
    let mut writer = (0..200).find_map(comes).expect("one that nobody refuses");
    // Who asks for more than changes would have been told of it without end.
    tell(b"be quiet");
    tell(b"give back");
    // A busy reader may have refused it late.
    let is_answered = || writer.is_let_in().expect("mine") || writer.try_send(b"x").is_err();
    until("it is answered", is_answered);
    kill(&mut reader);
}

/// What a reader keeps to refuse with was lost when it was used, and never came back: from the second
/// lack on nobody was refused, and writers waited for a reader that had no room for them.
#[test]
fn a_reader_that_lacks_descriptors_again_refuses_again() {
    let (_directory, name) = place();
    let (mut reader, said) = start(&format!("crowded {}", name.display()));
    assert_eq!(hear(&said), b"up");
    let tell = |what: &[u8]| {
        say(&said, what);
        assert_eq!(hear(&said), b"done");
    };
    // Kept: the end of one would give the reader a descriptor back.
    let mut open = Vec::new();
    for round in 0..3 {
        tell(b"take");
        assert!(served(&name).is_none(), "round {round}: there is no descriptor");
        // The descriptor that refused it is taken as well.
        tell(b"take");
        tell(b"give back");
        open.push(served(&name).expect("there is room"));
    }
    kill(&mut reader);
}

/// Runs work on a thread of its own, which handles a signal all the time, for twenty seconds at most.
fn under_signals<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    use std::os::unix::thread::JoinHandleExt;
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR1, nothing as *const () as libc::sighandler_t) };
    let (begun, working) = (std::time::Instant::now(), std::thread::spawn(work));
    while !working.is_finished() && begun.elapsed() < Duration::from_secs(20) {
        // SAFETY: the thread is not joined yet.
        unsafe { libc::pthread_kill(working.as_pthread_t(), libc::SIGUSR1) };
        std::thread::yield_now();
    }
    working.join().expect("no panic")
}

/// A name whose reader accepts nobody, and whose queue is full. Each signal began the wait anew.
#[test]
fn signals_make_no_open_last_longer() {
    let (_directory, name) = place();
    let _listening = raw::listen(&name);
    let waiting: Vec<_> = (0..2).map(|_| raw::dial(&name)).collect();
    let (kind, time) = under_signals(move || {
        let begun = std::time::Instant::now();
        let time = Duration::from_millis(100);
        let options = PortWriterOptions::new().connect_timeout(time);
        let opened = PortWriter::connect(&name, &options);
        // The signals end with the thread.
        (opened.map(drop).map_err(|error| error.kind()), begun.elapsed())
    });
    assert_eq!(kind, Err(ErrorKind::WouldBlock));
    assert!(time < Duration::from_secs(10), "{time:?}");
    drop(waiting);
}
