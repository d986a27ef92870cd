//! The news of one sleeper: which peers are gone, and whether somebody connects. Its process's
//! watcher puts them in; the sleeper takes them out, and sleeps only while there are none.

use crate::notify::{Heard, Observer};
use crate::primitive::{AtomicBool, AtomicU32, Mutex, Ordering, fence};
use std::sync::{Arc, PoisonError, TryLockError};

/// One who sleeps on a word that other processes may write.
pub trait Sleeper: Send + Sync {
    /// Takes what the sleeper said of its sleep, and wakes it.
    fn wake(&self);
}

/// News for one sleeper.
#[derive(Debug)]
pub struct Inbox<S: ?Sized> {
    asleep: AtomicU32,
    has_news: AtomicU32,
    notified: AtomicBool,
    /// The watcher looks at it again.
    followed: AtomicBool,
    gone: Mutex<Vec<u32>>,
    sleeper: Mutex<Arc<S>>,
}

/// What there was to hear.
#[derive(Debug, Default)]
pub struct News {
    /// Whether somebody may have connected.
    pub notified: bool,
    /// The numbers of peers that are gone.
    pub gone: Vec<u32>,
}

impl<S: Sleeper + ?Sized> Inbox<S> {
    /// Makes the inbox of a sleeper.
    #[inline]
    pub fn new(sleeper: Arc<S>) -> Arc<Inbox<S>> {
        Arc::new(Inbox {
            asleep: AtomicU32::new(0),
            has_news: AtomicU32::new(0),
            notified: AtomicBool::new(false),
            followed: AtomicBool::new(false),
            gone: Mutex::new(Vec::new()),
            sleeper: Mutex::new(sleeper),
        })
    }

    /// Changes where the sleeper sleeps. It is awake.
    #[inline]
    pub fn move_to(&self, sleeper: Arc<S>) {
        *self.sleeper.lock().unwrap_or_else(PoisonError::into_inner) = sleeper;
    }

    /// Notes that somebody may have connected. The sleeper may do so for itself: it is awake.
    #[inline]
    pub fn notify(&self) {
        // Release pairs with `take`, by way of the news.
        self.notified.store(true, Ordering::Release);
        self.note_news();
    }

    /// Notes that a peer is gone. For the sleeper itself, which is awake.
    #[inline]
    pub fn note_gone(&self, peer: u32) {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).push(peer);
        self.note_news();
    }

    /// Notes that a peer is gone. For the watcher, which waits for nobody, and wakes the sleeper
    /// afterwards. False where the sleeper is just taking its news.
    #[inline]
    fn try_note_gone(&self, peer: u32) -> bool {
        match self.gone.try_lock() {
            Ok(mut gone) => gone.push(peer),
            Err(TryLockError::Poisoned(gone)) => gone.into_inner().push(peer),
            Err(TryLockError::WouldBlock) => return false,
        }
        self.note_news();
        true
    }

    #[inline]
    fn note_news(&self) {
        // Release pairs with the acquire in `has_news`: what the news are about is seen.
        self.has_news.store(1, Ordering::Release);
        // Pairs with the fence in `falls_asleep`.
        fence(Ordering::SeqCst);
    }

    /// Whether there is news.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Acquire) != 0
    }

    /// Takes the news.
    #[inline]
    pub fn take(&self) -> News {
        // AcqRel: pairs with the release in `note_news`.
        if !self.has_news() || self.has_news.swap(0, Ordering::AcqRel) == 0 {
            return News::default();
        }
        let gone = std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner));
        // AcqRel: pairs with the release in `notify`.
        News { notified: self.notified.swap(false, Ordering::AcqRel), gone }
    }

    /// Says that the sleeper is about to sleep. Returns whether it may: there is no news.
    #[inline]
    pub fn falls_asleep(&self) -> bool {
        // Relaxed: ordered by the fence, which pairs with the one in `note_news`. Either this sees
        // the news, or the watcher sees that the sleeper sleeps.
        self.asleep.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.has_news()
    }

    /// Says that the sleeper is awake.
    #[inline]
    pub fn wakes_up(&self) {
        // Relaxed: a wake-up that comes late finds nobody asleep, which does no harm.
        self.asleep.store(0, Ordering::Relaxed);
    }
}

/// Somebody connects.
impl<S: Sleeper + ?Sized> Observer for Inbox<S> {
    #[inline]
    fn note(&self) {
        self.notify();
    }

    #[inline]
    fn wake(&self) -> Heard {
        // Relaxed: ordered after the news by the fence in `note_news`.
        if self.asleep.load(Ordering::Relaxed) == 0 || !self.has_news() {
            return Heard::Yes;
        }
        // Where the sleeper moves just now, it is awake, or will be looked at again.
        let sleeper = match self.sleeper.try_lock() {
            Ok(sleeper) => sleeper.clone(),
            Err(TryLockError::Poisoned(sleeper)) => sleeper.into_inner().clone(),
            Err(TryLockError::WouldBlock) => return Heard::Perhaps,
        };
        sleeper.wake();
        Heard::Perhaps
    }

    #[inline]
    fn follow(&self, on: bool) -> bool {
        // Relaxed: only the watcher's thread uses it.
        self.followed.swap(on, Ordering::Relaxed)
    }
}

/// Whether one peer of a sleeper lives.
#[derive(Debug)]
pub struct Fate<S: ?Sized> {
    inbox: Arc<Inbox<S>>,
    /// The peer's number with the sleeper.
    peer: u32,
    is_dead: AtomicBool,
    /// The watcher has put it into the inbox.
    is_said: AtomicBool,
}

impl<S: Sleeper + ?Sized> Fate<S> {
    /// Of a peer that lives as far as is known.
    #[inline]
    pub fn new(inbox: Arc<Inbox<S>>, peer: u32) -> Fate<S> {
        Fate { inbox, peer, is_dead: AtomicBool::new(false), is_said: AtomicBool::new(false) }
    }

    /// The inbox that hears of it.
    #[inline]
    pub fn inbox(&self) -> &Inbox<S> {
        &self.inbox
    }

    /// Whether the peer is known to be dead.
    #[inline]
    pub fn is_dead(&self) -> bool {
        // Acquire pairs with the release in `note`.
        self.is_dead.load(Ordering::Acquire)
    }

    /// The sleeper itself, which is awake, takes the peer for dead.
    #[inline]
    pub fn give_up(&self) {
        self.note();
        self.inbox.note_gone(self.peer);
    }
}

/// The peer is dead.
impl<S: Sleeper + ?Sized> Observer for Fate<S> {
    #[inline]
    fn note(&self) {
        // Release pairs with the acquire in `is_dead`; the inbox orders the rest.
        self.is_dead.store(true, Ordering::Release);
    }

    #[inline]
    fn wake(&self) -> Heard {
        // Relaxed: only the watcher's thread uses it.
        if !self.is_said.load(Ordering::Relaxed) {
            if !self.inbox.try_note_gone(self.peer) {
                return Heard::Perhaps;
            }
            self.is_said.store(true, Ordering::Relaxed);
        }
        self.inbox.wake()
    }
}
