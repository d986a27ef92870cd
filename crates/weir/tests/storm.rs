//! Many clients that open at once while the reader waits in `Wait`, and the death of another peer
//! of the same process, of which the reader must learn (docs/contracts/wait.md, 7; port.md, 16;
//! pipe.md, 12).

mod common;
#[path = "common/raw.rs"]
mod raw;

use common::{hear, kill, say, start};
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use weir::mpx::RecordKind;
use weir::{
    Ending, Event, Handle, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, Options, Port, PortOptions,
    PortWriter, PortWriterOptions, Timeout,
};
use weir::{Reader, Wait, Waitable, Writer};

/// How many clients open at once.
const OPENERS: usize = 256;
/// How many messages each sends.
const MESSAGES: usize = 4;
/// The limit for anything that takes a second at most.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let input = std::io::stdin();
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["hold"] => {
            let handle = common::receive_handle();
            let _writer = Writer::open(handle).expect("a writer");
            say(&input, b"up");
            hear(&input);
        }
        ["write", name] => all_at_once(|| {
            let mut writer = until_let(|| PortWriter::connect(name, &small()));
            (0..MESSAGES).for_each(|_| writer.send(b"honest").expect("sent"));
        }),
        ["call", name] => all_at_once(|| {
            let mut peer = until_let(|| MpxPeer::connect(name, &MpxPeerOptions::new()));
            let channel = peer.open(b"honest").expect("opened");
            (0..MESSAGES).for_each(|_| assert_eq!(peer.send(channel, b"m").expect("sent"), 1));
        }),
        ["silent", name] => {
            let name = PathBuf::from(name);
            let silent: Vec<_> = (0..OPENERS).map(|_| raw::try_dial(&name)).collect();
            say(&input, b"up");
            hear(&input);
            drop(silent);
        }
        _ => panic!("no role: {role}"),
    }
}

fn small() -> PortWriterOptions {
    PortWriterOptions::new().capacity_bytes(16 << 10)
}

/// Connects, however long the queue of a busy reader is full.
fn until_let<P>(connect: impl Fn() -> weir::Result<P>) -> P {
    loop {
        match connect() {
            Ok(connected) => return connected,
            Err(error) => assert_eq!(error.kind(), weir::ErrorKind::WouldBlock, "{error}"),
        }
    }
}

fn all_at_once(each: impl Fn() + Sync) {
    let barrier = Barrier::new(OPENERS);
    std::thread::scope(|scope| {
        for _ in 0..OPENERS {
            scope.spawn(|| {
                barrier.wait();
                each();
            });
        }
    });
}

/// Runs a test in a thread of its own, so that a test that hangs fails.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match is_done.recv_timeout(3 * PATIENCE) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().expect("no panic"),
    }
}

/// A pipe of this process whose writer is another process, which is killed on demand.
struct Pipe {
    reader: Reader,
    writer: (Child, OwnedFd),
}

impl Pipe {
    fn new() -> Pipe {
        let (theirs, ours) = Handle::stream_pair(&Options::new()).expect("a pipe");
        let writer = start("hold");
        theirs.send(rustix::fd::AsFd::as_fd(&writer.1)).expect("sent");
        assert_eq!(hear(&writer.1), b"up");
        Pipe { reader: Reader::open(ours).expect("a reader"), writer }
    }

    /// Kills the writer, and sleeps until this process learns of it.
    fn dies_and_is_heard(mut self) {
        let begun = Instant::now();
        let waiting = std::thread::spawn(move || self.reader.read_timeout(&mut [0; 8], PATIENCE));
        // sleep: so that the reader mostly sleeps by then. It must learn of the death either way.
        std::thread::sleep(Duration::from_millis(30));
        kill(&mut self.writer.0);
        let read = waiting.join().expect("no panic").expect("the end");
        assert_eq!((read, begun.elapsed() < PATIENCE), (0, true), "the end of the pipe is heard");
    }
}

/// Checks that each wait of 50 ms returns, with a wide margin.
fn wait_a_little(end: &mut impl Waitable) -> bool {
    let begun = Instant::now();
    let mut wait = Wait::new();
    wait.add_borrowed((), end).expect("few");
    let is_ready = wait.wait_timeout(&mut Vec::new(), Duration::from_millis(50)).is_ok();
    assert!(begun.elapsed() < Duration::from_secs(10), "a wait of 50 ms: {:?}", begun.elapsed());
    is_ready
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

fn serve_mpx(name: &Path, owner: &mut Mpx) {
    let mut storm = start(&format!("call {}", name.display()));
    let pipe = Pipe::new();
    let death = std::thread::spawn(|| pipe.dies_and_is_heard());
    let (mut data, mut closed) = (0, 0);
    let begun = Instant::now();
    while closed < OPENERS {
        assert!(begun.elapsed() < PATIENCE, "{data} records of data, {closed} closed");
        wait_a_little(owner);
        let mut asked = Vec::new();
        let received =
            owner.receive_each_timeout(&mut [0; 4096], Timeout::Now, |record| match record.kind {
                RecordKind::Open => asked.push(record.channel),
                RecordKind::Data => data += record.bytes.len(),
                RecordKind::Close(_) => closed += 1,
                other => panic!("{other:?}"),
            });
        drop(received);
        asked.into_iter().for_each(|channel| owner.accept(channel).expect("accepted"));
    }
    assert_eq!(data, OPENERS * MESSAGES);
    assert!(storm.0.wait().expect("ended").success());
    death.join().expect("the death was heard");
}

#[test]
fn peers_that_connect_to_an_mpx_at_once_hold_up_no_wait() {
    in_time(|| {
        let (_directory, name) = common::place();
        let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("an owner");
        for _ in 0..3 {
            serve_mpx(&name, &mut owner);
        }
    });
}

#[test]
fn silent_connections_to_an_mpx_hold_up_no_wait() {
    in_time(|| {
        let (_directory, name) = common::place();
        let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("an owner");
        let mut silent = start(&format!("silent {}", name.display()));
        let pipe = Pipe::new();
        let death = std::thread::spawn(|| pipe.dies_and_is_heard());
        for _ in 0..10 {
            wait_a_little(&mut owner);
        }
        assert_eq!(hear(&silent.1), b"up");
        death.join().expect("the death was heard");
        kill(&mut silent.0);
        serve_mpx(&name, &mut owner);
    });
}
