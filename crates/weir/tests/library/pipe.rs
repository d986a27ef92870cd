//! The promises of docs/contracts/pipe.md about streams.

use crate::common;
use crate::common::patterned;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use weir::tune::{Ask, ask};
use weir::{ErrorKind, Options, Reader, Waiting, pipe};

fn small() -> Options {
    Options::new().capacity_bytes(4096)
}

fn memory_of(reader: &Reader) -> OwnedFd {
    reader.memory_descriptor().expect("here").try_clone_to_owned().expect("copied")
}

#[test]
fn what_was_written_is_read() {
    let (mut writer, mut reader) = pipe(&Options::new()).expect("a pipe");
    for (text, bytes) in [("hello, ", 7), ("world", 5), ("", 0)] {
        assert_eq!(writer.write(text.as_bytes()).expect("written"), bytes);
    }
    let mut buffer = [0; 64];
    assert_eq!(reader.read(&mut buffer[..3]).expect("read"), 3);
    assert_eq!(reader.read(&mut buffer[3..]).expect("read"), 9);
    assert_eq!(&buffer[..12], b"hello, world");
    drop(writer);
    assert_eq!(reader.read(&mut buffer).expect("read"), 0);
}

#[test]
fn a_stream_holds_exactly_its_capacity() {
    let (mut writer, mut reader) = pipe(&small()).expect("a pipe");
    assert_eq!(writer.try_write(&patterned(5000, 0)).expect("written"), 4096);
    assert_eq!(writer.try_write(b"x").expect_err("full").kind(), ErrorKind::WouldBlock);
    assert_eq!((writer.room().expect("known"), reader.available().expect("known")), (0, 4096));
    let mut buffer = [0; 10];
    reader.read(&mut buffer).expect("read");
    assert_eq!(writer.try_write(&[1; 20]).expect_err("no room").kind(), ErrorKind::WouldBlock);
    assert_eq!(writer.try_write(&[1; 10]).expect("written"), 10);
}

#[test]
fn a_stream_between_threads_is_what_was_sent() {
    for (chunk, capacity) in [(1, 4096), (100, 4096), (5000, 4096), (65_536, 1 << 20), (3, 65_536)]
    {
        let options = Options::new().capacity_bytes(capacity);
        let (mut writer, mut reader) = pipe(&options).expect("a pipe");
        let sent = patterned(chunk * 300, 5);
        let copy = sent.clone();
        let writing = std::thread::spawn(move || {
            copy.chunks(chunk).for_each(|part| {
                assert_eq!(writer.write(part).expect("written"), part.len());
            });
        });
        let (mut got, mut buffer) = (Vec::new(), vec![0; 7000]);
        loop {
            match reader.read(&mut buffer).expect("read") {
                0 => break,
                count => got.extend_from_slice(&buffer[..count]),
            }
        }
        writing.join().expect("no panic");
        assert!(got == sent, "{chunk} through {capacity}");
    }
}

#[test]
fn calls_that_do_not_wait_say_so() {
    let (mut writer, mut reader) = pipe(&small()).expect("a pipe");
    let mut buffer = [0; 100];
    let empty = reader.try_read(&mut buffer).expect_err("empty");
    assert_eq!(empty.kind(), ErrorKind::WouldBlock);
    assert_eq!(empty.to_string(), "cannot read from the pipe: it is empty");
    let late = reader.read_timeout(&mut buffer, Duration::from_millis(2)).expect_err("empty");
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    let time = Duration::from_millis(2);
    assert_eq!(writer.write_timeout(&[1; 6000], time).expect("part of it"), 4096);
    assert_eq!(
        writer.write_timeout(&[1; 6000], time).expect_err("full").kind(),
        ErrorKind::TimedOut
    );
}

#[test]
fn the_end_is_seen() {
    let (mut writer, mut reader) = pipe(&small()).expect("a pipe");
    writer.write(b"last").expect("written");
    drop(writer);
    let mut buffer = [0; 100];
    assert_eq!(reader.try_read(&mut buffer).expect("read"), 4);
    assert_eq!(reader.try_read(&mut buffer).expect("the end"), 0);
    assert_eq!(reader.read_timeout(&mut buffer, Duration::from_secs(9)).expect("the end"), 0);
    let (mut writer, reader) = pipe(&small()).expect("a pipe");
    writer.write(b"unread").expect("written");
    drop(reader);
    let closed = writer.write(b"more").expect_err("closed");
    assert_eq!(closed.kind(), ErrorKind::Closed);
    assert_eq!(closed.to_string(), "cannot write to the pipe: the reader has closed or died");
}

