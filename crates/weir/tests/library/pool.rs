//! The pool: what goes in comes out, what is read in time is never written, and no limit is exceeded.

use crate::common::{Random, until};
use std::time::Duration;
use weir::{BacklogReader, BacklogWriter, ErrorKind, Pool, PoolAccount, PoolOptions};

const PATIENCE: Duration = Duration::from_secs(30);
const PAGE: u64 = 4096;

/// Bytes that are different everywhere.
fn pattern(from: u64, buffer: &mut [u8]) {
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = byte_at(from + at as u64);
    }
}

fn byte_at(place: u64) -> u8 {
    (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

fn is_pattern(from: u64, bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| *byte == byte_at(from + at as u64))
}

/// A pool of frames of a page, and the directory of its file.
fn small(frames: u64, limit: u64) -> (Pool, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("directory");
    let options = PoolOptions::new()
        .frame_bytes(PAGE)
        .cluster_bytes(4 * PAGE)
        .memory_bytes(frames * PAGE)
        .limit_bytes(limit * PAGE)
        .spill_directory(directory.path());
    (Pool::new(&options).expect("pool"), directory)
}

/// Takes everything to the end, in pieces of this size: how many bytes there were.
fn drain(reader: &mut BacklogReader, from: u64, chunk: usize) -> u64 {
    let mut buffer = vec![0; chunk];
    let mut at = from;
    loop {
        match reader.read_timeout(&mut buffer, PATIENCE).expect("take") {
            0 => return at - from,
            n => {
                assert!(is_pattern(at, &buffer[..n]), "otherwise from {at} on");
                at += n as u64;
            }
        }
    }
}

fn fill(writer: &mut BacklogWriter, from: u64, bytes: u64, chunk: usize) {
    let mut buffer = vec![0; chunk];
    let mut at = from;
    while at < from + bytes {
        let step = chunk.min((from + bytes - at) as usize);
        pattern(at, &mut buffer[..step]);
        assert_eq!(writer.write_timeout(&buffer[..step], PATIENCE).expect("put"), step);
        at += step as u64;
    }
}

/// Waits until no transfer is under way.
fn at_rest(pool: &Pool) -> PoolAccount {
    until("all is given back", || {
        let account = pool.account();
        account.memory_bytes == 0 && account.file_bytes == 0
    });
    pool.account()
}

#[test]
fn bytes_come_out_as_they_went_in() {
    let directory = tempfile::tempdir().expect("directory");
    for bytes in [0_u64, 1, 4095, 65_536, 65_537, 1 << 20, 20 << 20] {
        let options = PoolOptions::new().memory_bytes(1 << 20).spill_directory(directory.path());
        let pool = Pool::new(&options).expect("pool");
        let (mut writer, mut reader) = pool.backlog().expect("backlog");
        fill(&mut writer, 0, bytes, 1 << 20);
        drop(writer);
        assert_eq!(drain(&mut reader, 0, 100_000), bytes);
        let account = at_rest(&pool);
        assert!(account.most_memory_bytes <= 1 << 20);
        assert_eq!(account.delayed_bytes, account.cancelled_bytes + account.spilled_bytes);
        if bytes != 1 << 20 {
            assert_eq!(account.spilled_bytes > 0, bytes > 1 << 20, "{account:?}");
        }
    }
}

#[test]
fn bytes_come_out_whatever_pieces_they_are_moved_in() {
    let mut random = Random(7);
    for chunk in [1_usize, 2, 4095, 4096, 4097, 65_536, 1 << 20] {
        let bytes = if chunk < 4 { 200_000 } else { 3 << 20 };
        let (pool, _directory) = small(32, 4096);
        let (mut writer, mut reader) = pool.backlog().expect("backlog");
        let other = [1, 4096, 1 << 20][random.below(3) as usize];
        let writing = std::thread::spawn(move || fill(&mut writer, 0, bytes, chunk));
        assert_eq!(drain(&mut reader, 0, other), bytes, "{chunk} and {other}");
        writing.join().expect("no panic");
        let account = at_rest(&pool);
        assert_eq!((account.put_bytes, account.taken_bytes), (bytes, bytes));
    }
}

#[test]
fn bytes_come_out_as_slices_and_through_std() {
    use std::io::{Read, Write};
    let (pool, _directory) = small(16, 1024);
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let mut data = vec![0; 1 << 20];
    pattern(0, &mut data);
    writer.write_all(&data).expect("written");
    drop(writer);
    let (mut came, mut odd) = (Vec::new(), 1);
    while came.len() < data.len() / 2 {
        // Looks at a piece, and takes less of it.
        match reader.peek() {
            Ok(bytes) => {
                let step = bytes.len().min(odd);
                came.extend_from_slice(&bytes[..step]);
                reader.consume(step);
                odd = odd * 3 % 4099;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                let mut byte = [0];
                assert_eq!(reader.read_timeout(&mut byte, PATIENCE).expect("taken"), 1);
                came.push(byte[0]);
            }
        }
    }
    reader.read_to_end(&mut came).expect("read");
    assert!(came == data);
    assert_eq!(reader.peek().expect("the end"), b"");
    at_rest(&pool);
}

#[test]
fn a_pool_that_is_too_small_is_refused() {
    let refused = |options: PoolOptions| {
        let error = Pool::new(&options).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    let text = refused(PoolOptions::new().memory_bytes(262_143));
    assert!(text.starts_with("cannot set the memory of a pool: 262143 bytes"), "{text}");
    assert!(text.contains("262144"), "the least is named: {text}");
    // A cluster may be more than four frames.
    let clusters = PoolOptions::new().cluster_bytes(1 << 20);
    let text = refused(clusters.clone().memory_bytes(512 << 10));
    assert!(text.contains("1048576"), "{text}");
    Pool::new(&clusters.memory_bytes(1 << 20)).expect("just enough");
    Pool::new(&PoolOptions::new().memory_bytes(262_144)).expect("just enough");
    for frame_bytes in [0, 1, 2048, 5000, 32 << 20, u64::MAX] {
        let text = refused(PoolOptions::new().frame_bytes(frame_bytes));
        assert!(text.contains("4096 to 16777216"), "{text}");
    }
    refused(PoolOptions::new().cluster_bytes(4096));
    refused(PoolOptions::new().cluster_bytes(2 << 20));
    refused(PoolOptions::new().memory_bytes(u64::MAX));
    refused(PoolOptions::new().limit_bytes(u64::MAX));
}

#[test]
fn a_directory_that_cannot_be_spilled_to_is_refused_by_name() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("file");
    std::fs::write(&file, b"").expect("written");
    for place in [directory.path().join("missing"), file] {
        let error = Pool::new(&PoolOptions::new().spill_directory(&place)).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Os);
        let name = place.display().to_string();
        assert!(error.to_string().contains(&name), "{error}");
    }
}

