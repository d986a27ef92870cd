//! The one thread of a process that sees peers die, and descriptors become ready for a wait.
//!
//! A futex cannot see death. The thread is started with the first end, sleeps in epoll, and costs
//! nothing else. A forked child starts its own: what the parent's thread held (locks too) is left
//! alone, since each process of a line of forks has a link of its own in the chain below.

use crate::error::{Error, Result};
use crate::futex;
use crate::gathering::Inbox;
use crate::life::Life;
use crate::mpx::Line;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use weir_sys::forks::{self, ParentOnly};

/// What a wait sleeps on while the watcher looks after its descriptors: how often one became ready.
pub type Rung = AtomicU32;

enum Target {
    /// The socket of an end.
    Life(Weak<Life>),
    /// The socket of a link.
    Line(Weak<Line>),
    /// The process at the other end of it, readable once it has died.
    Process { life: Weak<Life>, pidfd: OwnedFd },
    /// A descriptor of a wait, and whom to tell; it is closed with the target.
    Descriptor { tell: Arc<Rung>, copy: OwnedFd },
    /// A descriptor where somebody comes, again and again, and who is told each time.
    Door { inbox: Weak<Inbox>, copy: OwnedFd },
}

struct Watcher {
    epoll: ParentOnly,
    targets: Mutex<HashMap<u64, Target>>,
    next: AtomicU64,
}

/// The watcher of one process; that of a child forked from it is further down the chain.
struct Link {
    watcher: OnceLock<std::result::Result<Watcher, Errno>>,
    child: OnceLock<Box<Link>>,
}

static FIRST: Link = Link { watcher: OnceLock::new(), child: OnceLock::new() };

fn current() -> Result<&'static Watcher> {
    let mut link = &FIRST;
    for _ in 0..forks::epoch() {
        link = link
            .child
            .get_or_init(|| Box::new(Link { watcher: OnceLock::new(), child: OnceLock::new() }));
    }
    let watcher = link.watcher.get_or_init(Watcher::new).as_ref();
    let watcher = watcher.map_err(|cause| Error::os("start", "the watcher of peers", *cause))?;
    Ok(watcher)
}

/// Watches the socket of an end.
pub fn watch(life: &Arc<Life>) -> Result<Watched> {
    let target = Target::Life(Arc::downgrade(life));
    current()?.add(EventFlags::RDHUP | EventFlags::ET, target).map(Watched)
}

/// Watches the socket of a link.
pub fn watch_line(line: &Arc<Line>) -> Result<Watched> {
    let target = Target::Line(Arc::downgrade(line));
    current()?.add(EventFlags::RDHUP | EventFlags::ET, target).map(Watched)
}

/// Watches the process at the other end as well: its socket can outlive it.
pub fn watch_process(life: &Arc<Life>, pidfd: OwnedFd) -> Result<Watched> {
    let target = Target::Process { life: Arc::downgrade(life), pidfd };
    current()?.add(EventFlags::IN | EventFlags::ONESHOT, target).map(Watched)
}

/// Watches a descriptor at which somebody comes, or goes, each time.
pub fn watch_knocks(descriptor: BorrowedFd, inbox: &Arc<Inbox>) -> Result<Watched> {
    let copy = rustix::io::fcntl_dupfd_cloexec(descriptor, 3)
        .map_err(|cause| Error::os("watch", "a descriptor", cause))?;
    let target = Target::Door { inbox: Arc::downgrade(inbox), copy };
    let events = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    current()?.add(events, target).map(Watched)
}

/// What is being watched, until this is dropped or it has happened.
#[derive(Debug)]
pub struct Watched(u64);

impl Watched {
    /// Watches no longer. To be called only in the process that began to.
    pub fn end(&self) {
        if let Ok(watcher) = current() {
            watcher.remove(self.0);
        }
    }
}

/// Watches a descriptor until it is ready once; then the word is counted up and woken.
pub fn watch_descriptor(
    descriptor: BorrowedFd,
    events: EventFlags,
    tell: &Arc<Rung>,
) -> Result<Watched> {
    let failed = |cause: Errno| Error::os("watch", "a descriptor", cause);
    // A copy, since epoll knows a descriptor of one number only once.
    let copy = rustix::io::fcntl_dupfd_cloexec(descriptor, 3).map_err(failed)?;
    let target = Target::Descriptor { tell: tell.clone(), copy };
    current()?.add(events | EventFlags::ONESHOT, target).map(Watched)
}

