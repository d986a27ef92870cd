//! Tests of what both engines promise, whatever the file is on.

pub mod faulty;
mod places;

use super::*;
use crate::memory::Frames;
use faulty::{Faults, Faulty};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use weir_sys::spill::TransferDirection;

const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
const FRAME_BYTES: usize = 16 << 10;

type Done = Vec<(u64, std::result::Result<(), Errno>)>;

impl FrameTransfers {
    /// Opens the best engine for this directory, inside one that fails on demand.
    pub(crate) fn faulty(directory: &Path) -> (FrameTransfers, Faults) {
        let mut faults = None;
        let transfers = FrameTransfers::open_as(directory, EngineChoice::Best).expect("opened");
        let transfers = transfers.map_engine(|engine| {
            let (engine, told) = Faulty::new(engine).expect("faulty");
            faults = Some(told);
            Box::new(engine)
        });
        (transfers, faults.expect("told"))
    }
}

/// Both engines, or only threads if the kernel forbids io_uring.
fn engines(directory: &Path) -> Vec<FrameTransfers> {
    let made = |wanted| FrameTransfers::open_as(directory, wanted);
    let mut engines = vec![made(EngineChoice::Threads).expect("threads")];
    match made(EngineChoice::Uring) {
        Ok(uring) => engines.push(uring),
        Err(error) => eprintln!("SKIPPED: {error}"),
    }
    engines
}

fn frames(count: u32) -> Arc<Frames> {
    Frames::new(FRAME_BYTES, count).expect("frames")
}

/// Bytes that tell their block and their place in it.
fn pattern(block: u64) -> Vec<u8> {
    let word = |at: u64| (block << 32 | at).to_ne_bytes();
    (0..FRAME_BYTES as u64 / 8).flat_map(word).collect()
}

fn fill(frames: &Arc<Frames>, frame: u32, block: u64) {
    let mut writer = frames.writer(frame).expect("a free frame");
    writer.space().copy_from_slice(&pattern(block));
    writer.commit(FRAME_BYTES);
}

fn holds(frames: &Arc<Frames>, frame: u32, block: u64) -> bool {
    frames.reader(frame).is_some_and(|reader| reader.bytes(0) == pattern(block))
}

fn lend(frames: &Arc<Frames>, direction: TransferDirection, which: &[u32]) -> Vec<FrameLoan> {
    which.iter().map(|frame| frames.lend(*frame, direction).expect("lent")).collect()
}

/// Waits until some transfers are done.
fn some(transfers: &mut FrameTransfers) -> Done {
    let mut done = Vec::new();
    while done.is_empty() {
        let descriptor = transfers.descriptor().expect("ours");
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        match poll(&mut polled, Some(&PATIENCE)) {
            Err(Errno::INTR) => continue,
            ready => assert_eq!(ready, Ok(1), "nothing is completed"),
        }
        transfers.completed(|token, result| {
            let result = result.map_err(|failure| match failure {
                Failure::Os(cause) => cause,
                Failure::Lost { offset } => panic!("lost at {offset} by a disk that loses nothing"),
            });
            done.push((token, result));
        });
    }
    done
}

/// Waits for all transfers, and sorts them by their tokens.
fn all(transfers: &mut FrameTransfers) -> Done {
    let mut done = Vec::new();
    while transfers.in_flight() > 0 {
        done.extend(some(transfers));
    }
    done.sort_by_key(|(token, _)| *token);
    done
}

/// One transfer, from its start to its end.
fn one(
    transfers: &mut FrameTransfers,
    offset: u64,
    loans: Vec<FrameLoan>,
) -> std::result::Result<(), Errno> {
    let mut loans = loans;
    assert!(transfers.start(7, offset, &mut loans), "there is room");
    transfers.submit();
    all(transfers).into_iter().map(|(_, result)| result).next().expect("completed")
}

