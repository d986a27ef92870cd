//! The one thread of a process that sees peers die, connections come and descriptors become ready.
//!
//! A futex cannot report a death. The thread starts with the first end, sleeps in epoll, and costs
//! nothing else. It never waits for an end: it notifies observers, and checks a little later
//! whether they have heard ([`weir_ring::notify`]). Its only lock guards a table, and is held for a
//! look-up, never over a system call. A forked child starts its own thread.

use super::passing;
use super::process::PerProcess;
use crate::error::{Error, Result};
use crate::memory::errno_of;
use crate::park::futex;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use weir_ring::notify::{Recipient, Rounds};
use weir_sys::forks::ParentOnly;

/// Events taken from the kernel in one go.
const MOST_EVENTS: usize = 256;
/// The first and the longest pause until observers that may not have heard are checked again.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

struct Watcher {
    epoll: ParentOnly,
    observers: Mutex<HashMap<u64, Weak<dyn Recipient>>>,
    next: AtomicU64,
}

static WATCHER: PerProcess<Watcher> = PerProcess::new();

/// The watcher of this process. One that could not be made, because descriptors or memory lacked at
/// that moment, is made by a later call.
fn current() -> Result<&'static Watcher> {
    let failed = |cause: Errno| Error::os("start", "the watcher of peers", cause);
    WATCHER.get_or_try(Watcher::new).map_err(failed)
}

fn failed(cause: Errno) -> Error {
    Error::os("watch", "a descriptor", cause)
}

/// A descriptor that is watched until this is dropped; with [`EventFlags::ONESHOT`] for one event.
/// In a forked child there is no descriptor, and dropping this does nothing.
#[derive(Debug)]
pub struct WatchedDescriptor {
    descriptor: ParentOnly,
    token: Option<u64>,
}

impl WatchedDescriptor {
    /// Takes over a descriptor. It is not watched yet.
    pub fn new(descriptor: ParentOnly) -> WatchedDescriptor {
        WatchedDescriptor { descriptor, token: None }
    }

    /// Copies a descriptor that another epoll entry may use: epoll knows each descriptor once. The
    /// copy is not watched yet.
    pub fn copy_of(descriptor: BorrowedFd) -> Result<WatchedDescriptor> {
        passing::copy_of(descriptor).map(WatchedDescriptor::new).map_err(failed)
    }

    /// Begins to watch: the observer is notified of each of these events while it exists.
    pub fn start<O>(&mut self, events: EventFlags, observer: &Arc<O>) -> Result<()>
    where
        O: Recipient + 'static,
    {
        let (watcher, observer) = (current()?, Arc::<O>::downgrade(observer));
        let added = self.descriptor.here().and_then(|own| watcher.add(own, events, observer));
        self.token = Some(added.map_err(failed)?);
        Ok(())
    }

    /// Watches for other events, or again after the one of [`EventFlags::ONESHOT`].
    pub fn again(&self, events: EventFlags) -> Result<()> {
        let (watcher, own) = (current()?, self.descriptor.here().map_err(failed)?);
        let data = EventData::new_u64(self.token.unwrap_or(u64::MAX));
        let epoll = watcher.epoll.here();
        epoll.and_then(|epoll| epoll::modify(epoll, own, data, events)).map_err(failed)
    }

    /// The descriptor; `None` in a forked child.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.get()
    }

    /// Stops watching and returns the descriptor; `None` in a forked child and at a second call.
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

impl Drop for WatchedDescriptor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Watcher {
    fn new() -> std::result::Result<Watcher, Errno> {
        let make = || epoll::create(CreateFlags::CLOEXEC).map_err(std::io::Error::from);
        let epoll = ParentOnly::make(make).map_err(|cause| errno_of(&cause))?;
        let copy = passing::copy_of(epoll.here()?)?;
        weir_sys::threads::start("weir-watcher", move || run(&copy))
            .map_err(|cause| errno_of(&cause))?;
        Ok(Watcher { epoll, observers: Mutex::default(), next: AtomicU64::new(0) })
    }

    fn observers(&self) -> MutexGuard<'_, HashMap<u64, Weak<dyn Recipient>>> {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(
        &self,
        descriptor: BorrowedFd,
        events: EventFlags,
        observer: Weak<dyn Recipient>,
    ) -> rustix::io::Result<u64> {
        // Relaxed: tokens only have to differ.
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        // Inserted first, since an event may come at once.
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
        // Another descriptor may keep the file open, and epoll would keep its entry.
        let _ = self.epoll.here().and_then(|epoll| epoll::delete(epoll, descriptor));
    }
}