impl Watcher {
    fn new() -> std::result::Result<Watcher, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let copy = rustix::io::fcntl_dupfd_cloexec(&epoll, 3)?;
        weir_sys::threads::start("weir-watcher", move || run(&copy)).map_err(|_| Errno::AGAIN)?;
        let epoll = ParentOnly::new(epoll).map_err(|_| Errno::NOMEM)?;
        let (targets, next) = (Mutex::new(HashMap::new()), AtomicU64::new(0));
        Ok(Watcher { epoll, targets, next })
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<u64, Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, events: EventFlags, target: Target) -> Result<u64> {
        let failed = |cause: Errno| Error::os("watch", "a descriptor", cause);
        // Relaxed: only to be different.
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        // Held until the target is in: the thread may be told of it at once.
        let mut targets = self.targets();
        let epoll = self.epoll.get().ok_or(Errno::BADF).map_err(failed)?;
        let data = EventData::new_u64(token);
        match &target {
            Target::Life(life) => {
                let life = life.upgrade().ok_or(Errno::BADF).map_err(failed)?;
                let socket = life.socket().ok_or(Errno::BADF).map_err(failed)?;
                epoll::add(epoll, socket, data, events).map_err(failed)?;
            }
            Target::Line(line) => {
                let line = line.upgrade().ok_or(Errno::BADF).map_err(failed)?;
                let socket = line.socket().ok_or(Errno::BADF).map_err(failed)?;
                epoll::add(epoll, socket, data, events).map_err(failed)?;
            }
            Target::Descriptor { copy, .. }
            | Target::Door { copy, .. }
            | Target::Process { pidfd: copy, .. } => {
                epoll::add(epoll, copy, data, events).map_err(failed)?;
            }
        }
        targets.insert(token, target);
        Ok(token)
    }

    fn remove(&self, token: u64) {
        let target = self.targets().remove(&token);
        // An end's socket leaves with its last descriptor; a copy's file may live on.
        if let Some(
            Target::Descriptor { copy, .. }
            | Target::Door { copy, .. }
            | Target::Process { pidfd: copy, .. },
        ) = target
        {
            self.release(&copy);
        }
    }

    /// Before a copy is closed: the file lives on, and epoll would go on knowing the number.
    fn release(&self, copy: &OwnedFd) {
        if let Some(epoll) = self.epoll.get() {
            let _ = epoll::delete(epoll, copy);
        }
    }

    fn on(&self, token: u64) {
        let mut targets = self.targets();
        if let Some(Target::Door { inbox, .. }) = targets.get(&token) {
            let inbox = inbox.upgrade();
            drop(targets);
            inbox.iter().for_each(|inbox| inbox.knock());
            return;
        }
        let target = targets.remove(&token);
        drop(targets);
        match target {
            Some(Target::Process { life, pidfd }) => {
                self.release(&pidfd);
                if let Some(life) = life.upgrade() {
                    life.on_death();
                }
            }
            Some(Target::Life(life)) => {
                if let Some(life) = life.upgrade() {
                    life.on_death();
                }
            }
            Some(Target::Line(line)) => line.upgrade().iter().for_each(|line| line.on_death()),
            Some(Target::Descriptor { tell, copy }) => {
                self.release(&copy);
                // Release pairs with the acquire of the wait: the descriptor is ready.
                tell.fetch_add(1, Ordering::Release);
                futex::wake(&tell, u32::MAX);
            }
            Some(Target::Door { .. }) | None => {}
        }
    }
}

fn run(epoll: &OwnedFd) {
    weir_sys::signals::block_all();
    let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 32];
    loop {
        let count = match epoll::wait(epoll, &mut events[..], None) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            // The descriptor is the thread's own: nothing else can fail.
            Err(_) => return,
        };
        let Ok(watcher) = current() else { return };
        for event in &events[..count] {
            watcher.on(event.data.u64());
        }
    }
}
