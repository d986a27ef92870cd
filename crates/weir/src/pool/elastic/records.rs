//! A record pipe whose reader has a backlog larger than the ring. It works as an elastic stream
//! does; see the module above.

use super::{AddDescriptor, Drainable, Draining, First, Pass, RecordBacklog, Turns};
use super::{came_in_time, sleep_until_read_back};
use crate::connect::peer::Ending;
use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Map;
use crate::park::{Timeout, Until, WaitSource};
use crate::pipe::connection::Role;
use crate::pipe::record::RecordReader;
use crate::pipe::storage::corrupt;
use crate::pool::{Backlog, Pool};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use weir_ring::account::Account;
use weir_ring::layout::{SleepLine, WaitCounts};
use weir_ring::{Corrupt, RingMemory};
use weir_sys::bell;

/// A reader's end of a record pipe with a backlog in a pool, made by
/// [`RecordReader::elastic`]. Dropping it closes the pipe and
/// discards what is left.
///
/// ```
/// use weir::{Options, Pool, PoolOptions};
/// let (mut writer, reader) = weir::records(&Options::new().capacity_bytes(64 << 10))?;
/// let mut reader = reader.elastic(&Pool::new(&PoolOptions::new().memory_bytes(4 << 20))?)?;
/// // Sixteen times what the pipe holds, before anybody receives.
/// for number in 0..1024_u32 {
///     writer.send(&[number as u8; 1024])?;
/// }
/// drop(writer);
/// let (mut buffer, mut records) = ([0; 1024], 0);
/// while reader.receive(&mut buffer)? == Some(1024) {
///     assert_eq!(buffer, [records as u8; 1024]);
///     records += 1;
/// }
/// assert_eq!(records, 1024);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct ElasticRecordReader {
    ring: Draining<Sides>,
}

/// The ring, and the backlog that it has once it was full.
#[derive(Debug)]
struct Sides {
    reader: RecordReader,
    backlog: Option<RecordBacklog>,
    /// Rings when a part of the backlog was read back.
    bell: Arc<OwnedFd>,
}

impl Sides {
    /// The first record of the backlog, which is given back once it is empty.
    fn first(&mut self) -> Result<First> {
        let (end, ring) = self.reader.parts()?;
        let Some(backlog) = &mut self.backlog else { return Ok(First::None) };
        let first = backlog.first(end, ring)?;
        if first == First::None {
            backlog.count(end);
            self.backlog = None;
        }
        Ok(first)
    }
}

impl Drainable for Sides {
    type Memory = Arc<Map>;
    const OBJECT: &'static str = "the pipe";

    fn memory(&self) -> Arc<Map> {
        self.reader.end.map.clone()
    }

    fn line(map: &Arc<Map>) -> &SleepLine {
        &map.header().reader_sleep
    }

    /// Drains the ring if its writer waits for room.
    fn pass(&mut self, turns: &Turns<Sides>) -> Result<Pass> {
        let Sides { reader, backlog, bell } = self;
        reader.parts()?;
        let mut pass = Pass::default();
        if RecordBacklog::is_pressed(reader) {
            let to = (&turns.pool, &*bell);
            pass.add(RecordBacklog::drain(backlog, reader, to, || turns.leaves())?.1);
        } else if let Some(backlog) = backlog {
            // What its reader has had read back since.
            backlog.count(reader.parts()?.0);
        }
        Ok(pass)
    }

    fn is_ready(&mut self, _: &Turns<Sides>) -> Result<bool> {
        bell::clear(self.bell.as_fd());
        let first = self.first()?;
        if matches!(first, First::Record(..) | First::Nonsense) {
            return Ok(true);
        }
        self.reader.parts()?.0.arm();
        // Look once more after announcing: records that came before rang no doorbell.
        Ok(first == First::None && self.reader.is_ready(0)?)
    }

    fn waiting(&mut self) -> Result<&WaitCounts> {
        Ok(&self.reader.parts()?.0.account_line().waiting)
    }

    fn descriptors(&mut self, add: &mut AddDescriptor) -> Result<()> {
        add(self.bell.as_fd())?;
        add(self.reader.poll_descriptor()?)
    }
}

