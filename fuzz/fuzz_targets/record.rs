//! Records over memory: between sound ends a queue; beside a peer that writes anything, an end reads
//! and writes within its areas, believes no length that cannot be, and goes no further than it may.

#![no_main]

mod input;

use input::{Input, pattern};
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use weir_ring::heap::Heap;
use weir_ring::layout::PipeHeader;
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::record::{INLINE_BYTES, RecordRingReader, RecordRingWriter};
use weir_ring::{Area, RingMemory};

const RING: usize = 8192;
const ARENA: usize = 4096;

/// A heap on which no access is longer than the area.
struct Fenced {
    heap: Heap,
    headers: bool,
}

impl Fenced {
    fn check(&self, area: Area, bytes: usize) {
        let whole = self.bytes(area) as usize;
        assert!(bytes <= whole, "{bytes} bytes of {whole}");
    }
}

impl RingMemory for Fenced {
    fn header(&self) -> &PipeHeader {
        self.heap.header()
    }

    fn bytes(&self, area: Area) -> u64 {
        self.heap.bytes(area)
    }

    fn has_headers(&self) -> bool {
        self.headers
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        self.check(Area::Ring, 4);
        self.heap.word(at)
    }

    fn copy_in(&self, area: Area, at: u64, from: &[u8]) {
        self.check(area, from.len());
        self.heap.copy_in(area, at, from);
    }

    fn copy_out(&self, area: Area, at: u64, to: &mut [u8]) {
        self.check(area, to.len());
        self.heap.copy_out(area, at, to);
    }

    fn zero(&self, at: u64, bytes: usize) {
        self.check(Area::Ring, bytes);
        self.heap.zero(at, bytes);
    }
}

/// Takes the record that was looked at, in two parts, and gives back what has gathered.
fn take(reader: &mut RecordRingReader, memory: &Fenced, bytes: usize, first: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    if reader.find(memory) == Some(reader.fast_word(bytes)) {
        reader.take_fast(memory, &mut out);
    } else {
        let (head, tail) = out.split_at_mut(first);
        reader.copy_out(memory, bytes, 0, head);
        reader.copy_out(memory, bytes, first, tail);
        reader.consume(bytes);
    }
    if reader.owes_much() {
        reader.give_back(memory);
    }
    out
}

/// Two sound ends are a queue.
fn sound(memory: &Fenced, input: &mut Input<'_>) {
    let mut writer = RecordRingWriter::resume(memory).expect("sound");
    let mut reader = RecordRingReader::resume(memory).expect("sound");
    let mut queue: VecDeque<Vec<u8>> = VecDeque::new();
    while let Some(step) = input.step() {
        match step % 5 {
            0 | 1 => {
                let bytes = pattern(queue.len() + usize::from(step), input.below(ARENA + 1));
                if !writer.has_room(memory, writer.footprint(bytes.len())).expect("sound") {
                    assert!(!queue.is_empty() || reader.owes(), "an empty ring takes any record");
                    continue;
                }
                let first = input.below(bytes.len() + 1);
                let alike = writer.may_go_fast(bytes.len());
                if alike && step & 0x40 != 0 {
                    let header = memory.headers.then_some(u32::from(step));
                    writer.send_fast(memory, header, &bytes);
                    queue.push_back(bytes);
                    continue;
                }
                writer.begin(bytes.len());
                writer.fill(memory, bytes.len(), 0, &bytes[..first]);
                writer.fill(memory, bytes.len(), first, &bytes[first..]);
                if step & 0x80 != 0 {
                    // Half of them are forgotten: the next look for room gives them up.
                    if step & 0x40 != 0 {
                        writer.abandon(memory);
                    }
                    continue;
                }
                let _ = writer.end_begun();
                if memory.headers {
                    writer.put_header(memory, u32::from(step));
                }
                writer.commit(memory, bytes.len());
                writer.allow_fast(u64::from(step));
                queue.push_back(bytes);
            }
            2 | 3 => {
                let there = reader.peek(memory).expect("sound");
                let wanted = queue.pop_front();
                assert_eq!(there, wanted.as_ref().map(Vec::len));
                if let Some(wanted) = wanted {
                    let first = input.below(wanted.len() + 1);
                    assert_eq!(take(&mut reader, memory, wanted.len(), first), wanted);
                }
            }
            _ => {
                reader.give_back(memory);
                writer.hand_on(memory);
                writer = RecordRingWriter::resume(memory).expect("sound");
                reader = RecordRingReader::resume(memory).expect("sound");
            }
        }
    }
}

/// Each end beside a peer that may write anywhere at any time.
fn beside_anything(memory: &Fenced, input: &mut Input<'_>) {
    let (header, order) = (memory.header(), Ordering::Relaxed);
    let (mut writer, mut reader) = (RecordRingWriter::resume(memory).ok(), None);
    let mut read = 0_u64;
    while let Some(step) = input.step() {
        match step % 8 {
            0 => memory.word(input.below(RING / 4) as u64 * 4).store(input.number() as u32, order),
            // Where the reader looks next, flags of a record and a length near the limits.
            1 | 2 => {
                let at = header.reader.position.load(order) & !7;
                let bytes = [0, INLINE_BYTES, ARENA][input.below(3)] + input.below(66);
                let flags = u32::from(step & 0xc0) << 24;
                memory.word(at).store(flags | bytes as u32, order);
            }
            3 => {
                let line = if step & 0x80 == 0 { &header.writer } else { &header.reader };
                line.position.store(
                    input.number().wrapping_mul(if step & 0x40 == 0 { 8 } else { 1 }),
                    order,
                );
                line.arena.store(
                    input.number().wrapping_mul(if step & 0x40 == 0 { 64 } else { 1 }),
                    order,
                );
            }
            4 => {
                read = header.reader.position.load(order);
                reader = RecordRingReader::resume(memory).ok();
                writer = RecordRingWriter::resume(memory).ok();
            }
            5 => {
                let Some(writer) = &mut writer else { continue };
                let bytes = pattern(0, input.below(ARENA + 1));
                let wanted = writer.footprint(bytes.len());
                let has_room = writer.has_room(memory, wanted).unwrap_or(false);
                let room = writer.room();
                assert!(room.0 <= RING as u64 && room.1 <= ARENA as u64);
                if has_room {
                    assert!(wanted.0 <= room.0 && wanted.1 <= room.1);
                    if writer.may_go_fast(bytes.len()) {
                        let header = memory.headers.then_some(u32::from(step));
                        writer.send_fast(memory, header, &bytes);
                        continue;
                    }
                    writer.fill(memory, bytes.len(), 0, &bytes);
                    writer.commit(memory, bytes.len());
                    writer.allow_fast(u64::from(step));
                }
            }
            _ => {
                let Some(reader) = &mut reader else { continue };
                let Ok(Some(bytes)) = reader.peek(memory) else { continue };
                assert!(bytes <= INLINE_BYTES.max(ARENA), "{bytes} bytes in no area");
                memory.check(reader.place(bytes).0, bytes);
                take(reader, memory, bytes, input.below(bytes + 1));
                reader.give_back(memory);
                let position = header.reader.position.load(order);
                assert!((1..=RING as u64).contains(&position.wrapping_sub(read)));
                assert!(position.is_multiple_of(8));
                read = position;
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let kind = input.step().unwrap_or(0);
    let memory = Fenced { heap: Heap::new(RING, ARENA), headers: kind & 1 != 0 };
    if kind & 2 == 0 {
        sound(&memory, &mut input);
    } else {
        beside_anything(&memory, &mut input);
    }
});
