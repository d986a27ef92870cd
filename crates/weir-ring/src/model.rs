//! The rings and the wake-up protocol under loom: every interleaving of two threads, in the
//! machine's memory model. Run by `just loom`.

use super::board::Board;
use super::cluster::Cluster;
use super::heap::Heap;
use super::record::{RecordReader, RecordWriter, footprint};
use super::stream::{StreamReader, StreamWriter};
use super::{Memory, sleep};
use crate::primitive::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};

/// A futex: the word is looked at under the lock that wakers take.
pub(super) struct Futex {
    lock: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    pub(super) fn new() -> Futex {
        Futex { lock: Mutex::new(()), sleepers: Condvar::new() }
    }

    pub(super) fn wait(&self, word: &AtomicU32, expected: u32) {
        let guard = self.lock.lock().expect("no panic");
        if word.load(Ordering::Relaxed) == expected {
            drop(self.sleepers.wait(guard).expect("no panic"));
        }
    }

    pub(super) fn wake(&self) {
        let _guard = self.lock.lock().expect("no panic");
        self.sleepers.notify_all();
    }
}

struct Shared {
    heap: Heap,
    reader: Futex,
    writer: Futex,
}

impl Shared {
    fn new(ring: usize) -> Arc<Shared> {
        Arc::new(Shared { heap: Heap::new(ring, 8), reader: Futex::new(), writer: Futex::new() })
    }

    fn wake_reader(&self) {
        let word = &self.heap.header().reader_sleep.word;
        if sleep::is_wanted(word) && sleep::take(word) & sleep::ASLEEP != 0 {
            self.reader.wake();
        }
    }

    fn wake_writer(&self) {
        let word = &self.heap.header().writer_sleep.word;
        if sleep::is_wanted(word) && sleep::take(word) & sleep::ASLEEP != 0 {
            self.writer.wake();
        }
    }
}

/// Looks; if there is nothing, sleeps by the protocol until there is.
pub(super) fn until(word: &AtomicU32, futex: &Futex, mut look: impl FnMut() -> bool) {
    while !look() {
        let said = sleep::announce(word, sleep::ASLEEP);
        if look() {
            sleep::retract(word, sleep::ASLEEP);
            return;
        }
        futex.wait(word, said);
    }
}

#[test]
fn a_stream_loses_neither_bytes_nor_wake_ups() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new(8);
        let theirs = shared.clone();
        let writing = loom::thread::spawn(move || {
            let heap = &theirs.heap;
            let mut writer = StreamWriter::resume(heap).expect("sound");
            for chunk in [[1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15, 16]] {
                until(&heap.header().writer_sleep.word, &theirs.writer, || {
                    writer.room(heap, 8).expect("sound") >= 8
                });
                writer.put(heap, &chunk);
                writer.publish(heap);
                theirs.wake_reader();
            }
        });
        let heap = &shared.heap;
        let mut reader = StreamReader::resume(heap).expect("sound");
        let mut out = [0; 8];
        for round in 0..2_u8 {
            until(&heap.header().reader_sleep.word, &shared.reader, || {
                reader.available(heap, 8).expect("sound") >= 8
            });
            reader.take(heap, &mut out, false);
            reader.publish(heap);
            shared.wake_writer();
            assert_eq!((out[0], out[7]), (round * 8 + 1, round * 8 + 8));
        }
        writing.join().expect("no panic");
    });
}

#[test]
fn records_lose_neither_bytes_nor_wake_ups() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new(16);
        let theirs = shared.clone();
        let writing = loom::thread::spawn(move || {
            let heap = &theirs.heap;
            let mut writer = RecordWriter::resume(heap).expect("sound");
            for record in 1..=3_u8 {
                until(&heap.header().writer_sleep.word, &theirs.writer, || {
                    let fits = writer.has_room(heap, footprint(4)).expect("sound");
                    writer.say_position(heap);
                    fits
                });
                writer.fill(heap, 4, 0, &[record; 4]);
                writer.commit(heap, 4);
                theirs.wake_reader();
            }
        });
        let heap = &shared.heap;
        let mut reader = RecordReader::resume(heap).expect("sound");
        let mut out = [0; 4];
        for record in 1..=3_u8 {
            until(&heap.header().reader_sleep.word, &shared.reader, || {
                reader.look(heap).expect("sound") == Some(4)
            });
            reader.copy_out(heap, 4, 0, &mut out);
            assert_eq!(out, [record; 4]);
            reader.consume(heap, 4, false);
            reader.give_back(heap);
            shared.wake_writer();
        }
        writing.join().expect("no panic");
    });
}

#[test]
fn a_flag_that_is_set_ends_the_wait_for_it() {
    loom::model(|| {
        let shared = Arc::new((Cluster::default(), Futex::new()));
        let theirs = shared.clone();
        let setting = loom::thread::spawn(move || {
            let (_, wake) = theirs.0.set(0b10);
            if wake {
                theirs.1.wake();
            }
        });
        let (cluster, futex) = &*shared;
        let taken = loop {
            if let Some(found) = cluster.take(0b11, false) {
                break found;
            }
            let generation = cluster.count_in();
            let found = cluster.take(0b11, false);
            if found.is_none() {
                futex.wait(&cluster.generation, generation);
            }
            cluster.count_out();
            if let Some(found) = found {
                break found;
            }
        };
        assert_eq!((taken, cluster.read()), (0b10, 0));
        setting.join().expect("no panic");
    });
}

/// Two rings with one reader that looks at the board alone.
struct Gathered {
    heaps: [Heap; 2],
    board: Board,
    reader: Futex,
}

#[test]
fn many_writers_lose_no_wake_up_of_their_one_reader() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = Arc::new(Gathered {
            heaps: [Heap::new(16, 8), Heap::new(16, 8)],
            board: Board::default(),
            reader: Futex::new(),
        });
        let writing = [0, 1].map(|ring| {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                let Gathered { heaps, board, reader } = &*shared;
                let mut writer = RecordWriter::resume(&heaps[ring]).expect("sound");
                writer.fill(&heaps[ring], 4, 0, &[ring as u8; 4]);
                writer.commit(&heaps[ring], 4);
                let word = &heaps[ring].header().reader_sleep.word;
                if sleep::is_wanted(word) && sleep::take(word) & sleep::COLD != 0 {
                    board.set(ring as u32);
                    if sleep::is_wanted(&board.sleep.word) && sleep::take(&board.sleep.word) != 0 {
                        reader.wake();
                    }
                }
            })
        });
        let Gathered { heaps, board, reader } = &*shared;
        let rings = [0, 1].map(|ring| RecordReader::resume(&heaps[ring]).expect("sound"));
        let has = |ring: usize| rings[ring].look(&heaps[ring]).expect("sound").is_some();
        let mut seen = [false; 2];
        for ring in [0, 1] {
            // Goes cold, and looks once more.
            sleep::announce(&heaps[ring].header().reader_sleep.word, sleep::COLD);
            seen[ring] = has(ring);
        }
        while seen != [true; 2] {
            let mut look = || {
                let mut any = false;
                board.gather(|ring| {
                    any = true;
                    assert!(has(ring as usize), "a bit without a record");
                    seen[ring as usize] = true;
                });
                any
            };
            until(&board.sleep.word, reader, &mut look);
        }
        writing.map(|thread| thread.join().expect("no panic"));
    });
}
