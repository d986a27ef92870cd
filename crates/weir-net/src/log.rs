//! A log of events: a ring in a shared file, which processes and threads write at once, and which
//! is still there when they have been killed.
//!
//! L. Allen found that most of the time of his ICMP daemon went into writing its log, unbuffered,
//! for fear of losing what was in a buffer when it crashed. Here a written event lies in pages of
//! the kernel's, at the price of a few stores (docs/contracts/log.md has the promises and figures).
//!
//! - [`Log`] writes. What is logged is chosen while it runs, by [`Kinds`]: an event of a kind that
//!   is off costs one load.
//! - [`Reader`] reads and follows, in any process that may read the file.
//! - [`mod@format`]: text, JSON and capture files.
//! - `layout` is the file, `event` what lies in it, `scan` how it is read while others write,
//!   `file` how it is made and opened, `clock` where the time comes from.
//!
//! # How an event is written
//! A writer adds the units it needs to the head: they are its own. It stores all words but the
//! first tag, and that last, with Release. Nobody waits for anybody. A writer that is killed
//! between leaves a gap, which readers step over; one that is stopped between for as long as others
//! write a whole lap gives up if it can see that, and else spoils a unit of others, which readers
//! see by its check.
//!
//! What a return from a call promises: the event is in the file as all processes see it, and stays
//! until the ring has come round, whatever becomes of the processes. Not that it is on the disk:
//! only kinds of [`Log::set_sync_mask`] wait for that.

mod clock;
mod event;
mod file;
pub mod format;
mod kinds;
mod layout;
mod reader;
mod reason;
mod scan;
#[cfg(test)]
mod tests;

pub use event::{
    Change, Direction, Dropped, Dump, Event, Failure, Packet, Station, Transaction, Transport, What,
};
pub use file::old_name;
pub use kinds::Kinds;
pub use reader::{Counts, IDLE, Reader};
pub use reason::Reason;

use crate::error::{Error, ErrorKind, Result};
use clock::Clock;
use event::{FIRST_DUMP_BYTES, Packed, dump_units, pack_dump};
use layout::{CONTINUED, PAYLOAD_BYTES, Shape, UNIT_WORDS, Unit, tag_at, word, words_of};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use weir_sys::words::Words;

/// Most bytes of a packet that a dump keeps.
pub const MOST_SNAP_BYTES: usize = 65_535;

/// Units of a dump between two looks whether its writer was overtaken.
const UNITS_A_LOOK: u64 = 16;

/// A log, open for writing. Its clones are the same log.
#[derive(Clone, Debug)]
pub struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    words: Words,
    shape: Shape,
    clock: Clock,
    path: PathBuf,
}

