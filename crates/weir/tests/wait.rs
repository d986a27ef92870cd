//! The promises of docs/contracts/wait.md about one wait over many things.

use std::io::Write as _;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use weir::{ErrorKind, Flags, Interest, Options, Wait, pipe, records};

const LONG: Option<Duration> = Some(Duration::from_secs(20));

#[test]
fn whatever_comes_first() {
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    let (mut sender, mut receiver) = records(&Options::new().capacity_bytes(4096)).expect("made");
    let flags = Flags::local();
    let (input, mut output) = std::io::pipe().expect("a kernel pipe");
    let mut round = |what: &mut (dyn FnMut() + Send), wanted: usize| {
        let mut wait = Wait::new()
            .reader(&mut reader)
            .and_then(|wait| wait.record_reader(&mut receiver))
            .and_then(|wait| wait.flags(&flags, 0b100))
            .and_then(|wait| wait.descriptor(input.as_fd(), Interest::Read))
            .expect("few");
        std::thread::scope(|scope| {
            scope.spawn(&mut *what);
            assert_eq!(wait.wait(LONG).expect("ready").last(), Some(&wanted));
        });
    };
    let mut set = || {
        flags.set(0b100);
    };
    round(&mut set, 2);
    flags.clear(0b100);
    round(&mut || output.write_all(b"x").expect("written"), 3);
    std::io::Read::read(&mut &input, &mut [0]).expect("read");
    round(&mut || sender.send(b"record").expect("sent"), 1);
    drop(writer.write(b"y"));
}

#[test]
fn everything_that_is_ready_is_told_in_order() {
    let (mut writer, mut reader) = pipe(&Options::new()).expect("a pipe");
    let flags = Flags::local();
    flags.set(1);
    writer.write(b"x").expect("written");
    let (input, _output) = std::io::pipe().expect("a kernel pipe");
    let ready = Wait::new()
        .flags(&flags, 1)
        .and_then(|wait| wait.descriptor(input.as_fd(), Interest::Read))
        .and_then(|wait| wait.all_flags(&flags, 3))
        .and_then(|wait| wait.reader(&mut reader))
        .and_then(|wait| wait.writer(&mut writer, 10))
        .expect("few")
        .wait(LONG);
    assert_eq!(ready.expect("ready"), [0, 3, 4]);
}

#[test]
fn a_time_ends_it() {
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    let time = Duration::from_millis(30);
    let begun = Instant::now();
    let error = Wait::new().reader(&mut reader).expect("few").wait(Some(time)).expect_err("late");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(begun.elapsed() >= time);
    writer.write(&[0; 4096]).expect("written");
    let mut full = Wait::new().writer(&mut writer, 1).expect("few");
    assert_eq!(full.wait(Some(time)).expect_err("full").kind(), ErrorKind::TimedOut);
    assert_eq!(Wait::new().wait(None).expect_err("nothing").kind(), ErrorKind::Invalid);
    assert_eq!(Wait::new().wait(Some(time)).expect_err("late").kind(), ErrorKind::TimedOut);
}

#[test]
fn nothing_is_lost() {
    // Each side answers the other through a wait: one lost wake-up and both stand still.
    let (mut there, mut end) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    let flags = Flags::shared().expect("made");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5_000 {
                Wait::new().reader(&mut end).expect("few").wait(LONG).expect("ready");
                end.read(&mut [0]).expect("read");
                flags.set(1);
            }
        });
        for _ in 0..5_000 {
            there.write(&[1]).expect("written");
            Wait::new().flags(&flags, 1).expect("few").wait(LONG).expect("ready");
            flags.clear(1);
        }
    });
}

#[test]
fn room_of_less_than_a_segment_is_found() {
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    writer.write(&[0; 4096]).expect("written");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let ready = Wait::new().writer(&mut writer, 5).expect("few").wait(LONG);
            (ready.expect("ready"), writer.try_write(b"12345"))
        });
        reader.read(&mut [0; 5]).expect("read");
        let (ready, written) = waiting.join().expect("no panic");
        assert_eq!((ready, written.expect("written")), (vec![0], 5));
    });
}

#[test]
fn the_death_of_a_peer_is_something_to_do() {
    let (writer, mut reader) = pipe(&Options::new()).expect("a pipe");
    let (mut sender, receiver) = records(&Options::new().capacity_bytes(4096)).expect("made");
    while sender.try_send(&[0; 60]).is_ok() {}
    std::thread::scope(|scope| {
        scope.spawn(move || drop(writer));
        let ready = Wait::new().reader(&mut reader).expect("few").wait(LONG).expect("ready");
        assert_eq!(ready, [0]);
        scope.spawn(move || drop(receiver));
        let mut wait = Wait::new().record_writer(&mut sender, 60).expect("few");
        assert_eq!(wait.wait(LONG).expect("ready"), [0]);
    });
    assert_eq!(sender.send(b"x").expect_err("closed").kind(), ErrorKind::Closed);
}

#[test]
fn a_file_is_always_ready() {
    let file = tempfile::tempfile().expect("a file");
    let ready = Wait::new().descriptor(file.as_fd(), Interest::Read).expect("few").wait(LONG);
    assert_eq!(ready.expect("ready"), [0]);
}

#[test]
fn too_many_are_refused() {
    let flags = Flags::local();
    let mut wait = Ok(Wait::new());
    for _ in 0..120 {
        wait = wait.and_then(|wait| wait.flags(&flags, 1));
    }
    let error = wait.expect("as many as there may be").flags(&flags, 1).map(drop);
    assert_eq!(error.expect_err("too many").kind(), ErrorKind::Invalid);
}

#[test]
fn own_actions_do_not_wake() {
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    writer.write(&[1; 4096]).expect("written");
    let short = Some(Duration::from_millis(50));
    let full = Wait::new().writer(&mut writer, 1).and_then(|mut wait| wait.wait(short));
    assert_eq!(full.expect_err("full by its own writes").kind(), ErrorKind::TimedOut);
    assert_eq!(reader.read(&mut [0; 4096]).expect("read"), 4096);
    let empty = Wait::new().reader(&mut reader).and_then(|mut wait| wait.wait(short));
    assert_eq!(empty.expect_err("empty by its own reads").kind(), ErrorKind::TimedOut);
}
