//! What a region promises: bytes come back as they were written, memory stays within the budget, and
//! a user's file has what was written.

use crate::common::{self, Random, say, start, until};
use crate::regions::region_bytes;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::Command;
use std::time::{Duration, Instant};
use weir::ErrorKind;
use weir_region::{
    ExclusiveFile, MappedRegion, PageReplacement, Region, RegionAdvice, RegionOptions,
};

const PAGE: usize = 4096;
const BYTES: usize = 4 << 20;
const LEAST: u64 = 8 * PAGE as u64;
const ADVICE: [RegionAdvice; 4] = [
    RegionAdvice::Normal,
    RegionAdvice::Sequential,
    RegionAdvice::Random,
    RegionAdvice::NoReference,
];

fn options(memory_bytes: u64) -> RegionOptions {
    RegionOptions::new().memory_bytes(memory_bytes)
}

fn mapped(bytes: usize, options: &RegionOptions) -> MappedRegion {
    MappedRegion::new(bytes, options).expect("a region")
}

/// Touches a part of a region in changing orders, and compares all that is read with a copy.
fn churn(bytes: usize, seed: usize, rounds: u32, mut touch: impl FnMut(usize, &mut [u8], bool)) {
    let mut random = Random(seed as u64 + 1);
    let mut copy = vec![0_u8; bytes];
    let (mut at, mut step) = (0, PAGE);
    for round in 0..rounds {
        match random.below(40) {
            0 => step = PAGE,
            1 => step = 1 + random.below(bytes as u64) as usize,
            2 => at = random.below(bytes as u64) as usize,
            _ => {}
        }
        at = (at + step) % bytes;
        let length = (1 + random.below(300) as usize).min(bytes - at);
        if random.below(2) == 0 {
            let value = (round as u8).wrapping_mul(31) | 1;
            copy[at..at + length].fill(value);
            touch(at, &mut vec![value; length], true);
        } else {
            let mut found = vec![0xee; length];
            touch(at, &mut found, false);
            assert!(found == copy[at..at + length], "{length} bytes at {at}, round {round}");
        }
    }
    for at in (0..bytes).step_by(PAGE) {
        let mut found = vec![0xee; PAGE.min(bytes - at)];
        touch(at, &mut found, false);
        assert!(found == copy[at..(at + PAGE).min(bytes)], "the page at {at}");
    }
}

#[test]
fn calls_read_what_was_written_last_at_any_budget_and_rule() {
    let rules = [PageReplacement::Clock, PageReplacement::Fifo, PageReplacement::Random];
    for (which, rule) in rules.into_iter().enumerate() {
        for memory in [LEAST, 100 * PAGE as u64, 600 * PAGE as u64] {
            let region =
                Region::new(BYTES as u64, &options(memory).replacement(rule)).expect("made");
            for (round, advice) in ADVICE.into_iter().enumerate() {
                region.advise(advice).expect("advised");
                // Each round has a part of its own.
                let (start, part) = (round * BYTES / 4, BYTES / 4);
                churn(part, which + round, 3_000, |at, bytes, writes| {
                    let at = (start + at) as u64;
                    let done =
                        if writes { region.write_at(at, bytes) } else { region.read_at(at, bytes) };
                    done.expect("done");
                });
            }
            let account = region.account();
            assert!(account.most_memory_bytes <= memory, "{account:?}");
            assert!(account.read_bytes > 0 && account.written_bytes > 0, "{account:?}");
        }
    }
}

#[test]
fn threads_share_a_region() {
    let region = Region::new(BYTES as u64, &options(64 * PAGE as u64)).expect("made");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let region = &region;
            scope.spawn(move || {
                let (start, part) = (thread * BYTES / 8 + 100, BYTES / 8 - 77);
                let part = part.min(BYTES - start);
                churn(part, thread, 2_000, |at, bytes, writes| {
                    let at = (start + at) as u64;
                    let done =
                        if writes { region.write_at(at, bytes) } else { region.read_at(at, bytes) };
                    done.expect("done");
                });
            });
        }
    });
}

