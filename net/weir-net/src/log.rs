//! A log of events: a ring in a shared file. Several processes and threads write it at once, and it
//! survives their being killed.
//!
//! L. Allen found that his ICMP daemon spent most of its time writing its log, unbuffered, for fear
//! of losing the buffer in a crash. Here a written event is in the kernel's pages, at the price
//! of a few stores (docs/contracts/log.md has the promises and figures).
//!
//! - [`Log`] writes. [`Kinds`] choose at run time which events are logged: an event of a kind that
//!   is off costs one load.
//! - [`LogReader`] reads and follows, in any process that may read the file.
//! - [`mod@format`]: text, JSON and capture files.
//! - `layout` describes the file and `event` its records, `scan` reads it while others write,
//!   `file` creates and opens it, and `clock` gives the time.
//!
//! # How an event is written
//! A writer reserves the units it needs by adding to the head. It stores all words but the first
//! tag, and then that tag with Release. No writer waits for another. A writer that is killed in
//! between leaves a gap, which readers skip. A writer that is stopped in between while others write
//! a whole lap gives up if it can see that; otherwise it damages a unit of another writer, which
//! readers detect by the unit's check.
//!
//! When a call returns, the event is in the file as all processes see it, and stays there until the
//! ring has come round, even if the processes die. It need not be on the disk: only the kinds of
//! [`Log::set_sync_mask`] wait for that.
//!
//! The release builds this crate for size (docs/adr/0014): what runs for each unit is `inline(always)`.

mod clock;
mod event;
mod file;
mod flow;
pub mod format;
mod kinds;
mod layout;
mod packet;
mod reader;
mod reason;
mod request;
mod scan;
#[cfg(test)]
mod tests;

pub use event::{
    Direction, Dropped, Dump, EventBody, FailureEvent, LogEvent, StationChange, StationEvent,
    Transaction,
};
pub use file::old_name;
pub use flow::{FlowChange, FlowEvent};
pub use kinds::Kinds;
pub use packet::{Packet, Transport};
pub use reader::{IDLE, LogCounts, LogReader};
pub use reason::EventReason;
pub use request::{Asker, RequestEvent};

use crate::error::{Error, ErrorKind, Result};
use crate::wire::ipv4::Datagram;
use clock::EventClock;
use event::{FIRST_DUMP_BYTES, Packed, dump_units, pack_dump};
use layout::{CONTINUED, LogShape, LogUnit, PAYLOAD_BYTES, UNIT_WORDS, payload_of, tag_at, word};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use weir_sys::words::Words;

/// Most bytes of a packet that a dump keeps.
pub const MOST_SNAP_BYTES: usize = 65_535;

/// Most bytes of the file that [`Log::prepare`] brings into memory.
const MOST_PREPARED_BYTES: usize = 16 << 20;

/// Units of a dump between two checks whether its writer was overtaken.
const UNITS_A_LOOK: u64 = 16;

/// A log open for writing. Its clones share the log.
#[derive(Clone, Debug)]
pub struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    words: Words,
    shape: LogShape,
    clock: EventClock,
}

/// The masks as an event read them.
#[derive(Clone, Copy)]
struct Masks(u64);

impl Masks {
    #[inline]
    fn logs(self, kind: Kinds) -> bool {
        Kinds::of_bits(self.0 as u32).has(kind)
    }

    #[inline]
    fn syncs(self, kind: Kinds) -> bool {
        Kinds::of_bits((self.0 >> 32) as u32).has(kind)
    }
}

impl Log {
    /// Creates a log at `path` (mode 600) with a ring of `ring_bytes`, rounded up to a power of
    /// two, 4 KiB to 1 GiB; the file has one page more. Its disk space is reserved now. An existing
    /// log of this user is kept as [`old_name`] and replaces an older one; its remaining writers go
    /// on writing there. A new log takes [`Kinds::USUAL`].
    ///
    /// # Errors
    /// `Invalid`: too long. `Taken`: a file that is not a log of this user is there. Else the
    /// kernel's error, such as a full disk.
    pub fn create(path: impl AsRef<Path>, ring_bytes: u64) -> Result<Log> {
        file::create(path.as_ref(), ring_bytes)?;
        Log::open(path)
    }

    /// Opens an existing log.
    ///
    /// # Errors
    /// `Corrupt`: the file is not a log, or is damaged. `Denied`: it is not this user's, or others
    /// may write it. Else the kernel's error.
    pub fn open(path: impl AsRef<Path>) -> Result<Log> {
        let path = path.as_ref();
        let (file, shape) = file::open_own(path)?;
        // Fits: at most 1 GiB and a page.
        let words = Words::of_file(&file, shape.file_bytes() as usize)
            .map_err(|cause| Error::os("map", file::object(path), cause))?;
        Ok(Log(Arc::new(Inner { words, shape, clock: EventClock::new() })))
    }