#[test]
fn scattered_frames_come_back_as_they_went() {
    let directory = tempfile::tempdir().expect("a directory");
    for mut transfers in engines(directory.path()) {
        let frames = frames(40);
        let mut sizes = Vec::new();
        for count in 1..=MOST_PIECES as u32 {
            // Spread over the pool, against the order of memory.
            let which: Vec<u32> = (0..count).map(|at| (39 - 7 * at % 40) % 40).collect();
            let offset = u64::from(count) * 64 * FRAME_BYTES as u64;
            let block = |at: usize| u64::from(count) << 8 | at as u64;
            which.iter().enumerate().for_each(|(at, frame)| fill(&frames, *frame, block(at)));
            one(&mut transfers, offset, lend(&frames, TransferDirection::ToDisk, &which))
                .expect("written");
            which.iter().for_each(|frame| fill(&frames, *frame, 0));
            one(&mut transfers, offset, lend(&frames, TransferDirection::FromDisk, &which))
                .expect("read");
            let right = which.iter().enumerate();
            sizes.push(right.filter(|(at, frame)| holds(&frames, **frame, block(*at))).count());
        }
        assert_eq!(sizes, (1..=MOST_PIECES).collect::<Vec<_>>(), "{}", transfers.engine());
    }
}

#[test]
fn as_many_as_there_is_room_for_are_in_flight_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    for mut transfers in engines(directory.path()) {
        let most = transfers.room() as u32;
        let frames = frames(2 * most + 1);
        let offset = |number: u32| u64::from(number) * FRAME_BYTES as u64;
        let start = |transfers: &mut FrameTransfers, number: u32, frame: u32, direction| {
            let mut loan = lend(&frames, direction, &[frame]);
            let started = transfers.start(number.into(), offset(number), &mut loan);
            assert_eq!(started, loan.is_empty(), "what is not started is given back");
            started
        };
        for number in 0..most {
            fill(&frames, number, number.into());
            assert!(start(&mut transfers, number, number, TransferDirection::ToDisk));
        }
        fill(&frames, most, 0);
        assert!(
            !start(&mut transfers, most, most, TransferDirection::ToDisk),
            "there is no more room"
        );
        transfers.submit();
        let done = all(&mut transfers);
        assert_eq!(done, (0..most.into()).map(|token| (token, Ok(()))).collect::<Done>());
        // Half of it is read back while the other half is written again, elsewhere.
        for number in 0..most / 2 {
            assert!(start(&mut transfers, number, most + number, TransferDirection::FromDisk));
            assert!(start(&mut transfers, most + number, number, TransferDirection::ToDisk));
            transfers.submit();
        }
        assert!(all(&mut transfers).iter().all(|(_, result)| result.is_ok()));
        assert!((0..most / 2).all(|number| holds(&frames, most + number, number.into())));
        assert_eq!((transfers.in_flight(), transfers.room()), (0, most as usize));
    }
}

#[test]
fn what_cannot_be_a_transfer_is_not_started() {
    let directory = tempfile::tempdir().expect("a directory");
    for mut transfers in engines(directory.path()) {
        let frames = frames(20);
        (0..20).for_each(|frame| fill(&frames, frame, 1));
        let mut loans = Vec::new();
        assert!(!transfers.start(0, 0, &mut loans), "nothing");
        let many: Vec<u32> = (0..=MOST_PIECES as u32).collect();
        loans = lend(&frames, TransferDirection::ToDisk, &many);
        assert!(!transfers.start(0, 0, &mut loans), "too many");
        loans.truncate(1);
        loans.extend(frames.lend(19, TransferDirection::FromDisk));
        assert!(!transfers.start(0, 0, &mut loans), "both ways");
        assert_eq!((loans.len(), transfers.in_flight()), (2, 0));
    }
}

#[test]
fn what_was_never_written_is_an_error_and_never_zeros() {
    let directory = tempfile::tempdir().expect("a directory");
    for mut transfers in engines(directory.path()) {
        let frames = frames(3);
        fill(&frames, 0, 5);
        one(&mut transfers, 0, lend(&frames, TransferDirection::ToDisk, &[0])).expect("written");
        let beyond = 1 << 40;
        let read = one(&mut transfers, beyond, lend(&frames, TransferDirection::FromDisk, &[1, 2]));
        assert_eq!(read, Err(Errno::IO), "{}", transfers.engine());
        assert_eq!(frames.reader(1).expect("free again").bytes(0), b"");
    }
}

