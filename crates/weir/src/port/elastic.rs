//! A port whose writers have backlogs larger than their rings.
//!
//! While the reader keeps up nothing changes. A writer that finds its ring full wakes a thread in the
//! reader's process, which moves the messages of that ring to the reader's pool, so that the writer
//! can go on. Each writer has its own backlog, so turns, shares and suspended writers are those of
//! any port.

use super::watched::Bell;
use super::{Port, PortCounts, READ, Received, WriterId, WriterStat};
use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::SharedPage;
use crate::park::{Timeout, WaitSource, futex};
use crate::pipe::end::drain;
use crate::pool::elastic::Drained;
use crate::pool::{Backlog, Pool};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_ring::board::Board;
use weir_ring::primitive::{AtomicU32, Ordering};

/// The longest sleep of the thread. New writers have not heard yet how to wake it, and any writer
/// may have spoiled the word that it sleeps on.
const LOOK: Duration = Duration::from_millis(100);
/// The most backlogs without room that the thread waits for at once.
const MOST_FULL: usize = 64;

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
    shared: Arc<DrainedPort>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
    nested: Option<OwnedFd>,
}

/// The state that the reader and the draining thread share.
#[derive(Debug)]
struct DrainedPort {
    port: Mutex<Port>,
    /// Not 0 once the thread must end.
    stops: AtomicU32,
    /// Not 0 while the reader waits for the port, which the thread has.
    wants: AtomicU32,
    board: Arc<SharedPage<Board>>,
    bell: Arc<OwnedFd>,
    pool: Pool,
}

impl DrainedPort {
    /// Locks the port for the reader.
    fn enter(&self) -> Result<MutexGuard<'_, Port>> {
        if !self.pool.is_here() {
            // The thread may have had the lock at the fork, and then nobody releases it here.
            let why = "it belongs to the process this one was forked from";
            return Err(Error::new(ErrorKind::Forked, READ.operation, "an elastic port", why));
        }
        // Relaxed, both: a hint, which makes the thread leave the port soon.
        self.wants.fetch_add(1, Ordering::Relaxed);
        let port = self.lock();
        self.wants.fetch_sub(1, Ordering::Relaxed);
        Ok(port)
    }

    fn lock(&self) -> MutexGuard<'_, Port> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_wanted(&self) -> bool {
        self.wants.load(Ordering::Relaxed) != 0
    }

    fn stops(&self) -> bool {
        // Acquire pairs with the release in the drop of the port.
        self.stops.load(Ordering::Acquire) != 0
    }
}

impl Port {
    /// Gives each writer that finds its ring full a backlog in a pool of this process. The thread
    /// that moves messages there belongs to the port.
    ///
    /// # Errors
    /// This is a forked child, and the port belongs to its parent; a thread cannot be started.
    pub fn elastic(mut self, pool: &Pool) -> Result<ElasticPort> {
        self.rings.check_here()?;
        let bell = Bell::new(self.rings.choice.inbox())?;
        let (path, counter) = (self.path().to_owned(), bell.counter.clone());
        self.rings.bell = Some(bell);
        let board = self.rings.choice.page();
        let shared = Arc::new(DrainedPort {
            port: Mutex::new(self),
            stops: AtomicU32::new(0),
            wants: AtomicU32::new(0),
            board,
            bell: counter,
            pool: pool.clone(),
        });
        let drained = shared.clone();
        let thread = weir_sys::threads::start("weir-drain", move || run(&drained))
            .map_err(|cause| Error::os("start", "the thread of an elastic port", cause))?;
        Ok(ElasticPort { shared, path, thread: Some(thread), nested: None })
    }
}

/// Drains rings that are full, until the port is dropped.
fn run(shared: &DrainedPort) {
    weir_sys::signals::block_all();
    let line = &shared.board.words().sleep;
    while !shared.stops() {
        // Announced before the look at the rings: a writer whose ring is full later wakes this.
        drain::announce(line);
        let Ok(Pass { more, full }) = pass(shared) else { return };
        if !more {
            let mut words = vec![drain::asleep(line), (&shared.stops, 0)];
            words.extend(full.iter().map(|backlog| (backlog.writer.word(), crate::pool::WAITS)));
            if futex::wait_any(&words, Some(LOOK)).is_err() {
                return;
            }
        }
        drain::rise(line);
        while shared.is_wanted() && !shared.stops() {
            std::thread::yield_now();
        }
    }
}

/// What is left after a look at all rings.
#[derive(Debug, Default)]
struct Pass {
    /// There is more to move now.
    more: bool,
    /// Backlogs without room.
    full: Vec<Arc<Backlog>>,
}

