//! The log as programs use it: they make and open it, choose kinds, and follow it.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use weir_net::ErrorKind;
use weir_net::drop_reason::DropReason;
use weir_net::log::{
    Asker, Direction, Dropped, EventBody, FailureEvent, FlowChange, FlowEvent, Kinds, Log,
    LogReader, Packet, RequestEvent, StationChange, StationEvent, Transaction, Transport, old_name,
};
use weir_net::stalls::WaitedSide;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).expect("a directory");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

const HERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

fn packet(id: u16) -> Packet {
    let transport = Transport::Ports { source: 5353, target: 69, id };
    Packet { source: THERE, target: HERE, protocol: 17, transport, length_bytes: 84 }
}

fn station(pid: u32) -> StationEvent {
    StationEvent { change: StationChange::Died, pid, protocol: 1, port: 0 }
}

fn failure(value: u32) -> FailureEvent {
    FailureEvent {
        reason: DropReason::Device.into(),
        protocol: 0,
        source: THERE,
        target: HERE,
        value,
    }
}

/// One event of each kind, and what a reader must find in it.
fn one_of_each(log: &Log) -> Vec<(Kinds, EventBody)> {
    let transaction = Transaction { direction: Direction::Out, packet: packet(9) };
    let dropped = Dropped { reason: DropReason::NoPort.into(), packet: packet(0xffff) };
    let bytes: Vec<u8> = (0..=255).collect();
    log.transaction(&transaction);
    log.error(&failure(u32::MAX));
    log.dump_in(&bytes);
    log.dump_out(&bytes[..3]);
    log.dropped(&dropped);
    log.station(&station(u32::MAX));
    let flow = FlowEvent {
        change: FlowChange::Stalled { waits_for: WaitedSide::Other },
        protocol: 17,
        port: 69,
        remote: [10, 9, 0, 1].into(),
        remote_port: u16::MAX,
    };
    log.flow(&flow);
    let target = [10, 9, 0, 1].into();
    let request =
        |asker, protocol| RequestEvent::new(asker, target, protocol, &[8, 0, 1, 2, 3, 4, 5, 6, 7]);
    let local = request(Asker::Local { pid: u32::MAX }, 3);
    let foreign = request(Asker::Foreign { source: [10, 9, 0, 7].into() }, 1);
    log.request(&local);
    log.request(&foreign);
    let dump = |direction, bytes: &[u8]| {
        let length_bytes = bytes.len() as u32;
        EventBody::Dump(weir_net::log::Dump { direction, length_bytes, bytes: bytes.to_vec() })
    };
    vec![
        (Kinds::TRANSACTIONS, EventBody::Transaction(transaction)),
        (Kinds::ERRORS, EventBody::Failure(failure(u32::MAX))),
        (Kinds::DUMPS_IN, dump(Direction::In, &bytes)),
        (Kinds::DUMPS_OUT, dump(Direction::Out, &bytes[..3])),
        (Kinds::DROPS, EventBody::Dropped(dropped)),
        (Kinds::STATIONS, EventBody::Station(station(u32::MAX))),
        (Kinds::FLOWS, EventBody::Flow(flow)),
        (Kinds::LOCAL_REQUESTS, EventBody::Request(local)),
        (Kinds::FOREIGN_REQUESTS, EventBody::Request(foreign)),
    ]
}

fn read_all(reader: &mut LogReader) -> Vec<EventBody> {
    let next = || reader.next().expect("read");
    std::iter::from_fn(next).map(|event| event.what).collect()
}

#[test]
fn each_kind_has_a_bit_that_all_see_at_once() {
    let place = Place::new();
    let log = Log::create(place.path(), 64 << 10).expect("made");
    let other = Log::open(place.path()).expect("opened");
    let mut reader = LogReader::open(place.path()).expect("opened");
    assert_eq!(log.mask(), Kinds::USUAL);
    for bits in 0..=Kinds::ALL.bits() {
        let kinds = Kinds::of_bits(bits);
        other.set_mask(kinds);
        assert_eq!(log.mask(), kinds);
        let written = one_of_each(&log);
        let expected: Vec<EventBody> = written
            .into_iter()
            .filter(|(kind, _)| kinds.has(*kind))
            .inspect(|(kind, _)| assert!(log.wants(*kind)))
            .map(|(_, what)| what)
            .collect();
        assert_eq!(read_all(&mut reader), expected, "{kinds}");
    }
    assert_eq!(reader.counts().expect("counts"), weir_net::log::LogCounts::default());
}