#[test]
fn an_engine_that_goes_waits_for_the_kernel_and_gives_back_its_frames() {
    let directory = tempfile::tempdir().expect("a directory");
    for round in 0..20 {
        for mut transfers in engines(directory.path()) {
            let frames = frames(64);
            for token in 0..16 {
                let which: Vec<u32> = (0..4).map(|at| token as u32 * 4 + at).collect();
                which.iter().for_each(|frame| fill(&frames, *frame, token));
                let mut loans = lend(&frames, TransferDirection::ToDisk, &which);
                assert!(transfers.start(token, token << 20, &mut loans));
                if token < round {
                    transfers.submit();
                }
            }
            drop(transfers);
            assert!((0..64).all(|frame| frames.writer(frame).is_some()), "all are free");
        }
    }
}

#[test]
fn an_engine_fails_as_it_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut transfers, faults) = FrameTransfers::faulty(directory.path());
    let frames = frames(4);
    (0..4).for_each(|frame| fill(&frames, frame, frame.into()));
    let (to, from) = (TransferDirection::ToDisk, TransferDirection::FromDisk);
    faults.fail_after(1, to, Errno::NOSPC);
    let mut write =
        |frame: u32| one(&mut transfers, u64::from(frame) << 20, lend(&frames, to, &[frame]));
    assert_eq!([0, 1, 2].map(&mut write), [Ok(()), Err(Errno::NOSPC), Ok(())]);
    faults.fail_all(to, Some(Errno::IO));
    assert_eq!([1, 3].map(&mut write), [Err(Errno::IO); 2]);
    assert!(holds(&frames, 3, 3), "what could not be written is there");
    assert_eq!(one(&mut transfers, 2 << 20, lend(&frames, from, &[0])), Ok(()), "reads do not");
    assert!(holds(&frames, 0, 2));
    assert_eq!((faults.started(to), faults.started(from)), (5, 1));
}

#[test]
fn completions_are_held_back_until_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut transfers, faults) = FrameTransfers::faulty(directory.path());
    let frames = frames(2);
    (0..2).for_each(|frame| fill(&frames, frame, frame.into()));
    faults.hold(TransferDirection::ToDisk, true);
    assert!(transfers.start(0, 0, &mut lend(&frames, TransferDirection::ToDisk, &[0])));
    transfers.submit();
    while faults.held() == 0 {
        transfers.completed(|token, _| panic!("{token} is held"));
        std::thread::yield_now();
    }
    assert!(frames.writer(0).is_none(), "it is still lent");
    assert!(holds(&frames, 0, 0), "and can be read");
    std::thread::spawn(move || faults.hold(TransferDirection::ToDisk, false));
    assert_eq!(all(&mut transfers), [(0, Ok(()))]);
    assert!(frames.writer(0).is_some());
}

#[test]
fn a_thread_that_ends_takes_no_transfer_with_it() {
    let directory = tempfile::tempdir().expect("a directory");
    for mut transfers in engines(directory.path()) {
        let frames = frames(64);
        (0..64).for_each(|frame| fill(&frames, frame, frame.into()));
        std::thread::scope(|scope| {
            let handing_over = scope.spawn(|| {
                for token in 0..16_u32 {
                    let which: Vec<u32> = (token * 4..token * 4 + 4).collect();
                    let mut loans = lend(&frames, TransferDirection::ToDisk, &which);
                    assert!(transfers.start(token.into(), u64::from(token) << 20, &mut loans));
                }
                transfers.submit();
            });
            handing_over.join().expect("no panic");
        });
        assert_eq!(all(&mut transfers), (0..16).map(|token| (token, Ok(()))).collect::<Done>());
    }
}
