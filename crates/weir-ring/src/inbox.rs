//! The news for one sleeper: which peers died, and whether somebody connects. The watcher of its
//! process puts news in. The sleeper takes them out, and sleeps only while there are none.

use crate::notify::{Delivery, Recipient};
use crate::primitive::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, fence};
use std::sync::{Arc, PoisonError, TryLockError};

/// One that sleeps on a word that other processes may write.
pub trait Sleeper: Send + Sync {
    /// Takes the sleeper's announcement, and wakes the sleeper.
    fn wake(&self);
}

/// The news for one sleeper.
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

/// News that a sleeper has taken.
#[derive(Debug, Default)]
pub struct News {
    /// Whether somebody may have connected.
    pub notified: bool,
    /// The numbers of peers that died.
    pub gone: Vec<u32>,
}

fn lock<T: ?Sized>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T: ?Sized>(what: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match what.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
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

    /// Changes where the sleeper sleeps. The sleeper calls this, so it is awake.
    #[inline]
    pub fn move_to(&self, sleeper: Arc<S>) {
        *lock(&self.sleeper) = sleeper;
    }

    /// Notes that somebody may have connected. The sleeper may call this for itself.
    #[inline]
    pub fn notify(&self) {
        // Release pairs with `take`, by way of the news.
        self.notified.store(true, Ordering::Release);
        self.note_news();
    }

    /// Notes that a peer died. Only the sleeper itself calls this.
    #[inline]
    pub fn note_death(&self, peer: u32) {
        lock(&self.gone).push(peer);
        self.note_news();
    }

    /// Notes that a peer died. For the watcher, which waits for nobody and wakes the sleeper
    /// afterwards. Returns false if the sleeper is just taking its news.
    #[inline]
    fn try_note_death(&self, peer: u32) -> bool {
        let Some(mut gone) = try_lock(&self.gone) else { return false };
        gone.push(peer);
        drop(gone);
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
        let gone = std::mem::take(&mut *lock(&self.gone));
        // AcqRel: pairs with the release in `notify`.
        News { notified: self.notified.swap(false, Ordering::AcqRel), gone }
    }

    /// Announces that the sleeper is about to sleep. Returns whether it may: there is no news.
    #[inline]
    pub fn falls_asleep(&self) -> bool {
        // Relaxed: ordered by the fence, which pairs with the one in `note_news`. Either this sees
        // the news, or the watcher sees that the sleeper sleeps.
        self.asleep.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.has_news()
    }

    /// Records that the sleeper is awake.
    #[inline]
    pub fn wakes_up(&self) {
        // Relaxed: a wake-up that comes late finds nobody asleep, which does no harm.
        self.asleep.store(0, Ordering::Relaxed);
    }
}

/// News that somebody connects.
impl<S: Sleeper + ?Sized> Recipient for Inbox<S> {
    #[inline]
    fn note(&self) {
        self.notify();
    }

    #[inline]
    fn wake(&self) -> Delivery {
        // Relaxed: ordered after the news by the fence in `note_news`.
        if self.asleep.load(Ordering::Relaxed) == 0 || !self.has_news() {
            return Delivery::Yes;
        }
        // If the sleeper moves just now, it is awake, or the watcher looks at it again.
        let sleeper = try_lock(&self.sleeper).map(|sleeper| sleeper.clone());
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        Delivery::Perhaps
    }

    #[inline]
    fn follow(&self, on: bool) -> bool {
        // Relaxed: only the watcher's thread uses it.
        self.followed.swap(on, Ordering::Relaxed)
    }
}

/// Whether one peer of a sleeper lives; also the news that it died.
#[derive(Debug)]
pub struct Fate<S: ?Sized> {
    inbox: Arc<Inbox<S>>,
    /// The peer's number at the sleeper.
    peer: u32,
    is_dead: AtomicBool,
    /// The watcher has put it into the inbox.
    is_said: AtomicBool,
}

impl<S: Sleeper + ?Sized> Fate<S> {
    /// Makes the fate of a peer that lives as far as is known.
    #[inline]
    pub fn new(inbox: Arc<Inbox<S>>, peer: u32) -> Fate<S> {
        Fate { inbox, peer, is_dead: AtomicBool::new(false), is_said: AtomicBool::new(false) }
    }

    /// Returns the inbox that hears of the death.
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

    /// Declares the peer dead. Only the sleeper itself calls this.
    #[inline]
    pub fn give_up(&self) {
        self.note();
        self.inbox.note_death(self.peer);
    }
}

/// News that the peer died.
impl<S: Sleeper + ?Sized> Recipient for Fate<S> {
    #[inline]
    fn note(&self) {
        // Release pairs with the acquire in `is_dead`; the inbox orders the rest.
        self.is_dead.store(true, Ordering::Release);
    }

    #[inline]
    fn wake(&self) -> Delivery {
        // Relaxed: only the watcher's thread uses it.
        if !self.is_said.load(Ordering::Relaxed) {
            if !self.inbox.try_note_death(self.peer) {
                return Delivery::Perhaps;
            }
            self.is_said.store(true, Ordering::Relaxed);
        }
        self.inbox.wake()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Nobody;

    impl Sleeper for Nobody {
        fn wake(&self) {}
    }

    /// No model can show this: loom does not try a lock while another thread holds it.
    #[test]
    fn a_death_that_finds_the_sleeper_taking_its_news_is_told_once_afterwards() {
        let inbox = Inbox::new(Arc::new(Nobody));
        let peer = Fate::new(inbox.clone(), 7);
        let taking = inbox.gone.lock().expect("no panic");
        peer.note();
        assert_eq!(peer.wake(), Delivery::Perhaps, "it is looked at again");
        drop(taking);
        assert!(peer.is_dead() && !inbox.has_news());
        assert_eq!((peer.wake(), peer.wake()), (Delivery::Yes, Delivery::Yes));
        assert_eq!(inbox.take().gone, [7]);
    }
}
