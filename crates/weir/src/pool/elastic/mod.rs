//! A stream whose reader has a backlog larger than the ring.
//!
//! While the reader keeps up nothing changes. Once the writer finds the ring full, a thread in the
//! reader's process moves the bytes to the reader's pool, so that the writer can continue. The
//! reader takes bytes from the pool first, then from the ring, so that their order stays. The
//! reader gets what was written even if the writer dies.

mod drainer;
mod record_backlog;
mod records;
mod turns;

pub(crate) use record_backlog::{First, RecordBacklog};
pub use records::ElasticRecordReader;
pub use turns::{AddDescriptor, Drainable, Drained, Draining, Pass, Turns};

use crate::connect::peer::Ending;
use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::park::ready::wait_ready;
use crate::park::{LocalSleep, Slept, Timeout, Until, WaitSource};
use crate::pipe::end::drain;
use crate::pipe::stream::Reader;
use crate::pool::{BacklogReader, Pool};
use drainer::DrainEnds;
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use weir_ring::RingMemory;
use weir_ring::account::{Account, add};
use weir_ring::layout::AccountLine;
use weir_ring::primitive::AtomicU64;

/// The counts of a backlog, as far as they are in an account.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountedBacklog([u64; 4]);

impl CountedBacklog {
    /// Adds what a backlog has counted since to the account of an end.
    pub fn enter(&mut self, counts: [u64; 4], line: &AccountLine) {
        self.count(counts, [&line.delayed, &line.cancelled, &line.spilled, &line.read_back]);
    }

    /// Adds what a backlog has counted since to these words.
    pub fn count(&mut self, counts: [u64; 4], words: [&AtomicU64; 4]) {
        for ((word, now), counted) in words.into_iter().zip(counts).zip(&mut self.0) {
            // Once the backlog is closed it counts nothing.
            let more = now.saturating_sub(*counted);
            add(word, more);
            *counted += more;
        }
    }
}

/// A reader's end of a stream with a backlog in a pool, made by [`Reader::elastic`]. Dropping it
/// closes the stream and discards what is left.
///
/// ```
/// use weir::{Options, Pool, PoolOptions};
/// let (mut writer, reader) = weir::pipe(&Options::new().capacity_bytes(64 << 10))?;
/// let mut reader = reader.elastic(&Pool::new(&PoolOptions::new().memory_bytes(4 << 20))?)?;
/// // Sixteen times what the pipe holds, before anybody reads.
/// writer.write(&[7; 1 << 20])?;
/// drop(writer);
/// let mut bytes = 0;
/// let mut buffer = [0; 4096];
/// loop {
///     match reader.read(&mut buffer)? {
///         0 => break,
///         read => bytes += read,
///     }
/// }
/// assert_eq!(bytes, 1 << 20);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct ElasticReader {
    // Dropped first: that ends the thread.
    ring: Draining<DrainEnds>,
    backlog: BacklogReader,
}

impl Reader {
    /// Gives the reader a backlog in a pool of this process.
    ///
    /// # Errors
    /// This is a forked child, and the end or the pool belongs to its parent; a thread cannot be
    /// started.
    pub fn elastic(self, pool: &Pool) -> Result<ElasticReader> {
        let mut reader = self;
        reader.parts()?;
        let (writer, backlog) = pool.backlog()?;
        let ring = Draining::start(DrainEnds::new(reader, writer), pool)?;
        Ok(ElasticReader { ring, backlog })
    }
}

