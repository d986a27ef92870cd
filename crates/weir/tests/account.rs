//! The promises of docs/contracts/account.md.

mod common;

use weir::stat::{self, Kind};
use weir::{Options, Waiting, pipe, records};

#[test]
fn counts_are_true() {
    let options = Options::new().capacity_bytes(4096).waiting(Waiting::Sleep);
    let (mut writer, mut reader) = pipe(&options).expect("made");
    writer.write(&[1; 1000]).expect("written");
    writer.write(&[1; 500]).expect("written");
    reader.read(&mut [0; 1200]).expect("read");
    let (sent, got) = (writer.account().expect("here"), reader.account().expect("here"));
    assert_eq!((sent.bytes, sent.records, sent.waits), (1500, 2, 0));
    assert_eq!((got.bytes, got.records, got.largest_fill_bytes), (1200, 1, 1500));
    assert_eq!((sent.pid, got.pid), (std::process::id(), std::process::id()));
    // The writer must now wait for the reader, which wakes it.
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            writer.write(&[2; 4000]).expect("written");
            writer.account().expect("here")
        });
        let memory = reader.memory().expect("here").try_clone_to_owned().expect("copied");
        common::until("the writer sleeps", || stat::read(&memory).expect("read").writer.waits);
        reader.read(&mut [0; 4096]).expect("read");
        let sent = blocked.join().expect("no panic");
        assert_eq!((sent.bytes, sent.records), (5500, 3));
        assert!(sent.waits >= 1 && sent.slept >= 1 && sent.slept_ns > 0, "{sent:?}");
    });
    assert!(reader.account().expect("here").wakes_given >= 1);
}

#[test]
fn it_is_read_from_outside_without_changing_anything() {
    let options = Options::new().capacity_bytes(65_536).segment_bytes(4096);
    let (mut writer, mut reader) = pipe(&options).expect("made");
    let (mut sender, _receiver) = records(&options).expect("made");
    writer.write(&[1; 3000]).expect("written");
    sender.send(&[1; 30]).expect("sent");
    let inode = |memory: rustix::fd::BorrowedFd| rustix::fs::fstat(memory).expect("known").st_ino;
    let own = inode(reader.memory().expect("here"));
    let seen = stat::pipes();
    let ours = seen.iter().find(|pipe| pipe.inode == own).expect("found");
    assert_eq!((ours.kind, ours.capacity_bytes, ours.segment_bytes), (Kind::Stream, 65_536, 4096));
    assert_eq!((ours.fill_bytes, ours.writer.account.bytes), (Some(3000), 3000));
    assert_eq!(ours.holders.len(), 2, "both ends are here");
    assert!(seen.iter().any(|pipe| pipe.kind == Kind::Records && pipe.writer.account.records == 1));
    let (pid, descriptor) = ours.holders[0];
    let again = stat::read(&stat::open(pid, descriptor, false).expect("opened")).expect("read");
    assert_eq!(again.writer, ours.writer);
    drop(writer);
    let closed = stat::read(&stat::open(pid, ours.holders[1].1, false).expect("opened"));
    assert!(closed.expect("read").writer.closed);
    assert_eq!(reader.read(&mut [0; 4096]).expect("read"), 3000);
}

#[test]
fn what_is_no_pipe_is_refused() {
    let error = stat::open(std::process::id() as i32, 99_999, false).expect_err("no such");
    assert!(error.to_string().contains("/fd/99999: No such file"), "{error}");
    let file = tempfile::tempfile().expect("a file");
    assert!(stat::read(&file.into()).is_err());
}
