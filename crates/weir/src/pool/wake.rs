//! How an end of a backlog waits, asleep or in poll, for what other threads do.

use crate::error::{Error, Result};
use crate::park::{Until, futex};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The word while the end waits.
const WAITS: u32 = 1;

/// Where one end waits.
#[derive(Debug, Default)]
pub struct Wake {
    word: AtomicU32,
    bell: OnceLock<OwnedFd>,
}

impl Wake {
    /// Says that the end waits. The caller looks once more then.
    pub fn arm(&self) {
        if let Some(bell) = self.bell.get() {
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        // SeqCst: with `wake`, either the other end sees this, or the look that follows sees what
        // the other end did.
        self.word.store(WAITS, Ordering::SeqCst);
    }

    /// Wakes the end if it waits, after what it waits for was done.
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
            if let Some(bell) = self.bell.get() {
                let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
            }
        }
    }

    /// Sleeps from [`Wake::arm`] until it is woken: whether it was, before the time was over.
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

    /// A descriptor that is readable once the end was woken, and at first.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        if self.bell.get().is_none() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let _ = self.bell.set(eventfd(1, flags).map_err(failed)?);
        }
        self.bell.get().map(AsFd::as_fd).ok_or_else(|| failed(Errno::BADF))
    }
}
