//! The payload of incomplete datagrams, in chunks that exist only where bytes have arrived.
//!
//! A fragment costs memory for the chunks it touches, wherever in the datagram it lies. Each chunk
//! records which of its 8-byte units have arrived and where fragments began, so the time to check a
//! fragment is proportional to its own length.

use crate::slab::{NONE, Slab};

/// Payload bytes of a chunk: 64 units, so that one word marks which have arrived.
pub const CHUNK_BYTES: usize = 512;
/// The unit of fragment offsets, in bytes.
const UNIT_BYTES: usize = 8;
const UNITS: usize = CHUNK_BYTES / UNIT_BYTES;
/// Chunks of the longest datagram.
pub const MOST_CHUNKS: usize = 65_536 / CHUNK_BYTES;

/// Budget cost of a chunk.
pub const CHUNK_COST: usize = Slab::<Chunk>::COST;
/// Additional budget cost of a datagram of more than one chunk.
pub const TABLE_COST: usize = Slab::<Table>::COST;

#[derive(Debug)]
struct Chunk {
    /// A bit for each unit that has arrived.
    came: u64,
    /// A bit for each unit that a fragment began with.
    began: u64,
    bytes: [u8; CHUNK_BYTES],
}

/// Chunk numbers by position in the datagram.
type Table = [u32; MOST_CHUNKS];

/// The chunks and tables of all datagrams.
#[derive(Debug)]
pub struct Store {
    chunks: Slab<Chunk>,
    tables: Slab<Table>,
}

/// The chunks of one datagram.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// The only chunk, while there is no table, and its position.
    only: u32,
    only_place: u8,
    table: u32,
    held: u8,
}

/// What has arrived at a fragment's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupancy {
    /// Nothing.
    Free,
    /// One fragment of exactly this length and with the same bytes.
    Same,
    /// Something else, at all or part of it.
    Taken,
}

impl Store {
    pub fn new() -> Store {
        Store { chunks: Slab::new(), tables: Slab::new() }
    }

    /// Returns the bytes of memory held.
    pub fn held_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_COST + self.tables.len() * TABLE_COST
    }

    fn make_chunk(&mut self) -> u32 {
        match self.chunks.reuse() {
            Some(id) => {
                // Its bytes need no reset: nobody reads them until its units arrive.
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

    /// Returns the budget cost of these chunks.
    pub fn cost(&self) -> usize {
        let table = if self.table == NONE { 0 } else { TABLE_COST };
        usize::from(self.held) * CHUNK_COST + table
    }

    /// Returns the additional cost of a fragment at `offset`.
    pub fn more_cost(&self, store: &Store, offset: usize, bytes: usize) -> usize {
        let new = parts(offset, bytes).filter(|part| self.get(store, part.place) == NONE).count();
        let table = self.table == NONE && usize::from(self.held) + new > 1;
        new * CHUNK_COST + if table { TABLE_COST } else { 0 }
    }

    /// Returns the number of the chunk at a position, or [`NONE`].
    fn get(&self, store: &Store, place: usize) -> u32 {
        if self.table != NONE {
            store.tables[self.table][place]
        } else if usize::from(self.only_place) == place {
            self.only
        } else {
            NONE
        }
    }

    /// Looks up what has arrived at the position of `bytes`. A length that is not a multiple of 8
    /// belongs to the last fragment of a datagram, which the caller knows.
    pub fn occupancy_of(&self, store: &Store, offset: usize, bytes: &[u8]) -> Occupancy {
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
            false => Occupancy::Free,
            true if same && self.is_border(store, offset + bytes.len()) => Occupancy::Same,
            true => Occupancy::Taken,
        }
    }

    /// Whether no arrived fragment extends beyond `end` from before it.
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

    /// Stores `bytes` where nothing has arrived yet.
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

    /// Appends the first `bytes` bytes, all of which have arrived, to `out`.
    pub fn copy(&self, store: &Store, bytes: usize, out: &mut Vec<u8>) {
        for part in parts(0, bytes) {
            let chunk = &store.chunks[self.get(store, part.place)];
            out.extend_from_slice(&chunk.bytes[part.start..part.end]);
        }
    }

    /// Frees all chunks.
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

/// The part of a fragment that is in one chunk.
struct ChunkPart {
    place: usize,
    /// Its bytes in the chunk, and where they begin in the fragment.
    start: usize,
    end: usize,
    from: usize,
    /// A bit for each unit of the chunk that it covers.
    units: u64,
    /// The bit of the fragment's first unit, if that lies here.
    began: u64,
}

impl ChunkPart {
    fn len(&self) -> usize {
        self.end - self.start
    }
}

/// Iterates over the parts of a fragment at `offset`, a multiple of 8; it ends within the longest
/// datagram.
fn parts(offset: usize, bytes: usize) -> impl Iterator<Item = ChunkPart> {
    let end = offset + bytes;
    (offset / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).map(move |place| {
        let base = place * CHUNK_BYTES;
        let (start, stop) = (offset.max(base), end.min(base + CHUNK_BYTES));
        let first_unit = (start - base) / UNIT_BYTES;
        let units = (stop - start).div_ceil(UNIT_BYTES);
        let units = (u64::MAX >> (UNITS - units)) << first_unit;
        let began = if start == offset { 1 << first_unit } else { 0 };
        ChunkPart {
            place,
            start: start - base,
            end: stop - base,
            from: start - offset,
            units,
            began,
        }
    })
}
