//! Tests of the pool's driver with a disk that fails when it is told to.

mod faults;
mod loads;
mod model;
mod times;

use super::core::PoolClock;
use super::*;
use crate::memory::Faults;
use std::time::{Duration, Instant};
use weir_sys::spill::TransferDirection;

const PATIENCE: Duration = Duration::from_secs(30);
const PAGE: usize = 4096;

/// A pool, the script of its disk, and the directory it spills to.
struct Made {
    pool: Pool,
    faults: Faults,
    _directory: tempfile::TempDir,
}

/// Frames of a page.
fn options(frames: usize, slots: usize) -> PoolOptions {
    PoolOptions::new()
        .frame_bytes(PAGE as u64)
        .cluster_bytes(4 * PAGE as u64)
        .memory_bytes((frames * PAGE) as u64)
        .limit_bytes((slots * PAGE) as u64)
}

fn make(options: PoolOptions) -> Made {
    let directory = tempfile::tempdir().expect("a directory");
    let options = options.spill_directory(directory.path());
    let (transfers, faults) = FrameTransfers::faulty(directory.path());
    let sizes = options.sizes().expect("sizes");
    let pool = Pool::with(&options, sizes, Some((transfers, directory.path().into())));
    Made { pool: pool.expect("a pool"), faults, _directory: directory }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    let mut looks = 0;
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} in time");
        looks += 1;
        if looks % 32 == 0 {
            // sleep: leaves the CPU to the pool's thread for a moment, between two looks.
            std::thread::sleep(Duration::from_micros(20));
        } else {
            std::thread::yield_now();
        }
    }
}

/// Waits until no transfer is under way.
fn rest(pool: &Pool) {
    until("the disk rests", || pool.core().lock().policy.transfers_under_way() == 0);
}

fn all_is_given_back(pool: &Pool) {
    until("all is given back", || {
        let account = pool.account();
        account.memory_bytes == 0 && account.file_bytes == 0
    });
    let account = pool.account();
    assert_eq!(account.delayed_bytes, account.cancelled_bytes + account.spilled_bytes);
}

fn byte_at(place: usize) -> u8 {
    ((place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

fn data(from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes).map(byte_at).collect()
}

/// Takes this many bytes, however long it waits.
fn take(reader: &mut BacklogReader, from: usize, bytes: usize) {
    let mut buffer = vec![0; bytes];
    let mut done = 0;
    while done < bytes {
        let n = reader.read_timeout(&mut buffer[done..], PATIENCE).expect("taken");
        assert!(n > 0, "it ends {done} bytes after {from}");
        done += n;
    }
    assert!(buffer == data(from, bytes), "otherwise after {from}");
}

/// Puts blocks, and waits for room, until another error: how many bytes, and the error.
fn put_until_told(writer: &mut BacklogWriter, from: usize) -> (usize, Error) {
    let mut at = from;
    loop {
        match writer.write_timeout(&data(at, PAGE), PATIENCE) {
            Ok(n) => at += n,
            Err(error) => return (at + error.written_bytes().unwrap_or_default() - from, error),
        }
    }
}

/// Puts blocks until there is no room and the disk rests.
fn put_until_full(pool: &Pool, writer: &mut BacklogWriter, from: usize) -> usize {
    let mut at = from;
    loop {
        match writer.try_write(&data(at, PAGE)) {
            Ok(n) => at += n,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                rest(pool);
                // A frame may have become free meanwhile.
                let state = pool.core().lock();
                if state.seats.iter().all(|seat| seat.granted.is_none()) {
                    return at - from;
                }
            }
        }
    }
}

fn cause(error: &Error) -> Option<i32> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<std::io::Error>()?.raw_os_error()
}
