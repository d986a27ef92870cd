//! The promises of docs/contracts/pipe.md about streams.

use std::time::Duration;
use weir::{ErrorKind, Options, Waiting, pipe};

fn small() -> Options {
    Options::new().capacity_bytes(4096)
}

fn patterned(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|at| ((at + seed) * 167 >> 3) as u8).collect()
}

#[test]
fn what_was_written_is_read() {
    let (mut writer, mut reader) = pipe(&Options::new()).expect("a pipe");
    assert_eq!(writer.write(b"hello, ").expect("written"), 7);
    assert_eq!(writer.write(b"world").expect("written"), 5);
    assert_eq!(writer.write(b"").expect("written"), 0);
    let mut buffer = [0; 64];
    assert_eq!(reader.read(&mut buffer[..3]).expect("read"), 3);
    assert_eq!(reader.read(&mut buffer[3..]).expect("read"), 9);
    assert_eq!(&buffer[..12], b"hello, world");
    drop(writer);
    assert_eq!(reader.read(&mut buffer).expect("read"), 0);
}

#[test]
fn a_stream_holds_exactly_its_capacity() {
    let (mut writer, mut reader) = pipe(&small()).expect("a pipe");
    assert_eq!(writer.try_write(&patterned(5000, 0)).expect("written"), 4096);
    assert_eq!(writer.try_write(b"x").expect_err("full").kind(), ErrorKind::WouldBlock);
    assert_eq!((writer.room().expect("known"), reader.available().expect("known")), (0, 4096));
    let mut buffer = [0; 10];
    reader.read(&mut buffer).expect("read");
    assert_eq!(writer.try_write(&[1; 20]).expect_err("no room").kind(), ErrorKind::WouldBlock);
    assert_eq!(writer.try_write(&[1; 10]).expect("written"), 10);
}

#[test]
fn a_stream_between_threads_is_what_was_sent() {
    for (chunk, capacity) in [(1, 4096), (100, 4096), (5000, 4096), (65_536, 1 << 20), (3, 65_536)]
    {
        let options = Options::new().capacity_bytes(capacity);
        let (mut writer, mut reader) = pipe(&options).expect("a pipe");
        let sent = patterned(chunk * 300, 5);
        let copy = sent.clone();
        let writing = std::thread::spawn(move || {
            copy.chunks(chunk).for_each(|part| {
                assert_eq!(writer.write(part).expect("written"), part.len());
            });
        });
        let (mut got, mut buffer) = (Vec::new(), vec![0; 7000]);
        loop {
            match reader.read(&mut buffer).expect("read") {
                0 => break,
                count => got.extend_from_slice(&buffer[..count]),
            }
        }
        writing.join().expect("no panic");
        assert!(got == sent, "{chunk} through {capacity}");
    }
}

#[test]
fn calls_that_do_not_wait_say_so() {
    let (mut writer, mut reader) = pipe(&small()).expect("a pipe");
    let mut buffer = [0; 100];
    let empty = reader.try_read(&mut buffer).expect_err("empty");
    assert_eq!(
        (empty.kind(), empty.to_string().as_str()),
        (ErrorKind::WouldBlock, "cannot read from the pipe: it is empty")
    );
    let late = reader.read_for(&mut buffer, Duration::from_millis(2)).expect_err("empty");
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    let time = Duration::from_millis(2);
    assert_eq!(writer.write_for(&[1; 6000], time).expect("part of it"), 4096);
    assert_eq!(writer.write_for(&[1; 6000], time).expect_err("full").kind(), ErrorKind::TimedOut);
}

#[test]
fn the_end_is_seen() {
    let (mut writer, mut reader) = pipe(&small()).expect("a pipe");
    writer.write(b"last").expect("written");
    drop(writer);
    let mut buffer = [0; 100];
    assert_eq!(reader.try_read(&mut buffer).expect("read"), 4);
    assert_eq!(reader.try_read(&mut buffer).expect("the end"), 0);
    assert_eq!(reader.read_for(&mut buffer, Duration::from_secs(9)).expect("the end"), 0);
    let (mut writer, reader) = pipe(&small()).expect("a pipe");
    writer.write(b"unread").expect("written");
    drop(reader);
    let closed = writer.write(b"more").expect_err("closed");
    assert_eq!(closed.kind(), ErrorKind::Closed);
    assert_eq!(closed.to_string(), "cannot write to the pipe: the reader has closed or died");
}

#[test]
fn a_blocked_end_learns_of_the_close() {
    for waiting in [Waiting::Sleep, Waiting::Adaptive] {
        let (mut writer, mut reader) = pipe(&small().waiting(waiting)).expect("a pipe");
        let blocked = std::thread::spawn(move || writer.write(&[7; 10_000]).expect_err("closed"));
        while reader.available().expect("known") < 4096 {
            std::thread::yield_now();
        }
        drop(reader);
        let error = blocked.join().expect("no panic");
        assert_eq!((error.kind(), error.written_bytes()), (ErrorKind::Closed, 4096));
        let (writer, mut reader) = pipe(&small().waiting(waiting)).expect("a pipe");
        let blocked = std::thread::spawn(move || reader.read(&mut [0; 10]));
        std::thread::yield_now();
        drop(writer);
        assert_eq!(blocked.join().expect("no panic").expect("the end"), 0);
    }
}
