//! Tests of the log with what only it can do: records that are reserved and never written, units
//! written a lap too late, headers spoilt while they are in use.

use super::event::StationChange;
use super::scan::{PATIENCE_NS, Scan, ScanStep};
use super::*;
use layout::UNIT_BYTES;
use rustix::process::Signal;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A log of 128 units in a directory of its own.
struct Small {
    _directory: tempfile::TempDir,
    path: PathBuf,
    log: Log,
}

fn small() -> Small {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let log = Log::create(&path, 4096).expect("made");
    log.set_mask(Kinds::ALL);
    Small { _directory: directory, path, log }
}

fn station(number: u32) -> StationEvent {
    StationEvent { change: StationChange::Attached, pid: number, protocol: 17, port: 7 }
}

/// Events of stations, by their numbers; the reader waits for gaps.
fn numbers(reader: &mut LogReader) -> Vec<u32> {
    let begun = Instant::now();
    let mut numbers = Vec::new();
    loop {
        match reader.next().expect("read") {
            Some(LogEvent { what: EventBody::Station(station), .. }) => numbers.push(station.pid),
            Some(other) => panic!("not written: {other:?}"),
            None if reader.is_at_end() => return numbers,
            None => std::thread::yield_now(),
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "a gap stalls the reader");
    }
}

/// Starts the test `name` in a process of its own, where it is a writer of the log at `path`.
fn start_writer(name: &str, path: &Path, number: u32) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("its path"));
    command.args([&format!("log::tests::{name}"), "--exact", "--quiet"]);
    command.env("WEIR_TEST_WRITER", format!("{name} {number} {}", path.display()));
    command.spawn().expect("started")
}

/// The log, and which writer this is, in a process that [`start_writer`] has made for `name`.
fn as_writer(name: &str) -> Option<(Log, u32)> {
    let wanted = std::env::var("WEIR_TEST_WRITER").ok()?;
    let (number, path) = wanted.strip_prefix(name)?.trim_start().split_once(' ')?;
    Some((Log::open(path).expect("opened"), number.parse().expect("a number")))
}

/// Dies as by `kill -9`.
fn die() -> ! {
    let killed = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
    unreachable!("{killed:?}")
}

#[test]
fn a_writer_killed_within_a_record_stalls_nobody() {
    let name = "a_writer_killed_within_a_record_stalls_nobody";
    if let Some((log, _)) = as_writer(name) {
        log.die_within(3);
        die();
    }
    let Small { path, log, .. } = &small();
    let mut follower = LogReader::open(path).expect("opened");
    log.station(&station(1));
    // It dies with three units reserved; others continue behind them.
    let mut child = start_writer(name, path, 0);
    assert_eq!(child.wait().expect("reaped").signal(), Some(9));
    log.station(&station(2));
    assert_eq!(follower.next().expect("read").map(|event| event.kind()), Some(Kinds::STATIONS));
    assert_eq!(numbers(&mut follower), [2]);
    assert_eq!(follower.counts().expect("counts").unfinished, 1);
    let mut later = LogReader::open(path).expect("opened");
    assert_eq!(numbers(&mut later), [1, 2]);
}

