//! `kashtan-paging`: Kashtan's paging benchmark, as Joy tells of it (1980): 8192 pages, each of
//! which is modified when touched, in less memory than they take; touched in order, in no order,
//! and in walks whose steps have a deviation of 1 to 100 pages.
//!
//! A child in a memory cgroup touches the pages: of a mapped file (with and without advice), or of
//! anonymous memory over a swap file (with the kernel's read-ahead as it is, and set to 32 pages).
//! Start-up is left out: all pages are there and dirty before the clock runs, and each batch begins
//! with some touches that do not count. Every page holds how often it was touched, which is checked
//! at each touch. Stated are nanoseconds a reference; the report does not tell how many it made.

mod cage;
mod pager;
mod walk;

use crate::tools::prelude::*;
use pager::Pager;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use walk::{PATTERNS, TouchOrder};

/// Pages, as in the report.
pub const PAGES: usize = 8192;
/// Of today's kernels; the VAX had 512 bytes.
pub const PAGE_BYTES: usize = 4096;

/// What pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(prefix = "kernel-", serialize_all = "kebab-case")]
pub enum PagingKind {
    /// A shared mapping of a file.
    Mmap,
    /// The same with `MADV_RANDOM`.
    MmapAdvised,
    /// Anonymous memory over a swap file.
    Swap,
    /// The same with `vm.page-cluster` at 5: 32 pages at once.
    SwapTuned,
}

impl PagingKind {
    fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it swaps.
    pub fn swaps(self) -> bool {
        matches!(self, PagingKind::Swap | PagingKind::SwapTuned)
    }
}

const MECHANISMS: [PagingKind; 4] =
    [PagingKind::Mmap, PagingKind::MmapAdvised, PagingKind::Swap, PagingKind::SwapTuned];
/// PagedMemory allowed, as a share of the pages.
const SHARES: [f64; 2] = [0.5, 0.25];

/// The suite.
pub fn suite() -> Suite {
    let mut groups = Vec::new();
    for share in SHARES {
        groups.extend(MECHANISMS.map(|mechanism| patterns(mechanism, share)));
    }
    Suite {
        name: "kashtan-paging",
        about: "What paging costs when a program has less memory than it touches.",
        source: "D. Kashtan 1980, after W. Joy, March 1980",
        groups,
    }
}

fn patterns(mechanism: PagingKind, share: f64) -> Group {
    let cases = PATTERNS.map(|pattern| {
        let params = Params {
            mechanism: Some(mechanism.name().into()),
            pattern: Some(pattern.name()),
            memory_share: Some(share),
            working_set_bytes: Some((PAGES * PAGE_BYTES) as u64),
            ..Params::default()
        };
        let name = format!("{}, {} of it, {}", mechanism.name(), part(share), pattern.name());
        let make = move |site: &Site| references(site, mechanism, share, pattern);
        Case {
            standard: false,
            normalise: Normalise::Never,
            // A batch ends by time: a reference may take a microsecond or a second.
            size: BatchSize::Count(1),
            weight: 12.0,
            ..case(name, params, Measure::TIME, make)
        }
    });
    let name = format!("{} in {}", mechanism.name(), size((share * 32.0) as u64 * (1 << 20)));
    Group { processes: 6, twin: false, ..group(name, Sides::One, cases.into()) }
}

fn part(share: f64) -> &'static str {
    if share > 0.3 { "1/2" } else { "1/4" }
}

type SharedPager = Rc<RefCell<Option<Pager>>>;

thread_local! {
    /// One child for all patterns of a group: they take turns on the same pages.
    static PAGERS: RefCell<BTreeMap<(PagingKind, u64), SharedPager>> = RefCell::default();
}

fn references(site: &Site, mechanism: PagingKind, share: f64, pattern: TouchOrder) -> MadeWork {
    let limit_bytes = (share * (PAGES * PAGE_BYTES) as f64) as u64;
    let pager = PAGERS.with(|pagers| -> Result<_, CaseError> {
        let mut pagers = pagers.borrow_mut();
        if let Some(pager) = pagers.get(&(mechanism, limit_bytes)) {
            return Ok(Rc::clone(pager));
        }
        let pager = Rc::new(RefCell::new(Some(Pager::start(site, mechanism, limit_bytes)?)));
        pagers.insert((mechanism, limit_bytes), Rc::clone(&pager));
        Ok(pager)
    })?;
    let site = site.clone();
    work(move |_| {
        let mut pager = pager.borrow_mut();
        let ran = pager.as_mut().map(|pager| pager.run(pattern));
        let (references, elapsed_ns) = match ran {
            Some(Ok(ran)) => ran,
            // The kernel kills what finds no page to give up at the moment it asks for one. The old
            // cage must be gone before there is a new one, which would keep its guard waiting.
            _ => {
                *pager = None;
                pager.insert(Pager::start(&site, mechanism, limit_bytes)?).run(pattern)?
            }
        };
        Ok(Batch::time(elapsed_ns, references))
    })
}
