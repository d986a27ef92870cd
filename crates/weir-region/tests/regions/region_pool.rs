//! What regions promise that take their memory from a pool: together they stay within its budget,
//! they get and give memory as they need it, and streams of the pool continue beside them.

use crate::common::{self, Random, say, start};
use crate::regions::pool_bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir::{ErrorKind, Pool, PoolOptions};
use weir_region::{ExclusiveFile, MappedRegion, Region, RegionOptions};

const PAGE: u64 = 4096;

fn pool(bytes: u64) -> Pool {
    Pool::new(&PoolOptions::new().memory_bytes(bytes).frame_bytes(64 << 10)).expect("a pool")
}

fn region(pool: &Pool, bytes: u64) -> Region {
    Region::new(bytes, &RegionOptions::new().pool(pool)).expect("a region")
}

/// Writes a number into random pages and checks what was there.
fn churn(region: &Region, seed: u64, pages: u64, rounds: u64) {
    let mut random = Random(seed);
    let mut copy = vec![0_u64; pages as usize];
    for round in 1..=rounds {
        let page = random.below(pages);
        let found = u64::from_le_bytes(region.read_array(page * PAGE + 8).expect("read"));
        assert_eq!(found, copy[page as usize], "page {page}, round {round}");
        copy[page as usize] = round;
        region.write_at(page * PAGE + 8, &round.to_le_bytes()).expect("written");
    }
}

/// A region that had not been touched showed no budget, one of a broken page showed all of that page,
/// and pages that came unasked were shown after the next fault.
#[test]
fn others_see_what_a_region_has() {
    let seen = |bytes: u64| {
        let mut all = weir::stat::regions().into_iter();
        let found = all.find(|one| one.pid == std::process::id() && one.region_bytes == bytes);
        let found = found.expect("it is as long as it is");
        (found.budget_bytes, found.memory_bytes)
    };
    let options = RegionOptions::new().memory_bytes(64 << 10).most_bytes(1 << 20);
    let alone = Region::new(123_457, &options).expect("a region");
    assert_eq!(seen(123_457), (64 << 10, 0));
    alone.will_need(0, 8 * PAGE).expect("it comes");
    assert_eq!(seen(123_457), (64 << 10, 8 * PAGE));
    alone.grow(223_457).expect("longer");
    alone.bring_back(&[(16 * PAGE, PAGE)]).expect("it comes");
    assert_eq!(seen(223_457), (64 << 10, 9 * PAGE));
    let pooled = region(&pool(1 << 20), 323_457);
    assert_eq!(seen(pooled.len()), (64 << 10, 0), "a frame of the pool");
}

#[test]
fn regions_and_streams_share_one_budget() {
    let budget = 2 << 20;
    let pool = pool(budget);
    let regions: Vec<Region> = (0..3).map(|_| region(&pool, 4 << 20)).collect();
    let mut mapped = MappedRegion::new(4 << 20, &RegionOptions::new().pool(&pool)).expect("made");
    let (mut writer, mut reader) = pool.backlog().expect("a stream");
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (at, region) in regions.iter().enumerate() {
            scope.spawn(move || churn(region, at as u64 + 1, 1024, 3_000));
        }
        scope.spawn(|| {
            for round in 0..4_u8 {
                for at in (0..mapped.len()).step_by(PAGE as usize) {
                    assert_eq!(mapped[at], round);
                    mapped[at] = round + 1;
                }
            }
        });
        scope.spawn(move || {
            for at in 0..(1_u32 << 20) {
                writer.write(&at.to_le_bytes()).expect("put");
            }
        });
        scope.spawn(|| {
            let mut word = [0; 4];
            for at in 0..(1_u32 << 20) {
                std::io::Read::read_exact(&mut reader, &mut word).expect("taken");
                assert_eq!(u32::from_le_bytes(word), at);
                if at % 4096 == 0 {
                    most.fetch_max(pool.account().memory_bytes, Ordering::Relaxed);
                }
            }
        });
    });
    let account = pool.account();
    assert!(account.most_memory_bytes <= budget, "{account:?}");
    assert!(account.lent_bytes > 0, "{account:?}");
    let sum: u64 = regions.iter().map(|region| region.account().memory_bytes).sum();
    assert!(sum + mapped.account().memory_bytes <= account.lent_bytes, "{account:?}");
    drop((regions, mapped));
    // The thread that decides may be the last to have one.
    let begun = Instant::now();
    while pool.account().lent_bytes > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", pool.account());
        std::thread::yield_now();
    }
}

