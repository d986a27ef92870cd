//! Waiting for ports, alone and among other things, and polling them (docs/contracts/port.md, 15).

use crate::common::{place, until};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use weir::{
    Ending, ErrorKind, Event, Interest, Port, PortOptions, PortWriter, PortWriterOptions, Timeout,
    Wait,
};

fn port(name: &PathBuf) -> Port {
    Port::create(name, &PortOptions::new()).expect("a port")
}

fn writer(name: &PathBuf) -> PortWriter {
    PortWriter::connect(name, &PortWriterOptions::new()).expect("a writer")
}

#[test]
fn a_port_can_be_waited_for() {
    let (_directory, name) = place();
    let port = port(&name);
    let flags = weir::Flags::local();
    let theirs = name.clone();
    let sending = std::thread::spawn(move || {
        let mut writer = writer(&theirs);
        for _ in 0..200 {
            writer.send(b"x").expect("sent");
        }
    });
    let (mut wait, mut ready) = (Wait::new(), Vec::new());
    wait.add_flags(0, &flags, 1).expect("few");
    let port = wait.add(1, port).expect("few");
    let mut seen = 0;
    while seen < 200 {
        wait.wait_timeout(&mut ready, Duration::from_secs(10)).expect("ready");
        assert_eq!(ready, [1]);
        while let Ok(received) = wait[port].receive_timeout(&mut [0; 8], Timeout::Now) {
            seen += i32::from(received.event == Event::Message { bytes: 1 });
        }
    }
    sending.join().expect("no panic");
    let time = Some(Duration::from_millis(1));
    until("the writer's end was received", || {
        let _ = wait[port].receive_timeout(&mut [0; 8], Timeout::Now);
        wait[port].counts().expect("mine").open == 0
    });
    let error = wait.wait_timeout(&mut ready, time).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

/// A reader that only spins kept what it owed while it waited. A writer whose piece needed that room
/// waited for it for ever, though its ring was empty.
#[test]
fn a_reader_that_spins_gives_back_what_it_owes() {
    let (_directory, name) = place();
    let spins = PortOptions::new().waiting(weir::Waiting::Spin);
    let mut port = Port::create(&name, &spins).expect("a port");
    let whole = PortWriterOptions::new().capacity_bytes(65_536).piece_bytes(65_536);
    let mut writer = PortWriter::connect(&name, &whole).expect("a writer");
    let lengths = [2000, 65_536, 2000, 65_536];
    let sending = std::thread::spawn(move || {
        for bytes in lengths {
            let sent = writer.send_timeout(&vec![7; bytes], Duration::from_secs(10));
            sent.expect("the reader takes all");
        }
    });
    let mut buffer = vec![0; 65_536];
    for bytes in lengths {
        let received = loop {
            let next = port.receive_timeout(&mut buffer, Duration::from_secs(10));
            let next = next.expect("received");
            if matches!(next.event, Event::Message { .. }) {
                break next;
            }
        };
        assert_eq!(received.event, Event::Message { bytes });
    }
    sending.join().expect("all were sent");
}

/// So did one that asks again and again without waiting.
#[test]
fn a_reader_that_does_not_wait_gives_back_what_it_owes() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let whole = PortWriterOptions::new().capacity_bytes(65_536).piece_bytes(65_536);
    let mut writer = PortWriter::connect(&name, &whole).expect("a writer");
    let mut buffer = vec![0; 65_536];
    writer.send(&[7; 2000]).expect("sent");
    port.receive(&mut buffer).expect("received");
    let sending = std::thread::spawn(move || {
        writer.send_timeout(&vec![7; 65_536], Duration::from_secs(10)).expect("its ring is empty");
    });
    until("it comes", || {
        let next = port.receive_timeout(&mut buffer, Timeout::Now);
        next.is_ok_and(|next| next.event == Event::Message { bytes: 65_536 })
    });
    sending.join().expect("it was sent");
}

#[test]
fn ends_can_be_polled() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let copy = port.poll_descriptor().expect("one").try_clone_to_owned().expect("a copy");
    let readable = |time| {
        let mut wait = Wait::new();
        wait.add_descriptor((), &copy, Interest::Read).expect("few");
        wait.wait_timeout(&mut Vec::new(), Duration::from_millis(time)).is_ok()
    };
    let drain = |port: &mut Port| {
        let mut events = Vec::new();
        while let Ok(received) = port.receive_timeout(&mut [0; 64], Timeout::Now) {
            events.push(received.event);
        }
        events
    };
    assert_eq!((drain(&mut port), readable(0)), (vec![], false));
    let (mut one, mut other) = (writer(&name), writer(&name));
    until("the opens show", || {
        drain(&mut port);
        port.counts().expect("mine").open == 2
    });
    // The end of an open may still be told.
    until("it is quiet", || drain(&mut port).is_empty() && !readable(0));
    for round in 0..20 {
        let writer = if round % 2 == 0 { &mut one } else { &mut other };
        writer.send(b"x").expect("sent");
        assert!(readable(10_000), "round {round}");
        assert_eq!(drain(&mut port), [Event::Message { bytes: 1 }]);
        assert!(!readable(0), "round {round}");
    }
    drop(one);
    assert!(readable(10_000));
    assert_eq!(drain(&mut port), [Event::Closed(Ending::Closed)]);
    assert!(!readable(0));
}

