//! The times at which the pool acts, by a clock that is set by hand, or without one.

use super::*;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn writing_is_tried_again_later_and_later_up_to_a_second() {
    let now_ns = Arc::new(AtomicU64::new(0));
    let mut options = options(16, 4096);
    options.clock = PoolClock::Set(now_ns.clone());
    let made = make(options);
    let core = made.pool.core();
    made.faults.fail_all(TransferDirection::ToDisk, Some(Errno::NOSPC));
    let (mut writer, _reader) = made.pool.backlog().expect("backlog");
    let (_, error) = put_until_told(&mut writer, 0);
    assert_eq!(cause(&error), Some(Errno::NOSPC.raw_os_error()));
    let mut waits_ms = Vec::new();
    for _ in 0..12 {
        rest(&made.pool);
        let started = made.faults.started(TransferDirection::ToDisk);
        let deadline_ns = core.lock().policy.deadline_ns().expect("it is tried again");
        // Relaxed: a number; the thread is woken after it.
        let before_ns = now_ns.load(Ordering::Relaxed);
        waits_ms.push((deadline_ns - before_ns) / 1_000_000);
        now_ns.store(deadline_ns - 1, Ordering::Relaxed);
        core.kick();
        assert_eq!(made.faults.started(TransferDirection::ToDisk), started, "not before its time");
        now_ns.store(deadline_ns, Ordering::Relaxed);
        core.kick();
        until("it is tried again", || {
            made.faults.started(TransferDirection::ToDisk) == started + 1
        });
    }
    let doubled = waits_ms.windows(2).all(|pair| pair[1] >= pair[0]);
    assert!(doubled && waits_ms[0] <= 20, "{waits_ms:?}");
    assert_eq!(waits_ms.last(), Some(&1000), "{waits_ms:?}");
}

/// With pauses as long as the disk takes, the reader never waits, and no byte is read twice from
/// the file.
#[test]
fn what_was_spilled_is_read_ahead() {
    for frames in [16, 64, 256] {
        let made = make(options(frames, 8192));
        let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
        let blocks = 4 * frames;
        let bytes = blocks * PAGE;
        assert_eq!(writer.write_timeout(&data(0, bytes), PATIENCE).expect("put"), bytes);
        drop(writer);
        let mut buffer = vec![0; PAGE];
        let mut ahead = 0;
        for block in 0..blocks {
            rest(&made.pool);
            assert_eq!(reader.try_read(&mut buffer).expect("it is there"), PAGE, "{block}");
            assert!(buffer == data(block * PAGE, PAGE));
            let account = made.pool.account();
            ahead = ahead.max(account.read_back_bytes);
            assert!(account.most_memory_bytes <= (frames * PAGE) as u64);
        }
        assert_eq!(reader.read(&mut buffer).expect("the end"), 0);
        all_is_given_back(&made.pool);
        let account = made.pool.account();
        assert!(ahead > bytes as u64 / 2 && ahead <= account.spilled_bytes, "{account:?}");
    }
}

/// The disk's thread once spun after a write had failed and frames had become free since.
#[test]
fn a_pool_in_trouble_sleeps_while_no_frame_is_short() {
    let made = make(options(16, 4096));
    made.faults.fail_all(TransferDirection::ToDisk, Some(Errno::NOSPC));
    let (mut writer, mut reader) = made.pool.backlog().expect("backlog");
    put_until_told(&mut writer, 0);
    for taken in 0..8 {
        take(&mut reader, taken * PAGE, PAGE);
        rest(&made.pool);
        let mut state = made.pool.core().lock();
        let short = state.policy.deadline_ns().is_some();
        made.pool.core().on(&mut state, weir_policy::pool::PoolEvent::Tick);
        let due = made.pool.core().deadline(&state);
        let soon = due.is_some_and(|due| due < Duration::from_micros(1));
        assert!(!soon, "after {taken} blocks, {short}");
    }
}

/// A reader had asked for a block that was in the file, and did not come back for it. It kept the
/// last frame, so that the readers of other backlogs waited for ever.
#[test]
fn a_reader_that_does_not_come_holds_up_nobody() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = options(4, 6).rule(weir_policy::pool::Rule::OldestFirst);
    // The real engine, whose thread sleeps until it is woken.
    let pool = Pool::new(&options.spill_directory(directory.path())).expect("a pool");
    let mut ends: Vec<_> = (0..3).map(|_| pool.backlog().expect("backlog")).collect();
    let mut put = [0; 3];
    for stream in [2].into_iter().chain([0, 1].into_iter().cycle().take(20)) {
        put[stream] += ends[stream].0.try_write(&data(put[stream], PAGE)).unwrap_or(0);
        rest(&pool);
    }
    let gone = ends[0].1.try_read(&mut [0; PAGE]).expect_err("it is in the file");
    assert_eq!(gone.kind(), ErrorKind::WouldBlock);
    rest(&pool);
    assert_eq!(pool.account().memory_bytes, 4 * PAGE as u64, "no frame is left for the other");
    take(&mut ends[1].1, 0, put[1]);
    // When the first comes at last, it is served as well.
    take(&mut ends[0].1, 0, put[0]);
    assert!(put[0] > PAGE && put[1] > PAGE, "{put:?}");
}
