//! Listeners, and processes that connect and hand nothing over (docs/contracts/pipe.md, 15).

mod common;
#[path = "common/raw.rs"]
mod raw;

use rustix::fd::AsFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use weir::{Listener, Options};

/// Clients that send nothing, and clients that send something else, hold up nobody behind them, and
/// are disconnected in the end.
#[test]
fn who_is_silent_holds_up_nobody() {
    let (_directory, name) = common::place();
    let listener = Listener::bind(&name).expect("bound");
    let silent: Vec<_> = (0..40).map(|_| raw::dial(&name)).collect();
    let wrong: Vec<_> = (0..10).map(|_| raw::dial(&name)).collect();
    for socket in &wrong {
        raw::send(socket.as_fd(), b"weir-open", &[]);
    }
    let (came, comes) = channel();
    let accepting = std::thread::spawn(move || {
        for _ in 0..2 {
            let mut reader = listener.accept::<weir::Reader>().expect("a reader");
            let mut bytes = [0; 8];
            let count = reader.read(&mut bytes).expect("read");
            came.send(bytes[..count].to_vec()).expect("heard");
        }
        // This one is kept until the silent clients have been disconnected.
        let reader = listener.accept::<weir::RecordReader>().expect("a reader");
        drop((reader, listener));
    });
    for text in [&b"one"[..], b"two"] {
        let mut writer = weir::Writer::connect(&name, &Options::new()).expect("connected");
        writer.write(text).expect("written");
        let heard = comes.recv_timeout(Duration::from_secs(20)).expect("nobody is held up");
        assert_eq!(heard, text);
    }
    for socket in &wrong {
        assert!(common::hear(socket).starts_with(b"weir-no "), "it is told");
    }
    let begun = Instant::now();
    for socket in &silent {
        let said = common::hear(socket);
        assert!(said.starts_with(b"weir-no "), "{}", said.escape_ascii());
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "sent away after 5 s");
    let _writer = weir::RecordWriter::connect(&name, &Options::new()).expect("connected");
    accepting.join().expect("no panic");
}