#[test]
fn several_writers_and_one_dies_within_a_record() {
    let name = "several_writers_and_one_dies_within_a_record";
    if let Some((log, writer)) = as_writer(name) {
        for number in 0..2000 {
            if writer == 1 && number == 1000 {
                // As a dump of some bytes: its beginning is never written, nor its end.
                log.die_within(5);
                die();
            }
            log.station(&station(writer << 16 | number));
        }
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let log = Log::create(&path, 1 << 20).expect("made");
    log.set_mask(Kinds::ALL);
    let writers: Vec<_> = (0..3).map(|writer| start_writer(name, &path, writer)).collect();
    for (number, mut writer) in writers.into_iter().enumerate() {
        assert_eq!(writer.wait().expect("reaped").success(), number != 1);
    }
    let mut reader = LogReader::open(&path).expect("opened");
    let found = numbers(&mut reader);
    for (writer, count) in [(0, 2000), (1, 1000), (2, 2000)] {
        let own: Vec<u32> = found
            .iter()
            .filter(|found| *found >> 16 == writer)
            .map(|found| found & 0xffff)
            .collect();
        assert_eq!(own, (0..count).collect::<Vec<_>>(), "writer {writer}");
    }
    assert_eq!(reader.counts().expect("counts").unfinished, 1);
}

#[test]
fn what_is_written_a_lap_too_late_is_no_event() {
    let Small { path, log, .. } = &small();
    log.station(&station(0));
    let late = log.reserve(1);
    for number in 1..=128 {
        log.station(&station(number));
    }
    // The stopped writer continues: over the unit of 128.
    let unit = station(999).pack().at(7);
    log.store(late, &unit, unit.seal());
    let mut reader = LogReader::open(path).expect("opened");
    assert_eq!(numbers(&mut reader), (1..128).collect::<Vec<_>>());
    assert_eq!(reader.counts().expect("counts").unfinished, 1);
}

#[test]
fn a_writer_stopped_between_two_words_spoils_one_event_and_shows_none() {
    let Small { path, log, .. } = &small();
    let late = log.reserve(1);
    for number in 0..128 {
        log.station(&station(number));
    }
    // Only one of its words, and no tag.
    let at = log.index(late) + 2;
    log.0.words.word(at).store(0x1234_5678_9abc_def0, Ordering::Relaxed);
    let mut reader = LogReader::open(path).expect("opened");
    assert_eq!(numbers(&mut reader), (0..127).collect::<Vec<_>>());
    assert_eq!(reader.counts().expect("counts").unfinished, 1);
}

#[test]
fn a_dump_that_others_overtake_is_given_up() {
    let Small { path, log, .. } = &small();
    log.0.words.word(word::HEAD).store(0, Ordering::Relaxed);
    let position = log.reserve(40);
    assert!(!log.is_overtaken(position));
    log.reserve(88);
    assert!(!log.is_overtaken(position));
    log.reserve(1);
    assert!(log.is_overtaken(position));
    assert_eq!(numbers(&mut LogReader::open(path).expect("opened")), [0; 0]);
}

#[test]
fn an_absurd_head_is_no_hang() {
    for head in [1, 127, 1 << 28, 1 << 40, u64::MAX - 200, u64::MAX] {
        let Small { path, log, .. } = &small();
        log.station(&station(1));
        log.0.words.word(word::HEAD).store(head, Ordering::Relaxed);
        let mut reader = LogReader::open(path).expect("opened");
        let found = numbers(&mut reader);
        assert!(found.is_empty() || found == [1], "{found:?}");
        // Writers continue at any head, also where it begins anew.
        for number in 0..300 {
            log.station(&station(number));
        }
        log.dump_in(&[7; 700]);
    }
}

#[test]
fn a_head_that_goes_back_is_an_error() {
    let Small { path, log, .. } = &small();
    log.station(&station(1));
    let mut reader = LogReader::open(path).expect("opened");
    log.0.words.word(word::HEAD).store(0, Ordering::Relaxed);
    let error = reader.next().expect_err("spoilt");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("its head went backwards"), "{error}");
}

#[test]
fn a_log_shortened_while_it_is_read_is_an_error() {
    let Small { path, log, .. } = &small();
    log.station(&station(1));
    let mut reader = LogReader::open(path).expect("opened");
    let file = std::fs::File::options().write(true).open(path).expect("opened");
    file.set_len(4096).expect("shortened");
    let error = reader.next().expect_err("shortened");
    assert!(error.to_string().contains("it was shortened"), "{error}");
    file.set_len(100).expect("shortened");
    assert_eq!(reader.counts().expect_err("shortened").kind(), ErrorKind::Corrupt);
}

