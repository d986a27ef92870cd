//! The promises of docs/contracts/account.md.

mod common;

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;
use weir::stat::{self, PipeKind};
use weir::{
    ElasticReader, ElasticRecordReader, Key, Options, Pool, PoolOptions, Port, PortOptions,
    PortWriter, PortWriterOptions, Wait, Waiting, pipe, records,
};

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
    // The writer must now wait for the reader, and the reader wakes it.
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            writer.write(&[2; 4000]).expect("written");
            writer.account().expect("here")
        });
        let memory =
            reader.memory_descriptor().expect("here").try_clone_to_owned().expect("copied");
        common::until("the writer sleeps", || stat::read(&memory).expect("read").writer.waits);
        reader.read(&mut [0; 4096]).expect("read");
        let sent = blocked.join().expect("no panic");
        assert_eq!((sent.bytes, sent.records), (5500, 3));
        assert!(sent.waits >= 1 && sent.slept >= 1 && sent.slept_ns > 0, "{sent:?}");
    });
    assert!(reader.account().expect("here").wakes_given >= 1);
}

/// It was said that the reader counts it, which sees of a record pipe one record at a time.
#[test]
fn the_largest_fill_is_counted_by_one_end() {
    let small = Options::new().capacity_bytes(4096);
    let largest = |account: weir::Account| account.largest_fill_bytes;
    let (mut writer, mut reader) = pipe(&small).expect("made");
    writer.write(&[1; 4096]).expect("written");
    reader.read(&mut [0; 4096]).expect("read");
    let ends = [writer.account(), reader.account()].map(|end| largest(end.expect("here")));
    assert_eq!(ends, [0, 4096]);
    let (mut writer, mut reader) = records(&small).expect("made");
    while writer.try_send(&[1; 60]).is_ok() {}
    while reader.try_receive(&mut [0; 60]).is_ok() {}
    let ends = [writer.account(), reader.account()].map(|end| largest(end.expect("here")));
    assert_eq!(ends, [4096, 0]);
}

/// The bytes of a write that failed behind its first bytes were counted, and the call was not.
#[test]
fn a_write_that_moved_something_and_failed_is_counted() {
    let (mut writer, reader) = pipe(&Options::new().capacity_bytes(4096)).expect("made");
    let memory = reader.memory_descriptor().expect("here").try_clone_to_owned().expect("copied");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            common::until("it waits for room", || stat::read(&memory).expect("read").writer.waits);
            drop(reader);
        });
        let error = writer.write(&[1; 5000]).expect_err("nobody reads the rest");
        assert_eq!(error.written_bytes(), Some(4096));
    });
    let account = writer.account().expect("here");
    assert_eq!((account.bytes, account.records), (4096, 1));
    writer.write(&[1]).expect_err("nothing is moved");
    assert_eq!(writer.account().expect("here").records, 1);
}

/// What an end slept in a wait for several things was in no account.
#[test]
fn a_sleep_in_a_wait_for_several_things_is_counted() {
    let (mut writer, reader) = pipe(&Options::new()).expect("made");
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("port");
    let mut wait = Wait::new();
    let reads = wait.add("pipe", reader).expect("added");
    let port = Port::create(&name, &PortOptions::new()).expect("made");
    wait.add("port", port).expect("added");
    // Ten times what is asked of it below: the thread may have to wait for a CPU meanwhile.
    let time = Duration::from_millis(200);
    let (mut ready, account) =
        (Vec::new(), |wait: &Wait<&str>| wait[reads].account().expect("here"));
    assert!(wait.wait_timeout(&mut ready, time).is_err(), "nothing comes");
    let slept = account(&wait);
    assert_eq!((slept.waits, slept.wakes_taken), (1, 0));
    assert!(slept.slept >= 1 && slept.slept_ns > 20_000_000, "{slept:?}");
    let port = stat::port(&name).expect("a port").account.expect("seen");
    assert!(port.waits == 1 && port.slept >= 1 && port.slept_ns > 20_000_000, "{port:?}");
    // One that is woken counts that too, unless it was about to sleep only.
    let memory = wait[reads].memory_descriptor().expect("here").try_clone_to_owned();
    let memory = memory.expect("copied");
    let sleeps = || stat::read(&memory).expect("read").reader.waits;
    for round in 0..100 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                common::until("the reader sleeps", sleeps);
                writer.write(b"come").expect("written");
            });
            wait.wait(&mut ready).expect("it came");
        });
        assert_eq!(ready, ["pipe"]);
        assert_eq!(wait[reads].read(&mut [0; 9]).expect("read"), 4);
        let now = account(&wait);
        if now.wakes_taken > 0 {
            assert!((2..=round + 2).contains(&now.waits) && now.slept > slept.slept, "{now:?}");
            return;
        }
    }
    panic!("nobody woke it: {:?}", account(&wait));
}

/// The counts of a wait: waits, sleeps, nanoseconds asleep and wake-ups taken.
type Slept = [u64; 4];

/// An elastic end of each kind, all in one wait.
struct ElasticEnds {
    wait: Wait<'static, &'static str>,
    stream: Key<ElasticReader>,
    records: Key<ElasticRecordReader>,
    port: PathBuf,
}

