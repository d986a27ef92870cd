//! A record pipe whose reader has a backlog larger than the ring. It works as an elastic stream
//! does; see the module above.

use super::{Drained, First, RecordBacklog};
use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Map;
use crate::park::{Timeout, Until, WaitSource, futex};
use crate::pipe::connection::Role;
use crate::pipe::end::drain;
use crate::pipe::record::RecordReader;
use crate::pipe::storage::corrupt;
use crate::pool::{Backlog, Pool, WAITS};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_ring::account::Account;
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::{Corrupt, RingMemory};

/// The longest sleep of the thread: a hostile writer can spoil the word that it sleeps on.
const LOOK: Duration = Duration::from_millis(100);

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
    shared: Arc<DrainedRecords>,
    thread: Option<JoinHandle<()>>,
    nested: Option<OwnedFd>,
}

/// The state that the reader and the draining thread share.
#[derive(Debug)]
struct DrainedRecords {
    sides: Mutex<Sides>,
    stops: AtomicU32,
    /// Not 0 while the reader waits for the ring, which the thread has.
    wants: AtomicU32,
    map: Arc<Map>,
    /// Rings when a part of the backlog was read back.
    bell: Arc<OwnedFd>,
    pool: Pool,
}

#[derive(Debug)]
struct Sides {
    reader: RecordReader,
    backlog: Option<RecordBacklog>,
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

impl DrainedRecords {
    fn lock(&self) -> MutexGuard<'_, Sides> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the ring for the reader.
    fn enter(&self) -> Result<MutexGuard<'_, Sides>> {
        if !self.pool.is_here() {
            // The thread may have had the lock at the fork, and then nobody releases it here.
            let why = "it belongs to the process this one was forked from";
            return Err(Error::new(ErrorKind::Forked, "read from", "the pipe", why));
        }
        // Relaxed, both: a hint, which makes the thread leave the ring soon.
        self.wants.fetch_add(1, Ordering::Relaxed);
        let sides = self.lock();
        self.wants.fetch_sub(1, Ordering::Relaxed);
        Ok(sides)
    }

    fn leaves(&self) -> bool {
        self.wants.load(Ordering::Relaxed) != 0 || self.stops()
    }

    fn stops(&self) -> bool {
        // Acquire pairs with the release in the drop of the reader.
        self.stops.load(Ordering::Acquire) != 0
    }

    /// Drains the ring if its writer waits for room.
    fn pass(&self) -> Result<Drained> {
        let mut sides = self.lock();
        let Sides { reader, backlog } = &mut *sides;
        reader.parts()?;
        if !RecordBacklog::is_pressed(reader) {
            return Ok(Drained::Done);
        }
        let to = (&self.pool, &self.bell);
        Ok(RecordBacklog::drain(backlog, reader, to, || self.leaves())?.1)
    }
}

