//! Elastic pipes: a writer goes on though its reader rests, and nothing is lost.

mod common;

use std::time::Duration;
use weir::{ErrorKind, Options, Pool, PoolOptions, Wait, pipe};

const PATIENCE: Duration = Duration::from_secs(20);

fn pool(memory_bytes: u64) -> Pool {
    Pool::new(&PoolOptions::new().memory_bytes(memory_bytes)).expect("pool")
}

fn small() -> Options {
    Options::new().capacity_bytes(64 << 10)
}

/// Bytes that are different everywhere.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn read_all(reader: &mut weir::ElasticReader) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
    loop {
        match reader.read_for(&mut buffer, PATIENCE).expect("read") {
            0 => return all,
            n => all.extend_from_slice(&buffer[..n]),
        }
    }
}

#[test]
fn a_writer_goes_on_while_its_reader_rests() {
    for bytes in [0, 1, 65_536, 65_537, 1 << 20, 20 << 20] {
        let (mut writer, reader) = pipe(&small()).expect("pipe");
        let mut reader = reader.elastic(&pool(1 << 20)).expect("elastic");
        let data = pattern(bytes);
        // Nobody reads: all of it has to go to the backlog.
        assert_eq!(writer.write(&data).expect("written"), bytes);
        drop(writer);
        assert!(read_all(&mut reader) == data, "{bytes} bytes came otherwise");
    }
}

#[test]
fn nothing_is_moved_while_the_reader_keeps_up() {
    let pool = pool(1 << 20);
    let (mut writer, reader) = pipe(&small()).expect("pipe");
    let mut reader = reader.elastic(&pool).expect("elastic");
    let mut buffer = vec![0; 16 << 10];
    for _ in 0..1000 {
        writer.write(&[3; 16 << 10]).expect("written");
        let mut done = 0;
        while done < buffer.len() {
            done += reader.read_for(&mut buffer[done..], PATIENCE).expect("read");
        }
    }
    assert_eq!(pool.account().put_bytes, 0);
}

#[test]
fn the_account_says_what_was_spilled() {
    let (mut writer, reader) = pipe(&small()).expect("pipe");
    let mut reader = reader.elastic(&pool(1 << 20)).expect("elastic");
    let data = pattern(8 << 20);
    writer.write(&data).expect("written");
    drop(writer);
    assert!(read_all(&mut reader) == data);
    let account = reader.account().expect("account");
    assert!(account.spilled_bytes > 5 << 20, "{account:?}");
    assert!(account.read_back_bytes > 5 << 20, "{account:?}");
    assert_eq!(account.delayed_bytes, account.cancelled_bytes + account.spilled_bytes);
    assert_eq!(account.bytes, 8 << 20);
}

#[test]
fn it_is_waited_for_and_polled() {
    let (mut writer, reader) = pipe(&small()).expect("pipe");
    let mut reader = reader.elastic(&pool(1 << 20)).expect("elastic");
    let nothing = Wait::new().elastic_reader(&mut reader).expect("added");
    let mut nothing = nothing;
    let none = nothing.wait(Some(Duration::from_millis(30))).expect_err("nothing is there");
    assert_eq!(none.kind(), ErrorKind::TimedOut);
    drop(nothing);
    let data = pattern(3 << 20);
    let sent = data.clone();
    let thread = std::thread::spawn(move || writer.write(&sent).map(drop));
    let (mut all, mut buffer) = (Vec::new(), vec![0; 50_000]);
    loop {
        match reader.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut wait = Wait::new().elastic_reader(&mut reader).expect("added");
                wait.wait(Some(PATIENCE)).expect("something comes");
            }
            Err(error) => panic!("{error}"),
        }
    }
    thread.join().expect("thread").expect("written");
    assert!(all == data);
}

#[test]
fn the_writer_learns_that_the_reader_has_gone() {
    let (mut writer, reader) = pipe(&small()).expect("pipe");
    let reader = reader.elastic(&pool(1 << 20)).expect("elastic");
    writer.write(&pattern(300_000)).expect("written");
    drop(reader);
    let error = writer.write(&pattern(300_000)).expect_err("nobody reads");
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[test]
fn a_pipe_that_is_resized_stays_elastic() {
    let (mut writer, reader) = pipe(&small()).expect("pipe");
    let mut reader = reader.elastic(&pool(1 << 20)).expect("elastic");
    let data = pattern(4 << 20);
    writer.write(&data[..1 << 20]).expect("written");
    writer.resize(256 << 10).expect("resized");
    writer.write(&data[1 << 20..2 << 20]).expect("written");
    let mut buffer = vec![0; 700_000];
    let mut all = Vec::new();
    let n = reader.read_for(&mut buffer, PATIENCE).expect("read");
    all.extend_from_slice(&buffer[..n]);
    writer.write(&data[2 << 20..]).expect("written");
    drop(writer);
    all.extend(read_all(&mut reader));
    assert!(all == data);
}