#[test]
fn a_region_gets_what_others_do_not_use() {
    let pool = pool(4 << 20);
    let idle = region(&pool, 8 << 20);
    churn(&idle, 1, 2048, 3_000);
    assert!(idle.account().memory_bytes > 2 << 20, "{:?}", idle.account());
    let busy = region(&pool, 3 << 20);
    let begun = Instant::now();
    let mut round = 0_u64;
    // In the end it has all that it needs.
    while busy.account().memory_bytes < 2 << 20 {
        for page in 0..700 {
            busy.write_at(page * PAGE, &round.to_le_bytes()).expect("written");
        }
        round += 1;
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", busy.account());
    }
    assert!(pool.account().most_memory_bytes <= 4 << 20);
}

#[test]
fn a_stream_gets_memory_that_regions_have() {
    let pool = pool(2 << 20);
    let region = region(&pool, 8 << 20);
    churn(&region, 1, 2048, 3_000);
    let before = pool.account();
    assert!(before.lent_bytes > 1 << 20, "{before:?}");
    let (mut writer, mut reader) = pool.backlog().expect("a stream");
    let sender = std::thread::spawn(move || writer.write(&vec![7; 8 << 20]).map(drop));
    sender.join().expect("no panic").expect("written");
    let mut found = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut found).expect("read");
    assert!(found.len() == 8 << 20 && found.iter().all(|byte| *byte == 7));
    churn(&self::region(&pool, 1 << 20), 3, 256, 500);
    assert!(pool.account().most_memory_bytes <= 2 << 20);
}