/// Drains the ring whenever it is full, until the reader is dropped.
fn run(shared: &DrainedRecords) {
    weir_sys::signals::block_all();
    let line = &shared.map.header().reader_sleep;
    while !shared.stops() {
        // Announced before the look at the ring: a writer that finds it full later wakes this.
        drain::announce(line);
        let Ok(drained) = shared.pass() else { return };
        if !matches!(drained, Drained::More) {
            let mut words = vec![drain::asleep(line), (&shared.stops, 0)];
            if let Drained::Full(backlog) = &drained {
                words.push((backlog.writer.word(), WAITS));
            }
            if futex::wait_any(&words, Some(LOOK)).is_err() {
                return;
            }
        }
        drain::rise(line);
        while shared.leaves() && !shared.stops() {
            std::thread::yield_now();
        }
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
        let map = reader.parts()?.0.map.clone();
        let failed = |cause: std::io::Error| Error::os("make", "an elastic pipe", cause);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = Arc::new(eventfd(0, flags).map_err(|cause| failed(cause.into()))?);
        let shared = Arc::new(DrainedRecords {
            sides: Mutex::new(Sides { reader, backlog: None }),
            stops: AtomicU32::new(0),
            wants: AtomicU32::new(0),
            map,
            bell,
            pool: pool.clone(),
        });
        let drained = shared.clone();
        let thread = weir_sys::threads::start("weir-drain", move || run(&drained));
        let thread = Some(thread.map_err(failed)?);
        Ok(ElasticRecordReader { shared, thread, nested: None })
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
            let mut sides = self.shared.enter()?;
            if self.nested.is_some() {
                self.clear_bell();
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
                    let backlog = self.waiting(&mut sides)?;
                    drop(sides);
                    self.wait_for(backlog, until)?;
                }
            }
        }
    }

    /// Ends that the descriptor is readable because something was read back.
    fn clear_bell(&self) {
        let _ = rustix::io::read(&*self.shared.bell, &mut [0; 8]);
    }

    /// Makes the descriptor readable only by what was read back since, or by the writer. Returns
    /// where to wait for the former.
    fn waiting(&self, sides: &mut Sides) -> Result<Option<Arc<Backlog>>> {
        if self.nested.is_some() {
            sides.reader.parts()?.0.arm();
        }
        Ok(sides.backlog.as_ref().map(RecordBacklog::shared))
    }

    fn wait_for(&self, backlog: Option<Arc<Backlog>>, until: Until) -> Result<()> {
        if until == Until::Now {
            let why = "it is being read back";
            return Err(Error::new(ErrorKind::WouldBlock, "read from", "the pipe", why));
        }
        if backlog.is_none_or(|backlog| backlog.reader.wait(until)) {
            return Ok(());
        }
        let why = "nothing came into memory";
        Err(Error::new(ErrorKind::TimedOut, "read from", "the pipe", why))
    }

    /// Bytes in the backlog, with 8 bytes for each record; 0 in a forked child. Bytes in the ring do
    /// not count.
    pub fn backlog_bytes(&self) -> u64 {
        let Ok(sides) = self.shared.enter() else { return 0 };
        sides.backlog.as_ref().map_or(0, RecordBacklog::backlog_bytes)
    }

    /// The account of this end. Records are counted when they leave the ring, for the backlog or for
    /// the reader.
    ///
    /// # Errors
    /// This is a forked child, and the end belongs to its parent.
    pub fn account(&mut self) -> Result<Account> {
        let mut sides = self.shared.enter()?;
        let Sides { reader, backlog } = &mut *sides;
        if let Some(backlog) = backlog {
            backlog.count(reader.parts()?.0);
        }
        reader.account()
    }

    /// A descriptor for poll(2) and epoll(7). It is readable until `try_receive` returns
    /// [`ErrorKind::WouldBlock`], and again once there is something to receive or the writer is
    /// gone.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        if self.nested.is_none() {
            let nested = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
            let data = EventData::new_u64(0);
            epoll::add(&nested, &*self.shared.bell, data, EventFlags::IN).map_err(failed)?;
            let mut sides = self.shared.enter()?;
            let ring = sides.reader.poll_descriptor()?;
            epoll::add(&nested, ring, data, EventFlags::IN).map_err(failed)?;
            drop(sides);
            self.nested = Some(nested);
        }
        self.nested.as_ref().map(AsFd::as_fd).ok_or_else(|| failed(Errno::BADF))
    }
}

impl Waitable for ElasticRecordReader {
    fn source(&mut self) -> &mut dyn WaitSource {
        self
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }
}

/// It waits by its descriptor, because its records may come to the ring or to the backlog.
impl WaitSource for ElasticRecordReader {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        self.poll_descriptor()?;
        let mut sides = self.shared.enter()?;
        self.clear_bell();
        match sides.first()? {
            First::Record(..) | First::Nonsense => Ok(true),
            First::Waiting => self.waiting(&mut sides).map(|_| false),
            First::None => {
                sides.reader.parts()?.0.arm();
                // Look once more after announcing: records that came before rang no doorbell.
                sides.reader.is_ready(0)
            }
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

impl Drop for ElasticRecordReader {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.shared.pool.is_here() {
            std::mem::forget(thread);
            return;
        }
        // Release pairs with the acquire in `DrainedRecords::stops`.
        self.shared.stops.store(1, Ordering::Release);
        futex::wake(&self.shared.stops, u32::MAX);
        let _ = thread.join();
    }
}