impl ElasticEnds {
    fn slept(&mut self) -> [(&'static str, Slept); 3] {
        let [stream, records] = [
            self.wait[self.stream].account().expect("here"),
            self.wait[self.records].account().expect("here"),
        ]
        .map(|end| [end.waits, end.slept, end.slept_ns, end.wakes_taken]);
        let port = stat::port(&self.port).expect("a port").account.expect("seen");
        let port = [port.waits, port.slept, port.slept_ns, port.wakes_taken];
        [("stream", stream), ("records", records), ("port", port)]
    }
}

/// An elastic end waits by a descriptor, and what it slept was in no account.
#[test]
fn a_sleep_of_an_elastic_end_is_counted() {
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).expect("a pool");
    let directory = tempfile::tempdir().expect("a directory");
    let port = directory.path().join("port");
    let (mut writer, reader) = pipe(&Options::new()).expect("made");
    let (_sender, receiver) = records(&Options::new()).expect("made");
    let made = Port::create(&port, &PortOptions::new()).expect("a port");
    let mut wait = Wait::new();
    wait.add("port", made.elastic(&pool).expect("elastic")).expect("added");
    let stream = wait.add("stream", reader.elastic(&pool).expect("elastic")).expect("added");
    let records = wait.add("records", receiver.elastic(&pool).expect("elastic")).expect("added");
    let mut ends = ElasticEnds { wait, stream, records, port };
    // Ten times what is asked of it below: the thread may have to wait for a CPU meanwhile.
    let (mut ready, time) = (Vec::new(), Duration::from_millis(200));
    assert!(ends.wait.wait_timeout(&mut ready, time).is_err(), "nothing comes");
    for (name, slept) in ends.slept() {
        let [waits, sleeps, ns, wakes] = slept;
        assert!(waits == 1 && sleeps >= 1 && ns > 20_000_000 && wakes == 0, "{name}: {slept:?}");
    }
    // One that is woken counts that too, unless it was about to sleep only.
    let stat = format!("/proc/self/task/{}/stat", rustix::thread::gettid());
    let sleeps = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    for _ in 0..100 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                common::until("this thread sleeps", sleeps);
                writer.write(b"come").expect("written")
            });
            ends.wait.wait(&mut ready).expect("it came");
        });
        assert_eq!(ready, ["stream"]);
        assert_eq!(ends.wait[stream].try_read(&mut [0; 9]).expect("read"), 4);
        let account = ends.wait[stream].account().expect("here");
        if account.wakes_taken > 0 {
            assert!(account.waits > 1, "{account:?}");
            return;
        }
    }
    panic!("nobody woke it: {:?}", ends.slept());
}

#[test]
fn it_is_read_from_outside_without_changing_anything() {
    let options = Options::new().capacity_bytes(65_536).segment_bytes(4096);
    let (mut writer, mut reader) = pipe(&options).expect("made");
    let (mut sender, _receiver) = records(&options).expect("made");
    writer.write(&[1; 3000]).expect("written");
    sender.send(&[1; 30]).expect("sent");
    let inode = |memory: rustix::fd::BorrowedFd| rustix::fs::fstat(memory).expect("known").st_ino;
    let own = inode(reader.memory_descriptor().expect("here"));
    let seen = stat::pipes();
    let ours = seen.iter().find(|pipe| pipe.inode == own).expect("found");
    assert_eq!(
        (ours.kind, ours.capacity_bytes, ours.segment_bytes),
        (PipeKind::Stream, 65_536, 4096)
    );
    assert_eq!((ours.fill_bytes, ours.writer.account.bytes), (Some(3000), 3000));
    // Others look at the memory of all pipes too: for a moment they have a descriptor of it.
    assert!(ours.holders.len() >= 2, "both ends are here");
    assert!(
        seen.iter().any(|pipe| pipe.kind == PipeKind::Records && pipe.writer.account.records == 1)
    );
    let again = common::open_memory(own, &ours.holders, false);
    let again = stat::read(&again).expect("read");
    assert_eq!(again.writer, ours.writer);
    drop(writer);
    // The descriptors of the two ends have no certain order: other tests open and close some too.
    let left = reader.memory_descriptor().expect("here").as_raw_fd();
    let closed = stat::read(&stat::open(std::process::id() as i32, left, false).expect("opened"));
    assert!(closed.expect("read").writer.closed);
    assert_eq!(reader.read(&mut [0; 4096]).expect("read"), 3000);
}

#[test]
fn ports_are_told_apart_from_outside() {
    let directory = tempfile::tempdir().expect("a directory");
    let names = ["one", "two"].map(|name| directory.path().join(name));
    let mut ports = names.each_ref().map(|name| {
        assert!(stat::port(name).is_err(), "there is none yet");
        Port::create(name, &PortOptions::new()).expect("a port")
    });
    let mut writer = PortWriter::connect(&names[1], &PortWriterOptions::new()).expect("a writer");
    writer.send(&[1; 100]).expect("sent");
    ports[1].receive(&mut [0; 100]).expect("received");
    writer.send(&[1; 10]).expect("sent");
    let seen = names.each_ref().map(|name| stat::port(name).expect("a port"));
    let own = std::process::id() as i32;
    assert_eq!((&seen[0].path, seen[0].reader, seen[0].writers.len()), (&names[0], Some(own), 0));
    let account = seen[1].account.expect("its board");
    assert_eq!((account.open, account.messages, account.bytes, account.opened), (1, 1, 100, 1));
    let [one] = &seen[1].writers[..] else { panic!("one writer: {seen:?}") };
    assert_eq!((one.pid, one.pieces, one.bytes, one.received), (own, 2, 110, 1));
    assert!(one.let_in && !one.end.closed, "{one:?}");
    assert_eq!(one.uid, rustix::process::getuid().as_raw());
}

#[test]
fn what_is_no_pipe_is_refused() {
    let error = stat::open(std::process::id() as i32, 99_999, false).expect_err("no such");
    assert!(error.to_string().contains("/fd/99999: No such file"), "{error}");
    let file = tempfile::tempfile().expect("a file");
    assert!(stat::read(&file.into()).is_err());
}
