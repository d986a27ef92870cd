//! The promises of docs/contracts/wait.md about one wait over many things.

use std::io::Write as _;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use weir::{
    Error, ErrorKind, Flags, Interest, Options, Pool, PoolOptions, Reader, RecordWriter, Timeout,
    Wait, Waitable, Writer, pipe, records,
};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

/// Waits at most this long, and returns the tokens of what is ready.
fn ready(wait: &mut Wait<'_, usize>, timeout: impl Into<Timeout>) -> Result<Vec<usize>, Error> {
    let mut ready = Vec::new();
    wait.wait_timeout(&mut ready, timeout).map(|()| ready)
}

/// Waits for one end; if it is a writer, for room of this many bytes.
fn wait_for<E: Waitable>(
    end: &mut E,
    bytes: usize,
    timeout: impl Into<Timeout>,
) -> Result<Vec<usize>, Error> {
    let mut wait = Wait::new();
    let key = wait.add_borrowed(0, end)?;
    wait.want(key, bytes)?;
    ready(&mut wait, timeout)
}

#[test]
fn whatever_comes_first() {
    let (mut writer, reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    let (mut sender, receiver) = records(&Options::new().capacity_bytes(4096)).expect("made");
    let flags = Flags::local();
    let (input, mut output) = std::io::pipe().expect("a kernel pipe");
    let mut wait = Wait::new();
    let stream = wait.add(0, reader).expect("few");
    let records = wait.add(1, receiver).expect("few");
    wait.add_flags(2, &flags, 0b100).expect("few");
    wait.add_descriptor(3, &input, Interest::Read).expect("few");
    // One wait for all rounds; the ends are used between them.
    for round in 0..20 {
        let mut comes = |what: &mut (dyn FnMut() + Send), wanted: usize| {
            std::thread::scope(|scope| {
                scope.spawn(&mut *what);
                assert_eq!(ready(&mut wait, LONG).expect("ready"), [wanted], "round {round}");
            });
            match wanted {
                0 => assert_eq!(wait[stream].read(&mut [0; 9]).expect("read"), 1),
                1 => assert_eq!(wait[records].receive(&mut [0; 9]).expect("received"), Some(6)),
                2 => assert_eq!(flags.clear(0b100), 0b100),
                _ => assert_eq!(std::io::Read::read(&mut &input, &mut [0]).expect("read"), 1),
            }
        };
        let mut set = || {
            flags.set(0b100);
        };
        comes(&mut set, 2);
        comes(&mut || output.write_all(b"x").expect("written"), 3);
        comes(&mut || sender.send(b"record").expect("sent"), 1);
        comes(&mut || assert_eq!(writer.write(b"y").expect("written"), 1), 0);
    }
}

#[test]
fn everything_that_is_ready_is_told_in_order() {
    let (mut writer, mut reader) = pipe(&Options::new()).expect("a pipe");
    let flags = Flags::local();
    flags.set(1);
    writer.write(b"x").expect("written");
    let (input, _output) = std::io::pipe().expect("a kernel pipe");
    let mut wait = Wait::new();
    let first = wait.add_flags(0, &flags, 1).expect("few");
    wait.add_descriptor(1, input.as_fd(), Interest::Read).expect("few");
    wait.add_all_flags(2, &flags, 3).expect("few");
    wait.add_borrowed(3, &mut reader).expect("few");
    let room = wait.add_borrowed(4, &mut writer).expect("few");
    wait.want(room, 10).expect("its key");
    assert_eq!(ready(&mut wait, LONG).expect("ready"), [0, 3, 4]);
    assert_eq!(ready(&mut wait, LONG).expect("still ready"), [0, 3, 4]);
    assert_eq!(wait.remove(first).expect("its own").read(), 1);
    wait.want(room, None).expect("its key");
    assert_eq!(ready(&mut wait, LONG).expect("ready"), [3]);
}

/// Any of no flags are never set, and all of them always are.
#[test]
fn no_flags_at_all_cannot_be_waited_for() {
    let (flags, mut wait) = (Flags::local(), Wait::new());
    let none = [wait.add_flags(0, &flags, 0), wait.add_all_flags(1, &flags, 0)];
    for refused in none {
        assert_eq!(refused.map(drop).expect_err("none").kind(), ErrorKind::Invalid);
    }
    assert!(ready(&mut wait, Timeout::Now).is_err(), "the wait has none of them");
}

/// A removed end is not reported, and what is not wanted just now does not keep the wait awake.
#[test]
fn what_is_taken_out_is_not_told() {
    let (mut writer, reader) = pipe(&Options::new()).expect("a pipe");
    let (input, mut output) = std::io::pipe().expect("a kernel pipe");
    writer.write(b"x").expect("written");
    output.write_all(b"x").expect("written");
    let mut wait = Wait::new();
    let stream = wait.add(0, reader).expect("few");
    let kernels = wait.add_descriptor(1, &input, Interest::Read).expect("few");
    assert_eq!(ready(&mut wait, LONG).expect("ready"), [0, 1]);
    wait.want(kernels, None).expect("its key");
    let mut reader = wait.remove(stream).expect("the wait owned it");
    assert!(wait.remove(stream).is_none(), "it is not there");
    assert_eq!(wait.want(stream, 1).expect_err("not there").kind(), ErrorKind::Invalid);
    assert_eq!(ready(&mut wait, SHORT).expect_err("nothing").kind(), ErrorKind::TimedOut);
    let mut never = Vec::new();
    assert_eq!(wait.wait(&mut never).expect_err("nothing wanted").kind(), ErrorKind::Invalid);
    wait.want(kernels, 1).expect("its key");
    assert_eq!(ready(&mut wait, LONG).expect("ready"), [1]);
    assert_eq!(reader.read(&mut [0; 9]).expect("it was not closed"), 1);
}

#[test]
fn a_time_ends_it() {
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    let time = Duration::from_millis(30);
    let begun = Instant::now();
    assert_eq!(wait_for(&mut reader, 1, time).expect_err("late").kind(), ErrorKind::TimedOut);
    assert!(begun.elapsed() >= time);
    let now = wait_for(&mut reader, 1, Timeout::Now).expect_err("empty");
    assert_eq!(now.kind(), ErrorKind::WouldBlock);
    writer.write(&[0; 4096]).expect("written");
    assert_eq!(wait_for(&mut writer, 1, time).expect_err("full").kind(), ErrorKind::TimedOut);
    let mut nothing = Wait::new();
    assert_eq!(nothing.wait(&mut vec![0]).expect_err("nothing").kind(), ErrorKind::Invalid);
    assert_eq!(ready(&mut nothing, time).expect_err("late").kind(), ErrorKind::TimedOut);
}

#[test]
fn nothing_is_lost() {
    // Each side answers the other through a wait. One lost wake-up, and both stand still.
    let (mut there, end) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    let flags = Flags::shared().expect("made");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wait = Wait::new();
            let end = wait.add(0, end).expect("few");
            for _ in 0..5_000 {
                ready(&mut wait, LONG).expect("ready");
                wait[end].read(&mut [0]).expect("read");
                flags.set(1);
            }
        });
        let mut wait = Wait::new();
        wait.add_flags(0, &flags, 1).expect("few");
        for _ in 0..5_000 {
            there.write(&[1]).expect("written");
            ready(&mut wait, LONG).expect("ready");
            flags.clear(1);
        }
    });
}

