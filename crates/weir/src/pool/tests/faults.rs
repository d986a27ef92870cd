//! Writes and reads that fail or hang: nothing is lost, and each end concerned gets the error once.

use super::*;
use rustix::io::Errno;

const CAUSES: [Errno; 2] = [Errno::NOSPC, Errno::IO];

#[test]
fn a_failing_write() {
    for nth in 0..6 {
        for failure in CAUSES {
            let made = make(options(16, 4096));
            let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
            made.faults.fail_after(nth, TransferDirection::ToDisk, failure);
            let (mut at, mut told) = (0, 0);
            while at < 100 * PAGE {
                match writer.write_timeout(&data(at, PAGE), PATIENCE) {
                    Ok(n) => at += n,
                    Err(error) => {
                        assert_eq!(cause(&error), Some(failure.raw_os_error()), "{error}");
                        at += error.written_bytes().unwrap_or_default();
                        told += 1;
                    }
                }
            }
            // Another write may have succeeded before the writer was called.
            assert!(told <= 1, "{told} times");
            assert!(made.pool.trouble().is_none(), "it is over");
            drop(writer);
            take(&mut reader, 0, at);
            assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
            all_is_given_back(&made.pool);
            assert!(made.pool.account().spilled_bytes > 0);
        }
    }
}

#[test]
fn a_full_device_holds_the_writer_up_and_loses_nothing() {
    for failure in CAUSES {
        let made = make(options(16, 4096));
        let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
        let mut put = 0;
        // Twice, and it works again in between.
        for _ in 0..2 {
            rest(&made.pool);
            made.faults.fail_all(TransferDirection::ToDisk, Some(failure));
            let (more, error) = put_until_told(&mut writer, put);
            put += more;
            assert_eq!(
                (error.kind(), cause(&error)),
                (ErrorKind::Os, Some(failure.raw_os_error()))
            );
            assert!(error.to_string().starts_with("cannot spill to '"), "{error}");
            let trouble = made.pool.trouble().expect("at present");
            assert_eq!(trouble.to_string(), error.to_string());
            // From now on it is like any full pipe, while writing is tried again.
            put += put_until_full(&made.pool, &mut writer, put);
            let before = made.faults.started(TransferDirection::ToDisk);
            assert_eq!(writer.try_write(b"x").expect_err("full").kind(), ErrorKind::WouldBlock);
            while made.faults.started(TransferDirection::ToDisk) < before + 3 {
                let error =
                    writer.write_timeout(b"x", Duration::from_millis(30)).expect_err("full");
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            }
            made.faults.fail_all(TransferDirection::ToDisk, None);
            let n = writer.write_timeout(&data(put, 64 * PAGE), PATIENCE).expect("it works again");
            assert_eq!(n, 64 * PAGE);
            put += n;
            assert!(made.pool.trouble().is_none());
        }
        drop(writer);
        take(&mut reader, 0, put);
        assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
        all_is_given_back(&made.pool);
    }
}

#[test]
fn what_a_dead_device_does_not_take_is_read_from_memory() {
    let made = make(options(16, 4096));
    made.faults.fail_all(TransferDirection::ToDisk, Some(Errno::NOSPC));
    made.faults.fail_all(TransferDirection::FromDisk, Some(Errno::IO));
    let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
    let (mut put, error) = put_until_told(&mut writer, 0);
    assert_eq!(cause(&error), Some(Errno::NOSPC.raw_os_error()));
    let mut taken = 0;
    while put < 1000 * PAGE {
        take(&mut reader, taken, 3 * PAGE);
        taken += 3 * PAGE;
        // It continues as a pipe of the size of the memory, without further errors.
        put += put_until_full(&made.pool, &mut writer, put);
    }
    drop(writer);
    take(&mut reader, taken, put - taken);
    assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
    all_is_given_back(&made.pool);
    let account = made.pool.account();
    assert_eq!((account.spilled_bytes, account.read_back_bytes), (0, 0));
    // One frame is kept for readers.
    assert!(account.most_memory_bytes == 15 * PAGE as u64 && account.delayed_bytes > 0);
}

