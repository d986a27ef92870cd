//! Many clients that open a port at once while the reader waits in `Wait`, and the death of another
//! peer of the same process, of which the reader must learn (docs/contracts/wait.md, 7; port.md, 16;
//! pipe.md, 12).

mod common;
#[path = "common/raw.rs"]
mod raw;
#[path = "common/storms.rs"]
mod storms;

use common::{hear, kill, start};
use std::path::Path;
use std::time::Instant;
use storms::{
    MESSAGES, OPENERS, PATIENCE, Pipe, all_at_once, hold, in_time, stay_silent, until_let,
    wait_a_little,
};
use weir::{Ending, Event, Port, PortOptions, PortWriter, PortWriterOptions, Timeout};

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["hold"] => hold(),
        ["write", name] => all_at_once(|| {
            let mut writer = until_let(|| PortWriter::connect(name, &small()));
            (0..MESSAGES).for_each(|_| writer.send(b"honest").expect("sent"));
        }),
        ["silent", name] => stay_silent(name),
        _ => panic!("no role: {role}"),
    }
}

fn small() -> PortWriterOptions {
    PortWriterOptions::new().capacity_bytes(16 << 10)
}

fn serve_port(name: &Path, port: &mut Port) {
    let mut storm = start(&format!("write {}", name.display()));
    let pipe = Pipe::new();
    let death = std::thread::spawn(|| pipe.dies_and_is_heard());
    let (mut messages, mut closed) = (0, 0);
    let begun = Instant::now();
    while closed < OPENERS {
        assert!(begun.elapsed() < PATIENCE, "{messages} messages, {closed} closed");
        wait_a_little(port);
        while let Ok(received) = port.receive_timeout(&mut [0; 64], Timeout::Now) {
            match received.event {
                Event::Message { bytes } => messages += bytes / b"honest".len(),
                Event::Closed(ending) => {
                    assert_eq!(ending, Ending::Closed);
                    closed += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(messages, OPENERS * MESSAGES);
    assert!(storm.0.wait().expect("ended").success());
    death.join().expect("the death was heard");
}

#[test]
fn writers_that_open_a_port_at_once_hold_up_no_wait() {
    in_time(|| {
        let (_directory, name) = common::place();
        let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
        for _ in 0..3 {
            serve_port(&name, &mut port);
        }
    });
}

#[test]
fn silent_opens_of_a_port_hold_up_no_wait() {
    in_time(|| {
        let (_directory, name) = common::place();
        let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
        let mut silent = start(&format!("silent {}", name.display()));
        let pipe = Pipe::new();
        let death = std::thread::spawn(|| pipe.dies_and_is_heard());
        for _ in 0..10 {
            wait_a_little(&mut port);
        }
        assert_eq!(hear(&silent.1), b"up");
        death.join().expect("the death was heard");
        kill(&mut silent.0);
        serve_port(&name, &mut port);
    });
}