/// A descriptor is watched anew for each sleep, and none of its events is missed.
#[test]
fn nothing_of_a_descriptor_is_lost() {
    let (input, mut output) = std::io::pipe().expect("a kernel pipe");
    let flags = Flags::local();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wait = Wait::new();
            wait.add_descriptor(0, &input, Interest::Read).expect("few");
            for _ in 0..2_000 {
                ready(&mut wait, LONG).expect("ready");
                std::io::Read::read(&mut &input, &mut [0]).expect("read");
                flags.set(1);
            }
        });
        for _ in 0..2_000 {
            output.write_all(b"x").expect("written");
            flags.wait_and_clear_timeout(1, LONG).expect("answered");
        }
    });
}

#[test]
fn room_of_less_than_a_segment_is_found() {
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    writer.write(&[0; 4096]).expect("written");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let ready = wait_for(&mut writer, 5, LONG);
            (ready.expect("ready"), writer.try_write(b"12345"))
        });
        reader.read(&mut [0; 5]).expect("read");
        let (ready, written) = waiting.join().expect("no panic");
        assert_eq!((ready, written.expect("written")), (vec![0], 5));
    });
}

#[test]
fn the_death_of_a_peer_is_something_to_do() {
    let (writer, mut reader): (Writer, Reader) = pipe(&Options::new()).expect("a pipe");
    let (mut sender, receiver) = records(&Options::new().capacity_bytes(4096)).expect("made");
    while RecordWriter::try_send(&mut sender, &[0; 60]).is_ok() {}
    std::thread::scope(|scope| {
        scope.spawn(move || drop(writer));
        assert_eq!(wait_for(&mut reader, 1, LONG).expect("ready"), [0]);
        scope.spawn(move || drop(receiver));
        assert_eq!(wait_for(&mut sender, 60, LONG).expect("ready"), [0]);
    });
    assert_eq!(sender.send(b"x").expect_err("closed").kind(), ErrorKind::Closed);
}

