//! What regions in a pool, and shared ones, do when a file fails.

use super::*;
use crate::memory::RegionFront;
use std::time::{Duration, Instant};
use weir::{Pool, PoolOptions};

const CAUSES: [Errno; 2] = [Errno::NOSPC, Errno::IO];
const FRAME: u64 = 4 * PAGE;
/// Four times what one region may have of it.
const POOL: u64 = 64 * PAGE;

/// What the kinds of regions with calls have in common.
trait Calls {
    fn put(&self, page: u64, value: u64) -> Result<()>;
    fn get(&self, page: u64) -> Result<u64>;
    fn write_back(&self) -> Result<()>;
    fn counts(&self) -> RegionAccount;
}

macro_rules! calls {
    ($kind:ty) => {
        impl Calls for $kind {
            fn put(&self, page: u64, value: u64) -> Result<()> {
                self.write_at(page * PAGE + 8, &value.to_le_bytes())
            }

            fn get(&self, page: u64) -> Result<u64> {
                let mut found = [0xee; 8];
                self.read_at(page * PAGE + 8, &mut found)?;
                Ok(u64::from_le_bytes(found))
            }

            fn write_back(&self) -> Result<()> {
                self.flush()
            }

            fn counts(&self) -> RegionAccount {
                self.account()
            }
        }
    };
}

calls!(Region);
calls!(SharedRegion);

fn pool() -> Pool {
    let options = PoolOptions::new().memory_bytes(POOL).frame_bytes(FRAME);
    Pool::new(&options.spill_directory(std::env::temp_dir())).expect("a pool")
}

fn pooled(pool: Option<&Pool>) -> RegionOptions {
    pool.into_iter().fold(options(), |options, pool| options.pool(pool))
}

fn shared(pool: Option<&Pool>) -> (SharedRegion, Faults) {
    let (transfers, faults) = faulty();
    let region = SharedRegion::with(PAGES * PAGE, &pooled(pool), transfers, false);
    (region.expect("made"), faults)
}

/// Each kind of region with calls that others can be harmed by, and its pool.
fn all_kinds(mut each: impl FnMut(&dyn Calls, &Faults, Option<&Pool>)) {
    for (is_shared, is_pooled) in [(false, true), (true, false), (true, true)] {
        let pool = is_pooled.then(pool);
        if is_shared {
            let (region, faults) = shared(pool.as_ref());
            each(&region, &faults, pool.as_ref());
        } else {
            let (transfers, faults) = faulty();
            let region = Region::with(PAGES * PAGE, &pooled(pool.as_ref()), transfers, false);
            each(&region.expect("made"), &faults, pool.as_ref());
        }
    }
}

/// A region and a stream of the pool work as if nothing were wrong with another region's file.
fn others_get_on(pool: &Pool) {
    let region = Region::new(PAGES * PAGE, &pooled(Some(pool))).expect("made");
    (0..PAGES).for_each(|page| region.put(page, page + 7).expect("written"));
    let (mut writer, mut reader) = pool.backlog().expect("a stream");
    writer.write(&vec![5; (2 * POOL) as usize]).expect("put");
    drop(writer);
    let mut found = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut found).expect("taken");
    assert!(found.len() as u64 == 2 * POOL && found.iter().all(|byte| *byte == 5));
    (0..PAGES).for_each(|page| assert_eq!(region.get(page).expect("read"), page + 7));
}

#[test]
fn a_device_that_takes_nothing_loses_nothing_and_harms_no_other_region() {
    for cause in CAUSES {
        all_kinds(|region, faults, pool| {
            faults.fail_all(TransferDirection::ToDisk, Some(cause));
            let mut written = Vec::new();
            for page in 0..PAGES {
                match region.put(page, page + 1) {
                    Ok(()) => written.push(page),
                    Err(error) => {
                        let text = error.to_string();
                        let begin = "cannot write a page of the region's file: ";
                        assert!(text.starts_with(begin), "{text}");
                        assert_eq!(error.kind(), ErrorKind::Os);
                    }
                }
            }
            assert!((8..=16).contains(&written.len()), "{written:?}");
            pool.into_iter().for_each(others_get_on);
            for page in &written {
                assert_eq!(region.get(*page).expect("in memory"), page + 1);
            }
            assert!(region.write_back().is_err());
            assert!(region.counts().failures > 0);
            faults.fail_all(TransferDirection::ToDisk, None);
            for page in 0..PAGES {
                let expected = if written.contains(&page) { page + 1 } else { 0 };
                assert_eq!(region.get(page).expect("there is space again"), expected);
            }
            region.write_back().expect("flushed");
            assert!(region.counts().most_memory_bytes <= 16 * PAGE);
            pool.into_iter().for_each(|pool| {
                let account = pool.account();
                assert!(account.most_memory_bytes <= POOL, "{account:?}");
            });
        });
    }
}

#[test]
fn a_page_that_cannot_be_read_is_never_zeros_in_any_kind() {
    all_kinds(|region, faults, pool| {
        (0..PAGES).for_each(|page| region.put(page, page + 1).expect("written"));
        faults.fail_all(TransferDirection::FromDisk, Some(Errno::IO));
        let mut failed = 0;
        for page in 0..PAGES {
            match region.get(page) {
                Ok(value) => assert_eq!(value, page + 1),
                Err(error) => {
                    let text = error.to_string();
                    let begin = "cannot read a page of the region's file: ";
                    assert!(text.starts_with(begin), "{text}");
                    failed += 1;
                }
            }
        }
        assert!(failed >= PAGES - 16, "{failed} pages failed");
        pool.into_iter().for_each(others_get_on);
        faults.fail_all(TransferDirection::FromDisk, None);
        (0..PAGES).for_each(|page| assert_eq!(region.get(page).expect("read"), page + 1));
    });
}