    /// Brings the beginning of the file into memory (16 MiB at most), for a process that is about to
    /// log packets. Otherwise the first event in each page waits until the kernel has that page.
    pub fn prepare(&self) {
        let words = &self.0.words;
        // An older kernel cannot do it, and a full memory refuses it: then each event waits for its
        // own page, as it would have done.
        let _ = words.bring_in(0, words.len().min(MOST_PREPARED_BYTES / 8));
    }

    #[inline]
    fn masks(&self) -> Masks {
        // Relaxed: no other data depends on when a change is seen.
        Masks(self.0.words.word(word::MASKS).load(Ordering::Relaxed))
    }

    /// Whether one of these kinds is logged now; lets callers skip costly preparation.
    #[inline]
    pub fn wants(&self, kinds: Kinds) -> bool {
        self.masks().logs(kinds)
    }

    /// Returns the kinds that are logged.
    pub fn mask(&self) -> Kinds {
        Kinds::of_bits(self.masks().0 as u32)
    }

    /// Logs these kinds from now on, in all processes. Returns the kinds logged before.
    pub fn set_mask(&self, kinds: Kinds) -> Kinds {
        Kinds::of_bits(self.change_masks(u64::from(kinds.bits()), 0xffff_ffff) as u32)
    }

    /// Returns the kinds whose events wait until they are on the disk.
    pub fn sync_mask(&self) -> Kinds {
        Kinds::of_bits((self.masks().0 >> 32) as u32)
    }

    /// Makes calls for events of these kinds wait, from now on and in all processes, until the
    /// event is on the disk, so that it survives a power failure. Returns the kinds that waited
    /// before. A log in memory (tmpfs) never survives one.
    pub fn set_sync_mask(&self, kinds: Kinds) -> Kinds {
        let before = self.change_masks(u64::from(kinds.bits()) << 32, 0xffff_ffff << 32);
        Kinds::of_bits((before >> 32) as u32)
    }

    /// Replaces some bits of the masks; returns all bits as they were before.
    fn change_masks(&self, bits: u64, of: u64) -> u64 {
        let masks = self.0.words.word(word::MASKS);
        let change = |now: u64| Some(now & !of | bits);
        // Relaxed: as `masks`. It never gives up.
        let changed = masks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        changed.unwrap_or_else(|now| now)
    }

    /// Logs a packet that was received or sent.
    #[inline]
    pub fn transaction(&self, transaction: &Transaction) {
        self.put_if(Kinds::TRANSACTIONS, || transaction.pack());
    }

    /// Logs a packet given as bytes, which may be anything, together with their dump.
    #[inline]
    pub fn packet(&self, direction: Direction, bytes: &[u8]) {
        let masks = self.masks();
        if masks.logs(Kinds::TRANSACTIONS) {
            let transaction = Transaction { direction, packet: Packet::of(bytes) };
            self.put(transaction.pack(), Kinds::TRANSACTIONS, masks);
        }
        self.dump(direction, bytes, masks);
    }

    /// Logs a failure.
    #[inline]
    pub fn error(&self, failure: &FailureEvent) {
        self.put_if(Kinds::ERRORS, || failure.pack());
    }

    /// Logs that a packet was dropped.
    #[inline]
    pub fn dropped(&self, dropped: &Dropped) {
        self.put_if(Kinds::DROPS, || dropped.pack());
    }

    /// Logs that a station attached or detached.
    #[inline]
    pub fn station(&self, station: &StationEvent) {
        self.put_if(Kinds::STATIONS, || station.pack());
    }

    /// Logs a change of a transfer or a connection.
    #[inline]
    pub fn flow(&self, flow: &FlowEvent) {
        self.put_if(Kinds::FLOWS, || flow.pack());
    }

    /// Logs a datagram of a host that asks for something, before it is answered.
    #[inline]
    pub fn foreign_request(&self, datagram: &Datagram<'_>) {
        if self.wants(Kinds::FOREIGN_REQUESTS)
            && let Some(request) = RequestEvent::of_datagram(datagram)
        {
            self.request(&request);
        }
    }

    /// Logs a request that a daemon serves.
    #[inline]
    pub fn request(&self, request: &RequestEvent) {
        self.put_if(request.kind(), || request.pack());
    }

    /// Logs the bytes of a packet that was received.
    #[inline]
    pub fn dump_in(&self, bytes: &[u8]) {
        self.dump(Direction::In, bytes, self.masks());
    }

    /// Logs the bytes of a packet that was sent.
    #[inline]
    pub fn dump_out(&self, bytes: &[u8]) {
        self.dump(Direction::Out, bytes, self.masks());
    }

    #[inline]
    fn dump(&self, direction: Direction, bytes: &[u8], masks: Masks) {
        let kind = match direction {
            Direction::In => Kinds::DUMPS_IN,
            Direction::Out => Kinds::DUMPS_OUT,
        };
        if masks.logs(kind) {
            self.put_dump(direction, bytes, kind, masks);
        }
    }

