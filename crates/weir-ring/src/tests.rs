//! The rings against a naive reference: a queue.

use super::heap::Heap;
use super::layout::{self, PipeHeader};
use super::record::{INLINE_BYTES, RecordRingReader, RecordRingWriter, footprint};
use super::stream::{StreamReader, StreamWriter};
use super::{Area, Corrupt, RingMemory, sleep};
use crate::primitive::{AtomicU32, Ordering};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Under miri the rings are small: they still wrap and fill up, and records still go to the arena.
const RING: usize = if cfg!(miri) { 2048 } else { 4096 };

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    Read(usize),
    GiveBack,
    HandOn,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let small = prop_oneof![0..20_usize, 0..most];
    let step = prop_oneof![
        4 => small.clone().prop_map(Step::Write),
        4 => small.prop_map(Step::Read),
        1 => Just(Step::GiveBack),
        1 => Just(Step::HandOn),
    ];
    prop::collection::vec(step, 1..if cfg!(miri) { 24 } else { 400 })
}

fn bytes_from(seed: u64, count: usize) -> Vec<u8> {
    (0..count as u64).map(|index| ((seed.wrapping_add(index) * 167) >> 3) as u8).collect()
}

proptest! {
    #[test]
    fn a_stream_is_a_queue_of_bytes(steps in steps(RING)) {
        let heap = Heap::new(RING, 0);
        let mut writer = StreamWriter::resume(&heap).expect("sound");
        let mut reader = StreamReader::resume(&heap).expect("sound");
        let mut queue: VecDeque<u8> = VecDeque::new();
        for step in steps {
            match step {
                Step::Write(count) => {
                    let room = writer.room(&heap, count as u64).expect("sound") as usize;
                    prop_assert!(room >= RING - queue.len() || room >= count);
                    let bytes = bytes_from(writer.position(), count.min(room));
                    writer.put(&heap, &bytes);
                    writer.publish(&heap);
                    queue.extend(&bytes);
                }
                Step::Read(count) => {
                    let there = reader.available(&heap, count as u64).expect("sound") as usize;
                    prop_assert!(there >= count.min(queue.len()) && there <= queue.len());
                    let mut out = vec![0; count.min(there)];
                    reader.take(&heap, &mut out);
                    reader.publish(&heap);
                    let wanted: Vec<u8> = queue.drain(..out.len()).collect();
                    prop_assert_eq!(out, wanted);
                }
                Step::GiveBack => {}
                Step::HandOn => {
                    writer = StreamWriter::resume(&heap).expect("sound");
                    reader = StreamReader::resume(&heap).expect("sound");
                }
            }
        }
    }

    #[test]
    fn a_record_ring_is_a_queue_of_records(steps in steps(RING)) {
        let heap = Heap::new(RING, RING);
        let mut writer = RecordRingWriter::resume(&heap).expect("sound");
        let mut reader = RecordRingReader::resume(&heap).expect("sound");
        let mut queue: VecDeque<Vec<u8>> = VecDeque::new();
        for step in steps {
            match step {
                Step::Write(count) => {
                    if writer.has_room(&heap, footprint(count)).expect("sound") {
                        let bytes = bytes_from(queue.len() as u64 + count as u64, count);
                        let is_fast = writer.may_go_fast(count);
                        if count % 2 == 0 && is_fast {
                            writer.send_fast(&heap, None, &bytes);
                            queue.push_back(bytes);
                            continue;
                        }
                        let gives_up = count % 7 == 3;
                        if gives_up || count % 3 == 0 {
                            writer.begin(count);
                            prop_assert!(!writer.is_known_to_hold(0));
                        }
                        let (head, tail) = bytes.split_at(count / 2);
                        writer.fill(&heap, count, 0, head);
                        writer.fill(&heap, count, head.len(), tail);
                        if gives_up {
                            // Half of them are forgotten: the next look for room gives them up.
                            if count % 2 == 0 {
                                writer.abandon(&heap);
                            }
                        } else {
                            let _ = writer.end_begun();
                            writer.commit(&heap, count);
                            writer.allow_fast(count as u64 % 3);
                            queue.push_back(bytes);
                        }
                    } else {
                        let held: usize = queue.iter().map(Vec::len).sum();
                        prop_assert!(held > 0 || reader.owes(), "an empty ring takes any record");
                    }
                }
                Step::Read(_) => {
                    let length = reader.peek(&heap).expect("sound");
                    let wanted = queue.pop_front();
                    prop_assert_eq!(length, wanted.as_ref().map(Vec::len));
                    if let Some(wanted) = wanted {
                        let word = reader.find(&heap).expect("it is there");
                        let mut out = vec![0; wanted.len()];
                        if word == reader.fast_word(wanted.len()) {
                            let owes_much = reader.take_fast(&heap, &mut out);
                            prop_assert!(reader.owes_much() || !owes_much);
                        } else {
                            reader.copy_out(&heap, wanted.len(), 0, &mut out);
                            reader.consume(wanted.len());
                        }
                        prop_assert_eq!(&out, &wanted);
                        prop_assert!(word != reader.fast_word(wanted.len() + 1));
                    }
                }
                Step::GiveBack => reader.give_back(&heap),
                Step::HandOn => {
                    reader.give_back(&heap);
                    writer.hand_on(&heap);
                    writer = RecordRingWriter::resume(&heap).expect("sound");
                    reader = RecordRingReader::resume(&heap).expect("sound");
                }
            }
        }
    }

    #[test]
    fn any_words_are_survived(
        words in prop::collection::vec(any::<u64>(), 6),
        ring in prop::collection::vec(any::<u32>(), RING / 4),
        count in 0..RING,
    ) {
        let heap = Heap::new(RING, RING);
        for (at, word) in ring.iter().enumerate() {
            heap.word(at as u64 * 4).store(*word, Ordering::Relaxed);
        }
        let (writer, reader) = (&heap.header().writer, &heap.header().reader);
        let places = [&writer.position, &writer.arena, &reader.position, &reader.arena];
        places.iter().zip(&words).for_each(|(place, word)| place.store(*word, Ordering::Relaxed));
        let mut out = vec![0; count];
        if let Ok(mut end) = StreamWriter::resume(&heap) {
            let room = end.room(&heap, count as u64).unwrap_or(0) as usize;
            end.put(&heap, &out[..count.min(room)]);
        }
        if let Ok(mut end) = StreamReader::resume(&heap) {
            let there = end.available(&heap, count as u64).unwrap_or(0) as usize;
            end.take(&heap, &mut out[..count.min(there)]);
        }
        if let Ok(mut end) = RecordRingWriter::resume(&heap)
            && end.has_room(&heap, footprint(count)) == Ok(true)
        {
            end.fill(&heap, count, 0, &out);
            end.commit(&heap, count);
        }
        let resumed = RecordRingReader::resume(&heap);
        let Ok(mut end) = resumed else { return Ok(()) };
        for _ in 0..100 {
            let Ok(Some(length)) = end.peek(&heap) else { break };
            let mut out = vec![0; length];
            if end.find(&heap) == Some(end.fast_word(length)) {
                end.take_fast(&heap, &mut out);
            } else {
                end.copy_out(&heap, length, 0, &mut out);
                end.consume(length);
            }
            if end.owes_much() {
                end.give_back(&heap);
            }
            end.room(words[4], words[5]);
        }
    }
}

