//! The ends of a backlog: how they wait, what they learn about each other, and what they leave.

use crate::common::until;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::time::Duration;
use weir::{ErrorKind, Options, Pollable, Pool, PoolOptions, Wait, pipe};

const PATIENCE: Duration = Duration::from_secs(30);
const PAGE: usize = 4096;

fn options(frames: usize) -> PoolOptions {
    let page = PAGE as u64;
    PoolOptions::new().frame_bytes(page).cluster_bytes(page).memory_bytes(page * frames as u64)
}

/// A pool of pages, and the directory of its file.
fn small(frames: usize) -> (Pool, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("directory");
    let pool = Pool::new(&options(frames).spill_directory(directory.path())).expect("pool");
    (pool, directory)
}

fn in_memory(frames: usize) -> Pool {
    Pool::new(&options(frames).no_spill()).expect("pool")
}

fn is_ready(descriptor: BorrowedFd, patience_s: i64) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: patience_s, tv_nsec: 0 })) == Ok(1)
}

fn all_is_given_back(pool: &Pool) {
    until("all is given back", || {
        let account = pool.account();
        account.memory_bytes == 0 && account.file_bytes == 0
    });
}

#[test]
fn a_reader_can_be_polled() {
    let (pool, _directory) = small(8);
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let mut buffer = [0; 100];
    assert!(is_ready(reader.poll_descriptor().expect("one"), 0), "until it was looked");
    for byte in 0..100 {
        assert_eq!(reader.try_read(&mut buffer).expect_err("empty").kind(), ErrorKind::WouldBlock);
        assert!(!is_ready(reader.poll_descriptor().expect("one"), 0), "there is nothing");
        writer.write(&[byte; 70]).expect("put");
        assert!(is_ready(reader.poll_descriptor().expect("one"), 0), "there is something");
        assert_eq!(reader.try_read(&mut buffer).expect("taken"), 70);
        assert_eq!(buffer[..70], [byte; 70]);
    }
    assert_eq!(reader.try_read(&mut buffer).expect_err("empty").kind(), ErrorKind::WouldBlock);
    drop(writer);
    assert!(is_ready(reader.poll_descriptor().expect("one"), 0), "the end");
    assert_eq!(reader.try_read(&mut buffer).expect("the end"), 0);
}

#[test]
fn a_reader_that_is_polled_gets_what_was_spilled() {
    let (pool, _directory) = small(8);
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let data: Vec<u8> = (0..200 * PAGE).map(|at| (at / 77) as u8).collect();
    assert_eq!(writer.write_timeout(&data, PATIENCE).expect("put"), data.len());
    drop(writer);
    let (mut came, mut buffer) = (Vec::new(), [0; 10_000]);
    loop {
        match reader.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => came.extend_from_slice(&buffer[..n]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                assert!(is_ready(reader.poll_descriptor().expect("one"), 30), "it is read back");
            }
        }
    }
    assert!(came == data);
}

#[test]
fn a_writer_can_be_polled() {
    let pool = in_memory(8);
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    assert!(is_ready(writer.poll_descriptor().expect("one"), 0), "until it was looked");
    let data = vec![5; 8 * PAGE];
    for _ in 0..100 {
        assert_eq!(writer.try_write(&data).expect("put"), 8 * PAGE);
        assert_eq!(writer.try_write(b"x").expect_err("full").kind(), ErrorKind::WouldBlock);
        assert!(!is_ready(writer.poll_descriptor().expect("one"), 0), "it is full");
        let mut buffer = vec![0; 8 * PAGE];
        assert_eq!(reader.try_read(&mut buffer[..PAGE - 1]).expect("taken"), PAGE - 1);
        assert!(!is_ready(writer.poll_descriptor().expect("one"), 0), "no frame is free");
        assert_eq!(reader.try_read(&mut buffer).expect("taken"), 7 * PAGE + 1);
        assert!(is_ready(writer.poll_descriptor().expect("one"), 0), "there is room");
    }
    let _ = writer.try_write(&data);
    assert_eq!(writer.try_write(b"x").expect_err("full").kind(), ErrorKind::WouldBlock);
    drop(reader);
    assert!(is_ready(writer.poll_descriptor().expect("one"), 0), "nobody reads");
    assert_eq!(writer.try_write(b"x").expect_err("nobody").kind(), ErrorKind::Closed);
}

