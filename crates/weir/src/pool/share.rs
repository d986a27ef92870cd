//! What one that pages within a pool's memory has of it.

use super::Pool;
use super::lender;
use super::lending::{Borrower, Member, ShareState};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{FrameWriter, page_bytes};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_policy::paging::{LEAST_FRAMES, PagingCounts};

/// How long a new borrower waits until others have given it the least that it needs.
const JOINS_WITHIN: Duration = Duration::from_secs(10);
const LOOKS_AGAIN: Duration = Duration::from_millis(50);

/// Frames of a pool that a borrower has in place of memory of its own.
#[derive(Debug)]
pub struct Share {
    lent: Vec<FrameWriter>,
    pages_each: u32,
    state: Arc<ShareState>,
    // Dropped last.
    pool: Pool,
}

impl Share {
    /// Takes the least that a borrower needs from a pool.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nobody gave it within ten seconds.
    pub fn new(pool: &Pool) -> Result<Share> {
        pool.core().check_here("make a region in")?;
        let pages_each = (pool.core().frames.frame_bytes() as u64 / page_bytes()) as u32;
        let (lent, pool) = (Vec::new(), pool.clone());
        let mut share = Share { lent, pages_each, state: Arc::default(), pool };
        share.begin()?;
        Ok(share)
    }

    /// What the pool knows of it.
    pub fn state(&self) -> &Arc<ShareState> {
        &self.state
    }

    /// Takes the least that a borrower needs.
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

    /// Lets the pool ask a borrower for memory when others lack it.
    ///
    /// # Errors
    /// [`ErrorKind::Os`]: no thread could be started that decides.
    pub fn lets_ask(
        pool: &Pool,
        borrower: Arc<dyn Borrower>,
        state: &Arc<ShareState>,
    ) -> Result<()> {
        lender::join(pool.core(), Member { borrower, state: Arc::clone(state) })
    }

    /// Pages for which it has memory.
    pub fn pages(&self) -> u32 {
        self.lent.len() as u32 * self.pages_each
    }

    /// The fewest pages that a borrower has.
    pub fn least(&self) -> u32 {
        LEAST_FRAMES.next_multiple_of(self.pages_each)
    }

    /// Whether this process made the pool, and is not a forked child.
    pub fn is_here(&self) -> bool {
        self.pool.core().frames.is_here()
    }

    /// Takes memory for this many pages, or less: whether it got any.
    pub fn borrow(&mut self, pages: u32) -> bool {
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
    /// Returns how many frames went back.
    pub fn keep(&mut self, pages: u32) -> usize {
        let keep = (pages.div_ceil(self.pages_each) as usize).min(self.lent.len());
        let gone = self.lent.split_off(keep);
        self.state.pages.store(self.pages(), Ordering::Relaxed);
        let count = gone.len();
        self.pool.core().take_back(gone);
        count
    }

    /// Pages in a frame of the pool.
    pub fn pages_each(&self) -> u32 {
        self.pages_each
    }

    /// The pages that the pool's memory could hold.
    pub fn reach(&self) -> u32 {
        (self.pool.memory_bytes() / page_bytes()) as u32
    }

    /// How often the borrower went out.
    pub fn swapped(&self) -> u64 {
        self.state.swapped.load(Ordering::Relaxed)
    }

    /// Tells the pool of its faults, and how long they waited.
    pub fn publish(&self, counts: &PagingCounts, waited_ns: u64) {
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
