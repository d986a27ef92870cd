//! The account of a region where other processes see it.

use super::account::RegionAccount;
use crate::memory::AccountWords;
use std::sync::atomic::Ordering::Relaxed;
use weir::parts::SharedPage;
use weir_sys::forks::ParentOnly;

/// A page with the account, and its file, through which others find it.
#[derive(Debug)]
pub(super) struct AccountPage {
    _file: ParentOnly,
    page: SharedPage<AccountWords>,
}

impl AccountPage {
    /// Makes the page. Without one the region works, and nobody sees its account from outside.
    pub(super) fn new(region_bytes: u64) -> Option<AccountPage> {
        let (file, page) = SharedPage::<AccountWords>::create().ok()?;
        // Relaxed, here and below: numbers that readers take one by one.
        page.words().0.pid.store(std::process::id(), Relaxed);
        let board = AccountPage { _file: file, page };
        board.publish_length(region_bytes);
        Some(board)
    }

    pub(super) fn publish_length(&self, region_bytes: u64) {
        self.page.words().0.region_bytes.store(region_bytes, Relaxed);
    }

    pub(super) fn publish(&self, budget_bytes: u64, account: &RegionAccount) {
        let words = &self.page.words().0;
        words.budget_bytes.store(budget_bytes, Relaxed);
        words.memory_bytes.store(account.memory_bytes, Relaxed);
        words.hard_faults.store(account.hard_faults, Relaxed);
        words.reclaimed_pages.store(account.reclaimed_pages, Relaxed);
        words.read_bytes.store(account.read_bytes, Relaxed);
        words.written_bytes.store(account.written_bytes, Relaxed);
        words.reads.store(account.reads, Relaxed);
        words.writes.store(account.writes, Relaxed);
        words.seen_pages.store(account.seen_pages, Relaxed);
        words.used_pages.store(account.used_pages, Relaxed);
        words.cluster_pages.store(account.cluster_pages, Relaxed);
        words.waits.store(account.waits, Relaxed);
        words.waited_ns.store(account.waited_ns, Relaxed);
        words.swapped.store(account.swapped, Relaxed);
        words.failures.store(account.failures, Relaxed);
    }
}