#[test]
fn a_writer_that_waits_learns_that_its_reader_has_gone() {
    for _ in 0..50 {
        let pool = in_memory(4);
        let (mut writer, reader) = pool.backlog().expect("backlog");
        let waiting = std::thread::spawn(move || {
            let error = writer.write(&[1; 100 * PAGE]).expect_err("nobody reads");
            (writer, error)
        });
        until("it is full", || pool.account().put_bytes == 4 * PAGE as u64);
        drop(reader);
        let (mut writer, error) = waiting.join().expect("no panic");
        assert_eq!((error.kind(), error.written_bytes()), (ErrorKind::Closed, Some(4 * PAGE)));
        assert_eq!(error.to_string(), "cannot write to the backlog: its reader has gone");
        assert_eq!(writer.try_write(b"x").expect_err("still").kind(), ErrorKind::Closed);
        all_is_given_back(&pool);
    }
}

#[test]
fn a_reader_that_waits_learns_that_its_writer_has_gone() {
    for round in 0..200_usize {
        let (pool, _directory) = small(4);
        let (mut writer, mut reader) = pool.backlog().expect("backlog");
        let waiting = std::thread::spawn(move || {
            let (mut sum, mut buffer) = (0, [0; 3000]);
            loop {
                match reader.read(&mut buffer).expect("taken") {
                    0 => return sum,
                    n => sum += n,
                }
            }
        });
        writer.write(&vec![1; round * 100]).expect("put");
        drop(writer);
        assert_eq!(waiting.join().expect("no panic"), round * 100);
        all_is_given_back(&pool);
    }
}

#[test]
fn a_reader_that_goes_gives_back_what_was_spilled() {
    let (pool, _directory) = small(16);
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    // Puts up to the middle of a block, which the writer keeps.
    let bytes = 100 * PAGE + 100;
    assert_eq!(writer.write_timeout(&vec![1; bytes], PATIENCE).expect("put"), bytes);
    assert_eq!(reader.read_timeout(&mut [0; 50], PATIENCE).expect("taken"), 50);
    drop(reader);
    // All but that block is freed at once, not only when the writer is used.
    until("it is given back", || {
        let account = pool.account();
        (account.memory_bytes, account.file_bytes) == (PAGE as u64, 0)
    });
    assert_eq!(writer.write(&[2; 10]).expect_err("nobody").kind(), ErrorKind::Closed);
    all_is_given_back(&pool);
    // The next stream may have the same number.
    let (mut second, mut reader) = pool.backlog().expect("backlog");
    second.write(b"second").expect("put");
    assert_eq!(writer.write(b"first").expect_err("nobody").kind(), ErrorKind::Closed);
    drop(writer);
    let mut buffer = [0; 100];
    let n = reader.read(&mut buffer).expect("taken");
    assert_eq!(&buffer[..n], b"second");
    assert_eq!(reader.try_read(&mut buffer).expect_err("more").kind(), ErrorKind::WouldBlock);
}

/// A writer's granted frame was not freed until its reader was dropped, too.
#[test]
fn a_writer_that_goes_takes_no_frame_with_it() {
    let pool = in_memory(4);
    let (mut first, mut read_first) = pool.backlog().expect("backlog");
    let (mut second, _read_second) = pool.backlog().expect("backlog");
    first.write(&[1; 4 * PAGE]).expect("put");
    assert_eq!(second.try_write(b"x").expect_err("full").kind(), ErrorKind::WouldBlock);
    assert_eq!(read_first.read(&mut [0; PAGE]).expect("taken"), PAGE);
    // The writer asked for a frame and got it. It is dropped without using it.
    drop(second);
    assert_eq!(first.try_write(&[2; PAGE]).expect("it is free again"), PAGE);
    // A writer that reserved room and put nothing there keeps no frame either.
    assert_eq!(read_first.read(&mut [0; PAGE]).expect("taken"), PAGE);
    let (mut third, mut read_third) = pool.backlog().expect("backlog");
    assert_eq!(third.reserve().expect("room").len(), PAGE);
    drop(third);
    assert_eq!(first.try_write(&[2; PAGE]).expect("it is free again"), PAGE);
    assert_eq!(read_third.peek().expect("the end"), b"");
}

