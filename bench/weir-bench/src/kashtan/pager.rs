//! The child that touches pages in less memory than they take.

use super::cage::Cage;
use super::caged::Caged;
use super::walk::{PATTERNS, TouchOrder, Walk};
use super::{PAGE_BYTES, PAGES, PagingKind};
use crate::engine::case::{CaseError, Site};
use crate::engine::load::scratch_file;
use crate::sys::shared::{AccessOrder, PageBuffer, SharedPages};
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_region::{MappedRegion, PageReplacement, Region, RegionAdvice, RegionOptions};

/// Length of a batch, however long each reference takes. A third of it is spent beforehand.
pub const BATCH: Duration = Duration::from_millis(90);
/// Memory that a child needs beside its pages.
pub const SLACK_BYTES: u64 = 1536 << 10;

/// The child, as the measuring side sees it.
pub struct Pager {
    child: Caged,
}

impl Pager {
    /// Starts the child in its cage and waits until all its pages are present and dirty. The kernel
    /// may kill the child on the way, when it finds no page to reclaim; then another is started.
    pub fn start(site: &Site, mechanism: PagingKind, limit_bytes: u64) -> Result<Pager, CaseError> {
        const ATTEMPTS: u32 = 4;
        let start = || {
            let cage = Cage::new(site, mechanism.swapping(), limit_bytes + SLACK_BYTES)?;
            Pager::start_in(site, &Rc::new(cage), mechanism, limit_bytes)
        };
        let mut attempt = 1;
        loop {
            match start() {
                Err(trouble) if trouble.left_out || attempt == ATTEMPTS => return Err(trouble),
                Err(_) => attempt += 1,
                started => return started,
            }
        }
    }

    /// Starts the child in a cage that others may share.
    pub fn start_in(
        site: &Site,
        cage: &Rc<Cage>,
        mechanism: PagingKind,
        limit_bytes: u64,
    ) -> Result<Pager, CaseError> {
        let child = Caged::start(site, cage, || {
            let mut pages = Pages::new(site, mechanism, limit_bytes)?;
            (0..PAGES).try_for_each(|page| pages.touch(page))?;
            let mut walks = PATTERNS.map(|pattern| Walk::new(pattern, 1980));
            Ok(move |which: u8| {
                let which = usize::from(which).min(PATTERNS.len() - 1);
                pages.advise(PATTERNS[which])?;
                let walk = &mut walks[which];
                pages.walk(walk, BATCH / 3)?;
                let (references, elapsed) = pages.walk(walk, BATCH)?;
                Ok([references, elapsed.as_nanos() as u64, 0])
            })
        })?;
        Ok(Pager { child })
    }

    /// Starts a child that makes new pages for each batch and touches them from the first on, and then
    /// as often again in a walk.
    pub fn starting(
        site: &Site,
        mechanism: PagingKind,
        limit_bytes: u64,
        pattern: TouchOrder,
    ) -> Result<Pager, CaseError> {
        let cage = Cage::new(site, mechanism.swapping(), limit_bytes + SLACK_BYTES)?;
        let child = Caged::start(site, &Rc::new(cage), || {
            Ok(move |_| {
                let begun = Instant::now();
                let mut pages = Pages::new(site, mechanism, limit_bytes)?;
                (0..PAGES).try_for_each(|page| pages.touch(page))?;
                let mut walk = Walk::new(pattern, 1980);
                (0..PAGES).try_for_each(|_| pages.touch(walk.next_page()))?;
                Ok([2 * PAGES as u64, begun.elapsed().as_nanos() as u64, 0])
            })
        })?;
        Ok(Pager { child })
    }

    /// Begins to touch pages for the length of a batch.
    pub fn begin(&mut self, pattern: TouchOrder) -> Result<(), CaseError> {
        let which = PATTERNS.iter().position(|known| *known == pattern).unwrap_or(0);
        self.child.begin(which as u8)
    }

    /// Waits for the end of the batch. Returns how many touches counted, and how long they took.
    pub fn end(&mut self) -> Result<(u64, f64), CaseError> {
        let [references, elapsed_ns, _] = self.child.end()?;
        Ok((references, elapsed_ns as f64))
    }

    /// Touches pages for the length of a batch. Returns how many counted, and how long they took.
    pub fn run(&mut self, pattern: TouchOrder) -> Result<(u64, f64), CaseError> {
        self.begin(pattern)?;
        self.end()
    }
}

/// The pages, and how often each was touched.
struct Pages {
    memory: PagedMemory,
    touched: Vec<u32>,
    advised: bool,
}

/// The options of a region with a part of what paging consists of.
fn parts(mechanism: PagingKind, options: RegionOptions) -> RegionOptions {
    let single = |options: RegionOptions| options.most_cluster_bytes(PAGE_BYTES as u64);
    match mechanism {
        PagingKind::RegionPlain => single(options).replacement(PageReplacement::Fifo),
        PagingKind::RegionClock => single(options).replacement(PageReplacement::Clock),
        PagingKind::RegionWrites | PagingKind::RegionClusters => {
            options.replacement(PageReplacement::Fifo)
        }
        _ => options,
    }
}

