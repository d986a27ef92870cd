//! Finding records among units that others write meanwhile. No clock and no I/O: what was read and
//! the time are arguments.
//!
//! A unit is at its position or it is not there, says its tag. If it is not there, its writer is
//! about to write it, or was killed and never will; nobody can tell. So a gap is given up
//! - once the head has been seen beyond it for [`PATIENCE_NS`]: a writer is between its reservation
//!   and its last store for nanoseconds, if its CPU is not taken away meanwhile; or
//! - once the head is half a ring beyond it, so that waiting would lose what lies behind it.
//!
//! What a slow writer writes after its gap was given up is not seen by this reader any more; a
//! later one finds it.

use super::MOST_SNAP_BYTES;
use super::event::{Event, dump_units, units_of, unpack};
use super::layout::{CONTINUED, Shape, UNIT_BYTES, Unit, words_of};

/// How long a gap is waited for, at least; at most twice as long, where someone looks meanwhile.
pub const PATIENCE_NS: u64 = 250_000_000;

/// Most units of a record: a dump of a whole packet.
pub const MOST_RECORD_UNITS: usize = dump_units(MOST_SNAP_BYTES);

/// Where a reader is, and what it has seen.
#[derive(Clone, Debug)]
pub struct Scan {
    shape: Shape,
    /// The next unit to be looked at.
    position: u64,
    /// The head as it was last seen.
    head: u64,
    /// A head, and when it was seen.
    mark: (u64, u64),
    /// A head that was seen [`PATIENCE_NS`] ago or earlier.
    aged: u64,
    /// Further units of a record may follow whose beginning was never seen.
    adrift: bool,
    /// It began before this reader did: those units are none that it lost.
    at_beginning: bool,
    /// The units before this one were given up.
    in_gap: bool,
    /// Units that were overwritten before they were read.
    pub overwritten: u64,
    /// Gaps that were given up.
    pub unfinished: u64,
}

/// What a look at units gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An event, and how many units it took.
    Event(Event, usize),
    /// So many units were stepped over.
    Over(usize),
    /// What there is of a record ends with these units: more of them are needed.
    More,
    /// The first of these units is not there.
    Absent,
}

impl Scan {
    /// Begins at the oldest unit there is.
    pub fn new(shape: Shape, head: u64, now_ns: u64) -> Scan {
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

    /// The position of the next unit to be looked at.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The head as it was last seen.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Units between here and the head.
    pub fn behind(&self) -> u64 {
        self.head - self.position
    }

    /// Takes note of the head before units are read.
    ///
    /// # Errors
    /// Why this cannot be.
    pub fn look(&mut self, head: u64, now_ns: u64) -> Result<(), &'static str> {
        if now_ns.saturating_sub(self.mark.1) >= PATIENCE_NS {
            self.aged = self.mark.0;
            self.mark = (head, now_ns);
        }
        self.advance(head).map(drop)
    }

    /// Takes note of the head after units were read. How many of them, from the position on, were
    /// overwritten meanwhile, or may have been: they are stepped over.
    ///
    /// # Errors
    /// Why this cannot be.
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

    /// Looks at units that were read from the position on, all of them below the head and none of
    /// them being overwritten while they were read.
    pub fn step(&mut self, units: &[u8]) -> Step {
        let Some(first) = self.unit(units, 0) else { return Step::Absent };
        if first.code == CONTINUED && self.adrift {
            // The rest of a record that was overwritten. As are those units.
            self.overwritten += u64::from(!self.at_beginning);
            return self.over(1);
        }
        let Some(count) = units_of(&first).filter(|count| *count <= self.most_units()) else {
            // What continues a record that was not finished; or nonsense.
            return self.give_up(1);
        };
        if count as u64 > self.behind() {
            // Beyond the head: nobody has written that.
            return self.give_up(1);
        }
        if count * UNIT_BYTES > units.len() {
            return Step::More;
        }
        let further: Option<Vec<[u64; 3]>> = (1..count)
            .map(|at| self.unit(units, at).filter(|unit| unit.code == CONTINUED))
            .map(|unit| unit.map(|unit| unit.payload))
            .collect();
        match further.map(|further| unpack(&first, &further)) {
            // The tag of the first was stored last: the others must be there, if they are at all.
            None => Step::Absent,
            Some(None) => self.give_up(count),
            Some(Some(event)) => {
                self.over(count);
                (self.adrift, self.in_gap, self.at_beginning) = (false, false, false);
                Step::Event(event, count)
            }
        }
    }

    /// The unit at the position was not there when it was read, after the last [`Scan::look`]:
    /// steps over it if it is not to be waited for.
    pub fn absent(&mut self) -> Option<Step> {
        let old = self.position < self.aged;
        (old || self.behind() > self.shape.units / 2).then(|| self.give_up(1))
    }

    fn most_units(&self) -> usize {
        self.shape.most_units().min(MOST_RECORD_UNITS)
    }

    fn unit(&self, units: &[u8], at: usize) -> Option<Unit> {
        let bytes = units.get(at * UNIT_BYTES..)?.get(..UNIT_BYTES)?;
        Unit::read(words_of(bytes), self.position + at as u64)
    }

    fn over(&mut self, units: usize) -> Step {
        self.position += units as u64;
        Step::Over(units)
    }

    fn give_up(&mut self, units: usize) -> Step {
        if !self.in_gap {
            self.unfinished += 1;
        }
        (self.in_gap, self.adrift) = (true, false);
        self.over(units)
    }
}
