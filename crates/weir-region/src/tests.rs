//! What a region does when its file fails.

mod together;

use super::*;
use crate::memory::tests::faulty::Faults;
use rustix::io::Errno;
use std::os::unix::fs::FileExt;
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

/// A page that was written to on its way to the file was not written once more: a flush left the old
/// bytes in the user's file, and so did the drop, with which the new ones were lost.
#[test]
fn a_flush_writes_what_was_changed_on_its_way_out() {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(PAGES * PAGE).expect("set");
    let shared = file.try_clone().expect("cloned");
    let (transfers, faults) = PageTransfers::over(shared, PAGES * PAGE).expect("opened").faulty();
    let region = Region::with(PAGES * PAGE, &options(), transfers, true).expect("made");
    let mut expected = [0; PAGES as usize];
    let mut put = |page: u64, value: u64| {
        expected[page as usize] = value;
        write(&region, page, value).expect("written");
    };
    faults.hold(TransferDirection::ToDisk, true);
    let mut pages = 0..PAGES;
    while faults.started(TransferDirection::ToDisk) == 0 {
        let page = pages.next().expect("some go before all have come");
        put(page, page + 1);
    }
    let contents = || {
        let mut found = vec![0; (PAGES * PAGE) as usize];
        file.read_exact_at(&mut found, 0).expect("read");
        found
    };
    // The old bytes are in the file, and the region has not been told yet.
    while contents().iter().all(|byte| *byte == 0) {
        std::thread::yield_now();
    }
    for (at, bytes) in region.working_set().expect("asked") {
        (at / PAGE..(at + bytes) / PAGE).for_each(|page| put(page, page + 1001));
    }
    faults.hold(TransferDirection::ToDisk, false);
    region.flush().expect("flushed");
    let found = contents();
    for (page, value) in (0..).zip(expected) {
        let at = page * PAGE as usize + 8;
        assert_eq!(found[at..at + 8], value.to_le_bytes(), "page {page}");
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