    /// Writes an event of one unit if its kind is logged.
    #[inline]
    fn put_if(&self, kind: Kinds, pack: impl FnOnce() -> Packed) {
        let masks = self.masks();
        if masks.logs(kind) {
            self.put(pack(), kind, masks);
        }
    }

    fn put(&self, packed: Packed, kind: Kinds, masks: Masks) {
        // All slow work comes before the reservation.
        let unit = packed.at(self.0.clock.now_ns());
        let seal = unit.seal();
        let position = self.reserve(1);
        self.store(position, &unit, seal);
        // Prefetches the line that the next writers store to: a unit is half a line.
        self.0.words.expect_store(self.index(position.wrapping_add(2)));
        if masks.syncs(kind) {
            self.sync(position, 1);
        }
    }

    fn put_dump(&self, direction: Direction, bytes: &[u8], kind: Kinds, masks: Masks) {
        let inner = &*self.0;
        let fits = FIRST_DUMP_BYTES + (inner.shape.most_units() - 1) * PAYLOAD_BYTES;
        let kept = &bytes[..bytes.len().min(MOST_SNAP_BYTES).min(fits)];
        let length_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let first = pack_dump(direction, length_bytes, kept).at(inner.clock.now_ns());
        let units = dump_units(kept.len()) as u64;
        let position = self.reserve(units);
        let mut further = kept.get(FIRST_DUMP_BYTES..).unwrap_or_default();
        let mut number = 0;
        while !further.is_empty() {
            if number % UNITS_A_LOOK == 0 && self.is_overtaken(position) {
                return;
            }
            let mut last = [0; PAYLOAD_BYTES];
            // A copy of constant length is a third faster.
            let (whole, rest) = match further.split_first_chunk() {
                Some(parts) => parts,
                None => {
                    last[..further.len()].copy_from_slice(further);
                    (&last, &[][..])
                }
            };
            further = rest;
            let unit = LogUnit { code: CONTINUED, detail: 0, payload: payload_of(whole) };
            number += 1;
            self.store(position.wrapping_add(number), &unit, unit.seal());
        }
        // The first unit is written last: it makes the record visible.
        self.store(position, &first, first.seal());
        if masks.syncs(kind) {
            self.sync(position, units);
        }
    }

    /// Reserves the next units; returns the position of the first.
    #[inline(always)]
    fn reserve(&self, units: u64) -> u64 {
        // Relaxed, with the fence below: a reader that sees one of the words stored from here on,
        // and then passes an Acquire fence (`LogReader`), sees this head or a later one, and so
        // knows that the previous lap is being overwritten.
        let position = self.0.words.word(word::HEAD).fetch_add(units, Ordering::Relaxed);
        fence(Ordering::Release);
        position
    }

    /// Whether other writers have come round since this position was reserved.
    #[inline(always)]
    fn is_overtaken(&self, position: u64) -> bool {
        // Relaxed: the check of each unit covers a look that comes late.
        let head = self.0.words.word(word::HEAD).load(Ordering::Relaxed);
        head.wrapping_sub(position) > self.0.shape.units
    }

    #[inline(always)]
    fn store(&self, position: u64, unit: &LogUnit, seal: u64) {
        let (words, at) = (&self.0.words, self.index(position));
        // Relaxed: published by the tag.
        words.word(at + 1).store(unit.payload[0], Ordering::Relaxed);
        words.word(at + 2).store(unit.payload[1], Ordering::Relaxed);
        words.word(at + 3).store(unit.payload[2], Ordering::Relaxed);
        // Release: a thread that sees this tag sees the words above (`LogReader` reads a copy made
        // by the kernel, which orders nothing by itself; there the check decides).
        words.word(at).store(tag_at(seal, position), Ordering::Release);
    }

    /// Returns the first word of a unit, within range whatever the head says.
    #[inline(always)]
    fn index(&self, position: u64) -> usize {
        word::RING + (position & (self.0.shape.units - 1)) as usize * UNIT_WORDS
    }

    /// Waits until these units, and the head behind them, are on the disk.
    #[cold]
    fn sync(&self, position: u64, units: u64) {
        let (words, from) = (&self.0.words, self.index(position));
        let to = from + units as usize * UNIT_WORDS;
        let end = words.len();
        let ring = if to <= end {
            words.sync(from, to)
        } else {
            words.sync(from, end).and_then(|()| words.sync(word::RING, word::RING + to - end))
        };
        // Callers of a log handle no errors: the failure is counted, and readers report it.
        if ring.and_then(|()| words.sync(0, word::RING)).is_err() {
            // Relaxed: only counted.
            words.word(word::UNSYNCED).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reserves units and does not write them, as a writer does that is killed at that instant.
    #[cfg(test)]
    fn die_within(&self, units: u64) {
        self.reserve(units);
    }
}

/// Maps damage in a log to an error kind.
fn corrupt(operation: &'static str, path: &Path, why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, operation, file::object(path), why)
}
