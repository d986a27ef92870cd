//! Incomplete datagrams: by key, and in order of arrival, of all sources and of each.

use super::chunks::{Chunks, Store};
use crate::slab::{NONE, Slab};
use crate::wire::ipv4::{Header, LEAST_HEADER_BYTES, MOST_HEADER_BYTES};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Payload bytes that an ICMP error quotes after the header (RFC 792).
pub const QUOTED_BYTES: usize = 8;

/// Budget cost of a datagram besides its chunks: the datagram itself and its entries in two hash
/// tables, which in the worst case, just after they have grown, are less than half full.
pub const DATAGRAM_COST: usize = Slab::<PendingDatagram>::COST
    + Slab::<PendingSource>::COST
    + 16 * (size_of::<(DatagramKey, u32)>() + 1 + size_of::<(Ipv4Addr, u32)>() + 1) / 7;

/// The fields that all fragments of a datagram share (RFC 791 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatagramKey {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub id: u16,
    pub protocol: u8,
}

impl DatagramKey {
    pub fn of(header: &Header) -> DatagramKey {
        DatagramKey {
            source: header.source,
            destination: header.destination,
            id: header.id,
            protocol: header.protocol,
        }
    }
}

/// An incomplete datagram.
#[derive(Debug)]
pub struct PendingDatagram {
    pub key: DatagramKey,
    pub deadline_ns: u64,
    pub chunks: Chunks,
    /// Payload bytes that have arrived.
    pub came_bytes: usize,
    /// End of the last byte that has arrived.
    pub end_bytes: usize,
    /// Length of the payload, known once the last fragment has arrived.
    pub payload_bytes: Option<usize>,
    /// Header and quoted payload of the fragment at offset 0, once it has arrived.
    pub first: [u8; MOST_HEADER_BYTES + QUOTED_BYTES],
    /// Bytes of that header, 0 before it has arrived.
    pub header_bytes: u8,
    /// A bit for each ECN codepoint that has arrived (RFC 3168 5.3).
    pub codepoints: u8,
    /// Its fragments contradicted each other: none is held, and none is accepted.
    pub is_poisoned: bool,
    source: u32,
    links: [Links; 2],
}

impl PendingDatagram {
    fn cost(&self) -> usize {
        DATAGRAM_COST + self.chunks.cost()
    }

    /// Returns how it begins, and how many bytes of that are known: the quote, or a header of what all
    /// its fragments share.
    pub fn beginning(&self) -> ([u8; MOST_HEADER_BYTES + QUOTED_BYTES], usize) {
        if let Some(quote) = self.quote() {
            return (self.first, quote.len());
        }
        let DatagramKey { source, destination, id, protocol } = self.key;
        let header = Header {
            tos: 0,
            total_bytes: LEAST_HEADER_BYTES as u16,
            id,
            dont_fragment: false,
            more_fragments: true,
            offset_bytes: 0,
            ttl: 0,
            protocol,
            source,
            destination,
        };
        let mut bytes = [0; MOST_HEADER_BYTES + QUOTED_BYTES];
        let header_bytes = header.emit(&[], &mut bytes).unwrap_or_default();
        (bytes, header_bytes)
    }

    /// Returns the header and quoted payload of the fragment at offset 0.
    pub fn quote(&self) -> Option<&[u8]> {
        let header_bytes = usize::from(self.header_bytes);
        (header_bytes > 0).then(|| &self.first[..header_bytes + QUOTED_BYTES])
    }
}

/// Links to the neighbours in an order of age.
#[derive(Clone, Copy, Debug)]
struct Links {
    older: u32,
    newer: u32,
}

/// An order of age.
#[derive(Clone, Copy, Debug)]
struct Ages {
    oldest: u32,
    newest: u32,
}

/// Selects an order of age.
#[derive(Clone, Copy, Debug)]
enum Order {
    All = 0,
    Source = 1,
}

impl Ages {
    const NONE: Ages = Ages { oldest: NONE, newest: NONE };

    fn push(&mut self, datagrams: &mut Slab<PendingDatagram>, order: Order, id: u32) {
        datagrams[id].links[order as usize] = Links { older: self.newest, newer: NONE };
        match self.newest {
            NONE => self.oldest = id,
            newest => datagrams[newest].links[order as usize].newer = id,
        }
        self.newest = id;
    }

    fn remove(&mut self, datagrams: &mut Slab<PendingDatagram>, order: Order, id: u32) {
        let Links { older, newer } = datagrams[id].links[order as usize];
        match older {
            NONE => self.oldest = newer,
            older => datagrams[older].links[order as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => datagrams[newer].links[order as usize].older = older,
        }
    }
}

/// A source that has incomplete datagrams.
#[derive(Debug)]
struct PendingSource {
    ages: Ages,
    cost: usize,
}

/// The pending set: all incomplete datagrams.
#[derive(Debug)]
pub struct Pending {
    datagrams: Slab<PendingDatagram>,
    keys: HashMap<DatagramKey, u32>,
    sources: Slab<PendingSource>,
    addresses: HashMap<Ipv4Addr, u32>,
    ages: Ages,
    cost: usize,
    pub store: Store,
}

impl Pending {
    pub fn new() -> Pending {
        Pending {
            datagrams: Slab::new(),
            keys: HashMap::new(),
            sources: Slab::new(),
            addresses: HashMap::new(),
            ages: Ages::NONE,
            cost: 0,
            store: Store::new(),
        }
    }