/// A wait for room that there never can be lasted for ever.
#[test]
fn a_record_that_never_fits_is_not_waited_for() {
    let (mut writer, _reader) = records(&Options::new().capacity_bytes(4096)).expect("made");
    for bytes in [4096, 4097, usize::MAX] {
        assert_eq!(wait_for(&mut writer, bytes, LONG).expect("ready"), [0], "{bytes}");
    }
    let error = writer.try_send(&[0; 4097]).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Invalid, "its call says so: {error}");
}

#[test]
fn a_file_is_always_ready() {
    let file = tempfile::tempfile().expect("a file");
    let mut wait = Wait::new();
    wait.add_descriptor(0, file, Interest::Read).expect("few");
    assert_eq!(ready(&mut wait, LONG).expect("ready"), [0]);
}

#[test]
fn too_many_are_refused() {
    let flags = Flags::local();
    let mut wait = Wait::new();
    let keys: Vec<_> =
        (0..120).map(|token| wait.add_flags(token, &flags, 1).expect("few")).collect();
    let error = wait.add_flags(120, &flags, 1).map(drop);
    assert_eq!(error.expect_err("too many").kind(), ErrorKind::Invalid);
    wait.remove(keys[7]).expect("its own");
    wait.add_flags(120, &flags, 1).expect("there is room again");
    flags.set(1);
    let told = ready(&mut wait, LONG).expect("ready");
    assert_eq!((told.len(), told[7], told[119]), (120, 8, 120));
}

#[test]
fn own_actions_do_not_wake() {
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    writer.write(&[1; 4096]).expect("written");
    let full = wait_for(&mut writer, 1, SHORT);
    assert_eq!(full.expect_err("full by its own writes").kind(), ErrorKind::TimedOut);
    assert_eq!(reader.read(&mut [0; 4096]).expect("read"), 4096);
    let empty = wait_for(&mut reader, 1, SHORT);
    assert_eq!(empty.expect_err("empty by its own reads").kind(), ErrorKind::TimedOut);
}

