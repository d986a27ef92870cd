//! What an elastic port does with one writer: it moves the records of a full ring to a pool, and
//! finds them there.

use super::backlog::{First, Move, WriterBacklog};
use super::slot::{Front, Sight, WriterSlot};
use crate::error::Result;
use crate::pool::{Backlog, Pool};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use weir_ring::primitive::Ordering;
use weir_ring::sleep;

/// One pass moves this many times a ring's capacity before another ring has its turn.
const ROUNDS: u64 = 4;

/// How the draining of a ring ended.
#[derive(Debug)]
pub enum Drained {
    /// Nothing is left to move.
    Done,
    /// The ring may hold more, but somebody else has a turn first.
    More,
    /// The pool has no room, and this is where to wait for some.
    Full(Arc<Backlog>),
}

impl WriterSlot {
    /// Whether the writer waits for room that it should get. A suspended writer waits.
    pub fn is_pressed(&mut self) -> bool {
        if self.suspended || self.ending.is_some() {
            return false;
        }
        // Relaxed: the draining thread has announced itself before, with a fence that pairs with the
        // one in `drain::say_full`.
        self.reader.parts().is_ok_and(|(end, _)| {
            let word = end.header().writer_sleep.word.load(Ordering::Relaxed);
            word & (sleep::ASLEEP | sleep::POLLING) != 0
        })
    }

    /// Moves records from the ring to the backlog, until `stops` says so. Returns how many as well.
    pub fn drain(
        &mut self,
        pool: &Pool,
        bell: &Arc<OwnedFd>,
        stops: impl Fn() -> bool,
    ) -> Result<(u64, Drained)> {
        let mut left = ROUNDS * self.reader.parts()?.0.shape.capacity_bytes();
        let mut records = 0;
        let drained = loop {
            let (end, ring) = self.reader.parts()?;
            let backlog = match &mut self.backlog {
                Some(backlog) => backlog,
                // An empty ring needs no backlog.
                None if !matches!(ring.look(&*end.map), Ok(Some(_))) => break Drained::Done,
                none => none.insert(WriterBacklog::new(pool, bell)?),
            };
            match backlog.move_one(end, ring)? {
                Move::Nothing => break Drained::Done,
                Move::Full(shared) => break Drained::Full(shared),
                Move::Record(bytes) => {
                    self.reader.settle(1, bytes)?;
                    records += 1;
                    left = left.saturating_sub(bytes as u64 + 1);
                }
            }
            if left == 0 || stops() {
                break Drained::More;
            }
        };
        let (end, ring) = self.reader.parts()?;
        if records > 0 {
            crate::pipe::record::give_back(end, ring);
        }
        if let Some(backlog) = &self.backlog {
            backlog.count(end);
        }
        Ok((records, drained))
    }

    /// The first record, if it is in the backlog or must wait for it. An empty backlog is given back
    /// to the pool.
    pub(super) fn front_of_backlog(&mut self) -> Result<Option<Front>> {
        let (end, ring) = self.reader.parts()?;
        let Some(backlog) = &mut self.backlog else { return Ok(None) };
        Ok(match backlog.first(end, ring)? {
            First::Record(bytes, header) => Some(Front::of(bytes, header)),
            First::Waiting => Some(Front::Nothing),
            First::Nonsense => Some(Front::Nonsense),
            First::None => {
                backlog.count(end);
                self.backlog = None;
                None
            }
        })
    }

    /// What [`WriterSlot::look`] finds in the backlog; `None` if it is empty.
    pub(super) fn look_at_backlog(&mut self) -> Option<Sight> {
        match self.front_of_backlog() {
            Ok(None) => None,
            Ok(Some(Front::Nothing)) => Some(Sight::Nothing),
            Ok(Some(_)) => Some(Sight::Something),
            Err(fault) => {
                self.fault = Some(fault);
                Some(Sight::Something)
            }
        }
    }

    /// Bytes in the backlog.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog.as_ref().map_or(0, WriterBacklog::backlog_bytes)
    }
}
