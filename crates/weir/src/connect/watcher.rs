//! The one thread of a process that sees peers die, somebody connect, and descriptors become ready.
//!
//! A futex cannot see death. The thread is started with the first end, sleeps in epoll, and costs
//! nothing else. It waits for no end: it tells what has happened, and looks again a little later at
//! those who may not have heard ([`weir_ring::notify`]). The one lock it takes guards a table, and
//! is held for a look into it, never over a system call. A forked child starts its own thread.

use super::process::PerProcess;
use crate::error::{Error, Result};
use crate::memory::errno_of;
use crate::park::futex;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use weir_ring::notify::{Heard, Observer, Rounds};
use weir_sys::forks::ParentOnly;

/// Events taken from the kernel in one go.
const MOST_EVENTS: usize = 256;
/// How long until those who may not have heard are looked at again, at first and in the end.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

struct Watcher {
    epoll: ParentOnly,
    observers: Mutex<HashMap<u64, Weak<dyn Observer>>>,
    next: AtomicU64,
}

static WATCHER: PerProcess<std::result::Result<Watcher, Errno>> = PerProcess::new();

fn current() -> Result<&'static Watcher> {
    let watcher = WATCHER.get(Watcher::new).as_ref();
    watcher.map_err(|cause| Error::os("start", "the watcher of peers", *cause))
}

/// A descriptor, and the watching of it: until this is dropped, or for one event with
/// [`EventFlags::ONESHOT`]. In a forked child there is no descriptor, and dropping this does nothing.
#[derive(Debug)]
pub struct Watched {
    descriptor: ParentOnly,
    token: Option<u64>,
}

impl Watched {
    /// Takes a descriptor over, which is not yet watched.
    pub fn new(descriptor: ParentOnly) -> Watched {
        Watched { descriptor, token: None }
    }

    /// Takes a copy of a descriptor, which is not yet watched: epoll knows a descriptor of one
    /// number only once.
    pub fn copy_of(descriptor: BorrowedFd) -> Result<Watched> {
        let copy = copy_of(descriptor);
        copy.map(Watched::new).map_err(|cause| Error::os("watch", "a descriptor", cause))
    }

    /// Begins to watch: the observer is told of each of these events.
    pub fn start(&mut self, events: EventFlags, observer: Weak<dyn Observer>) -> Result<()> {
        let watcher = current()?;
        let added = self.descriptor.here().and_then(|own| watcher.add(own, events, observer));
        let failed = |cause| Error::os("watch", "a descriptor", cause);
        self.token = Some(added.map_err(failed)?);
        Ok(())
    }

    /// The descriptor, unless this is a forked child.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.get()
    }

    /// Stops watching, and returns the descriptor; none in a forked child, or the second time.
    pub fn stop(&mut self) -> Option<ParentOnly> {
        let descriptor = self.descriptor.pass_on()?;
        if let (Some(token), Some(own), Ok(watcher)) =
            (self.token.take(), descriptor.get(), current())
        {
            watcher.remove(token, own);
        }
        Some(descriptor)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How often a descriptor of a wait became ready: what the wait sleeps on meanwhile.
#[derive(Debug, Default)]
pub struct Rung(pub AtomicU32);

impl Observer for Rung {
    fn note(&self) {
        // Release pairs with the acquire of the wait: the descriptor is ready.
        self.0.fetch_add(1, Ordering::Release);
    }

    fn wake(&self) -> Heard {
        // No other process has the word: a sleep that begins later sees that it has changed.
        futex::wake(&self.0, u32::MAX);
        Heard::Yes
    }
}

/// Watches a descriptor until it is ready once; then the word is counted up and woken.
pub fn watch_descriptor(
    descriptor: BorrowedFd,
    events: EventFlags,
    rung: &Arc<Rung>,
) -> Result<Watched> {
    let mut watched = Watched::copy_of(descriptor)?;
    let observer = Arc::downgrade(rung);
    watched.start(events | EventFlags::ONESHOT, observer)?;
    Ok(watched)
}

/// A copy that no forked child has.
fn copy_of(descriptor: BorrowedFd) -> rustix::io::Result<ParentOnly> {
    let copy = || rustix::io::fcntl_dupfd_cloexec(descriptor, 3).map_err(std::io::Error::from);
    ParentOnly::make(copy).map_err(|cause| errno_of(&cause))
}

impl Watcher {
    fn new() -> std::result::Result<Watcher, Errno> {
        let make = || epoll::create(CreateFlags::CLOEXEC).map_err(std::io::Error::from);
        let epoll = ParentOnly::make(make).map_err(|cause| errno_of(&cause))?;
        let copy = copy_of(epoll.here()?)?;
        weir_sys::threads::start("weir-watcher", move || run(&copy)).map_err(|_| Errno::AGAIN)?;
        Ok(Watcher { epoll, observers: Mutex::default(), next: AtomicU64::new(0) })
    }

    fn observers(&self) -> MutexGuard<'_, HashMap<u64, Weak<dyn Observer>>> {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(
        &self,
        descriptor: BorrowedFd,
        events: EventFlags,
        observer: Weak<dyn Observer>,
    ) -> rustix::io::Result<u64> {
        // Relaxed: only to be different.
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        // First, since the thread may be told of it at once.
        self.observers().insert(token, observer);
        let epoll = self.epoll.here();
        let data = EventData::new_u64(token);
        let added = epoll.and_then(|epoll| epoll::add(epoll, descriptor, data, events));
        if added.is_err() {
            self.observers().remove(&token);
        }
        added.map(|()| token)
    }

    fn remove(&self, token: u64, descriptor: BorrowedFd) {
        self.observers().remove(&token);
        // The file may live on, with another descriptor, and epoll would go on knowing it.
        let _ = self.epoll.here().and_then(|epoll| epoll::delete(epoll, descriptor));
    }
}

/// When those who may not have heard are looked at again: soon, and then ever less often.
struct Again {
    pause: Duration,
    due: Instant,
}

impl Again {
    fn new() -> Again {
        Again { pause: FIRST_PAUSE, due: Instant::now() }
    }

    /// Somebody new may not have heard; whether there are others.
    fn soon(&mut self, others: bool) {
        let soon = Instant::now() + FIRST_PAUSE;
        self.pause = FIRST_PAUSE;
        self.due = if others { self.due.min(soon) } else { soon };
    }

    /// All were looked at.
    fn later(&mut self) {
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.due = Instant::now() + self.pause;
    }

    fn time_left(&self) -> Timespec {
        futex::timespec(self.due.saturating_duration_since(Instant::now()))
    }
}

fn run(epoll: &ParentOnly) {
    weir_sys::signals::block_all();
    let Ok(epoll) = epoll.here() else { return };
    let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
    let mut events = vec![none; MOST_EVENTS];
    let (mut rounds, mut again) = (Rounds::default(), Again::new());
    loop {
        let time = (!rounds.is_empty()).then(|| again.time_left());
        let count = match epoll::wait(epoll, &mut events[..], time.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            // The descriptor is the thread's own: nothing else can fail.
            Err(_) => return,
        };
        let Ok(watcher) = current() else { return };
        let (others, mut is_new) = (!rounds.is_empty(), false);
        for event in &events[..count] {
            let observer = watcher.observers().get(&event.data.u64()).cloned();
            is_new |= observer.is_some_and(|observer| rounds.tell(observer));
        }
        if is_new {
            again.soon(others);
        }
        // Also where events come without end.
        if !rounds.is_empty() && Instant::now() >= again.due {
            rounds.go();
            again.later();
        }
    }
}
