//! The one thread of a process that sees peers die, and descriptors become ready for a wait.
//!
//! A futex cannot see death. The thread is started with the first end, sleeps in epoll, and costs
//! nothing else. It waits for no end: it tells what has happened, and looks again a little later at
//! those who may not have heard ([`weir_ring::rouse`]). The one lock it takes guards a table, and
//! is held for a look into it, never over a system call.
//! A forked child starts its own: what the parent's thread held (locks too) is left
//! alone, since each process of a line of forks has a link of its own in the chain below.

use crate::connect::closing::Closers;
use crate::connect::inbox::Inbox;
use crate::connect::lifeline::Life;
use crate::error::{Error, Result};
use crate::memory::errno_of;
use crate::mpx::Line;
use crate::park::futex;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use weir_ring::rouse::{Heard, Rounds, Rouse};
use weir_sys::forks::{self, ParentOnly};

/// Events taken from the kernel in one go.
const MOST_EVENTS: usize = 256;
/// How long until those who may not have heard are looked at again, at first and in the end.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// What a wait sleeps on while the watcher looks after its descriptors: how often one became ready.
pub type Rung = AtomicU32;

enum Target {
    /// The socket of an end.
    Life(Weak<Life>),
    /// The socket of a link.
    Line(Weak<Line>),
    /// The process at the other end of it, readable once it has died.
    Process { life: Weak<Life>, pidfd: ParentOnly },
    /// A descriptor of a wait, which ends the watching, and whom to tell; it is closed with the
    /// target.
    Descriptor { tell: Arc<Rung>, copy: ParentOnly },
    /// A descriptor where somebody comes, again and again, and who is told each time.
    Door { inbox: Weak<Inbox>, copy: ParentOnly },
}

struct Watcher {
    epoll: ParentOnly,
    targets: Mutex<HashMap<u64, Arc<Target>>>,
    next: AtomicU64,
    closers: Arc<Closers>,
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
    let pidfd = ParentOnly::new(pidfd).map_err(|cause| Error::os("watch", "a process", cause))?;
    let target = Target::Process { life: Arc::downgrade(life), pidfd };
    current()?.add(EventFlags::IN | EventFlags::ONESHOT, target).map(Watched)
}

/// Watches a descriptor at which somebody comes, or goes, each time.
pub fn watch_knocks(descriptor: BorrowedFd, inbox: &Arc<Inbox>) -> Result<Watched> {
    let copy = copy_of(descriptor)?;
    let target = Target::Door { inbox: Arc::downgrade(inbox), copy };
    let events = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    current()?.add(events, target).map(Watched)
}

/// Has a descriptor closed by a thread for which nobody waits.
pub fn put_away(descriptor: ParentOnly) {
    // Without a watcher there is no end, and no stranger who has sent it.
    if let Ok(watcher) = current() {
        watcher.closers.take(descriptor);
    }
}

/// Whether so many descriptors wait to be closed that nobody new is to be let in.
pub fn is_closing_held_up() -> bool {
    current().is_ok_and(|watcher| watcher.closers.are_held_up())
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
    let copy = copy_of(descriptor)?;
    let target = Target::Descriptor { tell: tell.clone(), copy };
    current()?.add(events | EventFlags::ONESHOT, target).map(Watched)
}

/// A copy, since epoll knows a descriptor of one number only once. No forked child has it.
fn copy_of(descriptor: BorrowedFd) -> Result<ParentOnly> {
    let copy = || rustix::io::fcntl_dupfd_cloexec(descriptor, 3).map_err(std::io::Error::from);
    ParentOnly::make(copy).map_err(|cause| Error::os("watch", "a descriptor", cause))
}