/// Drains the rings of all writers that wait for room.
fn pass(shared: &DrainedPort) -> Result<Pass> {
    let mut port = shared.lock();
    let rings = &mut port.rings;
    rings.check_here()?;
    let (mut pass, mut acted) = (Pass::default(), rings.has_news());
    if acted {
        rings.let_in()?;
    }
    let leaves = || shared.stops() || shared.is_wanted();
    for place in 0..rings.choice.slots.len() {
        if leaves() {
            pass.more = true;
            break;
        }
        let Some(Some(slot)) = rings.choice.slots.get_mut(place) else { continue };
        if !slot.is_pressed() {
            continue;
        }
        let Ok((records, drained)) = slot.drain((&shared.pool, &shared.bell), leaves) else {
            // Without a backlog this writer waits for the reader.
            continue;
        };
        acted |= records > 0;
        match drained {
            Drained::Done => {}
            Drained::More => pass.more = true,
            Drained::Full(backlog) if pass.full.len() < MOST_FULL => pass.full.push(backlog),
            Drained::Full(_) => {}
        }
    }
    if acted {
        // What made the descriptor readable may be gone, but there may be something to receive.
        rings.acted();
    }
    Ok(pass)
}

impl ElasticPort {
    /// Receives the next message, as [`Port::receive`].
    ///
    /// # Errors
    /// Those of [`Port::receive`]. [`ErrorKind::Os`] or [`ErrorKind::Corrupt`]: what comes next from
    /// one of the writers could not be read back; a later call tries again.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        self.shared.enter()?.receive(buffer)
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
        self.shared.enter()?.receive_timeout(buffer, timeout)
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
        self.shared.enter()?.receive_each_timeout(buffer, timeout, see)
    }

    /// Counts the writers that are open, and those that wait.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn counts(&mut self) -> Result<PortCounts> {
        self.shared.enter()?.counts()
    }

    /// Lists the writers that are open.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn writers(&mut self) -> Result<Vec<WriterStat>> {
        self.shared.enter()?.writers()
    }

    /// Bytes in the backlogs of all writers, with 8 bytes for each message or piece; 0 in a forked
    /// child. Bytes in rings do not count.
    pub fn backlog_bytes(&self) -> u64 {
        let Ok(port) = self.shared.enter() else { return 0 };
        port.rings.choice.slots.iter().flatten().map(|slot| slot.backlog_bytes()).sum()
    }

    /// Receives nothing from this writer until it is resumed, as [`Port::suspend`]. What is in its
    /// backlog stays there, and nothing is added to it.
    ///
    /// # Errors
    /// Those of [`Port::suspend`].
    pub fn suspend(&mut self, writer: WriterId) -> Result<()> {
        self.shared.enter()?.suspend(writer)
    }

    /// Receives from a suspended writer again.
    ///
    /// # Errors
    /// Those of [`Port::suspend`].
    pub fn resume(&mut self, writer: WriterId) -> Result<()> {
        self.shared.enter()?.resume(writer)
    }

    /// Gives a writer a share, as [`Port::set_share`].
    ///
    /// # Errors
    /// Those of [`Port::set_share`].
    pub fn set_share(&mut self, writer: WriterId, share: u32) -> Result<()> {
        self.shared.enter()?.set_share(writer, share)
    }

    /// Shuts this writer out, as [`Port::shut_out`]. Its backlog is discarded.
    ///
    /// # Errors
    /// Those of [`Port::shut_out`].
    pub fn shut_out(&mut self, writer: WriterId) -> Result<()> {
        self.shared.enter()?.shut_out(writer)
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
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        if self.nested.is_none() {
            let nested = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
            let data = EventData::new_u64(0);
            epoll::add(&nested, &*self.shared.bell, data, EventFlags::IN).map_err(failed)?;
            let mut port = self.shared.enter()?;
            let own = port.poll_descriptor()?;
            epoll::add(&nested, own, data, EventFlags::IN).map_err(failed)?;
            drop(port);
            self.nested = Some(nested);
        }
        self.nested.as_ref().map(AsFd::as_fd).ok_or_else(|| failed(Errno::BADF))
    }
}

impl Waitable for ElasticPort {
    fn source(&mut self) -> &mut dyn WaitSource {
        self
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }
}

/// It waits by its descriptor, because the thread may have the port meanwhile.
impl WaitSource for ElasticPort {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        self.poll_descriptor()?;
        match self.shared.enter()?.wait_timeout(Timeout::Now) {
            Ok(()) => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Ok(false),
                ErrorKind::Closed => Ok(true),
                _ => Err(error),
            },
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

impl Drop for ElasticPort {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.shared.pool.is_here() {
            std::mem::forget(thread);
            return;
        }
        // Release pairs with the acquire in `DrainedPort::stops`.
        self.shared.stops.store(1, Ordering::Release);
        futex::wake(&self.shared.stops, u32::MAX);
        let _ = thread.join();
    }
}
