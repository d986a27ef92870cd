//! A port whose writers have backlogs larger than their rings.
//!
//! While the reader keeps up nothing changes. A writer that finds its ring full wakes a thread in the
//! reader's process, which moves the messages of that ring to the reader's pool, so that the writer
//! can continue. Each writer has its own backlog, so turns, shares and suspended writers are those
//! of any port.

use super::watched::Bell;
use super::{Port, PortCounts, Received, WriterId, WriterStat};
use crate::connect::wait::Waitable;
use crate::error::{ErrorKind, Result};
use crate::memory::SharedPage;
use crate::park::{Timeout, WaitSource};
use crate::pool::Pool;
use crate::pool::elastic::{AddDescriptor, Drainable, Draining, Pass, Turns};
use rustix::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_ring::board::Board;
use weir_ring::layout::{SleepLine, WaitCounts};

/// A port whose writers do not wait for its reader, made by [`Port::elastic`]. What a writer sends
/// while its ring is full goes to a pool. Dropping it closes the port and discards what is left.
///
/// ```
/// use weir::{Event, Pool, PoolOptions, Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let pool = Pool::new(&PoolOptions::new().memory_bytes(4 << 20))?;
/// let mut port = Port::create(&name, &PortOptions::new())?.elastic(&pool)?;
/// let options = PortWriterOptions::new().capacity_bytes(64 << 10);
/// let mut writer = PortWriter::connect(&name, &options)?;
/// // Sixteen times what its ring holds, before anybody receives.
/// for number in 0..1024_u32 {
///     writer.send(&[number as u8; 1024])?;
/// }
/// let mut buffer = [0; 1024];
/// for number in 0..1024_u32 {
///     assert_eq!(port.receive(&mut buffer)?.event, Event::Message { bytes: 1024 });
///     assert_eq!(buffer, [number as u8; 1024]);
/// }
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct ElasticPort {
    port: Draining<Port>,
    path: PathBuf,
}

impl Port {
    /// Gives each writer that finds its ring full a backlog in a pool of this process. The thread
    /// that moves messages there belongs to the port.
    ///
    /// # Errors
    /// This is a forked child, and the port belongs to its parent; a thread cannot be started.
    pub fn elastic(mut self, pool: &Pool) -> Result<ElasticPort> {
        self.rings.check_here()?;
        self.rings.bell = Some(Bell::new(self.rings.choice.inbox())?);
        let path = self.path().to_owned();
        Ok(ElasticPort { port: Draining::start(self, pool)?, path })
    }
}

impl Drainable for Port {
    type Memory = Arc<SharedPage<Board>>;
    const OBJECT: &'static str = "an elastic port";

    fn memory(&self) -> Self::Memory {
        self.rings.choice.page()
    }

    fn line(board: &Self::Memory) -> &SleepLine {
        &board.words().sleep
    }

    /// Drains the rings of all writers that wait for room.
    fn pass(&mut self, turns: &Turns<Port>) -> Result<Pass> {
        let rings = &mut self.rings;
        rings.check_here()?;
        let (mut pass, mut acted) = (Pass::default(), rings.has_news());
        if acted {
            rings.let_in()?;
        }
        let leaves = || turns.leaves();
        let Some(bell) = &rings.bell else { return Ok(pass) };
        for place in 0..rings.choice.slots.len() {
            if leaves() {
                pass.more = true;
                break;
            }
            let Some(Some(slot)) = rings.choice.slots.get_mut(place) else { continue };
            if !slot.is_pressed() {
                slot.backlog.count(&mut slot.reader)?;
                continue;
            }
            let to = (&turns.pool, &bell.counter);
            let Ok((records, drained)) = slot.backlog.drain(&mut slot.reader, to, leaves) else {
                // Without a backlog this writer waits for the reader.
                continue;
            };
            acted |= records > 0;
            pass.add(drained);
        }
        if acted {
            // What made the descriptor readable may be gone, but there may be something to receive.
            rings.acted();
        }
        Ok(pass)
    }

