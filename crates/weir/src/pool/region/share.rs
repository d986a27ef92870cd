//! A region's share of a pool's memory.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{FrameWriter, page_bytes};
use crate::pool::Pool;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_policy::paging::{LEAST_FRAMES, PagingCounts};

/// How long a new region waits until others have given it the least that it needs.
const JOINS_WITHIN: Duration = Duration::from_secs(10);
/// A region that is out waits at most this long, whatever becomes of the thread that lets it in.
const MOST_OUT: Duration = Duration::from_secs(30);
const LOOKS_AGAIN: Duration = Duration::from_millis(50);

/// What a pool knows of a region without its lock.
#[derive(Debug, Default)]
pub(in crate::pool) struct ShareState {
    // All are numbers, and flags that are looked at again: Relaxed does for them.
    pub pages: AtomicU32,
    pub faults: AtomicU64,
    pub again: AtomicU64,
    pub waited_ns: AtomicU64,
    /// It faults, and would take more memory.
    pub wants: AtomicBool,
    /// How often it went out.
    pub swapped: AtomicU64,
    is_out: AtomicBool,
    gate: Mutex<()>,
    opened: Condvar,
}

impl ShareState {
    pub(in crate::pool) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    /// Sends the region out, or lets it in.
    pub(in crate::pool) fn set_out(&self, out: bool) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_out.store(out, Ordering::Relaxed);
        self.swapped.fetch_add(u64::from(out), Ordering::Relaxed);
        drop(gate);
        self.opened.notify_all();
    }

    /// Waits while the region is out, unless `stops`.
    pub(super) fn wait_until_in(&self, stops: impl Fn() -> bool) {
        if !self.is_out() {
            return;
        }
        let begun = Instant::now();
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while self.is_out() && !stops() && begun.elapsed() < MOST_OUT {
            let waited = self.opened.wait_timeout(gate, LOOKS_AGAIN);
            gate = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Frames of a pool that a region has.
#[derive(Debug)]
pub(super) struct Share {
    lent: Vec<FrameWriter>,
    pages_each: u32,
    state: Arc<ShareState>,
    // Dropped last.
    pool: Pool,
}

impl Share {
    /// Takes the least that a region needs from a pool.
    pub(super) fn new(pool: &Pool) -> Result<Share> {
        pool.core().check_here("make a region in")?;
        let pages_each = (pool.core().frames.frame_bytes() as u64 / page_bytes()) as u32;
        let (lent, pool) = (Vec::new(), pool.clone());
        let mut share = Share { lent, pages_each, state: Arc::default(), pool };
        share.begin()?;
        Ok(share)
    }

    pub(super) fn state(&self) -> &Arc<ShareState> {
        &self.state
    }

    /// Takes the least that a region needs.
    fn begin(&mut self) -> Result<()> {
        let begun = Instant::now();
        let least = self.least();
        let core = Arc::clone(self.pool.core());
        let joining = core.lending.joining();
        while self.pages() < least {
            if self.borrow(least - self.pages()) {
                continue;
            }
            if begun.elapsed() > JOINS_WITHIN {
                let why = format!("the pool has no memory left for {least} pages");
                return Err(Error::new(ErrorKind::TimedOut, "make", "a region", why));
            }
            joining.wait(LOOKS_AGAIN);
        }
        Ok(())
    }

    /// Pages for which it has memory.
    pub(super) fn pages(&self) -> u32 {
        self.lent.len() as u32 * self.pages_each
    }

    /// The fewest pages that a region has.
    pub(super) fn least(&self) -> u32 {
        LEAST_FRAMES.next_multiple_of(self.pages_each)
    }

    pub(super) fn is_here(&self) -> bool {
        self.pool.core().frames.is_here()
    }

    /// Takes memory for this many pages, or less: whether it got any.
    pub(super) fn borrow(&mut self, pages: u32) -> bool {
        let before = self.lent.len();
        let core = self.pool.core();
        core.borrow(pages.div_ceil(self.pages_each), &mut self.lent);
        let got = self.lent.len() > before;
        self.state.pages.store(self.pages(), Ordering::Relaxed);
        if !got && before > 0 {
            self.state.wants.store(true, Ordering::Relaxed);
            core.lending.ask();
        }
        got
    }

    /// Gives back what is not needed for this many pages. Their memory is free already.
    pub(super) fn keep(&mut self, pages: u32) -> usize {
        let keep = (pages.div_ceil(self.pages_each) as usize).min(self.lent.len());
        let gone = self.lent.split_off(keep);
        self.state.pages.store(self.pages(), Ordering::Relaxed);
        let count = gone.len();
        self.pool.core().take_back(gone);
        count
    }

    pub(super) fn pages_each(&self) -> u32 {
        self.pages_each
    }

    /// The pages that the pool's memory could hold.
    pub(super) fn reach(&self) -> u32 {
        (self.pool.memory_bytes() / page_bytes()) as u32
    }

    pub(super) fn swapped(&self) -> u64 {
        self.state.swapped.load(Ordering::Relaxed)
    }

    pub(super) fn publish(&self, counts: &PagingCounts, waited_ns: u64) {
        self.state.faults.store(counts.hard, Ordering::Relaxed);
        self.state.again.store(counts.again, Ordering::Relaxed);
        self.state.waited_ns.store(waited_ns, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.is_here() {
            self.keep(0);
        }
    }
}
