//! The one thread of a process that sees peers die, somebody connect, and descriptors become ready.
//!
//! A futex cannot see death. The thread is started with the first end, sleeps in epoll, and costs
//! nothing else. It waits for no end: it tells what has happened, and looks again a little later at
//! those who may not have heard ([`weir_ring::notify`]). The one lock it takes guards a table, and
//! is held for a look into it, never over a system call. A forked child starts its own thread.

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
/// How long until those who may not have heard are looked at again, at first and in the end.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

struct Watcher {
    epoll: ParentOnly,
    observers: Mutex<HashMap<u64, Weak<dyn Recipient>>>,
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
        let copy = passing::copy_of(descriptor);
        copy.map(Watched::new).map_err(|cause| Error::os("watch", "a descriptor", cause))
    }

    /// Begins to watch: the observer is told of each of these events, as long as it is there.
    pub fn start<O>(&mut self, events: EventFlags, observer: &Arc<O>) -> Result<()>
    where
        O: Recipient + 'static,
    {
        let (watcher, observer) = (current()?, Arc::<O>::downgrade(observer));
        let added = self.descriptor.here().and_then(|own| watcher.add(own, events, observer));
        let failed = |cause| Error::os("watch", "a descriptor", cause);
        self.token = Some(added.map_err(failed)?);
        Ok(())
    }

    /// Watches again for other events, or after the one of [`EventFlags::ONESHOT`].
    pub fn again(&self, events: EventFlags) -> Result<()> {
        let failed = |cause| Error::os("watch", "a descriptor", cause);
        let (watcher, own) = (current()?, self.descriptor.here().map_err(failed)?);
        let data = EventData::new_u64(self.token.unwrap_or(u64::MAX));
        let epoll = watcher.epoll.here();
        epoll.and_then(|epoll| epoll::modify(epoll, own, data, events)).map_err(failed)
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

impl Watcher {
    fn new() -> std::result::Result<Watcher, Errno> {
        let make = || epoll::create(CreateFlags::CLOEXEC).map_err(std::io::Error::from);
        let epoll = ParentOnly::make(make).map_err(|cause| errno_of(&cause))?;
        let copy = passing::copy_of(epoll.here()?)?;
        weir_sys::threads::start("weir-watcher", move || run(&copy)).map_err(|_| Errno::AGAIN)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::in_forked_child;
    use crate::park::Rung;

    fn watched() -> (Watched, Watched, Arc<Rung>) {
        let (ours, theirs) = passing::sockets().expect("sockets");
        let (mut ours, rung) = (Watched::new(ours), Arc::new(Rung::default()));
        ours.start(EventFlags::RDHUP | EventFlags::ONESHOT, &rung).expect("watched");
        (ours, Watched::new(theirs), rung)
    }

    /// A descriptor that was handed on without being forgotten could not be watched again, and its
    /// new holder was taken for the old one.
    #[test]
    fn what_is_dropped_or_given_up_is_watched_no_more() {
        let (mut ours, theirs, rung) = watched();
        assert_eq!(Arc::weak_count(&rung), 1);
        let mut again = Watched::new(ours.stop().expect("this process's"));
        drop(ours);
        assert_eq!(Arc::weak_count(&rung), 0, "nobody is told");
        let other = Arc::new(Rung::default());
        again.start(EventFlags::RDHUP | EventFlags::ONESHOT, &other).expect("watched again");
        drop(theirs);
        let begun = Instant::now();
        while other.0.load(Ordering::Acquire) == 0 {
            futex::wait(&other.0, 0, Some(Duration::from_millis(100)));
            assert!(begun.elapsed() < Duration::from_secs(30), "it is told of the other's end");
        }
        assert_eq!(rung.0.load(Ordering::Acquire), 0);
        drop(again);
        // The thread that told it may still be at it.
        while Arc::weak_count(&other) != 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "dropped with the end");
            std::thread::yield_now();
        }
    }

    /// The watcher of a child numbers what it watches from 0, as its parent's does.
    #[test]
    fn a_forked_child_that_drops_what_its_parent_watches_ends_no_watching() {
        let (ours, theirs, rung) = watched();
        let number = ours.token;
        let mut given = Some(ours);
        assert!(in_forked_child(|| {
            let (mut own, _others, rung) = watched();
            while own.token < number {
                let Some(socket) = own.stop() else { return false };
                own = Watched::new(socket);
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