/// A frame holds sixteen pages, so each region has one at least. When all frames are taken, a new
/// region waits for another to go, and in vain for ten seconds.
#[test]
fn a_region_that_finds_no_memory_waits_and_then_fails() {
    let pool = pool(1 << 20);
    let options = RegionOptions::new().pool(&pool);
    let begun = Instant::now();
    let mut regions = Vec::new();
    let error = loop {
        match Region::new(1 << 20, &options) {
            Ok(region) => regions.push(region),
            Err(error) => break error,
        }
        assert!(regions.len() <= 16, "more regions than frames");
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(begun.elapsed() >= Duration::from_secs(10) && regions.len() >= 4, "{}", regions.len());
    let lent_bytes = pool.account().lent_bytes;
    assert!(lent_bytes >= regions.len() as u64 * 8 * PAGE, "{lent_bytes}");
    assert_eq!(lent_bytes % (64 << 10), 0, "whole frames");
    for (at, region) in regions.iter().enumerate() {
        churn(region, at as u64, 256, 300);
    }
    // Once one has gone, there is room again.
    regions.pop();
    Region::new(1 << 20, &options).expect("the memory of the one that went");
}

/// Touches each page of its working set again and again, until all have done so often enough.
fn go_round(region: &Region, pages: u64, until: &AtomicU64, rounds: u64) -> u64 {
    let mut done = 0;
    while done < rounds || until.load(Ordering::Relaxed) > 0 {
        for page in 0..pages {
            let at = page * 37 % pages * PAGE;
            let found = u64::from_le_bytes(region.read_array(at).expect("read"));
            assert_eq!(found, done, "page {page}");
            region.write_at(at, &(found + 1).to_le_bytes()).expect("written");
        }
        done += 1;
        if done == rounds {
            until.fetch_sub(1, Ordering::Relaxed);
        }
    }
    done
}

#[test]
fn regions_that_thrash_go_out_in_turn_and_all_get_on() {
    const PAGES: u64 = 2048;
    let budget = 3 * PAGES * PAGE;
    let pool = pool(budget);
    let regions: Vec<Region> = (0..8).map(|_| region(&pool, PAGES * PAGE)).collect();
    let left = AtomicU64::new(regions.len() as u64);
    let done = std::thread::scope(|scope| {
        let left = &left;
        let go = |region| scope.spawn(move || go_round(region, PAGES, left, 10));
        let threads: Vec<_> = regions.iter().map(go).collect();
        threads.into_iter().map(|thread| thread.join().expect("right")).collect::<Vec<_>>()
    });
    let swapped = regions.iter().map(|region| region.account().swapped);
    println!("{done:?} rounds, swapped {:?}", swapped.clone().collect::<Vec<_>>());
    assert!(swapped.sum::<u64>() > 0, "{done:?}");
    assert!(pool.account().most_memory_bytes <= budget);
}

#[test]
fn a_working_set_is_brought_back_after_a_start() {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(8 << 20).expect("longer");
    let options = RegionOptions::new().memory_bytes(4 << 20);
    let over = || Region::over(file.try_clone().expect("a copy"), &options).expect("made");
    // Runs of four pages, in no order.
    let page = |at: u64| at / 4 * 37 % 512 * 4 + at % 4;
    let touched: Vec<u64> = (0..300).map(|at| page(at) * PAGE).collect();
    let first = over();
    touched.iter().for_each(|at| first.write_at(*at, &at.to_le_bytes()).expect("written"));
    let set = first.working_set().expect("asked");
    assert!(set.iter().map(|(_, bytes)| bytes).sum::<u64>() == first.account().memory_bytes);
    drop(first);
    let second = over();
    // A set from elsewhere does no harm.
    second.bring_back(&[(u64::MAX, 5), (1 << 40, u64::MAX), (0, 0)]).expect("nothing");
    assert_eq!(second.account().reads, 0);
    second.bring_back(&set).expect("brought");
    let before = second.account();
    assert!(before.reads > 0 && before.reads < 150, "{before:?}");
    for at in &touched {
        assert_eq!(u64::from_le_bytes(second.read_array(*at).expect("read")), *at);
    }
    assert_eq!(second.account().hard_faults, 0);
    drop(second);
    // SAFETY: nobody else uses the file from here on.
    let file = unsafe { ExclusiveFile::new(file) };
    let mapped = MappedRegion::over(file, &options);
    let Ok(mapped) = mapped else { return println!("SKIPPED: no userfaultfd") };
    mapped.bring_back(&set).expect("brought");
    touched.iter().for_each(|at| assert_eq!(mapped[*at as usize..][..8], at.to_le_bytes()));
    assert_eq!(mapped.account().hard_faults, 0);
}

const WATCHED: u64 = 2 << 20;

#[test]
fn the_kernel_counts_no_more_than_the_budget() {
    let (mut child, socket) = start("load");
    let process = rustix::process::Pid::from_child(&child);
    assert_eq!(common::hear(&socket), b"begun");
    let mut most = 0;
    for _ in 0..200 {
        common::stop(process);
        most = most.max(pool_bytes(child.id()));
        rustix::process::kill_process(process, rustix::process::Signal::CONT).expect("continued");
        // sleep: it continues for a while before the next look.
        std::thread::sleep(Duration::from_millis(5));
    }
    common::kill(&mut child);
    assert!((WATCHED / 2..=WATCHED).contains(&most), "{most}");
}

/// The other process of a test.
#[test]
fn in_a_role() {
    if common::role().as_deref() != Some("load") {
        return;
    }
    let pool = pool(WATCHED);
    let regions: Vec<Region> = (0..3).map(|_| region(&pool, 4 << 20)).collect();
    let options = RegionOptions::new().pool(&pool);
    let mut mapped = MappedRegion::new(4 << 20, &options).expect("made");
    say(std::io::stdin(), b"begun");
    std::thread::scope(|scope| {
        for region in &regions {
            scope.spawn(move || {
                loop {
                    (0..1024).for_each(|page| region.write_at(page * PAGE, &[1]).expect("written"));
                }
            });
        }
        scope.spawn(|| {
            loop {
                (0..mapped.len())
                    .step_by(PAGE as usize)
                    .for_each(|at| mapped[at] = mapped[at].wrapping_add(1));
            }
        });
        loop {
            let (mut writer, mut reader) = pool.backlog().expect("a stream");
            writer.write(&vec![1; 4 << 20]).expect("put");
            drop(writer);
            std::io::copy(&mut reader, &mut std::io::sink()).expect("taken");
        }
    });
}