#[test]
fn a_directory_that_is_removed_later_changes_nothing() {
    let (pool, directory) = small(16, 4096);
    directory.close().expect("removed, since it is empty");
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    fill(&mut writer, 0, 1 << 20, 5000);
    drop(writer);
    assert_eq!(drain(&mut reader, 0, 5000), 1 << 20);
    assert!(pool.account().spilled_bytes > 0);
}

/// A backlog that takes nothing for this long is full: its disk is not just slow.
const FULL: Duration = Duration::from_secs(2);

/// Puts bytes until there has been no room for a while: how many.
fn stuff(writer: &mut BacklogWriter, from: u64) -> u64 {
    let mut at = from;
    let mut block = [0; PAGE as usize];
    loop {
        pattern(at, &mut block);
        match writer.write_timeout(&block, FULL) {
            Ok(n) => at += n as u64,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
                assert_eq!(error.to_string(), "cannot write to the backlog: it stayed full");
                return at - from;
            }
        }
    }
}

#[test]
fn the_limit_holds() {
    for limit in [0, 1, 40] {
        let (pool, _directory) = small(16, limit);
        let (mut writer, mut reader) = pool.backlog().expect("backlog");
        let full = stuff(&mut writer, 0);
        // One frame may be kept for readers.
        assert!(full <= (16 + limit) * PAGE && full >= (15 + limit) * PAGE, "{full}");
        assert_eq!(writer.try_write(b"x").expect_err("full").kind(), ErrorKind::WouldBlock);
        let (mut put, mut taken) = (full, 0);
        let mut buffer = vec![0; 3 * PAGE as usize];
        let mut block = [0; PAGE as usize];
        while put < full + 200 * PAGE {
            let n = reader.read_timeout(&mut buffer, PATIENCE).expect("the reader gets on");
            assert!(is_pattern(taken, &buffer[..n]));
            taken += n as u64;
            pattern(put, &mut block);
            while let Ok(n) = writer.try_write(&block) {
                put += n as u64;
                pattern(put, &mut block);
            }
            assert!(put - taken <= (16 + limit) * PAGE);
        }
        drop(writer);
        assert_eq!(drain(&mut reader, taken, 1000), put - taken);
        let account = at_rest(&pool);
        assert!(account.most_file_bytes <= limit * PAGE, "{account:?}");
        assert!(account.most_memory_bytes <= 16 * PAGE, "{account:?}");
    }
}

