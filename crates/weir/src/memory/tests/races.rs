//! Two ends in one process, over the mappings that processes share: what one thread stores and
//! another loads are atomics, and everything else is handed over by atomics.
//!
//! Only miri sees what breaks this rule. Under miri the mappings are on the heap as plain bytes.
//! `weir-ring`'s own test heap is made of atomic words, where no access is a race.

use crate::memory::header::HeaderSnapshot;
use crate::memory::link::{LinkExtent, LinkMap};
#[cfg(not(miri))]
use crate::memory::map;
use crate::memory::map::{Extent, Map};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use weir_ring::lane::{
    DataTaken, FrameKind, LaneId, LaneMemory, LanePlace, LaneReader, LaneRing, LaneWriter, LinkSide,
};
use weir_ring::layout::{self, PipeHeader};
use weir_ring::record::{RecordReader, RecordWriter};
use weir_ring::stream::{StreamReader, StreamWriter};

const LAPS: u32 = if cfg!(miri) { 40 } else { 20_000 };
const EXTENT: LinkExtent = LinkExtent { channels: 1, arena_bytes: 64 << 10 };

fn map_of(kind: u32) -> Map {
    let arena_bytes = if kind == layout::STREAM { 0 } else { 4096 };
    let extent = Extent { kind, ring_bytes: 4096, arena_bytes, generation: 0 };
    #[cfg(miri)]
    return Map::on_heap(extent);
    #[cfg(not(miri))]
    map::create(extent).expect("made").1
}

fn link() -> LinkMap {
    #[cfg(miri)]
    return LinkMap::on_heap(EXTENT);
    #[cfg(not(miri))]
    LinkMap::create(EXTENT).expect("made").1
}

/// Waits for the other thread.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        match look() {
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
                let mut writer = RecordWriter::resume(map).expect("sound");
                let fill = |writer: &RecordWriter, what: u32| {
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
            let mut reader = RecordReader::resume(map).expect("sound");
            for lap in 0..LAPS {
                assert_eq!(until(|| reader.look(map).expect("sound")), bytes);
                assert!(kind == layout::RECORD || reader.header(map) == lap);
                let mut out = vec![0; bytes];
                let word = reader.find(map).expect("it is there");
                if word == reader.fast_word(bytes) {
                    reader.take_fast(map, &mut out);
                } else {
                    reader.copy_out(map, bytes, 0, &mut out);
                    reader.consume(map, bytes, true);
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
            reader.take(map, &mut out, true);
            reader.publish(map);
            assert_eq!(out, [lap as u8; 256]);
        }
    });
}

/// The reader of a lane looks at heads that a hostile peer changes meanwhile. It may see either
/// head, and nothing else.
#[test]
fn heads_of_frames_that_change_meanwhile_are_no_race() {
    let link = link();
    let (link, lane) = (&link, LaneId { writer: LinkSide::Peer, channel: 0 });
    for place in [LanePlace::INLINE, LanePlace::block(4096, 4096)] {
        let (mut writer, over) = (LaneWriter::new(link, lane), AtomicBool::new(false));
        writer.move_to(link, lane, place);
        assert!(writer.put(link, FrameKind::Data, false, b"some bytes"));
        writer.publish(link, lane);
        let head = link.ring(lane, place).word(0).load(Ordering::Relaxed);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    link.ring(lane, place).word(0).store(u32::MAX, Ordering::Relaxed);
                    link.ring(lane, place).word(0).store(head, Ordering::Relaxed);
                }
            });
            for _ in 0..LAPS {
                // A frame that was refused is still there.
                let mut reader = LaneReader::new(link, lane);
                if let Ok(frame) = reader.look(link, lane) {
                    let frame = frame.expect("one is there");
                    assert_eq!((frame.left, reader.take(link, &mut [0; 20])), (10, 10));
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        link.lane(lane).writer.written.store(0, Ordering::Relaxed);
    }
}

#[test]
fn frames_of_a_lane_are_handed_over_by_its_positions() {
    let (link, lane) = (link(), LaneId { writer: LinkSide::Owner, channel: 0 });
    let link = &link;
    for place in [LanePlace::INLINE, LanePlace::block(8192, 4096)] {
        link.lane(lane).reader.read.store(0, Ordering::Relaxed);
        link.lane(lane).writer.written.store(0, Ordering::Relaxed);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut writer = LaneWriter::new(link, lane);
                writer.move_to(link, lane, place);
                for lap in 0..LAPS {
                    until(|| {
                        writer.refresh(link, lane).expect("sound");
                        (writer.room() >= 44).then_some(())
                    });
                    let (bytes, here) = ([lap as u8; 39], link.here().expect("mapped"));
                    // Where the ring ends a short frame is put like any other.
                    assert!(
                        writer.put_short(&here, &bytes)
                            || writer.put(&here, FrameKind::Data, false, &bytes)
                    );
                    writer.publish(&here, lane);
                }
            });
            let mut reader = LaneReader::new(link, lane);
            let mut laps = 0..LAPS;
            while !laps.is_empty() {
                let before = laps.len();
                let mut see = |taken: DataTaken, bytes: &[u8]| {
                    let lap = laps.next().expect("no more than was sent");
                    assert!(taken.is_rest && bytes == [lap as u8; 39]);
                    true
                };
                reader.take_data(link, lane, &mut [0; 40], &mut see).expect("sound");
                reader.give_back(link, lane);
                if laps.len() == before {
                    thread::yield_now();
                }
            }
        });
    }
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
