//! A sleep that another thread of this process ends, parked or in poll, by the protocol of
//! [`weir_ring::sleep`].

use super::parked::Slept;
use super::{Until, futex};
use crate::error::{Error, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use weir_ring::sleep;
use weir_sys::bell;

/// What one thread sleeps on until another thread of this process wakes it.
#[derive(Debug, Default)]
pub struct LocalSleep {
    word: AtomicU32,
    bell: OnceLock<OwnedFd>,
    /// A bell that many sleepers share. Whoever waits there clears it.
    shared_bell: OnceLock<Arc<OwnedFd>>,
}

impl LocalSleep {
    /// Announces the sleep. The caller then looks once more.
    pub fn announce(&self) {
        bell::clear(self.bell.get().map(AsFd::as_fd));
        sleep::announce(&self.word, sleep::ASLEEP);
    }

    /// Wakes the sleeper, if there is one. The caller has already done what the sleeper waits for.
    #[inline]
    pub fn wake(&self) {
        if sleep::is_wanted(&self.word) {
            self.wake_now();
        }
    }

    #[cold]
    fn wake_now(&self) {
        if sleep::take(&self.word) != 0 {
            futex::wake(&self.word, u32::MAX);
            bell::ring(self.bell.get().map(AsFd::as_fd));
            bell::ring(self.shared_bell.get().map(AsFd::as_fd));
        }
    }

    /// Sleeps until somebody wakes it or the time is over. To be called after
    /// [`LocalSleep::announce`].
    pub fn sleep(&self, until: Until) -> Slept {
        let (begun, words) = (Instant::now(), [self.asleep()]);
        loop {
            let slept = Slept::since(begun, &words);
            if slept.woken || until.is_over() {
                return slept;
            }
            futex::wait(&self.word, sleep::ASLEEP, until.left());
        }
    }

    /// The word to sleep on, and its value during the sleep.
    pub fn asleep(&self) -> (&AtomicU32, u32) {
        (&self.word, sleep::ASLEEP)
    }

    /// Rings this bell as well whenever the sleeper is woken.
    pub fn ring_also(&self, bell: Arc<OwnedFd>) {
        let _ = self.shared_bell.set(bell);
    }

    /// A descriptor that is readable at first, and whenever the sleeper was woken.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        if self.bell.get().is_none() {
            let _ = self.bell.set(bell::make(1).map_err(failed)?);
        }
        self.bell.get().map(AsFd::as_fd).ok_or_else(|| failed(Errno::BADF))
    }
}