#[test]
fn what_is_read_in_time_is_never_written() {
    let (pool, _directory) = small(256, 4096);
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let (mut put, mut taken) = (0, 0);
    // Nearly all of the memory, emptied more or less, again and again.
    for round in 0..50 {
        let room = 240 * PAGE - (put - taken);
        fill(&mut writer, put, room, 10_000);
        put += room;
        let mut buffer = vec![0; (round * 31 % 240 + 1) * PAGE as usize];
        let mut done = 0;
        while done < buffer.len() {
            let n = reader.read_timeout(&mut buffer[done..], PATIENCE).expect("take");
            done += n;
        }
        assert!(is_pattern(taken, &buffer));
        taken += done as u64;
    }
    let account = pool.account();
    assert_eq!((account.delayed_bytes, account.most_file_bytes), (0, 0), "{account:?}");
}

#[test]
fn a_reader_that_keeps_up_writes_nothing() {
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).expect("pool");
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let mut buffer = vec![0; 100_000];
    for _ in 0..500 {
        writer.write(&[7; 100_000]).expect("put");
        let mut done = 0;
        while done < buffer.len() {
            done += reader.read(&mut buffer[done..]).expect("take");
        }
    }
    assert_eq!(pool.account().delayed_bytes, 0);
    assert_eq!(reader.try_read(&mut buffer).expect_err("empty").kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_reader_cancels_writes() {
    let (pool, _directory) = small(256, 4096);
    let mut from = 0;
    for _ in 0..20 {
        let before = pool.account();
        let (mut writer, mut reader) = pool.backlog().expect("backlog");
        let mut put = 0;
        // Enough for writes to be chosen, but not for them to begin.
        while pool.account().delayed_bytes == before.delayed_bytes {
            fill(&mut writer, from + put, PAGE, PAGE as usize);
            put += PAGE;
        }
        assert!(put > 240 * PAGE, "{put}");
        drop(writer);
        assert_eq!(drain(&mut reader, from, 3000), put);
        from += put;
    }
    let account = at_rest(&pool);
    assert!(account.delayed_bytes >= 20 * PAGE, "{account:?}");
    assert_eq!(account.cancelled_bytes, account.delayed_bytes);
    assert_eq!((account.spilled_bytes, account.most_file_bytes), (0, 0));
}

#[test]
fn accounts_add_up() {
    let (pool, _directory) = small(64, 4096);
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    assert_eq!(pool.account(), PoolAccount::default());
    let (mut put, mut taken, mut random) = (0, 0, Random(3));
    let mut last = pool.account();
    for _ in 0..300 {
        let bytes = random.below(20_000) + 1;
        fill(&mut writer, put, bytes, 7_000);
        put += bytes;
        let mut buffer = vec![0; random.below(15_000) as usize + 1];
        let n = reader.read_timeout(&mut buffer, PATIENCE).expect("take");
        assert!(is_pattern(taken, &buffer[..n]));
        taken += n as u64;
        let now = pool.account();
        assert_eq!((now.put_bytes, now.taken_bytes), (put, taken));
        assert_eq!(reader.backlog_bytes(), put - taken);
        let laundry = now.delayed_bytes - now.cancelled_bytes - now.spilled_bytes;
        assert!(laundry <= now.memory_bytes, "{now:?}");
        assert!(now.memory_bytes + now.file_bytes >= put - taken, "{now:?}");
        assert!(now.memory_bytes <= now.most_memory_bytes && now.most_memory_bytes <= 64 * PAGE);
        assert!(now.file_bytes <= now.most_file_bytes);
        assert!(now.spilled_bytes >= last.spilled_bytes && now.delayed_bytes >= last.delayed_bytes);
        last = now;
    }
    drop(writer);
    assert_eq!(drain(&mut reader, taken, 9_000), put - taken);
    let account = at_rest(&pool);
    assert_eq!(account.delayed_bytes, account.cancelled_bytes + account.spilled_bytes);
    assert!(account.spilled_bytes > 0 && account.read_back_bytes > 0, "{account:?}");
    assert_eq!(account.spilled_bytes % PAGE, 0);
    assert_eq!((account.put_bytes, account.taken_bytes), (put, put));
}

fn pause(random: &mut Random) {
    match random.below(40) {
        // sleep: an end that is slow from time to time, as programs are; nothing waits for it.
        0 => std::thread::sleep(Duration::from_micros(random.below(3_000))),
        1..10 => std::thread::yield_now(),
        _ => {}
    }
}

#[test]
fn many_backlogs_share_a_pool() {
    const BYTES: u64 = 1 << 20;
    let (pool, _directory) = small(300, 8192);
    std::thread::scope(|scope| {
        for stream in 0..16_u64 {
            let (mut writer, mut reader) = pool.backlog().expect("backlog");
            let from = stream << 32;
            scope.spawn(move || {
                let (mut random, mut at) = (Random(stream + 1), 0);
                while at < BYTES {
                    let step = (random.below(30_000) + 1).min(BYTES - at);
                    fill(&mut writer, from + at, step, 1 << 20);
                    at += step;
                    pause(&mut random);
                }
            });
            scope.spawn(move || {
                let (mut random, mut at) = (Random(stream + 99), from);
                let mut buffer = vec![0; 30_000];
                loop {
                    let most = random.below(30_000) as usize + 1;
                    let n = reader.read_timeout(&mut buffer[..most], PATIENCE).expect("take");
                    if n == 0 {
                        break;
                    }
                    assert!(is_pattern(at, &buffer[..n]), "stream {stream} at {}", at - from);
                    at += n as u64;
                    pause(&mut random);
                }
                assert_eq!(at - from, BYTES);
            });
        }
    });
    let account = at_rest(&pool);
    assert_eq!(account.taken_bytes, 16 * BYTES);
    assert_eq!(account.delayed_bytes, account.cancelled_bytes + account.spilled_bytes);
}

/// A reader could read all of a frame and release it before its writer had released it.
/// The next owner of the frame then got the error that it is in use twice.
#[test]
fn a_frame_that_was_read_is_anothers_at_once() {
    let (pool, _directory) = small(4, 0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (mut writer, mut reader) = pool.backlog().expect("backlog");
            scope.spawn(move || fill(&mut writer, 0, 2000 * PAGE, PAGE as usize));
            scope.spawn(move || assert_eq!(drain(&mut reader, 0, PAGE as usize), 2000 * PAGE));
        }
    });
    at_rest(&pool);
}

