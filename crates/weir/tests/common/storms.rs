//! Many clients that open at once, and the death of another peer of the same process.

use crate::common::{hear, kill, receive_handle, say, start};
use crate::raw;
use rustix::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use weir::{Handle, Options, Reader, Wait, Waitable, Writer};

/// How many clients open at once.
pub const OPENERS: usize = 256;
/// How many messages each sends.
pub const MESSAGES: usize = 4;
/// The limit for anything that takes a second at most.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Holds a writer's end that comes by the standard input, until the test ends.
pub fn hold() {
    let input = std::io::stdin();
    let _writer = Writer::open(receive_handle()).expect("a writer");
    say(&input, b"up");
    hear(&input);
}

/// Connects many times and says nothing, until the test ends.
pub fn stay_silent(name: &str) {
    let input = std::io::stdin();
    let name = PathBuf::from(name);
    let silent: Vec<_> = (0..OPENERS).map(|_| raw::try_dial(&name)).collect();
    say(&input, b"up");
    hear(&input);
    drop(silent);
}

/// Connects, however long the queue of a busy reader is full.
pub fn until_let<P>(connect: impl Fn() -> weir::Result<P>) -> P {
    loop {
        match connect() {
            Ok(connected) => return connected,
            Err(error) => assert_eq!(error.kind(), weir::ErrorKind::WouldBlock, "{error}"),
        }
    }
}

pub fn all_at_once(each: impl Fn() + Sync) {
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
pub fn in_time(test: impl FnOnce() + Send + 'static) {
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
pub struct Pipe {
    reader: Reader,
    writer: (Child, OwnedFd),
}

impl Pipe {
    pub fn new() -> Pipe {
        let (theirs, ours) = Handle::stream_pair(&Options::new()).expect("a pipe");
        let writer = start("hold");
        theirs.send(rustix::fd::AsFd::as_fd(&writer.1)).expect("sent");
        assert_eq!(hear(&writer.1), b"up");
        Pipe { reader: Reader::open(ours).expect("a reader"), writer }
    }

    /// Kills the writer, and sleeps until this process learns of it.
    pub fn dies_and_is_heard(mut self) {
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
pub fn wait_a_little(end: &mut impl Waitable) -> bool {
    let begun = Instant::now();
    let mut wait = Wait::new();
    wait.add_borrowed((), end).expect("few");
    let is_ready = wait.wait_timeout(&mut Vec::new(), Duration::from_millis(50)).is_ok();
    assert!(begun.elapsed() < Duration::from_secs(10), "a wait of 50 ms: {:?}", begun.elapsed());
    is_ready
}
