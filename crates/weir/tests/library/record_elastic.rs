//! Elastic record pipes: a writer continues while its reader rests, and nothing is lost
//! (docs/contracts/pool.md).

use crate::common;
use crate::common::{Random, hear_and_kill, receive_handle, say, start, until};
use std::os::fd::AsFd;
use std::time::Duration;
use weir::{
    ElasticRecordReader, ErrorKind, Handle, Options, Pool, PoolOptions, RecordReader, RecordWriter,
    Timeout, Wait, Waiting, records,
};

const PATIENCE: Duration = Duration::from_secs(30);

fn pool() -> Pool {
    let options = PoolOptions::new().memory_bytes(256 << 10).frame_bytes(16 << 10);
    Pool::new(&options.cluster_bytes(64 << 10)).expect("a pool")
}

fn small() -> Options {
    Options::new().capacity_bytes(16 << 10)
}

fn pair(pool: &Pool) -> (RecordWriter, ElasticRecordReader) {
    let (writer, reader) = records(&small()).expect("a pipe");
    (writer, reader.elastic(pool).expect("elastic"))
}

/// The record of a number; some are empty, some in the arena, some almost as long as a frame.
fn body(number: u64) -> Vec<u8> {
    let bytes = match number % 50 {
        0 => 0,
        1 => 15_000,
        rest if rest % 11 == 0 => 3000,
        rest => rest as usize * 19 % 900,
    };
    (0..bytes).map(|at| (number as usize * 31 + at) as u8).collect()
}

/// Receives all that is left, and checks it from a number on. Returns the next number.
fn receive_all(reader: &mut ElasticRecordReader, mut number: u64) -> u64 {
    let mut buffer = vec![0; 16 << 10];
    while let Some(bytes) = reader.receive_timeout(&mut buffer, PATIENCE).expect("received") {
        assert!(buffer[..bytes] == body(number), "record {number}");
        number += 1;
    }
    number
}

#[test]
fn in_a_role() {
    if common::role().is_none() {
        return;
    }
    let input = std::io::stdin();
    let mut writer = RecordWriter::open(receive_handle()).expect("opened");
    for number in 0_u64.. {
        writer.send(&body(number)).expect("sent");
        say(&input, &number.to_le_bytes());
    }
}

/// The thread that drains looks for a writer that sleeps. One that only spins never did, and waited for
/// ever where nobody received.
#[test]
fn a_writer_that_spins_continues_while_its_reader_rests() {
    let (mut writer, reader) = records(&small().waiting(Waiting::Spin)).expect("a pipe");
    let mut reader = reader.elastic(&pool()).expect("elastic");
    for number in 0..100 {
        writer.send_timeout(&body(number), PATIENCE).expect("the ring is drained");
    }
    drop(writer);
    assert_eq!(receive_all(&mut reader, 0), 100);
}

#[test]
fn a_writer_continues_while_its_reader_rests() {
    let pool = pool();
    let (mut writer, mut reader) = pair(&pool);
    (0..3000).for_each(|number| writer.send(&body(number)).expect("sent"));
    drop(writer);
    assert!(reader.backlog_bytes() > 1 << 20);
    let account = reader.account().expect("here");
    assert!(
        account.spilled_bytes > 0 && account.delayed_bytes >= account.spilled_bytes,
        "{account:?}"
    );
    assert!(pool.account().most_memory_bytes <= 256 << 10);
    let error = reader.receive(&mut [0; 1]).map(|_| ());
    // The first is empty, so it fits; the second does not, and stays.
    assert!(error.is_ok());
    let error = reader.receive_timeout(&mut [0; 1], PATIENCE).expect_err("too small");
    assert_eq!((error.kind(), error.needed_bytes()), (ErrorKind::TooSmall, Some(15_000)));
    assert_eq!(receive_all(&mut reader, 1), 3000);
    assert_eq!(reader.backlog_bytes(), 0);
    // A write that was under way when its record was taken has its frame until it is done.
    until("all memory is back", || pool.account().memory_bytes == 0);
    assert_eq!(reader.account().expect("here").records, 3000);
}

