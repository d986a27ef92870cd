//! A lane against a queue of frames, and against any words in its memory.

use super::heap::{HeapRing, LaneHeap};
use super::*;
use crate::primitive::{AtomicU32, Ordering};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use weir_policy::arena::{Arena, LARGEST_BYTES, block_for};

// Miri needs a microsecond or more for each byte of a heap and each step of a test. Under it the
// arena has one block of each size, and the rings still wrap, fill up and move.
const ARENA_BYTES: u32 = if cfg!(miri) { 64 << 10 } else { 128 << 10 };
const FRAMES: Range<usize> = if cfg!(miri) { 12..16 } else { 1..400 };
/// Sizes of rings that a writer waits in: 4 KiB, and twice and four times as much.
const RING_ORDERS: u32 = if cfg!(miri) { 1 } else { 3 };
const LANE: LaneId = LaneId { writer: LinkSide::Peer, channel: 1 };

#[derive(Clone, Debug)]
enum Step {
    Put(usize, bool, bool),
    PutShort(usize),
    Wish(u32),
    Take(usize),
    /// Data, through a buffer of this size, this many times at most.
    TakeData(usize, usize),
    Skip,
    GiveBack,
    Move(usize),
    Refresh,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let longest: usize = if cfg!(miri) { 300 } else { 9000 };
    let length = prop_oneof![0..20_usize, 0..130_usize, 0..longest];
    let step = prop_oneof![
        4 => (length.clone(), any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(length, more, close)| Step::Put(length, more, close)),
        2 => length.clone().prop_map(Step::PutShort),
        1 => (0..9000_u32).prop_map(Step::Wish),
        4 => length.clone().prop_map(Step::Take),
        4 => (length.clone(), 1..9_usize).prop_map(|(size, most)| Step::TakeData(size + 1, most)),
        1 => Just(Step::Skip),
        2 => Just(Step::GiveBack),
        1 => length.prop_map(Step::Move),
        2 => Just(Step::Refresh),
    ];
    prop::collection::vec(step, 0..if cfg!(miri) { 20 } else { 200 })
}

fn patterned(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|at| (((at + seed) * 167) >> 3) as u8).collect()
}

