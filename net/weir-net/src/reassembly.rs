//! Reassembly of datagrams from fragments (RFC 791 3.2), within a budget, whatever arrives.
//!
//! - Memory is bounded, in total and for each source. When a budget is full, the oldest datagram is
//!   dropped: of the source that exceeds its own budget, else of all. Old fragments never keep out
//!   new ones.
//! - Overlapping fragments are a fault or an attack: their datagram is dropped, and so are its
//!   other fragments that arrive within its time (RFC 5722, as Linux does for IPv4 too). An exact
//!   duplicate of a fragment is only ignored: networks duplicate packets.
//! - A datagram's time begins with its first fragment and is not extended (RFC 1122 3.3.2).
//! - Fragments that hide the TCP header are refused (RFC 1858, RFC 3128).
//!
//! The work for a fragment grows neither with the number of pending datagrams nor with the
//! fragments of its own: chunks of the payload record which of their units have arrived
//! (`chunks.rs`). So the number of fragments of a datagram is not limited; the longest one over the
//! smallest MTU has 1,365 of 48 bytes, and 8,190 of 8 bytes cost no more memory than one.

mod chunks;
mod waiting;

use crate::wire::ipv4::{Datagram, Header, LEAST_HEADER_BYTES, MOST_BYTES, MOST_HEADER_BYTES};
use crate::wire::ports;
use chunks::{CHUNK_COST, MOST_CHUNKS, Occupancy, TABLE_COST};
use std::net::Ipv4Addr;
use waiting::{DATAGRAM_COST, DatagramKey, Pending, QUOTED_BYTES};

/// Budget cost of the longest datagram: the smallest budget allowed.
pub const LEAST_BUDGET_BYTES: usize = DATAGRAM_COST + MOST_CHUNKS * CHUNK_COST + TABLE_COST;

/// ECN codepoints (RFC 3168 5): the low bits of the type of service.
const ECN: u8 = 3;
const NOT_ECT: u8 = 1 << 0;
const CE: u8 = 1 << 3;

/// The budgets and the time limit of reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Bytes of memory for all pending datagrams, bookkeeping included.
    pub whole_bytes: usize,
    /// Bytes of memory for the pending datagrams of one source.
    pub source_bytes: usize,
    /// How long a datagram waits for its fragments.
    pub timeout_ns: u64,
}

impl Default for ReassemblyLimits {
    /// 4 MiB in total, 512 KiB for a source (seven of the longest datagrams), 30 seconds.
    fn default() -> ReassemblyLimits {
        ReassemblyLimits {
            whole_bytes: 4 << 20,
            source_bytes: 512 << 10,
            timeout_ns: 30_000_000_000,
        }
    }
}

/// Why a fragment was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// An exact copy of it has arrived before.
    Duplicate,
    /// It overlaps another fragment, or contradicts it about the datagram's end: the datagram is
    /// dropped.
    Overlap,
    /// Its datagram was dropped for an overlap or for its length.
    Poisoned,
    /// It would make the datagram longer than 65,535 bytes, header included: the datagram is
    /// dropped.
    TooLong,
    /// It hides the TCP header.
    Tiny,
    /// It completes a datagram of which some fragments met congestion and others say that their
    /// sender does not support ECN (RFC 3168 5.3): the datagram is dropped.
    Ecn,
    /// The budget of its source is full, and its datagram was the oldest there: it is dropped.
    SourceBudget,
    /// The total budget is full, and its datagram was the oldest: it is dropped.
    WholeBudget,
}

/// The result for a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reassembled<'a> {
    /// The datagram is complete: its bytes, valid until the next call. The header is that of the
    /// fragment at offset 0, with the length, flags, offset and checksum of a whole datagram.
    Whole(&'a [u8]),
    /// Other fragments are missing.
    Waiting,
    /// It was refused, and its datagram perhaps dropped.
    Dropped(Rejection),
}

/// A datagram that was not complete in time.
#[derive(Clone, Copy, Debug)]
pub struct Expired<'a> {
    /// Its source address, as stated.
    pub source: Ipv4Addr,
    /// Its destination.
    pub destination: Ipv4Addr,
    /// The header and 8 bytes of payload of the fragment at offset 0, if that arrived. Only then
    /// may a time exceeded message, which quotes these bytes, be sent (RFC 792, RFC 1122 3.3.2).
    pub quote: Option<&'a [u8]>,
    /// The quote, or a header of what all its fragments share.
    pub beginning: &'a [u8],
}

/// The pending datagrams and their budgets.
#[derive(Debug)]
pub struct Reassembly {
    limits: ReassemblyLimits,
    pending: Pending,
    whole: Vec<u8>,
    /// What the last fragment made give way: why, how it begins, and how much of that is known.
    evicted: Vec<(Rejection, [u8; MOST_HEADER_BYTES + QUOTED_BYTES], usize)>,
    /// The latest time passed in.
    latest_ns: u64,
}

/// The fields of a fragment that reassembly needs.
struct Fragment<'a> {
    header: Header,
    key: DatagramKey,
    start: usize,
    end: usize,
    payload: &'a [u8],
}

