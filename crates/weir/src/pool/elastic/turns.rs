//! What an elastic reader shares with the thread that drains its rings.

use crate::error::{Error, Result};
use crate::park::{Slept, WaitSource, futex};
use crate::pipe::end::drain;
use crate::pool::{Backlog, Pool};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use weir_ring::account::add;
use weir_ring::layout::{SleepLine, WaitCounts};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_sys::threads::OwnedThread;

/// The longest sleep of the thread. New writers have not heard yet how to wake it, and any writer
/// may have spoiled the word that it sleeps on.
const LOOK: Duration = Duration::from_millis(100);
/// The most backlogs without room that the thread waits for at once.
const MOST_FULL: usize = 64;

/// Rings that are drained while nobody reads them.
pub trait Drainable: Send + Sized + 'static {
    /// The memory that has the line on which writers wake the thread.
    type Memory;
    /// What a user calls it, in errors.
    const OBJECT: &'static str;
    /// There is one writer, which wakes the thread whenever a ring must be drained. So the thread
    /// does not look in between, and does not listen to the writer while the pool has no room.
    const HAS_ONE_WRITER: bool = false;
    /// The longest sleep of the reader.
    const MOST_SLEEP: Option<Duration> = None;

    /// Returns the memory that is in use now. If [`Drainable::pass`] leaves it, more is to be done.
    fn memory(&self) -> Self::Memory;

    /// Returns the line on which writers wake the thread.
    fn line(memory: &Self::Memory) -> &SleepLine;

    /// Moves what is in full rings to the backlogs, until [`Turns::leaves`] says so.
    fn pass(&mut self, turns: &Turns<Self>) -> Result<Pass>;

    /// Whether the reader finds something. If not, the descriptor becomes readable by what comes.
    fn is_ready(&mut self, turns: &Turns<Self>) -> Result<bool>;

    /// Returns where the reader counts how it waited.
    fn waiting(&mut self) -> Result<&WaitCounts>;

    /// Adds the descriptors of which one is readable once a ring or a backlog has something.
    fn descriptors(&mut self, add: &mut AddDescriptor) -> Result<()>;
}

/// Adds a descriptor to those that are polled together.
pub type AddDescriptor<'a> = dyn FnMut(BorrowedFd<'_>) -> Result<()> + 'a;

/// How the draining of a ring ended.
#[derive(Debug)]
pub enum Drained {
    /// Nothing is left to move.
    Done,
    /// The ring may hold more, but somebody else has a turn first.
    More,
    /// The pool has no room, and this is where to wait for some.
    Full(Arc<Backlog>),
    /// Memory lacks, or another thing of the kernel. There may be some in a moment.
    Later,
}

/// What is left after a look at all rings.
#[derive(Debug, Default)]
pub struct Pass {
    /// There is more to move now.
    pub more: bool,
    /// Something could not be done now, and nobody will tell when it can.
    pub later: bool,
    /// Backlogs without room.
    pub full: Vec<Arc<Backlog>>,
}

impl Pass {
    /// Adds how the draining of one ring ended.
    pub fn add(&mut self, drained: Drained) {
        match drained {
            Drained::More => self.more = true,
            Drained::Later => self.later = true,
            Drained::Full(backlog) if self.full.len() < MOST_FULL => self.full.push(backlog),
            Drained::Done | Drained::Full(_) => {}
        }
    }
}

/// The rings, which the reader and the draining thread use in turn.
#[derive(Debug)]
pub struct Turns<D: Drainable> {
    rings: Mutex<D>,
    /// Not 0 once the thread must end.
    stops: AtomicU32,
    /// Not 0 while the reader waits for the rings, which the thread has.
    wants: AtomicU32,
    /// The pool to which things are moved.
    pub pool: Pool,
}

impl<D: Drainable> Turns<D> {
    /// Fails in a forked child.
    pub fn check_here(&self) -> Result<()> {
        let is_here = self.pool.is_here();
        is_here.then_some(()).ok_or_else(|| Error::forked("read from", D::OBJECT))
    }