proptest! {
    #[test]
    fn behaves_as_a_queue_of_frames_does(steps in steps()) {
        let heap = LaneHeap::new(2, ARENA_BYTES);
        let (mut writer, mut reader) = (LaneWriter::new(&heap, LANE), LaneReader::new(&heap, LANE));
        let mut arena = Arena::new(ARENA_BYTES);
        // The bytes of each frame that were not taken, and whether the next frame continues it.
        let mut naive: VecDeque<(FrameKind, bool, VecDeque<u8>)> = VecDeque::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put(length, more, is_close) => {
                    let length = if is_close { 0 } else { length };
                    let kind = if is_close { FrameKind::Close } else { FrameKind::Data };
                    let fits =
                        footprint(length) <= writer.room() || (is_close && writer.takes_last());
                    let bytes = patterned(length, number);
                    prop_assert_eq!(writer.put(&heap, kind, more, &bytes), fits);
                    if fits {
                        writer.publish(&heap, LANE);
                        naive.push_back((kind, more, bytes.into()));
                    }
                }
                Step::PutShort(length) => {
                    let bytes = patterned(length, number);
                    let fits = footprint(length) <= writer.room() && !writer.wishes_more();
                    prop_assert_eq!(writer.put_short(&heap, &bytes), fits);
                    if fits {
                        writer.publish(&heap, LANE);
                        naive.push_back((FrameKind::Data, false, bytes.into()));
                    }
                }
                Step::Wish(bytes) => writer.set_wish(bytes),
                Step::Take(count) => {
                    let frame = reader.next_frame(&heap, LANE).expect("sound");
                    prop_assert_eq!(frame.is_some(), !naive.is_empty());
                    let Some(frame) = frame else { continue };
                    let (kind, more, bytes) = naive.front_mut().expect("there");
                    let wanted = LaneFrame { kind: *kind, more: *more, left: bytes.len() };
                    prop_assert_eq!(frame, wanted);
                    let mut out = vec![0; count];
                    let taken = reader.take(&heap, &mut out);
                    prop_assert_eq!(taken, count.min(bytes.len()));
                    let wanted: Vec<u8> = bytes.drain(..taken).collect();
                    prop_assert_eq!(&out[..taken], &wanted);
                    if bytes.is_empty() {
                        naive.pop_front();
                    }
                }
                Step::TakeData(size, most) => {
                    let (mut buffer, mut taken) = (vec![0; size], Vec::new());
                    let seen = reader.take_data(&heap, LANE, &mut buffer, |of, bytes| {
                        taken.push((of, bytes.to_vec()));
                        taken.len() < most
                    });
                    prop_assert_eq!(seen, Ok(()));
                    for (of, bytes) in &taken {
                        let (kind, more, left) = naive.front_mut().expect("there");
                        let wanted: Vec<u8> = left.drain(..size.min(left.len())).collect();
                        prop_assert_eq!((*kind, bytes), (FrameKind::Data, &wanted));
                        let is_rest = left.is_empty();
                        let more = *more || !is_rest;
                        prop_assert_eq!(*of, DataTaken { is_rest, more });
                        if is_rest {
                            naive.pop_front();
                        }
                    }
                    let next = naive.front().map(|(kind, ..)| *kind);
                    prop_assert!(taken.len() == most || next != Some(FrameKind::Data));
                }
                Step::Skip => {
                    if reader.next_frame(&heap, LANE).expect("sound").is_some() {
                        reader.skip();
                        naive.pop_front();
                    }
                }
                Step::GiveBack => prop_assert!(!reader.give_back(&heap, LANE)),
                Step::Refresh => writer.refresh(&heap, LANE).expect("sound"),
                Step::Move(bytes) if writer.is_empty() => {
                    if let Some((offset, block_bytes)) = writer.place().as_block() {
                        arena.give(offset, block_bytes);
                    }
                    let block_bytes = block_for(bytes);
                    let found = arena.take(block_bytes);
                    let place = |offset| LanePlace::block(offset, block_bytes);
                    let place = found.filter(|_| bytes > 124).map_or(LanePlace::INLINE, place);
                    writer.move_to(&heap, LANE, place);
                    if let Some(offset) = found.filter(|_| bytes <= 124) {
                        arena.give(offset, block_bytes);
                    }
                }
                Step::Move(_) => {}
            }
            prop_assert_eq!(reader.has(&heap, LANE), !naive.is_empty());
        }
    }

    #[test]
    fn any_words_are_survived(
        written in any::<u64>(), place in any::<u64>(), read in any::<u64>(),
        near in any::<bool>(), inline in any::<[u32; 32]>(),
    ) {
        let heap = LaneHeap::new(2, ARENA_BYTES);
        let words = heap.lane(LANE);
        let written = if near { written % 32 * 4 } else { written };
        words.writer.written.store(written, Ordering::Relaxed);
        words.writer.place.store(if near { 0 } else { place }, Ordering::Relaxed);
        words.reader.read.store(read, Ordering::Relaxed);
        for (word, value) in words.inline.iter().zip(inline) {
            word.store(if near { value & 0x0107_003f } else { value }, Ordering::Relaxed);
        }
        let mut reader = LaneReader::new(&heap, LANE);
        for _ in 0..40 {
            let Ok(Some(frame)) = reader.next_frame(&heap, LANE) else { break };
            prop_assert!(frame.left <= LARGEST_BYTES as usize);
            reader.take(&heap, &mut [0; 100]);
            reader.give_back(&heap, LANE);
        }
        let mut writer = LaneWriter::new(&heap, LANE);
        prop_assert_eq!(writer.refresh(&heap, LANE).is_ok(), read == 0 || words_agree(&heap));
    }
}

/// Whether the reader's position is the one that a fresh writer may believe.
fn words_agree(heap: &LaneHeap) -> bool {
    heap.lane(LANE).reader.read.load(Ordering::Relaxed) == 0
}

#[test]
fn the_end_of_a_channel_always_fits() {
    let heap = LaneHeap::new(2, 0);
    let mut writer = LaneWriter::new(&heap, LANE);
    while footprint(3) <= writer.room() {
        assert!(writer.put(&heap, FrameKind::Data, false, b"abc"));
    }
    assert!(writer.put(&heap, FrameKind::Close, false, b""));
    writer.publish(&heap, LANE);
    let mut reader = LaneReader::new(&heap, LANE);
    let mut kinds = Vec::new();
    while let Some(frame) = reader.next_frame(&heap, LANE).expect("sound") {
        reader.skip();
        kinds.push(frame.kind);
    }
    assert_eq!((kinds.len(), kinds.last()), (16, Some(&FrameKind::Close)));
}

#[test]
fn the_writer_is_notified_of_room_when_it_wants_to_be() {
    let heap = LaneHeap::new(2, 8192);
    let (mut writer, mut reader) = (LaneWriter::new(&heap, LANE), LaneReader::new(&heap, LANE));
    writer.move_to(&heap, LANE, LanePlace::block(4096, 4096));
    (0..4).for_each(|_| assert!(writer.put(&heap, FrameKind::Data, false, &[7; 1000])));
    writer.publish(&heap, LANE);
    super::super::sleep::announce(&heap.lane(LANE).reader.wanted, 1);
    let notified: Vec<bool> = (0..4)
        .map(|_| {
            reader.next_frame(&heap, LANE).expect("sound").expect("there");
            reader.skip();
            reader.give_back(&heap, LANE)
        })
        .collect();
    assert_eq!(notified, [false, true, false, false], "once half of it is free");
    writer.refresh(&heap, LANE).expect("sound");
    assert!(writer.is_empty() && writer.is_roomy());
}

