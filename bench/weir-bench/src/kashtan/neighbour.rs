//! What a neighbour notices of a program that pages: another program touches pages of its own, which
//! fit into the memory that both have together.
//!
//! Joy (1980) put a workload beside the paging programs to see that it did not change, and found that
//! prepaging of more than two pages harmed the others. Here both are children in one memory cgroup,
//! whose limit is the pager's share and the neighbour's pages. The figure is the time of one of the
//! neighbour's touches while the pager walks, or while nobody does.

use super::cage::{Cage, CageSwap};
use super::caged::Caged;
use super::pager::{BATCH, Pager, SLACK_BYTES};
use super::walk::TouchOrder;
use super::{PAGE_BYTES, PAGES, PagingKind, SharedPages};
use crate::engine::load::scratch_file;
use crate::tools::prelude::*;
use std::rc::Rc;
use std::time::Instant;
use weir_policy::random::Random;

/// Pages of the neighbour: 8 MiB.
const OWN_PAGES: usize = 2_048;
/// Memory of the pager: a quarter of its pages.
const PAGER_BYTES: u64 = (PAGES * PAGE_BYTES / 4) as u64;
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

pub fn group_beside_a_pager() -> Group {
    let cases = BESIDE.map(|beside| {
        let pager = beside.map_or("nobody", PagingKind::name);
        let params = Params {
            mechanism: Some(pager.into()),
            pattern: Some(WALK.name()),
            operation: Some("neighbour".into()),
            ..Params::default()
        };
        Case {
            standard: false,
            normalise: Normalise::Never,
            size: BatchSize::Count(1),
            weight: 12.0,
            ..case(format!("neighbour of {pager}"), params, Measure::TIME, move |site| {
                touches(site, beside)
            })
        }
    });
    Group { processes: 6, twin: false, ..compared("neighbour", Sides::Free, cases.into()) }
}

fn touches(site: &Site, beside: Option<PagingKind>) -> MadeWork {
    let site = site.clone();
    let mut made: Option<(Caged, Option<Pager>)> = None;
    work(move |_| {
        let (neighbour, pager) = match &mut made {
            Some(made) => made,
            None => made.insert(start(&site, beside)?),
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
fn start(site: &Site, beside: Option<PagingKind>) -> Result<(Caged, Option<Pager>), CaseError> {
    let own_bytes = (OWN_PAGES * PAGE_BYTES) as u64;
    let swap = beside.map_or(CageSwap::None, PagingKind::swapping);
    let cage = Cage::new(site, swap, PAGER_BYTES + own_bytes + 2 * SLACK_BYTES)?;
    let cage = Rc::new(cage);
    let neighbour = Caged::start(site, &cage, || {
        let file = scratch_file(site)?;
        rustix::fs::ftruncate(&file, own_bytes)?;
        let map = SharedPages::of_file(&file, own_bytes as usize)?;
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
        Ok(move |_| {
            let (begun, mut touches) = (Instant::now(), 0);
            while begun.elapsed() < BATCH {
                for _ in 0..64 {
                    touch(random.below(OWN_PAGES as u64) as usize)?;
                }
                touches += 64;
            }
            Ok([touches, begun.elapsed().as_nanos() as u64, 0])
        })
    })?;
    let pager = beside.map(|kind| Pager::start_in(site, &cage, kind, PAGER_BYTES)).transpose()?;
    Ok((neighbour, pager))
}