/// A ring gets a new backlog each time that it is full. The account had the figures of the last one
/// only, so they fell.
#[test]
fn the_account_counts_all_backlogs() {
    let pool = pool();
    let (mut writer, mut reader) = pair(&pool);
    let mut buffer = vec![0; 16 << 10];
    let mut pass = |records: u64| {
        (0..records).for_each(|number| writer.send(&body(number)).expect("sent"));
        for number in 0..records {
            let bytes = reader.receive_timeout(&mut buffer, PATIENCE).expect("received");
            assert!(buffer[..bytes.expect("there is a writer")] == body(number));
        }
        assert_eq!(reader.backlog_bytes(), 0);
        reader.account().expect("here")
    };
    let first = pass(3000);
    // Little enough for the pool's memory.
    let second = pass(200);
    assert!(first.spilled_bytes > 0, "{first:?}");
    assert!(second.spilled_bytes >= first.spilled_bytes, "{first:?}, then {second:?}");
    assert!(second.read_back_bytes >= first.read_back_bytes, "{first:?}, then {second:?}");
}

#[test]
fn nothing_is_moved_while_the_reader_keeps_up() {
    let pool = pool();
    let (mut writer, mut reader) = pair(&pool);
    for number in 0..2000_u64 {
        writer.send(&number.to_le_bytes()).expect("sent");
        let mut buffer = [0; 8];
        assert_eq!(reader.receive_timeout(&mut buffer, PATIENCE).expect("one"), Some(8));
        assert_eq!(buffer, number.to_le_bytes());
    }
    assert_eq!(pool.account().put_bytes, 0);
}

#[test]
fn what_a_killed_writer_sent_is_received() {
    let mut random = Random(5);
    for round in 0..8 {
        let (writer, reader) = Handle::record_pair(&small()).expect("a pair");
        let reader = RecordReader::open(reader).expect("a reader");
        let mut reader = reader.elastic(&pool()).expect("elastic");
        let (mut child, socket) = start("writer");
        writer.send(socket.as_fd()).expect("sent");
        let said = hear_and_kill(&mut child, &socket, 1 + random.below(400));
        let came = receive_all(&mut reader, 0);
        assert!(came > said, "round {round}: {said} was sent, {came} came");
    }
}

/// A reader that rests now and then, in calls that wait and by waiting for several things.
#[test]
fn order_is_kept_and_it_can_be_waited_for() {
    let (mut writer, reader) = pair(&pool());
    let sending = std::thread::spawn(move || {
        (0..6000).for_each(|number| writer.send(&body(number)).expect("sent"));
    });
    let (mut wait, mut ready) = (Wait::new(), Vec::new());
    let key = wait.add(9, reader).expect("few");
    let (mut number, mut random, mut buffer) = (0, Random(4), vec![0; 16 << 10]);
    'all: loop {
        wait.wait_timeout(&mut ready, PATIENCE).expect("ready");
        assert_eq!(ready, [9]);
        for _ in 0..1 + random.below(300) {
            match wait[key].receive_timeout(&mut buffer, Timeout::Now) {
                Ok(None) => break 'all,
                Ok(Some(bytes)) => {
                    assert!(buffer[..bytes] == body(number), "record {number}");
                    number += 1;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        if random.below(4) == 0 {
            // sleep: the reader rests, so that the ring gets full.
            std::thread::sleep(Duration::from_millis(3));
        }
    }
    assert_eq!(number, 6000);
    sending.join().expect("no panic");
}

/// What is seen from outside stayed as it was when the writer last waited, though the reader had blocks
/// read back since.
#[test]
fn the_account_is_right_from_outside_while_the_reader_rests() {
    let pool = pool();
    let (mut writer, mut reader) = pair(&pool);
    (0..3000).for_each(|number| writer.send(&body(number)).expect("sent"));
    let mut buffer = vec![0; 16 << 10];
    for number in 0..1500 {
        let bytes = reader.receive_timeout(&mut buffer, PATIENCE).expect("received");
        assert!(buffer[..bytes.expect("there is a writer")] == body(number));
    }
    assert!(pool.account().read_back_bytes > 0 && reader.backlog_bytes() > 0);
    let memory = writer.memory_descriptor().expect("here").try_clone_to_owned().expect("copied");
    until("it is seen from outside", || {
        let seen = weir::stat::read(&memory).expect("a pipe").reader.account;
        seen.read_back_bytes == pool.account().read_back_bytes
    });
}