impl<'a> Fragment<'a> {
    fn of(datagram: &Datagram<'a>) -> Fragment<'a> {
        let (header, payload) = (datagram.header(), datagram.payload());
        let start = usize::from(header.offset_bytes);
        Fragment {
            header,
            key: DatagramKey::of(&header),
            start,
            end: start + payload.len(),
            payload,
        }
    }

    fn hides_tcp(&self) -> bool {
        let protocol = self.header.protocol;
        if self.start == 0 {
            ports::first_fragment_is_too_small(protocol, self.payload.len())
        } else {
            ports::offset_is_refused(protocol, self.header.offset_bytes)
        }
    }
}

impl Reassembly {
    /// Creates it. Budgets below [`LEAST_BUDGET_BYTES`] are raised to that, and the total budget to
    /// that of a source.
    pub fn new(limits: ReassemblyLimits) -> Reassembly {
        let source_bytes = limits.source_bytes.max(LEAST_BUDGET_BYTES);
        let whole_bytes = limits.whole_bytes.max(source_bytes);
        Reassembly {
            limits: ReassemblyLimits { whole_bytes, source_bytes, ..limits },
            pending: Pending::new(),
            whole: Vec::new(),
            evicted: Vec::new(),
            latest_ns: 0,
        }
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> ReassemblyLimits {
        self.limits
    }

    /// Shows the datagrams that the last fragment taken made give way: why, and how each begins, as
    /// [`Expired::beginning`].
    pub fn evicted(&self) -> impl Iterator<Item = (Rejection, &[u8])> {
        self.evicted.iter().map(|(why, beginning, bytes)| (*why, &beginning[..*bytes]))
    }

    /// Returns the bytes of memory that pending datagrams use now. Freed memory is kept for later
    /// ones, so more may be allocated, but never more than was once within the budget.
    pub fn held_bytes(&self) -> usize {
        self.pending.cost()
    }

    /// Returns the bytes of memory that the pending datagrams of a source use now.
    pub fn held_bytes_of(&self, source: Ipv4Addr) -> usize {
        self.pending.cost_of(source)
    }

    /// Returns the number of pending datagrams, including those that accept no more fragments.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Takes a datagram at a time (of a clock that does not go back; an earlier time counts as the
    /// latest passed in). A datagram that is not a fragment is already whole.
    ///
    /// A fragment of a datagram whose time is over, but which [`Reassembly::expire`] has not
    /// removed yet, begins a new datagram.
    pub fn take<'a>(&'a mut self, datagram: &Datagram<'a>, now_ns: u64) -> Reassembled<'a> {
        if !datagram.is_fragment() {
            return Reassembled::Whole(datagram.bytes());
        }
        self.latest_ns = self.latest_ns.max(now_ns);
        self.evicted.clear();
        let fragment = Fragment::of(datagram);
        if fragment.hides_tcp() {
            return Reassembled::Dropped(Rejection::Tiny);
        }
        match self.put(&fragment, datagram) {
            Err(why) => Reassembled::Dropped(why),
            Ok(id) if self.is_complete(id) => self.deliver(id),
            Ok(_) => Reassembled::Waiting,
        }
    }

    /// Drops datagrams whose time is over, and reports each that had no fault.
    pub fn expire(&mut self, now_ns: u64, mut gone: impl FnMut(Expired<'_>)) {
        self.latest_ns = self.latest_ns.max(now_ns);
        while let Some(id) = self.pending.oldest() {
            let waiting = self.pending.get(id);
            if waiting.deadline_ns > self.latest_ns {
                break;
            }
            if !waiting.is_poisoned {
                let DatagramKey { source, destination, .. } = waiting.key;
                let (beginning, bytes) = waiting.beginning();
                let beginning = &beginning[..bytes];
                gone(Expired { source, destination, quote: waiting.quote(), beginning });
            }
            self.pending.remove(id);
        }
    }

    /// Returns when [`Reassembly::expire`] will have work; `None` while nothing is pending.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        self.pending.oldest().map(|id| self.pending.get(id).deadline_ns)
    }

    /// Adds a fragment to its datagram, which may be a new one.
    fn put(&mut self, fragment: &Fragment<'_>, datagram: &Datagram<'_>) -> Result<u32, Rejection> {
        let found = self.find(&fragment.key);
        if let Some(id) = found {
            self.compare(id, fragment, datagram.header_bytes())?;
        }
        self.make_room(found, fragment)?;
        let deadline_ns = self.latest_ns.saturating_add(self.limits.timeout_ns);
        let id = found.unwrap_or_else(|| self.pending.insert(fragment.key, deadline_ns));
        self.pending.put(id, fragment.start, fragment.payload);
        let waiting = self.pending.get_mut(id);
        waiting.came_bytes += fragment.payload.len();
        waiting.end_bytes = waiting.end_bytes.max(fragment.end);
        waiting.codepoints |= 1 << (fragment.header.tos & ECN);
        if !fragment.header.more_fragments {
            waiting.payload_bytes = Some(fragment.end);
        }
        if fragment.start == 0 {
            let header_bytes = datagram.header_bytes();
            let quoted = &datagram.bytes()[..header_bytes + QUOTED_BYTES];
            waiting.first[..quoted.len()].copy_from_slice(quoted);
            waiting.header_bytes = header_bytes as u8;
        }
        Ok(id)
    }

    /// Returns the pending datagram of this key, if its time is not over.
    fn find(&mut self, key: &DatagramKey) -> Option<u32> {
        let id = self.pending.find(key)?;
        let waiting = self.pending.get(id);
        if waiting.deadline_ns > self.latest_ns {
            return Some(id);
        }
        self.pending.remove(id);
        None
    }

    /// Checks a fragment against what has arrived of its datagram; a contradiction poisons the
    /// datagram.
    fn compare(
        &mut self,
        id: u32,
        fragment: &Fragment<'_>,
        header_bytes: usize,
    ) -> Result<(), Rejection> {
        let waiting = self.pending.get(id);
        if waiting.is_poisoned {
            return Err(Rejection::Poisoned);
        }
        let is_last = !fragment.header.more_fragments;
        let ends_well = match waiting.payload_bytes {
            Some(payload_bytes) if is_last => fragment.end == payload_bytes,
            Some(payload_bytes) => fragment.end < payload_bytes,
            // No last fragment has arrived before: this one, if it is the last, must end them all.
            None => !is_last || waiting.end_bytes <= fragment.start,
        };
        let place =
            waiting.chunks.occupancy_of(&self.pending.store, fragment.start, fragment.payload);
        if !ends_well || place == Occupancy::Taken {
            self.pending.poison(id);
            return Err(Rejection::Overlap);
        }
        if place == Occupancy::Same {
            return Err(Rejection::Duplicate);
        }
        let first_bytes = match (waiting.header_bytes, fragment.start) {
            (0, 0) => header_bytes,
            (0, _) => LEAST_HEADER_BYTES,
            (held, _) => usize::from(held),
        };
        let end = waiting.end_bytes.max(fragment.end);
        if first_bytes + end > MOST_BYTES {
            self.pending.poison(id);
            return Err(Rejection::TooLong);
        }
        Ok(())
    }

    /// Drops the oldest datagrams until a fragment fits into the budgets. If its own datagram is
    /// among them, the fragment is dropped as well.
    fn make_room(&mut self, own: Option<u32>, fragment: &Fragment<'_>) -> Result<(), Rejection> {
        let own_chunks = own.map_or_else(chunks::Chunks::new, |id| self.pending.get(id).chunks);
        let more =
            own_chunks.more_cost(&self.pending.store, fragment.start, fragment.payload.len());
        let more = if own.is_some() { more } else { more + DATAGRAM_COST };
        let source = fragment.key.source;
        while self.pending.cost_beside(own, source) + more > self.limits.source_bytes {
            let Some(oldest) = self.pending.oldest_of(source) else { break };
            self.evict(oldest, Rejection::SourceBudget);
            if own == Some(oldest) {
                return Err(Rejection::SourceBudget);
            }
        }
        while self.pending.cost() + more > self.limits.whole_bytes {
            let Some(oldest) = self.pending.oldest() else { break };
            self.evict(oldest, Rejection::WholeBudget);
            if own == Some(oldest) {
                return Err(Rejection::WholeBudget);
            }
        }
        Ok(())
    }

    /// Drops a datagram. One whose fragments are held is shown by [`Reassembly::evicted`].
    fn evict(&mut self, id: u32, why: Rejection) {
        let waiting = self.pending.get(id);
        if !waiting.is_poisoned {
            let (beginning, bytes) = waiting.beginning();
            self.evicted.push((why, beginning, bytes));
        }
        self.pending.remove(id);
    }

    fn is_complete(&self, id: u32) -> bool {
        let waiting = self.pending.get(id);
        waiting.payload_bytes == Some(waiting.came_bytes)
    }

    /// Assembles a complete datagram under the header of its first fragment.
    fn deliver(&mut self, id: u32) -> Reassembled<'_> {
        let waiting = self.pending.get(id);
        let header_bytes = usize::from(waiting.header_bytes);
        // Nothing overlaps, nothing is beyond the end, and as many bytes have arrived as lie
        // before it. So there is a first fragment, and it was checked on arrival.
        let first = Header::of_checked(&waiting.first[..header_bytes]);
        let congestion = waiting.codepoints & CE != 0;
        if congestion && waiting.codepoints & NOT_ECT != 0 {
            self.pending.remove(id);
            return Reassembled::Dropped(Rejection::Ecn);
        }
        let header = Header {
            tos: if congestion { first.tos | ECN } else { first.tos },
            total_bytes: (header_bytes + waiting.came_bytes) as u16,
            more_fragments: false,
            offset_bytes: 0,
            ..first
        };
        let options = &waiting.first[LEAST_HEADER_BYTES..header_bytes];
        self.whole.clear();
        self.whole.resize(header_bytes, 0);
        let written = header.emit(options, &mut self.whole);
        debug_assert_eq!(written, Some(header_bytes));
        waiting.chunks.copy(&self.pending.store, waiting.came_bytes, &mut self.whole);
        self.pending.remove(id);
        Reassembled::Whole(&self.whole)
    }
}
