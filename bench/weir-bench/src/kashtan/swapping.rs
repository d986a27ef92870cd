//! `joy-swap`: eight regions in one pool whose working sets do not fit together. Pages alone go, or
//! whole regions in turn, chosen by one of three rules.
//!
//! A child in a memory cgroup has eight regions of 2 to 14 MiB in a pool that could hold three eighths
//! of them. A thread for each region touches all of its pages again and again, in an order that is not
//! the file's, and checks how often each was touched. The figures are pages a second of all regions,
//! and of the one that got least. Joy (1980) swaps out the oldest of the n largest jobs.

use super::PAGE_BYTES;
use super::cage::{Cage, CageSwap};
use super::caged::{Caged, FIGURES};
use super::pager::SLACK_BYTES;
use crate::tools::own::trouble;
use crate::tools::prelude::*;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir::{Pool, PoolOptions};
use weir_region::{Region, RegionOptions};

const REGIONS: usize = 8;
/// The regions in MiB. All fit into the pool alone, and no three of the four largest together.
const SIZES: [u64; REGIONS] = [2, 4, 6, 8, 8, 10, 12, 14];
const ALL_BYTES: u64 = 64 << 20;
const POOL_BYTES: u64 = ALL_BYTES * 3 / 8;
/// Several turns of regions that go out whole, each of a second at least. Tests have shorter ones.
const BATCH_MS: u64 = 4_000;
const BATCH_VARIABLE: &str = "WEIR_BENCH_SWAP_MS";
/// A batch, and one that does not count.
const WEIGHT: f64 = 400.0;
/// Coprime to the pages of each region, so that each page has its turn.
const STRIDE: u64 = 37;

/// The rules: among how many of the largest the oldest goes; none has pages alone going.
const RULES: [(&str, Option<u32>); 4] = [
    ("the oldest of the 4 largest", Some(4)),
    ("the oldest", Some(REGIONS as u32)),
    ("the largest", Some(1)),
    ("pages alone", None),
];

pub fn suite() -> Suite {
    let cases = RULES.map(|(name, largest)| {
        let params = Params {
            mechanism: Some("weir-region".into()),
            operation: Some(name.into()),
            parties: Some(REGIONS as u64),
            memory_share: Some(POOL_BYTES as f64 / ALL_BYTES as f64),
            working_set_bytes: Some(ALL_BYTES),
            ..Params::default()
        };
        let measures = vec![
            Measure::new("pages", Unit::PerSecond),
            Measure::new("least of a region", Unit::PerSecond),
        ];
        Case {
            measures,
            standard: false,
            normalise: Normalise::Never,
            size: BatchSize::Count(1),
            weight: WEIGHT,
            ..case(format!("eight regions, {name} goes"), params, Measure::TIME, move |site| {
                touches(site, largest)
            })
        }
    });
    Suite {
        name: "joy-swap",
        about: "Regions whose working sets do not fit together: pages go, or whole regions in turn.",
        source: "W. Joy, March 1980, on swapping the oldest of the largest jobs",
        groups: vec![Group {
            processes: 6,
            twin: false,
            ..compared("eight regions", Sides::Free, cases.into())
        }],
    }
}

fn touches(site: &Site, largest: Option<u32>) -> MadeWork {
    let site = site.clone();
    let mut child: Option<Caged> = None;
    work(move |_| {
        let child = match &mut child {
            Some(child) => child,
            None => child.insert(start(&site, largest)?),
        };
        child.begin(0)?;
        let [all, least, elapsed_ns] = child.end()?;
        let elapsed_s = elapsed_ns as f64 / 1e9;
        let values = vec![all as f64 / elapsed_s, least as f64 / elapsed_s];
        Ok(Batch { values, ..Batch::time(elapsed_ns as f64, 1) })
    })
}

fn start(site: &Site, largest: Option<u32>) -> Result<Caged, CaseError> {
    // The regions' memory, and as much again for what the kernel keeps of their file.
    let cage = Rc::new(Cage::new(site, CageSwap::None, 2 * POOL_BYTES + SLACK_BYTES)?);
    Caged::start(site, &cage, || {
        let options = PoolOptions::new()
            .memory_bytes(POOL_BYTES)
            .spill_directory(&site.directory)
            .swap_regions(largest.is_some())
            .swap_largest(largest.unwrap_or(1));
        let pool = Pool::new(&options).map_err(trouble)?;
        let options = RegionOptions::new().pool(&pool).spill_directory(&site.directory);
        let made = SIZES
            .map(|size| size << 20)
            .into_iter()
            .map(|bytes| Region::new(bytes, &options.clone().memory_bytes(bytes)).map_err(trouble));
        let regions = made.collect::<Result<Vec<_>, _>>()?;
        let mut touched = [0; REGIONS];
        let mut batch = move || touch_all(&regions, &mut touched);
        batch()?;
        Ok(move |_| batch())
    })
}

/// Has a thread for each region touch pages until the batch is over. Returns how many were touched, the
/// least of a region, and the time.
fn touch_all(
    regions: &[Region],
    touched: &mut [u64; REGIONS],
) -> Result<[u64; FIGURES], CaseError> {
    let over = AtomicBool::new(false);
    let asked_ms = std::env::var(BATCH_VARIABLE).ok().and_then(|ms| ms.parse().ok());
    let before = *touched;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let over = &over;
        let threads: Vec<_> = regions
            .iter()
            .zip(touched.iter_mut())
            .map(|(region, touched)| scope.spawn(move || touch(region, touched, over)))
            .collect();
        // sleep: the length of the batch.
        std::thread::sleep(Duration::from_millis(asked_ms.unwrap_or(BATCH_MS)));
        over.store(true, Ordering::Relaxed);
        let died = |_| CaseError::failed("a thread that touches pages died");
        threads.into_iter().try_for_each(|thread| thread.join().map_err(died)?)
    })?;
    let elapsed_ns = begun.elapsed().as_nanos() as u64;
    let each = touched.iter().zip(before).map(|(after, before)| after - before);
    let least = each.clone().min().unwrap_or(0);
    Ok([each.sum(), least, elapsed_ns])
}

/// Touches pages until it is over; `touched` counts them from the beginning.
fn touch(region: &Region, touched: &mut u64, over: &AtomicBool) -> Result<(), CaseError> {
    let pages = region.len() / PAGE_BYTES as u64;
    while !over.load(Ordering::Relaxed) {
        let (at, round) = (*touched * STRIDE % pages * PAGE_BYTES as u64, *touched / pages);
        let found: [u8; 8] = region.read_array(at).map_err(trouble)?;
        if u64::from_le_bytes(found) != round {
            return Err(CaseError::failed(format!(
                "the page at {at} came back with wrong contents"
            )));
        }
        region.write_at(at, &(round + 1).to_le_bytes()).map_err(trouble)?;
        *touched += 1;
    }
    Ok(())
}
