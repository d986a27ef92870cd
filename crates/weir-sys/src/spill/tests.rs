//! Tests of the file, and of transfers that the kernel answers in parts.

use super::job::{Next, PendingTransfer};
use super::*;
use std::path::Path;

const BLOCK: usize = 4096;

fn file(direct: bool) -> SpillFile {
    SpillFile::open(&std::env::temp_dir(), direct).expect("a file")
}

/// Memory that begins at a block.
struct Memory {
    bytes: Vec<u8>,
    skip: usize,
}

impl Memory {
    fn new(blocks: usize) -> Memory {
        let bytes = vec![0; (blocks + 1) * BLOCK];
        let skip = bytes.as_ptr().align_offset(BLOCK);
        Memory { bytes, skip }
    }

    fn blocks(&mut self) -> &mut [u8] {
        let end = self.bytes.len() - BLOCK;
        &mut self.bytes[self.skip..][..end]
    }

    /// The blocks, one piece each, the last first.
    fn pieces(&mut self) -> Vec<MemoryPiece> {
        let blocks = self.blocks().chunks_mut(BLOCK).rev();
        blocks.map(|block| MemoryPiece { start: block.as_mut_ptr(), bytes: block.len() }).collect()
    }
}

/// Starts one transfer of all of the memory and waits for it.
fn transfer(
    engine: &mut dyn SpillEngine,
    to: TransferDirection,
    memory: &mut Memory,
) -> Result<(), Errno> {
    // SAFETY: the memory is borrowed until the transfer is completed.
    assert!(unsafe { engine.start(1, to, 8192, &memory.pieces()) });
    engine.submit();
    let mut outcome = None;
    while outcome.is_none() {
        engine.completed(&mut |_, result| outcome = Some(result));
        std::thread::yield_now();
    }
    outcome.expect("completed")
}

/// Engines that ask the kernel for at most a block at once.
fn slow_engines() -> Vec<Box<dyn SpillEngine>> {
    let threads = threads::Threads::with_calls_of(BLOCK, Arc::new(file(true)));
    let mut engines: Vec<Box<dyn SpillEngine>> = vec![Box::new(threads.expect("threads"))];
    match uring::Uring::new(Arc::new(file(true))) {
        Ok(mut uring) => {
            uring.most_call_bytes = BLOCK;
            engines.push(Box::new(uring));
        }
        Err(error) => eprintln!("SKIPPED: no io_uring: {error}"),
    }
    engines
}

#[test]
fn transfers_are_continued_until_they_are_whole() {
    for mut engine in slow_engines() {
        let (mut from, mut to) = (Memory::new(MOST_PIECES), Memory::new(MOST_PIECES));
        for (at, byte) in from.blocks().iter_mut().enumerate() {
            *byte = (at / 7) as u8;
        }
        transfer(&mut *engine, TransferDirection::ToDisk, &mut from).expect("written");
        transfer(&mut *engine, TransferDirection::FromDisk, &mut to).expect("read");
        assert!(from.blocks() == to.blocks(), "{}", engine.name());
        assert_eq!(engine.in_flight(), 0);
    }
}

/// A transfer of three pieces of 8 KiB at 0.
fn job() -> PendingTransfer {
    let at = |number: usize| std::ptr::without_provenance_mut((number + 1) << 20);
    let pieces = [0, 1, 2].map(|number| MemoryPiece { start: at(number), bytes: 2 * BLOCK });
    PendingTransfer::new(7, TransferDirection::ToDisk, 0, &pieces).expect("a transfer")
}

fn left(job: &PendingTransfer) -> Vec<(usize, usize)> {
    let pieces = job.call(usize::MAX).iter();
    pieces.map(|piece| (piece.iov_base as usize, piece.iov_len)).collect()
}

#[test]
fn a_short_answer_leaves_the_rest() {
    let cached = file(false);
    let mut job = job();
    assert_eq!(job.answered(3 * BLOCK as i64, &cached), Next::GoOn);
    assert_eq!(left(&job), [((2 << 20) + BLOCK, BLOCK), (3 << 20, 2 * BLOCK)]);
    assert_eq!((job.offset, job.end()), (3 * BLOCK as u64, 6 * BLOCK as u64));
    assert_eq!(job.answered(1, &cached), Next::GoOn);
    assert_eq!(left(&job)[0], ((2 << 20) + BLOCK + 1, BLOCK - 1));
    assert_eq!(job.answered(3 * BLOCK as i64 - 1, &cached), Next::Done(Ok(())));
}

#[test]
fn past_the_page_cache_the_rest_begins_where_blocks_do() {
    let direct = file(true);
    if !direct.is_direct() {
        eprintln!("SKIPPED: {:?}", direct.remarks());
        return;
    }
    let mut job = job();
    assert_eq!(job.answered(BLOCK as i64 + 1, &direct), Next::GoOn);
    assert_eq!(job.offset % direct.align(), 0);
    assert_eq!(job.answered(1, &direct), Next::Done(Err(Errno::IO)), "no block is no progress");
}