#[test]
fn small_records_of_one_size_never_straddle_lines() {
    for bytes in 0..=60 {
        let (ring, arena) = footprint(bytes);
        assert!(64 % ring == 0 && arena == 0 && ring >= bytes as u64 + 4, "{bytes}");
    }
    assert_eq!(footprint(48).0, 64);
    assert_eq!(footprint(64).0, 128);
    assert_eq!(footprint(INLINE_BYTES).1, 0);
    assert_eq!(footprint(INLINE_BYTES + 1), (8, 1088));
}

#[test]
fn positions_out_of_range_are_corrupt() {
    let heap = Heap::new(RING, RING);
    let mut writer = StreamWriter::resume(&heap).expect("sound");
    let mut reader = StreamReader::resume(&heap).expect("sound");
    writer.put(&heap, &[7; RING]);
    writer.publish(&heap);
    heap.header().reader.position.store(RING as u64 + 1, Ordering::Relaxed);
    assert_eq!(writer.room(&heap, 1), Err(Corrupt("the reader's position")));
    heap.header().writer.position.store(RING as u64 + 1, Ordering::Relaxed);
    assert_eq!(reader.available(&heap, 1), Err(Corrupt("the writer's position")));
    heap.word(0).store(12, Ordering::Relaxed);
    let fresh = Heap::new(RING, RING);
    let ring = RecordRingReader::resume(&fresh).expect("sound");
    assert_eq!(ring.peek(&heap), Err(Corrupt("the length of a record")));
}

