//! Datagrams out of fragments (RFC 791 3.2), under a budget, whatever comes.
//!
//! - Memory is bounded, in whole and for each source. When a budget is full the oldest datagram
//!   goes: of the source that is over its own, else of all. What lies about never keeps out what is
//!   new.
//! - Fragments of a datagram that overlap are a fault or an attack: it is dropped, and what else
//!   comes of it within its time (RFC 5722, as Linux does for IPv4 too). A fragment that came
//!   before, to the byte, is only ignored: networks double packets.
//! - The time of a datagram begins with the first fragment and is not extended (RFC 1122 3.3.2).
//! - Fragments that hide the header of TCP are not taken (RFC 1858, RFC 3128).
//!
//! The work for a fragment does not grow with how many are waiting, nor with how many of its
//! datagram came: chunks of the payload know which of their units came (`chunks.rs`). There is
//! therefore no limit to the fragments of a datagram; the longest one through the smallest MTU has
//! 1,365 of 48 bytes, and 8,190 of 8 bytes cost no more memory than one.

mod chunks;
mod waiting;

use crate::wire::ipv4::{Datagram, Header, LEAST_HEADER_BYTES, MOST_BYTES};
use crate::wire::ports;
use chunks::{CHUNK_COST, MOST_CHUNKS, Place, TABLE_COST};
use std::net::Ipv4Addr;
use waiting::{DATAGRAM_COST, Key, Pending, QUOTED_BYTES};

/// What the longest datagram costs of a budget: less is never allowed.
pub const LEAST_BUDGET_BYTES: usize = DATAGRAM_COST + MOST_CHUNKS * CHUNK_COST + TABLE_COST;

/// ECN codepoints (RFC 3168 5): the low bits of the type of service.
const ECN: u8 = 3;
const NOT_ECT: u8 = 1 << 0;
const CE: u8 = 1 << 3;

/// How much may wait, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory for all that waits, bookkeeping included.
    pub whole_bytes: usize,
    /// Bytes of memory for what waits of one source.
    pub source_bytes: usize,
    /// How long a datagram waits for its fragments.
    pub timeout_ns: u64,
}

impl Default for Limits {
    /// 4 MiB, 512 KiB of a source (seven datagrams of the longest), 30 seconds.
    fn default() -> Limits {
        Limits { whole_bytes: 4 << 20, source_bytes: 512 << 10, timeout_ns: 30_000_000_000 }
    }
}

/// Why a fragment was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It came before, to the byte.
    Duplicate,
    /// It overlaps another, or contradicts it as to where the datagram ends: its datagram is
    /// dropped.
    Overlap,
    /// Its datagram was dropped for an overlap or for its length.
    Poisoned,
    /// With it the datagram would be longer than 65,535 bytes, header included: it is dropped.
    TooLong,
    /// It hides the header of TCP.
    Tiny,
    /// It completes a datagram, some of which met congestion, some of which says that its sender
    /// does not know of such things (RFC 3168 5.3): it is dropped.
    Ecn,
    /// Its datagram was the oldest of a source whose budget is full, and is dropped.
    SourceBudget,
    /// Its datagram was the oldest of all when the budget was full, and is dropped.
    WholeBudget,
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<'a> {
    /// A datagram is complete: its bytes, to be read until the next call. The header is that of the
    /// fragment at offset 0, with length, flags, offset and checksum of a whole one.
    Whole(&'a [u8]),
    /// Others are missing.
    Waiting,
    /// It was not taken, be its datagram dropped with it or not.
    Dropped(Why),
}

/// A datagram that was not complete in time.
#[derive(Clone, Copy, Debug)]
pub struct Expired<'a> {
    /// Who sent it, or says so.
    pub source: Ipv4Addr,
    /// Whom it was for.
    pub destination: Ipv4Addr,
    /// The fragment at offset 0 if it came: its header, and 8 bytes of payload. Only then may a
    /// time exceeded message, which quotes these bytes, be sent (RFC 792, RFC 1122 3.3.2).
    pub quote: Option<&'a [u8]>,
}