/// The reader asked twice how much there is. It panicked when more had come in between.
#[test]
fn a_reader_looks_at_a_block_that_grows() {
    const BYTES: u64 = 400_000;
    let (pool, _directory) = small(16, 0);
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let writing = std::thread::spawn(move || fill(&mut writer, 0, BYTES, 1));
    let mut at = 0;
    while at < BYTES {
        match reader.peek() {
            Ok(bytes) => {
                assert!(is_pattern(at, bytes));
                let step = bytes.len();
                reader.consume(step);
                at += step as u64;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    writing.join().expect("no panic");
    assert_eq!(reader.peek().expect("the end"), b"");
    at_rest(&pool);
}

/// The reader of a pool had read a little, and rested. All memory held what was read ahead for it, and
/// the writers of other backlogs waited for ever.
#[test]
fn readers_that_rest_hold_up_no_writer() {
    const FRAME: u64 = 64 << 10;
    let directory = tempfile::tempdir().expect("directory");
    let options = PoolOptions::new()
        .frame_bytes(FRAME)
        .cluster_bytes(4 * FRAME)
        .memory_bytes(16 * FRAME)
        .spill_directory(directory.path());
    let pool = Pool::new(&options).expect("pool");
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    fill(&mut writer, 0, 128 * FRAME, 8192);
    let mut buffer = vec![0; 48 * FRAME as usize];
    let mut done = 0;
    while done < buffer.len() {
        done += reader.read_timeout(&mut buffer[done..], PATIENCE).expect("take");
    }
    assert!(is_pattern(0, &buffer));
    let at = done as u64;
    let (mut other, mut other_reader) = pool.backlog().expect("backlog");
    fill(&mut other, 7, 40 * FRAME, 8192);
    drop((writer, other));
    assert_eq!(drain(&mut reader, at, 8192), 128 * FRAME - at);
    assert_eq!(drain(&mut other_reader, 7, 8192), 40 * FRAME);
}
