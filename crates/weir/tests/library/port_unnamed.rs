//! Ports without a name: handed to children, ended by their last writer (docs/contracts/port.md, 5).

use crate::common;
use crate::common::{hear, kill, say, start};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::Duration;
use weir::{
    ErrorKind, Event, Port, PortHandle, PortOptions, PortWriter, PortWriterOptions, Timeout, Wait,
};

const LONG: Duration = Duration::from_secs(30);

fn unnamed() -> (Port, PortHandle) {
    Port::unnamed(&PortOptions::new()).expect("a port")
}

fn writer(handle: &PortHandle) -> PortWriter {
    PortWriter::open(handle, &PortWriterOptions::new()).expect("a writer")
}

/// What comes next: a message, or how a writer ended, or the end of the port.
fn next(port: &mut Port) -> String {
    let mut buffer = [0; 256];
    match port.receive_timeout(&mut buffer, LONG) {
        Ok(received) => match received.event {
            Event::Message { bytes } => String::from_utf8_lossy(&buffer[..bytes]).into_owned(),
            Event::Closed(ending) => format!("{ending:?}"),
            event => panic!("{event:?}"),
        },
        Err(error) if error.kind() == ErrorKind::Closed => "end".to_owned(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let input = std::io::stdin();
    let handle = match role.split(' ').collect::<Vec<_>>()[..] {
        // The descriptors of this program's parent, kept over the execution.
        ["inherited", way, alive] => {
            let [way, alive] = [way, alive].map(|fd| fd.parse().expect("a number"));
            // SAFETY: the parent left these two open for this program, and nothing else has them.
            let [way, alive] = [way, alive].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            PortHandle::new(way, alive)
        }
        _ => PortHandle::receive(input.as_fd()).expect("a handle"),
    };
    if role == "hold" {
        say(&input, b"up");
        hear(&input);
        return;
    }
    let mut writer = writer(&handle);
    drop(handle);
    writer.send(b"from a child").expect("sent");
    say(&input, b"up");
    // Until it is killed, or its parent lets it go.
    hear(&input);
}

#[test]
fn it_ends_after_its_last_writer_and_its_last_handle() {
    let (mut port, handle) = unnamed();
    let (mut one, copy) = (writer(&handle), handle.try_clone().expect("a copy"));
    let mut two = writer(&copy);
    one.send(b"one").expect("sent");
    two.send(b"two").expect("sent");
    drop((one, handle));
    let mut seen: Vec<String> = (0..3).map(|_| next(&mut port)).collect();
    seen.sort();
    assert_eq!(seen, ["Closed", "one", "two"]);
    drop(two);
    assert_eq!(next(&mut port), "Closed");
    // A handle is left, and another writer may come.
    let nothing = port.receive_timeout(&mut [0; 8], Timeout::Now).expect_err("nothing");
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    let mut three = writer(&copy);
    drop(copy);
    three.send(b"three").expect("sent");
    assert_eq!(next(&mut port), "three");
    drop(three);
    assert_eq!(next(&mut port), "Closed");
    assert_eq!(next(&mut port), "end");
    assert_eq!(next(&mut port), "end", "it stays at its end");
}

/// A reader that sleeps already sees the last handle close, with no writer ever.
#[test]
fn a_sleeping_reader_sees_the_end() {
    let (mut port, handle) = unnamed();
    let reading = std::thread::spawn(move || next(&mut port));
    let (mut waited_for, other) = unnamed();
    drop((handle, other));
    assert_eq!(reading.join().expect("no panic"), "end");
    assert_eq!(next(&mut waited_for), "end");
}

/// What was sent before the writer and the handle closed is received before the end, however the
/// reader and the writers are scheduled.
#[test]
fn nothing_is_lost_at_the_end() {
    for round in 0..50_u32 {
        let (mut port, handle) = unnamed();
        let writing: Vec<_> = (0..4)
            .map(|number| {
                let handle = handle.try_clone().expect("a copy");
                std::thread::spawn(move || {
                    let mut writer = writer(&handle);
                    drop(handle);
                    for _ in 0..=number {
                        writer.send(b"x").expect("sent");
                    }
                })
            })
            .collect();
        drop(handle);
        let (mut messages, mut ends) = (0, 0);
        loop {
            match next(&mut port).as_str() {
                "x" => messages += 1,
                "Closed" => ends += 1,
                "end" => break,
                other => panic!("{other}"),
            }
        }
        assert_eq!((messages, ends), (1 + 2 + 3 + 4, 4), "round {round}");
        writing.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

#[test]
fn children_get_it_by_socket_and_by_execution() {
    let (mut port, handle) = unnamed();
    let (mut sent_to, socket) = start("sent");
    handle.send(&socket).expect("sent");
    assert_eq!(hear(&socket), b"up");
    let kept = handle.try_clone().expect("a copy");
    let (way, alive) = kept.keep_over_exec().expect("kept");
    let (mut inherits, other) = start(&format!("inherited {way} {alive}"));
    drop((kept, handle));
    assert_eq!(hear(&other), b"up");
    assert_eq!((next(&mut port), next(&mut port)), ("from a child".into(), "from a child".into()));
    let mut pids: Vec<i32> =
        port.writers().expect("here").iter().map(|writer| writer.identity.pid).collect();
    let mut expected = [sent_to.id() as i32, inherits.id() as i32];
    pids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(pids, expected);
    kill(&mut sent_to);
    assert_eq!(next(&mut port), "Died");
    // It lets the other go, which closes as it ends.
    drop(other);
    inherits.wait().expect("reaped");
    assert!(["Closed", "Died"].contains(&next(&mut port).as_str()));
    assert_eq!(next(&mut port), "end");
}

#[test]
fn a_child_that_only_holds_the_handle_keeps_it_open_until_it_dies() {
    let (mut port, handle) = unnamed();
    let (mut child, socket) = start("hold");
    handle.send(&socket).expect("sent");
    assert_eq!(hear(&socket), b"up");
    drop(handle);
    let error = port.receive_timeout(&mut [0; 8], Duration::from_millis(50)).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    kill(&mut child);
    assert_eq!(next(&mut port), "end");
}

#[test]
fn its_end_can_be_polled_and_waited_for() {
    let (mut port, handle) = unnamed();
    let readable = |port: &mut Port, time: Duration| {
        let descriptor = port.poll_descriptor().expect("one");
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let mut asked = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut asked, Some(&time)).expect("polled") == 1
    };
    let now = |port: &mut Port| {
        port.receive_timeout(&mut [0; 8], Timeout::Now).expect_err("no message").kind()
    };
    assert!(readable(&mut port, Duration::ZERO), "until the first WouldBlock");
    // A connection or a bell may still be on its way to be noticed.
    while readable(&mut port, Duration::ZERO) {
        assert_eq!(now(&mut port), ErrorKind::WouldBlock);
    }
    let open = writer(&handle);
    drop(handle);
    // The last handle is closed, but a writer is open: this must not stay readable.
    common::until("it is no longer readable", || {
        let _ = now(&mut port);
        !readable(&mut port, Duration::from_millis(20))
    });
    drop(open);
    assert!(readable(&mut port, LONG), "the writer has closed");
    assert_eq!(next(&mut port), "Closed");
    assert!(readable(&mut port, LONG), "it is at its end");
    // A child of another test may have a copy of the handle until it executes its program.
    assert_eq!(next(&mut port), "end");
    assert_eq!(now(&mut port), ErrorKind::Closed);
    assert!(readable(&mut port, Duration::ZERO), "and stays readable");

    let (port, handle) = unnamed();
    let (mut wait, mut ready) = (Wait::new(), Vec::new());
    let port = wait.add(7, port).expect("few");
    let closing = std::thread::spawn(move || drop(handle));
    wait.wait_timeout(&mut ready, LONG).expect("ready");
    assert_eq!((ready, next(&mut wait[port])), (vec![7], "end".to_owned()));
    closing.join().expect("no panic");
}

/// Nothing of it is left where names are.
#[test]
fn it_leaves_nothing_behind_and_has_no_name() {
    let (port, handle) = unnamed();
    assert!(!port.path().exists());
    let directory = weir::PortName::path_of("x").expect("a name");
    let own = format!(".unnamed-{}-", std::process::id());
    common::until("its socket is gone", || {
        let names = std::fs::read_dir(directory.parent().expect("one")).expect("a directory");
        names.flatten().all(|name| !name.file_name().to_string_lossy().starts_with(&own))
    });
    drop(port);
    let error = PortWriter::open(&handle, &PortWriterOptions::new()).expect_err("no reader");
    assert_eq!(error.kind(), ErrorKind::NoReader);
}
