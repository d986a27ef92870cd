//! A stream whose reader has a backlog larger than the ring.
//!
//! While the reader keeps up nothing changes. Once the writer finds the ring full, a thread in the
//! reader's process moves the bytes to the reader's pool, so that the writer can go on. The reader
//! takes bytes from the pool first, then from the ring, so that their order stays. The reader gets
//! what was written even if the writer dies.

mod drainer;
mod record_backlog;
mod records;
mod turns;

pub(crate) use record_backlog::{First, RecordBacklog};
pub use records::ElasticRecordReader;
pub(crate) use turns::{Drainable, Drained, Draining, Nested, Pass, Turns};

use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::park::ready::wait_ready;
use crate::park::{LocalSleep, Slept, Timeout, Until, WaitSource, futex};
use crate::pipe::end::drain;
use crate::pipe::stream::Reader;
use crate::pool::{BacklogReader, BacklogWriter, Pool};
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use weir_ring::RingMemory;
use weir_ring::account::{Account, add};
use weir_ring::layout::WaitCounts;
use weir_ring::primitive::{AtomicU32, Ordering, fence};
use weir_sys::threads::OwnedThread;

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
    ring: Arc<DrainedRing>,
    // `None` only during the drop.
    backlog: Option<BacklogReader>,
    thread: OwnedThread,
    nested: Nested,
    /// How it waited, as far as the account does not say so yet, because the thread had the ring.
    waiting: WaitCounts,
}

/// The result of a look at the ring.
enum RingLook {
    /// This many bytes were read.
    Read(usize),
    /// Its bytes are in the backlog.
    Moved,
    /// The thread is moving its bytes.
    InUse,
}

/// The state that the reader and the draining thread share.
#[derive(Debug)]
struct DrainedRing {
    sides: Mutex<DrainEnds>,
    /// Not 0 once the thread must end. The thread sleeps on this word as well as on the ring's,
    /// because a hostile writer can overwrite the ring's.
    stops: AtomicU32,
    /// The reader found the ring in use.
    kept_out: AtomicBool,
}

/// The source of the bytes, and the backlog they go to when the ring is full.
#[derive(Debug)]
struct DrainEnds {
    reader: Reader,
    backlog: BacklogWriter,
}

impl DrainedRing {
    fn lock(&self) -> MutexGuard<'_, DrainEnds> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, DrainEnds>> {
        match self.sides.try_lock() {
            Ok(sides) => Some(sides),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks the ring for the reader, unless the thread holds it. Then the thread wakes the reader
    /// when it leaves.
    fn enter(&self) -> Option<MutexGuard<'_, DrainEnds>> {
        self.try_lock().or_else(|| {
            // Relaxed: ordered by the fence, which pairs with the one in `kept_one_out`. Either the
            // thread sees this store after it has left, or the ring is free now.
            self.kept_out.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.try_lock()
        })
    }

    fn stops(&self) -> bool {
        // Acquire pairs with the release in the reader's drop.
        self.stops.load(Ordering::Acquire) != 0
    }

    /// Whether the reader found the ring in use. The thread asks after it has left the ring.
    fn kept_one_out(&self) -> bool {
        // Pairs with the fence in `enter`.
        fence(Ordering::SeqCst);
        self.kept_out.swap(false, Ordering::Relaxed)
    }
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
        let sides = Mutex::new(DrainEnds { reader, backlog: writer });
        let ring = Arc::new(DrainedRing {
            sides,
            stops: AtomicU32::new(0),
            kept_out: AtomicBool::new(false),
        });
        let drained = ring.clone();
        let thread = OwnedThread::start("weir-drain", move || drainer::run(&drained))
            .map_err(|cause| Error::os("start", "the thread of an elastic pipe", cause))?;
        let (nested, waiting) = Default::default();
        Ok(ElasticReader { ring, backlog: Some(backlog), thread, nested, waiting })
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

    fn backlog(&mut self) -> Result<&mut BacklogReader> {
        self.backlog.as_mut().ok_or_else(ended)
    }

