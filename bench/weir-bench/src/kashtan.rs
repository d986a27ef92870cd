//! `kashtan-paging`: Kashtan's paging benchmark, as Joy describes it (1980). A program modifies
//! 8192 pages when it touches them, in less memory than they take. It touches them in sequential
//! order, in random order, and in walks whose steps have a deviation of 1 to 100 pages.
//!
//! A child in a memory cgroup touches the pages of a mapped file (with and without advice), of
//! anonymous memory over a swap file (with the kernel's default read-ahead, and with 32 pages), or
//! of a region of weir whose budget is the share (mapped, and by calls), in the same cgroup. The
//! start is left out: all pages are present and dirty before the clock runs, and each batch begins
//! with some touches that do not count. Every page holds how often it was touched, which is checked
//! at each touch. The figure is nanoseconds per reference; the report does not state how many it
//! made.
//!
//! Further groups have a run with its start left in, how near the rules of replacement come to the
//! optimum ([`replacement`]), the first touches after a start ([`start`]), and what a neighbour notices
//! of a program that pages ([`neighbour`]). The suite `joy-swap` has whole regions that go out ([`swapping`]).

mod cage;
mod caged;
mod neighbour;
mod pager;
mod replacement;
mod start;
mod swapping;
mod walk;

pub use swapping::suite as swapping;

use crate::sys::shared::SharedPages;
use crate::tools::prelude::*;
use cage::CageSwap;
use pager::Pager;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use walk::{PATTERNS, TouchOrder};

/// Number of pages, as in the report.
pub const PAGES: usize = 8192;
/// Bytes of a page in today's kernels; the VAX had 512.
pub const PAGE_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PagingKind {
    /// A shared mapping of a file.
    Mmap,
    /// A shared mapping with the advice that fits the order of touches.
    MmapAdvised,
    /// Anonymous memory over a swap file.
    Swap,
    /// Anonymous memory with `vm.page-cluster` at 5: 32 pages at once.
    SwapTuned,
    /// A mapped region of weir.
    Region,
    /// A mapped region of weir with the advice that fits.
    RegionAdvised,
    /// A region of weir by calls.
    RegionCalls,
    /// The same with the next page around going, and one page at a time both ways.
    RegionPlain,
    /// That with runs of pages written together.
    RegionWrites,
    /// That with runs coming in together too.
    RegionClusters,
    /// The plain one with the page going that was not touched lately.
    RegionClock,
}

impl PagingKind {
    fn name(self) -> &'static str {
        match self {
            PagingKind::Mmap => "kernel-mmap",
            PagingKind::MmapAdvised => "kernel-mmap-advised",
            PagingKind::Swap => "kernel-swap",
            PagingKind::SwapTuned => "kernel-swap-tuned",
            PagingKind::Region => "weir-region",
            PagingKind::RegionAdvised => "weir-region-advised",
            PagingKind::RegionCalls => "weir-region-calls",
            PagingKind::RegionPlain => "weir-region-plain",
            PagingKind::RegionWrites => "weir-region-write-clusters",
            PagingKind::RegionClusters => "weir-region-clusters",
            PagingKind::RegionClock => "weir-region-clock",
        }
    }

    /// Whether it is told the order of touches.
    fn is_advised(self) -> bool {
        matches!(self, PagingKind::MmapAdvised | PagingKind::RegionAdvised)
    }

    pub fn swapping(self) -> CageSwap {
        match self {
            PagingKind::Swap => CageSwap::Usual,
            PagingKind::SwapTuned => CageSwap::Tuned,
            _ => CageSwap::None,
        }
    }
}

const MECHANISMS: [PagingKind; 7] = [
    PagingKind::Mmap,
    PagingKind::MmapAdvised,
    PagingKind::Swap,
    PagingKind::SwapTuned,
    PagingKind::Region,
    PagingKind::RegionAdvised,
    PagingKind::RegionCalls,
];
/// What each part of Joy's changes brings alone: with half of the memory.
const PARTS: [PagingKind; 4] = [
    PagingKind::RegionPlain,
    PagingKind::RegionWrites,
    PagingKind::RegionClusters,
    PagingKind::RegionClock,
];
/// Memory allowed, as a share of the pages.
const SHARES: [f64; 2] = [0.5, 0.25];

pub fn suite() -> Suite {
    let mut groups = Vec::new();
    for share in SHARES {
        groups.extend(MECHANISMS.map(|mechanism| patterns(mechanism, share)));
    }
    groups.extend(PARTS.map(|mechanism| patterns(mechanism, SHARES[0])));
    groups.extend([with_its_start(), replacement::group_of_rules(), start::group_of_starts()]);
    groups.extend(neighbour::groups_beside_a_pager());
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

/// The whole of a run, with the start that the report leaves out: the pages are made and touched one
/// after the other, and then as often again in a walk.
fn with_its_start() -> Group {
    let order = TouchOrder::Walk(60);
    let mechanisms = MECHANISMS.into_iter().filter(|mechanism| !mechanism.is_advised());
    let cases = mechanisms.map(|mechanism| {
        let params = Params {
            mechanism: Some(mechanism.name().into()),
            pattern: Some(order.name()),
            operation: Some("with its start".into()),
            memory_share: Some(SHARES[0]),
            working_set_bytes: Some((PAGES * PAGE_BYTES) as u64),
            ..Params::default()
        };
        Case {
            standard: false,
            normalise: Normalise::Never,
            size: BatchSize::Count(1),
            weight: 150.0,
            ..case(
                format!("with its start: {}", mechanism.name()),
                params,
                Measure::TIME,
                move |site| {
                    let limit_bytes = (SHARES[0] * (PAGES * PAGE_BYTES) as f64) as u64;
                    let site = site.clone();
                    work(move |_| {
                        // Of two cages with swap one waits for the end of the other: none is kept.
                        let mut pager = Pager::starting(&site, mechanism, limit_bytes, order)?;
                        let (references, elapsed_ns) = pager.run(order)?;
                        Ok(Batch::time(elapsed_ns, references))
                    })
                },
            )
        }
    });
    let cases = cases.collect();
    Group { processes: 6, twin: false, ..group("with its start", Sides::One, cases) }
}

fn part(share: f64) -> &'static str {
    if share > 0.3 { "1/2" } else { "1/4" }
}

type SharedPager = Rc<RefCell<Option<Pager>>>;

thread_local! {
    /// One child for all orders of a group; they take turns on the same pages.
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
            // The kernel kills a process when it finds no page to reclaim for it. The old cage must
            // be gone before there is a new one, which would keep its guard waiting.
            _ => {
                *pager = None;
                pager.insert(Pager::start(&site, mechanism, limit_bytes)?).run(pattern)?
            }
        };
        Ok(Batch::time(elapsed_ns, references))
    })
}
