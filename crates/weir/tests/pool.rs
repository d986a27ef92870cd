//! The pool: what goes in comes out, what is read in time is never written.

use std::time::Duration;
use weir::{ErrorKind, Pool, PoolOptions};

mod common;

/// Bytes that are different everywhere.
fn pattern(from: u64, buffer: &mut [u8]) {
    for (at, byte) in buffer.iter_mut().enumerate() {
        let place = from + at as u64;
        *byte = (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
    }
}

#[test]
fn bytes_come_out_as_they_went_in() {
    let directory = tempfile::tempdir().expect("directory");
    for bytes in [0_usize, 1, 4095, 65_536, 65_537, 1 << 20, 20 << 20] {
        let options = PoolOptions::new().memory_bytes(1 << 20).spill_directory(directory.path());
        let pool = Pool::new(&options).expect("pool");
        let (mut writer, mut reader) = pool.backlog().expect("backlog");
        let mut data = vec![0; bytes];
        pattern(0, &mut data);
        assert_eq!(writer.put(&data).expect("put"), bytes);
        drop(writer);
        let mut came = vec![0; bytes + 1];
        let mut done = 0;
        loop {
            match reader.take_for(&mut came[done..], Duration::from_secs(20)).expect("take") {
                0 => break,
                n => done += n,
            }
        }
        assert_eq!(done, bytes);
        assert!(came[..bytes] == data, "{bytes} bytes came out otherwise");
        let account = pool.account();
        println!("{bytes}: {account:?} {}", pool.engine());
        assert_eq!((account.memory_bytes, account.file_bytes), (0, 0));
        assert!(account.most_memory_bytes <= 1 << 20);
        assert_eq!(account.delayed_bytes, account.cancelled_bytes + account.spilled_bytes);
    }
}

#[test]
fn a_reader_that_keeps_up_writes_nothing() {
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).expect("pool");
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let mut buffer = vec![0; 100_000];
    for _ in 0..500 {
        writer.put(&[7; 100_000]).expect("put");
        let mut done = 0;
        while done < buffer.len() {
            done += reader.take(&mut buffer[done..]).expect("take");
        }
    }
    assert_eq!(pool.account().delayed_bytes, 0);
    assert_eq!(reader.try_take(&mut buffer).expect_err("empty").kind(), ErrorKind::WouldBlock);
}