#[test]
fn every_writer_is_told_of_trouble_once() {
    let made = make(options(16, 4096));
    made.faults.fail_all(TransferDirection::ToDisk, Some(Errno::NOSPC));
    let ends: Vec<_> = (0..4).map(|_| made.pool.backlog().expect("backlog")).collect();
    let (mut writers, mut readers): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    let mut put = Vec::new();
    for writer in &mut writers {
        let (bytes, error) = put_until_told(writer, 0);
        assert_eq!(cause(&error), Some(Errno::NOSPC.raw_os_error()));
        put.push(bytes);
    }
    for writer in &mut writers {
        assert_eq!(writer.try_write(b"x").expect_err("full").kind(), ErrorKind::WouldBlock);
    }
    drop(writers);
    for (reader, bytes) in readers.iter_mut().zip(put) {
        take(reader, 0, bytes);
        assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
    }
    all_is_given_back(&made.pool);
}

/// The error of a first try was reported after a second had begun. The error of the second was then
/// reported when the device worked again.
#[test]
fn a_failing_read_is_an_error() {
    for failure in CAUSES {
        let made = make(options(16, 4096));
        let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
        assert_eq!(writer.write_timeout(&data(0, 100 * PAGE), PATIENCE).expect("put"), 100 * PAGE);
        drop(writer);
        let (mut taken, mut failed) = (0, 0);
        let mut buffer = vec![0; 3000];
        while taken < 100 * PAGE {
            made.faults.fail_all(TransferDirection::FromDisk, Some(failure));
            match reader.read_timeout(&mut buffer, PATIENCE) {
                Ok(n) => {
                    assert!(buffer[..n] == data(taken, n));
                    taken += n;
                }
                Err(error) => {
                    assert_eq!(cause(&error), Some(failure.raw_os_error()));
                    let text = error.to_string();
                    assert!(text.starts_with("cannot read back the backlog: "), "{text}");
                    failed += 1;
                    rest(&made.pool);
                    made.faults.fail_all(TransferDirection::FromDisk, None);
                    take(&mut reader, taken, 1);
                    taken += 1;
                }
            }
        }
        assert!(failed > 3, "{failed}");
        assert_eq!(reader.read(&mut buffer).expect("the end"), 0);
        all_is_given_back(&made.pool);
    }
}

/// What a reader gets of 100 blocks if the file silently loses a cluster.
fn read_what_was_lost(made: &Made) -> (usize, Option<Error>) {
    made.faults.lose_after(3);
    let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
    assert_eq!(writer.write_timeout(&data(0, 100 * PAGE), PATIENCE).expect("put"), 100 * PAGE);
    drop(writer);
    let (mut sound, mut buffer) = (0, vec![0; PAGE]);
    loop {
        match reader.read_timeout(&mut buffer, PATIENCE) {
            Ok(0) => return (sound, None),
            Ok(n) if buffer[..n] == data(sound, n) => sound += n,
            Ok(_) => return (sound, None),
            Err(error) => {
                // Repeatedly: the block does not come back, and nothing else comes in its place.
                for _ in 0..3 {
                    rest(&made.pool);
                    let again = reader.read_timeout(&mut buffer, PATIENCE).expect_err("lost");
                    assert_eq!(again.to_string(), error.to_string());
                }
                return (sound, Some(error));
            }
        }
    }
}

#[test]
fn what_the_file_lost_without_a_word_is_an_error_where_it_is_verified() {
    let made = make(options(16, 4096));
    let (sound, error) = read_what_was_lost(&made);
    assert!(sound < 100 * PAGE && error.is_none(), "wrong bytes where nobody checks");
    let made = make(options(16, 4096).verify(true));
    assert!(made.pool.engine().contains("with checksums"), "{}", made.pool.engine());
    let (sound, error) = read_what_was_lost(&made);
    let error = error.expect("said");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    let directory = made._directory.path().display();
    let begins = format!(
        "cannot read back the backlog: the file in '{directory}' lost what was written to it: \
         the 4096 bytes at "
    );
    let place = text.strip_prefix(&begins).and_then(|rest| rest.strip_suffix(" differ"));
    let place: usize = place.unwrap_or_else(|| panic!("{text}")).parse().expect("a place");
    assert!(place.is_multiple_of(PAGE) && sound < 100 * PAGE, "{text}");
}

