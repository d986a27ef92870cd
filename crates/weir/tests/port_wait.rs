//! Waiting for ports, alone and among other things, and polling them (docs/contracts/port.md, 15).

mod common;

use common::{place, until};
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
    drain(&mut port);
    assert!(!readable(0));
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
