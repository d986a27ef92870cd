//! What an elastic port does with one writer: it moves the records of a full ring to a pool, and
//! finds them there.

use super::slot::{Front, Sight, WriterSlot};
use crate::error::Result;
use crate::pool::Pool;
use crate::pool::elastic::{Drained, First, RecordBacklog};
use rustix::fd::OwnedFd;
use std::sync::Arc;

impl WriterSlot {
    /// Whether the writer waits for room that it should get. A suspended writer waits.
    pub fn is_pressed(&mut self) -> bool {
        !self.suspended && self.ending.is_none() && RecordBacklog::is_pressed(&mut self.reader)
    }

    /// Moves records from the ring to the backlog, until `stops` says so. Returns how many as well.
    pub fn drain(
        &mut self,
        to: (&Pool, &Arc<OwnedFd>),
        stops: impl Fn() -> bool,
    ) -> Result<(u64, Drained)> {
        RecordBacklog::drain(&mut self.backlog, &mut self.reader, to, stops)
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
        self.backlog.as_ref().map_or(0, RecordBacklog::backlog_bytes)
    }
}
