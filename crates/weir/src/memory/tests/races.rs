//! Two ends in one process, over the mappings that processes share: what one thread stores and
//! another loads are atomics, and everything else is handed over by atomics.
//!
//! Only miri sees what breaks this rule. Under miri the mappings are on the heap as plain bytes.
//! `weir-ring`'s own test heap is made of atomic words, where no access is a race.

use crate::memory::header::HeaderSnapshot;
#[cfg(not(miri))]
use crate::memory::map;
use crate::memory::map::{Extent, Map};
use std::sync::atomic::Ordering;
use std::thread;
use weir_ring::layout::{self, PipeHeader};
use weir_ring::record::{RecordRingReader, RecordRingWriter};
use weir_ring::stream::{StreamReader, StreamWriter};

const LAPS: u32 = if cfg!(miri) { 40 } else { 20_000 };

fn map_of(kind: u32) -> Map {
    let arena_bytes = if kind == layout::STREAM { 0 } else { 4096 };
    let extent = Extent { kind, ring_bytes: 4096, arena_bytes, generation: 0 };
    #[cfg(miri)]
    return Map::on_heap(extent);
    #[cfg(not(miri))]
    map::create(extent).expect("made").1
}

/// Waits for the other thread.
fn until<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    loop {
        match poll() {
            Some(found) => return found,
            None => thread::yield_now(),
        }
    }
}

/// Giving up a record that was begun does not touch its commit word, which the reader loads
/// meanwhile.
#[test]
fn a_record_that_is_given_up_is_zeroed_beside_the_word_that_the_reader_loads() {
    // In the ring and in the arena. The sizes divide it, since miri's heap has no mirror.
    for (kind, bytes) in [
        (layout::RECORD, 60),
        (layout::RECORD, 2048),
        (layout::MESSAGE, 56),
        (layout::MESSAGE, 2048),
    ] {
        let map = &map_of(kind);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut writer = RecordRingWriter::resume(map).expect("sound");
                let fill = |writer: &RecordRingWriter, what: u32| {
                    if kind == layout::MESSAGE {
                        writer.put_header(map, what);
                    }
                    writer.fill(map, bytes, 0, &vec![what as u8; bytes]);
                };
                for lap in 0..LAPS {
                    let room = writer.footprint(bytes);
                    until(|| writer.has_room(map, room).expect("sound").then_some(()));
                    writer.begin(bytes);
                    fill(&writer, !lap);
                    if lap % 2 == 0 {
                        writer.abandon(map);
                    } else {
                        // It is forgotten, which whoever looks for room again makes up for.
                        assert!(!writer.is_known_to_hold(bytes) && !writer.may_go_fast(bytes));
                        assert!(writer.has_room(map, room).expect("sound"));
                    }
                    if writer.may_go_fast(bytes) {
                        let header = (kind == layout::MESSAGE).then_some(lap);
                        writer.send_fast(map, header, &vec![lap as u8; bytes]);
                        continue;
                    }
                    fill(&writer, lap);
                    writer.commit(map, bytes);
                    writer.allow_fast(1);
                }
            });
            let mut reader = RecordRingReader::resume(map).expect("sound");
            for lap in 0..LAPS {
                assert_eq!(until(|| reader.peek(map).expect("sound")), bytes);
                assert!(kind == layout::RECORD || reader.header(map) == lap);
                let mut out = vec![0; bytes];
                let word = reader.find(map).expect("it is there");
                if word == reader.fast_word(bytes) {
                    reader.take_fast(map, &mut out);
                } else {
                    reader.copy_out(map, bytes, 0, &mut out);
                    reader.consume(bytes);
                }
                assert_eq!(out, vec![lap as u8; bytes]);
                reader.give_back(map);
            }
        });
    }
}

#[test]
fn bytes_of_a_stream_are_handed_over_by_its_positions() {
    let map = map_of(layout::STREAM);
    let map = &map;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut writer = StreamWriter::resume(map).expect("sound");
            for lap in 0..LAPS {
                until(|| (writer.room(map, 256).expect("sound") >= 256).then_some(()));
                writer.put(map, &[lap as u8; 256]);
                writer.publish(map);
            }
        });
        let mut reader = StreamReader::resume(map).expect("sound");
        for lap in 0..LAPS {
            until(|| (reader.available(map, 256).expect("sound") >= 256).then_some(()));
            let mut out = [0; 256];
            reader.take(map, &mut out);
            reader.publish(map);
            assert_eq!(out, [lap as u8; 256]);
        }
    });
}

/// A header in read-only memory, as `weir stat` maps it. There only small Relaxed loads are
/// allowed, and miri reports any other atomic operation.
static READ_ONLY: Zeros = Zeros([0; size_of::<PipeHeader>()]);
#[repr(C, align(4096))]
struct Zeros([u8; size_of::<PipeHeader>()]);

#[test]
fn a_header_that_is_only_read_is_loaded_relaxed() {
    // SAFETY: as long and as aligned as a header, for which any bytes are a value; it is only
    // loaded.
    let header = unsafe { &*(&raw const READ_ONLY).cast::<PipeHeader>() };
    let nothing = HeaderSnapshot::load(header);
    assert_eq!((nothing.read, nothing.written, nothing.writer), (0, 0, nothing.reader));
    assert!(!nothing.writer.closed && nothing.writer.account.pid == 0);
}

#[test]
#[cfg(not(miri))]
fn a_snapshot_says_what_the_header_says() {
    use weir_ring::RingMemory;
    let extent = Extent { kind: layout::STREAM, ring_bytes: 4096, arena_bytes: 0, generation: 0 };
    let (file, map) = map::create(extent).expect("made");
    let header = map.header();
    header.writer.position.store(4104, Ordering::Relaxed);
    header.reader.position.store(4100, Ordering::Relaxed);
    header.tuning.segment_bytes.store(64, Ordering::Relaxed);
    header.writer_account.port_inode.store(7, Ordering::Relaxed);
    header.reader_account.bytes.store(4100, Ordering::Relaxed);
    header.writer_sleep.closed.store(1, Ordering::Relaxed);
    header.reader_sleep.word.store(3, Ordering::Relaxed);
    let now = HeaderSnapshot::of(file.here().expect("mine")).expect("mapped");
    assert_eq!((now.read, now.written, now.segment_bytes, now.port), (4100, 4104, 64, (0, 7)));
    assert_eq!((now.writer.closed, now.writer.sleep, now.reader.sleep), (true, 0, 3));
    assert_eq!((now.reader.account.bytes, now.writer.account.bytes), (4100, 0));
}