/// Keeps the watcher of this process from telling anybody anything, until what this returns is dropped.
#[cfg(test)]
pub fn hold_up() -> impl Sized {
    current().expect("a watcher").observers()
}

/// When observers that may not have heard are checked again: soon, then in growing intervals.
struct RetryTimer {
    pause: Duration,
    due: Instant,
}

impl RetryTimer {
    fn new() -> RetryTimer {
        RetryTimer { pause: FIRST_PAUSE, due: Instant::now() }
    }

    /// A new observer may not have heard. `others`: so may earlier ones.
    fn soon(&mut self, others: bool) {
        let soon = Instant::now() + FIRST_PAUSE;
        self.pause = FIRST_PAUSE;
        self.due = if others { self.due.min(soon) } else { soon };
    }

    /// All were checked.
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
    let (mut rounds, mut again) = (Rounds::default(), RetryTimer::new());
    loop {
        let time = (!rounds.is_empty()).then(|| again.time_left());
        let count = match epoll::wait(epoll, &mut events[..], time.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            // The descriptor is the thread's own, so nothing else can fail.
            Err(_) => return,
        };
        let Ok(watcher) = current() else { return };
        let (others, mut is_new) = (!rounds.is_empty(), false);
        for event in &events[..count] {
            let observer = watcher.observers().get(&event.data.u64()).cloned();
            is_new |= observer.is_some_and(|observer| rounds.notify(observer));
        }
        if is_new {
            again.soon(others);
        }
        // Done also while events keep coming.
        if !rounds.is_empty() && Instant::now() >= again.due {
            rounds.go();
            again.later();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::in_forked_child;
    use crate::park::Rung;

    fn watched() -> (WatchedDescriptor, WatchedDescriptor, Arc<Rung>) {
        let (ours, theirs) = passing::sockets().expect("sockets");
        let (mut ours, rung) = (WatchedDescriptor::new(ours), Arc::new(Rung::default()));
        ours.start(EventFlags::RDHUP | EventFlags::ONESHOT, &rung).expect("watched");
        (ours, WatchedDescriptor::new(theirs), rung)
    }

    /// A descriptor that was handed on while epoll still knew it could not be watched again, and
    /// its events went to the old observer.
    #[test]
    fn dropping_or_stopping_ends_the_watching() {
        let (mut ours, theirs, rung) = watched();
        assert_eq!(Arc::weak_count(&rung), 1);
        let mut again = WatchedDescriptor::new(ours.stop().expect("this process's"));
        drop(ours);
        assert_eq!(Arc::weak_count(&rung), 0, "nobody is notified");
        let other = Arc::new(Rung::default());
        again.start(EventFlags::RDHUP | EventFlags::ONESHOT, &other).expect("watched again");
        drop(theirs);
        let begun = Instant::now();
        while other.0.load(Ordering::Acquire) == 0 {
            futex::wait(&other.0, 0, Some(Duration::from_millis(100)));
            assert!(begun.elapsed() < Duration::from_secs(30), "it sees the other side close");
        }
        assert_eq!(rung.0.load(Ordering::Acquire), 0);
        drop(again);
        // The watcher may still hold it.
        while Arc::weak_count(&other) != 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "dropped with the end");
            std::thread::yield_now();
        }
    }

    /// A child's watcher numbers its descriptors from 0, as its parent's does.
    #[test]
    fn a_forked_child_that_drops_what_its_parent_watches_ends_no_watching() {
        let (ours, theirs, rung) = watched();
        let number = ours.token;
        let mut given = Some(ours);
        assert!(in_forked_child(|| {
            let (mut own, _others, rung) = watched();
            while own.token < number {
                let Some(socket) = own.stop() else { return false };
                own = WatchedDescriptor::new(socket);
                if own.start(EventFlags::RDHUP | EventFlags::ONESHOT, &rung).is_err() {
                    return false;
                }
            }
            own.token == number && {
                drop(given.take());
                Arc::weak_count(&rung) == 1
            }
        }));
        assert_eq!(Arc::weak_count(&rung), 1);
        drop((given, theirs));
    }
}