#[test]
fn all_that_is_verified_comes_as_it_went() {
    let made = make(options(16, 4096).verify(true));
    let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
    let whole = 300 * PAGE + 17;
    assert_eq!(writer.write_timeout(&data(0, whole), PATIENCE).expect("put"), whole);
    drop(writer);
    take(&mut reader, 0, whole);
    let account = made.pool.account();
    assert!(account.read_back_bytes > 200 * PAGE as u64, "{account:?}");
    drop(reader);
    all_is_given_back(&made.pool);
}

#[test]
fn a_stream_that_cannot_be_read_back_keeps_no_other_up() {
    let made = make(options(16, 4096));
    let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
    let (mut second, mut read_second) = made.pool.backlog().expect("backlog");
    assert_eq!(writer.write_timeout(&data(0, 60 * PAGE), PATIENCE).expect("put"), 60 * PAGE);
    rest(&made.pool);
    made.faults.fail_all(TransferDirection::FromDisk, Some(Errno::IO));
    let (mut taken, mut buffer) = (0, vec![0; PAGE]);
    while let Ok(n) = reader.read_timeout(&mut buffer, PATIENCE) {
        assert!(buffer[..n] == data(taken, n));
        taken += n;
    }
    for round in 0..50 {
        let bytes = data(round, 2 * PAGE);
        assert_eq!(second.write_timeout(&bytes, PATIENCE).expect("put"), 2 * PAGE);
        take(&mut read_second, round, 2 * PAGE);
        assert!(reader.read_timeout(&mut buffer, PATIENCE).is_err(), "still");
    }
    made.faults.fail_all(TransferDirection::FromDisk, None);
    rest(&made.pool);
    drop(writer);
    let _ = reader.try_read(&mut []);
    take(&mut reader, taken, 60 * PAGE - taken);
    drop((second, read_second, reader));
    all_is_given_back(&made.pool);
}

#[test]
fn what_is_being_written_is_read_from_memory() {
    let made = make(options(16, 4096));
    made.faults.hold(TransferDirection::ToDisk, true);
    let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
    let mut put = 0;
    let mut block = data(put, PAGE);
    while let Ok(n) = writer.try_write(&block) {
        put += n;
        block = data(put, PAGE);
    }
    let under_way = || made.pool.core().lock().policy.transfers_under_way();
    until("writes are under way", || made.faults.held() as u32 == under_way());
    let held = u64::from(under_way());
    assert!(held > 1, "{held}");
    take(&mut reader, 0, put);
    let account = made.pool.account();
    assert_eq!((account.read_back_bytes, account.spilled_bytes), (0, 0));
    // Their frames belong to the disk until it is done, however much memory is needed.
    assert_eq!(account.memory_bytes, held * PAGE as u64 + PAGE as u64, "one is the writer's");
    let more = put_until_held(&mut writer, put);
    assert_eq!(made.pool.account().memory_bytes, 15 * PAGE as u64, "one is kept for readers");
    take(&mut reader, put, more);
    made.faults.hold(TransferDirection::ToDisk, false);
    let from = put + more;
    assert_eq!(writer.write_timeout(&data(from, 50 * PAGE), PATIENCE).expect("put"), 50 * PAGE);
    drop(writer);
    take(&mut reader, from, 50 * PAGE);
    assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
    all_is_given_back(&made.pool);
}

/// Puts as much as there is room for while the disk does not answer.
fn put_until_held(writer: &mut BacklogWriter, from: usize) -> usize {
    let mut at = from;
    while let Ok(n) = writer.try_write(&data(at, PAGE)) {
        at += n;
    }
    at - from
}