#[test]
fn a_mapped_region_is_a_slice_of_what_was_written_last() {
    for memory in [LEAST, 100 * PAGE as u64, 600 * PAGE as u64] {
        for advice in ADVICE {
            let mut region = mapped(BYTES, &options(memory));
            region.advise(advice).expect("advised");
            churn(BYTES, 7, 3_000, |at, bytes, writes| {
                if writes {
                    region[at..at + bytes.len()].copy_from_slice(bytes);
                } else {
                    bytes.copy_from_slice(&region[at..at + bytes.len()]);
                }
            });
            let account = region.account();
            assert!(account.most_memory_bytes <= memory, "{account:?}");
            if region.mechanism().starts_with("userfaultfd") {
                assert!(account.read_bytes > 0 && account.written_bytes > 0, "{account:?}");
            } else {
                println!("SKIPPED: {}", region.mechanism());
            }
        }
    }
}

#[test]
fn threads_share_a_mapped_region() {
    for memory in [LEAST, 64 * PAGE as u64] {
        let mut region = mapped(BYTES, &options(memory));
        std::thread::scope(|scope| {
            for (thread, part) in region.chunks_mut(BYTES / 8 - 33).enumerate() {
                scope.spawn(move || {
                    churn(part.len(), thread, 800, |at, bytes, writes| {
                        if writes {
                            part[at..at + bytes.len()].copy_from_slice(bytes);
                        } else {
                            bytes.copy_from_slice(&part[at..at + bytes.len()]);
                        }
                    });
                });
            }
        });
        assert!(region.account().most_memory_bytes <= memory);
    }
}

/// The file for a mapped region.
fn sole(file: &File) -> ExclusiveFile {
    let file = file.try_clone().expect("cloned");
    // SAFETY: while these regions live, the tests only read the file or cut it off.
    unsafe { ExclusiveFile::new(file) }
}

/// A file of this many bytes, each of which says where it is.
fn file_of(bytes: usize) -> (File, Vec<u8>) {
    let mut file = tempfile::tempfile_in("/var/tmp").expect("a file");
    let contents = common::patterned(bytes, 3);
    file.write_all(&contents).expect("written");
    (file, contents)
}

fn contents_of(mut file: &File) -> Vec<u8> {
    let mut contents = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("seeked");
    file.read_to_end(&mut contents).expect("read");
    contents
}

#[test]
fn a_users_file_is_read_changed_and_keeps_its_length() {
    // Whole pages, and not.
    for bytes in [1 << 20, (1 << 20) + 1, 300 * PAGE - 511, 17] {
        let (file, mut contents) = file_of(bytes);
        let region =
            Region::over(file.try_clone().expect("cloned"), &options(LEAST)).expect("made");
        assert_eq!(region.len(), bytes as u64);
        let mut found = vec![0; bytes];
        region.read_at(0, &mut found).expect("read");
        assert!(found == contents);
        let places = [0, bytes / 2, bytes - 1];
        for at in places {
            region.write_at(at as u64, &[0xab]).expect("written");
            contents[at] = 0xab;
        }
        region.flush().expect("flushed");
        assert!(contents_of(&file) == contents, "{bytes} bytes after a flush");
        region.write_at(bytes as u64 - 1, &[0xcd]).expect("written");
        contents[bytes - 1] = 0xcd;
        drop(region);
        assert!(contents_of(&file) == contents, "{bytes} bytes after the drop");
        let region = MappedRegion::over(sole(&file), &options(LEAST));
        let mut region = match region {
            Ok(region) => region,
            Err(why) => return println!("SKIPPED: {why}"),
        };
        assert!(region[..] == contents);
        region[bytes / 3] = 0xef;
        contents[bytes / 3] = 0xef;
        region.flush().expect("flushed");
        assert!(contents_of(&file) == contents, "{bytes} bytes after a flush of a mapped one");
        region[0] = 0x12;
        contents[0] = 0x12;
        drop(region);
        assert!(contents_of(&file) == contents, "{bytes} bytes after the drop of a mapped one");
    }
}