/// What came and what became of it, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Fragments that came.
    pub fragments: u64,
    /// Datagrams that were completed.
    pub reassembled: u64,
    /// Fragments ignored as they had come before.
    pub duplicates: u64,
    /// Datagrams dropped for overlaps.
    pub overlaps: u64,
    /// Fragments dropped as their datagram had been.
    pub poisoned: u64,
    /// Datagrams dropped for their length.
    pub too_long: u64,
    /// Fragments dropped as they hide the header of TCP.
    pub tiny: u64,
    /// Datagrams dropped for their congestion marks.
    pub ecn: u64,
    /// Datagrams dropped as their source's budget was full.
    pub evicted_source: u64,
    /// Datagrams dropped as the whole budget was full.
    pub evicted_whole: u64,
    /// Datagrams that were not complete in time.
    pub expired: u64,
}

/// Where fragments wait for each other.
#[derive(Debug)]
pub struct Reassembly {
    limits: Limits,
    pending: Pending,
    whole: Vec<u8>,
    counts: Counts,
    /// The latest time that was said.
    latest_ns: u64,
}

/// A fragment as far as it concerns us.
struct Fragment<'a> {
    header: Header,
    key: Key,
    start: usize,
    end: usize,
    payload: &'a [u8],
}

impl<'a> Fragment<'a> {
    fn of(datagram: &Datagram<'a>) -> Fragment<'a> {
        let (header, payload) = (datagram.header(), datagram.payload());
        let start = usize::from(header.offset_bytes);
        Fragment { header, key: Key::of(&header), start, end: start + payload.len(), payload }
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
    /// Budgets below [`LEAST_BUDGET_BYTES`] are raised to it, as is the whole one to a source's.
    pub fn new(limits: Limits) -> Reassembly {
        let source_bytes = limits.source_bytes.max(LEAST_BUDGET_BYTES);
        let whole_bytes = limits.whole_bytes.max(source_bytes);
        Reassembly {
            limits: Limits { whole_bytes, source_bytes, ..limits },
            pending: Pending::new(),
            whole: Vec::new(),
            counts: Counts::default(),
            latest_ns: 0,
        }
    }

    /// The limits as they are kept.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What came so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes of memory that what waits takes now. What it took before is kept for what comes next,
    /// and so there may be more of it, but no more than was once within the budget.
    pub fn held_bytes(&self) -> usize {
        self.pending.cost()
    }

    /// Bytes of memory that what waits of a source takes now.
    pub fn held_bytes_of(&self, source: Ipv4Addr) -> usize {
        self.pending.cost_of(source)
    }

    /// Datagrams that wait now, those of which nothing more is wanted included.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Takes a datagram at a time (of a clock that does not go back; an earlier one is taken for
    /// the latest said before). One that is no fragment is whole as it is, and not counted.
    ///
    /// A datagram whose time is over, but of which [`Reassembly::expire`] was not yet told, begins
    /// anew with this fragment.
    pub fn take<'a>(&'a mut self, datagram: &Datagram<'a>, now_ns: u64) -> Taken<'a> {
        if !datagram.is_fragment() {
            return Taken::Whole(datagram.bytes());
        }
        self.latest_ns = self.latest_ns.max(now_ns);
        self.counts.fragments += 1;
        let fragment = Fragment::of(datagram);
        if fragment.hides_tcp() {
            self.counts.tiny += 1;
            return Taken::Dropped(Why::Tiny);
        }
        match self.put(&fragment, datagram) {
            Err(why) => Taken::Dropped(why),
            Ok(id) if self.is_complete(id) => self.deliver(id),
            Ok(_) => Taken::Waiting,
        }
    }

    /// Gives up those whose time is over, and says so of each of which nothing was wrong.
    pub fn expire(&mut self, now_ns: u64, mut gone: impl FnMut(Expired<'_>)) {
        self.latest_ns = self.latest_ns.max(now_ns);
        while let Some(id) = self.pending.oldest() {
            let waiting = self.pending.get(id);
            if waiting.deadline_ns > self.latest_ns {
                break;
            }
            if !waiting.is_poisoned {
                self.counts.expired += 1;
                let Key { source, destination, .. } = waiting.key;
                gone(Expired { source, destination, quote: waiting.quote() });
            }
            self.pending.remove(id);
        }
    }

    /// When there will be something to [`Reassembly::expire`]; `None` while nothing waits.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        self.pending.oldest().map(|id| self.pending.get(id).deadline_ns)
    }

    /// Puts a fragment to its datagram, which may be a new one.
    fn put(&mut self, fragment: &Fragment<'_>, datagram: &Datagram<'_>) -> Result<u32, Why> {
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

    /// The datagram that waits for a fragment of this key, if its time is not over.
    fn find(&mut self, key: &Key) -> Option<u32> {
        let id = self.pending.find(key)?;
        let waiting = self.pending.get(id);
        if waiting.deadline_ns > self.latest_ns {
            return Some(id);
        }
        if !waiting.is_poisoned {
            self.counts.expired += 1;
        }
        self.pending.remove(id);
        None
    }

    /// Whether a fragment goes with what came of its datagram before; if it contradicts that, the
    /// datagram is poisoned.
    fn compare(
        &mut self,
        id: u32,
        fragment: &Fragment<'_>,
        header_bytes: usize,
    ) -> Result<(), Why> {
        let waiting = self.pending.get(id);
        if waiting.is_poisoned {
            self.counts.poisoned += 1;
            return Err(Why::Poisoned);
        }
        let is_last = !fragment.header.more_fragments;
        let ends_well = match waiting.payload_bytes {
            Some(payload_bytes) if is_last => fragment.end == payload_bytes,
            Some(payload_bytes) => fragment.end < payload_bytes,
            // Of what came nothing was the last, so that it must end before the last begins.
            None => !is_last || waiting.end_bytes <= fragment.start,
        };
        let place = waiting.chunks.look(&self.pending.store, fragment.start, fragment.payload);
        if !ends_well || place == Place::Taken {
            self.counts.overlaps += 1;
            self.pending.poison(id);
            return Err(Why::Overlap);
        }
        if place == Place::Same {
            self.counts.duplicates += 1;
            return Err(Why::Duplicate);
        }
        let first_bytes = match (waiting.header_bytes, fragment.start) {
            (0, 0) => header_bytes,
            (0, _) => LEAST_HEADER_BYTES,
            (held, _) => usize::from(held),
        };
        let end = waiting.end_bytes.max(fragment.end);
        if first_bytes + end > MOST_BYTES {
            self.counts.too_long += 1;
            self.pending.poison(id);
            return Err(Why::TooLong);
        }
        Ok(())
    }

    /// Drops the oldest until a fragment fits into the budgets. Its own datagram may be among them,
    /// and then the fragment is of no use any more.
    fn make_room(&mut self, own: Option<u32>, fragment: &Fragment<'_>) -> Result<(), Why> {
        let own_chunks = own.map_or_else(chunks::Chunks::new, |id| self.pending.get(id).chunks);
        let more =
            own_chunks.more_cost(&self.pending.store, fragment.start, fragment.payload.len());
        let more = if own.is_some() { more } else { more + DATAGRAM_COST };
        let source = fragment.key.source;
        while self.pending.cost_beside(own, source) + more > self.limits.source_bytes {
            let Some(oldest) = self.pending.oldest_of(source) else { break };
            self.counts.evicted_source += self.evict(oldest);
            if own == Some(oldest) {
                return Err(Why::SourceBudget);
            }
        }
        while self.pending.cost() + more > self.limits.whole_bytes {
            let Some(oldest) = self.pending.oldest() else { break };
            self.counts.evicted_whole += self.evict(oldest);
            if own == Some(oldest) {
                return Err(Why::WholeBudget);
            }
        }
        Ok(())
    }

    /// Drops one; 1 if fragments of it were held.
    fn evict(&mut self, id: u32) -> u64 {
        let counted = u64::from(!self.pending.get(id).is_poisoned);
        self.pending.remove(id);
        counted
    }

    fn is_complete(&self, id: u32) -> bool {
        let waiting = self.pending.get(id);
        waiting.payload_bytes == Some(waiting.came_bytes)
    }

    /// Puts a complete datagram together, under the header of its first fragment.
    fn deliver(&mut self, id: u32) -> Taken<'_> {
        let waiting = self.pending.get(id);
        let header_bytes = usize::from(waiting.header_bytes);
        // Nothing overlaps, nothing lies beyond the end, and as many bytes came as there are before
        // it: so there is a first fragment, and it was checked when it came.
        let first = Header::of_checked(&waiting.first[..header_bytes]);
        let congestion = waiting.codepoints & CE != 0;
        if congestion && waiting.codepoints & NOT_ECT != 0 {
            self.counts.ecn += 1;
            self.pending.remove(id);
            return Taken::Dropped(Why::Ecn);
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
        self.counts.reassembled += 1;
        Taken::Whole(&self.whole)
    }
}
