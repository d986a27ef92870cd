//! The payload of datagrams of which fragments came, in chunks that are held only where bytes came.
//!
//! A fragment costs memory for the chunks it touches, wherever in the datagram it lies: one far
//! from the beginning is no dearer than another. Each chunk knows which of its units of 8 bytes
//! came and where fragments began, so that any fragment is checked in time proportional to its own
//! length.

use crate::slab::{NONE, Slab};

/// Payload bytes of a chunk: 64 units, so that a word tells which came.
pub const CHUNK_BYTES: usize = 512;
/// What offsets of fragments are counted in.
const UNIT_BYTES: usize = 8;
const UNITS: usize = CHUNK_BYTES / UNIT_BYTES;
/// Chunks of the longest datagram.
pub const MOST_CHUNKS: usize = 65_536 / CHUNK_BYTES;

/// What a chunk costs of a budget.
pub const CHUNK_COST: usize = Slab::<Chunk>::COST;
/// What a datagram of more than one chunk costs besides.
pub const TABLE_COST: usize = Slab::<Table>::COST;

#[derive(Debug)]
struct Chunk {
    /// A bit for each unit that came.
    came: u64,
    /// A bit for each unit that a fragment began with.
    began: u64,
    bytes: [u8; CHUNK_BYTES],
}

/// Chunk numbers by place.
type Table = [u32; MOST_CHUNKS];

/// Chunks and tables of all datagrams.
#[derive(Debug)]
pub struct Store {
    chunks: Slab<Chunk>,
    tables: Slab<Table>,
}

/// The chunks of one datagram.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// The only chunk, while there is no table, and its place.
    only: u32,
    only_place: u8,
    table: u32,
    held: u8,
}

/// What is at the place of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing came there.
    Free,
    /// One fragment came there, exactly as long and with the same bytes.
    Same,
    /// Something else came there, or to part of it.
    Taken,
}

impl Store {
    pub fn new() -> Store {
        Store { chunks: Slab::new(), tables: Slab::new() }
    }

    /// Bytes of what is held.
    pub fn held_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_COST + self.tables.len() * TABLE_COST
    }

    fn make_chunk(&mut self) -> u32 {
        match self.chunks.reuse() {
            Some(id) => {
                // What bytes it has nobody reads: none of its units came.
                (self.chunks[id].came, self.chunks[id].began) = (0, 0);
                id
            }
            None => self.chunks.push(Chunk { came: 0, began: 0, bytes: [0; CHUNK_BYTES] }),
        }
    }
}

impl Chunks {
    pub fn new() -> Chunks {
        Chunks { only: NONE, only_place: 0, table: NONE, held: 0 }
    }

    /// What these chunks cost of a budget.
    pub fn cost(&self) -> usize {
        let table = if self.table == NONE { 0 } else { TABLE_COST };
        usize::from(self.held) * CHUNK_COST + table
    }

    /// What they will cost more once there is a fragment at `offset`.
    pub fn more_cost(&self, store: &Store, offset: usize, bytes: usize) -> usize {
        let new = parts(offset, bytes).filter(|part| self.get(store, part.place) == NONE).count();
        let table = self.table == NONE && usize::from(self.held) + new > 1;
        new * CHUNK_COST + if table { TABLE_COST } else { 0 }
    }

    /// The number of the chunk at a place, or [`NONE`].
    fn get(&self, store: &Store, place: usize) -> u32 {
        if self.table != NONE {
            store.tables[self.table][place]
        } else if usize::from(self.only_place) == place {
            self.only
        } else {
            NONE
        }
    }

    /// What came before at the place of `bytes`. A length that is no multiple of 8 is that of a
    /// datagram's last fragment, which the caller knows to be the end.
    pub fn look(&self, store: &Store, offset: usize, bytes: &[u8]) -> Place {
        let (mut any, mut same) = (false, true);
        for part in parts(offset, bytes.len()) {
            let id = self.get(store, part.place);
            if id == NONE {
                same = false;
                continue;
            }
            let chunk = &store.chunks[id];
            any |= chunk.came & part.units != 0;
            same = same
                && chunk.came & part.units == part.units
                && chunk.began & part.units == part.began
                && chunk.bytes[part.start..part.end] == bytes[part.from..part.from + part.len()];
        }
        match any {
            false => Place::Free,
            true if same && self.is_border(store, offset + bytes.len()) => Place::Same,
            true => Place::Taken,
        }
    }