    /// Locks the rings for the reader.
    pub fn enter(&self) -> Result<MutexGuard<'_, D>> {
        // The thread may have had the lock at the fork, and then nobody releases it in the child.
        self.check_here()?;
        // Relaxed, both: a hint, which makes the thread leave the rings soon.
        self.wants.fetch_add(1, Ordering::Relaxed);
        let rings = self.lock();
        self.wants.fetch_sub(1, Ordering::Relaxed);
        Ok(rings)
    }

    /// Locks the rings for the reader if the thread does not have them.
    pub fn try_enter(&self) -> Option<MutexGuard<'_, D>> {
        match self.rings.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Ok(rings) => Some(rings),
        }
    }

    fn lock(&self) -> MutexGuard<'_, D> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the thread should leave the rings.
    pub fn leaves(&self) -> bool {
        self.wants.load(Ordering::Relaxed) != 0 || self.stops()
    }

    fn stops(&self) -> bool {
        // Acquire pairs with the release in the drop of `Draining`.
        self.stops.load(Ordering::Acquire) != 0
    }

    /// Drains rings that are full, until the reader is dropped.
    fn run(&self) {
        weir_sys::signals::block_all();
        while !self.stops() {
            let mut rings = self.lock();
            let memory = rings.memory();
            let line = D::line(&memory);
            // Announced before the look at the rings: a writer whose ring is full later wakes this.
            drain::announce(line);
            let passed = rings.pass(self);
            drop(rings);
            // The reader finds the same error.
            let Ok(pass) = passed else { return };
            if !pass.more && self.sleep(line, &pass).is_err() {
                return;
            }
            drain::withdraw(line);
            while self.leaves() && !self.stops() {
                std::thread::yield_now();
            }
        }
    }

    /// Sleeps until a pass has left something to do, or something comes.
    fn sleep(&self, line: &SleepLine, pass: &Pass) -> rustix::io::Result<()> {
        let mut words = Vec::with_capacity(2 + pass.full.len());
        if D::HAS_ONE_WRITER && !pass.full.is_empty() {
            drain::withdraw(line);
        } else {
            words.push(drain::asleep(line));
        }
        words.extend(pass.full.iter().map(|backlog| backlog.writer.asleep()));
        words.push((&self.stops, 0));
        futex::wait_any(&words, (pass.later || !D::HAS_ONE_WRITER).then_some(LOOK))
    }
}

/// Rings with a thread that drains them. Dropping it ends the thread.
#[derive(Debug)]
pub struct Draining<D: Drainable> {
    turns: Arc<Turns<D>>,
    thread: OwnedThread,
    nested: Nested,
}

impl<D: Drainable> Draining<D> {
    /// Starts the thread.
    pub fn start(rings: D, pool: &Pool) -> Result<Self> {
        let turns = Arc::new(Turns {
            rings: Mutex::new(rings),
            stops: AtomicU32::new(0),
            wants: AtomicU32::new(0),
            pool: pool.clone(),
        });
        let drained = turns.clone();
        let thread = OwnedThread::start("weir-drain", move || drained.run())
            .map_err(|cause| Error::os("start", "a thread that drains", cause))?;
        Ok(Draining { turns, thread, nested: Nested::default() })
    }

    /// Whether somebody polls the descriptor.
    pub fn is_polled(&self) -> bool {
        self.nested.0.is_some()
    }

    /// Returns a descriptor that is readable once a ring or a backlog has something.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        let Draining { turns, nested, .. } = self;
        nested.of(|add| turns.enter()?.descriptors(add))
    }
}

/// It waits by its descriptor, because the thread may have the rings meanwhile.
impl<D: Drainable> WaitSource for Draining<D> {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        self.poll_descriptor()?;
        self.enter()?.is_ready(&self.turns)
    }

    fn descriptor(&mut self) -> Result<Option<BorrowedFd<'_>>> {
        self.poll_descriptor().map(Some)
    }

    fn most_sleep(&self) -> Option<Duration> {
        D::MOST_SLEEP
    }

    fn count_wait(&self) {
        if let Ok(mut rings) = self.enter()
            && let Ok(waiting) = rings.waiting()
        {
            add(&waiting.waits, 1);
        }
    }

    fn after_sleep(&mut self, slept: Slept) -> Result<()> {
        self.enter()?.waiting()?.count_sleep(slept.ns, slept.woken);
        Ok(())
    }
}

impl<D: Drainable> Deref for Draining<D> {
    type Target = Turns<D>;

    fn deref(&self) -> &Turns<D> {
        &self.turns
    }
}

impl<D: Drainable> Drop for Draining<D> {
    fn drop(&mut self) {
        self.thread.end(|| {
            // Release pairs with the acquire in `Turns::stops`.
            self.turns.stops.store(1, Ordering::Release);
            futex::wake(&self.turns.stops, u32::MAX);
        });
    }
}

/// One descriptor that is readable once one of several is. It is made when it is first asked for.
#[derive(Debug, Default)]
struct Nested(Option<OwnedFd>);

impl Nested {
    /// Returns the descriptor. `fill` adds those that it stands for.
    fn of(
        &mut self,
        fill: impl FnOnce(&mut AddDescriptor) -> Result<()>,
    ) -> Result<BorrowedFd<'_>> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        if self.0.is_none() {
            let nested = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
            fill(&mut |one| {
                epoll::add(&nested, one, EventData::new_u64(0), EventFlags::IN).map_err(failed)
            })?;
            self.0 = Some(nested);
        }
        self.0.as_ref().map(AsFd::as_fd).ok_or_else(|| failed(Errno::BADF))
    }
}
