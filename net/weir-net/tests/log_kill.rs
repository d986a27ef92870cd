//! A log whose writers are killed at random moments, and one that many threads write at once.

use fastrand::Rng;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_measure::sys::fork;
use weir_net::log::{
    Direction, EventBody, EventReason, FailureEvent, Kinds, Log, LogEvent, LogReader,
};
use weir_sys::words::Words;

/// Rounds of kills. `WEIR_KILLS` sets another number.
fn rounds() -> u64 {
    std::env::var("WEIR_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(60)
}

/// How many writers a round has.
const WRITERS: usize = 3;
/// The most events of a writer. A ring of 1 MiB holds them all, dumps too.
const MOST: u64 = 2500;

/// Event `number` of a writer: usually a small one, sometimes a dump.
fn write(log: &Log, writer: usize, number: u64) {
    if number % 16 == 7 {
        log.dump_in(&bytes_of(writer, number));
        return;
    }
    let source = Ipv4Addr::from_bits(writer as u32);
    let target = Ipv4Addr::from_bits(!(writer as u32) ^ number as u32);
    let reason = EventReason::CHECKSUM;
    log.error(&FailureEvent { reason, protocol: 1, source, target, value: number as u32 });
}

fn bytes_of(writer: usize, number: u64) -> Vec<u8> {
    let mut random = Rng::with_seed((writer as u64) << 32 | number);
    let mut bytes = vec![writer as u8];
    bytes.extend_from_slice(&number.to_le_bytes());
    let length = random.usize(..200);
    bytes.extend((0..length).map(|_| random.u8(..)));
    bytes
}

/// Returns the writer and the number of an event. Fails if the event is not whole.
fn whose(event: &LogEvent) -> (usize, u64) {
    match &event.what {
        EventBody::Failure(failure) => {
            let (writer, number) = (failure.source.to_bits(), failure.value);
            assert_eq!(failure.target.to_bits(), !writer ^ number, "torn");
            (writer as usize, u64::from(number))
        }
        EventBody::Dump(dump) => {
            let number = dump.bytes[1..9].try_into().map(u64::from_le_bytes).expect("8 bytes");
            let writer = usize::from(dump.bytes[0]);
            assert_eq!(dump.bytes, bytes_of(writer, number), "torn");
            assert_eq!(dump.direction, Direction::In);
            (writer, number)
        }
        other => panic!("never written: {other:?}"),
    }
}

/// Returns what is in the log: the events of each writer in the order of the log.
fn read_all(reader: &mut LogReader) -> BTreeMap<usize, Vec<u64>> {
    let begun = Instant::now();
    let mut found: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    loop {
        match reader.next().expect("read") {
            Some(event) => {
                let (writer, number) = whose(&event);
                found.entry(writer).or_default().push(number);
            }
            None if reader.is_at_end() => return found,
            None => std::thread::yield_now(),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the reader is stalled");
    }
}

fn shared_words(path: &Path) -> Words {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
    let file = file.expect("made");
    file.set_len(4096).expect("made longer");
    Words::of_file(&file, 4096).expect("mapped")
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    let seed = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("WEIR_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let acknowledged = shared_words(&directory.path().join("acknowledged"));
    let mut gaps = 0;
    for round in 0..rounds() {
        let log = Log::create(&path, 1 << 20).expect("made");
        log.set_mask(Kinds::ALL);
        let count = |writer: usize| acknowledged.word(writer * 8);
        (0..WRITERS).for_each(|writer| count(writer).store(0, Ordering::SeqCst));
        let mut children: Vec<fork::Child> = (0..WRITERS)
            .map(|writer| {
                let body = || {
                    for number in 0..MOST {
                        write(&log, writer, number);
                        count(writer).store(number + 1, Ordering::SeqCst);
                    }
                    0
                };
                // SAFETY: other threads of the test have nothing locked that the body needs.
                unsafe { fork::copy(body) }.expect("forked")
            })
            .collect();
        // The first writer dies first, and the others continue. Each dies at a moment of its own.
        for (writer, child) in children.iter_mut().enumerate() {
            let instant = random.u64(..MOST);
            let begun = Instant::now();
            while count(writer).load(Ordering::SeqCst) < instant {
                assert!(begun.elapsed() < Duration::from_secs(60), "it writes");
                std::hint::spin_loop();
            }
            (0..random.u32(..300)).for_each(|_| std::hint::spin_loop());
            weir_measure::sys::signals::send(child.pid(), 9).expect("killed");
            child.wait().expect("reaped");
        }
        let mut reader = LogReader::open(&path).expect("opened");
        let found = read_all(&mut reader);
        for writer in 0..WRITERS {
            let own = found.get(&writer).map(Vec::as_slice).unwrap_or_default();
            let expected: Vec<u64> = (0..own.len() as u64).collect();
            assert_eq!(own, expected, "round {round}, writer {writer}: none missing, in order");
            let said = count(writer).load(Ordering::SeqCst) as usize;
            let range = said..=said + 1;
            assert!(range.contains(&own.len()), "round {round}: {} of {said}", own.len());
        }
        let counts = reader.counts().expect("counts");
        assert!(counts.unfinished <= WRITERS as u64, "at most one each: {counts:?}");
        assert_eq!(counts.overwritten_units, 0);
        gaps += counts.unfinished;
    }
    eprintln!("{} rounds, {gaps} killed within a record", rounds());
}

#[test]
fn laps_of_many_threads_tear_nothing() {
    const THREADS: usize = 4;
    const EVENTS: u64 = 20_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    // A small ring: it goes round 25 times while it is read.
    let log = Log::create(&path, 128 << 10).expect("made");
    log.set_mask(Kinds::ALL);
    let mut reader = LogReader::open(&path).expect("opened");
    let mut last: BTreeMap<usize, u64> = BTreeMap::new();
    let mut events = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|writer| {
                let log = log.clone();
                scope.spawn(move || (0..EVENTS).for_each(|number| write(&log, writer, number)))
            })
            .collect();
        loop {
            let over = threads.iter().all(std::thread::ScopedJoinHandle::is_finished);
            while let Some(event) = reader.next().expect("read") {
                let (writer, number) = whose(&event);
                let before = last.insert(writer, number);
                assert!(before.is_none_or(|before| before < number), "in order");
                events += 1;
            }
            if over && reader.is_at_end() {
                break;
            }
        }
    });
    let counts = reader.counts().expect("counts");
    eprintln!("{events} of {} events read; {counts:?}", THREADS as u64 * EVENTS);
    let units: u64 = (0..THREADS)
        .flat_map(|writer| (0..EVENTS).map(move |number| (writer, number)))
        .map(|(writer, number)| match number % 16 {
            7 => 1 + (bytes_of(writer, number).len() as u64 - 8).div_ceil(24),
            _ => 1,
        })
        .sum();
    assert_eq!(reader.head(), units, "each took its units once");
    assert!(events > 0);
    let all = THREADS as u64 * EVENTS;
    // Each event was seen, was overwritten (a unit each at least), or was lost with a record that
    // was overtaken.
    assert!(events <= all && all - events <= counts.overwritten_units + counts.unfinished * 64);
}