#[test]
fn the_masks_are_apart() {
    let place = Place::new();
    let log = Log::create(place.path(), 4096).expect("made");
    assert_eq!((log.mask(), log.sync_mask()), (Kinds::USUAL, Kinds::NONE));
    assert_eq!(log.set_sync_mask(Kinds::ERRORS), Kinds::NONE);
    assert_eq!(log.set_mask(Kinds::ALL), Kinds::USUAL);
    assert_eq!(log.set_sync_mask(Kinds::NONE), Kinds::ERRORS);
    assert_eq!((log.mask(), log.sync_mask()), (Kinds::ALL, Kinds::NONE));
}

#[test]
fn dumps_keep_what_fits() {
    let place = Place::new();
    let log = Log::create(place.path(), 4096).expect("made");
    log.set_mask(Kinds::DUMPS_IN);
    let mut reader = LogReader::open(place.path()).expect("opened");
    let mut kept = |bytes: &[u8]| {
        log.dump_in(bytes);
        let Some(EventBody::Dump(dump)) = reader.next().expect("read").map(|event| event.what)
        else {
            panic!("no dump");
        };
        assert_eq!(dump.length_bytes as usize, bytes.len());
        assert!(bytes.starts_with(&dump.bytes));
        dump.bytes.len()
    };
    let long = vec![0xa5; 100_000];
    for length in [0, 1, 7, 8, 9, 31, 32, 33, 752] {
        assert_eq!(kept(&long[..length]), length);
    }
    // 128 units: a record has at most 32 of them.
    assert_eq!([kept(&long[..753]), kept(&long)], [752, 752]);
    let large = Place::new();
    let log = Log::create(large.path(), 1 << 20).expect("made");
    log.set_mask(Kinds::DUMPS_OUT);
    log.dump_out(&long);
    let event = LogReader::open(large.path()).expect("opened").next().expect("read");
    let Some(EventBody::Dump(dump)) = event.map(|event| event.what) else { panic!("no dump") };
    assert_eq!((dump.length_bytes, dump.bytes.len()), (100_000, 65_535));
}

#[test]
fn a_log_has_its_space_and_is_this_users() {
    let place = Place::new();
    for (asked, file) in [(0, 8192), (1, 8192), (4096, 8192), (4097, 12_288), (100_000, 135_168)] {
        let _log = Log::create(place.path(), asked).expect("made");
        let metadata = place.path().metadata().expect("there");
        assert_eq!(metadata.len(), file, "{asked}");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        let blocks = std::os::unix::fs::MetadataExt::blocks(&metadata);
        assert!(blocks * 512 >= file, "space is set aside: {blocks} blocks");
    }
    let error = Log::create(place.path(), (1 << 30) + 1).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(place.names(), ["log", "log.old"], "nothing is left over");
}

#[test]
fn the_log_before_is_kept_and_a_follower_continues_with_the_new_one() {
    let place = Place::new();
    let first = Log::create(place.path(), 4096).expect("made");
    let mut reader = LogReader::open(place.path()).expect("opened");
    first.station(&station(1));
    assert!(!reader.reopen().expect("looked"), "it is the same");
    let second = Log::create(place.path(), 4096).expect("made");
    // A process that still has the first file open writes there.
    first.station(&station(2));
    second.station(&station(3));
    let pids = |reader: &mut LogReader| -> Vec<u32> {
        let pid = |what| match what {
            EventBody::Station(station) => station.pid,
            other => panic!("{other:?}"),
        };
        read_all(reader).into_iter().map(pid).collect()
    };
    assert_eq!(pids(&mut reader), [1, 2]);
    assert!(reader.reopen().expect("looked"));
    assert_eq!(pids(&mut reader), [3]);
    let mut old = LogReader::open(old_name(&place.path())).expect("kept");
    assert_eq!(pids(&mut old), [1, 2]);
    std::fs::remove_file(place.path()).expect("removed");
    assert!(!reader.reopen().expect("looked"), "nothing is there yet");
    std::fs::write(place.path(), "else").expect("written");
    assert_eq!(reader.reopen().expect_err("no log").kind(), ErrorKind::Corrupt);
}

