//! How an end of a backlog waits for other threads, parked or in poll.

use crate::error::{Error, Result};
use crate::park::{Until, futex};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use weir_sys::bell;

/// The value of the word while the end waits.
pub const WAITS: u32 = 1;

/// The place where one end waits.
#[derive(Debug, Default)]
pub struct Wake {
    word: AtomicU32,
    bell: OnceLock<OwnedFd>,
    /// A bell that many ends share. Whoever waits there clears it.
    shared_bell: OnceLock<Arc<OwnedFd>>,
}

impl Wake {
    /// Announces that the end waits. The caller then looks once more.
    pub fn arm(&self) {
        bell::clear(self.bell.get().map(AsFd::as_fd));
        // SeqCst: pairs with `wake`. Either the other end sees this, or the look that follows sees
        // what the other end did.
        self.word.store(WAITS, Ordering::SeqCst);
    }

    /// Wakes the end if it waits. The caller has already done what the end waits for.
    #[inline]
    pub fn wake(&self) {
        // SeqCst: as in `arm`.
        if self.word.load(Ordering::SeqCst) == WAITS {
            self.wake_now();
        }
    }

    #[cold]
    fn wake_now(&self) {
        // SeqCst: as in `arm`.
        if self.word.swap(0, Ordering::SeqCst) == WAITS {
            futex::wake(&self.word, u32::MAX);
            bell::ring(self.bell.get().map(AsFd::as_fd));
            bell::ring(self.shared_bell.get().map(AsFd::as_fd));
        }
    }

    /// Sleeps until somebody wakes it: whether that was before the time was over. To be called
    /// after [`Wake::arm`].
    pub fn wait(&self, until: Until) -> bool {
        // SeqCst: as in `arm`.
        while self.word.load(Ordering::SeqCst) == WAITS {
            if until.is_over() {
                return false;
            }
            futex::wait(&self.word, WAITS, until.left());
        }
        true
    }

    /// Rings this bell as well whenever the end is woken.
    pub fn ring_also(&self, bell: Arc<OwnedFd>) {
        let _ = self.shared_bell.set(bell);
    }

    /// The word to sleep on while it is [`WAITS`], after [`Wake::arm`].
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// A descriptor that is readable at first, and whenever the end was woken.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        if self.bell.get().is_none() {
            let _ = self.bell.set(bell::make(1).map_err(failed)?);
        }
        self.bell.get().map(AsFd::as_fd).ok_or_else(|| failed(Errno::BADF))
    }
}
