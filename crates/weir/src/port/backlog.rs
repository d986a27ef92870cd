//! The next record of one writer: in the backlog to which an elastic port moves the records of a
//! full ring, or in the ring.

use super::{DATA, FIRST, LAST};
use crate::error::{Error, Result};
use crate::pipe::record::RecordReader;
use crate::pool::Pool;
use crate::pool::elastic::{Drained, First, RecordBacklog};
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// What a look at a writer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    Something,
    Nothing,
}

/// What comes next from a writer.
pub enum Front {
    Record { bytes: usize, first: bool, last: bool },
    Nothing,
    Nonsense,
}

impl Front {
    fn of(bytes: usize, header: u32) -> Front {
        if header & !(FIRST | LAST) != DATA {
            return Front::Nonsense;
        }
        Front::Record { bytes, first: header & FIRST != 0, last: header & LAST != 0 }
    }
}

/// The backlog that a writer of an elastic port has after its ring was full, until it is empty.
#[derive(Debug, Default)]
pub struct SlotBacklog {
    /// Records that were moved from the ring to a pool and come before those in the ring.
    records: Option<RecordBacklog>,
    /// Why the records could not be read, until that was reported.
    pub fault: Option<Error>,
}

impl SlotBacklog {
    #[inline]
    pub fn is_there(&self) -> bool {
        self.records.is_some()
    }

    /// Moves records from the ring, until `stops` says so. Returns how many as well.
    pub fn drain(
        &mut self,
        reader: &mut RecordReader,
        to: (&Pool, &Arc<OwnedFd>),
        stops: impl Fn() -> bool,
    ) -> Result<(u64, Drained)> {
        RecordBacklog::drain(&mut self.records, reader, to, stops)
    }

    /// Looks at the next record and its header.
    #[inline]
    pub fn front(&mut self, reader: &mut RecordReader) -> Result<Front> {
        if self.records.is_some()
            && let Some(front) = self.first(reader)?
        {
            return Ok(front);
        }
        let RecordReader { end, ring } = reader;
        let map = end.here()?;
        let bytes = match ring.peek(&map) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Front::Nothing),
            Err(_) => return Ok(Front::Nonsense),
        };
        Ok(Front::of(bytes, ring.header(&map)))
    }

    /// The next record, if it is in the backlog or must wait for it. An empty backlog is given back
    /// to the pool.
    fn first(&mut self, reader: &mut RecordReader) -> Result<Option<Front>> {
        let (end, ring) = reader.parts()?;
        let Some(records) = &mut self.records else { return Ok(None) };
        Ok(match records.first(end, ring)? {
            First::Record(bytes, header) => Some(Front::of(bytes, header)),
            First::Waiting => Some(Front::Nothing),
            First::Nonsense => Some(Front::Nonsense),
            First::None => {
                records.count(end);
                self.records = None;
                None
            }
        })
    }

    /// What a look finds in the backlog; `None` if it is empty.
    pub fn poll(&mut self, reader: &mut RecordReader) -> Option<Polled> {
        match self.first(reader) {
            Ok(None) => None,
            Ok(Some(Front::Nothing)) => Some(Polled::Nothing),
            Ok(Some(_)) => Some(Polled::Something),
            Err(fault) => {
                self.fault = Some(fault);
                Some(Polled::Something)
            }
        }
    }

    /// Takes the next record, of as many bytes as `to` has, after [`Front::Record`].
    #[inline]
    pub fn take(&mut self, reader: &mut RecordReader, to: &mut [u8]) -> Result<()> {
        if let Some(records) = &mut self.records {
            return records.take(to);
        }
        let (end, ring) = reader.parts()?;
        ring.copy_out(&*end.map, to.len(), 0, to);
        ring.consume(to.len());
        reader.settle(1, to.len())
    }

    /// Brings the account of the ring up to date.
    pub fn count(&mut self, reader: &mut RecordReader) -> Result<()> {
        if let Some(records) = &mut self.records {
            records.count(reader.parts()?.0);
        }
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        self.records.as_ref().map_or(0, RecordBacklog::backlog_bytes)
    }
}