#[test]
fn a_file_that_others_cut_off_is_an_error() {
    for bytes in [64 * PAGE, 64 * PAGE - 100] {
        let (file, _) = file_of(bytes);
        let other = file.try_clone().expect("cloned");
        let region = Region::over(file, &options(LEAST)).expect("made");
        assert_eq!(
            region.read_array::<1>(0).map(|_| ()).err().map(|error| error.to_string()),
            None
        );
        other.set_len(0).expect("cut off");
        let error = region.read_array::<8>(40 * PAGE as u64).expect_err("it is not there");
        assert!(
            error.to_string().starts_with("cannot read a page of the region's file: "),
            "{error}"
        );
    }
}

/// A dirty page beyond the new end was written back, which made the file long again with a hole. What
/// lay there was read as zeros.
#[test]
fn what_was_cut_off_is_an_error_for_ever_and_the_file_stays_short() {
    const PAGES: u64 = 128;
    for engine in ["a whole file", "an odd length"] {
        let bytes = PAGES * PAGE as u64 - u64::from(engine == "an odd length") * 100;
        let (file, _) = file_of(bytes as usize);
        let other = file.try_clone().expect("cloned");
        let region = Region::over(file, &options(LEAST)).expect("made");
        let word = |page: u64| (page + 1).to_le_bytes();
        let put = |page: u64| region.write_at(page * PAGE as u64 + 8, &word(page));
        (0..PAGES).for_each(|page| put(page).expect("written"));
        region.flush().expect("flushed");
        // Dirty pages at the end, which go to make room for the others.
        (PAGES - 4..PAGES).for_each(|page| put(page).expect("written"));
        let half = bytes / 2;
        other.set_len(half).expect("cut off");
        let mut cut = 0;
        for round in 0..3 {
            for page in (0..PAGES).rev().chain(0..PAGES) {
                match region.read_array::<8>(page * PAGE as u64 + 8) {
                    Ok(found) => assert_eq!(found, word(page), "page {page} of {engine}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Os, "{error}");
                        let text = error.to_string();
                        assert!(text.contains("others have made it shorter"), "{text}");
                        cut += u64::from(page > PAGES / 2);
                    }
                }
            }
            // Whoever makes it long again does not bring back what was in it.
            assert_eq!(other.metadata().expect("there").len(), half, "round {round}");
            let _ = put(PAGES - 1);
        }
        // All but the pages that are in memory.
        assert!(cut >= 3 * 2 * (PAGES / 2 - 10), "{cut} reads failed");
        other.set_len(bytes).expect("made long again");
        let found = region.read_array::<8>(PAGES / 2 * PAGE as u64 + PAGE as u64 * 9 + 8);
        found.expect_err("it is lost");
        region.flush().expect_err("what is dirty has no place");
        drop(region);
    }
}

/// A page that cannot be read ends its toucher, and is not zeros.
#[test]
fn a_touch_of_a_page_that_cannot_be_read_ends_in_sigbus() {
    use std::os::unix::process::ExitStatusExt;
    // The second one has dirty pages beyond the new end, which have to go first.
    for role in ["cut off", "cut off beneath dirty pages"] {
        let output = Command::new(std::env::current_exe().expect("a program"))
            .args(["--exact", &common::role_test(), "--nocapture", "--test-threads=1", "-q"])
            .env("WEIR_TEST_ROLE", role)
            .output()
            .expect("started");
        let text = String::from_utf8_lossy(&output.stdout);
        if !text.contains("SKIPPED") {
            assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{role}: {text}");
        }
    }
}

#[test]
fn what_is_written_lies_together_in_few_writes() {
    let (file, _) = file_of(BYTES);
    let region = Region::over(file, &options(1 << 20)).expect("made");
    for at in (0..BYTES).step_by(PAGE) {
        region.write_at(at as u64, &[1]).expect("written");
    }
    region.flush().expect("flushed");
    let account = region.account();
    assert_eq!(account.written_bytes, BYTES as u64);
    assert!(account.writes * 16 <= BYTES as u64 / PAGE as u64, "{account:?}");
    assert!(account.reads * 8 <= BYTES as u64 / PAGE as u64, "{account:?}");
}

