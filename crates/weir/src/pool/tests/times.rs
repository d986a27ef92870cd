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
