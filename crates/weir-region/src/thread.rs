//! A thread that works for a region, and how it is told to look again or to end.

use rustix::fd::BorrowedFd;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir::{Error, Result};
use weir_sys::bell;
use weir_sys::forks::ParentOnly;
use weir_sys::threads::OwnedThread;

/// What a region shares with its thread, and the thread. Dropping it ends the thread.
#[derive(Debug)]
pub struct RegionThread<S> {
    both: Arc<(S, Kick)>,
    thread: OwnedThread,
}

/// What the thread waits for beside its work.
#[derive(Debug)]
pub struct Kick {
    bell: ParentOnly,
    stops: AtomicBool,
}

impl Kick {
    /// Whether the thread must end.
    pub fn stops(&self) -> bool {
        // Acquire: pairs with the Release in `RegionThread::end`.
        self.stops.load(Ordering::Acquire)
    }

    /// The bell. It rings when the thread must end, or look again.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell.get()
    }
}

impl<S: Send + Sync + 'static> RegionThread<S> {
    /// Starts the thread, which gets no signals.
    pub fn start(name: &str, shared: S, body: fn(&S, &Kick)) -> Result<RegionThread<S>> {
        let bell = bell::make_own().map_err(|cause| Error::os("make", "a region", cause))?;
        let both = Arc::new((shared, Kick { bell, stops: AtomicBool::new(false) }));
        let worked = Arc::clone(&both);
        let work = move || {
            weir_sys::signals::block_all();
            body(&worked.0, &worked.1);
        };
        let thread = OwnedThread::start(name, work)
            .map_err(|cause| Error::os("start", "the thread of a region", cause))?;
        Ok(RegionThread { both, thread })
    }
}

impl<S> RegionThread<S> {
    /// Makes the thread look again.
    pub fn kick(&self) {
        bell::ring(self.both.1.bell());
    }

    pub fn end(&mut self) {
        let RegionThread { both, thread } = self;
        thread.end(|| {
            // Release: pairs with the Acquire in `Kick::stops`.
            both.1.stops.store(true, Ordering::Release);
            bell::ring(both.1.bell());
        });
    }
}

impl<S> Deref for RegionThread<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.both.0
    }
}

impl<S> Drop for RegionThread<S> {
    fn drop(&mut self) {
        self.end();
    }
}
