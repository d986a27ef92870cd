//! Two ends of a lane in one process, over the mapping that processes share, as `weir` tests those
//! of pipes: only miri sees what breaks the rule that all but atomics is handed over by atomics.

use crate::memory::{LinkExtent, LinkMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use weir_ring::lane::{
    DataTaken, FrameKind, LaneId, LaneMemory, LanePlace, LaneReader, LaneRing, LaneWriter, LinkSide,
};

const LAPS: u32 = if cfg!(miri) { 40 } else { 20_000 };
const EXTENT: LinkExtent = LinkExtent { channels: 1, arena_bytes: 64 << 10 };

fn link() -> LinkMap {
    #[cfg(miri)]
    return LinkMap::on_heap(EXTENT);
    #[cfg(not(miri))]
    LinkMap::create(EXTENT).expect("made").1
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
                if let Ok(frame) = reader.next_frame(link, lane) {
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