    /// Whether no fragment that came goes on beyond `end` from before it.
    fn is_border(&self, store: &Store, end: usize) -> bool {
        let unit = end.div_ceil(UNIT_BYTES);
        let id = match self.get_checked(store, unit / UNITS) {
            NONE => return true,
            id => id,
        };
        let bit = 1 << (unit % UNITS);
        store.chunks[id].came & bit == 0 || store.chunks[id].began & bit != 0
    }

    fn get_checked(&self, store: &Store, place: usize) -> u32 {
        if place < MOST_CHUNKS { self.get(store, place) } else { NONE }
    }

    /// Puts `bytes` where nothing came before.
    pub fn put(&mut self, store: &mut Store, offset: usize, bytes: &[u8]) {
        for part in parts(offset, bytes.len()) {
            let id = match self.get(store, part.place) {
                NONE => self.add(store, part.place),
                id => id,
            };
            let chunk = &mut store.chunks[id];
            chunk.came |= part.units;
            chunk.began |= part.began;
            let from = &bytes[part.from..part.from + part.len()];
            chunk.bytes[part.start..part.end].copy_from_slice(from);
        }
    }

    fn add(&mut self, store: &mut Store, place: usize) -> u32 {
        let id = store.make_chunk();
        self.held += 1;
        if self.table == NONE && self.only == NONE {
            (self.only, self.only_place) = (id, place as u8);
            return id;
        }
        if self.table == NONE {
            let mut table = [NONE; MOST_CHUNKS];
            table[usize::from(self.only_place)] = self.only;
            self.table = store.tables.insert(table);
        }
        store.tables[self.table][place] = id;
        id
    }

    /// Appends the first `bytes` bytes, all of which came, to `out`.
    pub fn copy(&self, store: &Store, bytes: usize, out: &mut Vec<u8>) {
        for part in parts(0, bytes) {
            let chunk = &store.chunks[self.get(store, part.place)];
            out.extend_from_slice(&chunk.bytes[part.start..part.end]);
        }
    }

    /// Gives all of it back.
    pub fn clear(&mut self, store: &mut Store) {
        if self.table != NONE {
            let table = store.tables[self.table];
            for id in table.into_iter().filter(|id| *id != NONE) {
                store.chunks.remove(id);
            }
            store.tables.remove(self.table);
        } else if self.only != NONE {
            store.chunks.remove(self.only);
        }
        *self = Chunks::new();
    }
}

/// The part of a fragment that lies in one chunk.
struct Part {
    place: usize,
    /// Which bytes of the chunk, and from which of the fragment.
    start: usize,
    end: usize,
    from: usize,
    /// A bit for each unit of the chunk that it has.
    units: u64,
    /// The bit of the unit that the fragment begins with, if it is here.
    began: u64,
}

impl Part {
    fn len(&self) -> usize {
        self.end - self.start
    }
}

/// The parts of a fragment at `offset`, a multiple of 8; it ends within the longest datagram.
fn parts(offset: usize, bytes: usize) -> impl Iterator<Item = Part> {
    let end = offset + bytes;
    (offset / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).map(move |place| {
        let base = place * CHUNK_BYTES;
        let (start, stop) = (offset.max(base), end.min(base + CHUNK_BYTES));
        let first_unit = (start - base) / UNIT_BYTES;
        let units = (stop - start).div_ceil(UNIT_BYTES);
        let units = (u64::MAX >> (UNITS - units)) << first_unit;
        let began = if start == offset { 1 << first_unit } else { 0 };
        Part { place, start: start - base, end: stop - base, from: start - offset, units, began }
    })
}
