//! Lanes under loom: frames, a bit on the board, the reader's sleep and the writer's wish for room.

use super::board::Board;
use super::lane::heap::LaneHeap;
use super::lane::{
    FrameKind, LaneId, LaneMemory, LaneReader, LaneWriter, Side, footprint, go_cold, must_tell,
};
use super::model::{Futex, until};
use super::nap;
use loom::sync::Arc;

const LANE: LaneId = LaneId { writer: Side::Peer, channel: 0 };

/// A lane, the boards of both sides, and where they sleep.
struct Shared {
    heap: LaneHeap,
    boards: [Board; 2],
    futexes: [Futex; 2],
}

impl Shared {
    fn tell(&self, side: usize) {
        self.boards[side].set(LANE.channel);
        let word = &self.boards[side].nap.word;
        if nap::is_wanted(word) && nap::take(word) & nap::ASLEEP != 0 {
            self.futexes[side].wake();
        }
    }

    /// Sleeps until there is a bit on the board of a side, and takes it.
    fn gather(&self, side: usize) {
        until(&self.boards[side].nap.word, &self.futexes[side], || {
            let mut any = false;
            self.boards[side].gather(|_| any = true);
            any
        });
    }
}

fn write(shared: &Shared) {
    let heap = &shared.heap;
    let mut writer = LaneWriter::default();
    for number in 0..2_u8 {
        // The ring holds one of these at a time.
        while footprint(4) > writer.room() {
            nap::announce(&heap.lane(LANE).reader.wanted, 1);
            writer.refresh(heap, LANE).expect("sound");
            if footprint(4) > writer.room() {
                shared.gather(1);
                writer.refresh(heap, LANE).expect("sound");
            }
        }
        writer.put(heap, LANE, FrameKind::Data, false, &[number; 4]);
        writer.publish(heap, LANE);
        if must_tell(&heap.lane(LANE).reader.told) {
            shared.tell(0);
        }
    }
}

#[test]
fn a_lane_loses_neither_frames_nor_wake_ups() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = Arc::new(Shared {
            heap: LaneHeap::new(1, 0),
            boards: [Board::default(), Board::default()],
            futexes: [Futex::new(), Futex::new()],
        });
        let theirs = shared.clone();
        let writing = loom::thread::spawn(move || write(&theirs));
        let heap = &shared.heap;
        let mut reader = LaneReader::default();
        let mut number = 0;
        while number < 2 {
            if reader.look(heap, LANE).expect("sound").is_some() {
                let mut out = [9; 4];
                assert_eq!(reader.take(heap, LANE, &mut out), 4);
                assert_eq!(out, [number; 4]);
                number += 1;
                if reader.give_back(heap, LANE) {
                    shared.tell(1);
                }
                continue;
            }
            go_cold(&heap.lane(LANE).reader.told);
            if !reader.has(heap, LANE) {
                shared.gather(0);
            }
        }
        writing.join().expect("no panic");
    });
}