#[test]
fn ends_that_go_in_any_order_leave_nothing() {
    let (pool, _directory) = small(16);
    for round in 0..200_usize {
        let (mut writer, mut reader) = pool.backlog().expect("backlog");
        let put = writer.write_timeout(&vec![1; round * 1000], PATIENCE).expect("put");
        assert_eq!(put, round * 1000);
        if put > 0 {
            reader.read_timeout(&mut vec![0; round * 500], PATIENCE).expect("taken");
        }
        match round % 4 {
            0 => drop((writer, reader)),
            1 => drop((reader, writer)),
            2 => {
                // Both at once.
                let other = std::thread::spawn(move || drop(writer));
                drop(reader);
                other.join().expect("no panic");
            }
            _ => {
                let _ = reader.peek();
                drop(reader);
                let _ = writer.reserve();
            }
        }
    }
    all_is_given_back(&pool);
    let account = pool.account();
    assert_eq!(account.delayed_bytes, account.cancelled_bytes + account.spilled_bytes);
}

#[test]
fn a_pool_lives_as_long_as_its_clones_and_ends() {
    let (pool, directory) = small(8);
    let clone = pool.clone();
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    drop(pool);
    let (mut other, other_reader) = clone.backlog().expect("backlog");
    assert_eq!(other.write_timeout(&[1; 30 * PAGE], PATIENCE).expect("put"), 30 * PAGE);
    assert!(clone.account().put_bytes == 30 * PAGE as u64);
    drop((clone, other, other_reader));
    assert_eq!(writer.write_timeout(&[2; 30 * PAGE], PATIENCE).expect("put"), 30 * PAGE);
    drop(writer);
    let (mut sum, mut buffer) = (0, [0; 5000]);
    while let n @ 1.. = reader.read_timeout(&mut buffer, PATIENCE).expect("taken") {
        assert!(buffer[..n].iter().all(|byte| *byte == 2));
        sum += n;
    }
    assert_eq!(sum, 30 * PAGE);
    assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0);
}

#[test]
fn a_forked_child_has_no_part_in_the_pool() {
    let (pool, _directory) = small(16);
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let data: Vec<u8> = (0..60 * PAGE + 100).map(|at| (at / 33) as u8).collect();
    assert_eq!(writer.write_timeout(&data, PATIENCE).expect("put"), data.len());
    // Both ends are in the middle of a block.
    let mut came = vec![0; 10];
    assert_eq!(reader.read_timeout(&mut came, PATIENCE).expect("taken"), 10);
    assert!(!reader.peek().expect("looked at").is_empty());
    let mut parts = Some((pool, writer, reader));
    let body = || {
        let (pool, mut writer, mut reader) = parts.take().expect("copied");
        writer.commit(PAGE);
        reader.consume(PAGE);
        let errors = [
            pool.backlog().err(),
            writer.try_write(b"child").err(),
            writer.write(b"child").err(),
            writer.poll_descriptor().err(),
            reader.try_read(&mut [0; 10]).err(),
            reader.read(&mut [0; 10]).err(),
            reader.peek().err(),
            reader.poll_descriptor().err(),
        ];
        let forked = |error: &weir::Error| error.kind() == ErrorKind::Forked;
        let all = errors.iter().all(|error| error.as_ref().is_some_and(forked));
        let nothing = pool.account().memory_bytes == 0 && pool.trouble().is_none();
        drop((writer, pool, reader));
        u8::from(!(all && nothing))
    };
    // SAFETY: other threads of the test hold no lock that the body needs.
    let child = unsafe { weir_measure::sys::fork::copy(body) };
    assert!(child.expect("forked").succeeded().expect("reaped"), "all of it is the parent's");
    let (pool, mut writer, mut reader) = parts.expect("here");
    writer.write_timeout(b"and on", PATIENCE).expect("put");
    drop(writer);
    let mut buffer = [0; 9_999];
    while let n @ 1.. = reader.read_timeout(&mut buffer, PATIENCE).expect("taken") {
        came.extend_from_slice(&buffer[..n]);
    }
    assert!(came[..data.len()] == data && &came[data.len()..] == b"and on");
    all_is_given_back(&pool);
}

