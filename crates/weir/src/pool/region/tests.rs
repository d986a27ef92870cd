//! What a region does when its file fails.

mod together;

use super::*;
use crate::memory::Faults;
use rustix::io::Errno;
use weir_sys::spill::TransferDirection;

const PAGE: u64 = 4096;
const PAGES: u64 = 64;

fn options() -> RegionOptions {
    RegionOptions::new().memory_bytes(16 * PAGE)
}

fn faulty() -> (PageTransfers, Faults) {
    PageTransfers::spill(&std::env::temp_dir(), PAGES * PAGE).expect("opened").faulty()
}

fn region() -> (Region, Faults) {
    let (transfers, faults) = faulty();
    let region = Region::with(PAGES * PAGE, &options(), transfers, false).expect("made");
    (region, faults)
}

fn write(region: &Region, page: u64, value: u64) -> Result<()> {
    region.write_at(page * PAGE + 8, &value.to_le_bytes())
}

fn read(region: &Region, page: u64) -> Result<u64> {
    region.read_array(page * PAGE + 8).map(u64::from_le_bytes)
}

#[test]
fn a_full_device_is_an_error_and_nothing_is_lost() {
    let (region, faults) = region();
    faults.fail_all(TransferDirection::ToDisk, Some(Errno::NOSPC));
    let mut written = Vec::new();
    for page in 0..PAGES {
        match write(&region, page, page + 1) {
            Ok(()) => written.push(page),
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.starts_with("cannot write a page of the region's file: No space"),
                    "{text}"
                );
                assert_eq!(error.kind(), ErrorKind::Os);
            }
        }
    }
    assert!((8..=16).contains(&written.len()), "{written:?}");
    for page in &written {
        assert_eq!(read(&region, *page).expect("in memory"), page + 1);
    }
    assert!(region.flush().is_err());
    assert!(region.account().failures > 0);
    faults.fail_all(TransferDirection::ToDisk, None);
    for page in 0..PAGES {
        if !written.contains(&page) {
            assert_eq!(read(&region, page).expect("there is space again"), 0);
        }
    }
    region.flush().expect("flushed");
    for page in written {
        assert_eq!(read(&region, page).expect("read back"), page + 1);
    }
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_and_never_zeros() {
    let (region, faults) = region();
    (0..PAGES).for_each(|page| write(&region, page, page + 1).expect("written"));
    faults.fail_all(TransferDirection::FromDisk, Some(Errno::IO));
    let mut failed = 0;
    for page in 0..PAGES {
        match read(&region, page) {
            Ok(value) => assert_eq!(value, page + 1),
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with("cannot read a page of the region's file: "), "{text}");
                failed += 1;
            }
        }
    }
    assert!(failed >= PAGES - 16, "{failed} pages failed");
    faults.fail_all(TransferDirection::FromDisk, None);
    (0..PAGES).for_each(|page| assert_eq!(read(&region, page).expect("read"), page + 1));
}

#[test]
fn single_failures_are_tried_again() {
    let (region, faults) = region();
    for round in 0..20 {
        faults.fail_after(round % 5, TransferDirection::ToDisk, Errno::IO);
        faults.fail_after(round % 7, TransferDirection::FromDisk, Errno::IO);
        for page in 0..PAGES {
            while write(&region, page, round * 1000 + page).is_err() {}
        }
        for page in 0..PAGES {
            let value = loop {
                if let Ok(value) = read(&region, page) {
                    break value;
                }
            };
            assert_eq!(value, round * 1000 + page);
        }
    }
}

/// A device that works again within a second harms no mapped region; the toucher waits.
#[test]
fn a_mapped_region_waits_for_a_device_that_fails_for_a_while() {
    let memory = RegionMemory::new((PAGES * PAGE) as usize).expect("memory");
    let front = match crate::memory::RegionFront::new(&memory) {
        Ok(front) => front,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let (transfers, faults) = faulty();
    let bytes = (PAGES * PAGE) as usize;
    let made = MappedRegion::with(bytes, &options(), (memory, front), transfers, false);
    let mut region = made.expect("made");
    faults.fail_all(TransferDirection::ToDisk, Some(Errno::NOSPC));
    std::thread::scope(|scope| {
        let faults = &faults;
        scope.spawn(move || {
            while faults.started(TransferDirection::ToDisk) < 3 {
                std::thread::yield_now();
            }
            faults.fail_all(TransferDirection::ToDisk, None);
        });
        for (page, bytes) in region.chunks_mut(PAGE as usize).enumerate() {
            bytes.fill(page as u8 + 1);
        }
    });
    for (page, bytes) in region.chunks(PAGE as usize).enumerate() {
        assert!(bytes.iter().all(|byte| *byte == page as u8 + 1), "page {page}");
    }
    assert!(region.account().failures >= 3);
}