/// BBN Report 3970, section 1: a write looks for its block in the pool first.
#[test]
fn ten_writes_into_a_page_are_one_of_the_disk() {
    let region = Region::over(file_of(BYTES).0, &options(1 << 20)).expect("made");
    let write_each = || {
        for piece in 0..BYTES / PAGE * 10 {
            let at = piece / 10 * PAGE + piece % 10 * 400;
            region.write_at(at as u64, &[piece as u8; 400]).expect("written");
        }
        region.flush().expect("flushed");
        region.account().written_bytes
    };
    assert_eq!(write_each(), BYTES as u64);
    assert_eq!(
        write_each(),
        2 * BYTES as u64,
        "a page that is written again later is another write"
    );
}

#[test]
fn sizes_and_places_out_of_range_are_refused() {
    let kind = |result: weir::Result<Region>| result.err().map(|error| error.kind());
    assert_eq!(kind(Region::new(0, &options(1 << 20))), Some(ErrorKind::Invalid));
    assert_eq!(kind(Region::new(1 << 20, &options(LEAST - 1))), Some(ErrorKind::Invalid));
    assert_eq!(kind(Region::new(u64::MAX, &options(1 << 20))), Some(ErrorKind::Invalid));
    let error = Region::new(1 << 20, &options(7)).expect_err("too little");
    assert_eq!(
        error.to_string(),
        "cannot set the memory of a region: 7 bytes are too few: 32768 at least"
    );
    let nowhere = options(1 << 20).spill_directory("/nonexistent/place");
    let error = Region::new(1 << 20, &nowhere).expect_err("no directory");
    assert!(error.to_string().starts_with("cannot spill to '/nonexistent/place': "), "{error}");
    let region = Region::new(10_000, &options(1 << 20)).expect("made");
    for (at, bytes) in [(10_000, 1), (9_999, 2), (u64::MAX, 1)] {
        let error = region.read_at(at, &mut vec![0; bytes]).expect_err("beyond");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(
            region.will_need(at, bytes as u64).expect_err("beyond").kind(),
            ErrorKind::Invalid
        );
    }
    region.read_at(10_000, &mut []).expect("nothing at the end");
    let read_only = File::open("/proc/self/exe").expect("opened");
    assert_eq!(kind(Region::over(read_only, &options(1 << 20))), Some(ErrorKind::Os));
    let no_file = File::open("/").expect("opened");
    assert_eq!(kind(Region::over(no_file, &options(1 << 20))), Some(ErrorKind::Invalid));
}

#[test]
fn a_region_grows_to_what_was_reserved() {
    let most = 3 << 20;
    let region = Region::new(PAGE as u64 + 5, &options(LEAST).most_bytes(most)).expect("made");
    region.write_at(PAGE as u64 + 4, &[9]).expect("written");
    assert_eq!(region.grow(most + 1).expect_err("too long").kind(), ErrorKind::Invalid);
    assert_eq!(region.grow(5).expect_err("too short").kind(), ErrorKind::Invalid);
    region.grow(most).expect("grown");
    assert_eq!(region.len(), most);
    for at in (2 * PAGE as u64..most).step_by(PAGE) {
        assert_eq!(region.read_array(at).expect("read"), [0; 8]);
        region.write_at(at, &at.to_le_bytes()).expect("written");
    }
    for at in (2 * PAGE as u64..most).step_by(PAGE) {
        assert_eq!(region.read_array(at).expect("read"), at.to_le_bytes());
    }
    assert_eq!(region.read_array(PAGE as u64 + 4).expect("read"), [9]);
}