    fn is_ready(&mut self, _: &Turns<Port>) -> Result<bool> {
        if self.rings.is_ready()? {
            return Ok(true);
        }
        match self.rings.poll_again() {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Ok(false),
                ErrorKind::Closed => Ok(true),
                _ => Err(error),
            },
        }
    }

    fn waiting(&mut self) -> Result<&WaitCounts> {
        Ok(&self.rings.choice.board().account.waiting)
    }

    fn descriptors(&mut self, add: &mut AddDescriptor) -> Result<()> {
        self.rings.bell.as_ref().map_or(Ok(()), |bell| add(bell.counter.as_fd()))?;
        add(Port::poll_descriptor(self)?)
    }
}

impl ElasticPort {
    /// Receives the next message, as [`Port::receive`].
    ///
    /// # Errors
    /// Those of [`Port::receive`]. [`ErrorKind::Os`] or [`ErrorKind::Corrupt`]: what comes next from
    /// one of the writers could not be read back; a later call tries again.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        self.port.enter()?.receive(buffer)
    }

    /// Receives the next message, as [`Port::receive_timeout`].
    ///
    /// # Errors
    /// Those of [`Port::receive_timeout`] and [`ElasticPort::receive`].
    pub fn receive_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
    ) -> Result<Received> {
        self.port.enter()?.receive_timeout(buffer, timeout)
    }

    /// Receives the next messages, as [`Port::receive_each_timeout`]. Rings are not drained during
    /// the call, so `see` should not wait for long. Messages of a backlog are shown one in a call.
    ///
    /// # Errors
    /// Those of [`ElasticPort::receive_timeout`].
    pub fn receive_each_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
        see: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        self.port.enter()?.receive_each_timeout(buffer, timeout, see)
    }

    /// Counts the writers that are open, and those that wait.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn counts(&mut self) -> Result<PortCounts> {
        self.port.enter()?.counts()
    }

    /// Lists the writers that are open.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn writers(&mut self) -> Result<Vec<WriterStat>> {
        self.port.enter()?.writers()
    }

    /// Bytes of messages in the backlogs of all writers; 0 in a forked child. Bytes in rings do not
    /// count.
    pub fn backlog_bytes(&self) -> u64 {
        let Ok(port) = self.port.enter() else { return 0 };
        port.rings.choice.slots.iter().flatten().map(|slot| slot.backlog.bytes()).sum()
    }

    /// Receives nothing from this writer until it is resumed, as [`Port::suspend`]. What is in its
    /// backlog stays there, and nothing is added to it.
    ///
    /// # Errors
    /// Those of [`Port::suspend`].
    pub fn suspend(&mut self, writer: WriterId) -> Result<()> {
        self.port.enter()?.suspend(writer)
    }

    /// Receives from a suspended writer again.
    ///
    /// # Errors
    /// Those of [`Port::suspend`].
    pub fn resume(&mut self, writer: WriterId) -> Result<()> {
        self.port.enter()?.resume(writer)
    }

    /// Gives a writer a share, as [`Port::set_share`].
    ///
    /// # Errors
    /// Those of [`Port::set_share`].
    pub fn set_share(&mut self, writer: WriterId, share: u32) -> Result<()> {
        self.port.enter()?.set_share(writer, share)
    }

    /// Shuts this writer out, as [`Port::shut_out`]. Its backlog is discarded.
    ///
    /// # Errors
    /// Those of [`Port::shut_out`].
    pub fn shut_out(&mut self, writer: WriterId) -> Result<()> {
        self.port.enter()?.shut_out(writer)
    }

    /// The path of the port.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A descriptor for poll and epoll, as [`Port::poll_descriptor`].
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.port.poll_descriptor()
    }
}

impl Waitable for ElasticPort {
    fn source(&mut self) -> &mut dyn WaitSource {
        &mut self.port
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }
}