/// There was room for the first piece, so the call armed nothing: the descriptor stayed readable, and
/// who waits for a change of it (as tokio does) waited for ever.
#[test]
fn a_writer_is_polled_for_room_for_all_pieces_of_a_message() {
    let (_directory, name) = place();
    let (mut port, mut writer) = (port(&name), writer(&name));
    let copy = writer.poll_descriptor().expect("one").try_clone_to_owned().expect("a copy");
    let readable = |time| {
        let mut wait = Wait::new();
        wait.add_descriptor((), &copy, Interest::Read).expect("few");
        wait.wait_timeout(&mut Vec::new(), Duration::from_millis(time)).is_ok()
    };
    let (message, mut buffer) = (vec![7; 3 * writer.piece_bytes()], vec![0; 1 << 20]);
    for round in 0..3 {
        until("there is room for it", || writer.try_send(&message).is_ok());
        assert!(readable(0), "round {round}: something was done");
        let error = writer.try_send(&message).expect_err("there is room for one of its pieces");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(!readable(0), "round {round}: nothing can be done");
        let received = port.receive(&mut buffer).expect("received");
        assert_eq!(received.event, Event::Message { bytes: message.len() });
        assert!(readable(10_000), "round {round}: it is told of the room");
    }
}

/// Whether a descriptor is readable, at the latest after this time.
fn is_readable(descriptor: &OwnedFd, time: u64) -> bool {
    let mut wait = Wait::new();
    wait.add_descriptor((), descriptor, Interest::Read).expect("few");
    wait.wait_timeout(&mut Vec::new(), Duration::from_millis(time)).is_ok()
}

/// Receives until nothing is left.
fn drained(port: &mut Port) -> Vec<Event> {
    let mut events = Vec::new();
    while let Ok(received) = port.receive_timeout(&mut [0; 64], Timeout::Now) {
        events.push(received.event);
    }
    events
}

/// A writer that is suspended notifies nobody, and neither did the calls that end that: who polled
/// waited for ever.
#[test]
fn a_polled_port_is_readable_once_a_writer_is_resumed_or_shut_out() {
    let (_directory, name) = place();
    let (mut port, mut writer) = (port(&name), writer(&name));
    let copy = port.poll_descriptor().expect("one").try_clone_to_owned().expect("a copy");
    writer.send(b"x").expect("sent");
    let id = port.receive(&mut [0; 8]).expect("received").writer;
    port.suspend(id).expect("there");
    writer.send(b"y").expect("sent");
    until("it is quiet", || drained(&mut port).is_empty() && !is_readable(&copy, 0));
    port.resume(id).expect("there");
    assert!(is_readable(&copy, 10_000), "there is a message");
    assert_eq!(drained(&mut port), [Event::Message { bytes: 1 }]);
    until("it is quiet", || drained(&mut port).is_empty() && !is_readable(&copy, 0));
    port.shut_out(id).expect("there");
    assert!(is_readable(&copy, 10_000), "there is its end");
    assert_eq!(drained(&mut port), [Event::Closed(Ending::ShutOut)]);
}

/// The end of its connection kept the descriptor readable, though nothing may be received: who polled
/// used a CPU for that.
#[test]
fn a_polled_port_is_quiet_while_a_writer_that_is_gone_is_suspended() {
    let (_directory, name) = place();
    let (mut port, mut gone) = (port(&name), writer(&name));
    let copy = port.poll_descriptor().expect("one").try_clone_to_owned().expect("a copy");
    gone.send(b"x").expect("sent");
    let id = port.receive(&mut [0; 8]).expect("received").writer;
    port.suspend(id).expect("there");
    gone.send(b"y").expect("sent");
    drop(gone);
    until("it is quiet", || drained(&mut port).is_empty() && !is_readable(&copy, 0));
    // Others are heard.
    let mut other = writer(&name);
    other.send(b"z").expect("sent");
    assert!(is_readable(&copy, 10_000));
    until("it came", || drained(&mut port) == [Event::Message { bytes: 1 }]);
    port.resume(id).expect("there");
    assert!(is_readable(&copy, 10_000));
    let rest = [Event::Message { bytes: 1 }, Event::Closed(Ending::Closed)];
    assert_eq!(drained(&mut port), rest);
}