/// Nobody told the thread that drains an elastic reader's ring that a wait at the writer found too little
/// room: the writer slept until the reader read.
#[test]
fn an_elastic_reader_makes_room_for_a_writer_that_waits_for_it() {
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20).no_spill()).expect("a pool");
    let (mut writer, reader) = pipe(&Options::new().capacity_bytes(65_536)).expect("a pipe");
    let mut reader = reader.elastic(&pool).expect("elastic");
    for bytes in [65_536, 40_000] {
        // It fits, so the writer finds the ring full with its next call only.
        assert_eq!(writer.write(&vec![7; bytes]).expect("written"), bytes);
        assert_eq!(wait_for(&mut writer, 65_536, LONG).expect("the reader rests"), [0]);
    }
    let mut left = 65_536 + 40_000;
    while left > 0 {
        left -= reader.read(&mut [0; 4096]).expect("read");
    }
}

/// A wait at a writer of records did not tell it either, and slept until the thread looked by
/// itself, ten times a second.
#[test]
fn an_elastic_reader_of_records_is_told_of_a_wait_for_room() {
    let pool = Pool::new(&PoolOptions::new().memory_bytes(16 << 20).no_spill()).expect("a pool");
    let (mut writer, reader) = records(&Options::new().capacity_bytes(4096)).expect("a pipe");
    let mut reader = reader.elastic(&pool).expect("elastic");
    let begun = Instant::now();
    for _ in 0..300 {
        assert_eq!(wait_for(&mut writer, 4096, LONG).expect("the reader rests"), [0]);
        writer.try_send(&[7; 4096]).expect("there is room");
        assert!(begun.elapsed() < LONG / 2, "it waited for looks: {:?}", begun.elapsed());
    }
    for _ in 0..300 {
        assert_eq!(reader.receive(&mut [0; 4096]).expect("received"), Some(4096));
    }
}

/// A reader was told as ready for the other memory of a writer that had only resized its pipe. The read
/// that followed waited then, and held up all else that the caller waits for.
#[test]
fn a_pipe_that_is_only_resized_is_nothing_to_read() {
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    for capacity in [65_536, 8192] {
        writer.resize(capacity).expect("resized");
        let error = wait_for(&mut reader, 0, SHORT).expect_err("nothing is there");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(reader.sizes().capacity_bytes, capacity, "it has gone over");
        writer.write(b"x").expect("written");
        assert_eq!(wait_for(&mut reader, 0, LONG).expect("it came"), [0]);
        assert_eq!(reader.try_read(&mut [0; 9]).expect("read"), 1);
    }
}

/// A child that removed or added a descriptor did so in its parent's wait. One that waited was told
/// that a descriptor was bad.
#[test]
fn a_wait_is_its_parents_in_a_forked_child() {
    let (input, mut output) = std::io::pipe().expect("a pipe of the kernel");
    let (other, mut other_output) = std::io::pipe().expect("a pipe of the kernel");
    other_output.write_all(b"x").expect("written");
    let mut wait = Wait::new();
    let key = wait.add_descriptor(0, &input, Interest::Read).expect("few");
    let mut parts = Some(wait);
    let body = || {
        let mut wait = parts.take().expect("copied");
        let errors = [
            wait.wait_timeout(&mut Vec::new(), LONG).err(),
            wait.add_descriptor(1, &other, Interest::Read).err(),
            wait.want(key, None).err(),
        ];
        let is_forked = |error: &Error| error.kind() == ErrorKind::Forked;
        let all = errors.iter().all(|error| error.as_ref().is_some_and(is_forked));
        drop(wait.remove(key));
        u8::from(!all)
    };
    // SAFETY: other threads of the test hold no lock that the body needs.
    let child = unsafe { weir_measure::sys::fork::copy(body) };
    assert!(child.expect("forked").succeeded().expect("reaped"), "it is told so");
    let mut wait = parts.expect("here");
    ready(&mut wait, SHORT).expect_err("what the child added is not there");
    output.write_all(b"x").expect("written");
    assert_eq!(ready(&mut wait, LONG).expect("the child did not remove it"), [0]);
}
