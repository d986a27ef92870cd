//! Frames of a lane: between sound ends a queue; beside a writer that writes anything, the reader
//! stays within its ring, takes no more of a frame than it has, and passes no more than was written.

#![no_main]

mod input;

use input::{Input, pattern};
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use weir_ring::lane::heap::LaneHeap;
use weir_ring::lane::{
    FrameKind, LaneFrame, LaneId, LaneMemory, LanePlace, LaneReader, LaneWriter, LinkSide,
    footprint,
};
use weir_ring::primitive::Ordering;

const ARENA_BYTES: u32 = 16 << 10;
const LANE: LaneId = LaneId { writer: LinkSide::Peer, channel: 1 };

/// Two sound ends are a queue of frames.
fn sound(heap: &LaneHeap, input: &mut Input<'_>) {
    let (mut writer, mut reader) = (LaneWriter::new(heap, LANE), LaneReader::new(heap, LANE));
    let mut queue: VecDeque<(FrameKind, bool, VecDeque<u8>)> = VecDeque::new();
    while let Some(step) = input.step() {
        match step % 7 {
            0 | 1 => {
                let bytes = pattern(queue.len(), input.below(1024));
                let kind = if step & 0x40 == 0 { FrameKind::Data } else { FrameKind::Signal };
                if footprint(bytes.len()) <= writer.room() {
                    assert!(writer.put(heap, kind, step & 0x80 != 0, &bytes));
                    writer.publish(heap, LANE);
                    queue.push_back((kind, step & 0x80 != 0, bytes.into()));
                }
            }
            2 | 3 => {
                let frame = reader.next_frame(heap, LANE).expect("sound");
                assert_eq!(frame.is_some(), !queue.is_empty());
                let Some((kind, more, bytes)) = queue.front_mut() else { continue };
                assert_eq!(frame, Some(LaneFrame { kind: *kind, more: *more, left: bytes.len() }));
                let mut out = vec![0; input.below(1024)];
                let taken = reader.take(heap, &mut out);
                assert_eq!(taken, out.len().min(bytes.len()));
                assert!(bytes.drain(..taken).eq(out.into_iter().take(taken)));
                if bytes.is_empty() {
                    queue.pop_front();
                }
            }
            4 => {
                let mut buffer = vec![0; 1 + input.below(1024)];
                let mut left = 1 + input.below(8);
                let taken = reader.take_data(heap, LANE, &mut buffer, |of, part| {
                    let (kind, more, bytes) = queue.front_mut().expect("there");
                    assert_eq!(*kind, FrameKind::Data);
                    assert!(bytes.drain(..part.len()).eq(part.iter().copied()));
                    assert_eq!(
                        (of.is_rest, of.more),
                        (bytes.is_empty(), *more || !bytes.is_empty())
                    );
                    if bytes.is_empty() {
                        queue.pop_front();
                    }
                    left -= 1;
                    left > 0
                });
                assert_eq!(taken, Ok(()));
            }
            5 => {
                reader.give_back(heap, LANE);
                writer.refresh(heap, LANE).expect("sound");
            }
            _ if writer.is_empty() => {
                let bytes = 4096 << input.below(3);
                let offset = input.below(ARENA_BYTES as usize / bytes) * bytes;
                let place = LanePlace::block(offset as u32, bytes as u32);
                writer.move_to(heap, LANE, place);
            }
            _ => {}
        }
    }
}

/// A reader beside a writer that writes anything at any time, and a writer beside such a reader.
fn beside_anything(heap: &LaneHeap, input: &mut Input<'_>) {
    let (words, order) = (heap.lane(LANE), Ordering::Relaxed);
    let (mut writer, mut reader) = (LaneWriter::new(heap, LANE), LaneReader::new(heap, LANE));
    let (mut written, mut read, mut part) = (0_u64, 0_u64, false);
    while let Some(step) = input.step() {
        match step % 6 {
            0 => words.inline[input.below(words.inline.len())].store(input.number() as u32, order),
            1 => words.writer.written.store(read.wrapping_add(input.number()), order),
            2 => words.writer.place.store(input.number(), order),
            3 => {
                words.reader.read.store(input.number(), order);
                if writer.refresh(heap, LANE).is_ok() && footprint(20) <= writer.room() {
                    assert!(writer.put(heap, FrameKind::Data, false, &[7; 20]));
                }
            }
            _ => {
                if read == written && !part {
                    written = words.writer.written.load(order);
                }
                let Ok(Some(frame)) = reader.next_frame(heap, LANE) else {
                    // Nobody reads on behind nonsense.
                    if reader.next_frame(heap, LANE).is_err() {
                        return;
                    }
                    continue;
                };
                let mut out = vec![0; 1 + input.below(1024)];
                let mut taken = 0;
                if frame.kind == FrameKind::Data && step & 0x80 == 0 {
                    let seen = reader.take_data(heap, LANE, &mut out, |_, bytes| {
                        taken = bytes.len();
                        false
                    });
                    assert_eq!(seen, Ok(()));
                } else {
                    taken = reader.take(heap, &mut out);
                }
                assert!(taken <= frame.left && taken <= out.len());
                part = taken < frame.left;
                reader.give_back(heap, LANE);
                read = words.reader.read.load(order);
                assert!(written.wrapping_sub(read) <= u64::from(ARENA_BYTES), "beyond the written");
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let heap = LaneHeap::new(2, ARENA_BYTES);
    if input.step().unwrap_or(0) & 1 == 0 {
        sound(&heap, &mut input);
    } else {
        beside_anything(&heap, &mut input);
    }
});