#[test]
fn what_will_be_needed_comes_before_it_is_touched() {
    let (file, contents) = file_of(BYTES);
    let region = Region::over(file, &options(1 << 20)).expect("made");
    region.will_need(0, 512 << 10).expect("read ahead");
    let before = region.account();
    assert!(before.read_bytes >= 256 << 10, "{before:?}");
    let mut found = vec![0; 256 << 10];
    region.read_at(0, &mut found).expect("read");
    assert!(found == contents[..found.len()]);
    assert_eq!(region.account().hard_faults, before.hard_faults);
}

const WATCHED: u64 = 200 * PAGE as u64;

fn touch_for_a_while(is_mapped: bool) {
    let mut stdin = std::io::stdin();
    let orders = |mut touch: Box<dyn FnMut(usize)>| {
        let mut random = Random(5);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            (0..BYTES).step_by(PAGE).for_each(&mut touch);
            (0..1000).for_each(|_| touch(random.below(BYTES as u64) as usize));
        }
    };
    let options = options(WATCHED);
    if is_mapped {
        let mut region = mapped(BYTES, &options);
        say(std::io::stdin(), region.mechanism().as_bytes());
        orders(Box::new(move |at| region[at] = region[at].wrapping_add(1)));
    } else {
        let region = Region::new(BYTES as u64, &options).expect("made");
        say(std::io::stdin(), region.mechanism().as_bytes());
        orders(Box::new(move |at| region.write_at(at as u64, &[1]).expect("written")));
    }
    say(std::io::stdin(), b"done");
    let _ = stdin.read(&mut [0; 1]);
}

#[test]
fn memory_stays_within_the_budget_as_the_kernel_counts_it() {
    for role in ["mapped", "calls"] {
        let (mut child, socket) = start(role);
        let mechanism = common::hear(&socket);
        let mechanism = String::from_utf8_lossy(&mechanism);
        if mechanism.starts_with("mmap") {
            println!("SKIPPED: {mechanism}");
            common::kill(&mut child);
            continue;
        }
        let (mut most, mut looks) = (0, 0);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1500) {
            most = most.max(region_bytes(child.id()));
            looks += 1;
        }
        assert!((WATCHED / 2..=WATCHED).contains(&most), "{role}: {most} bytes, {looks} looks");
        common::kill(&mut child);
    }
}

#[test]
fn nothing_is_left_of_a_region_that_is_killed() {
    let place = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", &common::role_test(), "--nocapture", "--test-threads=1", "-q"]);
    command.env("WEIR_TEST_ROLE", "fill").env("TMPDIR", place.path());
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("started");
    let deleted = |process: u32| {
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.filter(|link| link.starts_with(place.path())).count()
    };
    let process = child.id();
    until("it has its file", || deleted(process) > 0 && region_bytes(process) > 100 << 10);
    assert_eq!(std::fs::read_dir(place.path()).expect("listed").count(), 0, "it has no name");
    child.kill().expect("killed");
    child.wait().expect("reaped");
    assert_eq!(std::fs::read_dir(place.path()).expect("listed").count(), 0);
}