#[test]
fn a_blocked_end_learns_of_the_close() {
    for waiting in [Waiting::Sleep, Waiting::Adaptive] {
        let (mut writer, mut reader) = pipe(&small().waiting(waiting)).expect("a pipe");
        let blocked = std::thread::spawn(move || writer.write(&[7; 10_000]).expect_err("closed"));
        while reader.available().expect("known") < 4096 {
            std::thread::yield_now();
        }
        drop(reader);
        let error = blocked.join().expect("no panic");
        assert_eq!((error.kind(), error.written_bytes()), (ErrorKind::Closed, Some(4096)));
        let (writer, mut reader) = pipe(&small().waiting(waiting)).expect("a pipe");
        let blocked = std::thread::spawn(move || reader.read(&mut [0; 10]));
        std::thread::yield_now();
        drop(writer);
        assert_eq!(blocked.join().expect("no panic").expect("the end"), 0);
    }
}

#[test]
fn a_short_write_is_whole_or_not_there() {
    let (mut writer, mut reader) =
        pipe(&small().segment_bytes(4096).atomic_bytes(1000)).expect("made");
    assert_eq!(writer.try_write(&[1; 3500]).expect("written"), 3500);
    assert_eq!(writer.try_write(&[2; 1000]).expect_err("whole").kind(), ErrorKind::WouldBlock);
    assert_eq!(reader.available().expect("known"), 3500);
    assert_eq!(writer.try_write(&[3; 1001]).expect("a part of a longer one"), 596);
}

#[test]
fn a_long_write_is_published_by_segments() {
    // The reader takes 512 bytes at a time of a write of 4096: what is there when it first wakes
    // is whole segments.
    let options = small().segment_bytes(512).atomic_bytes(512).waiting(Waiting::Sleep);
    let (mut writer, mut reader) = pipe(&options).expect("made");
    let wakes = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut buffer = [0; 512];
            for _ in 0..8 {
                assert_eq!(reader.read(&mut buffer).expect("read") % 512, 0);
            }
            reader.account().expect("here")
        });
        scope.spawn(move || writer.write(&[5; 4096]).expect("written"));
        reading.join().expect("no panic")
    });
    assert_eq!((wakes.bytes, wakes.records), (4096, 8));
}

#[test]
fn a_sleeping_reader_is_woken_by_the_first_segment() {
    // The pipe is smaller than the write, and the writer continues only when the reader has read:
    // so a reader woken by the whole write alone would never wake.
    let options = small().segment_bytes(1024).waiting(Waiting::Sleep);
    let (mut writer, mut reader) = pipe(&options).expect("made");
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write(&[5; 100_000]).expect("written"));
        let mut total = 0;
        while total < 100_000 {
            total += reader.read(&mut [0; 300]).expect("read");
        }
        assert_eq!(reader.read(&mut [0; 300]).expect("the end"), 0);
    });
}

#[test]
fn a_writer_is_woken_by_room() {
    for taken in [4096, 512, 100] {
        let (mut writer, mut reader) = pipe(&small().waiting(Waiting::Sleep)).expect("made");
        writer.write(&[1; 4096]).expect("written");
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| writer.write(&[2; 100]));
            common::until("the writer sleeps", || stat_of(&mut reader).writer.waits);
            reader.read(&mut vec![0; taken]).expect("read");
            assert_eq!(blocked.join().expect("no panic").expect("written"), 100, "after {taken}");
        });
    }
}

fn stat_of(reader: &mut weir::Reader) -> weir::stat::PipeStat {
    let memory = memory_of(reader);
    weir::stat::read(&memory).expect("read")
}

#[test]
fn no_system_call_when_nobody_sleeps() {
    let (mut writer, mut reader) = pipe(&small()).expect("made");
    for _ in 0..10_000 {
        writer.write(&[1; 100]).expect("written");
        reader.read(&mut [0; 100]).expect("read");
    }
    let (writer, reader) = (writer.account().expect("here"), reader.account().expect("here"));
    assert_eq!((writer.wakes_given, writer.slept, writer.waits), (0, 0, 0));
    assert_eq!((reader.wakes_given, reader.slept, reader.waits), (0, 0, 0));
}

#[test]
fn an_idle_end_uses_no_cpu() {
    let (_writer, mut reader) = pipe(&small()).expect("made");
    let before = common::cpu_time();
    let error = reader.read_timeout(&mut [0], Duration::from_millis(300)).expect_err("empty");
    let used = common::cpu_time() - before;
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let account = reader.account().expect("here");
    assert!((1..=2).contains(&account.slept), "slept {} times", account.slept);
    assert!(used < Duration::from_millis(10), "it looked for {used:?} of 300 ms");
}

