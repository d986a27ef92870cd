//! What the one reader of many rings hears of besides their records: that one of its writers is
//! gone, that somebody knocks. The watcher tells it here, and wakes it.

use crate::futex;
use crate::map::{LinkMap, Page};
use crate::primitive::Ordering;
use crate::ring::board::Board;
use crate::ring::lane::Side;
use crate::ring::layout::NapLine;
use crate::ring::nap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where a reader of many sleeps.
pub trait Bed: std::fmt::Debug + Send + Sync {
    /// Its sleep.
    fn nap(&self) -> &NapLine;
}

impl Bed for Page<Board> {
    fn nap(&self) -> &NapLine {
        &self.words().nap
    }
}

/// Of the peer of an mpx.
impl Bed for LinkMap {
    fn nap(&self) -> &NapLine {
        &self.board(Side::Peer).nap
    }
}

/// News for one reader, which sleeps on its board.
#[derive(Debug)]
pub struct Inbox {
    bed: Arc<dyn Bed>,
    asleep: AtomicBool,
    news: AtomicBool,
    knocked: AtomicBool,
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
        let (asleep, news, knocked) =
            (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Inbox { bed, asleep, news, knocked, gone: Mutex::default() })
    }

    /// The other end of a ring is gone.
    pub fn tell_gone(&self, ring: u32) {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).push(ring);
        self.rouse();
    }

    /// Somebody is at the door.
    pub fn knock(&self) {
        // Release pairs with the acquire in `take`, by way of `news`.
        self.knocked.store(true, Ordering::Release);
        self.rouse();
    }

    /// As if somebody had knocked, said by the reader itself, which is awake.
    pub fn knock_softly(&self) {
        self.knocked.store(true, Ordering::Release);
        self.news.store(true, Ordering::Release);
    }

    fn rouse(&self) {
        // SeqCst here and in `falls_asleep`: either the reader sees the news before it sleeps, or
        // it is seen asleep below.
        self.news.store(true, Ordering::SeqCst);
        let word = &self.bed.nap().word;
        // Again and again, since who shares the board can set the word to what the reader expects.
        while self.asleep.load(Ordering::SeqCst) && self.news.load(Ordering::SeqCst) {
            nap::take(word);
            futex::wake(word, u32::MAX);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether there is news.
    #[inline]
    pub fn has_news(&self) -> bool {
        // Acquire pairs with the store in `rouse`: what it is about is seen.
        self.news.load(Ordering::Acquire)
    }

    /// Takes the news.
    pub fn take(&self) -> News {
        if !self.news.swap(false, Ordering::AcqRel) {
            return News::default();
        }
        let gone = std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner));
        News { knocked: self.knocked.swap(false, Ordering::AcqRel), gone }
    }

    /// The reader is about to sleep. Whether it may: there is no news.
    pub fn falls_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        !self.news.load(Ordering::SeqCst)
    }

    /// The reader sleeps no more.
    pub fn wakes_up(&self) {
        // Release: a watcher that still wakes stops.
        self.asleep.store(false, Ordering::Release);
    }
}
