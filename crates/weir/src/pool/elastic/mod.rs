//! A stream whose reader has a backlog larger than the ring.
//!
//! While the reader keeps up nothing changes. Once the writer finds the ring full, a thread in the
//! reader's process moves what is in it to the reader's pool, so that the writer goes on. The
//! reader takes from there first, then from the ring: the same bytes in the same order. What was
//! written is the reader's, whatever becomes of the writer.

mod drainer;

use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Timeout, Until, WaitSource, futex};
use crate::pipe::end::drain;
use crate::pipe::stream::Reader;
use crate::pool::{BacklogReader, BacklogWriter, Pool};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use weir_ring::RingMemory;
use weir_ring::account::Account;
use weir_ring::primitive::{AtomicU32, Ordering, fence};

/// A reader's end of a stream with a backlog in a pool, made by [`Reader::elastic`]. Dropping it
/// closes the stream and gives up what is left.
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
    ring: Arc<Ring>,
    // `None` only while it is dropped.
    backlog: Option<BacklogReader>,
    thread: Option<JoinHandle<()>>,
    nested: Option<OwnedFd>,
}

/// What a look at the ring came to.
enum Look {
    /// So many bytes were read.
    Read(usize),
    /// What was in it is in the backlog.
    Moved,
    /// The thread is moving its bytes.
    InUse,
}

/// What the reader and the thread that drains share.
#[derive(Debug)]
struct Ring {
    sides: Mutex<Sides>,
    /// Not 0 once the thread is to end, which sleeps on it beside the word of the ring: that a
    /// hostile writer can write over.
    stops: AtomicU32,
    /// The reader found the ring in use.
    kept_out: AtomicBool,
}

/// Where bytes come from, and where they go when the ring is full.
#[derive(Debug)]
struct Sides {
    reader: Reader,
    backlog: BacklogWriter,
}

impl Ring {
    fn lock(&self) -> MutexGuard<'_, Sides> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Sides>> {
        match self.sides.try_lock() {
            Ok(sides) => Some(sides),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The ring for the reader, unless the thread is at it, which will wake the reader then.
    fn enter(&self) -> Option<MutexGuard<'_, Sides>> {
        self.try_lock().or_else(|| {
            // Relaxed: ordered by the fence, which pairs with that in `kept_one_out`: the thread
            // sees this after it has left, or the ring is found free now.
            self.kept_out.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.try_lock()
        })
    }

    /// Whether the thread is to end.
    fn stops(&self) -> bool {
        // Acquire pairs with the release in the reader's drop.
        self.stops.load(Ordering::Acquire) != 0
    }

    /// Whether the reader found the ring in use. To be asked after it was left.
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
    /// This is a forked child, and the end or the pool its parent's; there is no thread.
    pub fn elastic(self, pool: &Pool) -> Result<ElasticReader> {
        let mut reader = self;
        reader.parts()?;
        let (writer, backlog) = pool.backlog()?;
        let sides = Mutex::new(Sides { reader, backlog: writer });
        let ring =
            Arc::new(Ring { sides, stops: AtomicU32::new(0), kept_out: AtomicBool::new(false) });
        let drained = ring.clone();
        let thread = weir_sys::threads::start("weir-drain", move || drainer::run(&drained))
            .map_err(|cause| Error::os("start", "the thread of an elastic pipe", cause))?;
        Ok(ElasticReader { ring, backlog: Some(backlog), thread: Some(thread), nested: None })
    }
}

