//! Lanes under loom: frames, a bit on the board, the reader's sleep and the writer's wish for room.

use super::board::Board;
use super::lane::heap::LaneHeap;
use super::lane::{
    FrameKind, LaneId, LaneMemory, LaneReader, LaneWriter, Side, fence_before_last_look, footprint,
    look_away, must_notify,
};
use super::model::{Futex, until};
use super::sleep;
use crate::primitive::AtomicU32;
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
        let word = &self.boards[side].sleep.word;
        if sleep::is_wanted(word) && sleep::take(word) & sleep::ASLEEP != 0 {
            self.futexes[side].wake();
        }
    }

    /// Sleeps until there is a bit on the board of a side, and takes it.
    fn gather(&self, side: usize) {
        until(&self.boards[side].sleep.word, &self.futexes[side], || {
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
            sleep::announce(&heap.lane(LANE).reader.wanted, 1);
            writer.refresh(heap, LANE).expect("sound");
            if footprint(4) > writer.room() {
                shared.gather(1);
                writer.refresh(heap, LANE).expect("sound");
            }
        }
        writer.put(heap, LANE, FrameKind::Data, false, &[number; 4]);
        writer.publish(heap, LANE);
        if must_notify(&heap.lane(LANE).writer.attention, false) {
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
            look_away(&heap.lane(LANE).writer.attention);
            fence_before_last_look();
            if !reader.has(heap, LANE) {
                shared.gather(0);
            }
        }
        writing.join().expect("no panic");
    });
}

/// Two channels of one link, whose owner looks at its own board, then at the link's, then at lanes.
struct Link {
    heap: LaneHeap,
    told: AtomicU32,
    boards: [Board; 2],
    owner: Futex,
}

const LINK: usize = 0;
const OWN: usize = 1;

fn lane(channel: u32) -> LaneId {
    LaneId { writer: Side::Peer, channel }
}

fn send_on_both(link: &Link) {
    let Link { heap, told, boards, owner } = link;
    for channel in 0..2 {
        let mut writer = LaneWriter::default();
        writer.put(heap, lane(channel), FrameKind::End, false, &[]);
        writer.publish(heap, lane(channel));
        if must_notify(&heap.lane(lane(channel)).writer.attention, false) {
            boards[LINK].set(channel);
            if must_notify(told, false) {
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
        let link = Arc::new(Link {
            heap: LaneHeap::new(2, 0),
            told: AtomicU32::new(0),
            boards: [Board::default(), Board::default()],
            owner: Futex::new(),
        });
        let theirs = link.clone();
        let sending = loom::thread::spawn(move || send_on_both(&theirs));
        let Link { heap, told, boards, owner } = &*link;
        let mut readers = [LaneReader::default(), LaneReader::default()];
        let mut seen = 0;
        while seen < 2 {
            until(&boards[OWN].sleep.word, owner, || {
                let mut any = false;
                boards[OWN].gather(|_| any = true);
                any
            });
            look_away(told);
            fence_before_last_look();
            let mut ready = Vec::new();
            boards[LINK].gather(|channel| ready.push(channel));
            while let Some(channel) = ready.pop() {
                let (reader, id) = (&mut readers[channel as usize], lane(channel));
                while reader.look(heap, id).expect("sound").is_some() {
                    reader.skip();
                    seen += 1;
                }
                look_away(&heap.lane(id).writer.attention);
                fence_before_last_look();
                if reader.has(heap, id) {
                    ready.push(channel);
                }
            }
        }
        sending.join().expect("no panic");
    });
}
