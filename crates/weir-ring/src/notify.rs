//! How one thread of a process tells others news that lie in no ring: the death of a peer, somebody
//! who connects.
//!
//! A sleeper sleeps on a word that other processes can write, so one wake-up may be too early:
//! between the sleeper's last look and its sleep, another process can set the word to what the
//! sleeper expects. The teller therefore notes the news where no other process can write
//! ([`super::inbox`]), wakes, and looks again later at all who may not have heard ([`Rounds`]). It
//! never waits for a sleeper: one that does not run holds up nobody else.

use std::sync::Weak;

/// What became of telling somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It knows, or is gone.
    Yes,
    /// It was woken, or could not be told just now: it is to be looked at again.
    Perhaps,
}

/// One who is told. No method waits for anybody, and each may be called again and again.
pub trait Observer: Send + Sync {
    /// Notes that it has happened.
    fn note(&self);

    /// Wakes whoever is to hear of it, if that is needed.
    fn wake(&self) -> Heard;

    /// Sets whether [`Rounds`] looks at it again, and returns what was set before. Needed only by
    /// one that can be told again meanwhile.
    #[inline]
    fn follow(&self, on: bool) -> bool {
        let _ = on;
        false
    }
}

/// One who may be gone.
impl<T: Observer + ?Sized> Observer for Weak<T> {
    #[inline]
    fn note(&self) {
        if let Some(who) = self.upgrade() {
            who.note();
        }
    }

    #[inline]
    fn wake(&self) -> Heard {
        self.upgrade().map_or(Heard::Yes, |who| who.wake())
    }

    #[inline]
    fn follow(&self, on: bool) -> bool {
        self.upgrade().is_some_and(|who| who.follow(on))
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

impl<T: Observer> Rounds<T> {
    /// Tells one. Returns whether it is new among those to be looked at again.
    #[inline]
    pub fn tell(&mut self, who: T) -> bool {
        who.note();
        let is_new = who.wake() == Heard::Perhaps && !who.follow(true);
        if is_new {
            self.unheard.push(who);
        }
        is_new
    }

    /// Looks again at all who may not have heard.
    #[inline]
    pub fn go(&mut self) {
        self.unheard.retain(|who| {
            let perhaps = who.wake() == Heard::Perhaps;
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
