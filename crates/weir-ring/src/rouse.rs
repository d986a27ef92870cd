//! How news that lie in no ring reach one who sleeps on a word that others can write: the death of
//! a peer, somebody at the door.
//!
//! Teller and sleeper are threads of one process and share a [`Sleep`], which no other process can
//! touch. The teller notes the news, and wakes the sleeper if it said that it sleeps. One wake-up
//! may be too early: between the sleeper's last look and its sleep, whoever shares the word can set
//! it to what the sleeper expects. So the teller looks again later at all who may not have heard
//! ([`Rounds`]). It never waits for a sleeper: one that does not run holds up nobody else.

use crate::primitive::{AtomicU32, Ordering, fence};

/// The sleep of one, as the threads of its process see it.
#[derive(Debug, Default)]
pub struct Sleep {
    asleep: AtomicU32,
    news: AtomicU32,
}

impl Sleep {
    /// Says that it sleeps, or is about to. Whether it may: there is no news.
    #[inline]
    pub fn falls_asleep(&self) -> bool {
        // Relaxed: ordered by the fence, which pairs with the one in `note`. Either this sees the
        // news, or the teller sees that this sleeps.
        self.asleep.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.has_news()
    }

    /// It sleeps no more.
    #[inline]
    pub fn wakes_up(&self) {
        // Relaxed: a wake-up that comes late finds nobody asleep, which does no harm.
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// There is news. Who says so for somebody else wakes them next, if they are to be woken; who
    /// says so for itself is awake, and sees them before it sleeps.
    #[inline]
    pub fn note(&self) {
        // Release pairs with the acquire in `has_news`: what the news are about is seen.
        self.news.store(1, Ordering::Release);
        // Pairs with the fence in `falls_asleep`.
        fence(Ordering::SeqCst);
    }

    /// Whether there is news.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire) != 0
    }

    /// Takes the news: whether there were some.
    #[inline]
    pub fn take_news(&self) -> bool {
        self.has_news() && self.news.swap(0, Ordering::AcqRel) != 0
    }

    /// Whether it is to be woken: it sleeps, and has not taken the news. To be asked after
    /// [`Sleep::note`].
    #[inline]
    pub fn is_unheard(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) != 0 && self.has_news()
    }
}

/// What became of telling somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It knows, or is gone.
    Yes,
    /// It was woken, or could not be told just now: it is to be looked at again.
    Perhaps,
}

/// One who is told.
pub trait Rouse {
    /// Tells, and wakes if that is needed. Waits for nobody, and may be done again and again.
    fn rouse(&self) -> Heard;

    /// Notes whether it is among those to be looked at again: whether it was. For one who may be
    /// told again and again meanwhile.
    #[inline]
    fn follow(&self, on: bool) -> bool {
        let _ = on;
        false
    }
}

/// Those who were told and may not have heard.
#[derive(Debug)]
pub struct Rounds<T> {
    unheard: Vec<T>,
}

impl<T> Default for Rounds<T> {
    #[inline]
    fn default() -> Rounds<T> {
        Rounds { unheard: Vec::new() }
    }
}

impl<T: Rouse> Rounds<T> {
    /// Tells one. Whether it is new among those to be looked at again.
    #[inline]
    pub fn tell(&mut self, who: T) -> bool {
        let perhaps = who.rouse() == Heard::Perhaps && !who.follow(true);
        if perhaps {
            self.unheard.push(who);
        }
        perhaps
    }

    /// Looks again at all who may not have heard.
    #[inline]
    pub fn go(&mut self) {
        self.unheard.retain(|who| {
            let perhaps = who.rouse() == Heard::Perhaps;
            if !perhaps {
                who.follow(false);
            }
            perhaps
        });
    }

    /// Whether all have heard.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.unheard.is_empty()
    }
}
