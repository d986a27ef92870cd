//! What a neighbour notices of a program that pages: another program touches pages of its own, which
//! fit into the memory that both have together.
//!
//! Joy (1980) put a workload beside the paging programs to see that it did not change, and found that
//! prepaging of more than two pages harmed the others. Here both are children in one memory cgroup,
//! whose limit is the pager's share and the neighbour's pages. The figure is the time of one of the
//! neighbour's touches while the pager walks, or while nobody does. Another neighbour does ordinary
//! work: it sorts a text and compresses it, by the programs of the host, and the figure is the time of
//! one such job.

use super::cage::{Cage, CageSwap};
use super::caged::{Caged, FIGURES};
use super::pager::{BATCH, Pager, SLACK_BYTES};
use super::walk::TouchOrder;
use super::{PAGE_BYTES, PAGES, PagingKind, SharedPages};
use crate::engine::load::scratch_file;
use crate::tools::prelude::*;
use std::io::{Seek, Write};
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;
use weir_policy::random::Random;

/// Pages of the neighbour: 8 MiB.
const OWN_PAGES: usize = 2_048;
/// Memory of the pager: a quarter of its pages.
const PAGER_BYTES: u64 = (PAGES * PAGE_BYTES / 4) as u64;
/// Lines of the text that is sorted: 136 KiB.
const TEXT_LINES: usize = 8_192;
/// What the pager does meanwhile.
const WALK: TouchOrder = TouchOrder::Walk(60);

/// Who pages beside it.
const BESIDE: [Option<PagingKind>; 7] = [
    None,
    Some(PagingKind::Mmap),
    Some(PagingKind::MmapAdvised),
    Some(PagingKind::Swap),
    Some(PagingKind::Region),
    Some(PagingKind::RegionCalls),
    Some(PagingKind::RegionPlain),
];

/// Who works ordinarily beside it.
const BESIDE_WORK: [Option<PagingKind>; 5] = [
    None,
    Some(PagingKind::Mmap),
    Some(PagingKind::Swap),
    Some(PagingKind::Region),
    Some(PagingKind::RegionCalls),
];

/// What the neighbour does.
#[derive(Clone, Copy)]
enum Neighbour {
    Touches,
    /// Sorts and compresses a text.
    Sorts,
}

pub fn groups_beside_a_pager() -> [Group; 2] {
    let touches = BESIDE.map(|beside| beside_a_pager("neighbour of", Neighbour::Touches, beside));
    let sorts =
        BESIDE_WORK.map(|beside| beside_a_pager("sort and gzip beside", Neighbour::Sorts, beside));
    [("neighbour", Vec::from(touches)), ("sort and gzip", Vec::from(sorts))].map(|(name, cases)| {
        Group { processes: 6, twin: false, ..compared(name, Sides::Free, cases) }
    })
}

fn beside_a_pager(what: &str, neighbour: Neighbour, beside: Option<PagingKind>) -> Case {
    let pager = beside.map_or("nobody", PagingKind::name);
    let params = Params {
        mechanism: Some(pager.into()),
        pattern: Some(WALK.name()),
        operation: Some(what.into()),
        ..Params::default()
    };
    Case {
        standard: false,
        normalise: Normalise::Never,
        size: BatchSize::Count(1),
        weight: 12.0,
        ..case(format!("{what} {pager}"), params, Measure::TIME, move |site| {
            times(site, neighbour, beside)
        })
    }
}

fn times(site: &Site, of: Neighbour, beside: Option<PagingKind>) -> MadeWork {
    let site = site.clone();
    let mut made: Option<(Caged, Option<Pager>)> = None;
    work(move |_| {
        let (neighbour, pager) = match &mut made {
            Some(made) => made,
            None => made.insert(start(&site, of, beside)?),
        };
        if let Some(pager) = pager {
            pager.begin(WALK)?;
        }
        neighbour.begin(0)?;
        let [touches, elapsed_ns, _] = neighbour.end()?;
        if let Some(pager) = pager {
            pager.end()?;
        }
        Ok(Batch::time(elapsed_ns as f64, touches))
    })
}

/// Starts the neighbour, and the pager in the same memory.
fn start(
    site: &Site,
    neighbour: Neighbour,
    beside: Option<PagingKind>,
) -> Result<(Caged, Option<Pager>), CaseError> {
    let own_bytes = (OWN_PAGES * PAGE_BYTES) as u64;
    let swap = beside.map_or(CageSwap::None, PagingKind::swapping);
    let cage = Cage::new(site, swap, PAGER_BYTES + own_bytes + 2 * SLACK_BYTES)?;
    let cage = Rc::new(cage);
    let neighbour = match neighbour {
        Neighbour::Touches => toucher(site, &cage)?,
        Neighbour::Sorts => sorter(site, &cage)?,
    };
    let pager = beside.map(|kind| Pager::start_in(site, &cage, kind, PAGER_BYTES)).transpose()?;
    Ok((neighbour, pager))
}

/// Has `step` done again and again for the length of a batch. It returns how many times it did what
/// counts.
fn repeated(
    step: &mut impl FnMut() -> Result<u64, CaseError>,
) -> Result<[u64; FIGURES], CaseError> {
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed() < BATCH {
        done += step()?;
    }
    Ok([done, begun.elapsed().as_nanos() as u64, 0])
}

fn toucher(site: &Site, cage: &Rc<Cage>) -> Result<Caged, CaseError> {
    let own_bytes = OWN_PAGES * PAGE_BYTES;
    Caged::start(site, cage, || {
        let file = scratch_file(site)?;
        rustix::fs::ftruncate(&file, own_bytes as u64)?;
        let map = SharedPages::of_file(&file, own_bytes)?;
        let mut touched = vec![0_u32; OWN_PAGES];
        let mut random = Random::new(1980);
        let mut touch = move |page: usize| {
            let (at, mut found) = (page * PAGE_BYTES, [0; 4]);
            map.copy_out(at, &mut found);
            let expected = touched[page];
            touched[page] = expected.wrapping_add(1);
            map.copy_in(at, &touched[page].to_le_bytes());
            match u32::from_le_bytes(found) == expected {
                true => Ok(()),
                false => Err(CaseError::failed("a page of the neighbour has wrong contents")),
            }
        };
        (0..OWN_PAGES).try_for_each(&mut touch)?;
        let mut touches = move || -> Result<u64, CaseError> {
            (0..64).try_for_each(|_| touch(random.below(OWN_PAGES as u64) as usize))?;
            Ok(64)
        };
        Ok(move |_| repeated(&mut touches))
    })
}

fn sorter(site: &Site, cage: &Rc<Cage>) -> Result<Caged, CaseError> {
    Caged::start(site, cage, || {
        let mut random = Random::new(1980);
        let line = |_| format!("{:016x}\n", random.next_u64());
        let text: String = (0..TEXT_LINES).map(line).collect();
        // Without a name: this process is killed.
        let mut file = tempfile::tempfile_in(&site.directory)?;
        file.write_all(text.as_bytes())?;
        let mut job = move || -> Result<u64, CaseError> {
            file.rewind()?;
            let ended = Command::new("sh")
                .args(["-c", "sort | gzip > /dev/null"])
                .stdin(file.try_clone()?)
                .env("LC_ALL", "C")
                .status()?;
            if ended.success() { Ok(1) } else { Err(CaseError::failed("sort or gzip failed")) }
        };
        Ok(move |_| repeated(&mut job))
    })
}
