//! The Rust sides of the bench: the loops of `worker.c`, with the library inlined into them, or called
//! as C has to call it.

use std::hint::black_box;
use std::time::{Duration, Instant};
use weir::{Listener, Options, RecordReader, RecordWriter};

const RECORD: usize = 64;
const BATCH: u64 = 64;

/// How the loops send and receive.
trait Calls {
    fn send(writer: &mut RecordWriter, record: &[u8; RECORD]);
    fn receive(reader: &mut RecordReader, record: &mut [u8; RECORD]);
}

/// The library in the loop: the length of a record is known.
struct Inlined;

impl Calls for Inlined {
    fn send(writer: &mut RecordWriter, record: &[u8; RECORD]) {
        writer.send(record).expect("sent");
    }

    fn receive(reader: &mut RecordReader, record: &mut [u8; RECORD]) {
        reader.receive(record).expect("received").expect("a record");
    }
}

/// The library out of the loop, and a length that it does not know: the least that any boundary costs.
struct Called;

impl Calls for Called {
    fn send(writer: &mut RecordWriter, record: &[u8; RECORD]) {
        #[inline(never)]
        fn send(writer: &mut RecordWriter, record: &[u8]) -> bool {
            writer.send(record).is_ok()
        }
        assert!(send(writer, &record[..black_box(RECORD)]), "sent");
    }

    fn receive(reader: &mut RecordReader, record: &mut [u8; RECORD]) {
        #[inline(never)]
        fn receive(reader: &mut RecordReader, record: &mut [u8]) -> bool {
            matches!(reader.receive(record), Ok(Some(_)))
        }
        assert!(receive(reader, &mut record[..black_box(RECORD)]), "received");
    }
}

/// Does what `worker.c` does with these arguments, which may have `called` before them.
pub fn work(words: &[&str]) {
    match words {
        ["called", words @ ..] => work_by::<Called>(words),
        words => work_by::<Inlined>(words),
    }
}

fn work_by<C: Calls>(words: &[&str]) {
    let number = |word: &str| word.parse().expect("a number");
    match *words {
        ["one", records] => one::<C>(number(records)),
        ["write", path, records] => write_to::<C>(path, number(records)),
        ["read", path, records] => read_from::<C>(path, number(records)),
        _ => panic!("{words:?}"),
    }
}

fn print(begun: Instant, records: u64) {
    println!("{:.4}", begun.elapsed().as_nanos() as f64 / records as f64);
}

fn one<C: Calls>(records: u64) {
    let (mut writer, mut reader) = weir::records(&Options::new()).expect("a pipe");
    let (record, mut got) = ([1; RECORD], [0; RECORD]);
    let begun = Instant::now();
    for _ in 0..records / BATCH {
        for _ in 0..BATCH {
            C::send(&mut writer, &record);
        }
        for _ in 0..BATCH {
            C::receive(&mut reader, &mut got);
        }
    }
    print(begun, records);
}

fn write_to<C: Calls>(path: &str, records: u64) {
    let options = Options::new().connect_timeout(Duration::from_secs(10));
    let mut writer = RecordWriter::connect(path, &options).expect("connected");
    for _ in 0..records {
        C::send(&mut writer, &[1; RECORD]);
    }
}

fn read_from<C: Calls>(path: &str, records: u64) {
    let listener = Listener::bind(path).expect("a listener");
    let mut reader: RecordReader =
        listener.accept_timeout(Duration::from_secs(10)).expect("a connection");
    let mut record = [0; RECORD];
    C::receive(&mut reader, &mut record);
    let begun = Instant::now();
    for _ in 1..records {
        C::receive(&mut reader, &mut record);
    }
    print(begun, records - 1);
}
