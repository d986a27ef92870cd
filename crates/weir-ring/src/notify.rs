//! How one thread of a process tells others news that is in no ring: a peer died, or somebody
//! connects.
//!
//! A sleeper sleeps on a word that other processes can write, so one wake-up may come too early:
//! between the sleeper's last look and its sleep, another process can set the word to what the
//! sleeper expects. So the teller notes the news where no other process can write
//! ([`super::inbox`]), wakes the sleeper, and later looks again at all that may not have heard
//! ([`Rounds`]). It never waits for a sleeper, so one that does not run delays no other.

use std::sync::Weak;

/// The result of telling one recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It knows, or no longer exists.
    Yes,
    /// It was woken, or could not be told just now: the teller looks at it again.
    Perhaps,
}

/// One that is told news. No method waits for anybody, and each may be called any number of times.
pub trait Recipient: Send + Sync {
    /// Notes that the news has come.
    fn note(&self);

    /// Wakes the one that is to hear it, if it sleeps.
    fn wake(&self) -> Delivery;

    /// Sets whether [`Rounds`] looks at it again, and returns the former value. Only a recipient
    /// that can be told again meanwhile needs this.
    #[inline]
    fn follow(&self, on: bool) -> bool {
        let _ = on;
        false
    }
}

/// A recipient that may no longer exist.
impl<T: Recipient + ?Sized> Recipient for Weak<T> {
    #[inline]
    fn note(&self) {
        if let Some(who) = self.upgrade() {
            who.note();
        }
    }

    #[inline]
    fn wake(&self) -> Delivery {
        self.upgrade().map_or(Delivery::Yes, |who| who.wake())
    }

    #[inline]
    fn follow(&self, on: bool) -> bool {
        self.upgrade().is_some_and(|who| who.follow(on))
    }
}

/// The recipients that were told and may not have heard.
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

impl<T: Recipient> Rounds<T> {
    /// Tells one. Returns whether the rounds have to look at it again and did not before.
    #[inline]
    pub fn notify(&mut self, who: T) -> bool {
        who.note();
        let is_new = who.wake() == Delivery::Perhaps && !who.follow(true);
        if is_new {
            self.unheard.push(who);
        }
        is_new
    }

    /// Looks again at all that may not have heard.
    #[inline]
    pub fn go(&mut self) {
        self.unheard.retain(|who| {
            let perhaps = who.wake() == Delivery::Perhaps;
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