/// The masks as an event found them.
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
    /// Makes a new log at `path` (mode 600), with a ring of `ring_bytes`, rounded up to a power of
    /// two, 4 KiB to 1 GiB; the file has a page more. Its disk space is set aside now. A log of
    /// this user's that is there already is kept as [`old_name`], in place of an older one: its
    /// writers, if there are any left, go on writing there. A new log takes [`Kinds::USUAL`].
    ///
    /// # Errors
    /// `Invalid`: too long. `Taken`: a file that is no log of this user's is there. Else as the
    /// kernel says, such as that the disk is full.
    pub fn create(path: impl AsRef<Path>, ring_bytes: u64) -> Result<Log> {
        file::create(path.as_ref(), ring_bytes)?;
        Log::open(path)
    }

    /// Opens a log that is there.
    ///
    /// # Errors
    /// `Corrupt`: it is none, or spoilt. `Denied`: it belongs to another user, or others may write it.
    /// Else as the kernel says.
    pub fn open(path: impl AsRef<Path>) -> Result<Log> {
        let path = path.as_ref();
        let (file, shape) = file::open_own(path)?;
        // Fits: at most 1 GiB and a page.
        let words = Words::of_file(&file, shape.file_bytes() as usize)
            .map_err(|cause| Error::os("map", file::object(path), cause))?;
        Ok(Log(Arc::new(Inner { words, shape, clock: Clock::new(), path: path.to_owned() })))
    }

    /// Where it lies, or lay when it was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    #[inline]
    fn masks(&self) -> Masks {
        // Relaxed: nothing else hangs on when a change is seen.
        Masks(self.0.words.word(word::MASKS).load(Ordering::Relaxed))
    }

    /// Whether one of these kinds is logged now: for what is costly to prepare.
    #[inline]
    pub fn wants(&self, kinds: Kinds) -> bool {
        self.masks().logs(kinds)
    }

    /// The kinds that are logged.
    pub fn mask(&self) -> Kinds {
        Kinds::of_bits(self.masks().0 as u32)
    }

    /// Logs these kinds from now on, in all processes. What was logged before.
    pub fn set_mask(&self, kinds: Kinds) -> Kinds {
        Kinds::of_bits(self.change_masks(u64::from(kinds.bits()), 0xffff_ffff) as u32)
    }

    /// The kinds whose events wait until they are on the disk.
    pub fn sync_mask(&self) -> Kinds {
        Kinds::of_bits((self.masks().0 >> 32) as u32)
    }

    /// From now on, in all processes, a call for an event of these kinds returns once it is on the
    /// disk, and so survives a power failure. What was so before. A log in memory (tmpfs) never
    /// does.
    pub fn set_sync_mask(&self, kinds: Kinds) -> Kinds {
        let before = self.change_masks(u64::from(kinds.bits()) << 32, 0xffff_ffff << 32);
        Kinds::of_bits((before >> 32) as u32)
    }

    /// Replaces some bits of the masks; all as they were before.
    fn change_masks(&self, bits: u64, of: u64) -> u64 {
        let masks = self.0.words.word(word::MASKS);
        let change = |now: u64| Some(now & !of | bits);
        // Relaxed: as `masks`. It never gives up.
        let changed = masks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        changed.unwrap_or_else(|now| now)
    }

    /// Keeps at most so many bytes of a packet in a dump from now on (65,535 where nothing else is
    /// said); never more than fit a quarter of the ring.
    pub fn set_snap_bytes(&self, bytes: u16) {
        // Relaxed: as `masks`.
        self.0.words.word(word::SNAP_BYTES).store(u64::from(bytes), Ordering::Relaxed);
    }

    /// Logs a packet that was received or sent.
    #[inline]
    pub fn transaction(&self, transaction: &Transaction) {
        self.put_if(Kinds::TRANSACTIONS, || transaction.pack());
    }

    /// The same, of the bytes of a packet, which may be anything; and their dump.
    #[inline]
    pub fn packet(&self, direction: Direction, bytes: &[u8]) {
        let masks = self.masks();
        if masks.logs(Kinds::TRANSACTIONS) {
            let transaction = Transaction { direction, packet: Packet::of(bytes) };
            self.put(transaction.pack(), Kinds::TRANSACTIONS, masks);
        }
        self.dump(direction, bytes, masks);
    }

    /// Logs that something went wrong.
    #[inline]
    pub fn error(&self, failure: &Failure) {
        self.put_if(Kinds::ERRORS, || failure.pack());
    }

    /// Logs that a packet was dropped.
    #[inline]
    pub fn dropped(&self, dropped: &Dropped) {
        self.put_if(Kinds::DROPS, || dropped.pack());
    }

    /// Logs that a station came or went.
    #[inline]
    pub fn station(&self, station: &Station) {
        self.put_if(Kinds::STATIONS, || station.pack());
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

    /// Writes an event of one unit.
    fn put(&self, packed: Packed, kind: Kinds, masks: Masks) {
        // All that takes time comes before the reservation.
        let unit = packed.at(self.0.clock.now_ns());
        let seal = unit.seal();
        let position = self.reserve(1);
        self.store(position, &unit, seal);
        // Whoever writes next finds its line here: units are half a line.
        self.0.words.expect_store(self.index(position.wrapping_add(2)));
        if masks.syncs(kind) {
            self.sync(position, 1);
        }
    }

    /// Writes a dump.
    fn put_dump(&self, direction: Direction, bytes: &[u8], kind: Kinds, masks: Masks) {
        let inner = &*self.0;
        let fits = FIRST_DUMP_BYTES + (inner.shape.most_units() - 1) * PAYLOAD_BYTES;
        // Relaxed: as `masks`. The file may say anything.
        let snap = inner.words.word(word::SNAP_BYTES).load(Ordering::Relaxed);
        let most = MOST_SNAP_BYTES.min(fits).min(usize::try_from(snap).unwrap_or(usize::MAX));
        let kept = &bytes[..bytes.len().min(most)];
        let length_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let first = pack_dump(direction, length_bytes, kept).at(inner.clock.now_ns());
        let units = dump_units(kept.len()) as u64;
        let position = self.reserve(units);
        let further = kept.get(FIRST_DUMP_BYTES..).unwrap_or_default();
        for (number, chunk) in (0..).zip(further.chunks(PAYLOAD_BYTES)) {
            if number % UNITS_A_LOOK == 0 && self.is_overtaken(position) {
                // Relaxed: only counted.
                inner.words.word(word::OVERTAKEN).fetch_add(1, Ordering::Relaxed);
                return;
            }
            let mut last = [0; PAYLOAD_BYTES];
            // Of a length that is known: a third faster.
            let whole = chunk.first_chunk().unwrap_or_else(|| {
                last[..chunk.len()].copy_from_slice(chunk);
                &last
            });
            let unit = Unit { code: CONTINUED, detail: 0, payload: words_of(whole) };
            self.store(position.wrapping_add(1 + number), &unit, unit.seal());
        }
        // The first unit is the last: with it the record is there.
        self.store(position, &first, first.seal());
        if masks.syncs(kind) {
            self.sync(position, units);
        }
    }

    /// Takes the next units: the position of the first.
    #[inline]
    fn reserve(&self, units: u64) -> u64 {
        // Relaxed, with the fence below: whoever reads one of the words stored from here on, and
        // then has a fence with Acquire (`Reader`), sees this head or a later one, and so that the
        // lap before is being overwritten.
        let position = self.0.words.word(word::HEAD).fetch_add(units, Ordering::Relaxed);
        fence(Ordering::Release);
        position
    }

    /// Whether others have come round since this position was reserved.
    #[inline]
    fn is_overtaken(&self, position: u64) -> bool {
        // Relaxed: a look that comes late is what the check of each unit is for.
        let head = self.0.words.word(word::HEAD).load(Ordering::Relaxed);
        head.wrapping_sub(position) > self.0.shape.units
    }

    #[inline]
    fn store(&self, position: u64, unit: &Unit, seal: u64) {
        let (words, at) = (&self.0.words, self.index(position));
        // Relaxed: published by the tag.
        words.word(at + 1).store(unit.payload[0], Ordering::Relaxed);
        words.word(at + 2).store(unit.payload[1], Ordering::Relaxed);
        words.word(at + 3).store(unit.payload[2], Ordering::Relaxed);
        // Release: whoever sees this tag sees the words above (`Reader` reads by the kernel's copy,
        // which orders nothing by itself; there the check decides).
        words.word(at).store(tag_at(seal, position), Ordering::Release);
    }

    /// The first word of a unit. In range whatever the head says.
    #[inline]
    fn index(&self, position: u64) -> usize {
        word::RING + (position & (self.0.shape.units - 1)) as usize * UNIT_WORDS
    }

    /// Waits until some units, and the head behind them, are on the disk.
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
        // Nobody waits for an answer from a log: it is counted, and readers say so.
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

/// Which kind of error a spoilt log is.
fn corrupt(operation: &'static str, path: &Path, why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, operation, file::object(path), why)
}
