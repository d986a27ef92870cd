//! The first touches of a working set after a start, by how its pages come into memory.
//!
//! A file has twice the bytes of the working set, which is half of its pieces of 64 KiB, chosen at
//! random and touched in a random order. Nothing of the file is in the page cache when a batch begins:
//! a batch opens the file, and reads and checks a word of each page. On demand, each page comes when
//! it is touched; or a set that was recorded before is read back first. The time of that counts.

use super::{PAGE_BYTES, SharedPages};
use crate::engine::load::scratch_file;
use crate::tools::demand_disk;
use crate::tools::own::trouble;
use crate::tools::prelude::*;
use rustix::fs::Advice;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::rc::Rc;
use std::time::Instant;
use weir_policy::random::Random;
use weir_region::{Region, RegionOptions};

/// Bytes of the working sets.
const SET_BYTES: [u64; 2] = [64 << 20, 1 << 30];
/// Pages that belong together, as those of an object do.
const PIECE_PAGES: u64 = 16;

/// How pages come into memory.
#[derive(Clone, Copy, Debug)]
enum Coming {
    RegionOnDemand,
    RegionRecorded,
    MmapOnDemand,
    MmapReadAhead,
}

const WAYS: [(&str, Coming); 4] = [
    ("weir-region, on demand", Coming::RegionOnDemand),
    ("weir-region, recorded set", Coming::RegionRecorded),
    ("kernel-mmap, on demand", Coming::MmapOnDemand),
    ("kernel-mmap, recorded set by fadvise", Coming::MmapReadAhead),
];

pub fn group_of_starts() -> Group {
    let mut cases = Vec::new();
    for bytes in SET_BYTES {
        for (name, way) in WAYS {
            let params = Params {
                mechanism: Some(name.split(',').next().unwrap_or(name).into()),
                operation: Some(name.into()),
                working_set_bytes: Some(bytes),
                ..Params::default()
            };
            cases.push(Case {
                standard: false,
                normalise: Normalise::Never,
                size: BatchSize::Count(1),
                // About 10 and 200 us a page.
                weight: bytes as f64 / PAGE_BYTES as f64 / 250.0,
                ..case(
                    format!("first touch of {}, {name}", size(bytes)),
                    params,
                    Measure::TIME,
                    move |site| first_touches(site, way, bytes),
                )
            });
        }
    }
    Group { processes: 6, twin: false, ..group("first touches", Sides::One, cases) }
}

/// A file of marked pages, and the pages of it that a program touches, in its order.
struct Program {
    file: File,
    bytes: u64,
    order: Vec<u64>,
}

impl Program {
    fn new(site: &Site, set_bytes: u64) -> Result<Program, CaseError> {
        // What is in memory is never out of the page cache.
        demand_disk(&site.directory)?;
        let file = scratch_file(site)?;
        let (bytes, pages) = (2 * set_bytes, 2 * set_bytes / PAGE_BYTES as u64);
        let mut to = BufWriter::with_capacity(1 << 20, &file);
        let mut page = [0; PAGE_BYTES];
        for number in 0..pages {
            page[..8].copy_from_slice(&mark(number).to_le_bytes());
            to.write_all(&page)?;
        }
        to.flush()?;
        drop(to);
        rustix::fs::fsync(&file)?;
        let mut random = Random::new(1980);
        let mut pieces: Vec<u64> = (0..pages / PIECE_PAGES).collect();
        shuffle(&mut pieces, &mut random);
        pieces.truncate(pieces.len() / 2);
        let each = |piece: &u64| piece * PIECE_PAGES..(piece + 1) * PIECE_PAGES;
        let mut order: Vec<u64> = pieces.iter().flat_map(each).collect();
        shuffle(&mut order, &mut random);
        Ok(Program { file, bytes, order })
    }

    /// Takes the file out of the page cache, and returns another description of it.
    fn cold(&self) -> Result<File, CaseError> {
        rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed)?;
        Ok(self.file.try_clone()?)
    }

    fn region(&self) -> Result<Region, CaseError> {
        let options = RegionOptions::new().memory_bytes(self.bytes);
        Region::over(self.cold()?, &options).map_err(trouble)
    }

    fn touch_region(&self, region: &Region) -> Result<(), CaseError> {
        self.order.iter().try_for_each(|page| {
            let found: [u8; 8] = region.read_array(page * PAGE_BYTES as u64).map_err(trouble)?;
            check(*page, found)
        })
    }

    fn touch_map(&self, map: &SharedPages) -> Result<(), CaseError> {
        self.order.iter().try_for_each(|page| {
            let mut found = [0; 8];
            map.copy_out(*page as usize * PAGE_BYTES, &mut found);
            check(*page, found)
        })
    }
}

fn mark(page: u64) -> u64 {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn check(page: u64, found: [u8; 8]) -> Result<(), CaseError> {
    if u64::from_le_bytes(found) == mark(page) {
        return Ok(());
    }
    Err(CaseError::failed(format!("page {page} came with wrong contents")))
}

fn shuffle(items: &mut [u64], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at as u64 + 1) as usize);
    }
}

fn first_touches(site: &Site, way: Coming, set_bytes: u64) -> MadeWork {
    let site = site.clone();
    work(move |_| {
        let recorded = recorded(&site, set_bytes.min(most_bytes()))?;
        let (program, set) = &*recorded;
        let pages = program.order.len() as u64;
        match way {
            Coming::RegionOnDemand | Coming::RegionRecorded => {
                let region = program.region()?;
                let begun = Instant::now();
                if matches!(way, Coming::RegionRecorded) {
                    region.bring_back(set).map_err(trouble)?;
                }
                program.touch_region(&region)?;
                Ok(Batch::time(elapsed_ns(begun), pages))
            }
            Coming::MmapOnDemand | Coming::MmapReadAhead => {
                let file = program.cold()?;
                let map = SharedPages::of_file(&file, program.bytes as usize)?;
                let begun = Instant::now();
                if matches!(way, Coming::MmapReadAhead) {
                    for (at, bytes) in set.iter() {
                        rustix::fs::fadvise(
                            &file,
                            *at,
                            std::num::NonZeroU64::new(*bytes),
                            Advice::WillNeed,
                        )?;
                    }
                }
                program.touch_map(&map)?;
                Ok(Batch::time(elapsed_ns(begun), pages))
            }
        }
    })
}

/// A program and its working set, as places and lengths.
type Recorded = Rc<(Program, Vec<(u64, u64)>)>;

thread_local! {
    /// All ways touch the same pages, by the bytes of the working set.
    static RECORDED: RefCell<BTreeMap<u64, Recorded>> = RefCell::default();
}

/// Returns the program, and its working set as recorded in a run that does not count. Both are made on first use,
/// which takes a while.
fn recorded(site: &Site, set_bytes: u64) -> Result<Recorded, CaseError> {
    RECORDED.with(|all| {
        let mut all = all.borrow_mut();
        if let Some(made) = all.get(&set_bytes) {
            return Ok(Rc::clone(made));
        }
        let program = Program::new(site, set_bytes)?;
        let region = program.region()?;
        program.touch_region(&region)?;
        let set = region.working_set().map_err(trouble)?;
        drop(region);
        let made = Rc::new((program, set));
        all.insert(set_bytes, Rc::clone(&made));
        Ok(made)
    })
}

/// Tests use smaller sets.
fn most_bytes() -> u64 {
    let asked = std::env::var("WEIR_BENCH_SET_BYTES").ok();
    asked.and_then(|bytes| bytes.parse().ok()).unwrap_or(u64::MAX)
}
