//! The promises of docs/contracts/pipe.md about records.

mod common;

use common::patterned;
use std::time::Duration;
use weir::{ErrorKind, Options, Waiting, records};

fn small() -> Options {
    Options::new().capacity_bytes(4096)
}

#[test]
fn records_keep_their_lengths() {
    let (mut writer, mut reader) = records(&Options::new().capacity_bytes(65_536)).expect("made");
    let lengths = [0, 1, 4, 48, 60, 61, 64, 512, 1020, 1024, 1025, 4096, 20_000];
    for length in lengths {
        writer.send(&patterned(length, length)).expect("sent");
    }
    drop(writer);
    let mut buffer = vec![0; 65_536];
    for length in lengths {
        assert_eq!(reader.receive(&mut buffer).expect("received"), Some(length));
        assert!(buffer[..length] == patterned(length, length));
    }
    assert_eq!(reader.receive(&mut buffer).expect("the end"), None);
}

#[test]
fn a_buffer_too_small_keeps_the_record() {
    let (mut writer, mut reader) = records(&small()).expect("made");
    writer.send(&patterned(100, 1)).expect("sent");
    let error = reader.receive(&mut [0; 99]).expect_err("too small");
    assert_eq!((error.kind(), error.needed_bytes()), (ErrorKind::TooSmall, 100));
    assert!(error.to_string().ends_with("the record has 100 bytes, the buffer 99"));
    let mut buffer = [0; 100];
    assert_eq!(reader.receive(&mut buffer).expect("received"), Some(100));
    assert!(buffer[..] == patterned(100, 1));
}

#[test]
fn a_record_as_long_as_the_capacity_goes_and_a_longer_one_is_refused() {
    let (mut writer, mut reader) = records(&small()).expect("made");
    let error = writer.send(&[0; 4097]).expect_err("too long");
    let text = "cannot send a record: 4097 bytes are out of range: 0 to 4096";
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, text));
    let mut buffer = [0; 4096];
    for round in 0..10 {
        writer.send(&patterned(4096, round)).expect("sent");
        assert_eq!(writer.try_send(&[0; 4096]).expect_err("full").kind(), ErrorKind::WouldBlock);
        assert_eq!(reader.receive(&mut buffer).expect("received"), Some(4096));
        assert!(buffer[..] == patterned(4096, round));
    }
}

#[test]
fn at_least_the_capacity_fits() {
    for length in [60, 124, 1020, 2000] {
        let (mut writer, _reader) = records(&small()).expect("made");
        let mut held = 0;
        while writer.try_send(&patterned(length, held)).is_ok() {
            held += length;
        }
        assert!(held + length > 3800, "{held} bytes in records of {length}");
    }
}

#[test]
fn a_loan_moves_without_copies() {
    let (mut writer, mut reader) = records(&Options::new().capacity_bytes(1 << 20)).expect("made");
    let mut place = writer.reserve(300_000).expect("reserved");
    place.view().expect("here").copy_from(0, b"begin");
    place.view().expect("here").copy_from(299_997, b"end");
    place.commit().expect("committed");
    drop(writer.reserve(100).expect("reserved"));
    let mut dropped = writer.reserve(1000).expect("reserved");
    dropped.view().expect("here").copy_from(0, &[9; 1000]);
    drop(dropped);
    writer.send(b"after").expect("sent");
    let mut loan = reader.peek().expect("peeked").expect("there");
    assert_eq!(loan.len(), 300_000);
    let mut end = [0; 3];
    loan.view().expect("here").copy_to(299_997, &mut end);
    assert_eq!(&end, b"end");
    // Not consumed: it is there once more.
    reader.peek().expect("peeked").expect("still there").consume().expect("consumed");
    let mut buffer = [0; 10];
    assert_eq!(reader.receive(&mut buffer).expect("received"), Some(5));
    assert_eq!(reader.try_receive(&mut buffer).expect_err("empty").kind(), ErrorKind::WouldBlock);
}

#[test]
fn records_between_threads_are_what_was_sent() {
    let kinds =
        [(4, 4096, 20_000), (64, 4096, 20_000), (3000, 4096, 2_000), (70_000, 1 << 20, 500)];
    for (most, capacity, count) in kinds {
        let (mut writer, mut reader) =
            records(&Options::new().capacity_bytes(capacity)).expect("made");
        let writing = std::thread::spawn(move || {
            for at in 0..count {
                writer.send(&patterned((at * 31) % (most + 1), at)).expect("sent");
            }
        });
        let mut buffer = vec![0; most];
        for at in 0..count {
            let length = (at * 31) % (most + 1);
            assert_eq!(reader.receive(&mut buffer).expect("received"), Some(length));
            assert!(buffer[..length] == patterned(length, at), "record {at} of at most {most}");
        }
        assert_eq!(reader.receive(&mut buffer).expect("the end"), None);
        writing.join().expect("no panic");
    }
}

#[test]
fn the_end_is_seen_and_times_are_kept() {
    for waiting in [Waiting::Sleep, Waiting::Adaptive] {
        let (mut writer, mut reader) = records(&small().waiting(waiting)).expect("made");
        let time = Duration::from_millis(2);
        let late = reader.receive_for(&mut [0; 9], time).expect_err("empty");
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let blocked = std::thread::spawn(move || reader.receive(&mut [0; 9]).expect("the end"));
        std::thread::yield_now();
        drop(writer);
        assert_eq!(blocked.join().expect("no panic"), None);
        let (mut writer_2, reader) = records(&small().waiting(waiting)).expect("made");
        while writer_2.try_send(&[0; 60]).is_ok() {}
        let full = writer_2.send_for(&[0; 60], time).expect_err("full");
        assert_eq!(full.kind(), ErrorKind::TimedOut);
        let blocked = std::thread::spawn(move || writer_2.send(&[0; 60]).expect_err("closed"));
        std::thread::yield_now();
        drop(reader);
        assert_eq!(blocked.join().expect("no panic").kind(), ErrorKind::Closed);
        writer = records(&small()).expect("made").0;
        assert_eq!(writer.send(b"x").expect_err("closed").kind(), ErrorKind::Closed);
    }
}
