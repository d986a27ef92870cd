//! The Rust side of the bench: the loops of `worker.c`.

use std::time::{Duration, Instant};
use weir::{Listener, Options, RecordReader, RecordWriter};

const RECORD: usize = 64;
const BATCH: u64 = 64;

/// Does what `worker.c` does with these arguments.
pub fn work(words: &[&str]) {
    let number = |word: &str| word.parse().expect("a number");
    match *words {
        ["one", records] => one(number(records)),
        ["write", path, records] => write_to(path, number(records)),
        ["read", path, records] => read_from(path, number(records)),
        _ => panic!("{words:?}"),
    }
}

fn print(begun: Instant, records: u64) {
    println!("{:.4}", begun.elapsed().as_nanos() as f64 / records as f64);
}

fn one(records: u64) {
    let (mut writer, mut reader) = weir::records(&Options::new()).expect("a pipe");
    let (record, mut got) = ([1; RECORD], [0; RECORD]);
    let begun = Instant::now();
    for _ in 0..records / BATCH {
        for _ in 0..BATCH {
            writer.send(&record).expect("sent");
        }
        for _ in 0..BATCH {
            reader.receive(&mut got).expect("received").expect("a record");
        }
    }
    print(begun, records);
}

fn write_to(path: &str, records: u64) {
    let options = Options::new().connect_timeout(Duration::from_secs(10));
    let mut writer = RecordWriter::connect(path, &options).expect("connected");
    for _ in 0..records {
        writer.send(&[1; RECORD]).expect("sent");
    }
}

fn read_from(path: &str, records: u64) {
    let listener = Listener::bind(path).expect("a listener");
    let mut reader: RecordReader =
        listener.accept_timeout(Duration::from_secs(10)).expect("a connection");
    let mut record = [0; RECORD];
    reader.receive(&mut record).expect("received").expect("a record");
    let begun = Instant::now();
    for _ in 1..records {
        reader.receive(&mut record).expect("received").expect("a record");
    }
    print(begun, records - 1);
}
