//! Lanes under loom: frames, bits on the board, the reader's sleep, and the writer's wait for room.

use super::board::Board;
use super::lane::heap::LaneHeap;
use super::lane::{
    FrameKind, LaneId, LaneMemory, LanePlace, LaneReader, LaneWriter, LinkSide,
    POLLING_WITH_BARRIER, attention_to, fence_before_last_poll, footprint, must_notify,
    start_polling, stop_polling,
};
use super::model::{CpuBarrier, Futex, until};
use super::sleep;
use crate::primitive::AtomicU32;
use loom::sync::Arc;

const LANE: LaneId = LaneId { writer: LinkSide::Peer, channel: 0 };

/// A lane, the boards of both sides, and where they sleep.
struct ModelLane {
    heap: LaneHeap,
    boards: [Board; 2],
    futexes: [Futex; 2],
}

impl ModelLane {
    fn new() -> Arc<ModelLane> {
        Arc::new(ModelLane {
            heap: LaneHeap::new(1, 0),
            boards: [Board::default(), Board::default()],
            futexes: [Futex::new(), Futex::new()],
        })
    }

    fn notify(&self, side: usize) {
        self.boards[side].set(LANE.channel);
        let word = &self.boards[side].sleep.word;
        if sleep::is_wanted(word) && sleep::take(word) & sleep::ASLEEP != 0 {
            self.futexes[side].wake();
        }
    }

    /// Sleeps until the board of a side has a bit, and takes it.
    fn gather(&self, side: usize) {
        until(&self.boards[side].sleep.word, &self.futexes[side], || {
            let mut any = false;
            self.boards[side].gather(|_| any = true);
            any
        });
    }
}

fn write(shared: &ModelLane) {
    let heap = &shared.heap;
    let mut writer = LaneWriter::new(heap, LANE);
    for number in 0..2_u8 {
        // The ring holds one such frame at a time.
        while footprint(4) > writer.room() {
            sleep::announce(&heap.lane(LANE).reader.wanted, 1);
            writer.refresh(heap, LANE).expect("sound");
            if footprint(4) > writer.room() {
                shared.gather(1);
                writer.refresh(heap, LANE).expect("sound");
            }
        }
        assert!(writer.put(heap, FrameKind::Data, false, &[number; 4]));
        writer.publish(heap, LANE);
        if must_notify(attention_to(heap, LANE), false) {
            shared.notify(0);
        }
    }
}

#[test]
fn a_lane_loses_neither_frames_nor_wake_ups() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = ModelLane::new();
        let theirs = shared.clone();
        let writing = loom::thread::spawn(move || write(&theirs));
        let heap = &shared.heap;
        let mut reader = LaneReader::new(heap, LANE);
        let mut number = 0;
        while number < 2 {
            if reader.next_frame(heap, LANE).expect("sound").is_some() {
                let mut out = [9; 4];
                assert_eq!(reader.take(heap, &mut out), 4);
                assert_eq!(out, [number; 4]);
                number += 1;
                if reader.give_back(heap, LANE) {
                    shared.notify(1);
                }
                continue;
            }
            stop_polling(attention_to(heap, LANE));
            fence_before_last_poll();
            if !reader.has(heap, LANE) {
                shared.gather(0);
            }
        }
        writing.join().expect("no panic");
    });
}

/// A lane that is moved to a block and back, each time once all was read: what the reader finds lies
/// where it looks.
#[test]
fn a_lane_that_is_moved_shows_each_frame_at_its_place() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let heap = Arc::new(LaneHeap::new(1, 4096));
        let theirs = heap.clone();
        let writing = loom::thread::spawn(move || {
            let heap = &*theirs;
            let mut writer = LaneWriter::new(heap, LANE);
            for number in 0..3_u8 {
                while !writer.is_empty() {
                    loom::thread::yield_now();
                    writer.refresh(heap, LANE).expect("sound");
                }
                let block = LanePlace::block(0, 4096);
                let place = if number == 1 { block } else { LanePlace::INLINE };
                writer.move_to(heap, LANE, place);
                assert!(writer.put(heap, FrameKind::Data, false, &[number; 4]));
                writer.publish(heap, LANE);
            }
        });
        let mut reader = LaneReader::new(&*heap, LANE);
        for number in 0..3 {
            while reader.next_frame(&*heap, LANE).expect("sound").is_none() {
                loom::thread::yield_now();
            }
            let mut out = [9; 4];
            assert_eq!(reader.take(&*heap, &mut out), 4);
            assert_eq!(out, [number; 4]);
            reader.give_back(&*heap, LANE);
        }
        writing.join().expect("no panic");
    });
}

