//! Elastic pipes: a writer continues while its reader rests, and nothing is lost.

use crate::common;
use crate::common::{
    Random, body, goes_well, hear, hear_and_kill, pool_soon_full, receive_handle, say, say_outcome,
    start, until,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir::{ErrorKind, Handle, Options, Pool, PoolOptions, Reader, Wait, Writer, pipe};

const PATIENCE: Duration = Duration::from_secs(20);

fn pool(memory_bytes: u64) -> Pool {
    Pool::new(&PoolOptions::new().memory_bytes(memory_bytes)).expect("pool")
}

fn small() -> Options {
    Options::new().capacity_bytes(64 << 10)
}

/// Bytes that are different at each place.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let input = std::io::stdin();
    match role.as_str() {
        "writer" => {
            let mut writer = Writer::open(receive_handle()).expect("opened");
            for number in 0.. {
                writer.write(&body(number)).expect("written");
                // Printed only after the write has returned.
                say(&input, &number.to_le_bytes());
            }
        }
        // A file system that is soon full, and that only this process sees.
        "full" => say_outcome(full_device()),
        "little-memory" => say_outcome(little_memory()),
        "resizes" => {
            let mut writer = Writer::open(receive_handle()).expect("opened");
            writer.resize(NEXT_BYTES as u64).expect("resized");
            say(&input, b"resized");
            assert_eq!(hear(&input), b"go on");
            let written = writer.write_timeout(&vec![7; NEXT_BYTES + 100_000], IN_TIME);
            let outcome = written.map_or_else(|error| error.to_string(), |n| n.to_string());
            say(&input, outcome.as_bytes());
        }
        _ => panic!("no such role"),
    }
}

#[test]
fn what_a_killed_writer_wrote_is_read() {
    let mut random = Random(7);
    for round in 0..20 {
        let (writer, reader) = Handle::stream_pair(&small()).expect("pair");
        let reader = Reader::open(reader).expect("reader");
        let mut reader = reader.elastic(&pool(512 << 10)).expect("elastic");
        let (mut child, socket) = start("writer");
        writer.send(socket.as_fd()).expect("sent");
        // By then a part is in the backlog and in the file.
        let said = hear_and_kill(&mut child, &socket, 1 + random.below(400));
        let all = read_all(&mut reader);
        let (mut at, mut number) = (0, 0);
        while at < all.len() {
            let wanted = body(number);
            let whole = wanted.len().min(all.len() - at);
            assert!(all[at..at + whole] == wanted[..whole], "round {round}: number {number}");
            at += whole;
            number += u64::from(whole == wanted.len());
        }
        assert!(number > said, "round {round}: {said} was said to be written, {number} came");
    }
}

/// Writes into an elastic pipe until nothing can be spilled, and reads all of it.
fn full_device() -> Result<(), String> {
    let fail = |what: &str, why: &dyn std::fmt::Display| format!("{what}: {why}");
    let (_directory, pool) = pool_soon_full()?;
    let (mut writer, reader) = pipe(&small()).map_err(|why| fail("pipe", &why))?;
    let mut reader = reader.elastic(&pool).map_err(|why| fail("elastic", &why))?;
    let data = pattern(4 << 20);
    let error = writer.write(&data).expect_err("memory and device are full");
    let written = error.written_bytes().unwrap_or_default();
    if error.kind() != ErrorKind::Os || !error.to_string().contains("No space left") {
        return Err(fail("not what it should say", &error));
    }
    // The error comes once. From now on the writer waits as for any full pipe.
    let again = writer.write_timeout(&data[written..], Duration::from_millis(50));
    match again {
        Err(error) if error.kind() == ErrorKind::TimedOut && error.written_bytes().is_none() => {}
        other => return Err(format!("told twice, or taken: {other:?}")),
    }
    let rest = data[written..].to_vec();
    let thread = std::thread::spawn(move || {
        let mut done = 0;
        while done < rest.len() {
            match writer.write(&rest[done..]) {
                Ok(bytes) => done += bytes,
                Err(error) => done += error.written_bytes().unwrap_or_default(),
            }
        }
    });
    let all = read_all(&mut reader);
    thread.join().map_err(|_| String::from("the writer's thread died"))?;
    if all == data { Ok(()) } else { Err(format!("{} bytes came", all.len())) }
}

