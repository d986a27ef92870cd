//! How a region joins a pool.

use super::pager::Pager;
use super::share::{Share, ShareState};
use crate::error::Result;
use crate::pool::{Pool, lender};
use std::sync::{Arc, Mutex};

/// A pager that a pool may take memory from, and what the pool knows of it.
type SharedPager = (Arc<Mutex<Pager>>, Option<Arc<ShareState>>);

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
    lender::join(pool.core(), &pager, &state)?;
    Ok((pager, Some(state)))
}