#[test]
fn who_does_not_look_is_notified_once() {
    let attention = AtomicU32::new(AWAY);
    assert!(must_notify(&attention, true) && !must_notify(&attention, true));
    stop_polling(&attention);
    assert!(must_notify(&attention, false));
    for how in [POLLING, POLLING_WITH_BARRIER] {
        stop_polling(&attention);
        start_polling(&attention, how);
        assert!(!must_notify(&attention, true) && !must_notify(&attention, false));
        assert_eq!(attention.load(Ordering::Relaxed), how, "it keeps looking in this way");
    }
}

proptest! {
    /// The reader seldom asks whether the writer wants room, but notifies a writer that found more
    /// than half of the ring full before all is read.
    #[test]
    fn a_writer_that_wants_room_is_notified_before_all_is_read(
        order in 0..RING_ORDERS,
        frames in prop::collection::vec((0_usize..1200, any::<bool>()), FRAMES),
    ) {
        let heap = LaneHeap::new(2, 4096 << (RING_ORDERS - 1));
        let (mut writer, mut reader) = (LaneWriter::new(&heap, LANE), LaneReader::new(&heap, LANE));
        writer.move_to(&heap, LANE, LanePlace::block(0, 4096 << order));
        for (bytes, gives_back) in frames {
            while footprint(bytes) > writer.room() {
                super::super::sleep::announce(&heap.lane(LANE).reader.wanted, 1);
                writer.refresh(&heap, LANE).expect("sound");
                if writer.is_roomy() {
                    super::super::sleep::retract(&heap.lane(LANE).reader.wanted, 1);
                    continue;
                }
                let mut notified = false;
                while !notified && reader.next_frame(&heap, LANE).expect("sound").is_some() {
                    reader.skip();
                    notified = gives_back && reader.give_back(&heap, LANE);
                }
                notified |= reader.give_back(&heap, LANE);
                prop_assert!(notified, "all was read, and the writer was not notified");
            }
            assert!(writer.put(&heap, FrameKind::Data, false, &vec![7; bytes]));
            writer.publish(&heap, LANE);
        }
    }
}

/// A memory that counts the bytes copied out of it, which may change between two copies.
struct Changing(LaneHeap, Cell<usize>);

struct ChangingRing<'a>(HeapRing<'a>, &'a Cell<usize>);

impl LaneMemory for Changing {
    type Ring<'a> = ChangingRing<'a>;

    fn lanes(&self, channel: u32) -> &[LaneWords; 2] {
        self.0.lanes(channel)
    }
    fn arena_bytes(&self) -> u32 {
        self.0.arena_bytes()
    }
    fn range(&self, lane: LaneId, place: LanePlace) -> RingRange {
        self.0.range(lane, place)
    }
    fn ring_of(&self, range: RingRange) -> ChangingRing<'_> {
        ChangingRing(self.0.ring_of(range), &self.1)
    }
}

impl LaneRing for ChangingRing<'_> {
    fn word(&self, position: u64) -> &AtomicU32 {
        self.0.word(position)
    }
    fn put(&self, position: u64, head: u32, bytes: &[u8]) {
        self.0.put(position, head, bytes);
    }
    fn copy_out(&self, position: u64, to: &mut [u8]) {
        self.1.set(self.1.get() + to.len());
        self.0.copy_out(position, to);
    }
}

/// A copy of plain bytes may read them twice, and a peer may change them in between. What was
/// checked would then not be what is used.
#[test]
fn a_head_is_loaded_once_as_a_word_and_never_copied() {
    let memory = Changing(LaneHeap::new(2, 0), Cell::new(0));
    let (mut writer, mut reader) = (LaneWriter::new(&memory, LANE), LaneReader::new(&memory, LANE));
    assert!(writer.put(&memory, FrameKind::Data, true, b"bytes"));
    writer.publish(&memory, LANE);
    let frame = reader.next_frame(&memory, LANE).expect("sound").expect("there");
    assert_eq!(memory.1.get(), 0, "nothing was copied to see the head");
    // What the peer stores now comes too late.
    memory.ring(LANE, LanePlace::INLINE).word(0).store(u32::MAX, Ordering::Relaxed);
    assert_eq!(reader.next_frame(&memory, LANE), Ok(Some(frame)));
    let mut out = [0; 99];
    assert_eq!((frame.left, reader.take(&memory, &mut out)), (5, 5));
    assert_eq!((&out[..5], memory.1.get()), (&b"bytes"[..], 5));
}