impl ElasticReader {
    /// Reads what is there, at least one byte, and waits for it without a limit. Returns 0 once the
    /// writer is gone and everything was read.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the shared memory holds impossible values. [`ErrorKind::Os`]: the
    /// next bytes could not be read back; the next call tries again.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Ever)
    }

    /// Reads what is there, without waiting.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing is in memory now.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Now)
    }

    /// Reads what is there, and waits for it at most as long as `timeout`.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing came. Those of [`ElasticReader::read`].
    pub fn read_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
    ) -> Result<usize> {
        self.read_until(buffer, timeout.into().start())
    }

    fn read_until(&mut self, buffer: &mut [u8], until: Until) -> Result<usize> {
        self.ring.check_here()?;
        loop {
            match self.backlog.try_read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(bytes) if bytes > 0 || buffer.is_empty() => {
                    self.count();
                    return Ok(bytes);
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
            // Bytes in the backlog come before bytes in the ring.
            if self.backlog.backlog_bytes() > 0 {
                self.wait_backlog(until)?;
            } else if let Some(read) = self.read_ring(buffer, until)? {
                return Ok(read);
            }
        }
    }

    /// Waits until the backlog has bytes in memory. To be called after a look at it found none.
    fn wait_backlog(&mut self, until: Until) -> Result<()> {
        if until == Until::Now && self.ring.is_polled() {
            // Only what is read back from here on, or the writer, makes it readable.
            self.ring.enter()?.reader.parts()?.0.arm();
        }
        let slept = sleep_until_read_back(self.backlog.sleep(), until)?;
        self.count_wait();
        self.after_sleep(slept)?;
        came_in_time(slept)
    }

    /// Reads from the ring, unless the thread has moved its bytes to the backlog meanwhile.
    fn read_ring(&mut self, buffer: &mut [u8], until: Until) -> Result<Option<usize>> {
        let mut sides = self.ring.enter()?;
        // While this has the ring, the thread puts nothing into the backlog.
        if self.backlog.backlog_bytes() > 0 {
            return Ok(None);
        }
        let before = sides.memory();
        let read = sides.reader.read_until(buffer, until);
        // The pipe was given a new memory: the thread must look at that one.
        if !Arc::ptr_eq(&before, &sides.memory()) {
            drain::wake(&before.header().reader_sleep);
        }
        read.map(Some)
    }

    /// Brings the account up to date with the pool's counts, unless the thread has the ring, which
    /// does it then.
    fn count(&self) {
        if self.backlog.counts() != [0; 4]
            && let Some(mut sides) = self.ring.try_enter()
        {
            sides.count();
        }
    }

    /// The account of this end. Bytes are counted when they leave the ring, for the backlog or for
    /// the reader.
    ///
    /// # Errors
    /// This is a forked child, and the end belongs to its parent.
    pub fn account(&mut self) -> Result<Account> {
        let mut sides = self.ring.enter()?;
        sides.count();
        sides.reader.account()
    }

    /// Bytes that are in the backlog now. Bytes in the ring do not count.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog.backlog_bytes()
    }

    /// A lower bound of the bytes that can be read without waiting for the writer. The read may
    /// still wait for the file.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the shared memory holds impossible values.
    pub fn available(&mut self) -> Result<u64> {
        let mut sides = self.ring.enter()?;
        Ok(self.backlog.backlog_bytes() + sides.reader.available()?)
    }

    /// How the writer has ended, as [`Endpoint::ending`](crate::Endpoint::ending).
    ///
    /// # Errors
    /// This is a forked child, and the end belongs to its parent.
    pub fn ending(&self) -> Result<Option<Ending>> {
        self.ring.enter()?.reader.ending()
    }

    /// A descriptor for poll(2) and epoll(7). It is readable until `try_read` returns
    /// [`ErrorKind::WouldBlock`], and again once there is something to read or the writer is gone.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.ring.poll_descriptor()
    }
}

/// Sleeps until a part of a backlog was read back, or the time is over.
fn sleep_until_read_back(place: &LocalSleep, until: Until) -> Result<Slept> {
    if until == Until::Now {
        let why = "it is being read back";
        return Err(Error::new(ErrorKind::WouldBlock, "read from", "the pipe", why));
    }
    Ok(place.sleep(until))
}

/// The error of a sleep that its time has ended.
fn came_in_time(slept: Slept) -> Result<()> {
    let why = "nothing came into memory";
    let late = || Error::new(ErrorKind::TimedOut, "read from", "the pipe", why);
    slept.woken.then_some(()).ok_or_else(late)
}

impl Waitable for ElasticReader {
    fn source(&mut self) -> &mut dyn WaitSource {
        self
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }
}

/// It waits by its descriptor, because its bytes may come to the ring or to the backlog.
impl WaitSource for ElasticReader {
    fn is_ready(&mut self, wanted: u64) -> Result<bool> {
        self.poll_descriptor()?;
        if self.backlog.backlog_bytes() == 0 && self.backlog.arm() {
            // Makes the descriptor readable only if there is something to read.
            self.ring.is_ready(wanted)?;
        }
        let found = wait_ready(self.poll_descriptor()?, PollFlags::IN, Some(Duration::ZERO));
        found.map_err(|cause| Error::os("wait for", "a descriptor", cause))
    }

    fn descriptor(&mut self) -> Result<Option<BorrowedFd<'_>>> {
        self.poll_descriptor().map(Some)
    }

    fn count_wait(&self) {
        self.ring.count_wait();
    }

    fn after_sleep(&mut self, slept: Slept) -> Result<()> {
        self.ring.after_sleep(slept)?;
        self.count();
        Ok(())
    }
}

impl io::Read for ElasticReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(ElasticReader::read(self, buffer)?)
    }
}