#[test]
fn single_failures_are_tried_again_in_any_kind() {
    all_kinds(|region, faults, _| {
        for round in 0..20 {
            faults.fail_after(round % 5, TransferDirection::ToDisk, Errno::NOSPC);
            faults.fail_after(round % 7, TransferDirection::FromDisk, Errno::IO);
            for page in 0..PAGES {
                while region.put(page, round * 1000 + page).is_err() {}
            }
            for page in 0..PAGES {
                let value = loop {
                    if let Ok(value) = region.get(page) {
                        break value;
                    }
                };
                assert_eq!(value, round * 1000 + page);
            }
        }
    });
}

/// All of a pool's memory is in a region whose pages cannot be written: a stream waits, a new region
/// fails, and both get memory when the device works again.
#[test]
fn memory_that_cannot_be_written_comes_back_to_the_pool_when_it_can() {
    let pool = pool();
    let (transfers, faults) = faulty();
    let options = RegionOptions::new().memory_bytes(POOL).pool(&pool);
    let region = Region::with(PAGES * PAGE, &options, transfers, false).expect("made");
    faults.fail_all(TransferDirection::ToDisk, Some(Errno::NOSPC));
    let written: Vec<u64> = (0..PAGES).filter(|page| region.put(*page, page + 1).is_ok()).collect();
    // One frame is kept for readers of streams.
    assert!(written.len() as u64 >= PAGES / 2, "{}", written.len());
    let refused = Region::new(4 * POOL, &pooled(Some(&pool))).expect_err("there is no memory");
    assert_eq!(refused.kind(), ErrorKind::TimedOut, "{refused}");
    let (mut writer, mut reader) = pool.backlog().expect("a stream");
    std::thread::scope(|scope| {
        let put = move || writer.write(&vec![5; (2 * POOL) as usize]).map(drop).expect("put");
        let sender = scope.spawn(put);
        while faults.started(TransferDirection::ToDisk) < 20 {
            let _ = region.flush();
        }
        faults.fail_all(TransferDirection::ToDisk, None);
        let begun = Instant::now();
        while !sender.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", pool.account());
            std::thread::yield_now();
        }
    });
    let mut found = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut found).expect("taken");
    assert!(found.len() as u64 == 2 * POOL && found.iter().all(|byte| *byte == 5));
    written.iter().for_each(|page| assert_eq!(region.get(*page).expect("read"), page + 1));
    drop(Region::new(4 * POOL, &pooled(Some(&pool))).expect("there is memory again"));
    assert!(pool.account().most_memory_bytes <= POOL);
}

/// Lets a device fail until it was asked three times, while `touch` touches pages.
fn fails_for_a_while(faults: &Faults, touch: impl FnOnce()) {
    faults.fail_all(TransferDirection::ToDisk, Some(Errno::IO));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while faults.started(TransferDirection::ToDisk) < 3 {
                std::thread::yield_now();
            }
            faults.fail_all(TransferDirection::ToDisk, None);
        });
        touch();
    });
}

/// A device that works again within a second harms neither a mapped region in a pool nor a member.
#[test]
fn touches_wait_for_a_device_that_fails_for_a_while() {
    let memory = RegionMemory::new((PAGES * PAGE) as usize).expect("memory");
    let front = match RegionFront::new(&memory) {
        Ok(front) => front,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let pool = pool();
    let ((transfers, faults), bytes) = (faulty(), (PAGES * PAGE) as usize);
    let made = MappedRegion::with(bytes, &pooled(Some(&pool)), (memory, front), transfers, false);
    let mut mapped = made.expect("made");
    fails_for_a_while(&faults, || {
        let pages = mapped.chunks_mut(PAGE as usize).enumerate();
        pages.for_each(|(page, bytes)| bytes.fill(page as u8 + 1));
    });
    for (page, bytes) in mapped.chunks(PAGE as usize).enumerate() {
        assert!(bytes.iter().all(|byte| *byte == page as u8 + 1), "page {page}");
    }
    assert!(mapped.account().failures >= 3);
    for is_pooled in [false, true] {
        let (region, faults) = shared(is_pooled.then_some(&pool));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let member = std::thread::scope(|scope| {
            let joins = scope.spawn(|| SharedRegionMember::join(theirs));
            region.admit(ours).expect("admitted");
            joins.join().expect("no panic").expect("joined")
        });
        fails_for_a_while(&faults, || {
            for page in 0..PAGES {
                member.write_at(page * PAGE + 8, &(page + 1).to_le_bytes()).expect("written");
            }
        });
        for page in 0..PAGES {
            let mut found = [0; 8];
            member.read_at(page * PAGE + 8, &mut found).expect("read");
            assert_eq!(u64::from_le_bytes(found), page + 1);
            assert_eq!(region.get(page).expect("read"), page + 1);
        }
        assert!(region.account().failures >= 3);
    }
}