#[test]
fn what_was_interrupted_is_asked_for_again_and_not_for_ever() {
    let cached = file(false);
    let mut job = job();
    for cause in [libc::EINTR, libc::EAGAIN, libc::ECANCELED] {
        assert_eq!(job.answered(-i64::from(cause), &cached), Next::GoOn);
    }
    let again = |job: &mut PendingTransfer| job.answered(-i64::from(libc::EAGAIN), &cached);
    let last = (0..1_000_000).map(|_| again(&mut job)).find(|next| *next != Next::GoOn);
    assert_eq!(last, Some(Next::Done(Err(Errno::AGAIN))));
    assert_eq!(job.answered(-i64::from(libc::ENOSPC), &cached), Next::Done(Err(Errno::NOSPC)));
    assert_eq!(job.answered(0, &cached), Next::Done(Err(Errno::IO)), "the end of the file");
}

#[test]
fn the_file_has_no_name_and_one_owner() {
    for direct in [false, true] {
        let file = file(direct);
        let about = rustix::fs::fstat(file.get().expect("ours")).expect("a file");
        assert_eq!((about.st_nlink, about.st_mode & 0o7777), (0, 0o600));
        assert!(direct || !file.is_direct());
        assert!(file.is_direct() || !direct || !file.remarks().is_empty(), "and why not");
    }
}

#[test]
fn a_file_that_must_have_a_name_has_it_no_longer() {
    let own = format!("weir-spill-test-{}", std::process::id());
    let directory = std::env::temp_dir().join(own);
    std::fs::create_dir(&directory).expect("a directory");
    let refusal = rustix::io::Errno::OPNOTSUPP;
    let made = file::open_and_remove(&directory, refusal);
    assert_eq!(std::fs::read_dir(&directory).expect("listed").count(), 0);
    std::fs::remove_dir(&directory).expect("removed");
    let about = rustix::fs::fstat(made.expect("made")).expect("a file");
    assert_eq!((about.st_nlink, about.st_mode & 0o7777), (0, 0o600));
    let error = file::open_and_remove(Path::new("/nonexistent"), refusal).expect_err("refused");
    assert_eq!(Errno::from_io_error(&error), Some(refusal), "what made it try this");
}

/// Otherwise one that a program blocks later, to wait for it, would kill the program here.
#[test]
fn the_threads_of_an_engine_take_no_signals() {
    let _engine = threads::Threads::new(Arc::new(file(false))).expect("threads");
    // Whether each thread with that name, in the text that the kernel has about it, blocks SIGTERM.
    let block = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("/proc").flatten();
        let texts = tasks.flat_map(|task| std::fs::read_to_string(task.path().join("status")));
        let threads = texts.filter(|text| text.starts_with("Name:\tweir-spill\n"));
        let blocked = threads.filter_map(|text| {
            let set = text.lines().find_map(|line| line.strip_prefix("SigBlk:\t"))?;
            Some(u64::from_str_radix(set, 16).ok()? >> (libc::SIGTERM - 1) & 1 == 1)
        });
        blocked.collect::<Vec<_>>()
    };
    let begun = std::time::Instant::now();
    // They begin with what the thread that starts them has.
    while block().contains(&false) {
        assert!(begun.elapsed().as_secs() < 10, "none takes a signal: {:?}", block());
        std::thread::yield_now();
    }
    assert!(block().len() >= 4, "all threads are found");
}

#[test]
fn ground_is_taken_ahead_in_company_only() {
    let file = file(true).take_ahead(1 << 20);
    let size = || rustix::fs::fstat(file.get().expect("ours")).expect("a file").st_size;
    let mut ahead = file::Ahead::new(&file);
    ahead.cover(&file, (0, 4096), 0);
    assert_eq!(size(), 0);
    ahead.cover(&file, (0, 4096), 3);
    assert_eq!(size(), 1 << 20);
    ahead.cover(&file, (4096, 8192), 3);
    assert_eq!(size(), 1 << 20, "it is there");
    // No disk has that much: the write will report it.
    ahead.cover(&file, (1 << 60, 1 << 61), 3);
    assert_eq!(size(), 1 << 20);
}

#[test]
fn engines_are_wanted_by_name() {
    let parsed = ["", "uring", "threads"].map(|word| EngineChoice::parse(word).ok());
    assert_eq!(parsed, [EngineChoice::Best, EngineChoice::Uring, EngineChoice::Threads].map(Some));
    let error = EngineChoice::parse("aio").expect_err("refused");
    assert_eq!(error.to_string(), "engine 'aio' is neither uring nor threads");
}