#[test]
fn in_a_role() {
    match common::role().as_deref() {
        None => {}
        Some("mapped") => touch_for_a_while(true),
        Some("calls") => touch_for_a_while(false),
        Some("fill") => {
            let mut region = mapped(BYTES, &options(WATCHED));
            loop {
                (0..BYTES).step_by(PAGE).for_each(|at| region[at] = 1);
            }
        }
        Some("kernel") => {
            let mut region = mapped(BYTES, &options(WATCHED));
            let mechanism = region.mechanism();
            assert_eq!(
                mechanism,
                "mmap and madvise, without a budget: WEIR_REGION_PAGING asks for it"
            );
            ADVICE.into_iter().for_each(|advice| region.advise(advice).expect("advised"));
            region.fill(3);
            region.flush().expect("flushed");
            assert!(region.iter().all(|byte| *byte == 3));
        }
        Some("cut off") => {
            let (file, _) = file_of(BYTES);
            let other = file.try_clone().expect("cloned");
            match MappedRegion::over(sole(&file), &options(LEAST)) {
                Ok(region) => {
                    other.set_len(0).expect("cut off");
                    panic!("it read {}", region[BYTES / 2]);
                }
                Err(why) => println!("SKIPPED: {why}"),
            }
        }
        Some("cut off beneath dirty pages") => {
            let (file, _) = file_of(BYTES);
            let other = file.try_clone().expect("cloned");
            match MappedRegion::over(sole(&file), &options(LEAST)) {
                Ok(mut region) => {
                    region.iter_mut().step_by(PAGE).for_each(|byte| *byte = 7);
                    region.flush().expect("flushed");
                    region.iter_mut().rev().step_by(PAGE).take(4).for_each(|byte| *byte = 8);
                    other.set_len(BYTES as u64 / 2).expect("cut off");
                    let sum: u64 = region.iter().step_by(PAGE).map(|byte| u64::from(*byte)).sum();
                    panic!("it read all of it: {sum} of {}", 7 * BYTES / PAGE);
                }
                Err(why) => println!("SKIPPED: {why}"),
            }
        }
        Some(other) => panic!("no role {other}"),
    }
}

#[test]
fn where_the_kernel_pages_the_region_says_so() {
    let output = Command::new(std::env::current_exe().expect("a program"))
        .args(["--exact", &common::role_test(), "--nocapture", "--test-threads=1", "-q"])
        .env("WEIR_TEST_ROLE", "kernel")
        .env("WEIR_REGION_PAGING", "kernel")
        .output()
        .expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_forked_child_has_no_part_in_a_region() {
    let region = Region::new(BYTES as u64, &options(LEAST)).expect("made");
    let mut front = mapped(BYTES, &options(LEAST));
    region.write_at(5, b"parent").expect("written");
    let body = || {
        let forked = |kind: Option<ErrorKind>| kind == Some(ErrorKind::Forked);
        let refused = [
            region.read_at(0, &mut [0]).err(),
            region.write_at(0, &[0]).err(),
            region.flush().err(),
            front.advise(RegionAdvice::Random).err(),
            front.will_need(0, 1).err(),
        ];
        let all = refused.into_iter().all(|error| forked(error.map(|error| error.kind())));
        u8::from(!all || region.account() != Default::default())
    };
    // SAFETY: the child makes no threads, and ends.
    let child = unsafe { weir_measure::sys::fork::copy(body) };
    assert!(child.expect("forked").succeeded().expect("reaped"), "all of it is the parent's");
    assert_eq!(region.read_array(5).expect("read"), *b"parent");
    churn(BYTES, 1, 500, |at, bytes, writes| {
        if writes {
            front[at..at + bytes.len()].copy_from_slice(bytes);
        } else {
            bytes.copy_from_slice(&front[at..at + bytes.len()]);
        }
    });
}

/// Calls of the kernel touch a region as the program does, where faults of the kernel may be served.
#[test]
fn the_kernel_reads_into_a_mapped_region() {
    let mut region = mapped(BYTES, &options(LEAST));
    let (mut file, contents) = file_of(BYTES);
    file.seek(SeekFrom::Start(0)).expect("seeked");
    let read = file.read_exact(&mut region);
    if region.serves_calls() {
        read.expect("read");
        assert!(region[..] == contents);
    } else {
        assert_eq!(read.err().and_then(|error| error.raw_os_error()), Some(libc::EFAULT));
    }
}

/// Other processes saw the length that it had been made with.
#[test]
fn a_region_that_grows_is_as_long_in_its_account() {
    let page = rustix::param::page_size() as u64;
    let (first, most) = (61 * page, 257 * page);
    let region = Region::new(first, &RegionOptions::new().most_bytes(most)).expect("made");
    let has = |bytes: u64| {
        let (own, regions) = (std::process::id(), weir::stat::regions());
        regions.iter().any(|stat| stat.pid == own && stat.region_bytes == bytes)
    };
    assert!(has(first) && !has(most));
    region.grow(most).expect("grown");
    assert!(has(most) && !has(first));
}