#[test]
fn ends_can_be_polled() {
    let (mut writer, mut reader) = pipe(&small()).expect("made");
    let is_ready = |descriptor: BorrowedFd| {
        let mut asked = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut asked, Some(&now)).expect("polled") > 0
    };
    let mut buffer = [0; 4096];
    assert!(is_ready(reader.poll_descriptor().expect("made")), "before the first look");
    for _ in 0..3 {
        reader.try_read(&mut buffer).expect_err("empty");
        assert!(!is_ready(reader.poll_descriptor().expect("made")));
        writer.write(b"ding").expect("written");
        assert!(is_ready(reader.poll_descriptor().expect("made")));
        assert_eq!(reader.try_read(&mut buffer[..2]).expect("read"), 2);
        assert!(is_ready(reader.poll_descriptor().expect("made")), "something is left");
        assert_eq!(reader.try_read(&mut buffer).expect("read"), 2);
    }
    assert!(is_ready(writer.poll_descriptor().expect("made")));
    writer.try_write(&[0; 4096]).expect("written");
    writer.try_write(b"x").expect_err("full");
    assert!(!is_ready(writer.poll_descriptor().expect("made")));
    reader.read(&mut buffer).expect("read");
    assert!(is_ready(writer.poll_descriptor().expect("made")));
    reader.try_read(&mut buffer).expect_err("empty");
    drop(writer);
    assert!(is_ready(reader.poll_descriptor().expect("made")), "the end");
}

#[test]
fn bounds_stay_true() {
    let (mut writer, mut reader) = pipe(&small()).expect("made");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2_000 {
                let room = writer.room().expect("known").min(700) as usize;
                assert_eq!(writer.try_write(&vec![1; room]).unwrap_or(0), room);
            }
        });
        for _ in 0..2_000 {
            let there = reader.available().expect("known").min(600) as usize;
            assert_eq!(reader.try_read(&mut vec![0; there]).unwrap_or(0), there);
        }
    });
}

#[test]
fn a_live_pipe_is_resized() {
    let (mut writer, mut reader) = pipe(&small()).expect("made");
    let sent = common::patterned(2_000_000, 3);
    let capacities = [65_536, 4096, 1 << 20, 16_384];
    std::thread::scope(|scope| {
        let sent = &sent;
        scope.spawn(move || {
            for (at, part) in sent.chunks(10_000).enumerate() {
                writer.write(part).expect("written");
                if at % 20 == 19 {
                    let capacity = capacities[at / 20 % capacities.len()];
                    match writer.resize(capacity) {
                        Ok(()) => {
                            assert_eq!(writer.sizes().capacity_bytes, capacity)
                        }
                        // Less than is filled, or the reader has not followed yet.
                        Err(error) => assert!(
                            matches!(error.kind(), ErrorKind::Invalid | ErrorKind::WouldBlock),
                            "{error}"
                        ),
                    }
                }
            }
        });
        let (mut got, mut buffer) = (Vec::new(), vec![0; 7000]);
        loop {
            match reader.read(&mut buffer).expect("read") {
                0 => break,
                count => got.extend_from_slice(&buffer[..count]),
            }
        }
        assert!(&got == sent);
        assert_eq!(reader.account().expect("here").bytes, 2_000_000, "it goes on counting");
    });
}

#[test]
fn a_reader_that_has_not_followed_is_waited_for() {
    let (mut writer, mut reader) = pipe(&small()).expect("made");
    writer.write(b"one").expect("written");
    writer.resize(65_536).expect("the first");
    writer.write(b"two").expect("written");
    // Two memories on their way would be one too many for the reader.
    let error = writer.resize(16_384).expect_err("not followed");
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
    let mut buffer = [0; 8];
    assert_eq!(reader.read(&mut buffer).expect("read"), 3);
    assert_eq!(reader.read(&mut buffer).expect("read"), 3);
    writer.resize(16_384).expect("followed");
    writer.write(b"three").expect("written");
    assert_eq!(reader.read(&mut buffer).expect("read"), 5);
    assert_eq!(&buffer[..5], b"three");
}

#[test]
fn a_pipe_is_not_shrunk_below_what_is_in_it() {
    let (mut writer, mut reader) = pipe(&small().capacity_bytes(65_536)).expect("made");
    writer.write(&[9; 10_000]).expect("written");
    let error = writer.resize(8192).expect_err("too small");
    assert_eq!(error.to_string(), "cannot shrink the pipe: 10000 bytes are in it");
    let error = writer.resize(1 << 31).expect_err("too large");
    assert!(error.to_string().ends_with("2147483648 bytes are out of range: 1 to 1073741824"));
    writer.resize(16_384).expect("it fits");
    writer.write(&[8; 5000]).expect("written");
    let mut got = Vec::new();
    drop(writer);
    std::io::Read::read_to_end(&mut reader, &mut got).expect("read");
    assert_eq!((got.len(), got[9_999], got[10_000]), (15_000, 9, 8));
}