impl ElasticReader {
    /// Reads what is there, at least a byte, waiting for it as long as it takes; 0 once the writer
    /// is gone and all is read.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the memory says what cannot be. [`ErrorKind::Os`]: what comes next
    /// could not be read back; it is tried again.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Ever)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing is in memory now.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Now)
    }

    /// Reads what is there, if anything comes in time.
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
        self.backlog
            .as_mut()
            .ok_or_else(|| Error::new(ErrorKind::Invalid, "read from", "the pipe", "it was closed"))
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
            // What is in the backlog comes before what is in the ring.
            if self.backlog()?.backlog_bytes() > 0 {
                self.wait_backlog(until)?;
                continue;
            }
            match self.read_ring(buffer, until)? {
                Look::Read(read) => return Ok(read),
                Look::Moved => {}
                Look::InUse => self.wait_backlog(until)?,
            }
        }
    }

    /// Waits until something is in the backlog, in memory, or the thread has left the ring. The
    /// backlog has said that it would have to wait.
    fn wait_backlog(&mut self, until: Until) -> Result<()> {
        if until == Until::Now {
            let why = "it is being read back";
            return Err(Error::new(ErrorKind::WouldBlock, "read from", "the pipe", why));
        }
        if self.backlog()?.wait(until) {
            return Ok(());
        }
        let why = "nothing came into memory";
        Err(Error::new(ErrorKind::TimedOut, "read from", "the pipe", why))
    }

    /// From the ring, unless the thread moves its bytes to the backlog, or has.
    fn read_ring(&mut self, buffer: &mut [u8], until: Until) -> Result<Look> {
        let ring = self.ring.clone();
        // Not waited for: with a writer that is fast enough the thread is at it for long.
        let Some(mut sides) = ring.enter() else { return Ok(Look::InUse) };
        // Under the lock: the thread puts nothing into the backlog now.
        if self.backlog()?.backlog_bytes() > 0 {
            return Ok(Look::Moved);
        }
        let before = sides.reader.parts()?.0.map.clone();
        let read = sides.reader.read_until(buffer, until);
        // The pipe was given another memory: the thread is to look at that.
        if !Arc::ptr_eq(&before, &sides.reader.parts()?.0.map) {
            drain::wake(before.header());
        }
        read.map(Look::Read)
    }

    /// Brings the account up to date with what the pool counted.
    fn count(&mut self) {
        let Some(backlog) = &self.backlog else { return };
        let counts = backlog.counts();
        // The thread moves bytes: it will count when it is done.
        if counts != [0; 4]
            && let Some(mut sides) = self.ring.try_lock()
        {
            drainer::say(&mut sides.reader, counts);
        }
    }

    /// What the end has counted. Bytes are counted when they leave the ring, for the backlog or for
    /// the reader.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn account(&mut self) -> Result<Account> {
        let counts = self.backlog()?.counts();
        let mut sides = self.ring.lock();
        drainer::say(&mut sides.reader, counts);
        sides.reader.account()
    }

    /// Bytes that are in the backlog now, and not in the ring.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog.as_ref().map_or(0, BacklogReader::backlog_bytes)
    }

    /// A lower bound of the bytes that can be read, with waiting for the file at most.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`].
    pub fn available(&mut self) -> Result<u64> {
        let mut sides = self.ring.lock();
        Ok(self.backlog_bytes() + sides.reader.available()?)
    }

    /// A descriptor for poll(2) and epoll(7): readable until a `try_read` has answered
    /// [`ErrorKind::WouldBlock`], and again once there is something to read or the writer is gone.
    ///
    /// # Errors
    /// The kernel has no descriptors.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        if self.nested.is_none() {
            let nested = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
            let data = EventData::new_u64(0);
            let backlog = self.backlog()?.poll_descriptor()?;
            epoll::add(&nested, backlog, data, EventFlags::IN).map_err(failed)?;
            let mut sides = self.ring.lock();
            let ring = sides.reader.poll_descriptor()?;
            epoll::add(&nested, ring, data, EventFlags::IN).map_err(failed)?;
            drop(sides);
            self.nested = Some(nested);
        }
        self.nested.as_ref().map(AsFd::as_fd).ok_or_else(|| failed(Errno::BADF))
    }

    /// The descriptor, readable only if there is something.
    fn armed_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()?;
        if self.backlog()?.backlog_bytes() == 0 && self.backlog()?.arm() {
            let mut sides = self.ring.lock();
            sides.reader.parts()?.0.arm();
            // Looked at after it was said: what came before would ring nobody.
            if sides.reader.is_ready(0)? {
                sides.reader.parts()?.0.acted();
            }
        }
        self.poll_descriptor()
    }
}

impl Waitable for ElasticReader {
    fn source(&mut self) -> &mut dyn WaitSource {
        self
    }
}

/// It counts as a descriptor: what it waits for may lie in the ring or in the backlog.
impl WaitSource for ElasticReader {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        let descriptor = self.armed_descriptor()?;
        let mut asked = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        match poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(cause) => Err(Error::os("wait for", "a descriptor", cause)),
        }
    }

    fn announce(&mut self, wanted: u64) -> Result<Option<u32>> {
        Ok((!self.is_ready(wanted)?).then_some(0))
    }

    fn retract(&mut self) {}

    fn words<'w>(&'w self, _: u32, _: &mut Vec<(&'w AtomicU32, u32)>) {}

    fn descriptor(&mut self) -> Result<Option<BorrowedFd<'_>>> {
        self.poll_descriptor().map(Some)
    }
}

impl Drop for ElasticReader {
    fn drop(&mut self) {
        // In a forked child there is no thread, and the lock may be held by nobody.
        if self.backlog.as_ref().is_none_or(|backlog| !backlog.is_here()) {
            std::mem::forget(self.thread.take());
            return;
        }
        // Release pairs with the acquire in `Ring::stops`.
        self.ring.stops.store(1, Ordering::Release);
        // A thread that waits for room learns that nobody reads.
        drop(self.backlog.take());
        futex::wake(&self.ring.stops, u32::MAX);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl io::Read for ElasticReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(ElasticReader::read(self, buffer)?)
    }
}
