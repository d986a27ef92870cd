//! How a region joins a pool.

use super::pager::Pager;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use weir::Pool;
use weir::Result;
use weir::parts::{Borrower, Share, ShareState};
use weir_policy::paging::Run;

/// A pager that a pool may take memory from, and what the pool knows of it.
type SharedPager = (Arc<Mutex<Pager>>, Option<Arc<ShareState>>);

/// A region, as its pool sees it.
#[derive(Debug)]
struct PoolMember(Weak<Mutex<Pager>>);

impl PoolMember {
    fn with<R: Default>(&self, then: impl FnOnce(&mut Pager) -> R) -> R {
        let pager = self.0.upgrade();
        pager.map_or_else(R::default, |pager| {
            then(&mut pager.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }
}

impl Borrower for PoolMember {
    fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    fn give(&self, pages: u32) -> usize {
        self.with(|pager| pager.give(pages))
    }

    fn go_out(&self) -> Vec<Run> {
        self.with(|pager| {
            let had = pager.working_set();
            pager.give(u32::MAX);
            had
        })
    }

    fn come_in(&self, pages: u32, had: &[Run]) {
        self.with(|pager| pager.come_in(pages, had));
    }
}

/// Lets a region take its memory from a pool, if it has one.
pub(super) fn join(pool: Option<&Pool>, mut pager: Pager) -> Result<SharedPager> {
    let Some(pool) = pool else {
        pager.publish();
        return Ok((Arc::new(Mutex::new(pager)), None));
    };
    let share = Share::new(pool)?;
    let state = Arc::clone(share.state());
    pager.share(share);
    pager.publish();
    let pager = Arc::new(Mutex::new(pager));
    Share::lets_ask(pool, Arc::new(PoolMember(Arc::downgrade(&pager))), &state)?;
    Ok((pager, Some(state)))
}