#[test]
fn sizes_are_asked_for_from_outside() {
    let (mut writer, mut reader) = pipe(&small().capacity_bytes(65_536)).expect("made");
    let memory = memory_of(&reader);
    let segment = Ask { segment_bytes: Some(16_384), ..Ask::default() };
    assert_eq!(ask(memory.as_fd(), segment).expect("asked").segment_bytes, 16_384);
    let capacity = Ask { capacity_bytes: Some(1 << 20), ..Ask::default() };
    ask(memory.as_fd(), capacity).expect("asked");
    // Taken up after some writes at the latest.
    for _ in 0..600 {
        writer.write(b"x").expect("written");
    }
    assert_eq!(writer.sizes().capacity_bytes, 1 << 20);
    let mut buffer = [0; 1000];
    assert_eq!(
        reader.read(&mut buffer).expect("read") + reader.read(&mut buffer).expect("read"),
        600
    );
    let wrong = Ask { capacity_bytes: Some(1 << 40), ..Ask::default() };
    assert_eq!(ask(memory.as_fd(), wrong).expect_err("refused").kind(), ErrorKind::Invalid);
}

/// Wishes for a capacity as a reader may who writes into the memory what it likes.
fn wish(memory: &impl AsFd, now: u64, capacity: u64) {
    // Where the wishes lie: a count of changes, segment, atomic bound, capacity.
    const TUNING: u64 = 640;
    let mut words = [0; 32];
    rustix::io::pread(memory, &mut words, TUNING).expect("read");
    let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().expect("eight"));
    assert_eq!(word(24), now, "the capacity lies there");
    let change = (word(0) as u32).wrapping_add(1);
    let sizes = [capacity / 8, 1024, capacity].map(u64::to_ne_bytes).concat();
    rustix::io::pwrite(memory, &sizes, TUNING + 8).expect("written");
    rustix::io::pwrite(memory, &change.to_ne_bytes(), TUNING).expect("written");
}

#[test]
fn what_a_reader_wishes_costs_its_writer_no_more_than_is_said() {
    let first = 65_536;
    let most = 16 * first;
    // What is usual on this machine must not come into it.
    let options = small().capacity_bytes(first).most_bytes(most);
    let (mut writer, mut reader) = pipe(&options).expect("made");
    let mut buffer = [0; 1000];
    let mut granted = 0;
    let mut now = first;
    for round in 0..40 {
        let memory = memory_of(&reader);
        let wished = if round < 4 { 1 << 30 } else { [most, first][round % 2] };
        wish(&memory, now, wished);
        for _ in 0..600 {
            writer.write(b"x").expect("written");
            assert_eq!(reader.read(&mut buffer).expect("read"), 1);
        }
        let shape = writer.sizes().capacity_bytes;
        assert!(shape == now || shape == wished, "{shape}");
        granted += if shape == now { 0 } else { shape };
        if shape == now {
            // As it was, for the next wish.
            wish(&memory, wished, now);
        }
        now = shape;
        assert!(now <= most && granted <= 4 * most, "{now}, {granted} in all");
    }
    assert!(granted > 2 * most, "{granted}: wishes within the bound are granted");
    let memory = memory_of(&reader);
    let asked = Ask { capacity_bytes: Some(2 * most), ..Ask::default() };
    let error = ask(memory.as_fd(), asked).expect_err("more than is granted").to_string();
    assert!(
        error.starts_with("cannot enlarge a pipe to 2097152 bytes: its writer adopts"),
        "{error}"
    );
    // The writer itself may do as it likes.
    writer.resize(4 * most).expect("its own wish");
}

#[test]
fn a_segment_gives_way_to_another_capacity() {
    let (mut writer, mut reader) = pipe(&small().capacity_bytes(65_536)).expect("made");
    writer.resize(1 << 30).expect("enlarged 16384 times");
    assert_eq!(writer.sizes().segment_bytes, 128 << 20);
    writer.write(b"over there").expect("written");
    let mut buffer = [0; 16];
    assert_eq!(reader.read(&mut buffer).expect("read"), 10);
    writer.resize(4096).expect("made small");
    assert_eq!(writer.sizes().segment_bytes, 4096);
}

