//! The child that touches pages, in less memory than they take.

use super::cage::Cage;
use super::walk::{PATTERNS, TouchOrder, Walk};
use super::{PAGE_BYTES, PAGES, PagingKind};
use crate::tools::peer::{Control, PeerProcess};
use rustix::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_bench_sys::shared::{LINE_BYTES, PageBuffer, SharedPages};
use weir_measure::bench::case::{CaseError, Site};
use weir_measure::bench::load::scratch_file;

/// References of a batch take this long, whatever each takes; a third of it goes before.
const BATCH: Duration = Duration::from_millis(90);
/// What the child needs beside its pages.
const SLACK_BYTES: u64 = 1536 << 10;

const REFERENCES: usize = 0;
const ELAPSED: usize = 1;

/// The child, as the measuring side sees it.
pub struct Pager {
    peer: PeerProcess,
    requests: OwnedFd,
    results: SharedPages,
    // Dropped after the child is gone.
    _cage: Cage,
}

impl Pager {
    /// Starts the child in its cage, and waits until all its pages are there and dirty. The kernel
    /// may kill it on the way, when it finds no page to give up at the moment it asks for one; then
    /// another is started.
    pub fn start(site: &Site, mechanism: PagingKind, limit_bytes: u64) -> Result<Pager, CaseError> {
        const ATTEMPTS: u32 = 4;
        let mut attempt = 1;
        loop {
            match Pager::start_once(site, mechanism, limit_bytes) {
                Err(trouble) if trouble.left_out || attempt == ATTEMPTS => return Err(trouble),
                Err(_) => attempt += 1,
                started => return started,
            }
        }
    }

    fn start_once(
        site: &Site,
        mechanism: PagingKind,
        limit_bytes: u64,
    ) -> Result<Pager, CaseError> {
        let cage = Cage::new(site, mechanism, limit_bytes + SLACK_BYTES)?;
        let results = SharedPages::new(2 * LINE_BYTES)?;
        let (asked, requests) = rustix::pipe::pipe()?;
        let mut peer = PeerProcess::start(site, |control| {
            cage.enter()?;
            let mut pages = Pages::new(site, mechanism)?;
            (0..PAGES).try_for_each(|page| pages.touch(page))?;
            control.report(1)?;
            serve(control, &asked, &results, &mut pages)
        })?;
        peer.more(1);
        peer.wait()?;
        Ok(Pager { peer, requests, results, _cage: cage })
    }

    /// Touches pages for a while: how many counted, and how long they took.
    pub fn run(&mut self, pattern: TouchOrder) -> Result<(u64, f64), CaseError> {
        let which = PATTERNS.iter().position(|known| *known == pattern).unwrap_or(0);
        self.peer.more(1);
        rustix::io::write(&self.requests, &[which as u8])?;
        self.peer.wait()?;
        // What was stored before the report is seen after it.
        let word = |line| self.results.word(line).load(Ordering::Acquire);
        Ok((word(REFERENCES), word(ELAPSED) as f64))
    }
}

fn serve(
    control: &Control,
    asked: &OwnedFd,
    results: &SharedPages,
    pages: &mut Pages,
) -> Result<(), CaseError> {
    let mut walks = PATTERNS.map(|pattern| Walk::new(pattern, 1980));
    let (mut done, mut which) = (1, [0]);
    loop {
        if rustix::io::read(asked, &mut which)? == 0 {
            return Ok(());
        }
        let walk = &mut walks[usize::from(which[0]).min(PATTERNS.len() - 1)];
        pages.walk(walk, BATCH / 3)?;
        let (references, elapsed) = pages.walk(walk, BATCH)?;
        results.word(REFERENCES).store(references, Ordering::Release);
        results.word(ELAPSED).store(elapsed.as_nanos() as u64, Ordering::Release);
        done += 1;
        control.report(done)?;
    }
}

/// The pages, and how often each was touched.
struct Pages {
    memory: PagedMemory,
    touched: Vec<u32>,
}

enum PagedMemory {
    File(SharedPages),
    Anonymous(PageBuffer),
}

impl Pages {
    fn new(site: &Site, mechanism: PagingKind) -> Result<Pages, CaseError> {
        let bytes = PAGES * PAGE_BYTES;
        let memory = if mechanism.swaps() {
            let memory = PageBuffer::new(bytes)?;
            // A kernel without huge pages refuses to refuse them.
            let _ = memory.refuse_huge_pages();
            PagedMemory::Anonymous(memory)
        } else {
            let file = scratch_file(site)?;
            rustix::fs::ftruncate(&file, bytes as u64)?;
            let map = SharedPages::of_file(&file, bytes)?;
            if mechanism == PagingKind::MmapAdvised {
                map.advise_random()?;
            }
            PagedMemory::File(map)
        };
        Ok(Pages { memory, touched: vec![0; PAGES] })
    }

    /// Reads how often the page was touched, checks that, and counts on.
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
        }
        if found == expected.to_le_bytes() {
            return Ok(());
        }
        Err(CaseError::failed(format!("page {page} came back with wrong contents")))
    }

    /// Touches pages for so long.
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
            // Touching a page that is there takes less than a look at the clock.
            stride = if elapsed > SLOW.saturating_mul(references as u32) { 1 } else { 16 };
            if elapsed >= time {
                return Ok((references, elapsed));
            }
        }
    }
}