/// A lane that shows each word that is asked for, and its position, before its reader gets it.
struct Watched<W> {
    heap: LaneHeap,
    watch: W,
}

struct WatchedRing<'a, W>(HeapRing<'a>, &'a W);

impl<W: Fn(u64, &AtomicU32)> LaneMemory for Watched<W> {
    type Ring<'a>
        = WatchedRing<'a, W>
    where
        W: 'a;

    fn lanes(&self, channel: u32) -> &[LaneWords; 2] {
        self.heap.lanes(channel)
    }

    fn arena_bytes(&self) -> u32 {
        self.heap.arena_bytes()
    }

    fn range(&self, lane: LaneId, place: LanePlace) -> RingRange {
        self.heap.range(lane, place)
    }

    fn ring_of(&self, range: RingRange) -> WatchedRing<'_, W> {
        WatchedRing(self.heap.ring_of(range), &self.watch)
    }
}

impl<W: Fn(u64, &AtomicU32)> LaneRing for WatchedRing<'_, W> {
    fn word(&self, position: u64) -> &AtomicU32 {
        let word = self.0.word(position);
        self.1(position, word);
        word
    }

    fn put(&self, position: u64, head: u32, bytes: &[u8]) {
        self.0.put(position, head, bytes);
    }

    fn copy_out(&self, position: u64, to: &mut [u8]) {
        assert!(position >= HEAD_BYTES as u64, "the head is an atomic word: it is not copied");
        self.0.copy_out(position, to);
    }
}

#[test]
fn the_head_of_a_frame_is_loaded_once() {
    let heap = LaneHeap::new(2, ARENA_BYTES);
    let (mut writer, mut reader) = (LaneWriter::new(&heap, LANE), LaneReader::new(&heap, LANE));
    assert!(writer.put(&heap, FrameKind::Data, false, b"sound"));
    writer.publish(&heap, LANE);
    let asked = Cell::new(0);
    // A peer that changes the head as soon as it was loaded.
    let watch = |_, word: &AtomicU32| {
        if asked.replace(asked.get() + 1) > 0 {
            // 60,000 bytes of a kind that does not exist.
            word.store(u32::from_le_bytes([0x60, 0xea, 99, 0]).to_le(), Ordering::Relaxed);
        }
    };
    let fickle = Watched { heap, watch };
    let wanted = Ok(Some(LaneFrame { kind: FrameKind::Data, more: false, left: 5 }));
    for _ in 0..2 {
        assert_eq!(reader.next_frame(&fickle, LANE), wanted);
    }
    let mut bytes = [0; 8];
    assert_eq!((reader.take(&fickle, &mut bytes), &bytes[..5]), (5, &b"sound"[..]));
    assert_eq!((reader.next_frame(&fickle, LANE), asked.get()), (Ok(None), 1));
}

/// A line that its reader only loaded made the writer's next store to it take long. So the reader stores
/// what is there to a word of all lines but the last, which it may not have read to its end. The
/// store itself cannot be seen; that the reader asks for the word can.
#[test]
fn a_reader_asks_for_a_word_of_each_line_that_it_has_read() {
    const PART_BYTES: usize = 200;
    // Under miri: one frame in the ring beside the positions.
    let lengths: &[usize] = if cfg!(miri) { &[100] } else { &[4, 60, 64, 100, 128, 300, 1000] };
    for &length in lengths {
        for in_parts in [false, true] {
            let heap = LaneHeap::new(2, ARENA_BYTES);
            let lines = RefCell::new(BTreeSet::new());
            let watch = |position, _: &AtomicU32| {
                lines.borrow_mut().insert(position / 64);
            };
            let noting = Watched { heap, watch };
            let heap = &noting.heap;
            let (mut writer, mut reader) =
                (LaneWriter::new(heap, LANE), LaneReader::new(heap, LANE));
            if !cfg!(miri) {
                writer.move_to(heap, LANE, LanePlace::block(4096, 4096));
            }
            let mut written = 0;
            while writer.put(heap, FrameKind::Data, false, &patterned(length, 1)) {
                written += footprint(length) as u64;
            }
            writer.publish(heap, LANE);
            let mut buffer = [0; 1000];
            if in_parts {
                while reader.next_frame(&noting, LANE) != Ok(None) {
                    reader.take(&noting, &mut buffer[..PART_BYTES]);
                }
            } else {
                reader.take_data(&noting, LANE, &mut buffer, |_, _| true).expect("sound");
            }
            let wanted: BTreeSet<u64> = (0..written / 64).collect();
            let noted = lines.take();
            assert!(noted.is_superset(&wanted), "{length} bytes, {in_parts}: {noted:?}");
        }
    }
}
