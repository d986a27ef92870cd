//! The promises of docs/contracts/pipe.md about records.

use crate::common::patterned;
use std::time::Duration;
use weir::{ErrorKind, Options, Wait, Waiting, records};

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
fn a_record_whose_reader_is_gone_is_an_error_and_is_not_counted() {
    let (mut writer, reader) = records(&small()).expect("made");
    // Of one length, so that the last one would go the usual way.
    for _ in 0..3 {
        writer.send(b"sent").expect("sent");
    }
    drop(reader);
    for _ in 0..3 {
        let error = writer.send(b"late").expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Closed);
        let said = "cannot write to the pipe: the reader has closed or died";
        assert_eq!(error.to_string(), said);
    }
    let account = writer.account().expect("an account");
    assert_eq!((account.records, account.bytes), (3, 12));
}

/// It was sent to nobody, and counted.
#[test]
fn a_reservation_whose_reader_is_gone_is_an_error_and_is_not_counted() {
    let (mut writer, reader) = records(&small()).expect("made");
    let place = writer.reserve(100).expect("room");
    drop(reader);
    assert_eq!(place.commit().expect_err("closed").kind(), ErrorKind::Closed);
    let account = writer.account().expect("an account");
    assert_eq!((account.records, account.bytes), (0, 0));
}