enum PagedMemory {
    File(SharedPages),
    Anonymous(PageBuffer),
    Mapped(MappedRegion),
    Calls(Box<Region>),
}

impl Pages {
    fn new(site: &Site, mechanism: PagingKind, budget: u64) -> Result<Pages, CaseError> {
        let bytes = PAGES * PAGE_BYTES;
        let failed = |error: weir::Error| CaseError::failed(error.to_string());
        let options = RegionOptions::new().memory_bytes(budget).spill_directory(&site.directory);
        let memory = match mechanism {
            PagingKind::Mmap | PagingKind::MmapAdvised => {
                let file = scratch_file(site)?;
                rustix::fs::ftruncate(&file, bytes as u64)?;
                PagedMemory::File(SharedPages::of_file(&file, bytes)?)
            }
            PagingKind::Swap | PagingKind::SwapTuned => {
                let memory = PageBuffer::new(bytes)?;
                // A kernel without huge pages returns an error, which does not matter.
                let _ = memory.refuse_huge_pages();
                PagedMemory::Anonymous(memory)
            }
            PagingKind::Region | PagingKind::RegionAdvised => {
                let region = MappedRegion::new(bytes, &options).map_err(failed)?;
                let mechanism = region.mechanism();
                if !mechanism.starts_with("userfaultfd") {
                    return Err(CaseError::left_out(mechanism));
                }
                PagedMemory::Mapped(region)
            }
            PagingKind::RegionCalls
            | PagingKind::RegionPlain
            | PagingKind::RegionWrites
            | PagingKind::RegionClusters
            | PagingKind::RegionClock => {
                let region = Region::new(bytes as u64, &parts(mechanism, options));
                let region = region.map_err(failed)?;
                if mechanism == PagingKind::RegionWrites {
                    // Pages come in alone, and go in runs.
                    region.advise(RegionAdvice::Random).map_err(failed)?;
                }
                PagedMemory::Calls(Box::new(region))
            }
        };
        Ok(Pages { memory, touched: vec![0; PAGES], advised: mechanism.is_advised() })
    }

    /// Gives the advice that fits the order of touches, if this mechanism gets any. A walk stays near
    /// its last page, for which no advice is better than none.
    fn advise(&self, pattern: TouchOrder) -> Result<(), CaseError> {
        let (kernel, own) = match pattern {
            TouchOrder::Sequential => (AccessOrder::Sequential, RegionAdvice::Sequential),
            TouchOrder::Random => (AccessOrder::Random, RegionAdvice::Random),
            TouchOrder::Walk(_) => (AccessOrder::Normal, RegionAdvice::Normal),
        };
        match &self.memory {
            _ if !self.advised => Ok(()),
            PagedMemory::File(map) => Ok(map.advise(kernel)?),
            PagedMemory::Mapped(region) => {
                region.advise(own).map_err(|error| CaseError::failed(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Reads the page's counter, checks it, and increments it.
    fn touch(&mut self, page: usize) -> Result<(), CaseError> {
        let at = page * PAGE_BYTES;
        let expected = self.touched[page];
        self.touched[page] = expected.wrapping_add(1);
        let next = expected.wrapping_add(1).to_le_bytes();
        let mut found = [0; 4];
        match &mut self.memory {
            PagedMemory::File(map) => {
                map.copy_out(at, &mut found);
                map.copy_in(at, &next);
            }
            PagedMemory::Anonymous(memory) => {
                found.copy_from_slice(&memory[at..at + 4]);
                memory[at..at + 4].copy_from_slice(&next);
            }
            PagedMemory::Mapped(region) => {
                found.copy_from_slice(&region[at..at + 4]);
                region[at..at + 4].copy_from_slice(&next);
            }
            PagedMemory::Calls(region) => {
                let failed = |error: weir::Error| CaseError::failed(error.to_string());
                region.read_at(at as u64, &mut found).map_err(failed)?;
                region.write_at(at as u64, &next).map_err(failed)?;
            }
        }
        if found == expected.to_le_bytes() {
            return Ok(());
        }
        Err(CaseError::failed(format!("page {page} came back with wrong contents")))
    }

    /// Touches pages for `time`.
    fn walk(&mut self, walk: &mut Walk, time: Duration) -> Result<(u64, Duration), CaseError> {
        const SLOW: Duration = Duration::from_micros(50);
        let begun = Instant::now();
        let (mut references, mut stride) = (0, 1);
        loop {
            for _ in 0..stride {
                self.touch(walk.next_page())?;
            }
            references += stride;
            let elapsed = begun.elapsed();
            // Touching a page that is present takes less time than reading the clock.
            stride = if elapsed > SLOW.saturating_mul(references as u32) { 1 } else { 16 };
            if elapsed >= time {
                return Ok((references, elapsed));
            }
        }
    }
}