/// The process's watcher continued knowing the socket of an end that was made a handle.
#[test]
fn an_end_that_was_made_a_handle_can_be_opened_again_in_its_process() {
    let (mut writer, mut reader) = pipe(&small()).expect("made");
    for _ in 0..3 {
        let handle = writer.into_handle().expect("a handle");
        writer = weir::Writer::open(handle).expect("opened again");
        let handle = reader.into_handle().expect("a handle");
        reader = Reader::open(handle).expect("opened again");
        writer.write(b"again").expect("written");
        assert_eq!(reader.read(&mut [0; 9]).expect("read"), 5);
    }
    drop(writer);
    assert_eq!(reader.read(&mut [0; 9]).expect("the end"), 0);
}

/// What is a pipe, but not the one that is opened, is the caller's mistake; what is no pipe is the
/// sender's.
#[test]
fn a_handle_of_something_else_is_refused_by_what_it_is() {
    let made = || weir::Handle::stream_pair(&small()).expect("made");
    let kind = |handle| Reader::open(handle).map(drop).expect_err("refused").kind();
    let records = weir::Handle::record_pair(&small()).expect("made");
    assert_eq!(kind(records.1), weir::ErrorKind::Invalid, "a reader of records");
    assert_eq!(kind(made().0), weir::ErrorKind::Invalid, "a writer");
    let (memory, socket) = made().1.into_descriptors();
    let file = || std::fs::File::open("/dev/null").expect("opened").into();
    assert_eq!(kind(weir::Handle::reader(file(), socket)), weir::ErrorKind::Corrupt, "its memory");
    assert_eq!(kind(weir::Handle::reader(memory, file())), weir::ErrorKind::Corrupt, "its socket");
}

/// Two writers of one process over one memory wrote to the same bytes from two threads.
#[test]
fn an_end_is_open_once_in_a_process() {
    let (writer, reader) = weir::Handle::stream_pair(&small()).expect("made");
    let (memory, socket) = writer.into_descriptors();
    let copy = || {
        let copies = (memory.try_clone().expect("a copy"), socket.try_clone().expect("a copy"));
        weir::Writer::open(weir::Handle::writer(copies.0, copies.1))
    };
    let mut writer = copy().expect("opened");
    let refused = copy().expect_err("it is open");
    assert_eq!(refused.kind(), weir::ErrorKind::Invalid);
    let why = "cannot open a writer: this process has opened this end already";
    assert_eq!(refused.to_string(), why);
    let mut reader = Reader::open(reader).expect("the other end");
    writer.write(b"one").expect("the refusal has harmed nobody");
    assert_eq!(reader.read(&mut [0; 9]).expect("read"), 3);
    let handle = writer.into_handle().expect("handed on");
    assert!(weir::Writer::open(handle).is_ok(), "it is open no more");
}

#[test]
fn a_stopped_peer_is_not_dead() {
    let (writer, reader) = weir::Handle::stream_pair(&small()).expect("made");
    let (mut child, socket) = common::start("writes-when-told");
    writer.send(socket.as_fd()).expect("sent");
    let mut reader = Reader::open(reader).expect("opened");
    assert_eq!(reader.read(&mut [0; 9]).expect("read"), 1);
    let pid = rustix::process::Pid::from_child(&child);
    common::stop(pid);
    let how = rustix::process::WaitOptions::UNTRACED;
    let (_, status) = rustix::process::waitpid(Some(pid), how).expect("waited").expect("one");
    assert!(status.stopped());
    common::say(&socket, b"go on");
    let waited = reader.read_timeout(&mut [0; 9], Duration::from_millis(100)).expect_err("stopped");
    assert_eq!(waited.kind(), ErrorKind::TimedOut);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("continued");
    assert_eq!(reader.read(&mut [0; 9]).expect("read"), 1);
    common::kill(&mut child);
    assert_eq!(reader.read(&mut [0; 9]).expect("the end"), 0);
}

#[test]
fn in_a_role() {
    if common::role().is_none() {
        return;
    }
    let mut writer = weir::Writer::open(common::receive_handle()).expect("opened");
    loop {
        writer.write(b"x").expect("written");
        common::hear(std::io::stdin());
    }
}

/// An end that only spins once did so beyond the time it was given.
#[test]
fn an_end_that_spins_ends_in_time() {
    let (_writer, mut reader) = pipe(&small().waiting(Waiting::Spin)).expect("made");
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let ended = reader.read_timeout(&mut [0], Duration::from_millis(5));
        let _ = tell.send(ended.map_err(|error| error.kind()));
    });
    let ended = told.recv_timeout(Duration::from_secs(10)).expect("it ends");
    assert_eq!(ended, Err(ErrorKind::TimedOut));
}