/// A reader once bounded one call by its position. When it was more than two laps behind, it said
/// that there was nothing: a follower slept, and reported the missing events too early.
#[test]
fn a_reader_left_far_behind_finds_at_once_what_there_is() {
    let place = Place::new();
    let log = Log::create(place.path(), 4096).expect("made");
    let mut reader = LogReader::open(place.path()).expect("opened");
    log.station(&station(1));
    assert_eq!(read_all(&mut reader).len(), 1);
    (0..1000).for_each(|pid| log.station(&station(pid)));
    let what = reader.next().expect("read").map(|event| event.what);
    assert_eq!(what, Some(EventBody::Station(station(1000 - 128))));
    assert_eq!(reader.counts().expect("counts").overwritten_units, 1000 - 128);
}

#[test]
fn what_is_no_log_is_refused_and_left_alone() {
    let place = Place::new();
    let path = place.path();
    let mut header = Vec::new();
    Log::create(&path, 4096).expect("made");
    header.extend_from_slice(&std::fs::read(&path).expect("read"));
    let spoilt = |index: usize, value: u64| {
        let mut bytes = header.clone();
        bytes[index * 8..][..8].copy_from_slice(&value.to_ne_bytes());
        bytes
    };
    let mut cases = vec![
        (Vec::new(), "too short"),
        (vec![0; 4095], "too short"),
        (vec![0; 8192], "not a log"),
        (b"a text\n".repeat(1000), "not a log"),
        (header[..8191].to_vec(), "8191 bytes"),
        ([&header[..], &[0]].concat(), "8193 bytes"),
        (spoilt(1, 2), "version"),
    ];
    for units in [0, 1, 127, 256, 1 << 26, 1 << 63, u64::MAX] {
        cases.push((spoilt(2, units), "header says"));
        if let Some(last) = cases.last_mut().filter(|_| units != 256) {
            last.1 = "header is corrupt";
        }
    }
    for (bytes, why) in cases {
        std::fs::write(&path, &bytes).expect("written");
        for error in [
            Log::open(&path).expect_err("refused"),
            LogReader::open(&path).map(drop).expect_err("refused"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            let text = error.to_string();
            assert!(text.contains(why) && text.contains("/log'"), "{text}, not {why}");
        }
        // A file that used to be a log does not keep a switch from starting.
        if bytes.starts_with(b"weirlog\n") {
            Log::create(&path, 4096).expect("made");
            assert_eq!(std::fs::read(old_name(&path)).expect("read"), bytes, "kept");
            continue;
        }
        assert_eq!(Log::create(&path, 4096).expect_err("refused").kind(), ErrorKind::Taken);
        assert_eq!(std::fs::read(&path).expect("read"), bytes, "left alone");
    }
}

#[test]
fn links_directories_and_pipes_are_refused() {
    let place = Place::new();
    let real = place.directory.path().join("real");
    Log::create(&real, 4096).expect("made");
    let refused = |path: &Path, why: &str| {
        for error in [
            Log::open(path).map(drop).expect_err("refused"),
            LogReader::open(path).map(drop).expect_err("refused"),
        ] {
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!(Log::create(path, 4096).map(drop).expect_err("x").kind(), ErrorKind::Taken);
    };
    let link = place.directory.path().join("link");
    symlink(&real, &link).expect("linked");
    refused(&link, "symbolic link");
    let directory = place.directory.path().join("directory");
    std::fs::create_dir(&directory).expect("made");
    refused(&directory, "not a file");
    let fifo = place.directory.path().join("fifo");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("made");
    refused(&fifo, "not a file");
    let missing = place.directory.path().join("missing");
    let error = Log::open(&missing).map(drop).expect_err("refused");
    assert!(error.to_string().starts_with("cannot open log '"), "{error}");
}

#[test]
fn a_log_that_others_may_write_is_only_read() {
    let place = Place::new();
    Log::create(place.path(), 4096).expect("made").station(&station(1));
    let file = File::open(place.path()).expect("opened");
    file.set_permissions(std::fs::Permissions::from_mode(0o620)).expect("set");
    assert_eq!(Log::open(place.path()).expect_err("refused").kind(), ErrorKind::Denied);
    assert_eq!(read_all(&mut LogReader::open(place.path()).expect("opened")).len(), 1);
}

#[test]
fn a_full_disk_is_an_error_when_the_log_is_made() {
    // A limit on the length of files stands in for a full disk: both make the reservation of space
    // fail.
    if let Some(path) = std::env::var_os("WEIR_TEST_FULL") {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = Rlimit { current: Some(1 << 16), maximum: Some(1 << 16) };
        setrlimit(Resource::Fsize, limit).expect("limited");
        assert_eq!(Log::create(path, 1 << 20).expect_err("full").kind(), ErrorKind::Os);
        return;
    }
    let place = Place::new();
    let before = Log::create(place.path(), 4096).expect("made");
    before.station(&station(7));
    // Runs this test again, in a process of its own. A file that is too long also raises a signal
    // (SIGXFSZ).
    let mut child = std::process::Command::new("sh");
    child
        .args(["-c", "trap '' 25; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().expect("a path"));
    child.args(["log::a_full_disk_is_an_error_when_the_log_is_made", "--exact", "--quiet"]);
    child.env("WEIR_TEST_FULL", place.path());
    // Its output goes to a pipe, because the limit also holds for a file that the tests write to.
    let output = child.output().expect("started");
    assert!(output.status.success(), "{output:?}");
    // The old log was once moved away for a new one that was not made: it seemed to be none.
    assert_eq!(place.names(), ["log"], "nothing is left over");
    let mut reader = LogReader::open(place.path()).expect("the log before is in its place");
    assert_eq!(read_all(&mut reader), [EventBody::Station(station(7))]);
}

#[test]
fn packets_are_told_apart_from_their_bytes() {
    let mut bytes = vec![
        0x45, 0, 0, 84, 0x12, 0x34, 0x40, 0, 64, 1, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2, //
        8, 0, 0, 0, 0, 7, 0, 1,
    ];
    let echo = Packet {
        source: THERE,
        target: HERE,
        protocol: 1,
        transport: Transport::Icmp { kind: 8, code: 0, id: 7, sequence: 1 },
        length_bytes: 28,
    };
    assert_eq!(Packet::of(&bytes), echo);
    // One packet is a byte short of an ICMP header, and one is a fragment other than the first.
    let bare = Packet { transport: Transport::None { id: 0x1234 }, ..echo };
    assert_eq!(Packet::of(&bytes[..27]), Packet { length_bytes: 27, ..bare });
    bytes[7] = 1;
    assert_eq!(Packet::of(&bytes), bare);
    bytes[7] = 0;
    // One header has options, one claims to be longer than the packet, and one has 4 bytes.
    bytes[9] = 17;
    bytes[0] = 0x46;
    bytes.extend_from_slice(&[0, 9, 0, 0]);
    let udp = Transport::Ports { source: 7, target: 1, id: 0x1234 };
    let with_options = Packet::of(&[&bytes[..20], &[1; 4], &[0, 7, 0, 1, 0, 0, 0, 0]].concat());
    assert_eq!((with_options.transport, with_options.protocol), (udp, 17));
    bytes[0] = 0x4f;
    assert_eq!(Packet::of(&bytes).transport, Transport::None { id: 0x1234 });
    bytes[0] = 0x41;
    assert_ne!(Packet::of(&bytes).transport, udp);
    for short in [&bytes[..0], &bytes[..19], &[0x60; 40]] {
        let nothing = Packet::of(short);
        assert_eq!((nothing.source, nothing.protocol), (Ipv4Addr::UNSPECIFIED, 0));
        assert_eq!(usize::from(nothing.length_bytes), short.len());
    }
    assert_eq!(Packet::of(&vec![0x45; 70_000]).length_bytes, u16::MAX);
}

/// Page faults of this thread so far: `minflt` and `majflt` of proc_pid_stat(5).
fn faults() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").expect("read");
    let (_, fields) = text.rsplit_once(") ").expect("a name");
    let field = |at: usize| fields.split(' ').nth(at).and_then(|field| field.parse::<u64>().ok());
    field(7).expect("minflt") + field(9).expect("majflt")
}

#[test]
fn a_prepared_log_has_its_pages_before_the_first_event() {
    let place = Place::new();
    let log = Log::create(place.path(), 1 << 20).expect("created");
    log.error(&failure(1));
    log.prepare();
    let before = faults();
    for value in 2..1 << 15 {
        log.error(&failure(value));
    }
    // The ring has 256 pages. Some may have been written to the disk meanwhile, and fault again.
    assert!(faults() - before < 64, "{} faults", faults() - before);
    let mut reader = LogReader::open(place.path()).expect("opened");
    let first = reader.next().expect("read").expect("an event");
    assert!(matches!(first.what, EventBody::Failure(failure) if failure.value == 1), "{first:?}");
}
