//! How an end of a backlog waits, asleep or in poll, for what other threads do.

use crate::error::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Where one end waits.
#[derive(Debug, Default)]
pub struct Wake {
    waits: AtomicBool,
    condition: Condvar,
    bell: OnceLock<OwnedFd>,
}

impl Wake {
    /// Says that the end waits. The caller, who holds the lock, looks once more then.
    pub fn arm(&self) {
        if let Some(bell) = self.bell.get() {
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        // SeqCst: with `is_wanted`, either the other end sees this, or the look that follows sees
        // what the other end did.
        self.waits.store(true, Ordering::SeqCst);
    }

    /// Whether the end waits. To be asked after what it waits for was done.
    pub fn is_wanted(&self) -> bool {
        // SeqCst: as in `arm`.
        self.waits.load(Ordering::SeqCst)
    }

    /// Wakes the end if it waits. The caller holds the lock.
    pub fn wake(&self) {
        // SeqCst: as in `arm`.
        if self.waits.swap(false, Ordering::SeqCst) {
            self.condition.notify_all();
            if let Some(bell) = self.bell.get() {
                let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
            }
        }
    }

    /// Sleeps until it is woken, or until then: whether there is time left.
    pub fn sleep<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        until: Option<Instant>,
    ) -> (MutexGuard<'a, T>, bool) {
        let Some(until) = until else {
            return (self.condition.wait(guard).unwrap_or_else(PoisonError::into_inner), true);
        };
        let left = until.saturating_duration_since(Instant::now());
        let woken = self.condition.wait_timeout(guard, left);
        let (guard, _) = woken.unwrap_or_else(PoisonError::into_inner);
        (guard, Instant::now() < until)
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
