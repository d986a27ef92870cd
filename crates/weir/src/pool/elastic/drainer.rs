//! Moving bytes from the full ring of a stream to its backlog.

use super::{AddDescriptor, CountedBacklog, Drainable, Drained, Pass, Turns};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Map;
use crate::pipe::end::drain;
use crate::pipe::stream::Reader;
use crate::pool::BacklogWriter;
use std::sync::Arc;
use weir_ring::RingMemory;
use weir_ring::layout::{SleepLine, WaitCounts};

/// The number that stands for an error without one: EIO.
const UNKNOWN: i32 = rustix::io::Errno::IO.raw_os_error();
/// One pass moves this many times the ring's capacity before the thread looks around.
const ROUNDS: u64 = 4;

/// The source of the bytes, and the backlog they go to when the ring is full.
#[derive(Debug)]
pub struct DrainEnds {
    pub reader: Reader,
    backlog: BacklogWriter,
    counted: CountedBacklog,
    /// The thread has looked at the ring once. From then on it sleeps until it must drain.
    has_looked: bool,
    /// How often the writer was told that the pool cannot spill.
    troubles: u32,
}

impl DrainEnds {
    pub fn new(reader: Reader, backlog: BacklogWriter) -> DrainEnds {
        let counted = CountedBacklog::default();
        DrainEnds { reader, backlog, counted, has_looked: false, troubles: 0 }
    }

    /// Brings the account of the reader up to date with the counts of the backlog.
    pub fn count(&mut self) {
        if let Ok((end, _)) = self.reader.parts() {
            self.counted.enter(self.backlog.counts(), end.account_line());
        }
    }

    /// Whether there is no room for a segment. The writer of a new memory does not know of the
    /// thread yet, so the move there is immediate.
    fn is_full(&mut self) -> Result<bool> {
        let (end, _) = self.reader.parts()?;
        let fill = drain::fill(end.header()).saturating_add(end.shape.segment_bytes());
        Ok(fill > end.map.extent().ring_bytes || drain::has_moved(end.header()))
    }

    /// Moves bytes from the ring to the backlog, as far as there is room.
    fn drain(&mut self, leaves: impl Fn() -> bool) -> Result<Drained> {
        let mut left = ROUNDS * self.reader.parts()?.0.shape.capacity_bytes();
        while left > 0 && !leaves() {
            let space = match self.backlog.reserve() {
                Ok(space) => space,
                Err(error) => return self.refused(error),
            };
            match self.reader.try_read(space) {
                Ok(0) => return Ok(Drained::Done),
                Ok(bytes) => {
                    self.backlog.commit(bytes);
                    left = left.saturating_sub(bytes as u64);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(Drained::Done),
                    // The pipe's next memory is kept, and may be had in a moment.
                    ErrorKind::Os => return Ok(Drained::Later),
                    _ => return Err(error),
                },
            }
        }
        Ok(Drained::More)
    }

    /// Handles a backlog without room. If that is because spilling fails, the writer is told.
    fn refused(&mut self, error: Error) -> Result<Drained> {
        match error.kind() {
            ErrorKind::WouldBlock => {}
            ErrorKind::Os => {
                self.troubles = self.troubles.wrapping_add(1).max(1);
                let (end, _) = self.reader.parts()?;
                let fault = error.os_code().unwrap_or(UNKNOWN);
                drain::publish_spill_failure(end.header(), self.troubles, fault);
                end.wake_other(|_| true);
            }
            _ => return Err(error),
        }
        Ok(Drained::Full(self.backlog.shared()))
    }
}

impl Drainable for DrainEnds {
    type Memory = Arc<Map>;
    const OBJECT: &'static str = "the pipe";
    const HAS_ONE_WRITER: bool = true;

    fn memory(&self) -> Arc<Map> {
        self.reader.end.map.clone()
    }

    fn line(map: &Arc<Map>) -> &SleepLine {
        &map.header().reader_sleep
    }

    /// Drains the ring until it is empty. Only the first look finds a ring that may not be full:
    /// whoever wakes the thread wants it to be drained.
    fn pass(&mut self, turns: &Turns<DrainEnds>) -> Result<Pass> {
        let mut pass = Pass::default();
        if !std::mem::replace(&mut self.has_looked, true) && !self.is_full()? {
            return Ok(pass);
        }
        let before = self.memory();
        pass.add(self.drain(|| turns.leaves())?);
        self.count();
        // The thread has announced that it sleeps in the memory before.
        pass.more |= !Arc::ptr_eq(&before, &self.reader.end.map);
        Ok(pass)
    }

    /// Whether the reader finds something in the ring.
    fn is_ready(&mut self, _: &Turns<DrainEnds>) -> Result<bool> {
        self.reader.parts()?.0.arm();
        // Look once more after announcing: bytes that came before rang no doorbell.
        let is_ready = self.reader.is_ready(0)?;
        if is_ready {
            self.reader.parts()?.0.acted();
        }
        Ok(is_ready)
    }

    fn waiting(&mut self) -> Result<&WaitCounts> {
        Ok(&self.reader.parts()?.0.account_line().waiting)
    }

    fn descriptors(&mut self, add: &mut AddDescriptor) -> Result<()> {
        add(self.backlog.reader_descriptor()?)?;
        add(self.reader.poll_descriptor()?)
    }
}