#[test]
fn a_nap_is_announced_and_taken_once() {
    let word = AtomicU32::new(0);
    assert!(!sleep::is_wanted(&word));
    assert_eq!(sleep::announce(&word, sleep::ASLEEP), sleep::ASLEEP);
    assert_eq!(sleep::announce(&word, sleep::POLLING), sleep::ASLEEP | sleep::POLLING);
    assert!(sleep::is_wanted(&word));
    sleep::retract(&word, sleep::ASLEEP);
    assert_eq!((sleep::take(&word), sleep::take(&word)), (sleep::POLLING, 0));
}

#[test]
fn the_layout_begins_with_its_name() {
    assert_eq!(&layout::MAGIC.to_le_bytes(), b"weirpipe");
    assert_eq!(size_of::<PipeHeader>() % 128, 0);
    assert_eq!(Heap::new(64, 0).bytes(Area::Arena), 0);
}

/// A ring, and an arena of which only the length is there.
struct Vast(Heap);

impl RingMemory for Vast {
    fn header(&self) -> &PipeHeader {
        self.0.header()
    }

    fn bytes(&self, area: Area) -> u64 {
        if area == Area::Ring { self.0.bytes(area) } else { weir_policy::pipe::MOST_BYTES }
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        self.0.word(at)
    }

    fn copy_in(&self, area: Area, at: u64, from: &[u8]) {
        self.0.copy_in(area, at, from);
    }

    fn copy_out(&self, area: Area, at: u64, to: &mut [u8]) {
        self.0.copy_out(area, at, to);
    }

    fn zero(&self, at: u64, bytes: usize) {
        self.0.zero(at, bytes);
    }
}

/// A record as long as the longest arena has a length of one bit more than its word had room for. Its
/// reader found a record of no bytes in the arena, which is invalid.
#[test]
fn the_longest_record_of_all_keeps_its_length() {
    let memory = Vast(Heap::new(RING, 8));
    let mut writer = RecordRingWriter::resume(&memory).expect("sound");
    let mut reader = RecordRingReader::resume(&memory).expect("sound");
    let most = memory.bytes(Area::Arena) as usize;
    for bytes in [most, most - 1, INLINE_BYTES + 1, most] {
        assert_eq!(writer.has_room(&memory, footprint(bytes)), Ok(true));
        writer.commit(&memory, bytes);
        assert_eq!(reader.peek(&memory), Ok(Some(bytes)));
        reader.consume(bytes);
        reader.give_back(&memory);
    }
    memory.word(reader_position(&memory)).store(3 << 30 | 1, Ordering::Relaxed);
    assert_eq!(reader.peek(&memory), Err(Corrupt("the length of a record")));
}

fn reader_position(memory: &Vast) -> u64 {
    memory.header().reader.position.load(Ordering::Relaxed)
}