    /// Returns the cost of all of them, in bytes.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Returns their number.
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Returns the cost of those of one source, in bytes.
    pub fn cost_of(&self, address: Ipv4Addr) -> usize {
        self.addresses.get(&address).map_or(0, |source| self.sources[*source].cost)
    }

    /// Returns the cost of the source of `own`, or of `address` where `own` is not yet there.
    pub fn cost_beside(&self, own: Option<u32>, address: Ipv4Addr) -> usize {
        match own {
            Some(id) => self.sources[self.datagrams[id].source].cost,
            None => self.cost_of(address),
        }
    }

    pub fn find(&self, key: &DatagramKey) -> Option<u32> {
        self.keys.get(key).copied()
    }

    pub fn get(&self, id: u32) -> &PendingDatagram {
        &self.datagrams[id]
    }

    pub fn get_mut(&mut self, id: u32) -> &mut PendingDatagram {
        &mut self.datagrams[id]
    }

    /// Returns the oldest datagram.
    pub fn oldest(&self) -> Option<u32> {
        Some(self.ages.oldest).filter(|id| *id != NONE)
    }

    /// Returns the oldest datagram of a source.
    pub fn oldest_of(&self, address: Ipv4Addr) -> Option<u32> {
        let source = self.addresses.get(&address)?;
        Some(self.sources[*source].ages.oldest).filter(|id| *id != NONE)
    }

    /// Adds an empty datagram as the newest.
    pub fn insert(&mut self, key: DatagramKey, deadline_ns: u64) -> u32 {
        let sources = &mut self.sources;
        let source = *self
            .addresses
            .entry(key.source)
            .or_insert_with(|| sources.insert(PendingSource { ages: Ages::NONE, cost: 0 }));
        let id = self.datagrams.insert(PendingDatagram {
            key,
            deadline_ns,
            chunks: Chunks::new(),
            came_bytes: 0,
            end_bytes: 0,
            payload_bytes: None,
            first: [0; MOST_HEADER_BYTES + QUOTED_BYTES],
            header_bytes: 0,
            codepoints: 0,
            is_poisoned: false,
            source,
            links: [Links { older: NONE, newer: NONE }; 2],
        });
        self.keys.insert(key, id);
        self.ages.push(&mut self.datagrams, Order::All, id);
        self.sources[source].ages.push(&mut self.datagrams, Order::Source, id);
        self.charge(id, 0);
        id
    }

    /// Stores a fragment's payload where nothing has arrived yet.
    pub fn put(&mut self, id: u32, offset: usize, payload: &[u8]) {
        let before = self.datagrams[id].cost();
        self.datagrams[id].chunks.put(&mut self.store, offset, payload);
        self.charge(id, before);
    }

    /// Frees what has arrived of a datagram, and marks it so that no more is accepted.
    pub fn poison(&mut self, id: u32) {
        let before = self.datagrams[id].cost();
        self.datagrams[id].chunks.clear(&mut self.store);
        self.datagrams[id].is_poisoned = true;
        self.charge(id, before);
    }

    /// Removes a datagram and all that has arrived of it.
    pub fn remove(&mut self, id: u32) {
        let (key, source) = (self.datagrams[id].key, self.datagrams[id].source);
        let cost = self.datagrams[id].cost();
        self.datagrams[id].chunks.clear(&mut self.store);
        self.keys.remove(&key);
        self.ages.remove(&mut self.datagrams, Order::All, id);
        self.sources[source].ages.remove(&mut self.datagrams, Order::Source, id);
        self.datagrams.remove(id);
        self.cost -= cost;
        self.sources[source].cost -= cost;
        if self.sources[source].ages.oldest == NONE {
            self.sources.remove(source);
            self.addresses.remove(&key.source);
        }
        debug_assert_eq!(self.cost, self.recount());
    }

    /// Updates the sums after a datagram's cost has changed.
    fn charge(&mut self, id: u32, before: usize) {
        let (now, source) = (self.datagrams[id].cost(), self.datagrams[id].source);
        self.cost = self.cost + now - before;
        self.sources[source].cost = self.sources[source].cost + now - before;
        debug_assert_eq!(self.cost, self.recount());
    }

    /// Computes the cost of all of them from what is held.
    fn recount(&self) -> usize {
        self.datagrams.len() * DATAGRAM_COST + self.store.held_bytes()
    }
}