#[test]
fn a_read_that_takes_long_is_waited_for() {
    let made = make(options(16, 4096));
    let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
    assert_eq!(writer.write_timeout(&data(0, 100 * PAGE), PATIENCE).expect("put"), 100 * PAGE);
    rest(&made.pool);
    made.faults.hold(TransferDirection::FromDisk, true);
    let (mut taken, mut buffer) = (0, vec![0; PAGE]);
    let time = Duration::from_millis(30);
    let error = loop {
        match reader.read_timeout(&mut buffer, time) {
            Ok(n) => taken += n,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.to_string(), "cannot read from the backlog: nothing came");
    assert_eq!(reader.try_read(&mut buffer).expect_err("yet").kind(), ErrorKind::WouldBlock);
    assert!(taken < 100 * PAGE);
    until("reads are under way", || made.faults.held() > 0);
    let faults = made.faults.clone();
    let letting_go = std::thread::spawn(move || faults.hold(TransferDirection::FromDisk, false));
    take(&mut reader, taken, 100 * PAGE - taken);
    letting_go.join().expect("no panic");
    // A reader that is dropped while its block is being read.
    assert_eq!(writer.write_timeout(&data(0, 100 * PAGE), PATIENCE).expect("put"), 100 * PAGE);
    rest(&made.pool);
    made.faults.hold(TransferDirection::FromDisk, true);
    while reader.read_timeout(&mut buffer, time).is_ok() {}
    until("reads are under way", || made.faults.held() > 0);
    drop((reader, writer));
    let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
    let room = put_until_held(&mut writer, 7);
    assert!(room > 0 && made.pool.account().memory_bytes <= 16 * PAGE as u64);
    made.faults.hold(TransferDirection::FromDisk, false);
    take(&mut reader, 7, room);
    drop((reader, writer));
    all_is_given_back(&made.pool);
}

/// A pool that is dropped while its disk works waits for the disk, and for nothing else.
#[test]
fn a_pool_goes_in_the_midst_of_transfers() {
    for direction in [TransferDirection::ToDisk, TransferDirection::FromDisk] {
        let made = make(options(16, 4096));
        let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
        if direction == TransferDirection::FromDisk {
            let bytes = data(0, 100 * PAGE);
            assert_eq!(writer.write_timeout(&bytes, PATIENCE).expect("put"), bytes.len());
            rest(&made.pool);
        }
        made.faults.hold(direction, true);
        while direction == TransferDirection::ToDisk && writer.try_write(&[1; PAGE]).is_ok() {}
        while direction == TransferDirection::FromDisk && reader.try_read(&mut [0; PAGE]).is_ok() {}
        until("transfers are under way", || made.faults.held() > 0);
        let core = Arc::downgrade(&made.pool.owner.core);
        drop((writer, reader, made));
        until("its thread ends", || core.strong_count() == 0);
    }
}

/// The thread that drains the ring had left the ring's own descriptor readable. Who polled was told all
/// the time, while a block was read back, that there was something.
#[test]
fn a_polled_elastic_reader_is_quiet_while_a_block_is_read_back() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let made = make(options(16, 64));
    let ring = crate::Options::new().capacity_bytes(16 * PAGE as u64);
    let (mut writer, reader) = crate::pipe(&ring).expect("a pipe");
    let mut reader = reader.elastic(&made.pool).expect("elastic");
    let descriptor = reader.poll_descriptor().expect("one").try_clone_to_owned().expect("a copy");
    made.faults.hold(TransferDirection::FromDisk, true);
    let (mut put, mut taken, mut idle) = (0, 0, 0);
    let mut buffer = vec![0; PAGE];
    // Memory, file and ring are full in the end, and what comes next is being read back.
    until("nothing goes on", || {
        let wrote = writer.try_write(&data(put, PAGE)).unwrap_or_default();
        let is_full = wrote == 0 && made.pool.account().file_bytes == 64 * PAGE as u64;
        let read = if is_full { reader.try_read(&mut buffer).unwrap_or_default() } else { 0 };
        assert!(buffer[..read] == data(taken, read));
        (put, taken) = (put + wrote, taken + read);
        idle = if is_full && read == 0 { idle + 1 } else { 0 };
        idle > 100
    });
    assert!(made.faults.held() > 0 && reader.backlog_bytes() > 0);
    let is_readable = |seconds| {
        let mut asked = [PollFd::new(&descriptor, PollFlags::IN)];
        poll(&mut asked, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).expect("polled") > 0
    };
    until("it is quiet", || reader.try_read(&mut buffer).is_err() && !is_readable(0));
    made.faults.hold(TransferDirection::FromDisk, false);
    assert!(is_readable(30), "it was read back");
    let mut read = 0;
    until("it is there", || {
        read = reader.try_read(&mut buffer).unwrap_or_default();
        read > 0
    });
    assert!(buffer[..read] == data(taken, read));
}
