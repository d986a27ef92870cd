//! The words of a region's account, as they are on a page that others read.

use weir::parts::{AtomicWords, PageContent};
use weir_ring::paging::{self, PagingBoard};
use weir_ring::primitive::{AtomicU32, AtomicU64};

/// The words of a region's account.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct AccountWords(pub(crate) PagingBoard);

// SAFETY: atomics only, by the definition of `PagingBoard`, which asks for less than a page.
unsafe impl AtomicWords for AccountWords {}

impl PageContent for AccountWords {
    const FILE: &'static str = paging::FILE;
    const WHAT: &'static str = "the account of a region";
    const MAGIC: u64 = paging::MAGIC;
    const VERSION: u32 = paging::VERSION;
    fn beginning(&self) -> (&AtomicU64, &AtomicU32) {
        (&self.0.magic, &self.0.version)
    }
}
