//! Finding records among units while others write them. No clock and no I/O: the units read and the
//! time are arguments.
//!
//! The tag tells whether a unit has been written at its position. If it has not, its writer may be
//! about to write it, or was killed and never will; the reader cannot tell which. So it gives a gap
//! up
//! - once the head has been beyond it for [`PATIENCE_NS`]: a writer needs nanoseconds between its
//!   reservation and its last store, unless it loses its CPU meanwhile; or
//! - once the head is half a ring beyond it: waiting longer would lose the records behind it.
//!
//! This reader does not return a record that is written after its gap was given up; a later reader
//! does.

use super::MOST_SNAP_BYTES;
use super::event::{LogEvent, dump_units, units_of, unpack};
use super::layout::{CONTINUED, LogShape, LogUnit, UNIT_BYTES, words_of};

/// How long to wait for a gap, at least; at most twice as long if the caller keeps looking.
pub const PATIENCE_NS: u64 = 250_000_000;

/// Most units of a record: a dump of a whole packet.
pub const MOST_RECORD_UNITS: usize = dump_units(MOST_SNAP_BYTES);

/// The position of a reader, and what it has seen.
#[derive(Clone, Debug)]
pub struct Scan {
    shape: LogShape,
    /// The next unit to look at.
    position: u64,
    /// The last head seen.
    head: u64,
    /// A head, and when it was seen.
    mark: (u64, u64),
    /// A head that was seen [`PATIENCE_NS`] ago or earlier.
    aged: u64,
    /// Whether the next units may continue a record whose beginning was never seen.
    adrift: bool,
    /// Whether that record began before this reader did: its units do not count as lost.
    at_beginning: bool,
    /// Whether the units before this one were given up.
    in_gap: bool,
    /// Units that were overwritten before they were read.
    pub overwritten: u64,
    /// Gaps that were given up.
    pub unfinished: u64,
}

/// The result of looking at units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanStep {
    /// An event, and how many units it took.
    Event(LogEvent, usize),
    /// This many units were skipped.
    Over(usize),
    /// The record is incomplete: it needs more units than these.
    More,
    /// The first of these units has not been written.
    Absent,
}

impl Scan {
    /// Begins at the oldest unit in the ring.
    pub fn new(shape: LogShape, head: u64, now_ns: u64) -> Scan {
        let oldest = head.saturating_sub(shape.units);
        Scan {
            shape,
            position: oldest,
            head,
            mark: (head, now_ns),
            aged: oldest,
            adrift: oldest > 0,
            at_beginning: true,
            in_gap: false,
            overwritten: 0,
            unfinished: 0,
        }
    }

    /// Returns the position of the next unit to look at.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the last head seen.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns the number of units up to the head.
    pub fn behind(&self) -> u64 {
        self.head - self.position
    }

    /// Records the head before units are read.
    ///
    /// # Errors
    /// The reason why this head is impossible.
    pub fn note_head(&mut self, head: u64, now_ns: u64) -> Result<(), &'static str> {
        if now_ns.saturating_sub(self.mark.1) >= PATIENCE_NS {
            self.aged = self.mark.0;
            self.mark = (head, now_ns);
        }
        self.advance(head).map(drop)
    }

    /// Records the head after units were read. Returns how many of them, from the position on, were
    /// or may have been overwritten meanwhile; these are skipped.
    ///
    /// # Errors
    /// The reason why this head is impossible.
    pub fn advance(&mut self, head: u64) -> Result<u64, &'static str> {
        if head < self.head {
            return Err("its head went backwards");
        }
        self.head = head;
        let oldest = head.saturating_sub(self.shape.units);
        let lost = oldest.saturating_sub(self.position);
        if lost > 0 {
            self.overwritten += lost;
            self.position = oldest;
            self.adrift = true;
            self.at_beginning = false;
            self.in_gap = false;
        }
        Ok(lost)
    }

    /// Looks at units read from the position on. All must be below the head, and none may have been
    /// overwritten during the read.
    pub fn step(&mut self, units: &[u8]) -> ScanStep {
        let Some(first) = self.unit(units, 0) else { return ScanStep::Absent };
        if first.code == CONTINUED && self.adrift {
            // The rest of an overwritten record: these units count as overwritten too.
            self.overwritten += u64::from(!self.at_beginning);
            return self.over(1);
        }
        let Some(count) = units_of(&first).filter(|count| *count <= self.most_units()) else {
            // It continues an unfinished record, or it is garbage.
            return self.give_up(1);
        };
        if count as u64 > self.behind() {
            // No writer has reached units beyond the head.
            return self.give_up(1);
        }
        if count * UNIT_BYTES > units.len() {
            return ScanStep::More;
        }
        let further: Option<Vec<[u64; 3]>> = (1..count)
            .map(|at| self.unit(units, at).filter(|unit| unit.code == CONTINUED))
            .map(|unit| unit.map(|unit| unit.payload))
            .collect();
        match further.map(|further| unpack(&first, &further)) {
            // The first unit's tag is stored last, so the other units are already there.
            None => ScanStep::Absent,
            Some(None) => self.give_up(count),
            Some(Some(event)) => {
                self.over(count);
                (self.adrift, self.in_gap, self.at_beginning) = (false, false, false);
                ScanStep::Event(event, count)
            }
        }
    }

    /// Handles a missing unit at the position, read after the last [`Scan::note_head`]: skips it if the
    /// reader need not wait for it.
    pub fn absent(&mut self) -> Option<ScanStep> {
        let old = self.position < self.aged;
        (old || self.behind() > self.shape.units / 2).then(|| self.give_up(1))
    }

    fn most_units(&self) -> usize {
        self.shape.most_units().min(MOST_RECORD_UNITS)
    }

    fn unit(&self, units: &[u8], at: usize) -> Option<LogUnit> {
        let bytes = units.get(at * UNIT_BYTES..)?.get(..UNIT_BYTES)?;
        LogUnit::read(words_of(bytes), self.position + at as u64)
    }

    fn over(&mut self, units: usize) -> ScanStep {
        self.position += units as u64;
        ScanStep::Over(units)
    }

    fn give_up(&mut self, units: usize) -> ScanStep {
        if !self.in_gap {
            self.unfinished += 1;
        }
        (self.in_gap, self.adrift) = (true, false);
        self.over(units)
    }
}
