//! What the one reader of many rings hears of besides their records: that one of its writers is
//! gone, that somebody knocks. The watcher tells it here, and wakes it.

use crate::memory::{LinkMap, Page};
use crate::park::futex;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use weir_ring::board::Board;
use weir_ring::lane::Side;
use weir_ring::lane::link::OwnerPage;
use weir_ring::layout::SleepLine;
use weir_ring::primitive::Ordering;
use weir_ring::rouse::{Heard, Rouse, Sleep};
use weir_ring::sleep;

/// Where a reader of many sleeps.
pub trait Bed: std::fmt::Debug + Send + Sync {
    /// Its sleep.
    fn sleep(&self) -> &SleepLine;
}

impl Bed for Page<Board> {
    fn sleep(&self) -> &SleepLine {
        &self.words().sleep
    }
}

/// Of the owner of an mpx.
impl Bed for Page<OwnerPage> {
    fn sleep(&self) -> &SleepLine {
        &self.words().board.sleep
    }
}

/// Of the peer of an mpx.
impl Bed for LinkMap {
    fn sleep(&self) -> &SleepLine {
        &self.board(Side::Peer).sleep
    }
}

/// Of one who shares no memory with those who come.
impl Bed for SleepLine {
    fn sleep(&self) -> &SleepLine {
        self
    }
}

/// News for one reader, which sleeps on its board.
#[derive(Debug)]
pub struct Inbox {
    bed: Arc<dyn Bed>,
    sleep: Sleep,
    knocked: AtomicBool,
    /// The watcher looks at it again.
    followed: AtomicBool,
    gone: Mutex<Vec<u32>>,
}

/// What there was to hear.
#[derive(Debug, Default)]
pub struct News {
    /// Whether somebody knocked.
    pub knocked: bool,
    /// Rings whose other end is gone.
    pub gone: Vec<u32>,
}

impl Inbox {
    /// Of the reader that sleeps there.
    pub fn new(bed: Arc<dyn Bed>) -> Arc<Inbox> {
        let (knocked, followed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (sleep, gone) = (Sleep::default(), Mutex::default());
        Arc::new(Inbox { bed, sleep, knocked, followed, gone })
    }

    /// Notes that the other end of a ring is gone. Said by the reader itself, which is awake.
    pub fn note_gone(&self, ring: u32) {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).push(ring);
        self.sleep.note();
    }

    /// The same, said by the watcher, which then rouses the reader, and does not wait for it: false
    /// where the reader is just taking its news.
    pub fn try_note_gone(&self, ring: u32) -> bool {
        match self.gone.try_lock() {
            Ok(mut gone) => gone.push(ring),
            Err(TryLockError::Poisoned(gone)) => gone.into_inner().push(ring),
            Err(TryLockError::WouldBlock) => return false,
        }
        self.sleep.note();
        true
    }

    /// Notes that somebody is at the door. The watcher rouses the reader afterwards; a reader that
    /// says so itself is awake.
    pub fn knock(&self) {
        // Release pairs with the acquire in `take`, by way of the news.
        self.knocked.store(true, Ordering::Release);
        self.sleep.note();
    }

    /// Whether there is news.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.sleep.has_news()
    }

    /// Takes the news.
    pub fn take(&self) -> News {
        if !self.sleep.take_news() {
            return News::default();
        }
        let gone = std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner));
        News { knocked: self.knocked.swap(false, Ordering::AcqRel), gone }
    }

    /// The reader is about to sleep. Whether it may: there is no news.
    pub fn falls_asleep(&self) -> bool {
        self.sleep.falls_asleep()
    }

    /// The reader sleeps no more.
    pub fn wakes_up(&self) {
        self.sleep.wakes_up();
    }
}

impl Rouse for Inbox {
    fn rouse(&self) -> Heard {
        if !self.sleep.is_unheard() {
            return Heard::Yes;
        }
        let word = &self.bed.sleep().word;
        sleep::take(word);
        futex::wake(word, u32::MAX);
        Heard::Perhaps
    }

    fn follow(&self, on: bool) -> bool {
        // Relaxed: only the watcher's thread uses it.
        self.followed.swap(on, Ordering::Relaxed)
    }
}