impl RecordReader {
    /// Gives the reader a backlog in a pool of this process.
    ///
    /// # Errors
    /// This is a forked child, and the end or the pool belongs to its parent; a thread cannot be
    /// started.
    pub fn elastic(self, pool: &Pool) -> Result<ElasticRecordReader> {
        let mut reader = self;
        reader.parts()?;
        let bell = bell::make(0).map_err(|cause| Error::os("make", "an elastic pipe", cause))?;
        let sides = Sides { reader, backlog: None, bell: Arc::new(bell) };
        Ok(ElasticRecordReader { ring: Draining::start(sides, pool)? })
    }
}

impl ElasticRecordReader {
    /// Receives the next record into `buffer`, and waits for it without a limit. Returns its length,
    /// or `None` once the writer is gone and everything was received.
    ///
    /// # Errors
    /// [`ErrorKind::TooSmall`]: the buffer is too small; the record stays, and
    /// [`Error::needed_bytes`] is its length. [`ErrorKind::Corrupt`]: the shared memory holds
    /// impossible values. [`ErrorKind::Os`]: the next record could not be read back; the next call
    /// tries again.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.receive_until(buffer, Until::Ever)
    }

    /// Receives the next record, without waiting.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing is in memory now. Those of
    /// [`ElasticRecordReader::receive`].
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.receive_until(buffer, Until::Now)
    }

    /// Receives the next record, and waits for it at most as long as `timeout`.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing came. Those of [`ElasticRecordReader::receive`].
    pub fn receive_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
    ) -> Result<Option<usize>> {
        self.receive_until(buffer, timeout.into().start())
    }

    fn receive_until(&mut self, buffer: &mut [u8], until: Until) -> Result<Option<usize>> {
        loop {
            let mut sides = self.ring.enter()?;
            if self.ring.is_polled() {
                bell::clear(sides.bell.as_fd());
            }
            match sides.first()? {
                First::None => return sides.reader.receive_timeout(buffer, until.timeout()),
                First::Nonsense => {
                    return Err(corrupt(Role::Reader, Corrupt("the length of a record")));
                }
                First::Record(bytes, _) if bytes > buffer.len() => {
                    let why = format!("the record has {bytes} bytes, the buffer {}", buffer.len());
                    let error = Error::new(ErrorKind::TooSmall, "read from", "the pipe", why);
                    return Err(error.with_bytes(bytes));
                }
                First::Record(bytes, _) => {
                    if let Some(backlog) = &mut sides.backlog {
                        backlog.take(&mut buffer[..bytes])?;
                    }
                    return Ok(Some(bytes));
                }
                First::Waiting => {
                    if self.ring.is_polled() {
                        // Only what is read back from here on, or the writer, makes it readable.
                        sides.reader.parts()?.0.arm();
                    }
                    let backlog = sides.backlog.as_ref().map(RecordBacklog::shared);
                    drop(sides);
                    self.wait_for(backlog, until)?;
                }
            }
        }
    }

    fn wait_for(&mut self, backlog: Option<Arc<Backlog>>, until: Until) -> Result<()> {
        let Some(backlog) = backlog else { return Ok(()) };
        let slept = sleep_until_read_back(&backlog.reader, until)?;
        self.ring.count_wait();
        self.ring.after_sleep(slept)?;
        came_in_time(slept)
    }

    /// Bytes in the backlog; 0 in a forked child. Bytes in the ring do not count.
    pub fn backlog_bytes(&self) -> u64 {
        let Ok(sides) = self.ring.enter() else { return 0 };
        sides.backlog.as_ref().map_or(0, RecordBacklog::backlog_bytes)
    }

    /// The account of this end. Records are counted when they leave the ring, for the backlog or for
    /// the reader.
    ///
    /// # Errors
    /// This is a forked child, and the end belongs to its parent.
    pub fn account(&mut self) -> Result<Account> {
        let mut sides = self.ring.enter()?;
        let Sides { reader, backlog, .. } = &mut *sides;
        if let Some(backlog) = backlog {
            backlog.count(reader.parts()?.0);
        }
        reader.account()
    }

    /// How the writer has ended, as [`Endpoint::ending`](crate::Endpoint::ending).
    ///
    /// # Errors
    /// This is a forked child, and the end belongs to its parent.
    pub fn ending(&self) -> Result<Option<Ending>> {
        self.ring.enter()?.reader.ending()
    }

    /// A descriptor for poll(2) and epoll(7). It is readable until `try_receive` returns
    /// [`ErrorKind::WouldBlock`], and again once there is something to receive or the writer is
    /// gone.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.ring.poll_descriptor()
    }
}

impl Waitable for ElasticRecordReader {
    fn source(&mut self) -> &mut dyn WaitSource {
        &mut self.ring
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }
}