/// A hot lane, whose reader passes a barrier on all CPUs before it looks away.
#[test]
fn a_hot_lane_behind_a_barrier_loses_no_wake_up() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new((ModelLane::new(), CpuBarrier::new()));
        start_polling(attention_to(&shared.0.heap, LANE), POLLING_WITH_BARRIER);
        let theirs = shared.clone();
        let writing = loom::thread::spawn(move || {
            let (lane, barrier) = &*theirs;
            let mut writer = LaneWriter::new(&lane.heap, LANE);
            for _ in 0..2 {
                assert!(writer.put(&lane.heap, FrameKind::End, false, &[]));
                let attention = writer.publish(&lane.heap, LANE);
                barrier.meet();
                if must_notify(attention, true) {
                    lane.notify(0);
                }
            }
        });
        let (lane, barrier) = &*shared;
        let attention = attention_to(&lane.heap, LANE);
        let mut reader = LaneReader::new(&lane.heap, LANE);
        let mut seen = 0;
        while seen < 2 {
            if reader.next_frame(&lane.heap, LANE).expect("sound").is_some() {
                reader.skip();
                seen += 1;
                continue;
            }
            stop_polling(attention);
            barrier.pass();
            if !reader.has(&lane.heap, LANE) {
                lane.gather(0);
            }
            start_polling(attention, POLLING_WITH_BARRIER);
        }
        writing.join().expect("no panic");
    });
}

/// Two channels of one link. The owner looks at its own board, then at the link's, then at lanes.
struct ModelLink {
    heap: LaneHeap,
    notified: AtomicU32,
    boards: [Board; 2],
    owner: Futex,
}

const LINK: usize = 0;
const OWN: usize = 1;

fn lane(channel: u32) -> LaneId {
    LaneId { writer: LinkSide::Peer, channel }
}

fn send_on_both(link: &ModelLink) {
    let ModelLink { heap, notified, boards, owner } = link;
    for channel in 0..2 {
        let mut writer = LaneWriter::new(heap, lane(channel));
        assert!(writer.put(heap, FrameKind::End, false, &[]));
        writer.publish(heap, lane(channel));
        if must_notify(attention_to(heap, lane(channel)), false) {
            boards[LINK].set(channel);
            if must_notify(notified, false) {
                boards[OWN].set(0);
                let word = &boards[OWN].sleep.word;
                if sleep::is_wanted(word) && sleep::take(word) & sleep::ASLEEP != 0 {
                    owner.wake();
                }
            }
        }
    }
}

#[test]
fn an_owner_of_many_links_loses_no_wake_up() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let link = Arc::new(ModelLink {
            heap: LaneHeap::new(2, 0),
            notified: AtomicU32::new(0),
            boards: [Board::default(), Board::default()],
            owner: Futex::new(),
        });
        let theirs = link.clone();
        let sending = loom::thread::spawn(move || send_on_both(&theirs));
        let ModelLink { heap, notified, boards, owner } = &*link;
        let mut readers = [0, 1].map(|channel| LaneReader::new(heap, lane(channel)));
        let mut seen = 0;
        while seen < 2 {
            until(&boards[OWN].sleep.word, owner, || {
                let mut any = false;
                boards[OWN].gather(|_| any = true);
                any
            });
            stop_polling(notified);
            fence_before_last_poll();
            let mut ready = Vec::new();
            boards[LINK].gather(|channel| ready.push(channel));
            while let Some(channel) = ready.pop() {
                let (reader, id) = (&mut readers[channel as usize], lane(channel));
                while reader.next_frame(heap, id).expect("sound").is_some() {
                    reader.skip();
                    seen += 1;
                }
                stop_polling(attention_to(heap, id));
                fence_before_last_poll();
                if reader.has(heap, id) {
                    ready.push(channel);
                }
            }
        }
        sending.join().expect("no panic");
    });
}