#[test]
fn a_buffer_too_small_keeps_the_record() {
    let (mut writer, mut reader) = records(&small()).expect("made");
    writer.send(&patterned(100, 1)).expect("sent");
    let error = reader.receive(&mut [0; 99]).expect_err("too small");
    assert_eq!((error.kind(), error.needed_bytes()), (ErrorKind::TooSmall, Some(100)));
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

/// The place that such a record takes has no length that is a number.
#[test]
fn a_record_as_long_as_no_memory_is_refused() {
    let (mut writer, mut reader) = records(&small()).expect("made");
    writer.send(b"a first one").expect("sent");
    for bytes in [usize::MAX, usize::MAX - 62, usize::MAX / 2] {
        let refused = writer.reserve(bytes).map(drop).expect_err("there is no such room");
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        let mut wait = Wait::new();
        let key = wait.add_borrowed((), &mut writer).expect("few");
        wait.want(key, bytes).expect("its key");
        // The call says why, so there is nothing to wait for.
        wait.wait_timeout(&mut Vec::new(), Duration::from_secs(20)).expect("it is ready");
    }
    writer.send(b"and another").expect("sent");
    for text in [b"a first one", b"and another"] {
        let mut buffer = [0; 11];
        assert_eq!(reader.receive(&mut buffer).expect("received"), Some(11));
        assert_eq!(&buffer, text);
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
    let mut loan = reader.lend().expect("peeked").expect("there");
    assert_eq!(loan.len(), 300_000);
    let mut end = [0; 3];
    loan.view().expect("here").copy_to(299_997, &mut end);
    assert_eq!(&end, b"end");
    // The record was not consumed, so it is there once more.
    reader.lend().expect("peeked").expect("still there").consume().expect("consumed");
    let mut buffer = [0; 10];
    assert_eq!(reader.receive(&mut buffer).expect("received"), Some(5));
    assert_eq!(reader.try_receive(&mut buffer).expect_err("empty").kind(), ErrorKind::WouldBlock);
}

/// What was left in place became a record that nobody had sent: its second word was taken for the
/// next record's length.
#[test]
fn a_reservation_that_is_forgotten_leaves_nothing_behind() {
    let looks_committed = 0x8000_0400_u32.to_ne_bytes();
    for bytes in [1000, 60, 4, 3000] {
        for hands_on in [false, true] {
            let (mut writer, mut reader) = records(&small()).expect("made");
            writer.send(&[1; 60]).expect("sent");
            let mut place = writer.reserve(bytes).expect("reserved");
            for at in (0..bytes).step_by(4) {
                place.view().expect("here").copy_from(at, &looks_committed);
            }
            std::mem::forget(place);
            if hands_on {
                let handle = writer.into_handle().expect("handed on");
                writer = weir::RecordWriter::open(handle).expect("opened");
            }
            writer.send(b"").expect("sent");
            writer.try_send(&[2; 60]).expect("sent");
            let mut buffer = [0; 4096];
            for (length, with) in [(60, 1), (0, 0), (60, 2)] {
                assert_eq!(reader.receive(&mut buffer).expect("received"), Some(length), "{bytes}");
                assert_eq!(buffer[..length], vec![with; length]);
            }
            let empty = reader.try_receive(&mut buffer).expect_err("empty");
            assert_eq!(empty.kind(), ErrorKind::WouldBlock, "{bytes}");
        }
    }
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
        let late = reader.receive_timeout(&mut [0; 9], time).expect_err("empty");
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let blocked = std::thread::spawn(move || reader.receive(&mut [0; 9]).expect("the end"));
        std::thread::yield_now();
        drop(writer);
        assert_eq!(blocked.join().expect("no panic"), None);
        let (mut writer_2, reader) = records(&small().waiting(waiting)).expect("made");
        while writer_2.try_send(&[0; 60]).is_ok() {}
        let full = writer_2.send_timeout(&[0; 60], time).expect_err("full");
        assert_eq!(full.kind(), ErrorKind::TimedOut);
        let blocked = std::thread::spawn(move || writer_2.send(&[0; 60]).expect_err("closed"));
        std::thread::yield_now();
        drop(reader);
        assert_eq!(blocked.join().expect("no panic").kind(), ErrorKind::Closed);
        writer = records(&small()).expect("made").0;
        assert_eq!(writer.send(b"x").expect_err("closed").kind(), ErrorKind::Closed);
    }
}

#[test]
fn several_records_come_at_once_and_each_whole() {
    let (mut writer, mut reader) = records(&small()).expect("made");
    let mut buffer = [0; 64];
    for length in [3, 5, 64] {
        writer.send(&patterned(length, length)).expect("sent");
    }
    writer.send(&[7; 65]).expect("sent");
    let mut seen = Vec::new();
    let count = reader.receive_each(&mut buffer, |record| seen.push(record.to_vec()));
    assert_eq!(count.expect("received"), 3, "the fourth does not fit the buffer");
    assert_eq!(seen, [patterned(3, 3), patterned(5, 5), patterned(64, 64)]);
    let refused = reader.receive_each(&mut buffer, |_| panic!("not shown")).expect_err("too long");
    assert_eq!((refused.kind(), refused.needed_bytes()), (ErrorKind::TooSmall, Some(65)));
    assert_eq!(reader.receive(&mut [0; 65]).expect("it stayed"), Some(65));
    assert_eq!(reader.account().expect("an account").records, 4);
    drop(writer);
    assert_eq!(reader.receive_each(&mut buffer, |_| panic!("none")).expect("the end"), 0);
}

#[test]
fn the_writer_is_not_kept_waiting_for_room_by_a_reader_that_takes_all() {
    let (mut writer, mut reader) = records(&small()).expect("made");
    while writer.try_send(&[1; 60]).is_ok() {}
    let count = reader.receive_each(&mut [0; 64], |_| {}).expect("received");
    assert!(count <= 4096 / 64 / 4, "{count} of a capacity of 64");
    writer.try_send(&[1; 60]).expect("room was given back");
}

/// A reader that has not slept for long takes over the writer's fences, and gives them back when it
/// sleeps. This is repeated: after a lost wake-up one of the two would stay asleep.
#[test]
fn no_wake_up_is_lost_where_the_fences_change_sides() {
    let patience = Duration::from_secs(20);
    for stream in [20_000_u32, 16_383, 16_385, 40_000] {
        let (mut writer, mut reader) = records(&Options::new()).expect("made");
        let (mut answer, mut answered) = records(&small()).expect("made");
        let reading = std::thread::spawn(move || {
            let mut buffer = [0; 8];
            let mut got = 0_u32;
            while reader.receive_timeout(&mut buffer, patience).expect("not lost").is_some() {
                got += 1;
                if buffer[4] == 1 {
                    answer.send(&got.to_le_bytes()).expect("sent");
                }
            }
            reader.account().expect("an account").slept
        });
        for round in 1..=40_u32 {
            for number in 0..stream {
                let mut record = [0; 8];
                record[4] = u8::from(number + 1 == stream);
                writer.send(&record).expect("sent");
            }
            let mut buffer = [0; 4];
            answered.receive_timeout(&mut buffer, patience).expect("an answer");
            assert_eq!(u32::from_le_bytes(buffer), round.wrapping_mul(stream));
            // sleep: the reader falls asleep meanwhile, or is just about to.
            std::thread::sleep(Duration::from_micros(u64::from(round) * 50 % 1_000));
        }
        drop(writer);
        let slept = reading.join().expect("no panic");
        assert!(slept > 0, "the reader never slept: nothing was tried");
    }
}

/// What a reader had shown when the caller panicked was never given back. The ring filled up, and what
/// lay there was received once more. It was not in the account either.
#[test]
fn records_at_which_the_caller_panics_are_received_once_and_give_their_room_back() {
    let (mut writer, mut reader) = records(&small()).expect("made");
    let mut buffer = [0; 1024];
    for number in 0..20 {
        writer.try_send(&[number; 1000]).expect("there is room");
        let mut seen = Vec::new();
        let see = |record: &[u8]| {
            seen.push(record[0]);
            std::panic::resume_unwind(Box::new("no message"));
        };
        let received = std::panic::AssertUnwindSafe(|| reader.receive_each(&mut buffer, see));
        std::panic::catch_unwind(received).expect_err("it panics");
        assert_eq!(seen, [number]);
        let account = reader.account().expect("here");
        let number = u64::from(number) + 1;
        assert_eq!((account.records, account.bytes), (number, number * 1000));
    }
    drop(writer);
    assert_eq!(reader.receive(&mut buffer).expect("the end"), None);
}

/// A reader that only spins kept what it owed while it waited, up to an eighth of the capacity. A writer
/// whose record needed that room waited for it for ever, though the pipe was empty.
#[test]
fn a_reader_that_spins_gives_back_what_it_owes() {
    let spins = Options::new().capacity_bytes(65_536).waiting(Waiting::Spin);
    let (mut writer, mut reader) = records(&spins).expect("made");
    let (came, comes) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok(Some(bytes)) = reader.receive(&mut buffer) {
            came.send(bytes).expect("heard");
        }
    });
    for bytes in [2000, 65_536, 2000, 65_536] {
        let sent = writer.send_timeout(&vec![7; bytes], Duration::from_secs(10));
        sent.expect("the reader has taken all that came before");
        assert_eq!(comes.recv_timeout(Duration::from_secs(10)), Ok(bytes));
    }
}

/// A writer that only spins waited until there was room for a segment, whatever its record needed.
#[test]
fn a_writer_that_spins_finds_less_room_than_a_segment() {
    let spins = small().segment_bytes(4096).waiting(Waiting::Spin);
    let (mut writer, mut reader) = records(&spins).expect("made");
    while writer.try_send(&[0; 60]).is_ok() {}
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let sent = writer.send_timeout(&[1; 60], Duration::from_secs(60));
        let _ = tell.send(sent.is_ok());
    });
    let memory = reader.memory_descriptor().expect("here").try_clone_to_owned().expect("a copy");
    let begun = std::time::Instant::now();
    while weir::stat::read(&memory).expect("a pipe").writer.account.waits == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not wait");
        std::thread::yield_now();
    }
    // So many that the reader gives their room back.
    for _ in 0..20 {
        reader.receive(&mut [0; 60]).expect("received");
    }
    assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(true), "there is room for it");
}