#[test]
fn records_of_absurd_lengths_are_stepped_over() {
    let Small { path, log, .. } = &small();
    for kept in [0_u64, 9, 5000, 65_535, u64::from(u32::MAX)] {
        // A dump that says it keeps more than there is.
        let packed = pack_dump(Direction::In, 9, &[]);
        let mut unit = packed.at(1);
        unit.payload[1] = 9 << 32 | kept;
        let position = log.reserve(1);
        log.store(position, &unit, unit.seal());
        log.station(&station(kept as u32));
    }
    let mut reader = LogReader::open(path).expect("opened");
    let mut seen = Vec::new();
    let begun = Instant::now();
    while !(reader.is_at_end() && reader.next().expect("read").is_none()) {
        match reader.next().expect("read") {
            Some(LogEvent { what: EventBody::Station(station), .. }) => seen.push(station.pid),
            Some(LogEvent { what: EventBody::Dump(dump), .. }) => assert!(dump.bytes.is_empty()),
            _ => {}
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "no hang");
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[test]
fn a_synchronised_event_may_lie_across_the_end_of_the_ring() {
    let Small { path, log, .. } = &small();
    assert_eq!(log.set_sync_mask(Kinds::STATIONS.and(Kinds::DUMPS_OUT)), Kinds::NONE);
    assert_eq!(log.mask(), Kinds::ALL, "the other mask stays");
    log.station(&station(1));
    // Over the end of the ring: two ranges.
    log.reserve(120);
    log.dump_out(&[1; 400]);
    let reader = LogReader::open(path).expect("opened");
    assert_eq!(reader.counts().expect("counts").unsynced, 0);
}

/// Units of a scan that begins at position 0, each with its event's number or nothing.
fn units(of: &[Option<u32>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (position, number) in of.iter().enumerate() {
        let unit = station(number.unwrap_or(0)).pack().at(0);
        let tag = number.map_or(0, |_| tag_at(unit.seal(), position as u64));
        for word in [tag, unit.payload[0], unit.payload[1], unit.payload[2]] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
    }
    bytes
}

#[test]
fn a_gap_is_waited_for_and_then_given_up() {
    let shape = LogShape { units: 128, created_ns: 0 };
    let mut scan = Scan::new(shape, 0, 0);
    let bytes = units(&[None, Some(5)]);
    scan.note_head(2, 10).expect("a head");
    assert_eq!(scan.step(&bytes), ScanStep::Absent);
    assert_eq!(scan.absent(), None, "just begun");
    // The head of 10 ns is only marked once the first mark is old; then it must be old itself.
    scan.note_head(2, PATIENCE_NS).expect("a head");
    assert_eq!(scan.absent(), None);
    scan.note_head(2, 2 * PATIENCE_NS - 1).expect("a head");
    assert_eq!(scan.absent(), None);
    scan.note_head(2, 2 * PATIENCE_NS).expect("a head");
    assert_eq!(scan.absent(), Some(ScanStep::Over(1)));
    assert!(matches!(scan.step(&bytes[UNIT_BYTES..]), ScanStep::Event(_, 1)));
    assert_eq!((scan.unfinished, scan.overwritten, scan.behind()), (1, 0, 0));
}

#[test]
fn a_gap_half_a_ring_behind_is_not_waited_for() {
    let shape = LogShape { units: 128, created_ns: 0 };
    let mut scan = Scan::new(shape, 0, 0);
    scan.note_head(64, 1).expect("a head");
    assert_eq!((scan.step(&units(&[None])), scan.absent()), (ScanStep::Absent, None));
    scan.note_head(65, 2).expect("a head");
    assert_eq!(scan.absent(), Some(ScanStep::Over(1)));
    assert_eq!(scan.note_head(64, 3), Err("its head went backwards"));
}

#[test]
fn what_a_gap_hid_is_written_after_all_and_a_later_reader_sees_it() {
    let Small { path, log, .. } = &small();
    let slow = log.reserve(1);
    log.station(&station(2));
    let mut first = LogReader::open(path).expect("opened");
    assert_eq!(numbers(&mut first), [2]);
    let unit = station(1).pack().at(7);
    log.store(slow, &unit, unit.seal());
    assert_eq!(numbers(&mut LogReader::open(path).expect("opened")), [1, 2]);
}

#[test]
fn any_bytes_in_the_ring_are_no_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..200 {
        let Small { path, log, .. } = &small();
        for number in 0..round {
            log.station(&station(number));
        }
        let file = std::fs::File::options().write(true).open(path).expect("opened");
        for _ in 0..16 {
            let bytes = random.u64(..).to_ne_bytes();
            file.write_all_at(&bytes, 4096 + random.u64(..4096 - 8)).expect("written");
        }
        let mut reader = LogReader::open(path).expect("opened");
        let found = numbers_or_other(&mut reader);
        assert!(found <= 128, "{found}");
    }
}

/// How many events are there, whatever they are; gaps are waited for once.
fn numbers_or_other(reader: &mut LogReader) -> usize {
    let mut found = 0;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        match reader.next().expect("read") {
            Some(_) => found += 1,
            None if reader.is_at_end() || found > 0 => return found,
            // Only gaps: looked at as long as it takes to give them up, in the first rounds.
            None => std::thread::yield_now(),
        }
    }
    panic!("no hang");
}
