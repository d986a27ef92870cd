//! The promises of docs/contracts/pipe.md about long reads, and about the atomic bound of small pipes.

use crate::common;
use crate::common::patterned;
use rustix::fd::OwnedFd;
use std::time::{Duration, Instant};
use weir::tune::{Ask, ask};
use weir::{ErrorKind, Options, Reader, Waiting, Writer, pipe, records};

fn memory_of(reader: &Reader) -> OwnedFd {
    reader.memory_descriptor().expect("here").try_clone_to_owned().expect("copied")
}

#[test]
fn the_atomic_bound_is_more_than_a_segment_of_a_small_pipe() {
    for capacity in [4096, 8192, 16_384] {
        let (mut writer, mut reader) =
            pipe(&Options::new().capacity_bytes(capacity).segment_bytes(capacity / 8))
                .expect("a pipe");
        let sizes = writer.sizes();
        assert_eq!((sizes.segment_bytes, sizes.atomic_bytes), (capacity / 8, 4096));
        let rest = capacity as usize - 4096;
        writer.write(&patterned(rest + 1, 0)).expect("written");
        let error = writer.try_write(&[7; 4096]).expect_err("a byte is missing");
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{capacity}");
        reader.read(&mut [0]).expect("read");
        assert_eq!(writer.try_write(&[7; 4096]).expect("written whole"), 4096);
        std::thread::scope(|scope| {
            // It waits for its whole room, and gets it by reads of less.
            let blocked = scope.spawn(|| writer.write(&[8; 4096]).expect("written"));
            let (mut got, whole) = (0, rest + 2 * 4096);
            while got < whole {
                got += reader.read(&mut [0; 700]).expect("read");
            }
            assert_eq!((got, blocked.join().expect("no panic")), (whole, 4096));
        });
    }
}

/// Who asked for a size meanwhile was told that the writer adopts it, which never happened.
#[test]
fn sizes_are_refused_while_the_reader_has_not_followed_to_another_memory() {
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    writer.write(b"one").expect("written");
    writer.resize(65_536).expect("resized");
    let next = writer.memory_descriptor().expect("here").try_clone_to_owned().expect("a copy");
    let segment = Ask { segment_bytes: Some(1024), ..Ask::default() };
    let capacity = Ask { capacity_bytes: Some(16_384), ..Ask::default() };
    for (memory, sizes) in [(&memory_of(&reader), segment), (&next, capacity)] {
        let error = ask(memory, sizes).expect_err("not followed");
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
    }
    ask(&next, segment).expect("the memory of the writer");
    assert_eq!(reader.read(&mut [0; 8]).expect("read"), 3);
    assert_eq!(reader.try_read(&mut [0; 8]).expect_err("empty").kind(), ErrorKind::WouldBlock);
    ask(memory_of(&reader), capacity).expect("followed");
}

/// A reader used to give the room of a long read back at its end only. Here one read copies the whole
/// pipe, and an observer looks for an instant at which a part of its room was free, and for one at
/// which the writer that waited had been woken.
#[test]
fn a_long_read_gives_room_back_by_segments() {
    const WHOLE: usize = 64 << 20;
    let options = Options::new().capacity_bytes(WHOLE as u64).waiting(Waiting::Sleep);
    let (mut writer, mut reader) = pipe(&options).expect("a pipe");
    let memory = memory_of(&reader);
    let (chunk, deadline) = (vec![5; WHOLE], Instant::now() + Duration::from_secs(60));
    let (mut parted, mut woken) = (false, false);
    while !(parted && woken) {
        assert!(Instant::now() < deadline, "a part was free: {parted}, the writer woke: {woken}");
        assert_eq!(writer.try_write(&chunk).expect("written"), WHOLE);
        std::thread::scope(|scope| {
            let before = weir::stat::read(&memory).expect("read").writer.account;
            let blocked = scope.spawn(|| writer.write(&[6; 1000]).expect("written"));
            common::until("the writer waits", || {
                weir::stat::read(&memory).expect("read").writer.waits
            });
            let reading = scope.spawn(|| reader.read(&mut vec![0; WHOLE]).expect("read"));
            while !reading.is_finished() {
                let now = weir::stat::read(&memory).expect("read");
                // 1000 bytes are those that were written meanwhile.
                let fill = now.fill_bytes.unwrap_or_default();
                parted |= fill > 1000 && fill < WHOLE as u64;
                woken |= fill > 1000 && now.writer.account.bytes > before.bytes;
            }
            assert_eq!(reading.join().expect("no panic"), WHOLE);
            assert_eq!(blocked.join().expect("no panic"), 1000);
        });
        assert_eq!(reader.read(&mut [0; 2000]).expect("read"), 1000);
    }
}