    fn read_until(&mut self, buffer: &mut [u8], until: Until) -> Result<usize> {
        loop {
            match self.backlog()?.try_read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(bytes) if bytes > 0 || buffer.is_empty() => {
                    self.count();
                    return Ok(bytes);
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
            // Bytes in the backlog come before bytes in the ring.
            if self.backlog()?.backlog_bytes() > 0 {
                self.wait_backlog(until)?;
                continue;
            }
            match self.read_ring(buffer, until)? {
                RingLook::Read(read) => return Ok(read),
                RingLook::Moved => {}
                RingLook::InUse => self.wait_backlog(until)?,
            }
        }
    }

    /// Waits until the backlog has bytes in memory, or the thread has left the ring. To be called
    /// after a look at the backlog found nothing.
    fn wait_backlog(&mut self, until: Until) -> Result<()> {
        let slept = sleep_until_read_back(self.backlog()?.sleep(), until)?;
        self.count_wait();
        self.after_sleep(slept)?;
        came_in_time(slept)
    }

    /// Reads from the ring, unless the thread is moving its bytes to the backlog or has moved them.
    fn read_ring(&mut self, buffer: &mut [u8], until: Until) -> Result<RingLook> {
        let ring = self.ring.clone();
        // Waiting for the lock could take long: a fast writer keeps the thread busy.
        let Some(mut sides) = ring.enter() else { return Ok(RingLook::InUse) };
        // While this holds the lock, the thread puts nothing into the backlog.
        if self.backlog()?.backlog_bytes() > 0 {
            return Ok(RingLook::Moved);
        }
        let before = sides.reader.parts()?.0.map.clone();
        let read = sides.reader.read_until(buffer, until);
        // The pipe was given a new memory: the thread must look at that one.
        if !Arc::ptr_eq(&before, &sides.reader.parts()?.0.map) {
            drain::wake(&before.header().reader_sleep);
        }
        read.map(RingLook::Read)
    }

    /// Brings the account up to date with the pool's counts.
    fn count(&mut self) {
        let Some(backlog) = &self.backlog else { return };
        let counts = backlog.counts();
        // If the thread holds the ring, the pool's counts are entered when it is done, and how this
        // end waited the next time.
        let has_waited = self.waiting.slept.load(Ordering::Relaxed) > 0;
        if (has_waited || counts != [0; 4])
            && let Some(mut sides) = self.ring.try_lock()
        {
            self.enter_counts(&mut sides.reader, counts);
        }
    }

    fn enter_counts(&self, reader: &mut Reader, counts: [u64; 4]) {
        let Ok((end, _)) = reader.parts() else { return };
        drainer::count_backlog(end.account_line(), counts);
        self.waiting.move_to(&end.account_line().waiting);
    }

    /// The account of this end. Bytes are counted when they leave the ring, for the backlog or for
    /// the reader.
    ///
    /// # Errors
    /// This is a forked child, and the end belongs to its parent.
    pub fn account(&mut self) -> Result<Account> {
        let counts = self.backlog()?.counts();
        let mut sides = self.ring.lock();
        self.enter_counts(&mut sides.reader, counts);
        sides.reader.account()
    }

    /// Bytes that are in the backlog now. Bytes in the ring do not count.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog.as_ref().map_or(0, BacklogReader::backlog_bytes)
    }

    /// A lower bound of the bytes that can be read without waiting for the writer. The read may
    /// still wait for the file.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the shared memory holds impossible values.
    pub fn available(&mut self) -> Result<u64> {
        let mut sides = self.ring.lock();
        Ok(self.backlog_bytes() + sides.reader.available()?)
    }

    /// A descriptor for poll(2) and epoll(7). It is readable until `try_read` returns
    /// [`ErrorKind::WouldBlock`], and again once there is something to read or the writer is gone.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        let ElasticReader { ring, backlog, nested, .. } = self;
        let backlog = backlog.as_mut().ok_or_else(ended)?;
        nested.of(|add| {
            add(backlog.poll_descriptor()?)?;
            add(ring.lock().reader.poll_descriptor()?)
        })
    }

    /// The descriptor, which this makes readable only if there is something to read.
    fn armed_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()?;
        if self.backlog()?.backlog_bytes() == 0 && self.backlog()?.arm() {
            let mut sides = self.ring.lock();
            sides.reader.parts()?.0.arm();
            // Look once more after announcing: bytes that came before rang no doorbell.
            if sides.reader.is_ready(0)? {
                sides.reader.parts()?.0.acted();
            }
        }
        self.poll_descriptor()
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

fn ended() -> Error {
    Error::new(ErrorKind::Invalid, "read from", "the pipe", "it was closed")
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
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        let found = wait_ready(self.armed_descriptor()?, PollFlags::IN, Some(Duration::ZERO));
        found.map_err(|cause| Error::os("wait for", "a descriptor", cause))
    }

    fn descriptor(&mut self) -> Result<Option<BorrowedFd<'_>>> {
        self.poll_descriptor().map(Some)
    }

    fn count_wait(&self) {
        add(&self.waiting.waits, 1);
    }

    fn after_sleep(&mut self, slept: Slept) -> Result<()> {
        self.waiting.count_sleep(slept.ns, slept.woken);
        self.count();
        Ok(())
    }
}

impl Drop for ElasticReader {
    fn drop(&mut self) {
        self.thread.end(|| {
            // Release pairs with the acquire in `DrainedRing::stops`.
            self.ring.stops.store(1, Ordering::Release);
            // A thread that waits for room learns from this that nobody reads any more.
            drop(self.backlog.take());
            futex::wake(&self.ring.stops, u32::MAX);
        });
    }
}

impl io::Read for ElasticReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(ElasticReader::read(self, buffer)?)
    }
}