impl Watcher {
    fn new() -> std::result::Result<Watcher, Errno> {
        let make = || epoll::create(CreateFlags::CLOEXEC).map_err(std::io::Error::from);
        let epoll = ParentOnly::make(make).map_err(|cause| errno_of(&cause))?;
        let copy = copy_of(epoll.here()?).map_err(|_| Errno::MFILE)?;
        weir_sys::threads::start("weir-watcher", move || run(&copy)).map_err(|_| Errno::AGAIN)?;
        let (targets, next) = (Mutex::new(HashMap::new()), AtomicU64::new(0));
        Ok(Watcher { epoll, targets, next, closers: Arc::default() })
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<u64, Arc<Target>>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, events: EventFlags, target: Target) -> Result<u64> {
        // Relaxed: only to be different.
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let target = Arc::new(target);
        // First, since the thread may be told of it at once.
        self.targets().insert(token, target.clone());
        let added = self.register(events, &target, token);
        if let Err(cause) = added {
            self.targets().remove(&token);
            return Err(Error::os("watch", "a descriptor", cause));
        }
        Ok(token)
    }

    fn register(
        &self,
        events: EventFlags,
        target: &Target,
        token: u64,
    ) -> std::result::Result<(), Errno> {
        let epoll = self.epoll.get().ok_or(Errno::BADF)?;
        let data = EventData::new_u64(token);
        match target {
            Target::Life(life) => {
                let life = life.upgrade().ok_or(Errno::BADF)?;
                epoll::add(epoll, life.socket().ok_or(Errno::BADF)?, data, events)
            }
            Target::Line(line) => {
                let line = line.upgrade().ok_or(Errno::BADF)?;
                epoll::add(epoll, line.socket().ok_or(Errno::BADF)?, data, events)
            }
            Target::Descriptor { copy, .. }
            | Target::Door { copy, .. }
            | Target::Process { pidfd: copy, .. } => {
                copy.here().and_then(|copy| epoll::add(epoll, copy, data, events))
            }
        }
    }

    fn remove(&self, token: u64) {
        let target = self.targets().remove(&token);
        // An end's socket leaves with its last descriptor; a copy's file may live on.
        if let Some(
            Target::Descriptor { copy, .. }
            | Target::Door { copy, .. }
            | Target::Process { pidfd: copy, .. },
        ) = target.as_deref()
        {
            self.release(copy);
        }
    }

    /// Before a copy is closed: the file lives on, and epoll would go on knowing the number.
    fn release(&self, copy: &ParentOnly) {
        if let Some(epoll) = self.epoll.get() {
            let _ = copy.here().and_then(|copy| epoll::delete(epoll, copy));
        }
    }

    /// Something has happened: who is to be told of it.
    fn on(&self, token: u64) -> Option<Told> {
        let target = self.targets().get(&token)?.clone();
        match &*target {
            Target::Door { inbox, .. } => {
                inbox.upgrade()?.knock();
                Some(Told::Inbox(inbox.clone()))
            }
            Target::Descriptor { tell, .. } => {
                // Release pairs with the acquire of the wait: the descriptor is ready.
                tell.fetch_add(1, Ordering::Release);
                futex::wake(tell, u32::MAX);
                None
            }
            Target::Process { life, .. } | Target::Life(life) => {
                self.remove(token);
                life.upgrade()?.dies();
                Some(Told::Life(life.clone()))
            }
            Target::Line(line) => {
                self.remove(token);
                line.upgrade()?.dies();
                Some(Told::Line(line.clone()))
            }
        }
    }
}

/// One who was told.
enum Told {
    Life(Weak<Life>),
    Line(Weak<Line>),
    Inbox(Weak<Inbox>),
}

impl Rouse for Told {
    fn rouse(&self) -> Heard {
        match self {
            Told::Life(life) => life.upgrade().map_or(Heard::Yes, |life| life.rouse()),
            Told::Line(line) => line.upgrade().map_or(Heard::Yes, |line| line.rouse()),
            Told::Inbox(inbox) => inbox.upgrade().map_or(Heard::Yes, |inbox| inbox.rouse()),
        }
    }

    fn follow(&self, on: bool) -> bool {
        match self {
            Told::Inbox(inbox) => inbox.upgrade().is_some_and(|inbox| inbox.follow(on)),
            // The other end of one dies once.
            Told::Life(_) | Told::Line(_) => false,
        }
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
            if let Some(told) = watcher.on(event.data.u64()) {
                is_new |= rounds.tell(told);
            }
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