/// A segment and an atomic bound that were asked for with another capacity were forgotten, and so was the
/// capacity if the writer was handed on before it took it up.
#[test]
fn all_sizes_that_were_asked_for_together_are_taken_up() {
    for is_handed_on in [false, true] {
        let (mut writer, reader) = pipe(&Options::new().capacity_bytes(65_536)).expect("a pipe");
        let mut asked = Ask { capacity_bytes: Some(1 << 18), ..Ask::default() };
        (asked.segment_bytes, asked.atomic_bytes) = (Some(2048), Some(100));
        let sizes = ask(memory_of(&reader), asked).expect("granted");
        assert_eq!((sizes.segment_bytes, sizes.atomic_bytes), (2048, 100));
        if is_handed_on {
            writer = Writer::open(writer.into_handle().expect("handed on")).expect("opened");
        }
        for _ in 0..600 {
            writer.write(b"x").expect("written");
        }
        assert_eq!(writer.sizes(), sizes, "handed on: {is_handed_on}");
    }
}

/// A reader continued with the segment that the pipe had when it was opened. It did not wake a
/// writer for a shorter one, which found the room after up to 20 ms.
#[test]
fn a_reader_wakes_its_writer_for_the_segment_that_this_has_set() {
    let options = Options::new().capacity_bytes(65_536).waiting(Waiting::Sleep);
    let (mut writer, mut reader) = pipe(&options).expect("a pipe");
    let memory = memory_of(&reader);
    writer.set_sizes(256, 100).expect("set");
    assert_eq!(writer.try_write(&[5; 65_536]).expect("written"), 65_536);
    let mut is_woken = false;
    // Now and then it is just looking by itself.
    for _ in 0..10 {
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| writer.write(&[6; 256]).expect("written"));
            common::until("the writer waits", || {
                weir::stat::read(&memory).expect("read").writer.waits
            });
            assert_eq!(reader.read(&mut [0; 256]).expect("read"), 256);
            is_woken |= reader.account().expect("here").wakes_given > 0;
            assert_eq!(blocked.join().expect("no panic"), 256);
        });
    }
    assert!(is_woken);
}

/// A reader of records did so whoever had set the segment.
#[test]
fn a_reader_of_records_wakes_its_writer_for_the_segment_that_was_asked_for() {
    let options = Options::new().capacity_bytes(65_536).waiting(Waiting::Sleep);
    let (mut writer, mut reader) = records(&options).expect("a pipe");
    let memory = reader.memory_descriptor().expect("here").try_clone_to_owned().expect("copied");
    ask(&memory, Ask { segment_bytes: Some(256), ..Ask::default() }).expect("granted");
    let mut is_woken = false;
    // Now and then it is just looking by itself.
    for _ in 0..10 {
        while writer.try_send(&[5; 60]).is_ok() {}
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| writer.send(&[6; 60]).expect("sent"));
            common::until("the writer waits", || {
                weir::stat::read(&memory).expect("read").writer.waits
            });
            for _ in 0..5 {
                assert_eq!(reader.receive(&mut [0; 60]).expect("received"), Some(60));
            }
            is_woken |= reader.account().expect("here").wakes_given > 0;
            blocked.join().expect("no panic");
        });
    }
    assert!(is_woken);
}

/// A writer that only spins wrote nothing more until there was room for a segment or all that was left.
#[test]
fn a_writer_that_spins_uses_less_room_than_a_segment() {
    let spins = Options::new().capacity_bytes(65_536).waiting(Waiting::Spin);
    let (mut writer, mut reader) = pipe(&spins).expect("a pipe");
    writer.write(&[0; 65_536]).expect("it holds all");
    let writing = std::thread::spawn(move || writer.write(&[1; 5000]));
    reader.read(&mut [0; 100]).expect("read");
    let begun = Instant::now();
    while reader.available().expect("sound") < 65_536 {
        assert!(begun.elapsed() < Duration::from_secs(10), "100 bytes of room are not used");
        std::thread::yield_now();
    }
    drop(reader);
    let error = writing.join().expect("no panic").expect_err("its reader is gone");
    assert_eq!((error.kind(), error.written_bytes()), (ErrorKind::Closed, Some(100)));
}
