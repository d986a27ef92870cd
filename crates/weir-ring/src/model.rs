//! The rings and the wake-up protocol under loom, in the memory model of Rust: the interleavings of
//! two or three threads in which few switches take a thread off its CPU (the bound is in each
//! model; without one, all). Run by `just loom`.

use super::board::Board;
use super::cluster::Cluster;
use super::heap::Heap;
use super::layout::SleepLine;
use super::record::{RecordRingReader, RecordRingWriter, footprint};
use super::stream::{StreamReader, StreamWriter};
use super::{RingMemory, sleep};
use crate::primitive::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};

/// A futex: a sleeper compares the word under the lock that wakers take.
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

/// The barrier on all CPUs that `membarrier(2)` passes, as the writer meets it at marked points.
///
/// loom has no such barrier. What the kernel promises is that each instant of the writer lies
/// before the barrier or after it: what it did before is seen by the reader after the barrier, and
/// what the reader did before the barrier is seen by the writer after it. The lock promises that of
/// the marked points, which lie between two calls of this crate. So the models do not cover a
/// barrier that meets the writer within a call. Nor do they cover a writer that the barrier does
/// not reach: that one fences, as in the other models.
pub(super) struct CpuBarrier(Mutex<()>);

impl CpuBarrier {
    pub(super) fn new() -> CpuBarrier {
        CpuBarrier(Mutex::new(()))
    }

    /// Passes the barrier, for the reader.
    pub(super) fn pass(&self) {
        drop(self.0.lock().expect("no panic"));
    }

    /// Marks an instant of the writer.
    pub(super) fn meet(&self) {
        drop(self.0.lock().expect("no panic"));
    }
}

/// A pipe, and where its ends sleep.
struct ModelPipe {
    heap: Heap,
    reader: Futex,
    writer: Futex,
}

impl ModelPipe {
    fn new(ring: usize) -> Arc<ModelPipe> {
        Arc::new(ModelPipe { heap: Heap::new(ring, 8), reader: Futex::new(), writer: Futex::new() })
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

/// Looks, and sleeps by the protocol until there is something.
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

/// Sends a record as the library does: those as long as the last one go fast.
fn send(writer: &mut RecordRingWriter, heap: &Heap, record: &[u8]) {
    if writer.may_go_fast(record.len()) {
        return writer.send_fast(heap, None, record);
    }
    writer.fill(heap, record.len(), 0, record);
    writer.commit(heap, record.len());
    writer.allow_fast(u64::MAX);
}

/// Receives the record that is there, as the library does.
fn receive(reader: &mut RecordRingReader, heap: &Heap, record: &mut [u8]) {
    let word = reader.find(heap).expect("it is there");
    if word == reader.fast_word(record.len()) {
        reader.take_fast(heap, record);
        return;
    }
    reader.copy_out(heap, record.len(), 0, record);
    reader.consume(record.len());
}

#[test]
fn a_stream_loses_neither_bytes_nor_wake_ups() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = ModelPipe::new(8);
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
            reader.take(heap, &mut out);
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
        let shared = ModelPipe::new(16);
        let theirs = shared.clone();
        let writing = loom::thread::spawn(move || {
            let heap = &theirs.heap;
            let mut writer = RecordRingWriter::resume(heap).expect("sound");
            for record in 1..=3_u8 {
                until(&heap.header().writer_sleep.word, &theirs.writer, || {
                    let fits = writer.has_room(heap, footprint(4)).expect("sound");
                    writer.publish_position(heap);
                    fits
                });
                send(&mut writer, heap, &[record; 4]);
                theirs.wake_reader();
            }
        });
        let heap = &shared.heap;
        let mut reader = RecordRingReader::resume(heap).expect("sound");
        let mut out = [0; 4];
        for record in 1..=3_u8 {
            until(&heap.header().reader_sleep.word, &shared.reader, || {
                reader.peek(heap).expect("sound") == Some(4)
            });
            receive(&mut reader, heap, &mut out);
            assert_eq!(out, [record; 4]);
            reader.give_back(heap);
            shared.wake_writer();
        }
        writing.join().expect("no panic");
    });
}

/// The reader fences for both ends, as in `docs/adr/0007`.
#[test]
fn a_reader_that_passes_the_barrier_misses_no_record() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new((ModelPipe::new(64), CpuBarrier::new()));
        shared.0.heap.header().reader_sleep.sleeper_fences.store(1, Ordering::Relaxed);
        let theirs = shared.clone();
        let writing = loom::thread::spawn(move || {
            let (pipe, barrier) = &*theirs;
            let mut writer = RecordRingWriter::resume(&pipe.heap).expect("sound");
            for record in 1..=2_u8 {
                send(&mut writer, &pipe.heap, &[record; 4]);
                barrier.meet();
                let sleep = &pipe.heap.header().reader_sleep;
                if sleep::is_wanted_lightly(sleep, true) && sleep::take(&sleep.word) != 0 {
                    pipe.reader.wake();
                }
            }
        });
        let (pipe, barrier) = &*shared;
        let sleep = &pipe.heap.header().reader_sleep;
        let mut reader = RecordRingReader::resume(&pipe.heap).expect("sound");
        for record in 1..=2_u8 {
            while reader.peek(&pipe.heap).expect("sound").is_none() {
                let had_the_fences = sleep.sleeper_fences.swap(0, Ordering::Relaxed) != 0;
                let said = sleep::announce(&sleep.word, sleep::ASLEEP);
                if had_the_fences {
                    barrier.pass();
                }
                if reader.peek(&pipe.heap).expect("sound").is_some() {
                    sleep::retract(&sleep.word, sleep::ASLEEP);
                    break;
                }
                pipe.reader.wait(&sleep.word, said);
            }
            let mut out = [0; 4];
            receive(&mut reader, &pipe.heap, &mut out);
            assert_eq!(out, [record; 4]);
            // It takes the fences again, as after a long stream.
            sleep.sleeper_fences.store(1, Ordering::Release);
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

/// Two rings with one reader that looks only at the board.
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
                let mut writer = RecordRingWriter::resume(&heaps[ring]).expect("sound");
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
        let rings = [0, 1].map(|ring| RecordRingReader::resume(&heaps[ring]).expect("sound"));
        let has = |ring: usize| rings[ring].peek(&heaps[ring]).expect("sound").is_some();
        let mut seen = [false; 2];
        for ring in [0, 1] {
            // The ring goes cold, and the reader looks once more.
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
        writing.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

/// Whoever is about to wake a sleeper looks at what that waits for. It could see an older value.
#[test]
fn who_sees_a_sleep_sees_what_it_is_for() {
    for lightly in [false, true] {
        loom::model(move || {
            let line = Arc::new(SleepLine::default());
            line.sleeper_fences.store(lightly.into(), Ordering::Relaxed);
            let theirs = line.clone();
            let sleeping = loom::thread::spawn(move || {
                theirs.wanted.store(7, Ordering::Relaxed);
                sleep::announce(&theirs.word, sleep::ASLEEP);
            });
            let is_wanted = match lightly {
                true => sleep::is_wanted_lightly(&line, true),
                false => sleep::is_wanted(&line.word),
            };
            if is_wanted {
                assert_eq!(line.wanted.load(Ordering::Relaxed), 7);
            }
            sleeping.join().expect("no panic");
        });
    }
}