/// A wait over ends of backlogs beside an end of a pipe: bytes, room, and the other end's death.
#[test]
fn one_wait_knows_the_ends_of_backlogs() {
    let pool = in_memory(8);
    let (mut writer, reader) = pool.backlog().expect("backlog");
    let (mut other, other_reader) = pipe(&Options::new()).expect("pipe");
    let mut wait = Wait::new();
    let key = wait.add("backlog", reader).expect("added");
    wait.add("pipe", other_reader).expect("added");
    let mut ready = Vec::new();
    let nothing = wait.wait_timeout(&mut ready, Duration::ZERO).expect_err("nothing");
    assert!(matches!(nothing.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
    for round in 0..100 {
        // Sometimes the bytes come before the wait sleeps, and sometimes after.
        let writing = std::thread::spawn(move || {
            writer.write(&[round; 70]).expect("written");
            writer
        });
        let (mut buffer, mut done) = ([0; 70], 0);
        // At the end of a frame the bytes come in two parts.
        while done < buffer.len() {
            wait.wait_timeout(&mut ready, PATIENCE).expect("woken");
            assert_eq!(ready, ["backlog"]);
            done += wait[key].try_read(&mut buffer[done..]).expect("taken");
        }
        assert_eq!(buffer, [round; 70]);
        writer = writing.join().expect("no panic");
    }
    other.write(b"x").expect("written");
    wait.wait_timeout(&mut ready, PATIENCE).expect("woken");
    assert_eq!(ready, ["pipe"]);
    wait.remove(key).expect("the wait owned it");
    let closed = writer.try_write(b"x").expect_err("the reader is gone");
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

#[test]
fn a_wait_for_room_in_a_backlog_ends_when_bytes_are_read() {
    let pool = in_memory(8);
    let (writer, mut reader) = pool.backlog().expect("backlog");
    let mut wait = Wait::new();
    let key = wait.add((), writer).expect("added");
    let mut ready = Vec::new();
    let mut bytes = [0; 16 * PAGE];
    for _ in 0..50 {
        while wait[key].try_write(&bytes).is_ok() {}
        let nothing = wait.wait_timeout(&mut ready, Duration::ZERO).expect_err("full");
        assert!(matches!(nothing.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        let reading = std::thread::spawn(move || {
            while reader.try_read(&mut [0; PAGE]).is_ok() {}
            reader
        });
        wait.wait_timeout(&mut ready, PATIENCE).expect("there is room");
        reader = reading.join().expect("no panic");
        bytes[0] += 1;
    }
    while wait[key].try_write(&bytes).is_ok() {}
    drop(reader);
    wait.wait_timeout(&mut ready, PATIENCE).expect("the reader is gone");
    let closed = wait[key].try_write(&bytes).expect_err("the reader is gone");
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

#[test]
fn ends_of_backlogs_lend_their_descriptors() {
    let pool = in_memory(8);
    let (writer, reader) = pool.backlog().expect("backlog");
    let mut writer = Pollable::new(writer).expect("a descriptor");
    let mut reader = Pollable::new(reader).expect("a descriptor");
    let is_readable = |end: &dyn std::os::fd::AsFd| is_ready(end.as_fd(), 0);
    let nothing = reader.get_mut().try_read(&mut [0; 8]).expect_err("nothing");
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    assert!(!is_readable(&reader));
    while writer.get_mut().try_write(&[0; PAGE]).is_ok() {}
    assert!(is_readable(&reader) && !is_readable(&writer));
    while reader.get_mut().try_read(&mut [0; PAGE]).is_ok() {}
    assert!(is_readable(&writer) && !is_readable(&reader));
    drop(writer.into_inner());
    assert!(is_readable(&reader), "the end");
}