#[test]
fn the_writer_learns_of_a_full_device() {
    goes_well("full");
}

fn read_all(reader: &mut weir::ElasticReader) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
    loop {
        match reader.read_timeout(&mut buffer, PATIENCE).expect("read") {
            0 => return all,
            n => all.extend_from_slice(&buffer[..n]),
        }
    }
}

#[test]
fn a_writer_continues_while_its_reader_rests() {
    for bytes in [0, 1, 65_536, 65_537, 1 << 20, 20 << 20] {
        let (mut writer, reader) = pipe(&small()).expect("pipe");
        let mut reader = reader.elastic(&pool(1 << 20)).expect("elastic");
        let data = pattern(bytes);
        // Nobody reads, so all of it goes to the backlog.
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
            done += reader.read_timeout(&mut buffer[done..], PATIENCE).expect("read");
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
    // A write that was under way when its bytes were taken is counted once it is done.
    until("all writes are done", || {
        let account = reader.account().expect("account");
        account.delayed_bytes == account.cancelled_bytes + account.spilled_bytes
    });
    assert_eq!(account.bytes, 8 << 20);
    // What it waited for the file was in no account.
    assert!(account.slept > 0 && account.slept_ns > 0, "{account:?}");
}

#[test]
fn it_is_waited_for_and_polled() {
    let (mut writer, reader) = pipe(&small()).expect("pipe");
    let reader = reader.elastic(&pool(1 << 20)).expect("elastic");
    let mut wait = Wait::new();
    let reader = wait.add((), reader).expect("added");
    let nothing = wait.wait_timeout(&mut Vec::new(), Duration::from_millis(30));
    assert_eq!(nothing.expect_err("nothing is there").kind(), ErrorKind::TimedOut);
    let data = pattern(3 << 20);
    let sent = data.clone();
    let thread = std::thread::spawn(move || writer.write(&sent).map(drop));
    let (mut all, mut buffer) = (Vec::new(), vec![0; 50_000]);
    loop {
        match wait[reader].try_read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait.wait_timeout(&mut Vec::new(), PATIENCE).expect("something comes");
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

/// A writer that never pauses keeps the thread busy. What the thread has moved can still be read.
#[test]
fn a_writer_that_never_pauses_does_not_keep_the_reader_out() {
    let (mut writer, reader) = pipe(&small()).expect("pipe");
    let options = PoolOptions::new().memory_bytes(4 << 20).limit_bytes(1 << 30);
    let mut reader = reader.elastic(&Pool::new(&options).expect("pool")).expect("elastic");
    let stops = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = stops.clone();
    let thread = std::thread::spawn(move || {
        let (piece, mut count) = (pattern(64 << 10), 0);
        // Relaxed: it need only be seen eventually.
        while !told.load(std::sync::atomic::Ordering::Relaxed) {
            count += writer.write(&piece).expect("written");
        }
        count
    });
    // Reads less than there is each time, so that the backlog runs empty in between.
    let (mut buffer, mut got) = (vec![0; 4 << 20], 0);
    for _ in 0..200 {
        got += reader.read_timeout(&mut buffer, PATIENCE).expect("read");
    }
    stops.store(true, std::sync::atomic::Ordering::Relaxed);
    let count = thread.join().expect("writer");
    got += read_all(&mut reader).len();
    assert_eq!(got, count);
}

/// The draining thread sleeps on a word of the old memory, which the writer of the new one does not
/// know.
#[test]
fn a_resize_wakes_who_drains() {
    let pool = pool(1 << 20);
    for _ in 0..50 {
        let (mut writer, reader) = pipe(&small()).expect("pipe");
        let mut reader = reader.elastic(&pool).expect("elastic");
        let data = pattern(600_000);
        writer.write(&data[..1000]).expect("written");
        writer.resize(128 << 10).expect("resized");
        // Nobody reads this pipe.
        assert_eq!(writer.write_timeout(&data[1000..], PATIENCE).expect("in time"), 599_000);
        drop(writer);
        assert!(read_all(&mut reader) == data);
    }
}

/// The size of a memory for which there is no room at first.
const NEXT_BYTES: usize = 16 << 20;
const IN_TIME: Duration = Duration::from_secs(10);

/// The thread that drains could not map the pipe's next memory, and ended: from then on the writer
/// waited for its reader, though memory lacked only for a moment.
#[test]
fn a_lack_of_memory_for_now_does_not_end_the_draining() {
    goes_well("little-memory");
}

fn little_memory() -> Result<(), String> {
    let fail = |what: &str, why: &dyn std::fmt::Display| format!("{what}: {why}");
    let (writer, reader) = Handle::stream_pair(&small()).map_err(|why| fail("pair", &why))?;
    let reader = Reader::open(reader).map_err(|why| fail("reader", &why))?;
    let mut reader = reader.elastic(&pool(1 << 20)).map_err(|why| fail("elastic", &why))?;
    let (mut child, socket) = start("resizes");
    let drains = of_the_draining_thread().ok_or("no thread drains")?;
    until("the thread sleeps", || sleeps(&drains).is_some());
    let before = sleeps(&drains);
    let now = getrlimit(Resource::As);
    let of_this = std::fs::read_to_string("/proc/self/statm").map_err(|why| fail("size", &why))?;
    let pages: u64 = of_this.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let little = Rlimit { current: Some(pages * 4096 + NEXT_BYTES as u64 / 2), ..now };
    setrlimit(Resource::As, little).map_err(|why| fail("limit", &why))?;
    writer.send(socket.as_fd()).map_err(|why| fail("send", &why))?;
    let resized = hear(&socket);
    // It has tried to move to the next memory once it sleeps again, or is gone.
    until("the thread has tried", || match sleeps(&drains) {
        Some(again) => Some(again) != before,
        None => !drains.exists(),
    });
    let lacks = reader.try_read(&mut [0; 64]).expect_err("there is no memory").kind();
    setrlimit(Resource::As, now).map_err(|why| fail("limit", &why))?;
    say(&socket, b"go on");
    let written = String::from_utf8_lossy(&hear(&socket)).into_owned();
    let _ = child.wait();
    let all = read_all(&mut reader);
    let came = all.len().to_string();
    match (resized == b"resized", lacks, all.iter().all(|byte| *byte == 7)) {
        (true, ErrorKind::Os, true) if all.len() == NEXT_BYTES + 100_000 && came == written => {
            Ok(())
        }
        other => Err(format!("{other:?}: {written} written, {came} came")),
    }
}

/// The folder of /proc of the thread that drains a pipe of this process.
fn of_the_draining_thread() -> Option<PathBuf> {
    let drains = |task: &PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "weir-drain\n")
    };
    std::fs::read_dir("/proc/self/task").ok()?.flatten().map(|task| task.path()).find(drains)
}

/// How often a thread that sleeps now has gone to sleep; `None` if it does not.
fn sleeps(task: &Path) -> Option<String> {
    let status = std::fs::read_to_string(task.join("status")).ok()?;
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    line("State:").filter(|state| state.contains('S') && state.contains("sleeping"))?;
    line("voluntary_ctxt_switches:")
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
    let n = reader.read_timeout(&mut buffer, PATIENCE).expect("read");
    all.extend_from_slice(&buffer[..n]);
    writer.write(&data[2 << 20..]).expect("written");
    drop(writer);
    all.extend(read_all(&mut reader));
    assert!(all == data);
}

/// Reading spoke of a backlog, which is not what its user reads.
#[test]
fn a_forked_child_is_told_whose_pipe_it_is() {
    let (mut writer, reader) = pipe(&small()).expect("a pipe");
    let mut parts = Some(reader.elastic(&pool(4 << 20)).expect("elastic"));
    let body = || {
        let mut reader = parts.take().expect("copied");
        let mut buffer = [0; 10];
        let errors = [
            reader.read(&mut buffer).err(),
            reader.try_read(&mut buffer).err(),
            reader.available().err(),
            reader.account().err(),
            reader.poll_descriptor().err(),
        ];
        let why =
            "cannot read from the pipe: it belongs to the process that this one was forked from";
        let said =
            |error: &weir::Error| error.kind() == ErrorKind::Forked && error.to_string() == why;
        u8::from(!errors.iter().all(|error| error.as_ref().is_some_and(said)))
    };
    // SAFETY: other threads of the test hold no lock that the body needs.
    let child = unsafe { weir_measure::sys::fork::copy(body) };
    assert!(child.expect("forked").succeeded().expect("reaped"), "it names the pipe");
    writer.write(b"and on").expect("written");
    assert_eq!(parts.expect("here").read(&mut [0; 10]).expect("read"), 6);
}
